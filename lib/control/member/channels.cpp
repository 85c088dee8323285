// SPDX-License-Identifier: Apache-2.0
#include "lib/control/member/channels.h"

#include <algorithm>
#include <utility>

#include "lib/base/random.h"
#include "lib/control/member/patience.h"

namespace ask {

Result<ChannelLease> Channels::create_locked() {
    ChannelLease lease;
    lease.id = {own_address_, static_cast<std::uint16_t>(ASK_CHANNEL_PORT_BASE + channels_.size())};
    // Random, so that a receiver never takes it for one of before a restart.
    lease.incarnation = random_u32();
    ASK_PASS(workers_->add_channel(lease.id, lease.incarnation));
    channels_.push_back(Entry{.lease = lease, .in_use = true, .user = 0, .kept = {}, .served = {}});
    return lease;
}

bool Channels::Entry::has_served(std::uint64_t instance) const {
    return std::ranges::find(served, instance) != served.end();
}

void Channels::remember(Entry& entry, std::uint64_t instance) {
    if (entry.has_served(instance)) {
        return;
    }
    entry.served.push_back(instance);
    if (entry.served.size() > kRemembered) {
        entry.served.pop_front();
    }
}

// A switch drops packets that a registered channel sends for a task that is not open there, so such a channel
// is the last choice for a task without a switch, as for any one that is still registered elsewhere.
Channels::Entry* Channels::find_idle_locked(const ChannelWish& wish) {
    constexpr unsigned kWorst = 3;
    const auto rank = [&](const ChannelLease& lease) {
        const bool registered = lease.registered.switch_id != 0;
        if (!lease.elsewhere.empty()) {
            return kWorst;
        }
        const bool foreign = registered && !wish.only_at.empty() && lease.switch_address != wish.only_at;
        return foreign ? 2U : registered == wish.at_switch ? 0U : 1U;
    };
    Entry* best = nullptr;
    for (Entry& entry : channels_) {
        if (!entry.in_use && !entry.has_served(wish.instance) &&
            (best == nullptr || rank(entry.lease) < rank(best->lease))) {
            best = &entry;
        }
    }
    if (best == nullptr || channels_.size() >= limit_) {
        return best;
    }
    const unsigned fine = !wish.at_switch ? 0 : wish.only_at.empty() ? kWorst : 1;
    return rank(best->lease) <= fine ? best : nullptr;
}

// One that waits for others takes no packet's time, only a channel: nobody may keep all of them so.
bool Channels::has_part_locked(std::uint32_t user) const {
    constexpr unsigned kParts = 8;
    const auto is_its = [user](const Entry& entry) { return entry.in_use && entry.user == user; };
    return user == 0 || std::cmp_less(std::ranges::count_if(channels_, is_its), limit_ - limit_ / kParts);
}

Result<> Channels::check_worth_waiting_locked(std::uint64_t instance) const {
    if (!std::ranges::all_of(channels_, [&](const Entry& entry) { return entry.has_served(instance); })) {
        return {};
    }
    return Error(Errc::kLimit, "all " + std::to_string(limit_) +
                                   " channels of this host serve other sends of this task, and each of them "
                                   "needs one of its own: raise max_channels in agentd.toml (at most " +
                                   std::to_string(ASK_MAX_CHANNELS_PER_HOST) + "), or send from more hosts");
}

// For who waits already: the channel that was set aside, if one was.
Result<std::optional<ChannelLease>> Channels::take_granted_locked(const std::shared_ptr<Mailbox>& mailbox) {
    const auto waiter = std::ranges::find(waiters_, mailbox, &Waiter::mailbox);
    if (waiter->granted) {
        const Entry& granted = channels_[*waiter->granted];
        waiters_.erase(waiter);
        return std::optional(granted.lease);
    }
    if (auto worth = check_worth_waiting_locked(waiter->instance); !worth) {
        waiters_.erase(waiter);
        return std::move(worth).error();
    }
    return std::optional<ChannelLease>();
}

Result<std::optional<ChannelLease>> Channels::acquire(const std::shared_ptr<Mailbox>& mailbox,
                                                      const ChannelWish& wish) {
    const Guard lock(mutex_);
    if (std::ranges::find(waiters_, mailbox, &Waiter::mailbox) != waiters_.end()) {
        return take_granted_locked(mailbox);
    }
    const bool may = has_part_locked(wish.user);
    if (Entry* const idle = may ? find_idle_locked(wish) : nullptr; idle != nullptr) {
        idle->in_use = true;
        idle->user = wish.user;
        remember(*idle, wish.instance);
        return std::optional(idle->lease);
    }
    if (may && channels_.size() < limit_) {
        auto created = create_locked();
        if (!created) {
            return std::move(created).error();
        }
        channels_.back().user = wish.user;
        remember(channels_.back(), wish.instance);
        return std::optional(std::move(*created));
    }
    if (auto worth = check_worth_waiting_locked(wish.instance); !worth) {
        return std::move(worth).error();
    }
    waiters_.push_back(
        {.mailbox = mailbox, .instance = wish.instance, .user = wish.user, .granted = std::nullopt});
    return std::optional<ChannelLease>();
}

bool Channels::serve(ChannelId channel, std::uint64_t instance) {
    const Guard lock(mutex_);
    Entry& entry = channels_[static_cast<std::size_t>(channel.port - ASK_CHANNEL_PORT_BASE)];
    if (entry.has_served(instance)) {
        return false;
    }
    remember(entry, instance);
    return true;
}

void Channels::withdraw(const std::shared_ptr<Mailbox>& mailbox) {
    std::optional<ChannelLease> granted;
    {
        const Guard lock(mutex_);
        const auto waiter = std::ranges::find(waiters_, mailbox, &Waiter::mailbox);
        if (waiter == waiters_.end()) {
            return;
        }
        if (waiter->granted) {
            granted = channels_[*waiter->granted].lease;
        }
        waiters_.erase(waiter);
    }
    if (granted) {
        release(std::move(*granted));
    }
}

void Channels::release(ChannelLease lease) {
    const Guard lock(mutex_);
    const auto index = static_cast<std::size_t>(lease.id.port - ASK_CHANNEL_PORT_BASE);
    Entry& entry = channels_[index];
    entry.lease = std::move(lease);
    entry.in_use = false;
    entry.kept.clear();
    const auto next = std::ranges::find_if(waiters_, [&](const Waiter& waiter) {
        return !waiter.granted.has_value() && !entry.has_served(waiter.instance) &&
               has_part_locked(waiter.user);
    });
    if (next == waiters_.end()) {
        return;
    }
    entry.in_use = true;
    entry.user = next->user;
    remember(entry, next->instance);
    next->granted = index;
    next->mailbox->post(SessionEvent::Kind::kChannelFree);
}

void Channels::keep_registered(ChannelId channel, const ChannelLease::Elsewhere& at) {
    const Guard lock(mutex_);
    for (Entry& entry : channels_) {
        if (entry.lease.id == channel) {
            std::erase_if(entry.kept,
                          [&](const ChannelLease::Elsewhere& one) { return one.address == at.address; });
            entry.kept.push_back(at);
        }
    }
}

void Channels::forget_registration(ChannelId channel, std::uint32_t registered_as) {
    const Guard lock(mutex_);
    for (Entry& entry : channels_) {
        if (entry.lease.id == channel && !entry.in_use && entry.lease.is_left_over() &&
            entry.lease.registered_as == registered_as) {
            entry.lease.forget_registration();
        }
    }
}

void Channels::forget_elsewhere(ChannelId channel, const std::string& address) {
    const Guard lock(mutex_);
    for (Entry& entry : channels_) {
        if (entry.lease.id == channel && !entry.in_use) {
            std::erase_if(entry.lease.elsewhere,
                          [&](const ChannelLease::Elsewhere& at) { return at.address == address; });
        }
    }
}

std::vector<Channels::Entry> Channels::list() const {
    const Guard lock(mutex_);
    return channels_;
}

}  // namespace ask
