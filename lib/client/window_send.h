// SPDX-License-Identifier: Apache-2.0
//
// A window that a member is in, or has been in: its tuples, and the thread that sends them into one run of
// the window after another, until the stream says that it is committed. Internal to lib/client.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "lib/base/event_fd.h"
#include "lib/base/runtime.h"
#include "lib/client/send_pace.h"
#include "lib/client/send_session.h"
#include "lib/client/spool.h"
#include "lib/client/stream_follower.h"

namespace ask::client {

class WindowSend {
 public:
    // `like`: how its sessions are opened, but for task, window and cancel_fd.
    WindowSend(std::uint64_t number, SendOptions like, SpoolRoom& room, SendPace& pace,
               StreamFollower& follower);
    WindowSend(const WindowSend&) = delete;
    WindowSend& operator=(const WindowSend&) = delete;
    // Ends a run that is under way.
    ~WindowSend();

    [[nodiscard]] std::uint64_t number() const { return number_; }
    // By the thread that reads input.
    [[nodiscard]] Spool& spool() { return spool_; }
    // What has been said of the stream: a run that it still looks for may be over. By the thread that reads
    // input.
    void hear(const StreamView& view) const;
    // Tuples that wait for a run that is under way. By the thread that reads input.
    [[nodiscard]] std::uint64_t waiting() const;
    // Its thread has nothing more to do.
    [[nodiscard]] bool done() const { return done_.load(); }
    // Once it is done: of the run that was committed, if it has heard so itself.
    [[nodiscard]] const std::optional<TaskStats>& stats() const { return stats_; }

 private:
    void run();
    // In a run, to its end. What came of it is for the stream to say.
    Result<> send(const OpenStreamWindow& window, bool& joined);
    Result<> send_all(SendSession& session);

    std::uint64_t number_;
    SendOptions like_;
    SendPace& pace_;
    StreamFollower& follower_;
    Spool spool_;
    EventFd cancel_;
    std::atomic<bool> cancelled_{false};
    std::atomic<std::uint64_t> looked_for_{0};  // instance of the run that it is about to join
    std::atomic<bool> done_{false};
    std::atomic<bool> sending_{false};
    std::atomic<std::uint64_t> sent_{0};  // by the run that is under way
    std::optional<TaskStats> stats_;      // the thread's, until done_
    Thread thread_;
};

}  // namespace ask::client
