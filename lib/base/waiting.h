// SPDX-License-Identifier: Apache-2.0
//
// Waiting for descriptors, as the application's side of streams does it. The simulator has a header of this
// name, whose descriptors are its own (tests/sim/tuples/shadow).
#pragma once

#include <poll.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <initializer_list>

#include "lib/base/result.h"

namespace ask {

// Until one of `fds`, four at most, is readable or has failed; -1 is none. Which, as bits, the first one's
// the lowest. 0: none was within `most`, or a signal has come.
[[nodiscard]] inline Result<unsigned> wait_readable(std::initializer_list<int> fds,
                                                    std::chrono::milliseconds most) {
    std::array<pollfd, 4> polls{};
    std::size_t count = 0;
    for (const int fd : fds) {
        polls.at(count++) = {.fd = fd, .events = POLLIN, .revents = 0};
    }
    const int ready = ::poll(polls.data(), count, static_cast<int>(most.count()));
    if (ready < 0 && errno != EINTR) {
        return Error::from_errno(errno, "wait for descriptors");
    }
    unsigned readable = 0;
    for (std::size_t i = 0; ready > 0 && i < count; ++i) {
        readable |= polls.at(i).revents != 0 ? 1U << i : 0U;
    }
    return readable;
}

// By a clock that nobody sets, of the kernel's last tick: some ms old, and to be had for less than a tuple
// costs.
[[nodiscard]] inline std::int64_t coarse_ms() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

}  // namespace ask
