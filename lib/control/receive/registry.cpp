// SPDX-License-Identifier: Apache-2.0
#include "lib/control/receive/registry.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include <spdlog/spdlog.h>

#include "lib/abi/check.h"
#include "lib/control/member/convert.h"
#include "lib/control/member/patience.h"

namespace ask {
namespace {

constexpr milliseconds kJoinFlowWait{5000};
constexpr milliseconds kJoinWait{10000};
constexpr milliseconds kLongestWait{2000};
// Outcomes kept for senders that have not asked yet.
constexpr std::size_t kMaxEnded = 4096;

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
    return Error(Errc::kDenied, "join: the channel is of " + format_ipv4(channel->host) +
                                    ", which is not for " + describe(caller) + " to join with");
}

bool is_name_char(char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
}

// What a sender calls itself proves nothing: beside it stands what its connection or certificate does.
std::string proved_name(const Caller& caller, std::string_view claimed) {
    constexpr std::size_t kLongest = 64;
    std::string name(claimed.substr(0, kLongest));
    std::ranges::replace_if(name, [](char c) { return !is_name_char(c); }, '?');
    if (std::ranges::find(caller.names, name) != caller.names.end()) {
        return clean_name(name + " (" + caller.address + ")");
    }
    return clean_name(name + " (" + describe(caller) + ")");
}

}  // namespace

const char* to_string(TaskPhase phase) {
    switch (phase) {
        case TaskPhase::kPlanning:
            return "waiting for a sender, to choose the geometry";
        case TaskPhase::kOpening:
            return "opening";
        case TaskPhase::kWaiting:
            return "waiting for senders";
        case TaskPhase::kStreaming:
            return "streaming";
        case TaskPhase::kFetching:
            return "fetching";
        case TaskPhase::kComputed:
            return "computed, not taken yet";
        case TaskPhase::kCommitted:
            return "committed";
        case TaskPhase::kFailed:
            return "failed";
    }
    return "?";
}

std::shared_ptr<ReceiveTask> TaskRegistry::find_locked(std::uint64_t instance) {
    const auto at = by_instance_.find(instance);
    return at == by_instance_.end() ? nullptr : at->second;
}

TaskSender* TaskRegistry::sender_of(ReceiveTask& task, std::uint64_t sender) {
    const auto at = std::ranges::find(task.senders, sender, &TaskSender::sender);
    return at == task.senders.end() ? nullptr : &*at;
}

// Null also if it is another's.
TaskSender* TaskRegistry::sender_of(ReceiveTask& task, const Caller& caller, std::uint64_t sender) {
    TaskSender* const found = sender_of(task, sender);
    return found == nullptr || !owns(caller, found->owner) ? nullptr : found;
}

Result<> TaskRegistry::add(const std::shared_ptr<ReceiveTask>& task) {
    {
        const Guard lock(mutex_);
        forget_old_locked();
        if (!live_.try_emplace(task->id, task).second) {
            return Error(Errc::kExists, "task " + task->id +
                                            ": the id is in use on this host; choose another, or "
                                            "wait until that task has ended");
        }
        task->outcome.set_state(v1::Outcome::STATE_RUNNING);
        by_instance_.emplace(task->instance, task);
    }
    changed_.notify_all();
    return {};
}

void TaskRegistry::end(const std::shared_ptr<ReceiveTask>& task, v1::Outcome outcome) {
    {
        const Guard lock(mutex_);
        task->phase =
            outcome.state() == v1::Outcome::STATE_COMMITTED ? TaskPhase::kCommitted : TaskPhase::kFailed;
        task->outcome = std::move(outcome);
        task->forget_at = Clock::now() + options_.lease;
        free_id_locked(*task);
        if (task->senders.empty()) {
            by_instance_.erase(task->instance);
        }
    }
    changed_.notify_all();
}

// Another task may have it already.
void TaskRegistry::free_id_locked(const ReceiveTask& task) {
    if (const auto at = live_.find(task.id); at != live_.end() && at->second.get() == &task) {
        live_.erase(at);
    }
}

void TaskRegistry::free_id(const std::shared_ptr<ReceiveTask>& task) {
    const Guard lock(mutex_);
    free_id_locked(*task);
}

bool TaskRegistry::is_live(const std::string& id) {
    const Guard lock(mutex_);
    return live_.contains(id);
}

void TaskRegistry::computed(ReceiveTask& task) {
    const Guard lock(mutex_);
    task.phase = TaskPhase::kComputed;
    task.outcome.set_computed(true);
}

void TaskRegistry::set_trouble(ReceiveTask& task, std::uint64_t sender, std::string trouble) {
    const Guard lock(mutex_);
    if (TaskSender* const entry = sender_of(task, sender); entry != nullptr) {
        entry->trouble = std::move(trouble);
    }
}

void TaskRegistry::set_trouble(ReceiveTask& task, std::string trouble) {
    const Guard lock(mutex_);
    task.trouble = std::move(trouble);
}

void TaskRegistry::forget_old_locked() {
    const auto now = Clock::now();
    std::size_t ended = 0;
    for (auto at = by_instance_.begin(); at != by_instance_.end();) {
        const ReceiveTask& task = *at->second;
        const bool over = task.outcome.state() != v1::Outcome::STATE_RUNNING;
        const bool told = std::ranges::all_of(task.senders, &TaskSender::knows_outcome);
        ended += over ? 1 : 0;
        at = over && (told || now >= task.forget_at || ended > kMaxEnded) ? by_instance_.erase(at)
                                                                          : std::next(at);
    }
}

void TaskRegistry::wait_until_told(Clock::time_point deadline) {
    Lock lock(mutex_);
    changed_.wait_until(lock, deadline, [&] {
        return std::ranges::all_of(by_instance_, [](const auto& entry) {
            const ReceiveTask& task = *entry.second;
            return task.outcome.state() == v1::Outcome::STATE_RUNNING ||
                   std::ranges::all_of(task.senders, &TaskSender::knows_outcome);
        });
    });
}

void TaskRegistry::stop() {
    {
        const Guard lock(mutex_);
        stop_ = true;
    }
    changed_.notify_all();
}

void TaskRegistry::opened(ReceiveTask& task) {
    {
        const Guard lock(mutex_);
        task.phase = TaskPhase::kWaiting;
    }
    changed_.notify_all();
}

Clock::time_point TaskRegistry::held_until(std::uint32_t wait_ms) {
    return Clock::now() + std::min(milliseconds(wait_ms), kLongestWait);
}

template <typename Done>
void TaskRegistry::hold_back(Lock& lock, Clock::time_point until, Done done) {
    if (done()) {
        return;
    }
    if (waits_ >= options_.max_waits) {
        counters_->add(AgentCounter::k_refused_waits);
        return;
    }
    ++waits_;
    changed_.wait_until(lock, until, [&] { return stop_ || done(); });
    --waits_;
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
        return at == live_.end() ? nullptr : at->second;
    };
    const auto opening = [](const auto& task) { return task && task->phase <= TaskPhase::kOpening; };
    const auto until = held_until(request.wait_ms());
    hold_back(lock, until, [&] { return find() != nullptr; });
    const Error unknown(Errc::kUnknown, "no task " + id + " on " + options_.host_name);
    const auto early = find();
    if (early && !may_join(early->members, caller, request.token())) {
        return not_for(*early, caller, unknown);
    }
    if (early && early->phase == TaskPhase::kPlanning) {
        early->samples.add(request.sender(), sample ? &*sample : nullptr, request.payload_limit(),
                           early->senders_expected, Clock::now());
        early->mailbox->post(SessionEvent::Kind::kChanged);
    }
    hold_back(lock, until, [&] { return !opening(find()); });
    const auto found = find();
    if (found && !may_join(found->members, caller, request.token())) {
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
    const ReceiveTask& task = *found;
    v1::TaskOffer offer;
    offer.set_instance(task.instance);
    offer.set_wire_version(ASK_WIRE_VERSION);
    offer.set_op(task.op);
    *offer.mutable_geometry() = geometry_to_proto(task.geometry);
    const TaskSwitch* const at = offered_switch(task.switches);
    *offer.mutable_mark() = mark_to_proto(at == nullptr ? Mark{} : at->mark);
    if (at != nullptr) {
        offer.set_switch_address(at->client->address());
    }
    return offer;
}

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
    // Between two tasks of one host no switch is on the path.
    const bool local = channel->host == options_.own_address;
    if (!local && !task.switches.empty()) {
        if (find_switch(task.switches, *registered) == nullptr) {
            return Error(Errc::kUnsupported, "join: the channel is not registered at the task's switch");
        }
        flow.mark = *registered;
    }
    for (const TaskSwitch& other : task.switches) {
        if (other.mark != flow.mark && !flow.other_marks.add(other.mark)) {
            return Error(Errc::kInternal, "the task is open on too many switches");
        }
    }
    return flow;
}

Result<> TaskRegistry::admit_locked(ReceiveTask& task, const Caller& caller, const v1::JoinRequest& request,
                                    const FlowParams& flow) {
    if (task.too_late) {
        return Error(Errc::kLimit, "task " + task.id + " goes on without senders that join this late");
    }
    if (task.senders.size() >= task.senders_expected) {
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
    entry.last_heard = Clock::now();
    task.senders.push_back(std::move(entry));
    return {};
}

Error TaskRegistry::failed_locked(const ReceiveTask& task) const {
    const std::string& error = task.outcome.error();
    if (task.outcome.code() == static_cast<int>(Errc::kRunAgain)) {
        return {Errc::kUnknown, "task " + task.id + " is about to be opened again: " + error};
    }
    return {Errc::kAborted, "task " + task.id + " has ended" + (error.empty() ? "" : ": " + error)};
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
    reply.set_receiver_address(options_.own_address);
    reply.set_lease_seconds(std::chrono::duration<double>(task.deadline).count());
    if (task.slot_map) {
        reply.set_slot_map(encode_slot_map(*task.slot_map, task.geometry));
    }
    return reply;
}

// Switch first: a packet must not reach the receiver before the switch knows the flow.
Result<> TaskRegistry::set_up_flow(const ReceiveTask& task, const FlowParams& flow, Clock::time_point until) {
    if (const TaskSwitch* const at = find_switch(task.switches, flow.mark); at != nullptr) {
        v1::JoinFlowRequest request;
        request.set_instance(flow.instance);
        *request.mutable_channel() = channel_to_proto(flow.channel);
        request.set_incarnation(flow.incarnation);
        request.set_secret(secret_to_bytes(flow.secret));
        auto mark = at->client->join_flow(request, at_most(kJoinFlowWait, until));
        if (!mark) {
            return std::move(mark).error();
        }
        if (*mark != flow.mark) {
            return Error(Errc::kAborted, at->client->name() + " was restarted");
        }
    }
    return workers_->join(flow);
}

Result<v1::JoinReply> TaskRegistry::join(const Caller& caller, const v1::JoinRequest& request) {
    Lock lock(mutex_);
    const auto task = find_locked(request.instance());
    const Error unknown(Errc::kUnknown, "no such task on " + options_.host_name);
    if (!task || task->phase <= TaskPhase::kOpening) {
        return unknown;
    }
    if (!may_join(task->members, caller, request.token())) {
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
    if (auto admitted = admit_locked(*task, caller, request, *flow); !admitted) {
        return std::move(admitted).error();
    }
    lock.unlock();
    auto set_up = set_up_flow(*task, *flow, until);
    lock.lock();
    TaskSender* const entry = sender_of(*task, request.sender());
    if (!set_up || entry == nullptr) {
        std::erase_if(task->senders,
                      [&](const TaskSender& sender) { return sender.sender == request.sender(); });
        changed_.notify_all();
        return set_up ? failed_locked(*task) : std::move(set_up).error();
    }
    entry->joined = true;
    entry->joined_at = entry->last_heard = Clock::now();
    const auto joined = std::ranges::count_if(task->senders, &TaskSender::joined);
    if (task->phase == TaskPhase::kWaiting && joined == std::ptrdiff_t{task->senders_expected}) {
        task->phase = TaskPhase::kStreaming;
    }
    spdlog::info("task {}: sender {} joined ({} of {})", task->id, entry->name, joined,
                 task->senders_expected);
    changed_.notify_all();
    task->mailbox->post(SessionEvent::Kind::kChanged);
    return reply_locked(*task, *entry);
}

Result<v1::Outcome> TaskRegistry::renew(const Caller& caller, const v1::RenewRequest& request) {
    Lock lock(mutex_);
    const auto task = find_locked(request.instance());
    v1::Outcome unknown;
    unknown.set_state(v1::Outcome::STATE_UNKNOWN);
    TaskSender* entry = task ? sender_of(*task, caller, request.sender()) : nullptr;
    if (entry == nullptr) {
        return unknown;
    }
    entry->last_heard = Clock::now();
    if (task->outcome.state() == v1::Outcome::STATE_RUNNING) {
        copy_sender_part(entry->stats, request.stats());
        entry->can_repeat = entry->can_repeat && request.can_repeat();
        task->mailbox->post(SessionEvent::Kind::kChanged);
        hold_back(lock, held_until(request.wait_ms()), [&] {
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
    if (entry->missing) {
        // Whatever becomes of the task: it may lack some of this sender's tuples.
        outcome.set_state(v1::Outcome::STATE_FAILED);
        outcome.set_code(static_cast<std::int32_t>(Errc::kAborted));
        outcome.set_error("receiver " + options_.host_name +
                          " went on without this sender: " + *entry->missing);
    }
    if (outcome.state() != v1::Outcome::STATE_RUNNING) {
        *outcome.mutable_stats() = entry->stats;
        entry->knows_outcome = true;
        lock.unlock();
        changed_.notify_all();
    }
    return outcome;
}

Result<> TaskRegistry::leave(const Caller& caller, const v1::LeaveRequest& request) {
    const Guard lock(mutex_);
    const auto task = find_locked(request.instance());
    TaskSender* const entry = task ? sender_of(*task, caller, request.sender()) : nullptr;
    // Whoever is not here has left.
    if (entry != nullptr) {
        entry->left = clean_text(request.reason());
        entry->knows_outcome = true;
        task->mailbox->post(SessionEvent::Kind::kChanged);
        changed_.notify_all();
    }
    return {};
}

std::vector<TaskAtSwitch> TaskRegistry::on_switch() {
    const Guard lock(mutex_);
    forget_old_locked();
    std::vector<TaskAtSwitch> tasks;
    for (const auto& [id, task] : live_) {
        if (task->phase > TaskPhase::kOpening && task->phase < TaskPhase::kComputed) {
            for (const TaskSwitch& at : task->switches) {
                tasks.push_back({task, at.client, at.mark});
            }
        }
    }
    return tasks;
}

bool TaskRegistry::cancel(const Caller& caller, const std::string& id) {
    const Guard lock(mutex_);
    const auto task = live_.find(id);
    if (task == live_.end() || !may_use(caller, task->second->user)) {
        return false;
    }
    task->second->mailbox->post(SessionEvent::Kind::kCancelled);
    return true;
}

void TaskRegistry::note_switch_part(ReceiveTask& task, Mark of, const v1::FlowStats& stats) {
    const Guard lock(mutex_);
    const auto at = std::ranges::find(task.switches, of, &TaskSwitch::mark);
    if (at != task.switches.end()) {
        at->part.Clear();
        add_switch_part(at->part, stats);
    }
}

v1::AgentTask TaskRegistry::describe_locked(const ReceiveTask& task) {
    v1::AgentTask entry;
    entry.set_id(task.id);
    entry.set_instance(task.instance);
    entry.set_role("receiver");
    entry.set_user(task.user);
    entry.set_state(to_string(task.phase));
    entry.set_op(task.op);
    entry.set_senders_expected(task.senders_expected);
    for (const TaskSender& sender : task.senders) {
        entry.add_senders_joined(sender.name);
        if (sender.fin) {
            entry.add_senders_finished(sender.name);
        }
        add_stats(*entry.mutable_stats(), sender.stats);
    }
    add_running_parts(*entry.mutable_stats(), task.switches);
    entry.set_age_seconds(std::chrono::duration<double>(Clock::now() - task.opened).count());
    entry.set_error(task.outcome.error());
    if (task.phase > TaskPhase::kOpening) {
        *entry.mutable_geometry() = geometry_to_proto(task.geometry);
        entry.set_aggregators(granted(task.switches));
        entry.set_note(task.note);
        entry.set_geometry_reason(task.geometry_reason);
    }
    return entry;
}

// A result that is kept is there once, as that, for as long as it is.
std::vector<v1::AgentTask> TaskRegistry::describe() {
    std::vector<v1::AgentTask> list;
    std::set<std::uint64_t> kept;
    if (options_.kept != nullptr) {
        options_.kept->forget_old();
        list = options_.kept->describe();
    }
    for (const v1::AgentTask& task : list) {
        kept.insert(task.instance());
    }
    const Guard lock(mutex_);
    forget_old_locked();
    for (const auto& [instance, task] : by_instance_) {
        if (!kept.contains(instance)) {
            list.push_back(describe_locked(*task));
        }
    }
    return list;
}

v1::AgentTask TaskRegistry::describe(const ReceiveTask& task) {
    const Guard lock(mutex_);
    return describe_locked(task);
}

}  // namespace ask
