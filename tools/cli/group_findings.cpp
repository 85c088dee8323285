// SPDX-License-Identifier: Apache-2.0
//
// What is in a group's way: who is waited for and why, why the switch does not help, what the way loses.
#include <algorithm>
#include <optional>

#include "tools/cli/groups.h"
#include "tools/cli/table.h"

namespace ask::cli {
namespace {

// A chunk takes less than a millisecond, and an agent is heard of every second.
constexpr double kLong = 0.5;
constexpr double kSilent = 2.5;
// Of chunks: below it nobody notices.
constexpr double kNotable = 0.01;

std::uint64_t value_of(const v1::AgentGroup& group, const std::string& name) {
    const auto at = std::ranges::find(group.counters(), name, &v1::Counter::name);
    return at == group.counters().end() ? 0 : at->value();
}

bool notable(std::uint64_t part, std::uint64_t all) {
    return part > 0 && static_cast<double>(part) >= kNotable * static_cast<double>(all);
}

std::string who(const v1::AgentGroup& group, std::uint32_t rank) {
    const bool named = static_cast<int>(rank) < group.members_size();
    return "rank " + std::to_string(rank) +
           (named ? ", " + group.members(static_cast<int>(rank)).name() + "," : "");
}

std::string waited(const v1::AgentGroup& group) {
    return duration_text(group.waiting_seconds());
}

std::string time_left(const v1::AgentGroup& group) {
    const double left = group.deadline_seconds() - group.waiting_seconds();
    return "the group fails in " + duration_text(std::max(0.0, left)) + " unless it comes";
}

// A member whose part of the oldest chunk has not come.
Finding of_missing(const v1::AgentGroup& group, std::uint32_t rank) {
    const v1::AgentGroupMember* const member =
        static_cast<int>(rank) < group.members_size() ? &group.members(static_cast<int>(rank)) : nullptr;
    const std::string operation = "operation " + std::to_string(group.operation());
    if (member == nullptr || !member->known()) {
        return {who(group, rank) + " has not sent its part of " + operation + " for " + waited(group),
                "askctl group explain on " + group.root() + " knows more of it; " + time_left(group)};
    }
    if (member->heard_seconds_ago() > kSilent) {
        return {who(group, rank) + " has not sent for " + waited(group) + ", and its agent is silent for " +
                    duration_text(member->heard_seconds_ago()),
                "its host or agent hangs or is gone, or its link is down; " + time_left(group)};
    }
    if (member->operations_begun() < group.operation()) {
        return {who(group, rank) + " has not begun " + operation + ", for which the others wait for " +
                    waited(group),
                "its agent is there: its application computes, or hangs; " + time_left(group)};
    }
    return {who(group, rank) + " has begun " + operation + ", and its part has not come for " + waited(group),
            "its agent is there: askctl groups " + group.id() + " on its host shows whether it sends; " +
                time_left(group)};
}

void add_waiting(const v1::AgentGroup& group, std::vector<Finding>& all) {
    if (group.state() == "joining") {
        all.push_back({"It has not reached its root " + group.root(), "start its member there"});
    }
    if (group.state() == "waiting") {
        all.push_back({"It waits for " + group.waiting_for() + " to join",
                       "start its member, by the same group, size and root; it gives up after " +
                           duration_text(group.deadline_seconds())});
    }
    if (group.operation() == 0 || group.waiting_seconds() < kLong) {
        return;
    }
    for (const std::uint32_t rank : group.missing()) {
        all.push_back(of_missing(group, rank));
    }
    if (group.missing_size() == 0) {
        all.push_back({"Neither switch nor collector has answered for " + waited(group),
                       "the way to " + group.root() + " is cut, or its agent hangs; " + time_left(group)});
    }
}

void add_end(const v1::AgentGroup& group, std::vector<Finding>& all) {
    std::string dead;
    for (int rank = 0; rank < group.members_size(); ++rank) {
        if (group.members(rank).dead()) {
            dead += (dead.empty() ? "" : ", ") + std::string("rank ") + std::to_string(rank) + ", " +
                    group.members(rank).name();
        }
    }
    if (group.state() == "settling") {
        all.push_back({"It is about to fail: " + (dead.empty() ? "nothing goes on" : dead + " is dead") +
                           "; the others agree on which operations have ended",
                       "they may go on without it: ask_group_shrink()"});
    }
    if (group.state() == "failed") {
        all.push_back({"It has failed: " + group.error(),
                       dead.empty() ? "open it anew once that is mended"
                                    : "the others may go on without " + dead + ": ask_group_shrink()"});
    }
}

// Why the switch does not add, if it does not.
void add_switch(const v1::AgentGroup& group, std::vector<Finding>& all) {
    if (group.state() == "joining" || group.state() == "waiting") {
        return;
    }
    const std::string& trouble = group.switch_trouble();
    const std::string& lost = group.switch_lost().empty() ? group.switch_() : group.switch_lost();
    if (group.switch_losses() > 0 && group.switch_opened_seconds_ago() > 0) {
        all.push_back({"The switch " + lost + " lost the group " +
                           duration_text(group.switch_lost_seconds_ago()) + " ago (" + trouble +
                           "); opened there again " + duration_text(group.switch_opened_seconds_ago()) +
                           " ago",
                       "nothing to do; its log says why it lost it"});
    } else if (group.switch_losses() > 0) {
        all.push_back(
            {"The switch " + lost + " lost the group " + duration_text(group.switch_lost_seconds_ago()) +
                 " ago (" + trouble + "); " +
                 (group.through_switch() ? "the other switches and the collector add meanwhile"
                                         : "the collector adds meanwhile"),
             "it is opened there again by itself once ask-switchd answers: askctl status --switch"});
    } else if (!group.through_switch() && !group.note().empty()) {
        all.push_back({"The switch does not help: " + group.note(),
                       "results are right, and slower; what is named decides when a group opens"});
    } else if (!trouble.empty()) {
        all.push_back({"The switch does not help any more: " + trouble,
                       "askctl group explain on " + group.root() + " knows more of it"});
    } else if (group.through_switch() && !group.direct()) {
        all.push_back({group.note(), "each result goes to the members one by one"});
    }
    for (const v1::AgentGroupSwitch& one : group.switches()) {
        if (group.through_switch() && !one.open() && one.losses() == 0) {
            all.push_back({"The switch " + one.address() + " does not add: " + one.trouble(),
                           "results are right, and slower; what is named decides when a group opens"});
        }
    }
}

std::size_t groups_on(const v1::SwitchStatus& status) {
    return static_cast<std::size_t>(
        std::ranges::count_if(status.tasks(), [](const v1::SwitchTask& task) { return task.members() > 0; }));
}

void add_pool(const v1::AgentGroup& group, const TaskSources& sources, std::vector<Finding>& all) {
    const std::uint64_t collided = value_of(group, "collector_collided");
    const std::uint64_t chunks = group.chunks_switch() + group.chunks_collector();
    if (group.through_switch() && group.coordinates() && group.slots() == 0) {
        all.push_back({"The switch had no slots left for the group: the collector adds",
                       "raise sram_kib there, or end other tasks"});
    } else if (notable(collided, chunks)) {
        const std::string share = sources.on_switch
                                      ? std::to_string(groups_on(*sources.on_switch)) + " group(s) share " +
                                            std::to_string(sources.on_switch->value_slots()) + " slots"
                                      : "the group uses " + std::to_string(group.slots()) + " slots";
        all.push_back({"Pool full: " + share + ", and " + grouped(collided) +
                           " partial sums met a slot that was another chunk's",
                       "raise value_slots of the switch"});
    }
}

void add_way(const v1::AgentGroup& group, std::vector<Finding>& all) {
    const std::uint64_t sent = value_of(group, "member_values_sent");
    const std::uint64_t lost = value_of(group, "member_losses");
    const std::uint64_t again = value_of(group, "member_resends");
    const std::uint64_t raw = value_of(group, "member_raw");
    if (notable(lost, sent)) {
        all.push_back({"The way loses packets: " + grouped(lost) + " of " + grouped(sent) + " chunks (" +
                           percent(lost, sent) + ")",
                       "look at the links, and at drop counters of the switch: askctl counters --switch"});
    } else if (notable(again, sent)) {
        all.push_back({"Answers are late: " + grouped(again) + " of " + grouped(sent) +
                           " chunks were sent again, and few of them were lost",
                       "hosts are too busy, or members are far apart in time"});
    }
    if (notable(value_of(group, "member_marks"), sent)) {
        all.push_back({"The way is congested: " + grouped(value_of(group, "member_marks")) +
                           " answers are marked, and the window was cut " +
                           grouped(value_of(group, "member_congested")) + " time(s)",
                       "others share its links, or the collector's host is too slow"});
    }
    if (notable(raw, sent)) {
        all.push_back(
            {"No switch can add " + percent(raw, sent) + " of the chunks: products, NaN, or too wide a range",
             "docs/values.md says which types and operators are raw"});
    }
}

void add_drops(const v1::AgentGroup& group, std::vector<Finding>& all) {
    for (const v1::Counter& counter : group.counters()) {
        if (counter.class_() != "traffic" && counter.value() > 0) {
            all.push_back({counter.name() + " is " + grouped(counter.value()), counter.text()});
        }
    }
}

}  // namespace

std::vector<Finding> findings_of(const v1::AgentGroup& group, const TaskSources& sources) {
    std::vector<Finding> all;
    add_end(group, all);
    add_waiting(group, all);
    add_switch(group, all);
    add_pool(group, sources, all);
    add_way(group, all);
    add_drops(group, all);
    return all;
}

}  // namespace ask::cli
