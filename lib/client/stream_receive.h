// SPDX-License-Identifier: Apache-2.0
//
// The receiver of a stream: a result every so often, each a window, of which two at most have a run. This
// connection says which; each window is a ReceiveSession of its own (ReceiveOptions::stream).
//
//     auto stream = ask::client::StreamReceiver::open({.name = "web", .every = 1min, .senders = 3});
//     for (;;) {
//         auto event = stream->next_or(-1);
//         ... StreamWindow: open a receive, wait for its result, put it where it stays, confirm()
//         ... StreamMember: write it down where it stays, noted()
//         ... StreamEnded: return
//     }
//
// What has been committed, and who the members are, is the caller's to keep: the next open() says it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lib/base/result.h"
#include "lib/client/receive_session.h"

namespace ask::client {

// A sender of a stream, and the windows that it is in.
struct StreamMember {
    std::uint64_t member = 0;  // random, of a process or kept by it
    std::string name;          // for people
    std::uint64_t first = 0;   // window
    std::uint64_t last = 0;    // 0: no end
    bool lost = false;         // it has ended without leaving
    friend bool operator==(const StreamMember&, const StreamMember&) = default;
};

// To be received now.
struct StreamWindow {
    std::uint64_t number = 0;
    std::uint64_t begins_ms = 0;  // unix time
    std::uint64_t ends_ms = 0;    // of an empty one
    bool empty = false;           // it has ended without a member: nothing is to be opened; empty_taken()
    bool last = false;
    bool again = false;   // the run before has failed
    std::string task_id;  // to open the receive with
};

// All windows are committed, and there will be none.
struct StreamEnded {};
using StreamEvent = std::variant<StreamWindow, StreamMember, StreamEnded>;

struct StreamReceiveOptions {
    std::string agent{};  // the agent's socket; empty: ASK_AGENT, else /run/ask/agent.sock
    std::string name{};
    std::chrono::milliseconds every{60'000};
    std::uint32_t senders = 0;                   // members to wait for before the first window; 0: any
    std::chrono::milliseconds deadline{30'000};  // without a sign of a member
    bool allow_incomplete = false;
    std::uint64_t nonce = 0;              // of where the windows are kept; not 0
    std::uint64_t committed = 0;          // the last window there; 0: none
    std::vector<StreamMember> members{};  // as noted there
    ReceiveOptions window{};              // what each is opened with; from and token are the stream's
    int cancel_fd = -1;                   // ends every wait with kAborted once it is readable
    std::function<void(const TaskProgress&)> on_progress{};  // within next_or()
};

// Not thread-safe.
class StreamReceiver {
 public:
    // kUsage: a bad name or number. kExists: the name is in use. kUnavailable: no agent.
    static Result<StreamReceiver> open(const StreamReceiveOptions& options);
    StreamReceiver(StreamReceiver&&) noexcept;
    StreamReceiver& operator=(StreamReceiver&&) noexcept;
    // Closes the connection: senders keep what is not committed for whoever opens the stream next.
    ~StreamReceiver();

    // What comes next; none: `fd` was readable before.
    Result<std::optional<StreamEvent>> next_or(int fd);
    // What has been written down of a member.
    Result<> noted(const StreamMember& member);
    // An empty window is where the others are.
    Result<> empty_taken(std::uint64_t number);
    // No more windows: those that are open are the last.
    Result<> finish();

 private:
    class Impl;
    explicit StreamReceiver(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace ask::client
