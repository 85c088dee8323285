// SPDX-License-Identifier: Apache-2.0
#include "agent/channels.h"

#include <algorithm>
#include <utility>

#include "agent/rpc.h"

namespace ask {

Result<ChannelLease> Channels::create_locked() {
    ChannelLease lease;
    lease.id = {own_address_, static_cast<std::uint16_t>(ASK_CHANNEL_PORT_BASE + channels_.size())};
    // Random, so that a receiver never takes it for one of before a restart.
    lease.incarnation = random_u32();
    auto added = workers_->owner(lease.id).call(
        [lease](WorkerCore& core) { return core.add_channel(lease.id.port, lease.incarnation); });
    if (!added) {
        return std::move(added).error();
    }
    if (!added->ok()) {
        return std::move(*added).error();
    }
    channels_.push_back(Entry{lease, true});
    return lease;
}

// A switch drops packets that a registered channel sends for a task that is not open there, so such a channel
// is the last choice for a task without a switch.
Channels::Entry* Channels::find_idle_locked(bool at_switch) {
    Entry* any = nullptr;
    for (Entry& entry : channels_) {
        if (entry.in_use) {
            continue;
        }
        if ((entry.lease.registered.switch_id != 0) == at_switch) {
            return &entry;
        }
        any = &entry;
    }
    const bool may_create = channels_.size() < limit_;
    return at_switch || !may_create ? any : nullptr;
}

Result<std::optional<ChannelLease>> Channels::acquire(const std::shared_ptr<Mailbox>& mailbox,
                                                      bool at_switch) {
    const std::lock_guard lock(mutex_);
    const auto waiter = std::ranges::find(waiters_, mailbox, &Waiter::mailbox);
    if (waiter != waiters_.end()) {
        if (!waiter->granted) {
            return std::optional<ChannelLease>();
        }
        const Entry& granted = channels_[*waiter->granted];
        waiters_.erase(waiter);
        return std::optional(granted.lease);
    }
    if (Entry* const idle = find_idle_locked(at_switch); idle != nullptr) {
        idle->in_use = true;
        return std::optional(idle->lease);
    }
    if (channels_.size() < limit_) {
        auto created = create_locked();
        if (!created) {
            return std::move(created).error();
        }
        return std::optional(std::move(*created));
    }
    waiters_.push_back({mailbox, std::nullopt});
    return std::optional<ChannelLease>();
}

void Channels::withdraw(const std::shared_ptr<Mailbox>& mailbox) {
    std::optional<ChannelLease> granted;
    {
        const std::lock_guard lock(mutex_);
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
    const std::lock_guard lock(mutex_);
    const auto index = static_cast<std::size_t>(lease.id.port - ASK_CHANNEL_PORT_BASE);
    channels_[index].lease = std::move(lease);
    const auto next =
        std::ranges::find_if(waiters_, [](const Waiter& waiter) { return !waiter.granted.has_value(); });
    if (next == waiters_.end()) {
        channels_[index].in_use = false;
        return;
    }
    next->granted = index;
    next->mailbox->post(SessionEvent::Kind::kChannelFree);
}

void Channels::forget_registration(ChannelId channel, std::uint32_t registered_as) {
    const std::lock_guard lock(mutex_);
    for (Entry& entry : channels_) {
        if (entry.lease.id == channel && !entry.in_use && entry.lease.is_left_over() &&
            entry.lease.registered_as == registered_as) {
            entry.lease.forget_registration();
        }
    }
}

std::vector<Channels::Entry> Channels::list() const {
    const std::lock_guard lock(mutex_);
    return channels_;
}

}  // namespace ask
