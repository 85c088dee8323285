// SPDX-License-Identifier: Apache-2.0
//
// A member of a stream: hands tuples in for as long as it likes, and each is in the result of exactly one of
// the stream's windows, the one that the member was in.
//
//     auto stream = ask::client::StreamSender::open({.name = "web", .to = "h4"});
//     ...(*stream)->send(tuples)... (*stream)->wait_for_input(fd)...
//     auto sent = (*stream)->leave();
//
// It keeps what is not committed, and sends it again whenever a run of a window fails. It goes from one
// window to the next when the receiver's clock says so, unless it keeps eight already, within any call: while
// nothing comes, wait_for_input() is such a call.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/client/task.h"
#include "lib/tuples/tuple.h"

namespace ask::client {

// A step from one window to the next, or into the first.
struct StreamStep {
    std::uint64_t ended = 0;    // 0: none
    std::uint64_t entered = 0;  // 0: none, the stream is over
    std::uint64_t committed = 0;
    std::uint64_t nonce = 0;  // of the stream
};

// What an earlier process of a member knew.
struct StreamMemory {
    std::uint64_t member = 0;  // 0: there was none; another one is drawn
    std::uint64_t nonce = 0;
    std::uint64_t committed = 0;
    std::vector<std::uint64_t> ended{};  // windows that it had left, and had not heard to be committed
    std::uint64_t inside = 0;            // the window that it was in; 0: none
    // Hands in what it had given to such a window.
    std::function<Result<>(std::uint64_t window, const std::function<Result<>(std::span<const Tuple>)>&)>
        again{};
};

struct StreamSendOptions {
    std::string agent{};  // the agent's socket; empty: ASK_AGENT, else /run/ask/agent.sock
    std::string name{};   // as the receiver opened it
    std::string to{};     // the receiver's host, as SendOptions has it
    std::string token{};  // that the receiver wants to see; empty: none
    std::chrono::milliseconds deadline{30'000};  // to find the stream
    // What windows that are not committed may take; then nothing is taken in until one is.
    std::size_t spool_bytes = std::size_t{64} << 20U;
    std::uint32_t merge_window = 1U << 17U;  // tuples held back to merge equal keys; 0: none
    // Merged ones are held back for no longer than that; 0: until the window is over.
    std::chrono::milliseconds linger{0};
    // What is handed in between two calls of wait_for_input() goes into one window: then that call alone
    // waits for room, and goes from one window to the next.
    bool in_pieces = false;
    bool as_count = false;                              // every value is 1
    std::uint64_t max_rate = 0;                         // as SendOptions has it
    int cancel_fd = -1;                                 // ends every wait with kAborted while it is readable
    std::function<void(const std::string&)> on_news{};  // what people should hear; within calls
    // Of a member that outlives its process, which can hand in once more what it had handed in.
    StreamMemory memory{};
    // It is in another window from here on: before what it gave to the one before is sent to its end, so that
    // a successor can be told. An error ends the stream for this process.
    std::function<Result<>(const StreamStep&)> on_step{};
};

struct StreamSent {
    std::uint64_t windows = 0;   // committed with it
    std::uint64_t tuples = 0;    // handed in, but for
    std::uint64_t late = 0;      // those that came when the stream took no more
    std::uint64_t left_out = 0;  // windows committed without it
};

// Not thread-safe.
class StreamSender {
 public:
    // Returns once it is in a window, which may take as long as others need to come. kUnknown, kDeadline,
    // kUnavailable: there is no such stream there. kDenied: it does not take this sender.
    static Result<StreamSender> open(StreamSendOptions options);
    StreamSender(StreamSender&&) noexcept;
    StreamSender& operator=(StreamSender&&) noexcept;
    // Without leave(): it is lost, and what it has in windows that are not committed with it.
    ~StreamSender();

    [[nodiscard]] TaskOp op() const;
    // Waits while there is no room. kLimit: a key longer than 65535 bytes. Else why nothing more will come of
    // the stream.
    Result<> send(std::span<const Tuple> tuples);
    // Until `fd` is readable: true. False: the stream takes no more.
    Result<bool> wait_for_input(int fd);
    // The stream takes no more: what is handed in now is late.
    [[nodiscard]] bool over() const;
    // No more tuples: returns once all windows that this sender is in are committed.
    Result<StreamSent> leave();

 private:
    class Impl;
    explicit StreamSender(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace ask::client
