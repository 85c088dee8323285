// SPDX-License-Identifier: Apache-2.0
//
// A task's tree of relays, as its receiver knows it: who sends to whom, and what each is told. Of those that
// the plan names, relays come under a token of the task's own, hosts as the plan has them. Not thread-safe: a
// task's is guarded by the registry's mutex, but for what its session alone uses before hosts are told.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/rpc/caller.h"
#include "proto/common.pb.h"
#include "proto/placement.pb.h"

namespace ask {

class Placed {
 public:
    static constexpr std::size_t kMostRelays = 256;
    static constexpr std::size_t kMostHosts = 4096;
    static constexpr std::size_t kMostLinks = 65536;
    static constexpr std::size_t kLongestName = 64;

    struct Relay {
        std::string name;                   // of the switch that it is beside
        std::string address;                // control address of its ask-relayd
        std::string control{};              // and of the switch; empty: not known
        std::uint32_t host = 0;             // the same as an address alone
        std::optional<std::size_t> parent;  // index; nothing: the receiver
        unsigned depth = 0;                 // relays between it and the receiver
        std::uint32_t senders = 0;          // relays and hosts' sends that come to it
        std::string task_id;                // of its own
        std::string token;
        std::string agent;  // control address of its host's agent, once it is open
    };
    struct Host {
        std::string name;
        std::uint32_t address = 0;
        std::optional<std::size_t> entry;   // index of a relay; nothing: the receiver
        std::uint32_t sends = 0;            // how many there are to be
        std::set<std::uint64_t> senders{};  // that have been told where to send
    };

    // Of a plan from outside, that a user brings, for a task of so many sends. kUsage names what is wrong
    // with it; kLimit: he has made too many hosts known.
    static Result<Placed> create(const v1::Placement& plan, std::uint32_t sends, std::uint32_t user);

    [[nodiscard]] std::vector<Relay>& relays() { return relays_; }
    [[nodiscard]] const std::vector<Relay>& relays() const { return relays_; }
    [[nodiscard]] const std::vector<Host>& hosts() const { return hosts_; }
    [[nodiscard]] unsigned depth() const;  // levels of relays
    // Whether those that send are so many of each host.
    [[nodiscard]] bool is_for(const std::map<std::uint32_t, std::uint32_t>& sends) const;
    // How many come to the receiver itself: sends of hosts, and relays.
    [[nodiscard]] std::uint32_t direct() const { return direct_; }
    [[nodiscard]] std::uint32_t sends() const { return sends_; }
    // What relays that send to the receiver show.
    [[nodiscard]] const std::string& token() const { return token_; }
    // Null: nobody of the plan.
    [[nodiscard]] const Host* host_of(const Caller& caller) const;
    // Whether it is one of the relays that send to the receiver, and shows its token.
    [[nodiscard]] const Relay* relay_of(const Caller& caller, std::string_view token) const;
    // It has one more sender, unless it has been counted. kDenied: it sends more often than the plan has it.
    Result<> count_sender(const Host& host, std::uint64_t sender);
    // It has gone before it joined: another may come in its place.
    void forget_sender(const Host& host, std::uint64_t sender);
    // As it was given.
    [[nodiscard]] const v1::Placement& plan() const { return plan_; }
    // The relay at the receiver's end of the way of a host; null: none is on it.
    [[nodiscard]] const Relay* last_relay(const Host& host) const;
    // For whoever looks.
    [[nodiscard]] std::vector<v1::RelayOfTask> describe() const;
    // Every relay is there: hosts may be told where to send.
    void set_ready() { ready_ = true; }
    [[nodiscard]] bool ready() const { return ready_; }

 private:
    Result<> add_relay(const v1::PlacedRelay& relay, std::uint32_t user);
    Result<> add_host(const v1::PlacedHost& host, std::uint32_t user);
    [[nodiscard]] Result<std::optional<std::size_t>> find(const std::string& name,
                                                          std::string_view whose) const;

    v1::Placement plan_;
    std::vector<Relay> relays_;  // parents before their children
    std::vector<Host> hosts_;
    std::string token_;
    std::uint32_t direct_ = 0;
    std::uint32_t sends_ = 0;
    bool ready_ = false;
};

}  // namespace ask
