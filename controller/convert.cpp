// SPDX-License-Identifier: Apache-2.0
#include "controller/convert.h"

#include <algorithm>
#include <unordered_set>

#include "lib/abi/limits.h"
#include "lib/base/task_id.h"
#include "lib/net/address.h"
#include "lib/rpc/hosts6.h"
#include "lib/text/clean.h"

namespace ask {
namespace {

using placing::Claim;
using placing::Sender;
using placing::Wish;

// As topology files have them.
constexpr std::size_t kLongestSwitch = 255;
constexpr int kMostExcluded = 4096;
constexpr int kMostRelays = 4096;

Error wrong(const std::string& text) {
    return {Errc::kInput, text};
}

Result<NamedHost> host_address(const std::string& what, const std::string& text) {
    const auto address = read_host(text);
    if (!address.ok()) {
        return Error(address.error().code(), what + " " + clean_text(address.error().text()));
    }
    if (!address->ipv6 && !is_host_address(address->number)) {
        return wrong(what + " must be the address of a host, not '" + clean_name(text) + "'");
    }
    return *address;
}

Result<> check_switch_name(const std::string& name) {
    if (name.empty() || name.size() > kLongestSwitch) {
        return wrong("a switch's name has 1 to " + std::to_string(kLongestSwitch) + " bytes, not " +
                     std::to_string(name.size()));
    }
    return {};
}

// Senders one after the other, within what a task may have.
class SenderList {
 public:
    explicit SenderList(const Caller& caller) : caller_(caller) {}

    Result<> add(const std::string& address, std::uint32_t sends) {
        const auto parsed = host_address("a sender's address", address);
        ASK_PASS(parsed);
        if (sends == 0) {
            return wrong("sender " + address + " sends nothing");
        }
        sum_ += sends;
        if (sum_ > ASK_MAX_SENDERS) {
            return wrong("a task has at most " + std::to_string(ASK_MAX_SENDERS) + " sends");
        }
        if (!seen_.insert(parsed->number).second) {
            return wrong("sender " + address + " is given twice");
        }
        const auto host = introduce(*parsed, caller_);
        ASK_TRY(host, "a sender's address");
        senders_.push_back({.address = *host, .sends = sends});
        return {};
    }
    [[nodiscard]] std::vector<Sender> take() { return std::move(senders_); }

 private:
    const Caller& caller_;
    std::vector<Sender> senders_;
    std::unordered_set<std::uint32_t> seen_;
    std::uint64_t sum_ = 0;
};

Result<placement::Objective> objective_from(const std::string& name) {
    if (name.empty()) {
        return placement::Objective::kUtilisation;
    }
    const auto objective = placement::parse_objective(name);
    if (!objective.ok()) {
        return wrong("objective '" + clean_name(name) + "' is none of utilisation, bottleneck and bytes");
    }
    return *objective;
}

Result<> check_task(const std::string& task, std::uint64_t instance) {
    if (auto valid = check_task_id(task); !valid.ok()) {
        return wrong(valid.error().text());
    }
    return instance == 0 ? wrong("instance 0 is none") : Result<>();
}

// Parents come before their children, names are there once, and whoever enters does so at a relay.
Result<> check_relays(const v1::Placement& placement) {
    if (placement.relays_size() > kMostRelays) {
        return wrong("a placement has at most " + std::to_string(kMostRelays) + " relays");
    }
    std::unordered_set<std::string> names;
    for (const v1::PlacedRelay& relay : placement.relays()) {
        ASK_PASS(check_switch_name(relay.name()));
        if (!relay.parent().empty() && !names.contains(relay.parent())) {
            return wrong("relay '" + clean_name(relay.name()) + "' comes before its parent");
        }
        if (!names.insert(relay.name()).second) {
            return wrong("relay '" + clean_name(relay.name()) + "' is given twice");
        }
        ASK_TRY(read_host_of_control(relay.address()),
                "relay '" + clean_name(relay.name()) + "': its address");
    }
    for (const v1::PlacedHost& host : placement.hosts()) {
        if (host.name().size() > kLongestSwitch) {
            return wrong("a host's name has at most " + std::to_string(kLongestSwitch) + " bytes");
        }
        if (!host.entry().empty() && !names.contains(host.entry())) {
            return wrong("host " + clean_name(host.address()) + " enters at '" + clean_name(host.entry()) +
                         "', which is no relay of the placement");
        }
    }
    return {};
}

}  // namespace

Result<NamedHost> receiver_from(const std::string& address) {
    return host_address("the receiver", address);
}

Result<Wish> wish_from_proto(const v1::AdmitRequest& request, const Caller& caller) {
    ASK_PASS(check_task(request.task(), request.instance()));
    const auto objective = objective_from(request.objective());
    ASK_PASS(objective);
    if (request.senders().empty()) {
        return wrong("a task without senders is not placed");
    }
    SenderList senders(caller);
    for (const v1::AdmittedSender& sender : request.senders()) {
        ASK_PASS(senders.add(sender.address(), sender.sends()));
    }
    if (request.excluded_size() > kMostExcluded) {
        return wrong("at most " + std::to_string(kMostExcluded) + " switches may be excluded");
    }
    for (const std::string& name : request.excluded()) {
        ASK_PASS(check_switch_name(name));
    }
    return Wish{.task = request.task(),
                .instance = request.instance(),
                .senders = senders.take(),
                .objective = *objective,
                .k = request.k(),
                .excluded = {request.excluded().begin(), request.excluded().end()},
                .memory_mib = request.memory_mib()};
}

Result<Claim> claim_from_proto(const v1::RenewPlanRequest& request, const Caller& caller) {
    ASK_PASS(check_task(request.task(), request.instance()));
    if (request.plan() == 0) {
        return wrong("plan 0 is none");
    }
    const v1::Placement& placement = request.placement();
    const auto objective = objective_from(placement.objective());
    ASK_PASS(objective);
    ASK_PASS(check_relays(placement));
    SenderList senders(caller);
    for (const v1::PlacedHost& host : placement.hosts()) {
        ASK_PASS(senders.add(host.address(), host.sends()));
    }
    return Claim{.wish = {.task = request.task(),
                          .instance = request.instance(),
                          .senders = senders.take(),
                          .objective = *objective,
                          .k = static_cast<std::uint32_t>(placement.relays_size()),
                          .excluded = {},
                          .memory_mib = request.memory_mib()},
                 .plan = request.plan(),
                 .placement = placement};
}

}  // namespace ask
