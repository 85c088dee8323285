// SPDX-License-Identifier: Apache-2.0
#include "agent/receive_session.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <spdlog/spdlog.h>

#include "agent/beside.h"
#include "agent/convert.h"
#include "agent/patience.h"
#include "lib/abi/limits.h"
#include "lib/tuples/fetch_codec.h"

namespace ask {
namespace {

constexpr milliseconds kSwitchWait{5000};
// A switch's daemon that was killed is back within seconds; one that was never started should be named soon.
constexpr milliseconds kSwitchRetryFor{10000};
constexpr milliseconds kOptionalSwitchRetryFor{1000};
constexpr milliseconds kSwitchRetryEvery{200};
constexpr milliseconds kCloseWait{2000};
constexpr milliseconds kFetchWait{30000};
constexpr milliseconds kWatchEvery{1000};
constexpr milliseconds kProbeWait{1000};
constexpr milliseconds kFinalStatsWait{2000};

bool wants_swaps(const v1::OpenReceive& request) {
    return request.has_swap() && !request.swap().off();
}

Error no_switch_error() {
    return {Errc::kUnavailable,
            "a region is required, but no switch is configured: set `switch` of this agent"};
}

}  // namespace

ReceiveSession::ReceiveSession(Agent& agent, SessionIo& io, v1::OpenReceive request)
    : agent_(agent), io_(io), request_(std::move(request)), task_(std::make_shared<ReceiveTask>()) {}

void ReceiveSession::run() {
    if (auto result = run_within_limits([this] { return run_steps(); }); !result) {
        give_up(result.error());
    }
}

Result<> ReceiveSession::run_steps() {
    if (auto opened = open(); !opened) {
        return opened;
    }
    if (auto collected = collect(); !collected) {
        return collected;
    }
    return commit();
}

Result<> ReceiveSession::choose_parameters() {
    if (auto valid = check_task_id(request_.task_id()); !valid) {
        return valid;
    }
    if (request_.senders() == 0 || request_.senders() > ASK_MAX_SENDERS) {
        return Error(Errc::kUsage, "senders must be from 1 to " + std::to_string(ASK_MAX_SENDERS) + ", not " +
                                       std::to_string(request_.senders()));
    }
    const auto wire = wire_op(request_.op());
    ASK_TRY(wire, "task " + request_.task_id());
    task_->id = request_.task_id();
    task_->instance = random_u64();
    task_->op = request_.op();
    task_->wire = *wire;
    task_->senders_expected = request_.senders();
    const auto deadline = task_deadline(request_.deadline_ms(), agent_.config.deadline_seconds);
    ASK_TRY(deadline, "task " + request_.task_id());
    task_->deadline = *deadline;
    task_->mailbox = io_.mailbox();
    task_->phase = wants_samples(agent_, request_) ? TaskPhase::kPlanning : TaskPhase::kOpening;
    return {};
}

template <typename Call>
auto ReceiveSession::ask_switch(Call call) -> Result<std::invoke_result_t<Call&, RpcCancel*>> {
    auto answer = run_beside(
        io_.mailbox(), std::move(call), [this](Clock::time_point until) { return wait_and_handle(until); },
        [this] { tell_waiting(true); });
    if (answer.ok() && answer->ok()) {
        tell_waiting(false);
    }
    return answer;
}

void ReceiveSession::tell_waiting(bool waiting) {
    if (waiting && agent_.switch_client) {
        const std::string text = "waiting for " + agent_.switch_client->name();
        agent_.registry.set_trouble(*task_, text);
        show_progress(text);
    }
    if (!waiting && told_waiting_) {
        agent_.registry.set_trouble(*task_, "");
    }
    told_waiting_ = waiting;
}

Result<std::optional<Error>> ReceiveSession::probe_switch() {
    if (!task_->switch_client) {
        return std::optional<Error>();
    }
    const milliseconds wait = std::min(kProbeWait, task_->deadline / 2);
    auto info = ask_switch([&](RpcCancel* cancel) { return task_->switch_client->info(wait, cancel); });
    ASK_PASS(info);
    const bool away = !info->ok() && is_transient(info->error());
    return away ? std::optional<Error>(info->error()) : std::nullopt;
}

// A daemon that is away may be on its way up again, and one that hangs may go on: asking twice is harmless.
template <typename Call>
auto ReceiveSession::ask_until_reached(Call call) -> std::invoke_result_t<Call&, milliseconds, RpcCancel*> {
    const auto begun = Clock::now();
    const auto retry_until = begun + (request_.no_switch() ? kOptionalSwitchRetryFor
                                                           : std::min(kSwitchRetryFor, task_->deadline / 2));
    const auto give_up_at = request_.no_switch() ? retry_until : begun + task_->deadline;
    for (;;) {
        auto asked =
            ask_switch([&](RpcCancel* cancel) { return call(at_most(kSwitchWait, give_up_at), cancel); });
        ASK_PASS(asked);
        if (asked->ok() || !is_transient(asked->error()) || Clock::now() >= retry_until) {
            return *std::move(asked);
        }
        tell_waiting(true);
        ASK_PASS(wait_and_handle(Clock::now() + kSwitchRetryEvery));
    }
}

// Until the senders have told enough of their keys, or nobody will.
Result<> ReceiveSession::await_samples() {
    Clock::time_point next_tick = Clock::now();
    for (;;) {
        const auto due = agent_.registry.with(
            *task_, [](const ReceiveTask& task) { return task.samples.due(task.senders_expected); });
        const auto now = Clock::now();
        if (now >= due) {
            return {};
        }
        if (auto fine = check_senders(); !fine) {
            return fine;
        }
        if (now >= next_tick) {
            next_tick = now + kSessionTick;
            show_progress(to_string(TaskPhase::kPlanning));
        }
        if (auto fine = wait_and_handle(std::min(next_tick, due)); !fine) {
            return fine;
        }
    }
}

// A switch that is away, or none where one is required, is said at once, not when the first sender comes.
Result<> ReceiveSession::check_switch() {
    if (!agent_.switch_client || request_.no_switch()) {
        return agent_.switch_client || !request_.require_region() ? Result<>() : no_switch_error();
    }
    auto info = ask_until_reached(
        [&](milliseconds wait, RpcCancel* cancel) { return agent_.switch_client->info(wait, cancel); });
    return info ? Result<>() : std::move(info).error();
}

Result<GeometryChoice> ReceiveSession::plan_geometry() {
    ASK_PASS(check_switch());
    v1::LocalReply reply;
    reply.mutable_receive_accepted();
    ASK_PASS(io_.reply(reply));
    if (auto told = await_samples(); !told) {
        return std::move(told).error();
    }
    const auto [sample, payload_limit] = agent_.registry.with(*task_, [](const ReceiveTask& task) {
        return std::pair(task.samples.sum(task.senders_expected), task.samples.payload_limit());
    });
    auto planned = ask_switch([&](RpcCancel* /*cancel*/) {
        return request_.auto_geometry() ? planned_geometry(agent_, request_, sample, payload_limit)
                                        : asked_geometry(agent_, request_, sample);
    });
    ASK_PASS(planned);
    return *std::move(planned);
}

// Once: what is agreed with the first sender holds for the task's life.
Result<> ReceiveSession::choose_geometry() {
    const auto choice = wants_samples(agent_, request_) ? plan_geometry() : asked_geometry(agent_, request_);
    ASK_TRY(choice, "task " + request_.task_id());
    agent_.registry.with(*task_, [&](ReceiveTask& task) {
        task.geometry = choice->geometry;
        task.slot_map = choice->slot_map;
        task.geometry_reason = choice->reason;
        task.phase = TaskPhase::kOpening;
    });
    aggregators_wanted_ = choice->aggregators;
    may_shrink_ = choice->may_shrink;
    return {};
}

Result<> ReceiveSession::open() {
    if (auto chosen = choose_parameters(); !chosen) {
        return chosen;
    }
    if (auto added = agent_.registry.add(task_); !added) {
        return added;
    }
    added_ = true;
    if (auto chosen = choose_geometry(); !chosen) {
        return chosen;
    }
    if (auto opened = open_on_switch(); !opened) {
        return opened;
    }
    if (auto opened = open_on_workers(); !opened) {
        return opened;
    }
    if (auto started = start_swapper(); !started) {
        return started;
    }
    agent_.registry.opened(*task_);
    const auto brackets = [](const std::string& text) { return text.empty() ? "" : " (" + text + ")"; };
    spdlog::info("task {}: open for {} senders, geometry {}{}, {} aggregators an AA{}", task_->id,
                 task_->senders_expected, to_string(task_->geometry), brackets(task_->geometry_reason),
                 task_->aggregators, brackets(task_->note));
    return tell_ready();
}

Result<v1::OpenTaskReply> ReceiveSession::ask_switch_to_open(const v1::OpenTaskRequest& open) {
    perhaps_open_ = true;
    auto reply = ask_until_reached([&](milliseconds wait, RpcCancel* cancel) {
        return agent_.switch_client->open_task(open, wait, cancel);
    });
    // It has answered, and says whether it is; else nobody knows.
    perhaps_open_ = !reply && (is_transient(reply.error()) || reply.error().code() == Errc::kAborted);
    return reply;
}

Result<> ReceiveSession::open_on_switch() {
    if (!agent_.switch_client) {
        if (request_.require_region()) {
            return no_switch_error();
        }
        task_->note = "no switch is configured";
        return {};
    }
    v1::OpenTaskRequest open;
    open.set_id(task_->id);
    open.set_instance(task_->instance);
    *open.mutable_geometry() = geometry_to_proto(task_->geometry);
    open.set_op(task_->op == v1::OPERATOR_COUNT ? v1::OPERATOR_SUM : task_->op);
    open.set_aggregators(aggregators_wanted_);
    open.set_may_shrink(may_shrink_);
    open.set_copies(request_.no_switch() ? 0 : wants_two_copies(request_) ? 2 : 1);
    open.set_require_region(request_.require_region());
    // With replacement, a packet of a sender that dies may carry others' tuples.
    open.set_policy(request_.allow_incomplete() ? v1::POLICY_FIRST_COME : request_.policy());
    open.set_receiver(agent_.control_address());
    auto reply = ask_switch_to_open(open);
    if (!reply) {
        if (request_.no_switch() && is_transient(reply.error())) {
            tell_waiting(false);
            leave_open();
            task_->note = "opened without a switch: " + agent_.switch_client->name() + " is unreachable";
            return {};
        }
        return std::move(reply).error();
    }
    auto mark = mark_from_proto(reply->mark());
    ASK_TRY(mark, agent_.switch_client->name());
    task_->mark = *mark;
    task_->switch_client = agent_.switch_client;
    task_->aggregators = reply->aggregators();
    if (wants_swaps(request_) && reply->copies() == 2 && task_->aggregators > 0) {
        arrivals_ = std::make_shared<TaskArrivals>();
    }
    task_->note = clean_text(reply->no_region_reason());
    if (request_.no_switch()) {
        task_->note = "opened with --no-switch";
    } else if (task_->aggregators == 0) {
        agent_.counters.add(AgentCounter::k_tasks_without_region);
        spdlog::warn("task {}: no memory on {}, everything is added up here: {}", task_->id,
                     agent_.switch_client->name(), task_->note);
    }
    return {};
}

Result<> ReceiveSession::open_on_workers() {
    on_workers_ = true;
    for (unsigned i = 0; i < agent_.workers.size(); ++i) {
        auto table = ResultTable::create(std::make_unique<MemfdTableMemory>(&agent_.budget), task_->wire);
        if (!table) {
            return std::move(table).error();
        }
        auto shared = std::make_shared<ResultTable>(std::move(*table));
        auto opened = agent_.workers.at(i).call([instance = task_->instance, shared, mailbox = task_->mailbox,
                                                 arrivals = arrivals_](WorkerCore& core) {
            return core.open_task(instance, std::move(*shared), mailbox, arrivals);
        });
        if (!opened || !opened->ok()) {
            return !opened ? std::move(opened).error() : std::move(*opened).error();
        }
    }
    return {};
}

Result<> ReceiveSession::start_swapper() {
    if (!arrivals_) {
        return {};
    }
    auto table = ResultTable::create(std::make_unique<MemfdTableMemory>(&agent_.budget), task_->wire);
    ASK_PASS(table);
    const v1::SwapSettings& wanted = request_.swap();
    const Geometry& geometry = task_->geometry;
    swapper_ = std::make_unique<Swapper>(
        Swapper::Options{.id = task_->id,
                         .instance = task_->instance,
                         .mark = task_->mark,
                         .client = task_->switch_client,
                         .standstill = task_->deadline,
                         .settings = {.packets = wanted.packets(),
                                      .tuples = wanted.tuples(),
                                      .interval = Nanos{wanted.interval_ms()} * kMillisecond},
                         .places = std::uint64_t{geometry.slots()} * (task_->aggregators / 2),
                         .arrivals = arrivals_,
                         .mailbox = task_->mailbox},
        std::move(*table));
    return {};
}

Result<> ReceiveSession::tell_ready() {
    ready_.set_instance(task_->instance);
    *ready_.mutable_geometry() = geometry_to_proto(task_->geometry);
    ready_.set_aggregators(task_->aggregators);
    ready_.set_note(task_->note);
    ready_.set_geometry_reason(task_->geometry_reason);
    v1::LocalReply reply;
    ready_.set_no_memory(task_->switch_client && task_->aggregators == 0 && !request_.no_switch());
    *reply.mutable_receive_ready() = ready_;
    return io_.reply(reply);
}

FlowRxStats ReceiveSession::flow_stats(ChannelId channel) const {
    const auto stats =
        agent_.workers.owner(channel).call([instance = task_->instance, channel](WorkerCore& core) {
            return core.flow_stats(instance, channel);
        });
    return stats.ok() ? *stats : FlowRxStats();
}

// Until every sender's FIN is in.
Result<> ReceiveSession::collect() {
    Clock::time_point next_tick = Clock::now();
    while (!all_finished()) {
        if (auto fine = check_senders(); !fine) {
            return fine;
        }
        if (Clock::now() >= next_tick) {
            next_tick = Clock::now() + kSessionTick;
            if (auto fine = watch_flows(); !fine) {
                return fine;
            }
            const TaskPhase phase =
                agent_.registry.with(*task_, [](const ReceiveTask& task) { return task.phase; });
            show_progress(to_string(phase));
        }
        if (auto fine = wait_and_handle(next_tick); !fine) {
            return fine;
        }
    }
    return {};
}

Result<> ReceiveSession::wait_and_handle(Clock::time_point until) {
    auto wake = io_.wait(until);
    if (!wake) {
        if (io_.application_gone()) {
            return Error(Errc::kAborted, "task " + task_->id + " was cancelled");
        }
        return std::move(wake).error().with_context("task " + task_->id);
    }
    return handle(*wake);
}

Result<> ReceiveSession::handle(const SessionIo::Wake& wake) {
    for (const SessionEvent& event : wake.events) {
        if (event.kind == SessionEvent::Kind::kFin) {
            note_fin(event.channel);
        }
        if (event.error) {
            return Error(*event.error).with_context("task " + task_->id);
        }
    }
    if (wake.request) {
        return Error(Errc::kInput, "the application sent a request that does not fit a receive under way");
    }
    return {};
}

void ReceiveSession::note_fin(ChannelId channel) {
    agent_.registry.with(*task_, [&](ReceiveTask& task) {
        for (TaskSender& sender : task.senders) {
            if (sender.flow.channel == channel) {
                sender.fin = true;
                spdlog::info("task {}: sender {} has finished", task.id, sender.name);
            }
        }
    });
}

bool ReceiveSession::all_finished() {
    return agent_.registry.with(*task_, [](const ReceiveTask& task) {
        return (task.too_late || task.senders.size() == task.senders_expected) &&
               std::ranges::all_of(task.senders, [](const TaskSender& sender) {
                   return sender.joined && (sender.fin || sender.missing);
               });
    });
}

// Nobody is waited for in silence.
Result<> ReceiveSession::check_senders() {
    auto fine = agent_.registry.with(*task_, [&](ReceiveTask& task) -> Result<> {
        for (TaskSender& sender : task.senders) {
            auto alive = check_sender(task, sender);
            if (!alive && !request_.allow_incomplete()) {
                return Error(alive.error().code(), "sender " + sender.name + " " + alive.error().text());
            }
            if (!alive && !sender.fin && !sender.missing) {
                sender.missing = alive.error().text();
                spdlog::warn("task {}: goes on without sender {}, which {}", task.id, sender.name,
                             *sender.missing);
            }
        }
        return {};
    });
    ASK_PASS(fine);
    auto joined = agent_.registry.with(*task_, [&](ReceiveTask& task) { return check_joined(task); });
    return joined ? joined : explain_missing(joined.error());
}

// Whoever could not join because the switch took nobody in is not to blame.
Error ReceiveSession::explain_missing(const Error& missing) {
    auto away = probe_switch();
    if (!away) {
        return std::move(away).error();
    }
    return *away ? Error(missing.code(), missing.text() + ", and " + (*away)->text()) : missing;
}

Result<> ReceiveSession::check_sender(const ReceiveTask& task, const TaskSender& sender) {
    if (sender.left) {
        return Error(Errc::kAborted, "gave up: " + *sender.left);
    }
    if (sender.joined && !sender.fin && Clock::now() - sender.last_heard > task.deadline) {
        return Error(Errc::kDeadline, "has not been heard of for " + seconds_text(task.deadline));
    }
    return {};
}

Result<> ReceiveSession::check_joined(ReceiveTask& task) const {
    std::string joined;
    std::uint32_t count = 0;
    for (const TaskSender& sender : task.senders) {
        if (sender.joined) {
            ++count;
            joined += (joined.empty() ? "" : ", ") + sender.name;
        }
    }
    if (task.too_late || count >= task.senders_expected || Clock::now() - task.opened <= task.deadline) {
        return {};
    }
    if (request_.allow_incomplete() && count > 0) {
        spdlog::warn("task {}: goes on without {} senders that never joined", task.id,
                     task.senders_expected - count);
        std::erase_if(task.senders, [](const TaskSender& sender) { return !sender.joined; });
        task.too_late = true;
        return {};
    }
    return Error(Errc::kDeadline, "task " + task.id + ": " + std::to_string(count) + " of " +
                                      std::to_string(task.senders_expected) + " senders joined within " +
                                      seconds_text(task.deadline) +
                                      (joined.empty() ? "" : ": only " + joined));
}

Result<> ReceiveSession::watch_flows() {
    const auto now = Clock::now();
    if (now < next_watch_) {
        return {};
    }
    next_watch_ = now + std::min(kWatchEvery, task_->deadline / 4);
    const auto senders = agent_.registry.with(*task_, [](const ReceiveTask& task) { return task.senders; });
    for (const TaskSender& sender : senders) {
        if (!sender.joined) {
            continue;
        }
        const FlowRxStats stats = flow_stats(sender.flow.channel);
        note_receiver_part(sender, stats);
        if (!sender.fin && !sender.missing) {
            ASK_PASS(check_marks(sender, stats));
        }
    }
    return {};
}

void ReceiveSession::note_receiver_part(const TaskSender& sender, const FlowRxStats& stats) {
    agent_.registry.with(*task_, [&](ReceiveTask& task) {
        for (TaskSender& entry : task.senders) {
            if (entry.sender == sender.sender) {
                set_receiver_part(entry.stats, stats);
            }
        }
    });
}

// A flow of which only packets with a wrong mark come makes no progress. Until that has lasted for the
// deadline, its sender is told what is the matter.
Result<> ReceiveSession::check_marks(const TaskSender& sender, const FlowRxStats& stats) {
    MarkWatch& watch = marks_[sender.sender];
    // What the switch acknowledges passed it, though nothing of it comes here.
    watch.note(Clock::now(), stats.packets_accepted + sender.stats.packets_acked_by_switch(),
               stats.packets_bad_mark);
    if (watch.persists(task_->deadline)) {
        return explain_bad_marks(sender.name, watch.bad());
    }
    agent_.registry.set_trouble(*task_, sender.sender, watch.only_bad() ? bad_marks_text(watch.bad()) : "");
    return {};
}

std::string ReceiveSession::bad_marks_text(std::uint64_t packets) {
    return "its packets go round the switch (" + std::to_string(packets) + " came without its mark)";
}

Error ReceiveSession::explain_bad_marks(const std::string& sender, std::uint64_t packets) {
    const std::string text = "sender " + sender + ": " + bad_marks_text(packets);
    const std::string advice = ": make its route to this host lead through ";
    if (!task_->switch_client) {
        return {Errc::kAborted, text + advice + "the switch"};
    }
    // One that aggregates goes on doing so while its daemon is away: here even its programs are.
    auto away = probe_switch();
    if (!away) {
        return std::move(away).error();
    }
    if (*away) {
        return {Errc::kSwitchLost, text + ", and " + (*away)->text()};
    }
    return {Errc::kAborted, text + advice + task_->switch_client->name()};
}

void ReceiveSession::show_progress(const std::string& state) {
    v1::Progress progress;
    progress.set_state(state);
    agent_.registry.with(*task_, [&](const ReceiveTask& task) {
        std::uint32_t joined = 0;
        std::uint32_t finished = 0;
        for (const TaskSender& sender : task.senders) {
            joined += sender.joined ? 1 : 0;
            finished += sender.fin ? 1 : 0;
            add_stats(*progress.mutable_stats(), sender.stats);
        }
        if (!has_switch_part(progress.stats())) {
            add_switch_part(*progress.mutable_stats(), task.switch_part);
        }
        progress.set_senders_joined(joined);
        progress.set_senders_finished(finished);
    });
    io_.progress(progress);
}

Result<> ReceiveSession::commit() {
    agent_.registry.with(*task_, [](ReceiveTask& task) { task.phase = TaskPhase::kFetching; });
    show_progress("fetching");
    auto table = take_table();
    if (!table) {
        return std::move(table).error();
    }
    note_receiver_counts();
    if (auto merged = merge_swapped(*table); !merged) {
        return merged;
    }
    if (auto merged = merge_switch_copy(*table); !merged) {
        return merged;
    }
    if (auto fits = table->finish(); !fits) {
        return std::move(fits).error().with_context("task " + task_->id);
    }
    wait_for_final_stats();
    auto result = seal(std::move(*table));
    ASK_PASS(result);
    agent_.registry.computed(*task_);
    spdlog::info("task {}: computed", task_->id);
    hand_over_or_keep(*result);
    return {};
}

// Ends the task on all workers and merges what each of them has.
Result<ResultTable> ReceiveSession::take_table() {
    std::unique_ptr<ResultTable> all;
    for (unsigned i = 0; i < agent_.workers.size(); ++i) {
        auto part = agent_.workers.at(i).call(
            [instance = task_->instance](WorkerCore& core) { return core.close_task(instance, false); });
        if (!part) {
            return std::move(part).error();
        }
        if (!*part) {
            return Error(Errc::kInternal, "a worker has lost the table of task " + task_->id);
        }
        if (!all) {
            all = std::move(*part);
        } else if (auto merged = all->merge(**part); !merged) {
            return std::move(merged).error().with_context("task " + task_->id);
        }
    }
    on_workers_ = false;
    return std::move(*all);
}

Result<> ReceiveSession::pause_fetching(Clock::time_point until) {
    tell_waiting(true);
    return wait_and_handle(until);
}

Result<FetchedCopy> ReceiveSession::fetch_until_deadline() {
    const auto give_up_at = Clock::now() + task_->deadline;
    // Somebody who is missing may still be sending.
    const bool close = agent_.registry.with(*task_, [](const ReceiveTask& task) {
        return std::ranges::any_of(task.senders,
                                   [](const TaskSender& sender) { return bool(sender.missing); });
    });
    for (;;) {
        auto asked = ask_switch([&](RpcCancel* cancel) {
            return task_->switch_client->fetch_copy({.instance = task_->instance,
                                                     .mark = task_->mark,
                                                     .epoch = epoch_,
                                                     .close = close,
                                                     .wait = at_most(kFetchWait, give_up_at)},
                                                    cancel);
        });
        ASK_PASS(asked);
        auto& copy = *asked;
        // Without a region there is nothing to lose but the switch's counts.
        if (copy.ok() || task_->aggregators == 0) {
            return copy.ok() ? std::move(copy) : Result<FetchedCopy>(FetchedCopy());
        }
        if (!is_transient(copy.error())) {
            return std::move(copy);
        }
        if (Clock::now() >= give_up_at) {
            return Error(Errc::kDeadline, "what " + task_->switch_client->name() +
                                              " has aggregated could not be fetched within " +
                                              seconds_text(task_->deadline) + ": start ask-switchd there");
        }
        ASK_PASS(pause_fetching(std::min(Clock::now() + kSessionTick, give_up_at)));
    }
}

// Until the swap under way, if any, is over.
Result<> ReceiveSession::await_swapper() {
    Clock::time_point next_tick = Clock::now() + kSessionTick;
    while (!swapper_->ended()) {
        if (Clock::now() >= next_tick) {
            next_tick = Clock::now() + kSessionTick;
            tell_waiting(true);
        }
        ASK_PASS(wait_and_handle(next_tick));
    }
    tell_waiting(false);
    return {};
}

// What the swaps have brought. After this the task's last copy is that of epoch_, and stays so.
Result<> ReceiveSession::merge_swapped(ResultTable& table) {
    if (!swapper_) {
        return {};
    }
    swapper_->finish(Clock::now() + task_->deadline);
    ASK_PASS(await_swapper());
    auto outcome = swapper_->take();
    ASK_PASS(outcome);
    epoch_ = outcome->epoch;
    fetched_ = outcome->fetched;
    auto merged = table.merge(outcome->table);
    return merged ? std::move(merged) : std::move(merged).error().with_context("task " + task_->id);
}

// Staged whole, checked, and merged once.
Result<> ReceiveSession::merge_switch_copy(ResultTable& table) {
    if (!task_->switch_client) {
        return {};
    }
    auto copy = fetch_until_deadline();
    if (!copy) {
        return std::move(copy).error();
    }
    for (const std::string& chunk : copy->chunks) {
        EntryReader entries(chunk);
        while (!entries.done()) {
            auto entry = entries.next();
            if (!entry) {
                return std::move(entry).error();
            }
            if (auto added = table.add(entry->key, entry->value); !added) {
                return std::move(added).error().with_context("task " + task_->id);
            }
        }
    }
    fetched_ += copy->count;
    note_switch_counts(*copy);
    return {};
}

void ReceiveSession::note_switch_counts(const FetchedCopy& copy) {
    agent_.registry.with(*task_, [&](ReceiveTask& task) {
        for (const v1::FetchFlow& flow : copy.flows) {
            for (TaskSender& sender : task.senders) {
                if (sender.flow.channel.host == flow.channel().host() &&
                    sender.flow.channel.port == flow.channel().port()) {
                    add_switch_part(sender.stats, flow.stats());
                }
            }
        }
    });
}

void ReceiveSession::note_receiver_counts() {
    const auto senders = agent_.registry.with(*task_, [](const ReceiveTask& task) { return task.senders; });
    for (const TaskSender& sender : senders) {
        const FlowRxStats stats = flow_stats(sender.flow.channel);
        note_receiver_part(sender, stats);
        packets_of_[sender.sender] = stats.last_seq - sender.flow.first_seq + 1;
    }
}

// A sender tells its final figures as soon as its FIN is acknowledged: those that count as many packets as
// its seqs. They are worth a moment, not a failure.
void ReceiveSession::wait_for_final_stats() {
    const auto until = Clock::now() + std::min(kFinalStatsWait, task_->deadline);
    const auto complete = [&](const ReceiveTask& task) {
        return std::ranges::all_of(task.senders, [&](const TaskSender& sender) {
            return sender.missing || sender.stats.packets_sent() >= packets_of_[sender.sender];
        });
    };
    while (!agent_.registry.with(*task_, complete) && Clock::now() < until) {
        io_.wait_mailbox(until);
        [[maybe_unused]] const auto events = io_.mailbox()->take();
    }
}

v1::Done ReceiveSession::describe_result(std::uint64_t keys, std::uint64_t bytes) {
    v1::Done done;
    Clock::time_point first_join = Clock::now();
    agent_.registry.with(*task_, [&](const ReceiveTask& task) {
        for (const TaskSender& sender : task.senders) {
            first_join = std::min(first_join, sender.joined_at);
            *done.add_per_sender() = sender.stats;
            done.add_sender_names(sender.name);
            add_stats(*done.mutable_stats(), sender.stats);
            if (sender.missing) {
                v1::Missing& missing = *done.add_missing();
                missing.set_name(sender.name);
                missing.set_senders(1);
                missing.set_reason(*sender.missing);
            }
        }
        if (task.senders.size() < task.senders_expected) {
            v1::Missing& missing = *done.add_missing();
            missing.set_senders(task.senders_expected - static_cast<std::uint32_t>(task.senders.size()));
            missing.set_reason("did not join within " + seconds_text(task.deadline));
        }
    });
    done.set_seconds(std::chrono::duration<double>(Clock::now() - first_join).count());
    done.set_result_bytes(bytes);
    done.set_result_keys(keys);
    done.set_fetched(fetched_);
    done.set_swaps(epoch_);
    return done;
}

// From here on the result is independent of what it was made from.
Result<std::shared_ptr<KeptResult>> ReceiveSession::seal(ResultTable table) {
    // Every table of this agent was made with memory of this kind (open_on_workers).
    auto& memory = static_cast<MemfdTableMemory&>(table.memory());
    auto result = std::make_shared<KeptResult>();
    result->done = describe_result(table.size(), memory.bytes());
    result->done.set_keep_seconds(static_cast<std::uint32_t>(agent_.kept.time().count()));
    result->ready = ready_;
    result->task = agent_.registry.describe(*task_);
    result->mailbox = task_->mailbox;
    auto sealed = memory.take_sealed();
    ASK_PASS(sealed);
    result->table = std::move(*sealed);
    return result;
}

// Senders succeed when the result was taken, whoever takes it, and not before.
void ReceiveSession::hand_over_or_keep(const std::shared_ptr<KeptResult>& result) {
    swapper_.reset();
    const HandedOver handed = hand_over(io_, *result,
                                        {.deadline = task_->deadline,
                                         .on_sign = [] {},
                                         // Nothing that is there is needed any more.
                                         .on_waiting = [this] { close_on_switch(); }});
    if (handed == HandedOver::kTaken) {
        end_taken();
        confirm_taken(io_);
    } else if (handed == HandedOver::kStopping || handed == HandedOver::kCancelled ||
               agent_.kept.time().count() == 0) {
        end_lost();
    } else {
        agent_.kept.keep(result);
        agent_.registry.free_id(task_);
        close_on_switch();
        if (handed == HandedOver::kGone) {
            wait_for_again(*result);
        }
        end_kept(*result);
    }
    close_on_switch();
}

// Until an --again has taken it, the time of the senders is over, it is gone, or the daemon ends.
void ReceiveSession::wait_for_again(const KeptResult& result) {
    while (!io_.stopping()) {
        const KeptResults::Look look = agent_.kept.look(result);
        const auto give_up_at = look.last_sign + task_->deadline;
        if (look.state == KeptResult::State::kTaken || look.state == KeptResult::State::kDropped ||
            Clock::now() >= give_up_at) {
            return;
        }
        io_.wait_without_application(give_up_at);
    }
}

void ReceiveSession::end_taken() {
    v1::Outcome outcome;
    outcome.set_state(v1::Outcome::STATE_COMMITTED);
    agent_.registry.end(task_, std::move(outcome));
    agent_.history.add(agent_.registry.describe(*task_));
    spdlog::info("task {}: committed", task_->id);
}

void ReceiveSession::end_kept(KeptResult& result) {
    const std::string& host = agent_.config.name;
    const std::string not_taken = "task " + task_->id + ": computed, but not taken: ";
    switch (agent_.kept.stop_waiting(result)) {
        case KeptResult::State::kTaken:
            return end_taken();
        case KeptResult::State::kDropped:
            return end_failed({Errc::kAborted, not_taken + host + " no longer keeps it: run the task again"});
        case KeptResult::State::kKept:
        case KeptResult::State::kHandedOut:
            if (io_.stopping()) {
                return end_lost();
            }
            const Error error(Errc::kNotTaken, not_taken + "kept at " + host + " until " + result.until_text +
                                                   "; `ask-recv --task " + task_->id +
                                                   " --again` there takes it");
            end_failed(error);
            // One that was suspended may come back.
            io_.fail_at_once(error);
    }
}

// There is no result any more that anybody could take.
void ReceiveSession::end_lost() {
    const std::string why = io_.stopping()    ? stopping_error().text()
                            : io_.cancelled() ? "cancelled by askctl task cancel"
                                              : "results are not kept (keep_result_seconds = 0)";
    const Error error(Errc::kAborted, "task " + task_->id + ": computed, but not taken at " +
                                          agent_.config.name + ", and " + why + ": run the task again");
    end_failed(error);
    io_.fail_at_once(error);
}

void ReceiveSession::end_failed(const Error& error) {
    spdlog::warn("{}", error.text());
    v1::Outcome outcome;
    outcome.set_state(v1::Outcome::STATE_FAILED);
    outcome.set_code(static_cast<std::int32_t>(error.code()));
    outcome.set_error(error.text());
    agent_.registry.end(task_, std::move(outcome));
    agent_.history.add(agent_.registry.describe(*task_));
}

void ReceiveSession::close_on_switch() {
    if (perhaps_open_) {
        leave_open();
    }
    if (!task_->switch_client || closed_on_switch_) {
        return;
    }
    closed_on_switch_ = true;
    const milliseconds wait = std::min(kCloseWait, task_->deadline);
    if (auto closed = task_->switch_client->close_task(task_->instance, wait); !closed) {
        spdlog::warn("task {}: {}", task_->id, closed.error().text());
        leave_open();
    }
}

void ReceiveSession::leave_open() {
    perhaps_open_ = false;
    if (!agent_.left_open.add(task_->instance, Clock::now())) {
        spdlog::warn("more than {} tasks are to be closed at {}: of the oldest the lease runs out there",
                     LeftOpen::kMost, agent_.switch_client->name());
    }
}

// What a switch lost can be had again if everybody concerned can begin again.
Error ReceiveSession::explain_loss(const Error& loss) const {
    std::string unable;
    if (!request_.can_repeat()) {
        unable = "this receive does not run again without the switch";
    } else if (added_) {
        agent_.registry.with(*task_, [&](const ReceiveTask& task) {
            for (const TaskSender& sender : task.senders) {
                if (!sender.can_repeat && !sender.missing) {
                    unable = "sender " + sender.name + " cannot send again what came through a pipe";
                }
            }
        });
    }
    return unable.empty()
               ? Error(Errc::kRunAgain, loss.text() + ": the task begins again without the switch")
               : Error(Errc::kSwitchLost, loss.text() + ", and " + unable + ": run the task again");
}

void ReceiveSession::give_up(const Error& reason) {
    swapper_.reset();
    const Error error = reason.code() == Errc::kSwitchLost ? explain_loss(reason) : reason;
    spdlog::warn("task {}: receive failed: {}", clean_name(request_.task_id()), error.text());
    if (added_) {
        v1::Outcome outcome;
        outcome.set_state(v1::Outcome::STATE_FAILED);
        outcome.set_code(static_cast<std::int32_t>(error.code()));
        outcome.set_error("receiver " + agent_.config.name + ": " + error.text());
        agent_.registry.end(task_, std::move(outcome));
        agent_.history.add(agent_.registry.describe(*task_));
    }
    if (on_workers_) {
        for (unsigned i = 0; i < agent_.workers.size(); ++i) {
            [[maybe_unused]] const auto closed = agent_.workers.at(i).call(
                [instance = task_->instance](WorkerCore& core) { return core.close_task(instance, true); });
        }
    }
    // First, because whoever begins again uses the same id.
    if (added_ && error.code() == Errc::kRunAgain) {
        close_on_switch();
    }
    io_.fail(error);
    if (added_ && error.code() != Errc::kRunAgain) {
        close_on_switch();
    }
}

}  // namespace ask
