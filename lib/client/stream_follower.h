// SPDX-License-Identifier: Apache-2.0
//
// A member's connection about its stream, on a thread of its own, since what it says concerns several
// threads: the one that reads input and each that sends a window. Once something has been heard of the
// stream, it outlives the agent. Internal to lib/client.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/base/event_fd.h"
#include "lib/base/result.h"
#include "lib/base/runtime.h"
#include "lib/client/stream_news.h"
#include "lib/client/stream_view.h"
#include "lib/client/trouble.h"
#include "proto/local.pb.h"

namespace ask::client {

struct FollowOptions {
    std::string agent{};
    std::string name{};
    std::string to{};
    std::string token{};
    std::uint64_t member = 0;
    std::uint64_t nonce = 0;             // of an earlier process of the same member; 0: none
    std::uint64_t committed = 0;         // the same
    std::vector<std::uint64_t> keeps{};  // the same
    std::chrono::milliseconds deadline{};
};

class StreamFollower {
 public:
    explicit StreamFollower(FollowOptions options);
    StreamFollower(const StreamFollower&) = delete;
    StreamFollower& operator=(const StreamFollower&) = delete;
    ~StreamFollower();

    // Raised by everything that happens.
    [[nodiscard]] std::uint64_t version() const { return version_.load(); }
    [[nodiscard]] StreamView view() const;
    // Why nothing more will be heard.
    [[nodiscard]] Result<> failed() const;
    // Until the version is another one, and for so long at most. By any thread.
    void wait(std::uint64_t version, std::chrono::milliseconds most) const;
    // Readable after something has happened, for one thread, which drains it.
    [[nodiscard]] const EventFd& changed() const { return changed_; }
    // Wakes whoever waits.
    void poke();
    // What it tells of this member from here on.
    void keep(std::vector<std::uint64_t> windows, bool leaves);
    // What people should hear, once.
    [[nodiscard]] std::vector<StreamNews> take_news();

 private:
    void run();
    // Whether it is to end, within so long.
    [[nodiscard]] bool stops_within(std::chrono::milliseconds most) const;
    Result<> serve();
    Result<> take(const v1::LocalReply& reply);
    void note_trouble(const std::string& trouble);
    void note_known();
    void note_left_out(const StreamView& view);
    [[nodiscard]] bool goes_on_after(const Error& error) const;
    [[nodiscard]] v1::LocalRequest request() const;

    FollowOptions options_;
    EventFd stop_;
    EventFd wake_;
    EventFd changed_;
    std::atomic<std::uint64_t> version_{1};
    mutable Mutex mutex_;
    mutable CondVar heard_;
    StreamView view_;
    std::optional<Error> failed_;
    std::vector<std::uint64_t> keeps_;
    // That it has heard of and that are not committed. A view takes their place here before whoever cuts goes
    // by it.
    std::set<std::uint64_t> known_;
    bool leaves_ = false;
    std::vector<StreamNews> news_;
    std::uint64_t told_left_out_ = 0;  // the latest window of which that has been said
    Trouble trouble_;
    Thread thread_;
};

}  // namespace ask::client
