// SPDX-License-Identifier: Apache-2.0
//
// Parts of tools/bench fetch that are not the product.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/result.h"

namespace ask::bench {

struct FetchJob {
    std::string task;
    std::string to;
    std::string pins;  // the switch's directory under bpffs
    std::uint32_t keys = 0;
    std::vector<int> processes;  // of which the CPU time from the last tuple to the result is wanted
};
// The task's only sender: says what its keys will be, fills the back level that is granted for them, sends
// those that found no place, and ends. A line of JSON on standard output.
Result<> send_filled(const FetchJob& job);

// Runs a command that writes lines "key<TAB>value", sorted: whether they are those of keys 0 to `keys` - 1,
// each once. The most that it had resident goes to standard output, as JSON.
Result<> check_result(std::uint32_t keys, const std::vector<std::string>& command);

}  // namespace ask::bench
