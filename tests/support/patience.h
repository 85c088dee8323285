// SPDX-License-Identifier: Apache-2.0
//
// How long a test waits for what has to come. Deadlines are written for a machine of its own;
// ASK_TEST_PATIENCE says how many times as long they are to be where everything takes longer: vm/matrix sets
// it for emulated guests.
#pragma once

#include <chrono>
#include <cstdlib>

namespace ask::test {

inline std::chrono::seconds patience(std::chrono::seconds deadline) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment
    const char* factor = std::getenv("ASK_TEST_PATIENCE");
    return factor == nullptr ? deadline : deadline * std::strtol(factor, nullptr, 10);
}

}  // namespace ask::test
