// SPDX-License-Identifier: Apache-2.0
//
// A task's part at this relay: a receive of what comes from below, on the switch beside, and a send of its
// table to the parent. Those below hear of success once the parent's receiver has committed (a child is told
// COMMITTED only after its parent's send has been). In a thread of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/runtime.h"
#include "lib/control/relay/relay_ports.h"
#include "lib/rpc/owner.h"
#include "proto/relay.pb.h"

namespace ask {

// One task's runs at this relay, of which one at a time has anything at the agent. Thread-safe.
class RelayTurn {
 public:
    enum class Had : std::uint8_t { kYes, kNotWanted, kLate };
    // Waits until no other run has the turn, until then at most; `wanted` is asked at first and at each
    // wake().
    Had take(Clock::time_point until, const std::function<bool()>& wanted);
    void give_back();
    void wake();

 private:
    Mutex mutex_;
    CondVar changed_;
    bool taken_ = false;
};

class Relayed {
 public:
    struct Order {
        v1::OpenRelayRequest request;
        Owner owner;                                                      // whose quota it counts against
        std::uint64_t reserve_bytes = 0;                                  // that it counts as
        std::shared_ptr<RelayTurn> turn = std::make_shared<RelayTurn>();  // of the task's runs here
    };
    // Begins at once.
    Relayed(Order order, const MakeRelaySessions& make_sessions);
    // Ends it, if it has not ended.
    ~Relayed();
    Relayed(const Relayed&) = delete;
    Relayed& operator=(const Relayed&) = delete;

    // Until it is open or has failed, or until then: nothing.
    std::optional<Result<v1::OpenRelayReply>> await_open(Clock::time_point until);
    // Another instance of the task takes its place, or nobody wants it any more: why.
    void end(const Error& why);
    // The same because the relay itself ends.
    void stop();
    // And its agent has given back what it had for it.
    [[nodiscard]] bool ended() const;
    [[nodiscard]] v1::RelayedTask describe() const;
    [[nodiscard]] const Order& order() const { return order_; }

 private:
    enum class State : std::uint8_t { kOpening, kReceiving, kSending, kWaiting, kCommitted, kFailed };

    void run();
    Result<> await_turn();
    [[nodiscard]] bool is_wanted() const;
    Result<> run_steps();
    Result<> open();
    [[nodiscard]] Result<> check_switch(const v1::OpenRelayReply& reply) const;
    Result<> pass_on();
    Result<std::unique_ptr<RelayTable>> receive();
    void note_table(const RelayTable& table);
    Result<> send_on(const RelayTable& table);
    Result<> send_pieces(std::string_view key, Wide value);
    Result<> flush_batch();
    void note_below(const RelayProgress& progress);
    void note_above(const std::string& waits_for);
    void show_taking();
    void fail(const Error& error);
    [[nodiscard]] Error for_people(const Error& error) const;
    void set(State state);

    const Order order_;
    const Clock::time_point started_ = Clock::now();
    const std::unique_ptr<RelaySessions> sessions_;

    // Of its thread alone.
    bool has_turn_ = false;
    bool below_open_ = false;
    bool above_open_ = false;
    std::optional<Error> above_failed_;
    bool told_cannot_repeat_ = false;
    bool has_table_ = false;  // from below, which is sent on
    std::vector<Tuple> batch_;

    mutable Mutex mutex_;
    CondVar changed_;
    State state_ = State::kOpening;  // from here on under mutex_
    std::optional<Error> error_;
    std::optional<Error> end_;  // that it was told to end, and why
    bool ended_ = false;
    v1::OpenRelayReply reply_;
    std::string waits_for_;  // what the parent waits for, as it says; changed by its thread alone
    RelayProgress progress_;
    std::uint64_t tuples_out_ = 0;
    std::uint64_t parts_ = 0;
    std::uint64_t table_bytes_most_ = 0;
    std::vector<v1::FlowsFrom> flows_;  // of those below, once all have finished

    Thread thread_;  // last: it uses all of these
};

}  // namespace ask
