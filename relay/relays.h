// SPDX-License-Identifier: Apache-2.0
//
// All tasks that this relay has a part of: who may have one more, and what has become of the last ones.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/rpc/caller.h"
#include "lib/rpc/owner.h"
#include "proto/relay.pb.h"
#include "relay/config.h"
#include "relay/relayed.h"

namespace ask {

struct RelayCounts {
    std::uint64_t opened = 0;
    std::uint64_t committed = 0;
    std::uint64_t failed = 0;
    std::uint64_t refused_room = 0;   // for want of memory or places
    std::uint64_t refused_quota = 0;  // because the owner's share is used up
    std::uint64_t replaced = 0;       // by another instance
    std::uint64_t tuples_out = 0;     // of those that have ended
    std::uint64_t parts = 0;          // the same: sent on before the last
};

// Thread-safe.
class Relays {
 public:
    static constexpr std::size_t kHistory = 64;

    explicit Relays(const RelayConfig& config);
    ~Relays();

    // proto/relay.proto.
    Result<v1::OpenRelayReply> open(const Caller& caller, const v1::OpenRelayRequest& request);
    // What that caller may see.
    [[nodiscard]] v1::RelayStatus status(const Caller& caller) const;
    // Lets go of those that have ended; call now and then.
    void tick();
    // What one owner may have, from now on.
    void set_limits(const RelayConfig& config);
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
    Result<> check_room_locked(const Owner& owner, std::uint64_t bytes);
    [[nodiscard]] Use use_locked(const Owner* owner) const;
    void settle_locked();

    mutable std::mutex mutex_;
    RelayConfig config_;  // from here on under mutex_
    std::map<Key, std::shared_ptr<Relayed>> live_;
    std::list<std::shared_ptr<Relayed>> ending_;  // that another instance has replaced
    std::deque<std::pair<Owner, v1::RelayedTask>> history_;
    std::set<std::uint64_t> over_;  // instances of history_
    RelayCounts counts_;
    std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

}  // namespace ask
