// SPDX-License-Identifier: Apache-2.0
#include "lib/control/group/switches.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include <spdlog/spdlog.h>

#include "lib/abi/wire.h"
#include "lib/control/member/convert.h"

namespace ask {
namespace {

constexpr milliseconds kShortCall{1000};
constexpr milliseconds kLeaseRenewal{2000};
constexpr milliseconds kLongestPause{60000};
// Renewals in a row: a daemon that is restarted misses fewer.
constexpr unsigned kSilent = 2;
// Looks, each kSessionTick: then it goes on with those of its members that have registered.
constexpr unsigned kRegisterLooks = 20;

std::string joined(const std::vector<std::string>& texts) {
    std::string all;
    for (const std::string& text : texts) {
        all += (all.empty() ? "" : "; ") + text;
    }
    return all;
}

}  // namespace

GroupSwitches::GroupSwitches(Ports ports, Terms terms, v1::JoinGroupReply& group)
    : ports_(std::move(ports)), terms_(std::move(terms)), group_(group) {}

void GroupSwitches::open() {
    settle();
}

// Until all that is planned is open. Each round but the last one finds a switch that does not do what was
// planned, and it is planned without that.
void GroupSwitches::settle() {
    members_ = ports_.members();
    for (bool settled = false; !settled;) {
        levels_ = plan_levels(members_, terms_.root, troubles_);
        close_others();
        settled = true;
        for (const LevelSwitch& plan : levels_.switches) {
            settled = settled && try_open(plan);
        }
    }
}

// What is open and is planned no more, or otherwise.
void GroupSwitches::close_others() {
    for (auto& [id, at] : at_) {
        if (at.open && std::ranges::find(levels_.switches, *at.open) == levels_.switches.end()) {
            close_at(at);
        }
    }
}

// False: it is to be planned anew.
bool GroupSwitches::try_open(const LevelSwitch& plan) {
    At& at = at_[plan.mark.switch_id];
    if (at.open) {
        return true;
    }
    SwitchTrouble& trouble = troubles_[plan.mark.switch_id];
    if (const auto opened = open_at(plan, at); !opened.ok()) {
        spdlog::warn("group {}: {}", terms_.id, opened.error().text());
        trouble.none = clean_text(opened.error().text());
        close_at(at);
        // While the group runs, only those that have had it are opened.
        at.lost = published_;
        return false;
    }
    if (plan.last || at.grant.fan() || !levels_.has_last() || !trouble.no_copies.empty()) {
        return true;
    }
    trouble.no_copies = clean_text(at.grant.no_direct_reason());
    trouble.no_copies += trouble.no_copies.empty() ? "it does not say why" : "";
    return false;
}

v1::OpenTaskRequest GroupSwitches::request_of(const LevelSwitch& plan) const {
    v1::OpenTaskRequest request;
    request.set_id(terms_.id);
    request.set_instance(group_.instance());
    request.set_receiver(terms_.control_address);
    request.set_receiver_address(terms_.address);
    request.set_wire_version(ASK_WIRE_VERSION);
    v1::ValuesTask& task = *request.mutable_values();
    task.set_size(static_cast<std::uint32_t>(members_.size()));
    task.set_window(group_.window());
    task.set_secret(group_.secret());
    task.set_want(plan.want);
    task.set_below(plan.below);
    const auto add = [this](std::uint64_t set, auto& to) {
        for (std::size_t rank = 0; rank < members_.size(); ++rank) {
            if ((set >> rank & 1U) != 0) {
                to.add_members(members_[rank].host);
            }
        }
    };
    add(plan.copies, task);
    for (const std::uint64_t rack : plan.racks) {
        add(rack, *task.add_racks());
    }
    task.set_direct(plan.last && task.members_size() > 0);
    return request;
}

// Whatever comes of it, it may be open there from here on.
Result<> GroupSwitches::open_at(const LevelSwitch& plan, At& at) {
    if (at.port == nullptr) {
        at.port = ports_.at(plan.address);
    }
    at.open = plan;
    at.unanswered = 0;
    at.next = Clock::now() + kLeaseRenewal;
    const auto opened = at.port->open_task(request_of(plan), ports_.patience());
    ASK_PASS(opened);
    if (opened->opening()) {
        return Error(Errc::kUnavailable, at.port->name() + " takes too long to open it");
    }
    ASK_PASS(take_grant(plan, at, *opened));
    return join_members(plan, *at.port);
}

Result<> GroupSwitches::take_grant(const LevelSwitch& plan, At& at, const v1::OpenTaskReply& reply) {
    const auto mark = mark_from_proto(reply.mark());
    ASK_TRY(mark, at.port->name());
    if (*mark != plan.mark) {
        return Error(Errc::kUnavailable, at.port->name() +
                                             " is not the one that its members have registered "
                                             "at: it was started anew meanwhile");
    }
    at.grant = reply.values();
    const std::uint32_t window = at.grant.window();
    if (window == 0 || window >= group_.window()) {
        return {};
    }
    if (published_) {
        return Error(Errc::kLimit, at.port->name() + " has a smaller pool than it had");
    }
    group_.set_window(window);
    return {};
}

Result<> GroupSwitches::join_members(const LevelSwitch& plan, SwitchPort& port) {
    for (int rank = 0; rank < group_.members_size(); ++rank) {
        if ((plan.want >> static_cast<unsigned>(rank) & 1U) == 0) {
            continue;
        }
        v1::JoinFlowRequest join;
        join.set_instance(group_.instance());
        *join.mutable_channel() = group_.members(rank).channel();
        join.set_incarnation(group_.members(rank).incarnation());
        join.set_secret(group_.secret());
        join.set_member(static_cast<std::uint32_t>(rank));
        ASK_PASS(port.join_flow(join, ports_.patience()));
    }
    return {};
}

void GroupSwitches::close_at(At& at) {
    at.open.reset();
    at.grant.Clear();
    if (const auto closed = at.port->close_task(group_.instance(), kShortCall); !closed.ok()) {
        // Its lease ends.
        spdlog::warn("group {}: {}", terms_.id, closed.error().text());
    }
}

void GroupSwitches::close() {
    for (auto& [id, at] : at_) {
        if (at.open) {
            close_at(at);
        }
    }
}

void GroupSwitches::look() {
    for (auto& [id, at] : at_) {
        if (Clock::now() < at.next) {
            continue;
        }
        if (at.open) {
            renew(id, at);
        } else if (at.lost) {
            look_for(id, at);
        }
    }
}

void GroupSwitches::renew(std::uint32_t id, At& at) {
    at.next = Clock::now() + kLeaseRenewal;
    const auto renewed = at.port->renew_tasks({group_.instance()}, kShortCall);
    if (!renewed.ok()) {
        spdlog::warn("group {}: {}", terms_.id, renewed.error().text());
        note_silent(id, at);
        return;
    }
    const bool was_silent = at.unanswered >= kSilent && !at.open->last;
    at.unanswered = 0;
    if (renewed->unknown_size() > 0) {
        lose(id, at, at.port->name() + " does not know it any more");
    } else if (was_silent) {
        troubles_[id].no_copies.clear();
        settle();
    }
}

// It may be gone with all that it had, and with it the copies that are sent its way. If it is not, it goes on
// to add.
void GroupSwitches::note_silent(std::uint32_t id, At& at) {
    ++at.unanswered;
    if (at.unanswered == kSilent && !at.open->last && at.grant.fan()) {
        troubles_[id].no_copies = "it does not answer";
        settle();
    }
}

void GroupSwitches::lose(std::uint32_t id, At& at, const std::string& why) {
    spdlog::warn("group {}: {}; the collector adds what it did", terms_.id, why);
    at.open.reset();
    at.grant.Clear();
    at.lost = true;
    ++at.losses;
    at.asked = {};
    at.next = Clock::now() + at.pause;
    ++losses_;
    last_lost_ = at.port->name();
    lost_by_ = clean_text(why);
    troubles_[id] = {.none = clean_text(why), .no_copies = {}};
    settle();
}

// Whether all that are to be are registered there, or cannot be.
bool GroupSwitches::are_registered(const Mark& mark) const {
    const auto members = ports_.members();
    const bool of_root = members[terms_.root].first.switch_id == mark.switch_id;
    return std::ranges::all_of(members, [&](const LevelMember& member) {
        if (member.first.switch_id == mark.switch_id) {
            return member.first == mark;
        }
        return !of_root || member.last == mark || !member.no_last.empty();
    });
}

// First the channels, then the group.
void GroupSwitches::look_for(std::uint32_t id, At& at) {
    at.next = Clock::now() + at.pause;
    const auto info = at.port->info(kShortCall);
    const auto mark = info.ok() ? mark_from_proto(info->mark()) : Result<Mark>(info.error());
    if (!mark.ok()) {
        return;
    }
    if (!are_registered(*mark)) {
        if (at.asked != *mark && ports_.register_again(*mark)) {
            at.asked = *mark;
            at.looks = 0;
        }
        if (at.asked != *mark || ++at.looks < kRegisterLooks) {
            return;
        }
    }
    // It may still have it as it was before, since it did not answer when that was to be closed.
    if (!at.port->close_task(group_.instance(), kShortCall).ok()) {
        return;
    }
    troubles_.erase(id);
    settle();
    at.lost = !at.open;
    at.pause = at.lost ? std::min(2 * at.pause, kLongestPause) : milliseconds(kSessionTick);
    if (!at.lost) {
        spdlog::info("group {}: {} has it again", terms_.id, at.port->name());
    }
}

const GroupSwitches::At* GroupSwitches::last() const {
    const auto found = std::ranges::find_if(
        at_, [](const auto& entry) { return entry.second.open && entry.second.open->last; });
    return found == at_.end() ? nullptr : &found->second;
}

GroupSwitches::Status GroupSwitches::status() const {
    Status status;
    const At* const at_last = last();
    status.has_last = at_last != nullptr;
    status.direct = status.has_last && at_last->grant.direct();
    // One that does not answer may be one that copies nothing any more.
    status.fan_out = status.has_last && at_last->grant.fan() && at_last->unanswered == 0;
    status.without = joined(levels_.without);
    status.losses = losses_;
    status.lost = last_lost_;
    status.lost_by = lost_by_;
    for (const auto& [id, at] : at_) {
        status.is_back = status.is_back && !at.lost;
        if (at.open) {
            status.slots = status.adds ? std::min(status.slots, at.grant.slots()) : at.grant.slots();
            status.adds = true;
        }
    }
    status.note = note_of(status);
    return status;
}

std::string GroupSwitches::note_of(const Status& status) const {
    if (!status.adds) {
        return "the collector adds: " +
               (status.without.empty() ? "no switch would have anything to add" : status.without);
    }
    const auto count =
        std::ranges::count_if(at_, [](const auto& entry) { return entry.second.open.has_value(); });
    std::string note = count == 1 ? "the switch adds" : std::to_string(count) + " switches add";
    if (status.direct) {
        note += count == 1 ? " and sends results to all" : ", the last one sends results to all";
    } else {
        note += ", the collector sends results";
        const std::string why = !levels_.no_copies.empty() ? levels_.no_copies
                                : status.has_last          ? clean_text(last()->grant.no_direct_reason())
                                                           : "";
        note += why.empty() ? "" : ": " + why;
    }
    return note + (status.without.empty() ? "" : "; " + status.without);
}

void GroupSwitches::describe(v1::AgentGroup& group) const {
    group.clear_switches();
    for (const auto& [id, at] : at_) {
        v1::AgentGroupSwitch& one = *group.add_switches();
        one.set_address(at.port->address());
        one.set_last(members_[terms_.root].first.switch_id == id);
        for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
            if (members_[rank].first.switch_id == id) {
                one.add_members(rank);
            }
        }
        one.set_open(at.open.has_value());
        const auto trouble = troubles_.find(id);
        if (trouble != troubles_.end()) {
            one.set_trouble(trouble->second.none.empty() ? trouble->second.no_copies : trouble->second.none);
        }
        one.set_losses(at.losses);
        one.set_slots(at.grant.slots());
    }
}

}  // namespace ask
