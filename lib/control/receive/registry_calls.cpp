// SPDX-License-Identifier: Apache-2.0
//
// What senders ask for and tell, until they know the outcome; such a call may be held back.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "lib/control/member/convert.h"
#include "lib/control/receive/registry.h"

namespace ask {
namespace {

constexpr milliseconds kLongestWait{2000};
constexpr int kMostLostRelays = 16;

}  // namespace

Clock::time_point TaskRegistry::held_until(std::uint32_t wait_ms) {
    return Clock::now() + std::min(milliseconds(wait_ms), kLongestWait);
}

Result<v1::TaskOffer> TaskRegistry::look_up(const Caller& caller, const v1::LookupRequest& request) {
    const std::string& id = request.task_id();
    if (auto valid = check_task_id(id); !valid) {
        return std::move(valid).error();
    }
    ASK_TRY(check_wire_version(request.wire_version(), "your agent"), "look up task " + id);
    std::optional<KeySample> sample;
    if (request.has_sample()) {
        auto checked = sample_from_proto(request.sample());
        ASK_TRY(checked, "look up task " + id);
        sample = *std::move(checked);
    }
    Lock lock(mutex_);
    const auto find = [&] {
        const auto at = live_.find(id);
        const bool known = at != live_.end() && (may_know(at->second->members, caller, request.token()) ||
                                                 may_send(*at->second, caller, request.token()));
        return known ? at->second : nullptr;
    };
    const auto opening = [](const auto& task) { return task && task->phase <= TaskPhase::kOpening; };
    const auto until = held_until(request.wait_ms());
    hold_back(lock, changed_, until, [&] { return find() != nullptr; });
    const Error unknown(Errc::kUnknown, "no task " + id + " on " + options_.host_name);
    const auto settled = [&](const auto& task) {
        if (!task || task->phase >= TaskPhase::kFetching) {
            return true;
        }
        if (task->placed) {
            return task->placed->ready() || task->placed->relay_of(caller, request.token()) != nullptr;
        }
        return !task->own || task->own->is_settled(request.switch_address());
    };
    const auto early = find();
    if (early && !may_send(*early, caller, request.token())) {
        return not_for(*early, caller, unknown);
    }
    if (early && early->phase == TaskPhase::kPlanning) {
        early->samples.add(request.sender(), sample ? &*sample : nullptr, request.payload_limit(),
                           early->sends(), Clock::now());
        early->mailbox->post(SessionEvent::Kind::kChanged);
    }
    if (early && early->asking && early->phase <= TaskPhase::kOpening) {
        note_asking_locked(*early, caller, request);
    }
    if (early && early->own && early->own->want(request.switch_address(), Clock::now())) {
        early->mailbox->post(SessionEvent::Kind::kChanged);
    }
    hold_back(lock, changed_, until, [&] {
        const auto task = find();
        return !opening(task) && settled(task);
    });
    const auto found = find();
    if (found && !may_send(*found, caller, request.token())) {
        return not_for(*found, caller, unknown);
    }
    if (!found && early && early->outcome.state() == v1::Outcome::STATE_FAILED) {
        return failed_locked(*early);
    }
    if (found && opening(found) && !found->trouble.empty()) {
        return Error(Errc::kAborted,
                     "task " + id + " is not open yet on " + options_.host_name + ": " + found->trouble);
    }
    if (!found || opening(found)) {
        return unknown;
    }
    if (!settled(found) && found->placed) {
        return Error(Errc::kAborted, "task " + id + " is not open yet on " + options_.host_name +
                                         ": its relays are being opened");
    }
    if (found->placed && found->placed->relay_of(caller, request.token()) == nullptr) {
        return offer_placed_locked(*found, caller, request);
    }
    if (!settled(found)) {
        return Error(Errc::kAborted, "task " + id + " is not open for you yet on " + options_.host_name +
                                         ": waiting for switch " + clean_name(request.switch_address()));
    }
    return offer_locked(*found, request.switch_address());
}

// What it says of itself counts if it may act for that host.
void TaskRegistry::note_asking_locked(ReceiveTask& task, const Caller& caller,
                                      const v1::LookupRequest& request) {
    const bool said = request.host() != 0 && acts_for(caller, request.host());
    const std::optional<std::uint32_t> host =
        said ? std::optional<std::uint32_t>(request.host()) : host_of(caller);
    if (host && request.sender() != 0 && task.asking->size() < task.senders_expected) {
        task.asking->insert_or_assign(request.sender(), *host);
        task.mailbox->post(SessionEvent::Kind::kChanged);
    }
}

// The plan says where it sends to.
Result<v1::TaskOffer> TaskRegistry::offer_placed_locked(ReceiveTask& task, const Caller& caller,
                                                        const v1::LookupRequest& request) {
    const Placed::Host* const host = task.placed->host_of(caller);
    if (task.here) {
        ASK_PASS(task.here->stream.check_member(task.window, request.member(), caller));
    }
    if (host == nullptr) {
        return Error(Errc::kDenied, "task " + task.id + " has a placement, and " + ask::describe(caller) +
                                        " is no host of it: plan again with all that send");
    }
    ASK_TRY(task.placed->count_sender(*host, request.sender()), "task " + task.id);
    if (!host->entry) {
        return offer_locked(task, "");
    }
    if (task.here) {
        task.here->stream.joined(task.window, request.member());
    }
    const Placed::Relay& relay = task.placed->relays()[*host->entry];
    v1::TaskOffer offer;
    offer.set_instance(task.instance);
    offer.set_wire_version(ASK_WIRE_VERSION);
    offer.mutable_relay()->set_name(relay.name);
    offer.mutable_relay()->set_agent(relay.agent);
    offer.mutable_relay()->set_task_id(relay.task_id);
    offer.mutable_relay()->set_token(relay.token);
    return offer;
}

// Of one that was told where to send, and has gone before it did.
void TaskRegistry::give_back_place_locked(ReceiveTask& task, const Caller& caller, std::uint64_t sender) {
    if (const Placed::Host* const host = task.placed->host_of(caller); host != nullptr) {
        task.placed->forget_sender(*host, sender);
    }
}

v1::TaskOffer TaskRegistry::offer_locked(const ReceiveTask& task, const std::string& own_switch) {
    v1::TaskOffer offer;
    offer.set_instance(task.instance);
    offer.set_wire_version(ASK_WIRE_VERSION);
    offer.set_op(task.op);
    *offer.mutable_geometry() = geometry_to_proto(task.geometry);
    offer.set_own_switch(task.own.has_value());
    const TaskSwitch* const at = task.own ? nullptr : offered_switch(task.switches);
    const OwnSwitches::Entry* const own = task.own ? task.own->find(own_switch) : nullptr;
    *offer.mutable_mark() = mark_to_proto(at != nullptr ? at->mark : own != nullptr ? own->mark : Mark{});
    if (at != nullptr) {
        offer.set_switch_address(at->client->address());
    } else if (own != nullptr && own->mark.switch_id != 0) {
        offer.set_switch_address(own_switch);
    }
    return offer;
}

// Of a host that sends to a relay, about the whole task.
v1::Outcome TaskRegistry::renew_placed(Lock& lock, ReceiveTask& task, const Caller& caller,
                                       const v1::RenewRequest& request) {
    v1::Outcome outcome;
    outcome.set_state(v1::Outcome::STATE_UNKNOWN);
    const Placed::Host* const host = task.placed->host_of(caller);
    if (host == nullptr || !host->entry) {
        return outcome;
    }
    hold_back(lock, task.over, held_until(request.wait_ms()),
              [&] { return task.outcome.state() != v1::Outcome::STATE_RUNNING; });
    outcome = task.outcome;
    outcome.set_trouble(task.trouble);
    return outcome;
}

Result<v1::Outcome> TaskRegistry::renew(const Caller& caller, const v1::RenewRequest& request,
                                        const std::function<bool()>& listens) {
    Lock lock(mutex_);
    const auto task = find_locked(request.instance());
    v1::Outcome unknown;
    unknown.set_state(v1::Outcome::STATE_UNKNOWN);
    TaskSender* entry = task ? sender_of(*task, caller, request.sender()) : nullptr;
    if (entry == nullptr) {
        return task && task->placed ? renew_placed(lock, *task, caller, request) : unknown;
    }
    entry->last_heard = Clock::now();
    if (task->outcome.state() == v1::Outcome::STATE_RUNNING) {
        copy_sender_part(entry->stats, request.stats());
        entry->can_repeat = entry->can_repeat && request.can_repeat();
        task->mailbox->post(SessionEvent::Kind::kChanged);
        hold_back(lock, task->over, held_until(request.wait_ms()), [&] {
            const TaskSender* const now = sender_of(*task, request.sender());
            return task->outcome.state() != v1::Outcome::STATE_RUNNING || now == nullptr || now->missing;
        });
    }
    entry = sender_of(*task, request.sender());
    if (entry == nullptr) {
        return unknown;
    }
    entry->last_heard = Clock::now();
    v1::Outcome outcome = task->outcome;
    outcome.set_trouble(entry->trouble.empty() ? task->trouble : entry->trouble);
    // Who was refused while it waited may not have tried again since, nor heard of it with another answer.
    if (task->waiting || Clock::now() - task->last_waiting < 2 * kLongestWait) {
        outcome.set_waits_for(task->waits_for);
    }
    if (entry->missing) {
        // Whatever becomes of the task: it may lack some of this sender's tuples.
        outcome.set_state(v1::Outcome::STATE_FAILED);
        outcome.set_code(static_cast<std::int32_t>(Errc::kAborted));
        outcome.set_error("receiver " + options_.host_name +
                          " went on without this sender: " + *entry->missing);
    }
    if (outcome.state() != v1::Outcome::STATE_RUNNING) {
        *outcome.mutable_stats() = entry->stats;
        // One that this agent held back while it was stopped may come too late: the sender asks again.
        if (!listens || listens()) {
            entry->knows_outcome = true;
            lock.unlock();
            changed_.notify_all();
        }
    }
    return outcome;
}

Result<> TaskRegistry::leave(const Caller& caller, const v1::LeaveRequest& request) {
    const Guard lock(mutex_);
    const auto task = find_locked(request.instance());
    TaskSender* const entry = task ? sender_of(*task, caller, request.sender()) : nullptr;
    if (entry == nullptr && task && task->placed) {
        give_back_place_locked(*task, caller, request.sender());
    }
    // Whoever is not here has left.
    if (entry != nullptr) {
        for (int i = 0; i < std::min(request.lost_relays_size(), kMostLostRelays); ++i) {
            entry->lost_relays.push_back(clean_name(request.lost_relays(i)));
        }
        entry->left.emplace(errc_from_number(request.code(), Errc::kAborted), clean_text(request.reason()));
        entry->knows_outcome = true;
        task->mailbox->post(SessionEvent::Kind::kChanged);
        changed_.notify_all();
    }
    return {};
}

}  // namespace ask
