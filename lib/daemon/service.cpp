// SPDX-License-Identifier: Apache-2.0
#include "lib/daemon/service.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

#include <array>
#include <csignal>
#include <cstdint>

#include <systemd/sd-daemon.h>

namespace ask {

void notify_ready(const std::string& status) {
    sd_notify(0, ("READY=1\nSTATUS=" + status).c_str());
}

void notify_status(const std::string& status) {
    sd_notify(0, ("STATUS=" + status).c_str());
}

void notify_stopping() {
    sd_notify(0, "STOPPING=1");
}

void notify_watchdog() {
    sd_notify(0, "WATCHDOG=1");
}

std::optional<std::chrono::milliseconds> watchdog_interval() {
    std::uint64_t usec = 0;
    if (sd_watchdog_enabled(0, &usec) <= 0) {
        return std::nullopt;
    }
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::microseconds(usec)) / 2;
}

Watchdog::Watchdog(std::function<bool()> alive)
    : alive_(std::move(alive)), interval_(watchdog_interval()), due_(std::chrono::steady_clock::now()) {}

std::chrono::milliseconds Watchdog::turn() const {
    return interval_.value_or(std::chrono::hours(1));
}

void Watchdog::look() {
    const auto now = std::chrono::steady_clock::now();
    if (interval_ && now >= due_ && alive_()) {
        notify_watchdog();
        due_ = now + *interval_;
    }
}

void keep_memory_private() {
    // Of the two, only this one keeps it from a program that takes cores (core_pattern of "|..."), and from
    // ptrace().
    ::prctl(PR_SET_DUMPABLE, 0);  // NOLINT(cppcoreguidelines-pro-type-vararg)
    // And this one is inherited, and can be seen from outside.
    const rlimit none{.rlim_cur = 0, .rlim_max = 0};
    ::setrlimit(RLIMIT_CORE, &none);
}

Result<SignalEvents> SignalEvents::create(const std::vector<int>& signals) {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : signals) {
        sigaddset(&set, signal);
    }
    if (const int error = pthread_sigmask(SIG_BLOCK, &set, nullptr); error != 0) {
        return Error::from_errno(error, "block signals");
    }
    struct sigaction ignore{};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignore, nullptr);
    UniqueFd fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd) {
        return Error::from_errno(errno, "signalfd");
    }
    return SignalEvents(std::move(fd));
}

Result<std::optional<int>> SignalEvents::wait(std::chrono::milliseconds timeout, int other) {
    // poll() leaves a negative descriptor out.
    std::array<pollfd, 2> entries{pollfd{.fd = fd_.get(), .events = POLLIN, .revents = 0},
                                  pollfd{.fd = other, .events = POLLIN, .revents = 0}};
    if (::poll(entries.data(), entries.size(), static_cast<int>(timeout.count())) < 0 && errno != EINTR) {
        return Error::from_errno(errno, "poll signals");
    }
    signalfd_siginfo info{};
    const ssize_t size = ::read(fd_.get(), &info, sizeof(info));
    if (size < 0 && errno != EAGAIN && errno != EINTR) {
        return Error::from_errno(errno, "read signalfd");
    }
    if (size != static_cast<ssize_t>(sizeof(info))) {
        return std::optional<int>();
    }
    return std::optional<int>(static_cast<int>(info.ssi_signo));
}

}  // namespace ask
