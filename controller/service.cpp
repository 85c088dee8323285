// SPDX-License-Identifier: Apache-2.0
#include "controller/service.h"

#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>

#include "controller/convert.h"
#include "lib/base/random.h"
#include "lib/daemon/grpc_status.h"
#include "lib/daemon/version.h"
#include "lib/net/host_book.h"
#include "lib/rpc/call_origin.h"
#include "lib/rpc/owner.h"
#include "lib/rpc/upkeep.h"
#include "lib/text/clean.h"

namespace ask {
namespace {

using placing::Plan;
using placing::Time;

constexpr std::pair<std::uint64_t placing::Counters::*, std::pair<const char*, const char*>> kCounters[] = {
    {&placing::Counters::placed, {"admitted", "tasks admitted to switches"}},
    {&placing::Counters::straight, {"admitted_straight", "tasks admitted without switches"}},
    {&placing::Counters::young,
     {"admitted_young", "tasks admitted without switches in the controller's first lease"}},
    {&placing::Counters::refused, {"admits_refused", "tasks that were not admitted"}},
    {&placing::Counters::repeated, {"repeated", "requests that had been answered before"}},
    {&placing::Counters::renewed, {"renewed", "leases renewed"}},
    {&placing::Counters::rebuilt, {"rebuilt", "plans taken from a renewal"}},
    {&placing::Counters::released, {"released", "plans given back by their tasks"}},
    {&placing::Counters::expired, {"expired", "plans given back because nobody renewed them"}},
    {&placing::Counters::reported, {"refusals", "reports that a switch refuses a task"}},
};

double seconds_of(Clock::duration time) {
    return std::chrono::duration<double>(time).count();
}

// Whoever may open the controller's own socket operates it.
Caller caller_at(const grpc::ServerContext& context) {
    Caller caller = caller_of(context);
    caller.role_operator = caller.role_operator || caller.is_local();
    return caller;
}

// Whose the receiver's plans are, if they are the caller's.
Result<Owner> owner_of(const Caller& caller, const std::string& receiver) {
    const auto named = receiver_from(receiver);
    ASK_PASS(named);
    // Before anything of it is kept.
    if (!acts_for(caller, *named)) {
        return Error(Errc::kDenied, "the receiver is " + receiver + ", but " + describe(caller) +
                                        " may not act for that host");
    }
    const auto host = enter_host(*named);
    ASK_TRY(host, "the receiver");
    return Owner{caller.tenant, *host};
}

grpc::Status status_of(const Result<>& done) {
    return done.ok() ? grpc::Status::OK : to_status(done.error());
}

// As on a switch: its own, and what is its tenant's.
bool sees(const Caller& caller, const Owner& owner) {
    return may_operate(caller) || owns(caller, owner) ||
           (!owner.tenant.empty() && caller.tenant == owner.tenant);
}

}  // namespace

ControllerService::ControllerService(placing::Ground ground, std::string topology,
                                     const placing::Settings& settings)
    : placing_(std::move(ground), settings, random_u64, now()), topology_(std::move(topology)) {
    clock_.tick(Clock::now());
}

void ControllerService::tick() {
    const std::lock_guard lock(mutex_);
    clock_.tick(Clock::now());
    placing_.expire(now());
}

void ControllerService::change(const placing::Settings& settings) {
    const std::lock_guard lock(mutex_);
    placing_.change(settings);
}

void ControllerService::follow(placing::Ground ground, std::string topology) {
    const std::lock_guard lock(mutex_);
    placing_.follow(std::move(ground));
    topology_ = std::move(topology);
}

ControllerFigures ControllerService::figures() {
    const std::lock_guard lock(mutex_);
    ControllerFigures figures{.counters = placing_.counters(),
                              .admits = times_,
                              .plans = placing_.plans().size(),
                              .plans_max = placing_.settings().max_plans,
                              .switches = {}};
    const auto& states = placing_.places().states();
    for (std::size_t at = 0; at < states.size(); ++at) {
        const auto id = static_cast<placement::SwitchId>(at);
        const auto verdict = placing_.places().judge(id, {}, now());
        figures.switches.push_back(
            {.name = states[at].name,
             .capacity = placing_.fabric().switches()[at].capacity,
             .taken = states[at].taken,
             .refusals = states[at].refusals,
             .available = verdict == placing::Verdict::kFree || verdict == placing::Verdict::kFull});
    }
    return figures;
}

void ControllerService::note_time(Clock::duration took) {
    const double seconds = seconds_of(took);
    const auto bound = std::ranges::lower_bound(AdmitTimes::kBounds, seconds);
    ++times_.calls[static_cast<std::size_t>(bound - AdmitTimes::kBounds.begin())];
    times_.seconds += seconds;
}

Result<> ControllerService::admit(const Caller& caller, const v1::AdmitRequest& request,
                                  v1::AdmitReply* reply) {
    const auto begin = Clock::now();
    const auto owner = owner_of(caller, request.receiver());
    ASK_PASS(owner);
    const auto wish = wish_from_proto(request, caller);
    ASK_PASS(wish);
    const std::lock_guard lock(mutex_);
    auto answer = placing_.admit(*owner, *wish, now());
    note_time(Clock::now() - begin);
    if (!answer.ok()) {
        spdlog::warn("task {} of {}: {}", wish->task, describe(caller), answer.error().text());
        return std::move(answer).error();
    }
    spdlog::debug("task {} of {}: plan {:016x}, {} switches {}", wish->task, describe(caller), answer->plan,
                  answer->placement.relays_size(), answer->note);
    *reply->mutable_placement() = std::move(answer->placement);
    reply->set_lease_seconds(seconds_of(placing_.settings().lease));
    reply->set_plan(answer->plan);
    reply->set_note(answer->note);
    return {};
}

Result<> ControllerService::renew(const Caller& caller, const v1::RenewPlanRequest& request,
                                  v1::RenewPlanReply* reply) {
    const auto owner = owner_of(caller, request.receiver());
    ASK_PASS(owner);
    const auto claim = claim_from_proto(request, caller);
    ASK_PASS(claim);
    const std::lock_guard lock(mutex_);
    const auto rebuilt = placing_.renew(*owner, *claim, now());
    ASK_PASS(rebuilt);
    if (*rebuilt) {
        spdlog::info("task {} of {}: its plan {:016x}, with {} switches, is known from its renewal",
                     claim->wish.task, describe(caller), claim->plan, claim->placement.relays_size());
    }
    reply->set_lease_seconds(seconds_of(placing_.settings().lease));
    reply->set_rebuilt(*rebuilt);
    return {};
}

Result<> ControllerService::report_refused(const Caller& caller, const v1::ReportRefusedRequest& request,
                                           v1::AdmitReply* reply) {
    const auto owner = owner_of(caller, request.receiver());
    ASK_PASS(owner);
    const placing::Placing::Refusal refusal{.instance = request.instance(),
                                            .plan = request.plan(),
                                            .name = request.switch_(),
                                            .reason = clean_text(request.reason())};
    const std::lock_guard lock(mutex_);
    auto answer = placing_.report_refused(*owner, refusal, now());
    ASK_PASS(answer);
    spdlog::warn("switch {}: refuses a task of {}: {}", clean_name(refusal.name), describe(caller),
                 refusal.reason);
    *reply->mutable_placement() = std::move(answer->placement);
    reply->set_lease_seconds(seconds_of(placing_.settings().lease));
    reply->set_plan(answer->plan);
    reply->set_note(answer->note);
    return {};
}

grpc::Status ControllerService::Admit(grpc::ServerContext* context, const v1::AdmitRequest* request,
                                      v1::AdmitReply* reply) {
    return status_of(admit(caller_at(*context), *request, reply));
}

grpc::Status ControllerService::Renew(grpc::ServerContext* context, const v1::RenewPlanRequest* request,
                                      v1::RenewPlanReply* reply) {
    return status_of(renew(caller_at(*context), *request, reply));
}

grpc::Status ControllerService::ReportRefused(grpc::ServerContext* context,
                                              const v1::ReportRefusedRequest* request,
                                              v1::AdmitReply* reply) {
    return status_of(report_refused(caller_at(*context), *request, reply));
}

grpc::Status ControllerService::Release(grpc::ServerContext* context, const v1::ReleasePlanRequest* request,
                                        v1::ReleasePlanReply* /*reply*/) {
    const auto owner = owner_of(caller_at(*context), request->receiver());
    if (!owner.ok()) {
        return to_status(owner.error());
    }
    const std::lock_guard lock(mutex_);
    placing_.release(*owner, request->instance(), now());
    return grpc::Status::OK;
}

grpc::Status ControllerService::SetAvailable(grpc::ServerContext* context,
                                             const v1::SetAvailableRequest* request,
                                             v1::SetAvailableReply* reply) {
    const Caller caller = caller_at(*context);
    if (!may_operate(caller)) {
        return to_status(
            Error(Errc::kDenied, "whether a switch is proposed to tasks is for operators to say, and " +
                                     describe(caller) + " is none"));
    }
    const std::lock_guard lock(mutex_);
    const auto changed = placing_.set_available(request->switch_(), request->available());
    if (!changed.ok()) {
        return to_status(Error(changed.error().code(), clean_text(changed.error().text())));
    }
    if (*changed) {
        spdlog::info("switch {}: {} by {}", clean_name(request->switch_()),
                     request->available() ? "available again" : "not available any more", describe(caller));
    }
    reply->set_changed(*changed);
    return grpc::Status::OK;
}

grpc::Status ControllerService::GetStatus(grpc::ServerContext* context,
                                          const v1::GetControllerStatusRequest* /*request*/,
                                          v1::ControllerStatus* reply) {
    const Caller caller = caller_at(*context);
    const std::lock_guard lock(mutex_);
    const Time at = now();
    placing_.expire(at);
    reply->set_version(std::string(kVersion));
    reply->set_uptime_seconds(seconds_of(Clock::now() - started_));
    reply->set_lease_seconds(seconds_of(placing_.settings().lease));
    reply->set_young_seconds(seconds_of(placing_.young(at)));
    reply->set_plans_max(placing_.settings().max_plans);
    write_plans(caller, at, reply);
    if (may_operate(caller)) {
        reply->set_topology(topology_);
        write_switches(at, reply);
        write_counters(reply);
    }
    set_upkeep(*reply, may_operate(caller));
    return grpc::Status::OK;
}

void ControllerService::write_plans(const Caller& caller, Time at, v1::ControllerStatus* reply) const {
    for (const auto& [key, plan] : placing_.plans()) {
        if (!sees(caller, plan.owner)) {
            continue;
        }
        v1::ControllerPlan& message = *reply->add_plans();
        const topology::Host* const receiver = placing_.fabric().host_at(plan.owner.host);
        const std::string address = format_host(plan.owner.host);
        message.set_task(plan.wish.task);
        message.set_instance(plan.wish.instance);
        message.set_plan(plan.id);
        message.set_receiver(receiver == nullptr ? address : receiver->name);
        message.set_address(address);
        message.set_tenant(plan.owner.tenant);
        for (const std::string& name : plan.switches) {
            message.add_switches(name);
        }
        message.set_hosts(static_cast<std::uint32_t>(plan.wish.senders.size()));
        std::uint64_t sends = 0;
        for (const placing::Sender& sender : plan.wish.senders) {
            sends += sender.sends;
        }
        message.set_sends(sends);
        message.set_objective(std::string(objective_name(plan.wish.objective)));
        message.set_age_seconds(seconds_of(at - plan.made));
        message.set_lease_left_seconds(seconds_of(plan.ends - at));
        message.set_refusals(static_cast<std::uint32_t>(plan.refused.size()));
        message.set_rebuilt(plan.rebuilt);
        message.set_note(plan.note);
    }
}

void ControllerService::write_switches(Time at, v1::ControllerStatus* reply) const {
    const auto& states = placing_.places().states();
    for (std::size_t number = 0; number < states.size(); ++number) {
        const topology::Switch& made = placing_.fabric().switches()[number];
        const placing::SwitchState& state = states[number];
        const auto verdict = placing_.places().judge(static_cast<placement::SwitchId>(number), {}, at);
        v1::ControllerSwitch& message = *reply->add_switches();
        message.set_name(made.name);
        message.set_relay(made.relay);
        message.set_capacity(made.capacity);
        message.set_taken(state.taken);
        message.set_memory_mib(made.memory_mib);
        message.set_memory_taken_mib(state.memory_taken_mib);
        const bool may = verdict == placing::Verdict::kFree || verdict == placing::Verdict::kFull;
        message.set_available(may);
        message.set_reason(verdict == placing::Verdict::kFree ? "" : verdict_text(verdict));
        message.set_refusals(state.refusals);
        message.set_last_refusal(state.last_refusal);
    }
}

void ControllerService::write_counters(v1::ControllerStatus* reply) const {
    for (const auto& [counter, words] : kCounters) {
        v1::ControllerCounter& message = *reply->add_counters();
        message.set_name(words.first);
        message.set_text(words.second);
        message.set_value(placing_.counters().*counter);
    }
    v1::ControllerCounter& message = *reply->add_counters();
    message.set_name("refused_connections");
    message.set_text("connections turned away, or cut off");
    message.set_value(refused());
}

}  // namespace ask
