// SPDX-License-Identifier: Apache-2.0
//
// How a sender joins a task: whether it may, its flow, and that at the switch and at the workers.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <spdlog/spdlog.h>

#include "lib/abi/check.h"
#include "lib/base/log_fields.h"
#include "lib/control/member/convert.h"
#include "lib/control/member/patience.h"
#include "lib/control/receive/registry.h"
#include "lib/net/host_book.h"

namespace ask {
namespace {

constexpr milliseconds kJoinFlowWait{5000};
constexpr milliseconds kJoinWait{10000};

// A flow's secret, by SipHash under one that its task alone has. The same for a Join that is tried again: the
// first try may have got as far as the switch, which takes no second secret for the flow.
CheckSecret secret_of(const CheckSecret& root, const FlowParams& flow) {
    constexpr std::uint64_t kSecondHalf = std::uint64_t{1} << 63U;
    const std::uint64_t channel = std::uint64_t{flow.channel.host} << 16U | flow.channel.port;
    const CheckSecret by_channel = {ask_siphash_u64(root[0], root[1], channel),
                                    ask_siphash_u64(root[0], root[1], channel | kSecondHalf)};
    const CheckSecret by_life = {
        ask_siphash_u64(by_channel[0], by_channel[1], flow.incarnation),
        ask_siphash_u64(by_channel[0], by_channel[1], flow.incarnation | kSecondHalf)};
    return {ask_siphash_u64(by_life[0], by_life[1], flow.first_seq),
            ask_siphash_u64(by_life[0], by_life[1], flow.first_seq | kSecondHalf)};
}

// Who asks must be the host that will send.
Result<> check_caller(const Caller& caller, const v1::JoinRequest& request) {
    const auto channel = channel_from_proto(request.channel());
    ASK_TRY(channel, "join");
    if (acts_for(caller, channel->host)) {
        return {};
    }
    return Error(Errc::kDenied, "join: the channel is of " + format_host(channel->host) +
                                    ", which is not for " + describe(caller) + " to join with");
}

// Why no switch aggregates for a sender that was to come through its own.
std::string why_without(const ReceiveTask& task, const v1::JoinRequest& request) {
    return request.switch_trouble().empty() ? task.own->why_none(request.switch_address())
                                            : clean_text(request.switch_trouble());
}

}  // namespace

// What the flow will be, if the request makes sense for this task.
Result<FlowParams> TaskRegistry::flow_of(const ReceiveTask& task, const v1::JoinRequest& request) const {
    auto channel = channel_from_proto(request.channel());
    ASK_TRY(channel, "join");
    auto registered = mark_from_proto(request.registered());
    ASK_TRY(registered, "join");
    if (request.sender() == 0 || request.incarnation() == 0 || request.first_seq() == 0) {
        return Error(Errc::kInput, "join: sender, incarnation and first_seq must not be 0");
    }
    FlowParams flow;
    flow.instance = task.instance;
    flow.channel = *channel;
    flow.incarnation = request.incarnation();
    flow.first_seq = request.first_seq();
    flow.op = task.wire;
    flow.geometry = task.geometry;
    flow.secret = secret_of(task.root, flow);
    // Between two tasks of one host no switch is on the path, and past its own one a sender may go.
    const bool local = channel->host == options_.own_address;
    const bool through = task.own ? registered->switch_id != 0 : !task.switches.empty();
    if (!local && through) {
        const TaskSwitch* const at = find_switch(task.switches, *registered);
        if (at == nullptr) {
            return Error(Errc::kUnsupported, "join: the channel is not registered at the task's switch");
        }
        flow.mark = *registered;
        flow.whole_keys = takes_whole_keys(*at);
    }
    for (const TaskSwitch& other : task.switches) {
        // Of a task with many, packets by some count as if they had gone round all.
        if (other.mark != flow.mark && !flow.other_marks.add(other.mark)) {
            break;
        }
    }
    return flow;
}

// A relay does what others ask of it: it comes where it was sent for, whosever tenant its host is of.
Result<> TaskRegistry::admit_relay_locked(const ReceiveTask& task, const Caller& caller,
                                          const v1::JoinRequest& request) {
    const bool expected =
        task.placed ? task.placed->relay_of(caller, request.token()) != nullptr
                    : !task.members.token.empty() && is_same_secret(task.members.token, request.token());
    return request.relay().empty() || expected
               ? Result<>()
               : Error(Errc::kDenied,
                       "task " + task.id + " does not expect a relay from " + ask::describe(caller));
}

// Whoever is to send to a relay may not come here: its place is another's.
Result<> TaskRegistry::admit_placed_locked(const ReceiveTask& task, const Caller& caller,
                                           const v1::JoinRequest& request) {
    const Placed::Host* const host = task.placed->host_of(caller);
    if (task.placed->relay_of(caller, request.token()) != nullptr || (host != nullptr && !host->entry)) {
        return {};
    }
    return Error(Errc::kDenied, "task " + task.id + " has a placement, by which " + ask::describe(caller) +
                                    " does not send to its receiver: look the task up again");
}

bool TaskRegistry::may_send(const ReceiveTask& task, const Caller& caller, std::string_view token) {
    return may_join(task.members, caller, token) ||
           (task.placed && task.placed->relay_of(caller, token) != nullptr);
}

Result<> TaskRegistry::admit_locked(ReceiveTask& task, const Caller& caller, const v1::JoinRequest& request,
                                    const FlowParams& flow, const std::string& without) {
    ASK_PASS(admit_relay_locked(task, caller, request));
    if (task.placed) {
        ASK_PASS(admit_placed_locked(task, caller, request));
    }
    const bool is_relay = task.placed && task.placed->relay_of(caller, request.token()) != nullptr;
    if (task.here && !is_relay) {
        ASK_PASS(task.here->stream.may_join(task.window, request.member(), caller));
    } else if (task.too_late) {
        return Error(Errc::kLimit, "task " + task.id + " goes on without senders that join this late");
    } else if (task.senders.size() >= task.senders_expected) {
        return Error(Errc::kLimit, "task " + task.id + ": all " + std::to_string(task.senders_expected) +
                                       " senders are there already");
    }
    for (const TaskSender& other : task.senders) {
        if (other.flow.channel == flow.channel) {
            return Error(Errc::kExists, "join: the channel is in use by sender " + other.name);
        }
    }
    TaskSender entry;
    entry.sender = request.sender();
    entry.name = proved_name(caller, request.sender_name());
    entry.owner = {caller.tenant, flow.channel.host};
    entry.flow = flow;
    entry.can_repeat = request.can_repeat();
    entry.without = without;
    entry.relay = clean_name(request.relay().substr(0, Placed::kLongestName));
    entry.last_heard = Clock::now();
    entry.member = is_relay ? 0 : request.member();
    task.senders.push_back(std::move(entry));
    if (task.here && !is_relay) {
        task.here->stream.joined(task.window, request.member());
    }
    return {};
}

// Other tenants hear what they would if there was no such task.
Error TaskRegistry::not_for(const ReceiveTask& task, const Caller& caller, Error unknown) const {
    if (caller.tenant != task.members.tenant) {
        return unknown;
    }
    return {Errc::kDenied, "task " + task.id + " on " + options_.host_name + " is not for " +
                               ask::describe(caller) +
                               ": its ask-recv has named other hosts (--from), or wants its token (ask-send "
                               "--token-file)"};
}

v1::JoinReply TaskRegistry::reply_locked(const ReceiveTask& task, const TaskSender& sender) const {
    v1::JoinReply reply;
    reply.set_secret(secret_to_bytes(sender.flow.secret));
    *reply.mutable_mark() = mark_to_proto(sender.flow.mark);
    reply.set_op(task.op);
    *reply.mutable_geometry() = geometry_to_proto(task.geometry);
    reply.set_whole_keys(sender.flow.whole_keys);
    reply.set_receiver_address(options_.own_address);
    reply.set_lease_seconds(std::chrono::duration<double>(task.deadline).count());
    if (task.slot_map) {
        reply.set_slot_map(encode_slot_map(*task.slot_map, task.geometry));
    }
    return reply;
}

TaskRegistry::FlowSwitch TaskRegistry::switch_of(const ReceiveTask& task, const FlowParams& flow) {
    const TaskSwitch* const at = find_switch(task.switches, flow.mark);
    return at == nullptr ? FlowSwitch() : FlowSwitch{at->client, at->arrivals};
}

// Switch first: a packet must not reach the receiver before the switch knows the flow.
Result<std::uint64_t> TaskRegistry::set_up_flow(const FlowSwitch& at, const FlowParams& flow,
                                                Clock::time_point until) {
    std::uint64_t nonce = 0;
    if (at.client != nullptr) {
        v1::JoinFlowRequest request;
        request.set_instance(flow.instance);
        *request.mutable_channel() = channel_to_proto(flow.channel);
        request.set_incarnation(flow.incarnation);
        request.set_secret(secret_to_bytes(flow.secret));
        const auto joined = at.client->join_flow(request, at_most(kJoinFlowWait, until));
        ASK_PASS(joined);
        if (joined->mark != flow.mark) {
            return Error(Errc::kAborted, at.client->name() + " was restarted");
        }
        nonce = joined->nonce;
    }
    ASK_PASS(workers_->join(flow, at.arrivals));
    return nonce;
}

Result<v1::JoinReply> TaskRegistry::join(const Caller& caller, const v1::JoinRequest& request) {
    Lock lock(mutex_);
    const auto task = find_locked(request.instance());
    const Error unknown(Errc::kUnknown, "no such task on " + options_.host_name);
    if (!task || task->phase <= TaskPhase::kOpening) {
        return unknown;
    }
    if (!may_send(*task, caller, request.token())) {
        return not_for(*task, caller, unknown);
    }
    if (task->outcome.state() != v1::Outcome::STATE_RUNNING) {
        return failed_locked(*task);
    }
    const milliseconds asked(request.wait_ms());
    const auto until = Clock::now() + (asked.count() == 0 ? task->deadline : std::min(asked, task->deadline));
    ASK_TRY(check_caller(caller, request), "task " + task->id);
    if (sender_of(*task, request.sender()) != nullptr) {
        // A repeat: the first call may still be at work.
        const auto settled = [&] {
            const TaskSender* const known = sender_of(*task, caller, request.sender());
            return known == nullptr || known->joined;
        };
        if (!changed_.wait_for(lock, at_most(kJoinWait, until), settled)) {
            return Error(Errc::kDeadline, "join: an earlier call is still at work");
        }
        if (const TaskSender* const known = sender_of(*task, caller, request.sender()); known != nullptr) {
            return reply_locked(*task, *known);
        }
        if (sender_of(*task, request.sender()) != nullptr) {
            return Error(Errc::kDenied, "task " + task->id + ": sender " + std::to_string(request.sender()) +
                                            " is not at " + ask::describe(caller));
        }
    }
    const auto flow = flow_of(*task, request);
    ASK_TRY(flow, "task " + task->id);
    const bool without = task->own && flow->mark.switch_id == 0 && flow->channel.host != options_.own_address;
    if (auto admitted =
            admit_locked(*task, caller, request, *flow, without ? why_without(*task, request) : "");
        !admitted) {
        return std::move(admitted).error();
    }
    const FlowSwitch at = switch_of(*task, *flow);
    lock.unlock();
    auto set_up = set_up_flow(at, *flow, until);
    lock.lock();
    TaskSender* const entry = sender_of(*task, request.sender());
    if (!set_up || entry == nullptr) {
        std::erase_if(task->senders,
                      [&](const TaskSender& sender) { return sender.sender == request.sender(); });
        const bool is_relay = task->placed && task->placed->relay_of(caller, request.token()) != nullptr;
        if (task->here && !is_relay) {
            task->here->stream.not_joined(task->window, request.member());
        }
        changed_.notify_all();
        return set_up ? failed_locked(*task) : std::move(set_up).error();
    }
    entry->flow_nonce = *set_up;
    entry->joined = true;
    entry->joined_at = entry->last_heard = Clock::now();
    const auto joined = std::ranges::count_if(task->senders, &TaskSender::joined);
    if (task->phase == TaskPhase::kWaiting && joined == std::ptrdiff_t{task->expects()}) {
        task->phase = TaskPhase::kStreaming;
    }
    const LogAbout about = LogAbout::task(task->id);
    spdlog::log(task->log_level(), "task {}: sender {} joined ({} of {})", task->id, entry->name, joined,
                task->expects());
    if (without) {
        counters_->add(AgentCounter::k_senders_without_switch);
        spdlog::warn("task {}: no switch aggregates for sender {}: {}", task->id, entry->name,
                     entry->without);
    }
    changed_.notify_all();
    task->mailbox->post(SessionEvent::Kind::kChanged);
    return reply_locked(*task, *entry);
}

}  // namespace ask
