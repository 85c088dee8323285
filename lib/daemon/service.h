// SPDX-License-Identifier: Apache-2.0
//
// How a daemon lives under a supervisor: readiness and watchdog by sd_notify(3), signals as events. Without
// systemd the notifications do nothing.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace ask {

// Everything is set up; `status` is what `systemctl status` shows.
void notify_ready(const std::string& status);
void notify_status(const std::string& status);
void notify_stopping();
// Tells the supervisor that the daemon is alive; call at least every watchdog_interval().
void notify_watchdog();
// Half of WatchdogSec=, or nothing if the supervisor does not watch.
std::optional<std::chrono::milliseconds> watchdog_interval();

// Tells the supervisor that the daemon is alive, as long as `alive` finds that it is: looked at half-way to
// the end of what the supervisor waits for, and, if it is not, again and again until then.
class Watchdog {
 public:
    explicit Watchdog(std::function<bool()> alive);
    // How often to call look(), at least; far off if nobody watches.
    [[nodiscard]] std::chrono::milliseconds turn() const;
    void look();

 private:
    const std::function<bool()> alive_;
    const std::optional<std::chrono::milliseconds> interval_;
    std::chrono::steady_clock::time_point due_;
};

// Leaves no copy of this process's memory behind when it dies, and lets nobody of its user look into it: it
// holds keys, of flows and of TLS. Call it first.
void keep_memory_private();

// Signals as a file descriptor. Create before any thread starts, since threads inherit the mask: the signals
// are blocked in the whole process from then on. SIGPIPE is ignored too.
class SignalEvents {
 public:
    static Result<SignalEvents> create(const std::vector<int>& signals);

    // For poll(2): readable when a signal is there.
    [[nodiscard]] int fd() const { return fd_.get(); }
    // The next signal's number, or nothing if none comes within `timeout`, or before the descriptor `other`
    // is readable.
    Result<std::optional<int>> wait(std::chrono::milliseconds timeout, int other = -1);

 private:
    explicit SignalEvents(UniqueFd fd) : fd_(std::move(fd)) {}

    UniqueFd fd_;
};

// Exit status of a command that ended with `error` (docs/commands.md).
[[nodiscard]] inline int exit_code(const Error& error) {
    return static_cast<int>(error.code());
}

}  // namespace ask
