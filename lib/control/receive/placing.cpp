// SPDX-License-Identifier: Apache-2.0
//
// The relays of a task with a placement: opened parents first, all of a level at once, before any host is
// told where to send. One that refuses is done without: the task begins again, which nobody has sent anything
// for.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <spdlog/spdlog.h>

#include "lib/control/member/convert.h"
#include "lib/control/member/patience.h"
#include "lib/control/receive/receiving.h"
#include "lib/net/host_book.h"

namespace ask {
namespace {

constexpr milliseconds kRelayWait{5000};

}  // namespace

Result<> Receiving::choose_placement() {
    if (!is_to_be_placed()) {
        return {};
    }
    if (request_.no_switch() || request_.own_switches() || request_.require_region() ||
        request_.allow_incomplete() || request_.partial()) {
        return Error(Errc::kUsage,
                     "task " + request_.task_id() +
                         ": a placement says which switches aggregate, and needs all senders: it goes "
                         "with neither no_switch, own_switches, require_region nor allow_incomplete");
    }
    if (request_.has_placement()) {
        return is_window() ? place_window(request_.placement()) : place(request_.placement());
    }
    if (is_window()) {
        return Error(Errc::kUsage,
                     "task " + request_.task_id() +
                         ": a stream's windows go by a plan that is given, not by a controller's");
    }
    if (!member_.controller) {
        return Error(Errc::kUnavailable,
                     "task " + request_.task_id() +
                         " is to be placed, but no controller is configured: set `controller` of "
                         "this agent, or give a placement from ask-plan");
    }
    task_->asking.emplace();
    return {};
}

Result<> Receiving::place(const v1::Placement& plan) {
    auto placed = Placed::create(plan, request_.senders(), io_.user());
    ASK_TRY(placed, "task " + request_.task_id());
    // Handshakes of lower levels would come one level after the other, each with all before it waiting.
    for (const Placed::Relay& relay : placed->relays()) {
        member_.network.expect_relay(relay.address);
    }
    member_.registry.with(*task_, [&](ReceiveTask& task) {
        task.senders_expected = placed->direct();
        task.placed = *std::move(placed);
    });
    return {};
}

// While the stream has other members than the plan, its windows go without relays.
Result<> Receiving::place_window(const v1::Placement& plan) {
    std::uint64_t sends = 0;
    for (const v1::PlacedHost& host : plan.hosts()) {
        sends += host.sends();
    }
    auto placed = Placed::create(plan, static_cast<std::uint32_t>(std::min<std::uint64_t>(sends, UINT32_MAX)),
                                 io_.user());
    ASK_TRY(placed, "task " + request_.task_id());
    if (!member_.registry.place_window(*task_, *std::move(placed))) {
        placement_note_ = "the stream's members are not the hosts that the plan is for";
    }
    return {};
}

// All of them: a plan is for those that send.
Result<> Receiving::await_askers() {
    Clock::time_point next_tick = Clock::now();
    for (;;) {
        const auto asking =
            member_.registry.with(*task_, [](const ReceiveTask& task) { return task.asking->size(); });
        if (asking >= task_->senders_expected) {
            return {};
        }
        const auto now = Clock::now();
        if (now - task_->opened > task_->deadline) {
            return Error(Errc::kDeadline,
                         "task " + task_->id + ": " + std::to_string(asking) + " of " +
                             std::to_string(task_->senders_expected) + " senders have looked it up within " +
                             seconds_text(task_->deadline) + ", and it is placed once all have");
        }
        if (now >= next_tick) {
            next_tick = now + kSessionTick;
            show_progress(std::to_string(asking) + " of " + std::to_string(task_->senders_expected) +
                          " senders are there, to be placed");
        }
        ASK_PASS(wait_and_handle(next_tick));
    }
}

v1::AdmitRequest Receiving::admit_request() const {
    const auto asking = member_.registry.with(*task_, [](const ReceiveTask& task) { return *task.asking; });
    std::map<std::uint32_t, std::uint32_t> sends;
    for (const auto& [sender, host] : asking) {
        ++sends[host];
    }
    v1::AdmitRequest admit;
    admit.set_task(task_->id);
    admit.set_instance(task_->instance);
    admit.set_receiver(format_host(member_.options.address));
    for (const auto& [host, number] : sends) {
        v1::AdmittedSender& sender = *admit.add_senders();
        sender.set_address(format_host(host));
        sender.set_sends(number);
    }
    admit.set_objective(request_.place().objective());
    admit.set_k(request_.place().k());
    *admit.mutable_excluded() = request_.place().excluded();
    return admit;
}

void Receiving::note_plan(const v1::AdmitReply& reply) {
    v1::RenewPlanRequest plan;
    plan.set_task(task_->id);
    plan.set_instance(task_->instance);
    plan.set_receiver(format_host(member_.options.address));
    plan.set_plan(reply.plan());
    *plan.mutable_placement() = reply.placement();
    plan.mutable_placement()->clear_links();
    member_.plans.keep(std::move(plan), std::chrono::duration<double>(reply.lease_seconds()));
}

// A controller that is away is no reason to fail: without relays everything comes here, as it does without
// one.
Result<> Receiving::ask_for_placement() {
    if (!task_->asking) {
        return {};
    }
    constexpr milliseconds kAdmitWait{3000};
    ASK_PASS(await_askers());
    const v1::AdmitRequest request = admit_request();
    auto asked = run_beside(
        io_.mailbox(),
        [&](CallCancel* cancel) {
            return member_.controller->admit(request, std::min(kAdmitWait, task_->deadline / 2), cancel);
        },
        [this](Clock::time_point until) { return wait_and_handle(until); },
        [this] { show_progress("waiting for controller " + member_.controller->address()); });
    ASK_PASS(asked);
    if (!*asked) {
        spdlog::warn("task {}: goes on without relays: {}", task_->id, asked->error().text());
        placement_note_ = asked->error().text();
        return {};
    }
    const v1::AdmitReply& reply = **asked;
    note_plan(reply);
    if (reply.placement().relays().empty()) {
        placement_note_ = reply.note().empty() ? "none would save anything" : clean_text(reply.note());
        return {};
    }
    return place(reply.placement());
}

// The deeper, the shorter: who waits for the one that is missing says so first.
milliseconds Receiving::relay_deadline(const Placed::Relay& relay) const {
    constexpr unsigned kParts = 16;
    constexpr milliseconds kShortest{ASK_MIN_DEADLINE * 1000};
    const unsigned parts = std::max(kParts - relay.depth - 1, kParts / 2);
    return std::max(task_->deadline * parts / kParts, kShortest);
}

v1::OpenRelayRequest Receiving::relay_request(const Placed::Relay& relay) const {
    const Placed& placed = *task_->placed;
    v1::OpenRelayRequest open;
    open.set_task_id(task_->id);
    open.set_instance(task_->instance);
    open.set_receiver(member_.options.control_address);
    open.set_op(task_->op);
    open.set_deadline_ms(static_cast<std::uint32_t>(relay_deadline(relay).count()));
    open.set_own_task_id(relay.task_id);
    open.set_own_token(relay.token);
    open.set_senders(relay.senders);
    *open.mutable_geometry() = geometry_to_proto(task_->geometry);
    open.set_aggregators(aggregators_wanted_);
    open.set_name(relay.name);
    open.set_switch_address(relay.control);
    if (relay.parent) {
        const Placed::Relay& parent = placed.relays()[*relay.parent];
        open.set_parent(parent.agent);
        open.set_parent_task_id(parent.task_id);
        open.set_parent_token(parent.token);
    } else {
        open.set_parent(member_.options.control_address);
        open.set_parent_task_id(task_->id);
        open.set_parent_token(placed.token());
    }
    return open;
}

// Until it is there, which takes memory at its switch. Senders, which wait meanwhile, are to be left time for
// another run.
Result<v1::OpenRelayReply> Receiving::ask_relay(const Placed::Relay& relay, CallCancel* cancel) const {
    const milliseconds patience = task_->deadline / 3;
    const auto give_up_at = Clock::now() + patience;
    v1::OpenRelayRequest request = relay_request(relay);
    for (;;) {
        const milliseconds wait = at_most(kRelayWait, give_up_at);
        request.set_wait_ms(static_cast<std::uint32_t>(wait.count() / 2));
        auto reply = member_.network.open_relay(
            relay.address, "relay " + relay.name + " (" + relay.address + ")", request, wait, cancel);
        if (!reply || !reply->opening()) {
            return reply;
        }
        if (Clock::now() >= give_up_at) {
            return Error(Errc::kDeadline,
                         "relay " + relay.name + " has not opened the task within " + seconds_text(patience));
        }
    }
}

Result<> Receiving::open_level(unsigned depth) {
    std::vector<Placed::Relay>& relays = task_->placed->relays();
    const auto ask = [this](const Placed::Relay* relay) {
        return [this, relay](CallCancel* cancel) { return ask_relay(*relay, cancel); };
    };
    using Call = CallBeside<decltype(ask(nullptr))>;
    std::vector<std::pair<Placed::Relay*, std::unique_ptr<Call>>> calls;
    for (Placed::Relay& relay : relays) {
        if (relay.depth == depth) {
            calls.emplace_back(&relay, std::make_unique<Call>(io_.mailbox(), ask(&relay)));
        }
    }
    Clock::time_point next_tick = Clock::now() + kSessionTick;
    const auto answered = [](const auto& call) { return call.second->answered(); };
    while (!std::ranges::all_of(calls, answered)) {
        if (Clock::now() >= next_tick) {
            next_tick = Clock::now() + kSessionTick;
            const auto late = std::ranges::find_if_not(calls, answered);
            show_progress("waiting for relay " + (late == calls.end() ? "" : late->first->name));
        }
        ASK_PASS(wait_and_handle(next_tick));
    }
    std::optional<Error> refused;
    for (auto& [relay, call] : calls) {
        auto reply = call->take();
        if (!reply) {
            refused = without_relay(relay->name, reply.error());
            continue;
        }
        relay->agent = reply->agent();
        if (!reply->note().empty()) {
            spdlog::warn("task {}: relay {}: no memory on its switch, everything is added up there: {}",
                         task_->id, relay->name, reply->note());
        }
    }
    return refused ? Result<>(*std::move(refused)) : Result<>();
}

Result<> Receiving::open_relays() {
    if (!is_placed()) {
        return {};
    }
    const auto begun = Clock::now();
    for (unsigned depth = 0; depth < task_->placed->depth(); ++depth) {
        ASK_PASS(open_level(depth));
    }
    member_.registry.placed(*task_);
    spdlog::log(task_->log_level(), "task {}: {} relays in {} levels opened in {:.3f} s", task_->id,
                task_->placed->relays().size(), task_->placed->depth(), seconds_since(begun));
    return {};
}

// Nobody has sent anything yet.
Error Receiving::without_relay(const std::string& relay, const Error& why) {
    lost_relays_.push_back(relay);
    return request_.can_repeat()
               ? Error(Errc::kRunAgain, why.text() + ": the task begins again without relay " + relay)
               : Error(why.code(), why.text() + ": plan again without switch " + relay);
}

}  // namespace ask
