// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/tuples/switchd.h"

#include <algorithm>

#include "lib/control/switch/fetch.h"
#include "lib/rpc/flow_stats.h"
#include "lib/rpc/types.h"
#include "tests/sim/tuples/peers.h"
#include "tests/sim/tuples/switch_store.h"

namespace ask::sim {

namespace {

// Small, so that much happens between two pieces of a stream.
constexpr std::size_t kChunkBytes = 64;
constexpr Nanos kTick = 300 * kMillisecond;
constexpr std::uint64_t kChunkUs = 20;

Error given_up() {
    return {Errc::kAborted, "its caller has given it up"};
}

}  // namespace

SwitchDaemon::SwitchDaemon(World& world, DataPlane& plane, const Network& network, std::uint32_t number,
                           std::function<bool()> die)
    : Server(world), world_(world), plane_(plane), network_(network), number_(number), die_(std::move(die)) {}

SwitchDaemon::~SwitchDaemon() {
    kill();
}

void SwitchDaemon::start() {
    world_.note("switchd %u: starts", number_);
    store_ = make_switch_store(world_, plane_, network_, number_, die_);
    boot();
    threads().spawn([this] { life(); });
}

void SwitchDaemon::kill() {
    if (up()) {
        world_.note("switchd %u: is killed", number_);
        controller_ = nullptr;
        die();
        store_.reset();
    }
}

void SwitchDaemon::stop() {
    world_.note("switchd %u: is stopped", number_);
    threads().stop();
}

void SwitchDaemon::go_on() {
    if (threads().stopped()) {
        world_.note("switchd %u: goes on", number_);
        threads().go_on();
    }
}

void SwitchDaemon::life() {
    const auto controller = Controller::create(
        *store_, {.sram_bytes = 0,
                  .allow_over_budget = true,
                  .lease = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::nanoseconds(kLease)),
                  .back_bytes = std::uint64_t{world_.plan.back_kib} * 1024,
                  .packet_rate = world_.plan.packet_rate,
                  .rcu_only = world_.plan.rcu_only != 0});
    if (!controller.ok()) {
        world_.fail(Promise::kLeft, "switch " + std::to_string(number_) +
                                        ": its daemon cannot adopt: " + controller.error().text());
        return;
    }
    controller_ = controller->get();
    serving_.notify(world_.clock);
    for (;;) {
        controller_->expire_leases();
        park(nullptr, world_.clock.now() + kTick);
    }
}

void SwitchDaemon::await_serving() {
    while (controller_ == nullptr) {
        park(&serving_, kNever);
    }
}

v1::Mark SwitchDaemon::mark() const {
    return mark_to_proto(controller_->mark());
}

Result<v1::SwitchInfo> SwitchDaemon::info() {
    v1::SwitchInfo info;
    *info.mutable_mark() = mark();
    return info;
}

// What members read of it, and strangers.
Result<v1::SwitchStatus> SwitchDaemon::status(const Caller& caller) {
    const auto report = controller_->report(caller);
    ASK_PASS(report);
    v1::SwitchStatus status;
    *status.mutable_mark() = mark();
    for (const ChannelReport& channel : report->channels) {
        v1::SwitchChannel& entry = *status.add_channels();
        *entry.mutable_channel() = channel_to_proto(channel.channel);
        entry.set_incarnation(channel.incarnation);
    }
    for (const TaskReport& task : report->tasks) {
        v1::SwitchTask& entry = *status.add_tasks();
        entry.set_id(task.id);
        entry.set_instance(task.instance);
        *entry.mutable_geometry() = geometry_to_proto(task.geometry);
        entry.set_op(op_to_proto(task.op));
        entry.set_epoch(task.epoch);
        entry.set_nonce(task.nonce);
        entry.set_copies(task.copies);
        entry.set_aggregators(task.aggregators);
        entry.set_policy(policy_to_proto(task.policy));
        entry.set_receiver(task.receiver);
    }
    return status;
}

Result<v1::OpenTaskReply> SwitchDaemon::open_task(const Caller& caller, const v1::OpenTaskRequest& request,
                                                  const CallerGone& gone) {
    if (gone()) {
        return given_up();
    }
    const auto geometry = geometry_fields(request.geometry());
    ASK_PASS(geometry);
    const auto op = op_from_proto(request.op());
    ASK_PASS(op);
    const auto policy = policy_from_proto(request.policy());
    ASK_PASS(policy);
    const auto grant = controller_->open_task(
        caller, {.id = request.id(),
                 .instance = request.instance(),
                 .geometry = *geometry,
                 .op = *op,
                 .aggregators = request.aggregators(),
                 .may_shrink = request.may_shrink(),
                 .copies = request.copies(),
                 .require_region = request.require_region(),
                 .policy = *policy,
                 .back = request.has_back() ? back_from_proto(request.back()) : BackWish(),
                 .senders = request.senders(),
                 .receiver = request.receiver(),
                 .receiver_address = request.receiver_address()});
    ASK_PASS(grant);
    v1::OpenTaskReply reply;
    *reply.mutable_mark() = mark();
    reply.set_opening(grant->opening);
    reply.set_aggregators(grant->aggregators);
    reply.set_copies(grant->copies);
    reply.set_no_region_reason(grant->no_region_reason);
    reply.set_policy(policy_to_proto(grant->policy));
    reply.set_nonce(grant->nonce);
    reply.set_back_bytes(grant->back_bytes);
    reply.set_no_back_reason(grant->no_back_reason);
    return reply;
}

Result<Done> SwitchDaemon::close_task(const Caller& caller, std::uint64_t instance) {
    // Before the call, which a renewal may overtake. The stranger's closes nothing.
    if (caller.address != caller_at(world_.plan.nodes()).address) {
        closed_.insert(instance);
    }
    ASK_PASS(controller_->close_task(caller, instance));
    return Done{};
}

Result<SwitchPort::Joined> SwitchDaemon::join_flow(const Caller& caller, const v1::JoinFlowRequest& request,
                                                   const CallerGone& gone) {
    if (gone()) {
        return given_up();
    }
    const auto channel = channel_fields(request.channel());
    ASK_PASS(channel);
    const auto secret = secret_from_bytes(request.secret());
    ASK_PASS(secret);
    const auto nonce =
        controller_->join_flow(caller, request.instance(), *channel, request.incarnation(), *secret);
    ASK_PASS(nonce);
    return SwitchPort::Joined{.mark = controller_->mark(), .nonce = *nonce};
}

Result<std::pair<Mark, std::uint32_t>> SwitchDaemon::register_channel(
    const Caller& caller, const v1::RegisterChannelRequest& request) {
    const auto channel = channel_fields(request.channel());
    ASK_PASS(channel);
    const auto done =
        controller_->register_channel(caller, *channel, request.incarnation(), request.replaces());
    ASK_PASS(done);
    return std::pair(controller_->mark(), done->incarnation);
}

Result<Done> SwitchDaemon::unregister_channel(const Caller& caller, ChannelId channel,
                                              std::uint32_t incarnation) {
    ASK_PASS(controller_->unregister_channel(caller, channel, incarnation));
    return Done{};
}

Result<v1::RenewTasksReply> SwitchDaemon::renew(const Caller& caller,
                                                const std::vector<std::uint64_t>& instances) {
    v1::RenewTasksReply reply;
    for (const std::uint64_t instance : controller_->renew(caller, instances)) {
        if (world_.plan.keeps_tasks() && !closed_.contains(instance)) {
            world_.fail(Promise::kLeft,
                        "switch " + std::to_string(number_) +
                            " has closed a task, though nobody asked it to and its receiver renews it");
        }
        reply.add_unknown(instance);
    }
    const auto reports = controller_->report_tasks(caller, instances);
    ASK_PASS(reports);
    for (const TaskReport& report : *reports) {
        v1::TaskPart& part = *reply.add_parts();
        part.set_instance(report.instance);
        part.set_nonce(report.nonce);
        set_switch_part(*part.mutable_stats(), report.stats);
    }
    *reply.mutable_mark() = mark();
    return reply;
}

Result<Done> SwitchDaemon::fetch(const Caller& caller, const FetchOrder& order, const CallerGone& gone,
                                 std::vector<v1::FetchChunk>& chunks) {
    BackSize back;
    const auto write = [&](std::string entries) {
        park(nullptr, world_.clock.now() + world_.some_us(kChunkUs));
        world_.note("switchd %u: streams a copy", number_);
        v1::FetchChunk& chunk = chunks.emplace_back();
        chunk.set_entries(std::move(entries));
        chunk.set_back_entries(std::exchange(back.entries, 0));
        chunk.set_back_key_bytes(std::exchange(back.key_bytes, 0));
        return !gone();
    };
    const auto end = fetch_copy(*controller_, caller,
                                {.region = order.region,
                                 .epoch = order.epoch,
                                 .close = order.close,
                                 .settled = order.settled,
                                 .skip = order.skip},
                                kChunkBytes, write, [&back](const BackSize& size) { back = size; });
    if (!end.ok() && end.error().text().find("made anew") != std::string::npos && world_.plan.intruder == 0) {
        world_.fail(Promise::kTask, "switch " + std::to_string(number_) + ": " + end.error().text());
    }
    ASK_PASS(end);
    if (!*end) {
        return given_up();
    }
    swaps_ += order.close ? 1U : 0U;
    v1::FetchChunk& last = chunks.emplace_back();
    last.set_last(true);
    last.set_nonce((*end)->nonce);
    last.set_epoch((*end)->epoch);
    last.set_count((*end)->count);
    for (const FlowReport& flow : (*end)->flows) {
        v1::FetchFlow& entry = *last.add_flows();
        *entry.mutable_channel() = channel_to_proto(flow.channel);
        entry.set_incarnation(flow.incarnation);
        entry.set_nonce(flow.nonce);
        set_switch_part(*entry.mutable_stats(), flow.stats);
    }
    *last.mutable_mark() = mark();
    return Done{};
}

Result<Done> SwitchDaemon::confirm(const Caller& caller, const RegionId& region, std::uint64_t epoch) {
    ASK_PASS(controller_->confirm(caller, region, epoch));
    return Done{};
}

void SwitchDaemon::check_nothing_left() {
    const std::string who = "switch " + std::to_string(number_) + ": ";
    if (controller_ == nullptr) {
        world_.fail(Promise::kLeft, who + "its daemon does not serve");
        return;
    }
    const auto report = controller_->report();
    if (!report.ok()) {
        world_.fail(Promise::kLeft, who + report.error().text());
        return;
    }
    if (!report->tasks.empty() || !plane_.pins.empty() || !plane_.names.empty()) {
        world_.fail(Promise::kLeft, who + std::to_string(report->tasks.size()) + " tasks and the pins of " +
                                        std::to_string(plane_.pins.size()) + " are left over");
    }
    if (report->flow_indices != IndexUse{} || report->task_indices != IndexUse{}) {
        world_.fail(Promise::kLeft, who + "indices of tasks or flows are left over");
    }
    const std::string left = plane_.left_over();
    if (!left.empty()) {
        world_.fail(Promise::kLeft, who + left);
    }
}

}  // namespace ask::sim
