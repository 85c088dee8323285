// SPDX-License-Identifier: Apache-2.0
//
// A group at its switches, as its coordinator has it: opened where levels.h says, the last switch first; kept
// alive; opened otherwise where one is lost, and as before once that one is back. Whatever a switch does or
// does not, the collector adds what is missing, so nothing here is an error: status() says what helps.
// One thread's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/runtime.h"
#include "lib/control/group/levels.h"
#include "lib/control/member/patience.h"
#include "lib/control/member/switch_port.h"
#include "proto/agent.pb.h"

namespace ask {

class GroupSwitches {
 public:
    struct Ports {
        std::function<std::shared_ptr<SwitchPort>(const std::string& address)> at;
        std::function<std::vector<LevelMember>()> members;  // by rank, as they are registered now
        // A switch is back under this mark: members are to register there. False: not yet, ask again.
        std::function<bool(const Mark& mark)> register_again;
        std::function<milliseconds()> patience;  // of one call that opens it
    };
    struct Terms {
        std::string id;
        std::uint32_t root = 0;  // its rank
        std::uint32_t address = 0;
        std::string control_address;
    };
    struct Status {
        bool adds = false;      // a switch does
        bool has_last = false;  // the root's own among them
        bool direct = false;    // which sends results to all members itself
        bool fan_out = false;   // it copies the collector's
        std::string note;       // in words
        std::string without;    // what does not help, and why; empty: all that could do
        std::uint32_t losses = 0;
        std::string lost;         // the last switch that has lost it; empty: none
        std::string lost_by;      // and by what
        bool is_back = true;      // none is lost now
        std::uint32_t slots = 0;  // of the least pool
        bool operator==(const Status&) const = default;
    };

    // `group`: its members and secret, which stay; its window may become narrower until it is published.
    GroupSwitches(Ports ports, Terms terms, v1::JoinGroupReply& group);

    void open();
    // Renews leases, and has another look at what is lost: now and then.
    void look();
    // Leaves nothing behind that a lease would not end.
    void close();
    // No member knows the window yet.
    void publish() { published_ = true; }

    [[nodiscard]] Status status() const;
    void describe(v1::AgentGroup& group) const;

 private:
    struct At {
        std::shared_ptr<SwitchPort> port;
        std::optional<LevelSwitch> open;  // as it is open there
        v1::ValuesGrant grant;
        bool lost = false;  // had it, and is looked after
        std::uint32_t losses = 0;
        unsigned unanswered = 0;  // renewals in a row
        Mark asked;               // members were asked to register under it
        unsigned looks = 0;       // since then
        Clock::time_point next;
        milliseconds pause{kSessionTick};
    };

    void settle();
    void close_others();
    bool try_open(const LevelSwitch& plan);
    Result<> open_at(const LevelSwitch& plan, At& at);
    Result<> join_members(const LevelSwitch& plan, SwitchPort& port);
    Result<> take_grant(const LevelSwitch& plan, At& at, const v1::OpenTaskReply& reply);
    [[nodiscard]] v1::OpenTaskRequest request_of(const LevelSwitch& plan) const;
    void close_at(At& at);
    void renew(std::uint32_t id, At& at);
    void note_silent(std::uint32_t id, At& at);
    void lose(std::uint32_t id, At& at, const std::string& why);
    void look_for(std::uint32_t id, At& at);
    [[nodiscard]] bool are_registered(const Mark& mark) const;
    [[nodiscard]] const At* last() const;
    [[nodiscard]] std::string note_of(const Status& status) const;

    const Ports ports_;
    const Terms terms_;
    v1::JoinGroupReply& group_;
    bool published_ = false;
    std::vector<LevelMember> members_;
    SwitchTroubles troubles_;
    Levels levels_;
    std::map<std::uint32_t, At> at_;  // by the switch's id
    std::uint32_t losses_ = 0;
    std::string last_lost_;
    std::string lost_by_;
};

}  // namespace ask
