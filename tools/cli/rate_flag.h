// SPDX-License-Identifier: Apache-2.0
//
// Rates of links, as people write and read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace ask::cli {

// "100M": bits a second, and k, M or G behind it, for a thousand and its powers, whose decimals there may be.
Result<std::uint64_t> parse_rate(std::string_view text);
// "100 Mbit/s", with up to three decimals.
[[nodiscard]] std::string rate_text(std::uint64_t bits_per_second);

}  // namespace ask::cli
