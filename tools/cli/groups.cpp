// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/groups.h"

#include <algorithm>

#include "tools/cli/names.h"
#include "tools/cli/table.h"

namespace ask::cli {
namespace {

std::string rank_text(const v1::AgentGroup& group) {
    return std::to_string(group.rank()) + " of " + std::to_string(group.size());
}

std::string state_text(const v1::AgentGroup& group) {
    if (group.state() == "failed" || group.state() == "left") {
        return group.state() + " " + duration_text(group.ended_seconds_ago()) + " ago";
    }
    if (group.state() == "waiting") {
        return "waiting for " + group.waiting_for();
    }
    if (group.operation() != 0) {
        return group.state() + ", operation " + std::to_string(group.operation()) + " for " +
               duration_text(group.waiting_seconds());
    }
    return group.state() == "open" ? "open, idle" : group.state();
}

std::string switch_text(const v1::AgentGroup& group) {
    const bool lost = group.switch_losses() > 0 || !group.switch_trouble().empty();
    if (lost && group.switch_opened_seconds_ago() == 0) {
        return group.through_switch() ? "adds in part" : "lost";
    }
    if (group.through_switch()) {
        return group.direct() ? "adds, sends to all" : "adds";
    }
    return group.note().empty() ? "-" : "no";
}

std::uint64_t counter_of(const v1::AgentGroup& group, const std::string& name) {
    const auto at = std::ranges::find(group.counters(), name, &v1::Counter::name);
    return at == group.counters().end() ? 0 : at->value();
}

std::string under_way(const v1::AgentGroup& group) {
    const std::uint64_t count = group.operations_begun() - group.operations();
    std::string text = std::to_string(count) + " under way";
    if (group.operation() != 0) {
        text += ", the oldest, operation " + std::to_string(group.operation()) + ", at chunk " +
                std::to_string(group.chunk()) + " of stream " + std::to_string(group.stream()) +
                ", which has waited for " + duration_text(group.waiting_seconds());
    }
    return text;
}

std::string missing_text(const v1::AgentGroup& group) {
    std::string text;
    for (const std::uint32_t rank : group.missing()) {
        const bool named = static_cast<int>(rank) < group.members_size();
        text += (text.empty() ? "" : "; ") + std::string("rank ") + std::to_string(rank) +
                (named ? ", " + group.members(static_cast<int>(rank)).name() : "");
    }
    return text;
}

std::string losses_text(const v1::AgentGroup& group) {
    std::string text = group.switch_lost() + (group.switch_lost().empty() ? "" : " ") + "lost it " +
                       std::to_string(group.switch_losses()) + " time(s), last " +
                       duration_text(group.switch_lost_seconds_ago()) + " ago";
    if (!group.switch_trouble().empty()) {
        text += " (" + group.switch_trouble() + ")";
    }
    return text + (group.switch_opened_seconds_ago() > 0
                       ? "; opened there again " + duration_text(group.switch_opened_seconds_ago()) + " ago"
                       : "; not open there again yet");
}

// Where there are several.
void add_each_switch(const v1::AgentGroup& group, Table& table) {
    for (const v1::AgentGroupSwitch& one : group.switches()) {
        if (group.switches_size() < 2) {
            return;
        }
        std::string ranks;
        for (const std::uint32_t rank : one.members()) {
            ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
        }
        std::string text = one.address();
        text += ", of rank(s) ";
        text += ranks;
        text += one.open() ? ", adds, " + grouped(one.slots()) + " slots" : ", does not add";
        text += one.trouble().empty() ? "" : ": " + one.trouble();
        text += one.losses() > 0 ? ", lost it " + std::to_string(one.losses()) + " time(s)" : "";
        table.add({one.last() ? "last switch" : "first switch", text});
    }
}

void add_switch_facts(const v1::AgentGroup& group, Table& table) {
    table.add({"switch", (group.switch_().empty() ? "none" : group.switch_()) + ": " +
                             (group.note().empty() ? "not asked yet" : group.note())});
    if (group.switch_losses() > 0) {
        table.add({"", losses_text(group)});
    } else if (!group.switch_trouble().empty()) {
        table.add({"", group.switch_trouble()});
    }
    add_each_switch(group, table);
    if (group.coordinates() && group.operations_begun() > 0) {
        const std::uint64_t all = group.chunks_switch() + group.chunks_collector();
        table.add({"chunks", grouped(group.chunks_switch()) + " added up on the switch (" +
                                 percent(group.chunks_switch(), all) + "), " +
                                 grouped(group.chunks_collector()) + " by the collector"});
    }
    if (group.window() > 0) {
        table.add(
            {"window",
             std::to_string(group.window()) + " packets of a stream" +
                 (group.slots() > 0 ? ", " + std::to_string(group.slots()) + " slots on the switch" : "") +
                 ", at most " + std::to_string(group.blocks() * 64) + " B each"});
    }
}

std::string members_table(const v1::AgentGroup& group) {
    const bool known = std::ranges::any_of(group.members(), &v1::AgentGroupMember::known);
    Table table({{"RANK", Align::kRight},
                 {"MEMBER"},
                 {known ? "BEGUN" : "", Align::kRight},
                 {known ? "ENDED" : "", Align::kRight},
                 {known ? "HEARD" : "", Align::kRight},
                 {""}});
    for (int rank = 0; rank < group.members_size(); ++rank) {
        const v1::AgentGroupMember& member = group.members(rank);
        const bool lacks =
            std::ranges::find(group.missing(), static_cast<std::uint32_t>(rank)) != group.missing().end();
        const std::string state = member.dead() ? "dead" : member.left() ? "left" : lacks ? "missing" : "";
        const auto figure = [&](std::uint64_t value) { return member.known() ? grouped(value) : ""; };
        table.add({std::to_string(rank), member.name(), figure(member.operations_begun()),
                   figure(member.operations()),
                   member.known() ? duration_text(member.heard_seconds_ago()) + " ago" : "", state});
    }
    return table.empty() ? "" : "\n" + table.text();
}

std::string streams_table(const v1::AgentGroup& group) {
    Table table({{"STREAM", Align::kRight},
                 {"WINDOW", Align::kRight},
                 {"IN FLIGHT", Align::kRight},
                 {"SRTT us", Align::kRight}});
    for (const v1::AgentGroupStream& stream : group.streams()) {
        table.add({std::to_string(stream.stream()), grouped(static_cast<std::uint64_t>(stream.window())),
                   std::to_string(stream.in_flight()),
                   grouped(static_cast<std::uint64_t>(stream.srtt_us()))});
    }
    return table.empty() ? "" : "\n" + table.text();
}

std::string counters_table(const v1::AgentGroup& group) {
    Table table({{"COUNTER"}, {"CLASS"}, {"VALUE", Align::kRight}, {"MEANING"}});
    for (const v1::Counter& counter : group.counters()) {
        table.add({counter.name(), counter.class_(), grouped(counter.value()), counter.text()});
    }
    return table.empty() ? "" : "\n" + table.text();
}

std::string facts_of(const v1::AgentGroup& group) {
    Table table({{"", Align::kLeft}, {"", Align::kLeft}});
    table.add(
        {"group",
         group.id() + ", instance " + instance_text(group.instance()) +
             (group.generation() > 0 ? ", shrunk " + std::to_string(group.generation()) + " time(s)" : "")});
    table.add({"state", state_text(group) + ", opened " + duration_text(group.age_seconds()) +
                            (group.ended_seconds_ago() > 0 ? " before that" : " ago")});
    if (!group.error().empty()) {
        table.add({"error", group.error()});
    }
    table.add({"here", "rank " + rank_text(group) + ", of user " + std::to_string(group.user())});
    table.add({"root", group.root() + (group.coordinates() ? ", this host" : "")});
    add_switch_facts(group, table);
    table.add({"operations", grouped(group.operations()) + " ended, " + under_way(group)});
    if (group.missing_size() > 0) {
        table.add({"missing", missing_text(group)});
    }
    table.add({"sent again", grouped(counter_of(group, "member_resends")) + " of " +
                                 grouped(counter_of(group, "member_values_sent")) + " chunks, " +
                                 grouped(counter_of(group, "member_losses")) + " proved lost, " +
                                 grouped(counter_of(group, "member_marks")) + " answers marked congested"});
    table.add({"arena", bytes_text(group.arena_bytes())});
    table.add({"deadline", duration_text(group.deadline_seconds())});
    return table.text();
}

const v1::AgentGroup* find_group(const v1::AgentStatus& status, const std::string& id) {
    const auto here = std::ranges::find(status.groups(), id, &v1::AgentGroup::id);
    if (here != status.groups().end()) {
        return &*here;
    }
    const auto ended = std::ranges::find(status.ended_groups(), id, &v1::AgentGroup::id);
    return ended == status.ended_groups().end() ? nullptr : &*ended;
}

const v1::SwitchTask* find_group(const v1::SwitchStatus& status, const std::string& id) {
    const auto at = std::ranges::find_if(
        status.tasks(), [&id](const v1::SwitchTask& task) { return task.id() == id && task.members() > 0; });
    return at == status.tasks().end() ? nullptr : &*at;
}

Error unknown(const std::string& id) {
    return {Errc::kUnknown, "no group " + id +
                                " here: askctl groups --all lists what there is and was; the root's host "
                                "knows most"};
}

std::string results_text(const v1::SwitchTask& task) {
    return task.direct()
               ? "to all from here"
               : "by its collector" + (task.no_direct_reason().empty() ? "" : ": " + task.no_direct_reason());
}

std::uint64_t chunks_seen(const v1::SwitchTask& task) {
    std::uint64_t all = 0;
    for (const std::uint64_t highest : task.highest()) {
        all += highest;
    }
    return all;
}

Json pool_json(const v1::SwitchStatus& status) {
    return {{"slots", status.value_slots()}, {"bytes", status.value_used_bytes()}};
}

}  // namespace

std::string groups_text(const v1::AgentStatus& status, bool all) {
    Table table({{"GROUP"},
                 {"RANK"},
                 {"ROOT"},
                 {"STATE"},
                 {"SWITCH"},
                 {"OPERATIONS", Align::kRight},
                 {"CHUNKS", Align::kRight},
                 {"SENT AGAIN", Align::kRight},
                 {"LOST", Align::kRight},
                 {"AGE", Align::kRight}});
    const auto add = [&table](const v1::AgentGroup& group) {
        table.add({group.id(), rank_text(group), group.root(), state_text(group), switch_text(group),
                   grouped(group.operations()), grouped(counter_of(group, "member_results")),
                   grouped(counter_of(group, "member_resends")), grouped(counter_of(group, "member_losses")),
                   duration_text(group.age_seconds())});
    };
    std::ranges::for_each(status.groups(), add);
    if (all) {
        std::ranges::for_each(status.ended_groups(), add);
    }
    std::string text = table.empty() ? "no groups\n" : table.text();
    if (!all && status.ended_groups_size() > 0) {
        text += std::to_string(status.ended_groups_size()) + " ended lately: askctl groups --all\n";
    }
    return text + "arenas: " + bytes_text(status.arena_bytes()) + " of " +
           bytes_text(status.arena_limit_bytes()) + " in use, one user may have " +
           bytes_text(status.arena_user_limit_bytes()) + "\n";
}

std::string groups_text(const v1::SwitchStatus& status, bool /*all*/) {
    Table table({{"GROUP"},
                 {"MEMBERS", Align::kRight},
                 {"REGISTERED", Align::kRight},
                 {"SLOTS", Align::kRight},
                 {"WINDOW", Align::kRight},
                 {"CHUNKS", Align::kRight},
                 {"LEASE", Align::kRight},
                 {"COLLECTOR"},
                 {"RESULTS"}});
    std::size_t count = 0;
    for (const v1::SwitchTask& task : status.tasks()) {
        if (task.members() > 0) {
            ++count;
            table.add({task.id(), std::to_string(task.members()), std::to_string(task.flows()),
                       task.value_slots() == 0 ? "none" : grouped(task.value_slots()),
                       std::to_string(task.window()), grouped(chunks_seen(task)),
                       duration_text(task.lease_left_seconds()), task.receiver(), results_text(task)});
        }
    }
    return (table.empty() ? "no groups\n" : table.text()) + "pool: " + grouped(status.value_slots()) +
           " slots (" + bytes_text(status.value_used_bytes()) + " of the SRAM), shared by " +
           std::to_string(count) + " group(s)\n";
}

Json groups_json(const v1::AgentStatus& status, bool all) {
    Json list = Json::array();
    for (const v1::AgentGroup& group : status.groups()) {
        list.push_back(to_json(group));
    }
    if (all) {
        for (const v1::AgentGroup& group : status.ended_groups()) {
            list.push_back(to_json(group));
        }
    }
    return {{"groups", std::move(list)},
            {"arenas",
             {{"bytes", status.arena_bytes()},
              {"limit_bytes", status.arena_limit_bytes()},
              {"user_limit_bytes", status.arena_user_limit_bytes()}}}};
}

Json groups_json(const v1::SwitchStatus& status, bool /*all*/) {
    Json list = Json::array();
    for (const v1::SwitchTask& task : status.tasks()) {
        if (task.members() > 0) {
            list.push_back(to_json(task));
        }
    }
    return {{"groups", std::move(list)}, {"pool", pool_json(status)}};
}

Result<std::string> group_text(const v1::AgentStatus& status, const std::string& id) {
    const v1::AgentGroup* const group = find_group(status, id);
    if (group == nullptr) {
        return unknown(id);
    }
    return facts_of(*group) + members_table(*group) + streams_table(*group) + counters_table(*group);
}

Result<std::string> group_text(const v1::SwitchStatus& status, const std::string& id) {
    if (find_group(status, id) == nullptr) {
        return unknown(id);
    }
    v1::SwitchStatus one = status;
    one.clear_tasks();
    *one.add_tasks() = *find_group(status, id);
    return groups_text(one, false);
}

Result<Json> group_json(const v1::AgentStatus& status, const std::string& id) {
    const v1::AgentGroup* const group = find_group(status, id);
    return group == nullptr ? Result<Json>(unknown(id)) : Result<Json>(to_json(*group));
}

Result<Json> group_json(const v1::SwitchStatus& status, const std::string& id) {
    const v1::SwitchTask* const task = find_group(status, id);
    return task == nullptr ? Result<Json>(unknown(id)) : Result<Json>(to_json(*task));
}

Result<std::string> explain_group(const std::string& id, const TaskSources& sources) {
    const v1::AgentGroup* const here = sources.agent ? find_group(*sources.agent, id) : nullptr;
    const v1::SwitchTask* const on_switch = sources.on_switch ? find_group(*sources.on_switch, id) : nullptr;
    if (here == nullptr && on_switch == nullptr) {
        return unknown(id);
    }
    std::string text;
    if (here != nullptr) {
        text = facts_of(*here);
        const auto findings = findings_of(*here, sources);
        text += findings.empty() ? "Nothing is in its way.\n" : "";
        for (const Finding& finding : findings) {
            text += "* " + finding.what + (finding.advice.empty() ? "" : ": " + finding.advice) + ".\n";
        }
    }
    if (on_switch != nullptr) {
        text += "On the switch: " + std::to_string(on_switch->flows()) + " of " +
                std::to_string(on_switch->members()) + " members registered, " +
                grouped(on_switch->value_slots()) + " slots, window " + std::to_string(on_switch->window()) +
                ", " + grouped(chunks_seen(*on_switch)) + " chunks seen, results " +
                results_text(*on_switch) + ".\n";
    }
    if (!sources.switch_trouble.empty()) {
        text += "The switch could not be asked: " + sources.switch_trouble + ".\n";
    }
    return text;
}

Result<Json> explain_group_json(const std::string& id, const TaskSources& sources) {
    const v1::AgentGroup* const here = sources.agent ? find_group(*sources.agent, id) : nullptr;
    const v1::SwitchTask* const on_switch = sources.on_switch ? find_group(*sources.on_switch, id) : nullptr;
    if (here == nullptr && on_switch == nullptr) {
        return unknown(id);
    }
    Json json = {
        {"id", id}, {"here", nullptr}, {"switch", nullptr}, {"switch_trouble", sources.switch_trouble}};
    if (here != nullptr) {
        json["here"] = to_json(*here);
        json["here"]["findings"] = Json::array();
        for (const Finding& finding : findings_of(*here, sources)) {
            json["here"]["findings"].push_back({{"what", finding.what}, {"advice", finding.advice}});
        }
    }
    if (on_switch != nullptr) {
        json["switch"] = to_json(*on_switch);
        json["switch"]["pool"] = pool_json(*sources.on_switch);
    }
    return json;
}

}  // namespace ask::cli
