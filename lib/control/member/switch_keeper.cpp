// SPDX-License-Identifier: Apache-2.0
#include "lib/control/member/switch_keeper.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <spdlog/spdlog.h>

#include "lib/control/member/convert.h"

namespace ask {
namespace {

// Several tries within the shortest lease that makes sense at a switch.
constexpr milliseconds kEvery{2000};
constexpr milliseconds kWait{1500};

// False: there are no threads left.
template <typename Body>
bool start_beside(std::vector<Thread>& beside, Body body) {
    try {
        beside.emplace_back(std::move(body));
        return true;
    } catch (const std::system_error&) {
        return false;
    }
}

}  // namespace

void tell_lost(std::span<const TaskAtSwitch> tasks, const v1::RenewTasksReply& reply,
               const std::string& switch_name) {
    const auto tell = [](const TaskAtSwitch& open, std::string text) {
        open.task->mailbox->post(SessionEvent{
            SessionEvent::Kind::kSwitchLost, {}, Error(Errc::kSwitchLost, std::move(text)), open.mark});
    };
    for (const TaskAtSwitch& open : tasks) {
        const std::uint64_t instance = open.task->instance;
        const bool unknown = std::ranges::find(reply.unknown(), instance) != reply.unknown().end();
        if (unknown || reply.mark().incarnation() != open.mark.incarnation) {
            tell(open, switch_name + " was restarted and no longer has the task");
        } else if (std::ranges::any_of(reply.parts(), [&](const v1::TaskPart& part) {
                       return part.instance() == instance && part.nonce() != open.nonce;
                   })) {
            tell(open, switch_name + ": the task's region was made anew, and what it had is lost");
        }
    }
}

LeftOver left_over(const std::vector<Channels::Entry>& own, ChannelId id, std::uint32_t incarnation) {
    const auto entry =
        std::ranges::find_if(own, [&](const Channels::Entry& candidate) { return candidate.lease.id == id; });
    if (entry == own.end()) {
        return LeftOver::kYes;
    }
    if (entry->lease.incarnation == incarnation) {
        return LeftOver::kNo;
    }
    return entry->in_use ? LeftOver::kPerhaps : LeftOver::kYes;
}

SwitchKeeper::SwitchKeeper(Member& member) : member_(member), thread_([this] { loop(); }) {}

SwitchKeeper::~SwitchKeeper() {
    {
        const Guard lock(mutex_);
        stop_ = true;
    }
    stopping_.notify_all();
    thread_.join();
}

void SwitchKeeper::loop() {
    bool clear = !member_.own_switch || clear_left_over();
    Lock lock(mutex_);
    while (!stopping_.wait_for(lock, kEvery, [this] { return stop_; })) {
        lock.unlock();
        clear = clear || clear_left_over();
        renew();
        renew_channels();
        close_left_open();
        take_back_one();
        lock.lock();
    }
}

std::shared_ptr<SwitchPort> SwitchKeeper::switch_at(const std::string& address) const {
    const bool own = member_.own_switch && member_.own_switch->address() == address;
    return own ? member_.own_switch : std::shared_ptr<SwitchPort>(member_.network.switch_at(address));
}

// Of a switch where one fails no more are tried: the others would not fare better.
void SwitchKeeper::close_left_open() {
    std::set<std::string> silent;
    for (const LeftOpen::Task& task : member_.left_open.list(Clock::now())) {
        if (silent.contains(task.address)) {
            continue;
        }
        if (switch_at(task.address)->close_task(task.instance, kWait).ok()) {
            member_.left_open.remove(task);
        } else {
            silent.insert(task.address);
        }
    }
}

// One at a time, so that renewals do not wait for a switch that stays away. Repeating it is harmless: a
// switch that has the channel under another incarnation, or not at all, changes nothing.
void SwitchKeeper::take_back_one() {
    const auto own = member_.channels.list();
    const auto elsewhere = std::ranges::find_if(
        own, [](const Channels::Entry& entry) { return !entry.in_use && !entry.lease.elsewhere.empty(); });
    if (elsewhere != own.end()) {
        const ChannelLease::Elsewhere& at = elsewhere->lease.elsewhere.front();
        const auto client = member_.network.switch_at(at.address);
        if (client->unregister_channel(elsewhere->lease.id, at.registered_as, kWait).ok()) {
            member_.channels.forget_elsewhere(elsewhere->lease.id, at.address);
        }
    }
    const auto left = std::ranges::find_if(
        own, [](const Channels::Entry& entry) { return !entry.in_use && entry.lease.is_left_over(); });
    if (left == own.end()) {
        return;
    }
    const auto client = member_.network.switch_at(left->lease.switch_address);
    if (client->unregister_channel(left->lease.id, left->lease.registered_as, kWait).ok()) {
        member_.channels.forget_registration(left->lease.id, left->lease.registered_as);
    }
}

bool SwitchKeeper::clear_left_over() {
    const auto status = member_.own_switch->status(kWait);
    if (!status.ok()) {
        return false;
    }
    // Read after the switch's list: whatever of ours is on that is on this too.
    const auto own = member_.channels.list();
    bool clear = true;
    for (const v1::SwitchChannel& channel : status->channels()) {
        const auto id = channel_from_proto(channel.channel());
        if (!id.ok() || id->host != member_.options.address) {
            continue;
        }
        switch (left_over(own, *id, channel.incarnation())) {
            case LeftOver::kNo:
                break;
            case LeftOver::kPerhaps:
                clear = false;
                break;
            case LeftOver::kYes:
                clear =
                    member_.own_switch->unregister_channel(*id, channel.incarnation(), kWait).ok() && clear;
                break;
        }
    }
    if (clear) {
        spdlog::info("{} has nothing that a former agent of this host left there",
                     member_.own_switch->name());
    }
    return clear;
}

void SwitchKeeper::renew() {
    auto tasks = member_.registry.on_switch();
    // Side by side, since leases of those that answer do not wait for those that do not.
    std::vector<Thread> beside;
    for (auto first = tasks.begin(); first != tasks.end();) {
        const auto client = first->client;
        const auto next = std::stable_partition(first, tasks.end(), [&](const TaskAtSwitch& open) {
            return open.client->address() == client->address();
        });
        const std::span<const TaskAtSwitch> its(first, next);
        if (next == tasks.end() || !start_beside(beside, [this, client, its] { renew_at(*client, its); })) {
            renew_at(*client, its);
        }
        first = next;
    }
    std::ranges::for_each(beside, &Thread::join);
}

// Asked just once, as what the channel is: where the switch has it under another incarnation, or not at all,
// nothing changes, and the group's session finds out. Those of a switch that fails wait for the next turn.
void SwitchKeeper::renew_channels() {
    std::map<std::string, std::vector<v1::RegisterChannelRequest>> kept;
    for (const Channels::Entry& entry : member_.channels.list()) {
        for (const ChannelLease::Elsewhere& at : entry.kept) {
            v1::RegisterChannelRequest request;
            *request.mutable_channel() = channel_to_proto(entry.lease.id);
            request.set_incarnation(at.registered_as);
            request.set_replaces(at.registered_as);
            kept[at.address].push_back(std::move(request));
        }
    }
    std::vector<Thread> beside;
    for (const auto& [address, requests] : kept) {
        const auto ask = [client = switch_at(address), &all = requests] {
            for (const v1::RegisterChannelRequest& request : all) {
                const auto answer = client->try_register(request, kWait, nullptr);
                if (!answer.mark && !answer.has) {
                    spdlog::debug("{}: its registration is not renewed: {}", client->name(),
                                  answer.error->text());
                    return;
                }
            }
        };
        if (!start_beside(beside, ask)) {
            ask();
        }
    }
    std::ranges::for_each(beside, &Thread::join);
}

// A result that cannot be had is refused while the task runs, not when all of it has been sent.
void SwitchKeeper::check_room(const ReceiveTask& task, const v1::TaskPart& part, const std::string& at) {
    if (task.in_parts) {
        return;
    }
    const auto room = member_.tables.check_room(task.user, part.back_entries(), part.back_key_bytes());
    if (!room.ok()) {
        Error why = Error(room.error())
                        .with_context(at + " has at least " + std::to_string(part.back_entries()) +
                                      " keys for the result already");
        task.mailbox->post(SessionEvent{SessionEvent::Kind::kTableFull, {}, std::move(why)});
    }
}

void SwitchKeeper::renew_at(SwitchPort& client, std::span<const TaskAtSwitch> tasks) {
    std::vector<std::uint64_t> instances;
    instances.reserve(tasks.size());
    for (const TaskAtSwitch& open : tasks) {
        instances.push_back(open.task->instance);
    }
    const auto reply = client.renew_tasks(instances, kWait);
    if (!reply.ok()) {
        // Leases do not run while the switch is down, and traffic does not need it.
        spdlog::debug("renew tasks: {}", reply.error().text());
        return;
    }
    tell_lost(tasks, *reply, client.name());
    for (const v1::TaskPart& part : reply->parts()) {
        const auto open = std::ranges::find_if(tasks, [&](const TaskAtSwitch& candidate) {
            return candidate.task->instance == part.instance();
        });
        if (open != tasks.end()) {
            member_.registry.note_switch_part(*open->task, open->mark, part.stats());
            check_room(*open->task, part, client.name());
        }
    }
}

}  // namespace ask
