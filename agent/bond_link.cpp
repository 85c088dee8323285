// SPDX-License-Identifier: Apache-2.0
#include "agent/bond_link.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <spdlog/spdlog.h>

#include "agent/link_sockets.h"
#include "agent/workers.h"
#include "lib/net/bond.h"

namespace ask {
namespace {

// That a member may have: those that come later have no say.
constexpr std::uint32_t kQueues = 64;

LinkSockets on_member(const InterfaceInfo& bond, const InterfaceInfo& member) {
    return {.interface = member, .mac = bond.mac, .mtu = bond.mtu};
}

std::string names_of(const std::vector<std::string>& members) {
    std::string names;
    for (const std::string& member : members) {
        names += names.empty() ? "" : ", ";
        names += member;
    }
    return names;
}

// Sockets on the queues that are there without the program.
Result<> open_member(const AgentConfig& config, BondLink& link, LinkSockets& on, HostProgram& program) {
    if (on.interface.xdp_program != 0) {
        return Error(Errc::kExists, "member " + on.interface.name + " has XDP program " +
                                        std::to_string(on.interface.xdp_program) +
                                        " of its own: remove it (ip link set dev " + on.interface.name +
                                        " xdp off, or its own tool)");
    }
    on.sending = sending_queues(on.interface.name);
    ASK_PASS(open_sockets(config, on));
    ASK_PASS(program.add_member(on.interface.name, on.interface.index));
    ASK_PASS(steer(on, program));
    link.members.insert_or_assign(on.interface.name, on.interface.index);
    return {};
}

Result<std::vector<InterfaceInfo>> all_interfaces() {
    auto netlink = Netlink::open();
    ASK_PASS(netlink);
    return netlink->interfaces();
}

}  // namespace

Result<HostProgram> open_bond(const AgentConfig& config, std::uint32_t own_address, BondLink& link,
                              std::vector<XskSocket>& sockets) {
    const InterfaceInfo& bond = link.bond;
    const auto all = all_interfaces();
    ASK_PASS(all);
    auto program = HostProgram::load({.interface = bond.name,
                                      .interface_index = bond.index,
                                      .own_address = own_address,
                                      .queues = kQueues,
                                      .bond = true,
                                      .mode = XdpMode::kNative});
    ASK_PASS(program);
    std::vector<LinkSockets> opened;
    for (const InterfaceInfo* const member : members_of(bond, *all)) {
        LinkSockets on = on_member(bond, *member);
        ASK_TRY(open_member(config, link, on, *program), "bond " + bond.name);
        opened.push_back(std::move(on));
    }
    if (opened.empty()) {
        return Error(Errc::kUnsupported, "interface " + bond.name +
                                             " is a bond without members: ip link set dev MEMBER master " +
                                             bond.name);
    }
    ASK_TRY(program->attach(), "steering");
    for (LinkSockets& on : opened) {
        ASK_TRY(open_further_sockets(config, on, *program), "bond " + bond.name);
        ASK_PASS(check_workers(config, on));
        std::ranges::move(on.sockets, std::back_inserter(sockets));
    }
    return program;
}

Result<BondKeeper> BondKeeper::open(const AgentConfig& config, std::vector<BondLink>& bonds,
                                    std::vector<HostProgram>& programs, Workers& workers) {
    BondKeeper keeper(config, bonds, programs, workers);
    if (!bonds.empty()) {
        auto watch = LinkWatch::open();
        ASK_PASS(watch);
        keeper.watch_ = *std::move(watch);
        keeper.follow();
    }
    return keeper;
}

void BondKeeper::follow() {
    if (!watch_ || (!watch_->changed().links && !owed_)) {
        return;
    }
    owed_ = false;
    if (const auto looked = look(); !looked.ok()) {
        owed_ = true;
        tell_once("bonds: " + std::string(looked.error().text()));
    }
}

Result<> BondKeeper::look() {
    const auto all = all_interfaces();
    ASK_PASS(all);
    for (BondLink& link : *bonds_) {
        ASK_PASS(look_at(link, *all));
    }
    return {};
}

Result<> BondKeeper::look_at(BondLink& link, const std::vector<InterfaceInfo>& all) {
    const std::vector<const InterfaceInfo*> members = members_of(link.bond, all);
    std::erase_if(link.members, [&members](const auto& known) {
        return std::ranges::none_of(members, [&known](const InterfaceInfo* member) {
            return member->name == known.first && member->index == known.second;
        });
    });
    std::vector<XskSocket> fresh;
    std::vector<std::string> resting;
    for (const InterfaceInfo* const member : members) {
        if (!link.members.contains(member->name)) {
            take_in(link, *member, fresh);
        }
        if (!member->bond_sends) {
            resting.insert(resting.end(), member->name);
        }
    }
    State state{.members = link.members, .resting = std::move(resting)};
    State& before = states_[link.bond.name];
    if (state == before && fresh.empty()) {
        return {};
    }
    if (state.resting != before.resting) {
        spdlog::info("{}: sends by all of its members{}{}", link.bond.name,
                     state.resting.empty() ? "" : " but ", names_of(state.resting));
    }
    LinkChange change{.mac = link.bond.mac, .resting = state.resting};
    std::ranges::transform(link.members, std::back_inserter(change.members),
                           [](const auto& known) { return known.first; });
    ASK_PASS(workers_->change_link(change, std::move(fresh)));
    before = std::move(state);
    return {};
}

// A member that has come: the kernel has put the program on it. Its lowest queues are those that it sends on,
// however many the program has added.
void BondKeeper::take_in(BondLink& link, const InterfaceInfo& member, std::vector<XskSocket>& fresh) {
    HostProgram& program = (*programs_)[link.nth];
    LinkSockets on = on_member(link.bond, member);
    on.sending = config_->workers;
    auto taken = open_sockets(*config_, on);
    taken = taken.ok() ? check_workers(*config_, on) : std::move(taken);
    taken = taken.ok() ? program.add_member(member.name, member.index) : std::move(taken);
    taken = taken.ok() ? steer(on, program) : std::move(taken);
    if (!taken.ok()) {
        owed_ = true;
        tell_once("bond " + link.bond.name + ": what comes in by " + member.name +
                  " is lost: " + std::string(taken.error().text()));
        return;
    }
    link.members.insert_or_assign(member.name, member.index);
    spdlog::info("{}: member {} has come", link.bond.name, member.name);
    std::ranges::move(on.sockets, std::back_inserter(fresh));
}

void BondKeeper::tell_once(const std::string& text) {
    constexpr std::size_t kMost = 64;
    if (told_.size() >= kMost) {
        told_.clear();
    }
    if (told_.insert(text).second) {
        spdlog::warn("{}; tried again", text);
    }
}

}  // namespace ask
