// SPDX-License-Identifier: Apache-2.0
//
// The groups that this host's agent coordinates: who has joined, who is silent, what became of them. A group
// is opened by the session of the host's own member, which also ends it; others' calls find it here.
//
// When a member has died the others settle before they hear of it: each stops where it is and says which
// operations have ended whole there; what has at one of them then ends whole at all of them, and nothing
// else does (step by step, each step answered by all that are not dead; a death meanwhile begins anew). So
// all survivors have the same operations when the group fails, and may go on as a smaller one.
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
        std::uint64_t shrink_of = 0;       // the instance whose survivors these are; size is its own
        std::shared_ptr<Mailbox> mailbox;  // of the session: gets kChanged
        // The root's own switch, where members behind others register their channels, too; of id 0: they do
        // not.
        Mark last_mark{};
        std::string last_switch{};  // its address
    };
    struct Seat {
        std::uint64_t member = 0;
        std::string name;  // proved: "h2 (198.18.2.2)"
        ChannelId channel;
        std::uint32_t incarnation = 0;
        Mark registered;               // at the switch that its packets pass first
        std::string switch_address{};  // of that one
        Mark registered_last{};        // at the root's, if that is another
        std::string last_trouble{};    // why not
        std::uint32_t payload_limit = 0;
        Clock::time_point heard;
        std::uint64_t operations = 0;  // that have ended there, when it was heard
        std::uint64_t begun = 0;
        bool left = false;     // it has finished
        bool own = false;      // the session's member, which is never silent
        bool dead = false;     // nobody waits for it
        bool settled = false;  // has answered the step
    };
    // What members are to do while the group settles.
    struct Settling {
        std::uint32_t step = 0;  // 0: it does not
        std::uint64_t last = 0;  // operation that may end; 0: the last that has
        std::uint64_t dead = 0;  // set of members
    };

    // The session's calls. kExists: the host has a group of that id; kUnavailable: one that is about to end.
    Result<> open(Terms terms);
    // Takes a rank, for the session's own member, which is not asked who it is.
    Result<> seat(std::uint64_t instance, std::uint32_t rank, Seat seat);
    // By rank; one that is not taken is none.
    [[nodiscard]] std::vector<std::optional<Seat>> seats(std::uint64_t instance) const;
    // No other is to join. Those that have get the ranks from 0 in their order: of the survivors of another
    // group some may have been missing.
    void close_ranks(std::uint64_t instance);
    // How often a group was shrunk that is made of this one's survivors.
    [[nodiscard]] std::uint32_t generation_after(std::uint64_t instance) const;
    // All are there, and this is what they are told. kAborted: one of those that it names has left meanwhile.
    Result<> publish(std::uint64_t instance, const v1::JoinGroupReply& reply);
    // A switch has lost all, and is back: members' channels are to be registered again.
    void register_again(std::uint64_t instance);
    // By this mark the root's switch knows the own member's channel.
    void note_registered(std::uint64_t instance, std::uint32_t rank, const Mark& registered);
    // Those that have been silent for too long fail the group. The error, if it has failed.
    std::optional<Error> check(std::uint64_t instance);
    void fail(std::uint64_t instance, const Error& error);
    // Why the switch does not help any more, for members to show; empty: it does.
    void note_trouble(std::uint64_t instance, const std::string& text);
    // The session's own member finds that nothing goes on: the group settles, and fails then.
    void complain(std::uint64_t instance, const Error& error);
    [[nodiscard]] Settling settling(std::uint64_t instance) const;
    // The session's own member has followed that step, and has so many operations.
    void settle(std::uint64_t instance, std::uint32_t rank, std::uint32_t step, std::uint64_t operations);
    // The session's own member has finished; whether all have.
    bool finish(std::uint64_t instance, std::uint32_t rank);
    [[nodiscard]] bool all_left(std::uint64_t instance) const;
    // Nobody may join any more. What became of it is remembered for a while.
    void close(std::uint64_t instance);

    // Calls of other members' agents.
    Result<v1::JoinGroupReply> join(const Caller& caller, const v1::JoinGroupRequest& request);
    Result<v1::GroupOutcome> renew(const Caller& caller, const v1::RenewGroupRequest& request);
    Result<> leave(const Caller& caller, const v1::LeaveGroupRequest& request);

    // "ranks 1, 3" of those that are not there and are waited for; empty: none is.
    [[nodiscard]] std::string missing(std::uint64_t instance) const;

 private:
    static constexpr std::size_t kRemembered = 64;
    struct Group {
        Terms terms;
        std::vector<std::optional<Seat>> seats;
        std::optional<v1::JoinGroupReply> ready;
        std::optional<Error> error;
        bool is_closed_to_others = false;  // ranks are final
        std::uint32_t generation = 0;
        std::uint32_t registration = 0;  // how often channels were to be registered again
        std::optional<Error> cause;      // why it settles
        Settling settling;
        Clock::time_point step_until;    // who has not answered by then is dead
        Clock::time_point settle_until;  // then it fails as it is
        bool is_settled = false;         // survivors have the same operations
        std::uint64_t operations = 0;    // these
        std::uint64_t next = 0;          // instance of its survivors
        std::string trouble;
        bool ending = false;  // the root's own member has finished
        bool closed = false;
    };

    Group* find_id(const std::string& id);
    Group* find(std::uint64_t instance);
    [[nodiscard]] const Group* find(std::uint64_t instance) const;
    Result<> check_survivor(std::uint64_t former, std::uint32_t rank, std::uint32_t host,
                            std::uint64_t operations);
    Result<> take_over(const Terms& terms, Group& group);
    Result<> join_seat(Group& group, std::uint32_t rank, Seat seat) const;
    [[nodiscard]] const Error* end_of(const v1::JoinGroupRequest& request);
    [[nodiscard]] static bool waits_for_growth(const Group& group, const v1::JoinGroupRequest& request);
    [[nodiscard]] Error not_open(const Group* group, const v1::JoinGroupRequest& request) const;
    [[nodiscard]] std::uint64_t excluded(const Group& group) const;
    [[nodiscard]] std::string missing_in(const Group& group) const;
    [[nodiscard]] static bool is_placed(const Group& group, const Seat& seat);
    Result<> take_seat(Group& group, std::uint32_t rank, Seat seat) const;
    static Seat* seat_of(Group& group, std::uint64_t member);
    static void wake(const Group& group);  // the session, as long as there is one
    static void fail_locked(Group& group, const Error& error);
    static void lose_member(Group& group, Seat& seat, const Error& error);
    static void begin_settling(Group& group, const Error& error);
    static void next_step(Group& group, std::uint64_t last);
    static void note_settled(Group& group, Seat& seat, std::uint32_t step, std::uint64_t operations);
    static void go_on_settling(Group& group);
    static void check_settling(Group& group);
    static void check_silent(Group& group);

    mutable Mutex mutex_;
    CondVar changed_;
    std::map<std::uint64_t, Group> groups_;  // by instance
    std::deque<std::uint64_t> closed_;       // the oldest first
};

}  // namespace ask
