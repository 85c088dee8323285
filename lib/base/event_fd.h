// SPDX-License-Identifier: Apache-2.0
//
// Wakes a thread that sleeps in poll(2) or epoll(7).
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace ask {

class EventFd {
 public:
    EventFd() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
    [[nodiscard]] bool ok() const { return static_cast<bool>(fd_); }
    [[nodiscard]] int fd() const { return fd_.get(); }
    // From any thread. The only failure is a full counter, which is a wake-up as well.
    void notify() const {
        const std::uint64_t one = 1;
        [[maybe_unused]] const ssize_t written = ::write(fd_.get(), &one, sizeof(one));
    }
    // By the thread that was woken.
    void drain() const {
        std::uint64_t count = 0;
        [[maybe_unused]] const ssize_t size = ::read(fd_.get(), &count, sizeof(count));
    }

 private:
    UniqueFd fd_;
};

}  // namespace ask
