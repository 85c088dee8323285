// SPDX-License-Identifier: Apache-2.0
//
// Ctrl-C and its relatives as a file descriptor, so that no wait is left out and nothing runs in a handler.
#pragma once

#include <csignal>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace ask::cli {

class StopSignals {
 public:
    // From here on SIGINT, SIGTERM and SIGHUP no longer end the process but make fd() readable, and writing
    // to a closed pipe is an error instead of a signal. Call before any thread starts.
    static Result<StopSignals> block();
    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] bool raised() const;
    // Takes note of one that was: raised() speaks of the next.
    void take() const;
    // The signals end the process again, one that is waiting included.
    void unblock();

 private:
    StopSignals(UniqueFd fd, const sigset_t& set) : fd_(std::move(fd)), set_(set) {}
    UniqueFd fd_;
    sigset_t set_;
};

}  // namespace ask::cli
