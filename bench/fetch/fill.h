// SPDX-License-Identifier: Apache-2.0
//
// Fills a task's back level of keys of up to 8 bytes as the switch's program would, but from user space, into
// the map that the program has: no tuple is sent for it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "lib/base/result.h"

namespace ask::bench {

// `pins`: the switch's directory under bpffs, which has one task. Keys 0 to `keys` - 1 of bench/fetch/keys.h;
// those that found no place, and would have travelled to the receiver.
Result<std::vector<std::uint32_t>> fill_back(const std::filesystem::path& pins, std::uint32_t keys);

}  // namespace ask::bench
