// SPDX-License-Identifier: Apache-2.0
#include "lib/control/receive/placed.h"

#include <algorithm>
#include <utility>

#include "lib/abi/limits.h"
#include "lib/base/bytes.h"
#include "lib/base/random.h"
#include "lib/control/receive/membership.h"
#include "lib/net/address.h"
#include "lib/net/host_book.h"
#include "lib/rpc/hosts6.h"
#include "lib/text/clean.h"

namespace ask {
namespace {

// 16 bytes by chance.
std::string draw_token() {
    std::string token;
    for (int i = 0; i < 2; ++i) {
        const std::uint64_t word = random_u64();
        token.append(reinterpret_cast<const char*>(&word), sizeof(word));
    }
    return token;
}

Result<std::uint32_t> number_for(const Result<NamedHost>& host, std::uint32_t user) {
    ASK_PASS(host);
    return introduce(*host, user);
}

// Under which nobody else opens a task at that relay.
std::string draw_task_id() {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string id = "relayed-";
    for (const char byte : draw_token()) {
        id += kDigits[static_cast<unsigned char>(byte) >> 4U];
        id += kDigits[static_cast<unsigned char>(byte) & 15U];
    }
    return id;
}

Error wrong(const std::string& what) {
    return {Errc::kUsage, "placement: " + what};
}

Result<> check_name(const std::string& name, std::string_view what) {
    constexpr std::size_t kLongestName = Placed::kLongestName;
    return name.empty() || name.size() > kLongestName
               ? wrong("the name of a " + std::string(what) + " must have 1 to " +
                       std::to_string(kLongestName) + " bytes, not " + std::to_string(name.size()))
               : Result<>();
}

// Nothing is done by them; people look at what crosses them.
Result<> check_links(const v1::Placement& plan) {
    if (plan.links_size() > static_cast<int>(Placed::kMostLinks)) {
        return wrong(std::to_string(plan.links_size()) + " links; the limit is " +
                     std::to_string(Placed::kMostLinks));
    }
    for (const v1::PlacedLink& link : plan.links()) {
        ASK_PASS(check_name(link.from(), "link's end"));
        ASK_PASS(check_name(link.to(), "link's end"));
    }
    return {};
}

}  // namespace

Result<std::optional<std::size_t>> Placed::find(const std::string& name, std::string_view whose) const {
    if (name.empty()) {
        return std::optional<std::size_t>();
    }
    const auto at = std::ranges::find(relays_, name, &Relay::name);
    if (at == relays_.end()) {
        return wrong(std::string(whose) + " sends to '" + clean_name(name) +
                     "', which is no relay of the plan, or comes after it: parents come first");
    }
    return std::optional<std::size_t>(static_cast<std::size_t>(at - relays_.begin()));
}

Result<> Placed::add_relay(const v1::PlacedRelay& relay, std::uint32_t user) {
    ASK_PASS(check_name(relay.name(), "relay"));
    const std::string whose = "relay " + clean_name(relay.name());
    if (std::ranges::find(relays_, relay.name(), &Relay::name) != relays_.end()) {
        return wrong(whose + " is there twice");
    }
    const auto parent = find(relay.parent(), whose);
    ASK_PASS(parent);
    const auto host = number_for(read_host_of_control(relay.address()), user);
    ASK_TRY(host, "placement: " + whose + ": its address");
    if (!relay.control().empty()) {
        ASK_TRY(check_host_port(relay.control()), "placement: " + whose + ": its switch's address");
    }
    relays_.push_back({.name = relay.name(),
                       .address = canonical_host_port(relay.address()),
                       .control = canonical_host_port(relay.control()),
                       .host = *host,
                       .parent = *parent,
                       .depth = *parent ? relays_[**parent].depth + 1 : 0,
                       .task_id = draw_task_id(),
                       .token = draw_token(),
                       .agent = {}});
    ++(*parent ? relays_[**parent].senders : direct_);
    return {};
}

Result<> Placed::add_host(const v1::PlacedHost& host, std::uint32_t user) {
    ASK_PASS(check_name(host.name(), "host"));
    const std::string whose = "host " + clean_name(host.name());
    const auto address = number_for(read_host(host.address()), user);
    ASK_TRY(address, "placement: " + whose + ": its address");
    if (std::ranges::find(hosts_, *address, &Host::address) != hosts_.end()) {
        return wrong(whose + ": " + host.address() + " is there twice");
    }
    if (host.sends() == 0 || host.sends() > ASK_MAX_SENDERS - sends_) {
        return wrong(whose + ": sends must be from 1 to " + std::to_string(ASK_MAX_SENDERS) + " in all");
    }
    const auto entry = find(host.entry(), whose);
    ASK_PASS(entry);
    hosts_.push_back({.name = host.name(), .address = *address, .entry = *entry, .sends = host.sends()});
    sends_ += host.sends();
    (*entry ? relays_[**entry].senders : direct_) += host.sends();
    return {};
}

bool Placed::is_for(const std::map<std::uint32_t, std::uint32_t>& sends) const {
    return sends.size() == hosts_.size() && std::ranges::all_of(hosts_, [&](const Host& host) {
               const auto at = sends.find(host.address);
               return at != sends.end() && at->second == host.sends;
           });
}

Result<Placed> Placed::create(const v1::Placement& plan, std::uint32_t sends, std::uint32_t user) {
    if (plan.relays_size() > static_cast<int>(kMostRelays) ||
        plan.hosts_size() > static_cast<int>(kMostHosts)) {
        return wrong(std::to_string(plan.relays_size()) + " relays and " + std::to_string(plan.hosts_size()) +
                     " hosts; the limits are " + std::to_string(kMostRelays) + " and " +
                     std::to_string(kMostHosts));
    }
    ASK_PASS(check_links(plan));
    Placed placed;
    placed.plan_ = plan;
    placed.token_ = draw_token();
    for (const v1::PlacedRelay& relay : plan.relays()) {
        ASK_PASS(placed.add_relay(relay, user));
    }
    for (const v1::PlacedHost& host : plan.hosts()) {
        ASK_PASS(placed.add_host(host, user));
    }
    if (placed.sends_ != sends) {
        return wrong("its hosts send " + std::to_string(placed.sends_) + " times, and the task has " +
                     std::to_string(sends) + " senders: they must be as many");
    }
    const auto idle = std::ranges::find(placed.relays_, 0U, &Relay::senders);
    if (idle != placed.relays_.end()) {
        return wrong("nobody sends to relay " + clean_name(idle->name));
    }
    return placed;
}

unsigned Placed::depth() const {
    unsigned levels = 0;
    for (const Relay& relay : relays_) {
        levels = std::max(levels, relay.depth + 1);
    }
    return levels;
}

const Placed::Host* Placed::host_of(const Caller& caller) const {
    const auto at =
        std::ranges::find_if(hosts_, [&](const Host& host) { return acts_for(caller, host.address); });
    return at == hosts_.end() ? nullptr : &*at;
}

const Placed::Relay* Placed::relay_of(const Caller& caller, std::string_view token) const {
    if (!is_same_secret(token_, token)) {
        return nullptr;
    }
    const auto at = std::ranges::find_if(
        relays_, [&](const Relay& relay) { return !relay.parent && acts_for(caller, relay.host); });
    return at == relays_.end() ? nullptr : &*at;
}

Result<> Placed::count_sender(const Host& host, std::uint64_t sender) {
    std::set<std::uint64_t>& senders = hosts_[static_cast<std::size_t>(&host - hosts_.data())].senders;
    if (sender == 0 || senders.contains(sender)) {
        return {};
    }
    if (senders.size() >= host.sends) {
        return Error(Errc::kDenied, "the placement has host " + clean_name(host.name) + " send " +
                                        std::to_string(host.sends) +
                                        " times, and this is another: plan again with all that send");
    }
    senders.insert(sender);
    return {};
}

void Placed::forget_sender(const Host& host, std::uint64_t sender) {
    hosts_[static_cast<std::size_t>(&host - hosts_.data())].senders.erase(sender);
}

std::vector<v1::RelayOfTask> Placed::describe() const {
    std::vector<v1::RelayOfTask> all;
    for (const Relay& relay : relays_) {
        v1::RelayOfTask& entry = all.emplace_back();
        entry.set_name(relay.name);
        entry.set_address(relay.address);
        entry.set_parent(relay.parent ? relays_[*relay.parent].name : "");
        entry.set_senders(relay.senders);
    }
    for (const Host& host : hosts_) {
        if (host.entry) {
            all[*host.entry].add_hosts(host.name);
        }
    }
    return all;
}

const Placed::Relay* Placed::last_relay(const Host& host) const {
    std::optional<std::size_t> at = host.entry;
    while (at && relays_[*at].parent) {
        at = relays_[*at].parent;
    }
    return at ? &relays_[*at] : nullptr;
}

}  // namespace ask
