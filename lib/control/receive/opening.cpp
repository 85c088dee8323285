// SPDX-License-Identifier: Apache-2.0
//
// How a receive begins: what it is to be, where, and that its senders may come.
#include <algorithm>
#include <optional>
#include <utility>

#include <spdlog/spdlog.h>

#include "lib/abi/limits.h"
#include "lib/base/probe.h"
#include "lib/base/random.h"
#include "lib/control/member/convert.h"
#include "lib/control/member/patience.h"
#include "lib/control/receive/receiving.h"

namespace ask {
namespace {

// A switch's daemon that was killed is back within seconds; one that was never started should be named soon.
constexpr milliseconds kSwitchRetryFor{10000};
constexpr milliseconds kOptionalSwitchRetryFor{1000};
constexpr milliseconds kSwitchRetryEvery{200};

bool wants_swaps(const v1::OpenReceive& request) {
    return request.has_swap() && !request.swap().off();
}

Error no_switch_error() {
    return {Errc::kUnavailable,
            "a region is required, but no switch is configured: set `switch` of this agent"};
}

}  // namespace

Result<> Receiving::choose_parameters() {
    if (auto valid = check_task_id(request_.task_id()); !valid) {
        return valid;
    }
    if ((request_.senders() == 0 && !is_window()) || request_.senders() > ASK_MAX_SENDERS) {
        return Error(Errc::kUsage, "senders must be from 1 to " + std::to_string(ASK_MAX_SENDERS) + ", not " +
                                       std::to_string(request_.senders()));
    }
    const auto wire = wire_op(request_.op());
    ASK_TRY(wire, "task " + request_.task_id());
    task_->id = request_.task_id();
    task_->instance = random_u64();
    task_->user = io_.user();
    task_->op = request_.op();
    task_->wire = *wire;
    task_->senders_expected = request_.senders();
    const auto deadline = task_deadline(request_.deadline_ms(), member_.options.deadline_seconds);
    ASK_TRY(deadline, "task " + request_.task_id());
    task_->deadline = *deadline;
    if (request_.answers_progress()) {
        io_.expect_answers(task_->deadline, answering_name(request_.partial()));
    }
    task_->mailbox = io_.mailbox();
    task_->in_parts = request_.reserve_bytes() != 0;
    if (task_->in_parts && (!request_.partial() || wants_swaps(request_))) {
        return Error(Errc::kUsage, "task " + request_.task_id() +
                                       ": a reserve is for what is sent on as a part of another result, and "
                                       "goes without shadow copies");
    }
    if (request_.own_switches()) {
        task_->own.emplace();
        leave_out_switches();
    }
    if (is_window()) {
        ASK_PASS(member_.registry.begin_run(*task_, request_.stream(), request_.window()));
    }
    ASK_PASS(choose_placement());
    task_->phase = plans() ? TaskPhase::kPlanning : TaskPhase::kOpening;
    return {};
}

// Names are resolved beside the session: that may take its time.
Result<> Receiving::choose_members() {
    if (is_window()) {
        return {};  // the stream's
    }
    if (request_.from_size() > static_cast<int>(ASK_MAX_SENDERS) || request_.token().size() > ASK_MAX_TOKEN) {
        return Error(Errc::kUsage, "task " + request_.task_id() + ": at most " +
                                       std::to_string(ASK_MAX_SENDERS) +
                                       " hosts may be named, and a token has " +
                                       std::to_string(ASK_MAX_TOKEN) + " bytes at most");
    }
    Membership& members = task_->members;
    members.tenant = member_.options.tenant;
    members.token = request_.token();
    for (const std::string& name : request_.from()) {
        auto found = run_beside(
            io_.mailbox(), [&](CallCancel* /*cancel*/) { return member_.network.resolve(name, io_.user()); },
            [this](Clock::time_point until) { return wait_and_handle(until); }, [] {});
        ASK_PASS(found);
        ASK_TRY(*found, "--from");
        members.names.push_back(name);
        members.hosts.push_back((*found)->address);
    }
    return {};
}

// A window that begins again goes without for once.
std::string Receiving::why_no_memory() const {
    return is_window() ? "it is to do without: by --no-switch, or as its last run has failed"
                       : "opened with --no-switch";
}

// A window does without a switch that is away, and the next one asks it again.
bool Receiving::can_do_without_switch() const {
    return request_.no_switch() || (is_window() && !request_.require_region());
}

// What decides is what the last window had; a sample of each would hold each up.
bool Receiving::plans() const {
    return !is_window() && wants_samples(member_, request_);
}

Receiving::Asking Receiving::asking() const {
    return {.patience = can_do_without_switch() ? kOptionalSwitchRetryFor
                                                : std::min(kSwitchRetryFor, task_->deadline / 2),
            .until = Clock::now() + task_->deadline,
            .optional = can_do_without_switch()};
}

// Until the senders have told enough of their keys, or nobody will.
Result<> Receiving::await_samples() {
    Clock::time_point next_tick = Clock::now();
    for (;;) {
        const auto due = member_.registry.with(
            *task_, [](const ReceiveTask& task) { return task.samples.due(task.sends()); });
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
// Senders' own switches are not known before that.
Result<> Receiving::check_switch() {
    if (request_.own_switches() || is_to_be_placed()) {
        return {};
    }
    if (!member_.own_switch || request_.no_switch()) {
        return member_.own_switch || !request_.require_region() ? Result<>() : no_switch_error();
    }
    const auto info = ask_until_reached(
        *member_.own_switch, asking(),
        [&](milliseconds wait, CallCancel* cancel) { return member_.own_switch->info(wait, cancel); });
    ASK_PASS(info);
    return *info ? Result<>() : Result<>(info->error());
}

std::shared_ptr<SwitchPort> Receiving::switch_of_plan() {
    if (request_.no_switch()) {
        return nullptr;
    }
    if (!request_.own_switches()) {
        return member_.own_switch;
    }
    // They may differ: one that has less grants less.
    const auto any = member_.registry.with(*task_, [](const ReceiveTask& task) { return task.own->any(); });
    return any ? switch_called(*any) : nullptr;
}

Result<GeometryChoice> Receiving::plan_geometry() {
    ASK_PASS(check_switch());
    v1::LocalReply reply;
    reply.mutable_receive_accepted();
    ASK_PASS(io_.reply(reply));
    if (auto told = await_samples(); !told) {
        return std::move(told).error();
    }
    const auto [sample, payload_limit] = member_.registry.with(*task_, [](const ReceiveTask& task) {
        return std::pair(task.samples.sum(task.sends()), task.samples.payload_limit());
    });
    const auto at = switch_of_plan();
    const auto plan = [&](CallCancel* /*cancel*/) {
        return request_.auto_geometry() ? planned_geometry(member_, at.get(), request_, sample, payload_limit)
                                        : asked_geometry(member_, at.get(), request_, sample);
    };
    if (!at) {
        return plan(nullptr);
    }
    auto planned = ask_switch(*at, plan);
    ASK_PASS(planned);
    return *std::move(planned);
}

// Once: what is agreed with the first sender holds for the task's life.
Result<> Receiving::choose_geometry() {
    auto choice = plans() ? plan_geometry() : asked_geometry(member_, request_);
    if (!choice) {
        // Of what it waited for while it planned, its task is named already.
        const std::string about = "task " + request_.task_id();
        return choice.error().text().starts_with(about) ? choice.error()
                                                        : Error(choice.error()).with_context(about);
    }
    member_.registry.with(*task_, [&](ReceiveTask& task) {
        if (task.here) {
            choice->back = task.here->need.wish();
        }
        task.geometry = choice->geometry;
        task.slot_map = choice->slot_map;
        task.geometry_reason = choice->reason;
        task.phase = TaskPhase::kOpening;
    });
    aggregators_wanted_ = choice->aggregators;
    may_shrink_ = choice->may_shrink;
    back_ = wants_back(request_) ? choice->back : BackWish();
    return {};
}

Result<> Receiving::open() {
    if (auto chosen = choose_parameters(); !chosen) {
        return chosen;
    }
    if (auto chosen = choose_members(); !chosen) {
        return chosen;
    }
    if (auto added = member_.registry.add(task_); !added) {
        return added;
    }
    added_ = true;
    if (auto chosen = choose_geometry(); !chosen) {
        return chosen;
    }
    if (auto placed = ask_for_placement(); !placed) {
        return placed;
    }
    if (auto opened = open_on_switch(); !opened) {
        return opened;
    }
    if (auto opened = open_on_workers(); !opened) {
        return opened;
    }
    if (auto started = start_swappers(); !started) {
        return started;
    }
    member_.registry.opened(*task_);
    if (auto opened = open_relays(); !opened) {
        return opened;
    }
    ASK_PROBE(receive_opened, task_->id.c_str(), task_->instance, task_->senders_expected);
    const auto brackets = [](const std::string& text) { return text.empty() ? "" : " (" + text + ")"; };
    const auto sends = member_.registry.with(*task_, [](const ReceiveTask& task) { return task.sends(); });
    spdlog::log(task_->log_level(), "task {}: open for {} senders, geometry {}{}, {} aggregators an AA{}",
                task_->id, sends, to_string(task_->geometry), brackets(task_->geometry_reason),
                granted(task_->switches), brackets(task_->note));
    return tell_ready();
}

// A switch that says that it is still making the task's memory is alive.
Result<Receiving::Opened> Receiving::ask_until_open(SwitchPort& at, const Asking& asking) {
    const auto give_up_at = Clock::now() + task_->deadline;
    const v1::OpenTaskRequest open = open_request();
    for (;;) {
        auto reply = ask_until_reached(at, asking, [&](milliseconds wait, CallCancel* cancel) -> Opened {
            ASK_PASS(close_left_open(member_.left_open, at, task_->id, wait, cancel));
            return at.open_task(open, wait, cancel);
        });
        ASK_PASS(reply);
        if (!*reply || !(*reply)->opening()) {
            return reply;
        }
        if (Clock::now() >= give_up_at) {
            return Opened(Error(Errc::kDeadline, at.name() + " has not made the task's memory within " +
                                                     seconds_text(task_->deadline) +
                                                     ": allow it more time (--deadline)"));
        }
        tell_waiting(at);
        ASK_PASS(wait_and_handle(Clock::now() + kSwitchRetryEvery));
    }
}

Result<Receiving::Opened> Receiving::ask_switch_to_open(SwitchPort& at, const Asking& asking) {
    perhaps_open_.push_back(at.address());
    auto reply = ask_until_open(at, asking);
    // It has answered, and says whether it is; else nobody knows.
    if (reply && (*reply || !(is_transient(reply->error()) || reply->error().code() == Errc::kAborted))) {
        forget_open(at.address());
    }
    return reply;
}

v1::OpenTaskRequest Receiving::open_request() const {
    v1::OpenTaskRequest open;
    open.set_id(task_->id);
    open.set_instance(task_->instance);
    *open.mutable_geometry() = geometry_to_proto(task_->geometry);
    open.set_op(op_to_proto(task_->wire));
    open.set_aggregators(aggregators_wanted_);
    open.set_may_shrink(may_shrink_);
    open.set_copies(request_.no_switch() ? 0 : wants_two_copies(request_) ? 2 : 1);
    open.set_require_region(request_.require_region());
    // With replacement, a packet of a sender that dies may carry others' tuples.
    open.set_policy(request_.allow_incomplete() ? v1::POLICY_FIRST_COME : request_.policy());
    if (back_.wanted) {
        *open.mutable_back() = back_to_proto(back_);
    }
    open.set_senders(
        std::max(1U, member_.registry.with(*task_, [](const ReceiveTask& task) { return task.expects(); })));
    open.set_receiver(member_.options.control_address);
    open.set_receiver_address(member_.options.address);
    open.set_wire_version(ASK_WIRE_VERSION);
    return open;
}

Result<> Receiving::open_on_switch() {
    if (request_.own_switches() || is_placed()) {
        task_->note = request_.no_switch() ? why_no_memory() : "";
        return {};
    }
    if (!member_.own_switch) {
        if (request_.require_region()) {
            return no_switch_error();
        }
        task_->note = "no switch is configured";
        return {};
    }
    auto reply = ask_switch_to_open(*member_.own_switch, asking());
    ASK_PASS(reply);
    if (!*reply) {
        if (can_do_without_switch() && is_transient(reply->error())) {
            tell_going_on();
            leave_open(member_.own_switch->address());
            task_->note = "opened without a switch: " + member_.own_switch->name() + " is unreachable";
            return {};
        }
        return Error(reply->error());
    }
    auto added = add_switch(member_.own_switch, **reply);
    return added ? Result<>() : std::move(added).error();
}

// It has the task open: the task goes through it from now on.
Result<TaskSwitch*> Receiving::add_switch(const std::shared_ptr<SwitchPort>& client,
                                          const v1::OpenTaskReply& reply) {
    const auto mark = mark_from_proto(reply.mark());
    ASK_TRY(mark, client->name());
    TaskSwitch at;
    at.client = client;
    at.mark = *mark;
    at.nonce = reply.nonce();
    at.aggregators = reply.aggregators();
    at.back_bytes = reply.back_bytes();
    at.note = request_.no_switch() ? why_no_memory() : clean_text(reply.no_region_reason());
    if (wants_swaps(request_) && reply.copies() == 2 && at.aggregators > 0) {
        at.arrivals = std::make_shared<TaskArrivals>();
    }
    note_grant(at, reply);
    return member_.registry.with(*task_, [&](ReceiveTask& task) {
        task.switches.push_back(std::move(at));
        return &task.switches.back();
    });
}

void Receiving::note_grant(const TaskSwitch& at, const v1::OpenTaskReply& reply) {
    member_.registry.with(*task_, [&](ReceiveTask& task) {
        task.back_bytes += reply.back_bytes();
        task.no_back_reason = clean_text(reply.no_back_reason());
        if (!task.own) {
            task.note = at.note;
        }
    });
    if (at.aggregators == 0 && !request_.no_switch()) {
        member_.counters.add(AgentCounter::k_tasks_without_region);
        ASK_PROBE(receive_without_region, task_->id.c_str(), task_->instance, at.note.c_str());
        spdlog::warn("task {}: no memory on {}, {} is added up here: {}", task_->id, at.client->name(),
                     task_->own ? "what comes through it" : "everything", at.note);
    }
}

Result<> Receiving::open_on_workers() {
    on_workers_ = true;
    ASK_PASS(choose_reserve());
    for (unsigned i = 0; i < member_.workers.size(); ++i) {
        auto table = make_table();
        ASK_PASS(table);
        ASK_PASS(member_.workers.open_task(i, task_->instance, std::move(*table), task_->mailbox,
                                           parts_ != nullptr));
    }
    return {};
}

Result<ResultTable> Receiving::make_table() {
    return parts_ ? parts_->make_table()
                  : ResultTable::create(member_.tables.make_memory(task_->user), task_->wire);
}

Result<> Receiving::start_swappers() {
    for (TaskSwitch& at : task_->switches) {
        if (at.arrivals) {
            ASK_PASS(start_swapper(at));
        }
    }
    return {};
}

Result<> Receiving::start_swapper(TaskSwitch& at) {
    auto table = ResultTable::create(member_.tables.make_memory(task_->user), task_->wire);
    ASK_PASS(table);
    const v1::SwapSettings& wanted = request_.swap();
    const Geometry& geometry = task_->geometry;
    at.swapper = std::make_unique<Swapper>(
        Swapper::Options{.id = task_->id,
                         .region = {task_->instance, at.nonce},
                         .mark = at.mark,
                         .client = at.client,
                         .standstill = task_->deadline,
                         .settings = {.packets = wanted.packets(),
                                      .tuples = wanted.tuples(),
                                      .interval = Nanos{wanted.interval_ms()} * kMillisecond},
                         .places = std::uint64_t{geometry.slots()} * (at.aggregators / 2),
                         .arrivals = at.arrivals,
                         .mailbox = task_->mailbox},
        std::move(*table));
    return {};
}

Result<> Receiving::tell_ready() {
    ready_.set_instance(task_->instance);
    *ready_.mutable_geometry() = geometry_to_proto(task_->geometry);
    ready_.set_aggregators(granted(task_->switches));
    ready_.set_note(task_->note);
    ready_.set_no_relays(placement_note_);
    ready_.set_back_bytes(task_->back_bytes);
    ready_.set_geometry_reason(task_->geometry_reason);
    ready_.set_agent(member_.options.control_address);
    ready_.set_switch_address(member_.own_switch ? member_.own_switch->address() : "");
    v1::LocalReply reply;
    ready_.set_no_memory(!task_->switches.empty() && granted(task_->switches) == 0 && !request_.no_switch());
    *reply.mutable_receive_ready() = ready_;
    return io_.reply(reply);
}

}  // namespace ask
