// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/stop_signals.h"

#include <poll.h>
#include <sys/signalfd.h>

#include <cerrno>

namespace ask::cli {
namespace {

sigset_t stop_set() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    return set;
}

}  // namespace

Result<StopSignals> StopSignals::block() {
    const sigset_t set = stop_set();
    if (::sigprocmask(SIG_BLOCK, &set, nullptr) != 0) {
        return Error::from_errno(errno, "block signals");
    }
    UniqueFd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd) {
        return Error::from_errno(errno, "make a signal descriptor");
    }
    static_cast<void>(std::signal(SIGPIPE, SIG_IGN));
    return StopSignals(std::move(fd));
}

bool StopSignals::raised() const {
    pollfd poll_fd{fd_.get(), POLLIN, 0};
    return ::poll(&poll_fd, 1, 0) == 1;
}

void StopSignals::unblock() {
    const sigset_t set = stop_set();
    ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace ask::cli
