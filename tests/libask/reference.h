// SPDX-License-Identifier: Apache-2.0
//
// What collectives must give, by the rules of docs/values.md and with no code of the system's: random values,
// their fold in the order of ranks, and whether what came is that, or as near to it as the document promises.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/ask/ask.h"

namespace ask::e2e {

// How values are drawn. kExact: such that no order of folding rounds. kOdd: the same with infinities and NaNs
// here and there (sums of floats alone). kReal: of any digits (sums of floats alone).
enum class Style : std::uint8_t { kExact, kOdd, kReal };
[[nodiscard]] const char* name_of(Style style);

struct Case {
    int dtype = ASK_INT32;
    int op = ASK_SUM;
    Style style = Style::kExact;
    std::size_t count = 0;
    std::uint64_t seed = 0;
    std::uint32_t members = 0;
};

[[nodiscard]] const char* dtype_name(int dtype);
[[nodiscard]] const char* op_name(int op);

// What member `rank` has, as it lies in memory.
[[nodiscard]] std::vector<std::byte> input_of(const Case& what, std::uint32_t rank);

// What is wrong with `got`, the fold of all members' inputs; nothing if it is right.
[[nodiscard]] std::optional<std::string> wrong(const Case& what, const std::vector<std::byte>& got);

// Of bytes, to compare members by (FNV-1a).
[[nodiscard]] std::uint64_t digest(const std::vector<std::byte>& bytes);

// SplitMix64.
class Random {
 public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next() {
        std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
        z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
        return z ^ (z >> 31U);
    }
    std::uint64_t below(std::uint64_t limit) { return next() % limit; }

 private:
    std::uint64_t state_;
};

}  // namespace ask::e2e
