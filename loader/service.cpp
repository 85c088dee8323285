// SPDX-License-Identifier: Apache-2.0
#include "loader/service.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <spdlog/fmt/fmt.h>

#include "lib/abi/limits.h"
#include "lib/control/switch/fetch.h"
#include "lib/daemon/grpc_status.h"
#include "lib/daemon/version.h"
#include "lib/rpc/call_origin.h"
#include "lib/rpc/flow_stats.h"
#include "lib/rpc/hosts6.h"
#include "lib/rpc/types.h"
#include "lib/rpc/upkeep.h"
#include "loader/counter_names.h"

namespace ask {
namespace {

constexpr std::size_t kChunkBytes = 256U << 10U;
// More than any receiver has; keeps one request short.
constexpr int kMaxRenewals = ASK_MAX_SESSIONS;

std::string_view phase_name(std::uint32_t phase) {
    switch (phase) {
        case ASK_SWAP_BLANK:
            return "blank";
        case ASK_SWAP_FLIPPED:
            return "flipped";
        case ASK_SWAP_PASSED:
            return "passed";
        case ASK_SWAP_CONFIRMED:
            return "confirmed";
        default:
            return "unknown";
    }
}

// A host that the switch has not heard of has no channel here, which its sender may register again.
Error no_channel_of(const Error& error) {
    return error.code() == Errc::kDenied
               ? Error(Errc::kUnknown, "join: the channel is not registered here: " + error.text())
               : error;
}

ValuesRequest values_request(const v1::ValuesTask& values, const CheckSecret& secret) {
    ValuesRequest request{.size = values.size(),
                          .window = values.window(),
                          .slots = values.slots(),
                          .secret = secret,
                          .direct = values.direct(),
                          .members = {values.members().begin(), values.members().end()},
                          .want = values.want(),
                          .below = values.below()};
    for (const v1::ValuesRack& rack : values.racks()) {
        request.racks.emplace_back(rack.members().begin(), rack.members().end());
    }
    return request;
}

void write_task(const TaskReport& task, v1::SwitchTask* message) {
    message->set_id(task.id);
    message->set_instance(task.instance);
    message->set_nonce(task.nonce);
    *message->mutable_geometry() = geometry_to_proto(task.geometry);
    message->set_op(op_to_proto(task.op));
    message->set_aggregators(task.aggregators);
    message->set_copies(task.copies);
    message->set_policy(policy_to_proto(task.policy));
    message->set_epoch(task.epoch);
    message->set_phase(std::string(phase_name(task.phase)));
    message->set_receiver(task.receiver);
    message->set_flows(task.flows);
    message->set_region_bytes(task.region_bytes);
    message->set_back_bytes(task.back_bytes);
    set_switch_part(*message->mutable_stats(), task.stats);
    message->set_lease_left_seconds(task.lease_left_seconds);
    message->set_service(task.members == 0 ? "tuples" : "values");
    message->set_members(task.members);
    message->set_value_slots(task.value_slots);
    message->set_direct(task.direct);
    if (task.members == 0) {
        return;
    }
    message->set_fan(task.fan);
    message->set_no_direct_reason(task.no_direct_reason);
    message->set_window(task.window);
    message->set_wanted(task.wanted);
    for (const std::uint64_t highest : task.highest) {
        message->add_highest(highest);
    }
}

void write_port(const Port& port, const Result<PortTable::Now>& now, v1::SwitchPort* message) {
    message->set_name(port.name);
    message->set_ifindex(port.ifindex);
    message->set_mode(std::string(to_string(port.mode)));
    message->set_bridge(port.bridge);
    message->set_mtu(now.ok() ? now->mtu : 0);
    message->set_attached(now.ok() && now->attached);
    if (!port.trouble.empty()) {
        message->set_trouble(port.trouble);
    } else if (!message->attached()) {
        message->set_trouble(now.ok() ? "port " + port.name + " is another interface than it was"
                                      : now.error().text());
    }
}

void write_flow(const FlowReport& flow, v1::FetchFlow* message) {
    *message->mutable_channel() = channel_to_proto(flow.channel);
    message->set_incarnation(flow.incarnation);
    message->set_nonce(flow.nonce);
    set_switch_part(*message->mutable_stats(), flow.stats);
}

// The daemon may have been stopped while the caller's time ran out: what it has given up is not begun any
// more. Whoever still waits asks again.
bool caller_gone(const grpc::ServerContext* context) {
    return context->IsCancelled();
}

// Whoever may open the switch's own socket operates it.
Caller caller_at(const grpc::ServerContext& context) {
    Caller caller = caller_of(context);
    caller.role_operator = caller.role_operator || caller.is_local();
    return caller;
}

// Who shares what one may take of the switch, as for its quotas.
std::string holder_of(const Caller& caller) {
    return caller.tenant.empty() ? "host " + caller.address : "tenant " + caller.tenant;
}

grpc::Status given_up() {
    return {grpc::StatusCode::CANCELLED, "its caller has given it up"};
}

// By name for people, and in the details for who tries again.
grpc::Status refuse_registration(const v1::RegisterChannelRequest& request, std::uint32_t current) {
    const auto incarnation = [](std::uint32_t value) {
        return value == 0 ? std::string("no incarnation") : fmt::format("incarnation {:08x}", value);
    };
    v1::RegisterChannelRefusal refusal;
    refusal.set_incarnation(current);
    refusal.set_told(true);
    return {grpc::StatusCode::FAILED_PRECONDITION,
            "the channel is registered with " + incarnation(current) + ", not with " +
                incarnation(request.replaces()) + ", which " + incarnation(request.incarnation()) +
                " was to replace",
            refusal.SerializeAsString()};
}

grpc::Status cancelled() {
    return {grpc::StatusCode::CANCELLED, "the fetch was cancelled, or its reader went away"};
}

}  // namespace

FetchGate::Pass::~Pass() {
    if (gate_ != nullptr) {
        const std::lock_guard lock(gate_->mutex_);
        gate_->entries_.erase(entry_);
    }
}

Result<FetchGate::Pass> FetchGate::enter(grpc::ServerContext* context, const std::string& reader) {
    const std::lock_guard lock(mutex_);
    if (entries_.size() >= kMaxFetches) {
        return Error(Errc::kLimit, std::to_string(kMaxFetches) + " fetches are under way: try again");
    }
    if (std::cmp_greater_equal(std::ranges::count(entries_, reader, &Pass::Entry::reader), kMaxOfOne)) {
        return Error(Errc::kLimit, std::to_string(kMaxOfOne) + " fetches of " + reader +
                                       " are under way, which is as many as one may have: try again");
    }
    entries_.push_back({context, Clock::now() + kMaxTime, reader});
    return Pass(this, std::prev(entries_.end()));
}

void FetchGate::expire() {
    const std::lock_guard lock(mutex_);
    for (const Pass::Entry& entry : entries_) {
        if (entry.deadline < Clock::now()) {
            entry.context->TryCancel();
        }
    }
}

void SwitchService::fill_mark(v1::Mark* mark) const {
    *mark = mark_to_proto(controller_.mark());
}

grpc::Status SwitchService::GetInfo(grpc::ServerContext* /*context*/,
                                    const v1::GetSwitchInfoRequest* /*request*/, v1::SwitchInfo* reply) {
    fill_mark(reply->mutable_mark());
    reply->set_memory(plane_.meta().memory == ASK_MEMORY_SHARED ? "shared" : "pipelines");
    reply->set_dedupe(plane_.meta().dedupe == ASK_DEDUPE_COMPACT ? "compact" : "tagged");
    reply->set_window(ASK_WINDOW);
    const SramBudget sram = controller_.sram();
    reply->set_sram_total_bytes(sram.total());
    reply->set_sram_used_bytes(sram.used());
    reply->set_back_left_bytes(controller_.back_left());
    return grpc::Status::OK;
}

grpc::Status SwitchService::RegisterChannel(grpc::ServerContext* context,
                                            const v1::RegisterChannelRequest* request,
                                            v1::RegisterChannelReply* reply) {
    if (const auto known = take_hosts(*request, caller_at(*context)); !known.ok()) {
        return to_status(known.error());
    }
    const auto channel = channel_fields(request->channel());
    if (!channel.ok()) {
        return to_status(channel.error());
    }
    const auto done = controller_.register_channel(caller_at(*context), *channel, request->incarnation(),
                                                   request->replaces());
    if (!done.ok()) {
        return to_status(done.error());
    }
    if (done->incarnation != request->incarnation()) {
        return refuse_registration(*request, done->incarnation);
    }
    fill_mark(reply->mutable_mark());
    reply->set_port(done->port);
    return grpc::Status::OK;
}

grpc::Status SwitchService::UnregisterChannel(grpc::ServerContext* context,
                                              const v1::UnregisterChannelRequest* request,
                                              v1::UnregisterChannelReply* /*reply*/) {
    if (const auto known = take_hosts(*request, caller_at(*context)); !known.ok()) {
        return to_status(known.error());
    }
    const auto channel = channel_fields(request->channel());
    if (!channel.ok()) {
        return to_status(channel.error());
    }
    const auto done = controller_.unregister_channel(caller_at(*context), *channel, request->incarnation());
    return done.ok() ? grpc::Status::OK : to_status(done.error());
}

grpc::Status SwitchService::OpenTask(grpc::ServerContext* context, const v1::OpenTaskRequest* request,
                                     v1::OpenTaskReply* reply) {
    if (caller_gone(context)) {
        return given_up();
    }
    if (const auto same = check_wire_version(request->wire_version(), "your agent"); !same.ok()) {
        return to_status(same.error());
    }
    if (const auto known = take_hosts(*request, caller_at(*context), request->receiver_address());
        !known.ok()) {
        return to_status(known.error());
    }
    if (request->has_values()) {
        return open_group(*context, *request, reply);
    }
    const auto geometry = geometry_fields(request->geometry());
    if (!geometry.ok()) {
        return to_status(geometry.error());
    }
    const auto op = op_from_proto(request->op());
    if (!op.ok()) {
        return to_status(op.error());
    }
    const auto policy = policy_from_proto(request->policy());
    if (!policy.ok()) {
        return to_status(policy.error());
    }
    const auto grant = controller_.open_task(
        caller_at(*context), {.id = request->id(),
                              .instance = request->instance(),
                              .geometry = *geometry,
                              .op = *op,
                              .aggregators = request->aggregators(),
                              .may_shrink = request->may_shrink(),
                              .copies = request->copies(),
                              .require_region = request->require_region(),
                              .policy = *policy,
                              .back = request->has_back() ? back_from_proto(request->back()) : BackWish(),
                              .senders = request->senders(),
                              .receiver = request->receiver(),
                              .receiver_address = request->receiver_address()});
    if (!grant.ok()) {
        return to_status(grant.error());
    }
    fill_mark(reply->mutable_mark());
    reply->set_wire_version(ASK_WIRE_VERSION);
    reply->set_opening(grant->opening);
    reply->set_aggregators(grant->aggregators);
    reply->set_copies(grant->copies);
    reply->set_no_region_reason(grant->no_region_reason);
    reply->set_policy(policy_to_proto(grant->policy));
    reply->set_nonce(grant->nonce);
    reply->set_back_bytes(grant->back_bytes);
    reply->set_no_back_reason(grant->no_back_reason);
    return grpc::Status::OK;
}

grpc::Status SwitchService::open_group(const grpc::ServerContext& context, const v1::OpenTaskRequest& request,
                                       v1::OpenTaskReply* reply) {
    const v1::ValuesTask& values = request.values();
    const auto secret = secret_from_bytes(values.secret());
    if (!secret.ok()) {
        return to_status(secret.error());
    }
    const auto grant =
        controller_.open_task(caller_at(context), {.id = request.id(),
                                                   .instance = request.instance(),
                                                   .copies = request.copies(),
                                                   .require_region = request.require_region(),
                                                   .receiver = request.receiver(),
                                                   .receiver_address = request.receiver_address(),
                                                   .values = values_request(values, *secret)});
    if (!grant.ok()) {
        return to_status(grant.error());
    }
    fill_mark(reply->mutable_mark());
    reply->set_wire_version(ASK_WIRE_VERSION);
    reply->set_opening(grant->opening);
    reply->mutable_values()->set_slots(grant->value_slots);
    reply->mutable_values()->set_window(grant->window);
    reply->mutable_values()->set_fan(grant->fan);
    reply->mutable_values()->set_direct(grant->direct);
    reply->mutable_values()->set_no_direct_reason(grant->no_direct_reason);
    return grpc::Status::OK;
}

grpc::Status SwitchService::JoinFlow(grpc::ServerContext* context, const v1::JoinFlowRequest* request,
                                     v1::JoinFlowReply* reply) {
    if (caller_gone(context)) {
        return given_up();
    }
    const Caller caller = caller_at(*context);
    if (const auto known = take_hosts(*request, caller); !known.ok()) {
        return to_status(no_channel_of(known.error()));
    }
    const auto channel = channel_fields(request->channel());
    if (!channel.ok()) {
        return to_status(channel.error());
    }
    const auto secret = secret_from_bytes(request->secret());
    if (!secret.ok()) {
        return to_status(secret.error());
    }
    const auto done = controller_.join_flow(caller, request->instance(), *channel, request->incarnation(),
                                            *secret, request->member());
    if (!done.ok()) {
        return to_status(done.error());
    }
    fill_mark(reply->mutable_mark());
    reply->set_nonce(*done);
    return grpc::Status::OK;
}

grpc::Status SwitchService::RenewTasks(grpc::ServerContext* context, const v1::RenewTasksRequest* request,
                                       v1::RenewTasksReply* reply) {
    if (request->instances_size() > kMaxRenewals) {
        return to_status(
            Error(Errc::kInput, "renew: more than " + std::to_string(kMaxRenewals) + " instances"));
    }
    const Caller caller = caller_at(*context);
    const std::vector<std::uint64_t> instances(request->instances().begin(), request->instances().end());
    for (const std::uint64_t instance : controller_.renew(caller, instances)) {
        reply->add_unknown(instance);
    }
    if (const auto reports = controller_.report_tasks(caller, instances); reports.ok()) {
        for (const TaskReport& report : *reports) {
            v1::TaskPart& part = *reply->add_parts();
            part.set_instance(report.instance);
            part.set_nonce(report.nonce);
            part.set_back_entries(report.back_has.entries);
            part.set_back_key_bytes(report.back_has.key_bytes);
            set_switch_part(*part.mutable_stats(), report.stats);
        }
    }
    fill_mark(reply->mutable_mark());
    return grpc::Status::OK;
}

grpc::Status SwitchService::FetchCopy(grpc::ServerContext* context, const v1::FetchCopyRequest* request,
                                      grpc::ServerWriter<v1::FetchChunk>* writer) {
    const Caller caller = caller_at(*context);
    const auto pass = gate_.enter(context, holder_of(caller));
    if (!pass.ok()) {
        return to_status(pass.error());
    }
    BackSize back;
    const auto write = [&](std::string entries) {
        v1::FetchChunk chunk;
        chunk.set_entries(std::move(entries));
        chunk.set_back_entries(back.entries);
        chunk.set_back_key_bytes(back.key_bytes);
        back = {};
        return !context->IsCancelled() && writer->Write(chunk);
    };
    const auto end = fetch_copy(controller_, caller,
                                {.region = {request->instance(), request->nonce()},
                                 .epoch = request->epoch(),
                                 .close = request->close(),
                                 .settled = request->settled(),
                                 .skip = request->skip()},
                                kChunkBytes, write, [&back](const BackSize& size) { back = size; });
    if (!end.ok()) {
        return to_status(end.error());
    }
    if (!*end) {
        return cancelled();
    }
    v1::FetchChunk last;
    last.set_last(true);
    last.set_nonce((*end)->nonce);
    last.set_epoch((*end)->epoch);
    last.set_count((*end)->count);
    for (const FlowReport& flow : (*end)->flows) {
        write_flow(flow, last.add_flows());
    }
    fill_mark(last.mutable_mark());
    explain_hosts(last);
    return writer->Write(last) ? grpc::Status::OK : cancelled();
}

grpc::Status SwitchService::ConfirmCopy(grpc::ServerContext* context, const v1::ConfirmCopyRequest* request,
                                        v1::ConfirmCopyReply* /*reply*/) {
    const auto done =
        controller_.confirm(caller_at(*context), {request->instance(), request->nonce()}, request->epoch());
    return done.ok() ? grpc::Status::OK : to_status(done.error());
}

grpc::Status SwitchService::CloseTask(grpc::ServerContext* context, const v1::CloseTaskRequest* request,
                                      v1::CloseTaskReply* /*reply*/) {
    const auto done = controller_.close_task(caller_at(*context), request->instance());
    return done.ok() ? grpc::Status::OK : to_status(done.error());
}

grpc::Status SwitchService::GetStatus(grpc::ServerContext* context,
                                      const v1::GetSwitchStatusRequest* /*request*/,
                                      v1::SwitchStatus* reply) {
    const auto report = controller_.report(caller_at(*context));
    if (!report.ok()) {
        return to_status(report.error());
    }
    const auto counters = controller_.counters();
    if (!counters.ok()) {
        return to_status(counters.error());
    }
    v1::SwitchInfo info;
    GetInfo(nullptr, nullptr, &info);
    *reply->mutable_mark() = info.mark();
    reply->set_memory(info.memory());
    reply->set_dedupe(info.dedupe());
    reply->set_version(std::string(kVersion));
    reply->set_pin_dir(pins_.root().string());
    for (const Port& port : ports_.all()) {
        write_port(port, ports_.now(port, plane_.program_id()), reply->add_ports());
    }
    reply->set_sram_total_bytes(report->sram_total_bytes);
    reply->set_sram_used_bytes(report->sram_used_bytes);
    reply->set_back_total_bytes(report->back_total_bytes);
    reply->set_back_used_bytes(report->back_used_bytes);
    reply->set_back_kept_bytes(report->back_kept_bytes);
    reply->set_value_slots(report->value_slots);
    reply->set_value_used_bytes(report->value_used_bytes);
    reply->set_channels_max(report->channels_max);
    for (const ChannelReport& channel : report->channels) {
        v1::SwitchChannel* message = reply->add_channels();
        *message->mutable_channel() = channel_to_proto(channel.channel);
        message->set_incarnation(channel.incarnation);
        message->set_port(channel.port);
    }
    for (const TaskReport& task : report->tasks) {
        write_task(task, reply->add_tasks());
    }
    explain_hosts(*reply);
    for (std::size_t i = 0; i < kSwitchCounters.size(); i++) {
        v1::Counter* message = reply->add_counters();
        message->set_name(std::string(kSwitchCounters[i].name));
        message->set_class_(std::string(kSwitchCounters[i].kind));
        message->set_text(std::string(kSwitchCounters[i].text));
        message->set_value((*counters)[i]);
    }
    reply->set_uptime_seconds(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count());
    set_upkeep(*reply, may_operate(caller_at(*context)));
    return grpc::Status::OK;
}

}  // namespace ask
