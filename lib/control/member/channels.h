// SPDX-License-Identifier: Apache-2.0
//
// The agent's sending channels (ASK section 3.3: persistent, serving one task after another), and who uses
// them. Their state belongs to workers; here is only what sessions need to share them out.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/control/member/mailbox.h"
#include "lib/control/member/workers_port.h"

namespace ask {

// A channel in use by one session, which alone may change it.
struct ChannelLease {
    ChannelId id;
    std::uint32_t incarnation = 0;
    // Where the channel is registered, under this or a former incarnation; switch_id 0: nowhere.
    Mark registered;
    std::string switch_address;
    std::uint32_t registered_as = 0;  // the incarnation that is registered there; 0: perhaps none
    // Where it is registered besides, of a group that more switches help than one.
    struct Elsewhere {
        std::string address;
        std::uint32_t registered_as = 0;
    };
    std::vector<Elsewhere> elsewhere{};
    // It has sent under that incarnation what did not pass the switch. The paper's dedupe, which is exact
    // only for a channel of which all passes (docs/protocol.md), must not meet the seqs that follow.
    bool bypassed = false;

    // Still registered as what it no longer is: unregistering failed.
    [[nodiscard]] bool is_left_over() const { return registered_as != 0 && registered_as != incarnation; }
    void forget_registration() {
        registered = {};
        switch_address.clear();
        registered_as = 0;
        bypassed = false;
    }
};

// What a sender wants a channel for.
struct ChannelWish {
    std::uint64_t instance = 0;  // of its task
    bool at_switch = false;      // registered at a switch already, if possible; else at none, if possible
    std::uint32_t user = 0;      // whose application it is; all but root have a part of the channels
    std::string only_at{};       // not registered at a switch but this one, if possible; empty: wherever
};

class Channels {
 public:
    Channels(WorkersPort* workers, std::uint32_t own_address, unsigned limit)
        : workers_(workers), own_address_(own_address), limit_(limit) {}

    // An idle or new channel that has not served the task yet: switch and receiver know a sender of a task by
    // its channel. Nothing: all that could serve are in use, or the user has seven eighths of all; `mailbox`
    // gets kChannelFree once its turn has come (first come, first served), and the next acquire() with it
    // succeeds. kLimit: all have served this task, so waiting would not help.
    Result<std::optional<ChannelLease>> acquire(const std::shared_ptr<Mailbox>& mailbox,
                                                const ChannelWish& wish);
    // Whoever holds the channel goes on with it to another instance. false: it has served that one.
    bool serve(ChannelId channel, std::uint64_t instance);
    // No longer wants one.
    void withdraw(const std::shared_ptr<Mailbox>& mailbox);
    // Back to the pool, as the session leaves it.
    void release(ChannelLease lease);

    struct Entry {
        ChannelLease lease;
        bool in_use = false;
        std::uint32_t user = 0;                       // whose, while it is in use
        std::vector<ChannelLease::Elsewhere> kept{};  // where its registration is renewed, while it is in use
        std::deque<std::uint64_t> served;             // instances, latest last; at most kRemembered

        [[nodiscard]] bool has_served(std::uint64_t instance) const;
    };
    [[nodiscard]] std::vector<Entry> list() const;
    // Whoever holds the channel has registered it there, for a group that may be long in coming: it is to be
    // registered again and again (SwitchKeeper), until it is released.
    void keep_registered(ChannelId channel, const ChannelLease::Elsewhere& at);
    // The switch has no longer what an idle channel left there under a former incarnation.
    void forget_registration(ChannelId channel, std::uint32_t registered_as);
    // Nor has that one.
    void forget_elsewhere(ChannelId channel, const std::string& address);

 private:
    // A task that is older than so many others on a channel is over, or its receiver refuses the channel.
    static constexpr std::size_t kRemembered = 64;
    struct Waiter {
        std::shared_ptr<Mailbox> mailbox;
        std::uint64_t instance = 0;
        std::uint32_t user = 0;
        std::optional<std::size_t> granted;  // index of the channel that is set aside
    };
    Result<ChannelLease> create_locked();
    Entry* find_idle_locked(const ChannelWish& wish);
    // Whether the user may have one more.
    [[nodiscard]] bool has_part_locked(std::uint32_t user) const;
    // Whether a channel that is in use could serve the task later.
    [[nodiscard]] Result<> check_worth_waiting_locked(std::uint64_t instance) const;
    Result<std::optional<ChannelLease>> take_granted_locked(const std::shared_ptr<Mailbox>& mailbox);
    static void remember(Entry& entry, std::uint64_t instance);

    WorkersPort* const workers_;
    const std::uint32_t own_address_;
    const unsigned limit_;
    mutable Mutex mutex_;
    std::vector<Entry> channels_;  // under mutex_, as all below
    std::deque<Waiter> waiters_;
};

}  // namespace ask
