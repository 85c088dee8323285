// SPDX-License-Identifier: Apache-2.0
//
// A simulated thread that waits for descriptors again and again at one instant, for nothing: a real one would
// take all of a CPU, and here no time would pass.
#pragma once

#include <functional>

namespace ask::sim {

// What is done once about such a thread, which then sleeps between two waits.
void watch_for_spins(std::function<void()> breach);

}  // namespace ask::sim
