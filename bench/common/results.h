// SPDX-License-Identifier: Apache-2.0
//
// Results as files.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lib/base/result.h"

namespace ask::bench {

// A line of names, from the first row, then a line a row. No text may hold a comma or a quote.
[[nodiscard]] std::string to_csv(const std::vector<nlohmann::ordered_json>& rows);
Result<> write_file(const std::string& path, const std::string& text);

}  // namespace ask::bench
