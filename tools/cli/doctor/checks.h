// SPDX-License-Identifier: Apache-2.0
//
// What is wrong with a machine, of what is known of it, and what to do. No input or output.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "tools/cli/doctor/facts.h"
#include "tools/cli/to_json.h"

namespace ask::cli::doctor {

enum class Level : std::uint8_t {
    kFine,
    kWarning,  // it works, less well than it could, or not for ever
    kFault,    // it does not work
};

struct Finding {
    std::string check;  // what was looked at, a word
    Level level = Level::kFine;
    std::string text;
    std::string remedy;           // what to do; of what is fine, nothing
    Errc code = Errc::kInternal;  // of a fault
};

// All checks, in the order in which faults should be put right: one often causes those after it.
[[nodiscard]] std::vector<Finding> examine(const Facts& facts);

[[nodiscard]] std::string findings_text(const std::vector<Finding>& findings);
[[nodiscard]] Json findings_json(const std::vector<Finding>& findings);
// That of the first fault; 0: there is none.
[[nodiscard]] int exit_code(const std::vector<Finding>& findings);

}  // namespace ask::cli::doctor
