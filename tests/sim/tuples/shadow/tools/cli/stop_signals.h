// SPDX-License-Identifier: Apache-2.0
//
// The header of this name, for the simulator: nobody interrupts a simulated command, it is killed.
#pragma once

namespace ask::cli {

class StopSignals {
 public:
    [[nodiscard]] static int fd() { return -1; }
    [[nodiscard]] static bool raised() { return false; }
};

}  // namespace ask::cli
