// SPDX-License-Identifier: Apache-2.0
//
// Receiving: agent/receive_session.cpp, registry.cpp and swapper.cpp in their order.
#include <algorithm>
#include <utility>

#include "lib/tuples/fetch_codec.h"
#include "tests/sim/agent.h"

namespace ask::sim {

namespace {

constexpr Nanos kSwitchWait = 500 * kMillisecond;
constexpr Nanos kOpenRetryFor = 500 * kMillisecond;
constexpr Nanos kFetchWait = 3 * kSecond;
constexpr Nanos kRetry = 10 * kMillisecond;
constexpr Nanos kLongestRenewWait = 100 * kMillisecond;

std::unique_ptr<ResultTable> make_table(Op op) {
    auto table = ResultTable::create(std::make_unique<ReadableMemory>(), op);
    return std::make_unique<ResultTable>(std::move(*table));
}

Result<> merge_entries(ResultTable& table, const std::string& entries) {
    EntryReader reader(entries);
    while (!reader.done()) {
        const auto entry = reader.next();
        ASK_PASS(entry);
        ASK_PASS(table.add(entry->key, entry->value));
    }
    return {};
}

// The same for a Join that is tried again: the first try may have got as far as the switch.
CheckSecret secret_of(const ReceiveTask& task, const FlowParams& flow) {
    const std::uint64_t who = mix(std::uint64_t{flow.channel.host} << 16U | flow.channel.port) ^
                              mix(std::uint64_t{flow.incarnation} << 32U ^ flow.first_seq);
    return {mix(task.root ^ who), mix(task.root + who)};
}

}  // namespace

Agent::TaskPtr Agent::find(std::uint64_t instance) {
    const auto at = tasks_.find(instance);
    return at == tasks_.end() ? nullptr : at->second;
}

Job<Result<Done>> Agent::receive_task(std::string id, std::uint32_t senders) {
    auto task = std::make_shared<ReceiveTask>();
    task->id = id;
    task->instance = world_.draw_u64();
    task->senders_expected = senders;
    task->root = world_.draw_u64();
    Result<Done> result = co_await open_on_switch(task);
    if (result.ok()) {
        task->table = make_table(static_cast<Op>(world_.plan.op));
        task->opened = world_.clock.now();
        tasks_[task->instance] = task;
        if (task->copies == 2) {
            task->swaps_ended = false;
            task->swapped = make_table(static_cast<Op>(world_.plan.op));
            process.spawn(swapper(task));
        }
        world_.note("agent %u: task %s is open, instance %llx", host_, id.c_str(),
                    static_cast<unsigned long long>(task->instance));
        result = co_await collect(task);
        if (result.ok()) {
            result = co_await commit(task);
        }
    }
    if (!result.ok()) {
        world_.note("agent %u: task %s fails: %s", host_, id.c_str(), result.error().text().c_str());
        co_await give_up(task);
    }
    co_return result;
}

Job<Result<Done>> Agent::open_on_switch(TaskPtr task) {
    const Plan& plan = world_.plan;
    OpenRequest request{.id = task->id,
                        .instance = task->instance,
                        .geometry = plan.geometry(),
                        .op = static_cast<Op>(plan.op),
                        .aggregators = plan.aggregators,
                        .copies = plan.copies,
                        .policy = plan.policy};
    SwitchDaemon& server = switchd(own_switch());
    const Nanos retry_until = world_.clock.now() + kOpenRetryFor;
    for (;;) {
        std::function<Job<Result<Grant>>()> open = [&server, request] { return server.open_task(request); };
        const Result<Grant> grant =
            co_await call<Grant>(world_, server.process, kSwitchWait, std::move(open));
        if (grant.ok()) {
            task->mark = grant->mark;
            task->aggregators = grant->aggregators;
            task->copies = grant->copies;
            co_return Done{};
        }
        if (grant.error().code() != Errc::kUnavailable || world_.clock.now() >= retry_until) {
            co_return grant.error();
        }
        co_await world_.sleep(kRetry);
    }
}

// Until every sender's FIN is in.
Job<Result<Done>> Agent::collect(TaskPtr task) {
    const auto finished = [&] {
        return task->senders.size() == task->senders_expected &&
               std::ranges::all_of(task->senders,
                                   [](const TaskSender& sender) { return sender.joined && sender.fin; });
    };
    while (!finished() || world_.plan.waits_for_ever()) {
        if (task->error) {
            co_return *task->error;
        }
        const Result<> fine = check_senders(*task);
        if (!fine.ok()) {
            co_return fine.error();
        }
        co_await task->changed.wait_until(world_.clock, world_.clock.now() + kSessionTick);
    }
    co_return Done{};
}

// Nobody is waited for in silence.
Result<> Agent::check_senders(const ReceiveTask& task) const {
    const Nanos now = world_.clock.now();
    std::uint32_t count = 0;
    for (const TaskSender& sender : task.senders) {
        const std::string name = "sender " + std::to_string(host_of(sender.flow.channel.host));
        if (sender.left) {
            return Error(Errc::kAborted, name + " gave up");
        }
        count += sender.joined ? 1 : 0;
        if (sender.joined && !sender.fin && now - sender.last_heard > deadline()) {
            return Error(Errc::kDeadline, name + " has not been heard of");
        }
    }
    if (count < task.senders_expected && now - task.opened > deadline()) {
        return Error(Errc::kDeadline, std::to_string(count) + " of " + std::to_string(task.senders_expected) +
                                          " senders joined");
    }
    return {};
}

Job<Result<Done>> Agent::commit(TaskPtr task) {
    receiver_->end_task(task->instance, false);
    if (task->copies == 2) {
        task->finish_swaps = true;
        task->arrived.notify(world_.clock);
        while (!task->swaps_ended) {
            if (task->error) {
                co_return *task->error;
            }
            co_await task->changed.wait_until(world_.clock, world_.clock.now() + kSessionTick);
        }
        if (task->error) {
            co_return *task->error;
        }
        const Result<> merged = task->table->merge(*task->swapped);
        if (!merged.ok()) {
            co_return merged.error();
        }
    }
    const Result<Done> fetched = co_await fetch_last(task);
    if (!fetched.ok()) {
        co_return fetched.error();
    }
    const Result<> fits = task->table->finish();
    if (!fits.ok()) {
        co_return fits.error();
    }
    std::vector<std::uint64_t> senders;
    for (const TaskSender& sender : task->senders) {
        senders.push_back(sender.sender);
    }
    parts_.oracle.committed(task->id, task->instance, *task->table, senders);
    task->outcome = Outcome::kCommitted;
    task->changed.notify(world_.clock);
    world_.note("agent %u: task %s is committed", host_, task->id.c_str());
    co_await close_on_switch(task->instance);
    co_return Done{};
}

Job<Result<Done>> Agent::fetch_last(TaskPtr task) {
    SwitchDaemon& server = switchd(own_switch());
    const Nanos give_up_at = world_.clock.now() + deadline();
    for (;;) {
        std::function<Job<Result<Copy>>()> fetch = [&server, instance = task->instance, epoch = task->epoch] {
            return server.fetch(instance, epoch, false);
        };
        const Result<Copy> copy = co_await call<Copy>(world_, server.process, kFetchWait, std::move(fetch));
        if (copy.ok() && copy->mark != task->mark) {
            co_return Error(Errc::kAborted, "the switch was restarted, what it had aggregated is lost");
        }
        if (copy.ok()) {
            Result<> merged = merge_entries(*task->table, copy->entries);
            if (merged.ok() && world_.plan.merges_twice()) {
                merged = merge_entries(*task->table, copy->entries);
            }
            co_return merged.ok() ? Result<Done>(Done{}) : Result<Done>(merged.error());
        }
        // Without a region there is nothing to lose but the switch's counts.
        if (task->aggregators == 0) {
            co_return Done{};
        }
        if (!is_transient(copy.error())) {
            co_return copy.error();
        }
        if (world_.clock.now() >= give_up_at) {
            co_return Error(Errc::kDeadline, "what the switch has aggregated could not be fetched");
        }
        if (task->error) {
            co_return *task->error;
        }
        co_await task->changed.wait_until(world_.clock, world_.clock.now() + kSessionTick);
    }
}

Job<> Agent::close_on_switch(std::uint64_t instance) {
    SwitchDaemon& server = switchd(own_switch());
    std::function<Job<Result<Done>>()> close = [&server, instance] { return server.close_task(instance); };
    const Result<Done> closed = co_await call<Done>(world_, server.process, kSwitchWait, std::move(close));
    if (!closed.ok()) {
        world_.note("agent %u: close: %s", host_, closed.error().text().c_str());
    }
    co_return Done{};
}

Job<> Agent::give_up(TaskPtr task) {
    task->abandoned = true;
    task->arrived.notify(world_.clock);
    task->outcome = Outcome::kFailed;
    task->changed.notify(world_.clock);
    receiver_->end_task(task->instance, true);
    co_await close_on_switch(task->instance);
    co_return Done{};
}

void Agent::note(const RxVerdict& verdict) {
    const TaskPtr task = find(verdict.instance);
    if (!task) {
        return;
    }
    if (verdict.counter == ReceiverCounter::k_accepted_data) {
        task->arrivals.span += verdict.advance;
        ++task->arrivals.packets;
        task->arrivals.tuples += verdict.items;
        task->arrived.notify(world_.clock);
    }
    if (verdict.fin) {
        for (TaskSender& sender : task->senders) {
            sender.fin = sender.fin || sender.flow.channel == verdict.channel;
        }
        task->changed.notify(world_.clock);
    }
}

Job<> Agent::swapper(TaskPtr task) {
    const SwapSettings settings{.packets = world_.plan.swap_packets, .tuples = 0, .interval = 0};
    const std::uint64_t places = std::uint64_t{world_.plan.geometry().slots()} * task->aggregators;
    SwapPolicy policy(settings, places, world_.clock.now());
    while (!task->finish_swaps && !task->abandoned && !task->error) {
        if (!policy.due(world_.clock.now(), task->arrivals)) {
            co_await task->arrived.wait_until(world_.clock, policy.alarm().at);
            continue;
        }
        const Result<Done> swapped = co_await swap(task, policy);
        if (!swapped.ok() && !task->error) {
            task->error = swapped.error();
        }
    }
    task->swaps_ended = true;
    task->changed.notify(world_.clock);
    co_return Done{};
}

Job<Result<Done>> Agent::swap(TaskPtr task, SwapPolicy& policy) {
    SwitchDaemon& server = switchd(own_switch());
    const auto may_pass = [](const Error& error) {
        return is_transient(error) || error.code() == Errc::kLimit;
    };
    Nanos give_up_at = kNever;
    std::uint64_t entries = 0;
    std::uint64_t aggregated = 0;
    for (bool merged = false; !merged;) {
        std::function<Job<Result<Copy>>()> fetch = [&server, instance = task->instance, epoch = task->epoch] {
            return server.fetch(instance, epoch, true);
        };
        const Result<Copy> copy = co_await call<Copy>(world_, server.process, kFetchWait, std::move(fetch));
        if (task->abandoned) {
            co_return Error(Errc::kAborted, "given up");
        }
        if (copy.ok()) {
            if (copy->mark != task->mark) {
                co_return Error(Errc::kAborted, "the switch was restarted, what it had aggregated is lost");
            }
            const Result<> added = merge_entries(*task->swapped, copy->entries);
            if (!added.ok()) {
                co_return added.error();
            }
            entries = copy->count;
            aggregated = copy->aggregated;
            merged = true;
        } else if (!may_pass(copy.error())) {
            co_return copy.error();
        } else {
            give_up_at =
                task->finish_swaps && give_up_at == kNever ? world_.clock.now() + deadline() : give_up_at;
            if (world_.clock.now() >= give_up_at) {
                co_return Error(Errc::kDeadline, "the switch did not swap the task's copies in time");
            }
            co_await world_.sleep(kRetry);
        }
    }
    for (;;) {
        std::function<Job<Result<Done>>()> confirm = [&server, instance = task->instance,
                                                      epoch = task->epoch] {
            return server.confirm(instance, epoch);
        };
        const Result<Done> confirmed =
            co_await call<Done>(world_, server.process, kSwitchWait, std::move(confirm));
        if (confirmed.ok()) {
            break;
        }
        if (task->abandoned) {
            co_return Error(Errc::kAborted, "given up");
        }
        if (!may_pass(confirmed.error())) {
            co_return confirmed.error();
        }
        give_up_at =
            task->finish_swaps && give_up_at == kNever ? world_.clock.now() + deadline() : give_up_at;
        if (world_.clock.now() >= give_up_at) {
            co_return Error(Errc::kDeadline, "the switch did not confirm the task's copies in time");
        }
        co_await world_.sleep(kRetry);
    }
    ++task->epoch;
    policy.done(entries, aggregated);
    co_return Done{};
}

Job<Result<Offer>> Agent::look_up(std::string id) {
    for (const auto& [instance, task] : tasks_) {
        if (task->id == id && task->outcome == Outcome::kRunning) {
            co_return Offer{instance, task->mark, own_switch()};
        }
    }
    co_return Error(Errc::kUnknown, "no task " + id);
}

Job<Result<FlowParams>> Agent::join(JoinRequest request) {
    const TaskPtr task = find(request.instance);
    if (!task) {
        co_return Error(Errc::kUnknown, "no such task");
    }
    const auto find_sender = [&]() -> TaskSender* {
        const auto at = std::ranges::find(task->senders, request.sender, &TaskSender::sender);
        return at == task->senders.end() ? nullptr : &*at;
    };
    const Nanos until = world_.clock.now() + kSecond;
    // A repeat: the first call may still be at work.
    while (task->outcome == Outcome::kRunning && find_sender() != nullptr && !find_sender()->joined &&
           world_.clock.now() < until) {
        co_await task->changed.wait_until(world_.clock, until);
    }
    if (task->outcome != Outcome::kRunning) {
        co_return Error(Errc::kAborted, "the task has ended");
    }
    if (const TaskSender* const known = find_sender(); known != nullptr) {
        co_return known->joined ? Result<FlowParams>(known->flow)
                                : Result<FlowParams>(Error(Errc::kDeadline, "an earlier call is at work"));
    }
    FlowParams flow;
    flow.instance = task->instance;
    flow.channel = request.channel;
    flow.incarnation = request.incarnation;
    flow.first_seq = request.first_seq;
    flow.op = static_cast<Op>(world_.plan.op);
    flow.geometry = world_.plan.geometry();
    flow.secret = secret_of(*task, flow);
    flow.mark = task->mark;
    if (request.registered != flow.mark) {
        co_return Error(Errc::kUnsupported, "the channel is not registered at the task's switch");
    }
    if (task->senders.size() >= task->senders_expected) {
        co_return Error(Errc::kLimit, "all senders are there already");
    }
    for (const TaskSender& other : task->senders) {
        if (other.flow.channel == flow.channel) {
            co_return Error(Errc::kExists, "the channel is in use by another sender");
        }
    }
    task->senders.push_back({.sender = request.sender, .flow = flow, .last_heard = world_.clock.now()});
    // Switch first: a packet must not reach the receiver before the switch knows the flow.
    SwitchDaemon& server = switchd(own_switch());
    std::function<Job<Result<Mark>>()> join_flow = [&server, flow] {
        return server.join_flow(flow.instance, flow.channel, flow.incarnation, flow.secret);
    };
    const Result<Mark> mark = co_await call<Mark>(world_, server.process, kSwitchWait, std::move(join_flow));
    Result<> set_up_here = mark.ok() ? Result<>() : Result<>(mark.error());
    if (mark.ok() && *mark != flow.mark) {
        set_up_here = Error(Errc::kAborted, "the switch was restarted");
    }
    if (set_up_here.ok()) {
        set_up_here = set_up(*task, flow);
    }
    TaskSender* const entry = find_sender();
    if (!set_up_here.ok() || entry == nullptr) {
        std::erase_if(task->senders,
                      [&](const TaskSender& sender) { return sender.sender == request.sender; });
        task->changed.notify(world_.clock);
        co_return set_up_here.ok() ? Error(Errc::kAborted, "the task has ended") : set_up_here.error();
    }
    entry->joined = true;
    entry->last_heard = world_.clock.now();
    task->changed.notify(world_.clock);
    co_return flow;
}

Result<> Agent::set_up(ReceiveTask& task, const FlowParams& flow) {
    // The worker has the task's table only while the task runs.
    if (task.outcome != Outcome::kRunning) {
        return Error(Errc::kAborted, "the task has ended");
    }
    if (!task.sink) {
        task.sink.emplace(flow.geometry, flow.op, *task.table);
    }
    return receiver_->join(flow, &*task.sink);
}

Job<Result<Outcome>> Agent::renew(std::uint64_t instance, std::uint64_t sender) {
    const TaskPtr task = find(instance);
    const auto entry = [&]() -> TaskSender* {
        if (!task) {
            return nullptr;
        }
        const auto at = std::ranges::find(task->senders, sender, &TaskSender::sender);
        return at == task->senders.end() ? nullptr : &*at;
    };
    if (entry() == nullptr) {
        co_return Outcome::kUnknown;
    }
    entry()->last_heard = world_.clock.now();
    const Nanos until = world_.clock.now() + kLongestRenewWait;
    while (task->outcome == Outcome::kRunning && world_.clock.now() < until) {
        co_await task->changed.wait_until(world_.clock, until);
    }
    if (entry() == nullptr) {
        co_return Outcome::kUnknown;
    }
    entry()->last_heard = world_.clock.now();
    co_return task->outcome;
}

Job<Result<Done>> Agent::leave(std::uint64_t instance, std::uint64_t sender) {
    if (const TaskPtr task = find(instance)) {
        for (TaskSender& entry : task->senders) {
            entry.left = entry.left || entry.sender == sender;
        }
        task->changed.notify(world_.clock);
    }
    co_return Done{};
}

}  // namespace ask::sim
