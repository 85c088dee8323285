// SPDX-License-Identifier: Apache-2.0
//
// The header of this name, for the simulator: waits for descriptors of a simulated process, by its clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>

#include "lib/base/result.h"
#include "tests/sim/tuples/descriptors.h"
#include "tests/sim/tuples/threads.h"

namespace ask {

[[nodiscard]] inline Result<unsigned> wait_readable(std::initializer_list<int> fds,
                                                    std::chrono::milliseconds most) {
    return sim::wait_for_descriptors(fds, sim::sim_now() + most.count() * kMillisecond);
}

[[nodiscard]] inline std::int64_t coarse_ms() {
    return sim::sim_now() / kMillisecond;
}

}  // namespace ask
