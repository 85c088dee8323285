// SPDX-License-Identifier: Apache-2.0
//
// Streams tuples into a task through this host's agent.
//
//     auto session = ask::client::SendSession::open({.task = "wordcount", .to = "h4"});
//     ...session->send("apple", 1)...
//     auto report = session->finish();
//
// Only finish() tells that the tuples are in the result, each exactly once. Anything else - an error, the
// session's destruction, the end of the process - tears the task down on all hosts, and nothing is committed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/client/task.h"
#include "lib/tuples/fit/key_sample.h"
#include "lib/tuples/tuple.h"

namespace ask::client {

struct SendOptions {
    std::string agent{};  // the agent's socket; empty: ASK_AGENT, else /run/ask/agent.sock
    std::string task{};   // id, as the receiver opened it
    std::string to{};     // the receiver's host: a name its agent knows or can resolve, or an address
    // Tuples held back, here, to merge equal keys before they travel (lib/tuples/combiner.h), to 2^20; 0:
    // none. Unset: the agent's default.
    std::optional<std::uint32_t> merge_window{};
    // For finding host and task, and without progress afterwards.
    std::chrono::milliseconds deadline{30'000};
    // Of the tuples to come, for a receiver that chooses its task's geometry by it; without one it cannot.
    std::optional<KeySample> sample{};
    bool as_count = false;  // every value is 1, whatever send() is given
    // Should the switch lose what it has aggregated, the application can open another session and send
    // everything once more: calls then fail with kRunAgain. Until cannot_repeat() says that it no longer can.
    bool can_repeat = false;
    // Tuples are sums of others', which came here: each keeps its value, also where the task counts, and they
    // are lost if this process goes.
    bool partial = false;
    // The run of a stream's window: its member, 0: none, and the window's number. Tuples are what the
    // operator makes of those that came (lib/client/task_tuples.h), perhaps merged.
    std::uint64_t stream_member = 0;
    std::uint64_t window = 0;
    std::string relay{};  // of a partial one: the switch that it is the relay of
    // The caller is always within a call of SendSession, or calls flush() about once a second: it is taken
    // for one that hangs, and the task ends, if the agent hears nothing for half of the deadline, and at
    // least 2 s.
    bool answers_progress = false;
    // How long the session's end waits at most until the agent has given back what it had for it: the ring,
    // the channel. 0: not at all.
    std::chrono::milliseconds let_go{0};
    std::uint64_t max_rate = 0;  // bits a second of frames on the link, all headers included; 0: no limit
    std::string token{};         // that the receiver wants to see; empty: none
    int cancel_fd = -1;          // a descriptor that ends every wait with kAborted once it is readable
    std::function<void(const TaskProgress&)> on_progress{};  // about once a second, within other calls
};

// Not thread-safe.
class SendSession {
 public:
    // Returns once the task is found and joined. kUsage: a bad id. kUnavailable: no agent, or it cannot reach
    // what it needs. kDenied: no permission on its socket. kDeadline: no such host or task within the
    // deadline.
    static Result<SendSession> open(SendOptions options);
    SendSession(SendSession&&) noexcept;
    SendSession& operator=(SendSession&&) noexcept;
    // Closes the connection: without a successful finish() this ends the task for everybody.
    ~SendSession();

    // How the receiver combines values.
    [[nodiscard]] TaskOp op() const;
    // All that it holds open; the same until its end.
    [[nodiscard]] std::vector<int> fds() const;
    // Hands a tuple in; waits while the agent has no room. kLimit: key longer than 65535 bytes. kRunAgain:
    // see SendOptions::can_repeat. Else the reason why the task has failed.
    Result<> send(std::string_view key, std::int64_t value);
    // The same for several, which costs less for each.
    Result<> send(std::span<const Tuple> tuples);
    // Lets the agent see what is not held back to be merged, and learns whether the task has failed
    // meanwhile. Call it before waiting for more input.
    Result<> flush();
    // Like flush(), then waits until `fd` (an input) is readable, with the agent's news taken in meanwhile;
    // as long as it takes: an idle input is no error.
    Result<> wait_for_input(int fd);
    // Of a stream's window: so many tuples, in all, were merged into those that have come, before they came.
    // For statistics alone.
    void note_merged(std::uint64_t tuples);
    // Nothing more will come, and the task cannot succeed: tells everybody concerned why, instead of leaving
    // them to the closed connection. Does not wait; no call is allowed after it.
    void abandon(std::string_view reason) { abandon(Error(Errc::kAborted, std::string(reason))); }
    void abandon(const Error& reason, const std::vector<std::string>& lost_relays = {});
    // From now on a switch that loses what it has ends the task for everybody (kSwitchLost).
    Result<> cannot_repeat();
    // No more tuples: returns once the receiver has committed the result.
    Result<TaskStats> finish();

 private:
    class Impl;
    explicit SendSession(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace ask::client
