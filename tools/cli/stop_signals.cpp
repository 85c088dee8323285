// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/stop_signals.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>

namespace ask::cli {
namespace {

sigset_t stop_set() {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
        struct sigaction action{};
        if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler != SIG_IGN) {
            sigaddset(&set, signal);
        }
    }
    return set;
}

}  // namespace

Result<StopSignals> StopSignals::block() {
    const sigset_t set = stop_set();
    if (const int err = ::pthread_sigmask(SIG_BLOCK, &set, nullptr); err != 0) {
        return Error::from_errno(err, "block signals");
    }
    UniqueFd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd) {
        return Error::from_errno(errno, "make a signal descriptor");
    }
    static_cast<void>(std::signal(SIGPIPE, SIG_IGN));
    return StopSignals(std::move(fd), set);
}

bool StopSignals::raised() const {
    pollfd poll_fd{fd_.get(), POLLIN, 0};
    return ::poll(&poll_fd, 1, 0) == 1;
}

void StopSignals::take() const {
    signalfd_siginfo info{};
    [[maybe_unused]] const ssize_t size = ::read(fd_.get(), &info, sizeof(info));
}

void StopSignals::unblock() {
    ::pthread_sigmask(SIG_UNBLOCK, &set_, nullptr);
}

}  // namespace ask::cli
