// SPDX-License-Identifier: Apache-2.0
//
// A task's part at this relay: a receive of what comes from below, on the switch beside, and a send of its table to the
// parent. Those below hear of success once the parent's receiver has committed (a child is told COMMITTED only after its
// parent's send has been). An application of this host's agent, in a thread of its own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "lib/base/event_fd.h"
#include "lib/base/result.h"
#include "lib/client/receive_session.h"
#include "lib/client/send_session.h"
#include "lib/rpc/owner.h"
#include "proto/relay.pb.h"

namespace ask {

class Relayed {
 public:
    using Clock = std::chrono::steady_clock;

    struct Order {
        v1::OpenRelayRequest request;
        Owner owner;                      // whose quota it counts against
        std::uint64_t reserve_bytes = 0;  // that it counts as
        std::string agent;                // socket of this host's agent
    };
    // Begins at once.
    explicit Relayed(Order order);
    // Ends it, if it has not ended.
    ~Relayed();
    Relayed(const Relayed&) = delete;
    Relayed& operator=(const Relayed&) = delete;

    // Until it is open or has failed, or until then: nothing.
    std::optional<Result<v1::OpenRelayReply>> await_open(Clock::time_point until);
    // Another instance of the task takes its place, or nobody wants it any more: why.
    void end(const Error& why);
    [[nodiscard]] bool ended() const;
    [[nodiscard]] v1::RelayedTask describe() const;
    [[nodiscard]] const Order& order() const { return order_; }

 private:
    enum class State : std::uint8_t { kOpening, kReceiving, kSending, kWaiting, kCommitted, kFailed };

    void run();
    Result<> run_steps();
    Result<> open();
    [[nodiscard]] client::ReceiveOptions receive_options();
    [[nodiscard]] client::SendOptions send_options();
    Result<client::ReceiveResult> receive();
    Result<> send_part(const client::ResultMap& part);
    Result<> send_on(const client::ResultMap& table);
    Result<> send_pieces(std::string_view key, Wide value);
    Result<> flush_batch();
    void note_below(const client::TaskProgress& progress);
    void note_above(const client::TaskProgress& progress);
    void show_taking();
    void fail(const Error& error);
    void set(State state);

    const Order order_;
    const Clock::time_point started_ = Clock::now();
    EventFd cancel_;

    // Of its thread alone.
    std::optional<client::ReceiveSession> below_;
    std::optional<client::SendSession> above_;
    std::optional<Error> above_failed_;
    bool told_cannot_repeat_ = false;
    bool has_table_ = false;  // of below_, to be sent on: its result, or a part
    std::string waits_for_;    // what the parent waits for, as it says
    std::vector<Tuple> batch_;

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    State state_ = State::kOpening;  // from here on under mutex_
    std::optional<Error> error_;
    std::optional<Error> end_;  // that it was told to end, and why
    v1::OpenRelayReply reply_;
    client::TaskProgress progress_;
    std::uint64_t tuples_out_ = 0;
    std::uint64_t parts_ = 0;
    std::uint64_t table_bytes_most_ = 0;

    std::thread thread_;  // last: it uses all of these
};

}  // namespace ask
