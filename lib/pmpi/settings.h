// SPDX-License-Identifier: Apache-2.0
//
// What the environment asks for. Rank 0 of MPI_COMM_WORLD has the word on all that ranks must agree on: its
// settings travel to the others as they lie in memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "lib/pmpi/ways.h"

namespace ask::pmpi {

constexpr std::size_t kHostLength = 64;
constexpr std::size_t kTextLength = 240;

struct Settings {
    std::array<char, kHostLength> root;     // ASK_PMPI_ROOT; "": rank 0's host of each communicator
    std::array<char, kHostLength> prefix;   // ASK_PMPI_GROUP
    std::array<char, kTextLength> trouble;  // what is wrong with them; "": nothing
    std::uint64_t threshold;                // ASK_PMPI_THRESHOLD, bytes
    std::uint32_t operations;               // ASK_PMPI_OPS: a bit a Kind
    std::uint32_t verbose;                  // ASK_PMPI_VERBOSE
    std::uint32_t join_seconds;             // ASK_PMPI_JOIN
    std::uint32_t report;                   // ASK_PMPI_REPORT is set
};

// Of this process. What cannot be is in `trouble`.
Settings settings_of_environment();

// Text cut to fit.
template <std::size_t kSize>
void put_text(std::array<char, kSize>& to, const char* text) {
    std::size_t at = 0;
    for (; at + 1 < kSize && text[at] != '\0'; ++at) {
        to[at] = text[at];
    }
    to[at] = '\0';
}

// The variable's value, "" if it is not set.
const char* variable(const char* name);

}  // namespace ask::pmpi
