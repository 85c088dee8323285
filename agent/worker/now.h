// SPDX-License-Identifier: Apache-2.0
//
// The monotonic clock, as the channels count it.
#pragma once

#include <ctime>

#include "agent/worker.h"

namespace ask {

inline Nanos now_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return Nanos{now.tv_sec} * kSecond + now.tv_nsec;
}

}  // namespace ask
