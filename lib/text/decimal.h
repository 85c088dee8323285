// SPDX-License-Identifier: Apache-2.0
//
// Decimal numbers of lines as integers, exactly: `12.34` at a scale of 2 is 1234. No floating point anywhere.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/abi/limits.h"
#include "lib/base/result.h"

namespace ask {

inline constexpr unsigned kMaxScale = ASK_MAX_SCALE;

// Parses a whole decimal integer, `-?[0-9]+`, within int64. The error says what is wrong with it.
Result<std::int64_t> parse_int64(std::string_view text);

// Parses `-?[0-9]*(.[0-9]+)?` with a digit at least and `scale` decimals at most: the number times 10^scale,
// within int64. `scale`: 0 to kMaxScale.
Result<std::int64_t> parse_scaled(std::string_view text, unsigned scale);

// Appends value / 10^scale with just so many decimals; what parse_scaled() reads back as `value`.
void append_scaled(std::string& out, std::int64_t value, unsigned scale);

// Appends value / (count x 10^scale) with just so many decimals, the nearest number that has them; of two
// equally near ones that which is farther from zero. `count` is above 0, `scale` and `decimals` are 0 to
// kMaxScale.
void append_mean(std::string& out, std::int64_t value, std::int64_t count, unsigned scale, unsigned decimals);

}  // namespace ask
