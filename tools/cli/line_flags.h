// SPDX-License-Identifier: Apache-2.0
//
// The flags of ask-send that say what its input looks like.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "lib/base/result.h"
#include "tools/cli/input.h"

namespace ask::cli {

struct LineFlags {
    bool count = false;
    std::string delimiter;
    std::string key;
    std::optional<std::uint32_t> value;
    std::optional<unsigned> scale;
    bool raw = false;
    bool crlf = false;
    bool no_decompress = false;
    std::uint64_t skip_bad = 0;
};

void add_line_flags(CLI::App& app, LineFlags& flags);

// kUsage: flags that contradict each other, or that lack another.
Result<InputRules> input_rules(const LineFlags& flags);

}  // namespace ask::cli
