// SPDX-License-Identifier: Apache-2.0
//
// The groups that this host's agent coordinates: who has joined, who is silent, what became of them. A group
// is opened by the session of the host's own member, which also ends it; others' calls find it here.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/runtime.h"
#include "lib/control/member/mailbox.h"
#include "lib/control/receive/membership.h"
#include "lib/rpc/caller.h"
#include "lib/tuples/types.h"
#include "proto/agent.pb.h"

namespace ask {

// Thread-safe.
class GroupRegistry {
 public:
    struct Terms {
        std::string id;
        std::uint32_t size = 0;
        Membership members;  // who may join
        std::uint64_t instance = 0;
        Clock::duration lease{};           // how long a member may be silent
        std::shared_ptr<Mailbox> mailbox;  // of the session: gets kChanged
    };
    struct Seat {
        std::uint64_t member = 0;
        std::string name;  // proved: "h2 (198.18.2.2)"
        ChannelId channel;
        std::uint32_t incarnation = 0;
        Mark registered;
        std::uint32_t payload_limit = 0;
        Clock::time_point heard;
        bool left = false;  // it has finished
        bool own = false;   // the session's member, which is never silent
    };

    // The session's calls. kExists: the host has a group of that id; kUnavailable: one that is about to end.
    Result<> open(Terms terms);
    // Takes a rank, for the session's own member, which is not asked who it is.
    Result<> seat(std::uint64_t instance, std::uint32_t rank, Seat seat);
    // By rank; one that is not taken is none.
    [[nodiscard]] std::vector<std::optional<Seat>> seats(std::uint64_t instance) const;
    // All are there, and this is what they are told. kAborted: one of those that it names has left meanwhile.
    Result<> publish(std::uint64_t instance, const v1::JoinGroupReply& reply);
    // The switch has lost all, and knows the own member's channel again, by this mark: so shall it the
    // others'.
    void register_again(std::uint64_t instance, std::uint32_t rank, const Mark& registered);
    // Those that have been silent for too long fail the group. The error, if it has failed.
    std::optional<Error> check(std::uint64_t instance);
    void fail(std::uint64_t instance, const Error& error);
    // The session's own member has finished; whether all have.
    bool finish(std::uint64_t instance, std::uint32_t rank);
    [[nodiscard]] bool all_left(std::uint64_t instance) const;
    // Nobody may join any more. What became of it is remembered for a while.
    void close(std::uint64_t instance);

    // Calls of other members' agents.
    Result<v1::JoinGroupReply> join(const Caller& caller, const v1::JoinGroupRequest& request);
    Result<v1::GroupOutcome> renew(const Caller& caller, const v1::RenewGroupRequest& request);
    Result<> leave(const Caller& caller, const v1::LeaveGroupRequest& request);

    // "ranks 1, 3" of those that are not there; empty: all are.
    [[nodiscard]] static std::string missing(const std::vector<std::optional<Seat>>& seats);

 private:
    static constexpr std::size_t kRemembered = 64;
    struct Group {
        Terms terms;
        std::vector<std::optional<Seat>> seats;
        std::optional<v1::JoinGroupReply> ready;
        std::optional<Error> error;
        std::uint32_t registration = 0;  // how often channels were to be registered again
        bool ending = false;             // the root's own member has finished
        bool closed = false;
    };

    Group* find_id(const std::string& id);
    Group* find(std::uint64_t instance);
    Result<> take_seat(Group& group, std::uint32_t rank, Seat seat) const;
    static Seat* seat_of(Group& group, std::uint64_t member);
    static void wake(const Group& group);  // the session, as long as there is one
    static void fail_locked(Group& group, const Error& error);

    mutable Mutex mutex_;
    CondVar changed_;
    std::map<std::uint64_t, Group> groups_;  // by instance
    std::deque<std::uint64_t> closed_;       // the oldest first
};

}  // namespace ask
