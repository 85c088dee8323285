// SPDX-License-Identifier: Apache-2.0
//
// All tasks that this relay has a part of: who may have one more, and what has become of the last ones.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/runtime.h"
#include "lib/control/relay/relayed.h"
#include "lib/net/address_range.h"
#include "lib/rpc/caller.h"
#include "lib/rpc/owner.h"
#include "proto/relay.pb.h"

namespace ask {

// Of all tasks together, and of one owner's.
struct RelayLimits {
    std::uint32_t max_relays = 64;
    std::uint64_t memory_bytes = 0;   // that all may reserve
    std::uint64_t reserve_bytes = 0;  // of one, where its receiver does not say
    std::uint32_t quota_relays = 0;   // of one tenant, or a host without one; 0: seven eighths
    std::uint64_t quota_memory_bytes = 0;
    std::vector<AddressRange> parents{};  // that a task may be sent on to, besides the host that it is of
};

struct RelayCounts {
    std::uint64_t opened = 0;
    std::uint64_t committed = 0;
    std::uint64_t failed = 0;
    std::uint64_t refused_room = 0;    // for want of memory or places
    std::uint64_t refused_quota = 0;   // because the owner's share is used up
    std::uint64_t refused_parent = 0;  // because it would be sent on to a host that is not to be called
    std::uint64_t replaced = 0;        // by another instance
    std::uint64_t tuples_out = 0;      // of those that have ended
    std::uint64_t parts = 0;           // the same: sent on before the last
};

// Thread-safe.
class Relays {
 public:
    static constexpr std::size_t kHistory = 64;

    Relays(const RelayLimits& limits, MakeRelaySessions make_sessions);
    ~Relays();

    // proto/relay.proto.
    Result<v1::OpenRelayReply> open(const Caller& caller, const v1::OpenRelayRequest& request);
    // What that caller may see; who answers is the daemon's to say.
    [[nodiscard]] v1::RelayStatus status(const Caller& caller) const;
    // Lets go of those that have ended; call now and then.
    void tick();
    // A reserve, parents, and what one owner may have, from now on.
    void set_limits(const RelayLimits& limits);
    [[nodiscard]] RelayCounts counts() const;
    [[nodiscard]] std::uint64_t reserved_bytes() const;
    [[nodiscard]] std::size_t size() const;

 private:
    using Key = std::pair<std::string, std::string>;  // receiver, task id
    struct Use {
        std::uint64_t relays = 0;
        std::uint64_t bytes = 0;
    };
    static Result<> check(const v1::OpenRelayRequest& request);
    Result<std::shared_ptr<Relayed>> admit_locked(const Owner& owner, const v1::OpenRelayRequest& request);
    Result<> check_parent_locked(const Owner& owner, const v1::OpenRelayRequest& request);
    [[nodiscard]] bool is_over_locked(std::uint64_t instance) const;
    std::shared_ptr<RelayTurn> replace_locked(const Key& key);
    Result<> check_ending_locked(const v1::OpenRelayRequest& request, const RelayTurn& turn) const;
    Result<> check_room_locked(const Owner& owner, std::uint64_t bytes, const RelayTurn& turn);
    [[nodiscard]] Use use_locked(const Owner* owner, const RelayTurn* without = nullptr) const;
    [[nodiscard]] std::uint64_t held_locked(const RelayTurn& turn) const;
    void each_locked(const std::function<void(const Relayed&)>& visit) const;
    void settle_locked();

    const MakeRelaySessions make_sessions_;
    const Clock::time_point started_ = Clock::now();
    mutable Mutex mutex_;
    RelayLimits limits_;  // from here on under mutex_
    std::map<Key, std::shared_ptr<Relayed>> live_;
    std::list<std::shared_ptr<Relayed>> ending_;  // that another instance has replaced
    std::deque<std::pair<Owner, v1::RelayedTask>> history_;
    std::set<std::uint64_t> over_;  // instances of history_
    RelayCounts counts_;
};

}  // namespace ask
