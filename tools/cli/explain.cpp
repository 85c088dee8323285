// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/explain.h"

#include <algorithm>
#include <set>
#include <vector>

#include "lib/abi/var.h"
#include "lib/client/convert.h"
#include "lib/rpc/flow_stats.h"
#include "tools/cli/causes.h"
#include "tools/cli/link_report.h"
#include "tools/cli/names.h"
#include "tools/cli/rate_flag.h"
#include "tools/cli/streams.h"
#include "tools/cli/table.h"

namespace ask::cli {
namespace {

std::string joined(const google::protobuf::RepeatedPtrField<std::string>& names) {
    std::string text;
    for (const std::string& name : names) {
        text += (text.empty() ? "" : ", ") + name;
    }
    return text;
}

std::string names_in_brackets(const google::protobuf::RepeatedPtrField<std::string>& names) {
    return names.empty() ? "" : " (" + joined(names) + ")";
}

// Those who joined but have not finished.
std::string unfinished(const v1::AgentTask& task) {
    const std::set<std::string> finished(task.senders_finished().begin(), task.senders_finished().end());
    google::protobuf::RepeatedPtrField<std::string> names;
    for (const std::string& name : task.senders_joined()) {
        if (!finished.contains(name)) {
            names.Add(std::string(name));
        }
    }
    return joined(names);
}

std::string waits_for(const v1::AgentTask& task) {
    if (task.state() == "committed" || task.state() == "failed") {
        const std::string ago =
            task.ended_seconds_ago() > 0 ? ", " + duration_text(task.ended_seconds_ago()) + " ago" : "";
        return "nothing: it " + std::string(task.state() == "failed" ? "has " : "is ") + task.state() + ago;
    }
    if (task.state().starts_with("kept until ")) {
        return "somebody to take its result: ask-recv --task " + task.id() + " --again on that host";
    }
    if (task.state().starts_with("computed")) {
        return task.role() == "sender" ? "the receiver " + task.peer() + " to take the result"
                                       : "its application to take the result";
    }
    if (task.role() == "sender") {
        return "its own input, then the receiver " + task.peer() + " to commit";
    }
    std::string text;
    const auto joined_count = static_cast<std::uint32_t>(task.senders_joined_size());
    if (joined_count < task.senders_expected()) {
        text = std::to_string(task.senders_expected() - joined_count) + " more sender(s) to join";
    }
    if (const std::string names = unfinished(task); !names.empty()) {
        text += (text.empty() ? "" : ", and ") + names + " to finish";
    }
    return text.empty() ? "the last aggregators from the switch" : text;
}

std::string switch_line(const v1::SwitchOfTask& at) {
    const std::string whom = at.senders().empty() ? "no sender yet" : joined(at.senders());
    if (at.aggregators() == 0) {
        return "Switch " + at.address() + " aggregates nothing for " + whom +
               (at.note().empty() ? "" : ": " + at.note()) + ".\n";
    }
    return "Switch " + at.address() + " aggregates for " + whom + ": " + grouped(at.aggregators()) +
           " aggregators per array" +
           (at.back_bytes() == 0 ? "" : ", a back level of " + bytes_text(at.back_bytes())) + ", " +
           grouped(at.tuples()) + " tuples.\n";
}

// Of a task on its senders' own ones.
std::string own_switches_part(const v1::AgentTask& task) {
    std::string text = "Each sender's own switch is to aggregate for it: it is open on " +
                       std::to_string(task.switches_size()) +
                       (task.note().empty() ? "" : ", " + task.note()) + ".\n";
    for (const v1::SwitchOfTask& at : task.switches()) {
        text += switch_line(at);
    }
    for (const v1::SenderWithout& without : task.without()) {
        text += "No switch aggregates for " + without.sender() + ": " + without.reason() + ".\n";
    }
    return text;
}

// Of a task with a placement.
std::string relays_part(const v1::AgentTask& task) {
    std::string text = "It has " + std::to_string(task.relays_size()) +
                       (task.relays_size() == 1 ? " relay" : " relays") +
                       ", whose switches aggregate for it.\n";
    for (const v1::RelayOfTask& relay : task.relays()) {
        text += "Relay " + relay.name() + " (" + relay.address() + ") sends one flow to " +
                (relay.parent().empty() ? "the receiver" : "relay " + relay.parent()) + ": " +
                std::to_string(relay.senders()) + " come to it" +
                (relay.hosts().empty() ? "" : ", from " + joined(relay.hosts())) + ".\n";
    }
    return text;
}

std::string agent_part(const v1::AgentTask& task) {
    std::string text = "Here it is a " + task.role() + ", operator " + op_text(task.op()) + ", " +
                       task.state() + ", open for " + duration_text(task.age_seconds()) + ", instance " +
                       instance_text(task.instance()) + ".\n";
    if (task.role() != "sender") {
        text += "Senders: " + std::to_string(task.senders_joined_size()) + " of " +
                std::to_string(task.senders_expected()) + " joined" +
                names_in_brackets(task.senders_joined()) + ", " +
                std::to_string(task.senders_finished_size()) + " finished" +
                names_in_brackets(task.senders_finished()) + ".\n";
    }
    text += "It waits for " + waits_for(task) + ".\n";
    if (task.max_rate() != 0) {
        text +=
            "It takes no more than " + rate_text(task.max_rate()) + " of the link, as its --max-rate says.\n";
    }
    if (!task.error().empty()) {
        text += "What went wrong: " + task.error() + ".\n";
    }
    if (!task.geometry_reason().empty()) {
        text += "Its geometry, " + geometry_text(task.geometry()) + ", was " + task.geometry_reason() + ".\n";
    }
    if (!task.relays().empty()) {
        text += relays_part(task);
    } else if (task.own_switches()) {
        text += own_switches_part(task);
    } else if (task.aggregators() == 0) {
        text += "No switch aggregates for it" + (task.note().empty() ? "" : ": " + task.note()) + ".\n";
    }
    if (task.back_bytes() != 0 && !task.own_switches()) {
        text +=
            "Tuples that find no aggregator go to a back level of " + bytes_text(task.back_bytes()) + ".\n";
    } else if (!task.no_back_reason().empty()) {
        text += "It has no back level: " + task.no_back_reason() + ".\n";
    }
    if (task.whole_keys()) {
        text += "Keys of up to " + std::to_string(ASK_VAR_MAX_KEY) +
                " bytes and values of up to 63 bits that fit no slot go to the back level, too, in packets "
                "of their "
                "own (VAR).\n";
    }
    return text;
}

std::string switch_part(const v1::SwitchTask& task) {
    std::string text = "On the switch: packets of " + geometry_text(task.geometry()) + " slots, " +
                       std::to_string(task.flows()) + " flow(s), lease " +
                       duration_text(task.lease_left_seconds()) + ", ";
    if (task.aggregators() == 0) {
        return text + "no region, so it aggregates nothing.\n";
    }
    return text + "a region of " + grouped(task.aggregators()) + " aggregators per array (" +
           bytes_text(task.region_bytes()) + "), policy " + policy_text(task.policy()) + ", epoch " +
           std::to_string(task.epoch()) + ", phase " + task.phase() +
           (task.back_bytes() == 0 ? "" : ", a back level of " + bytes_text(task.back_bytes())) + ".\n";
}

struct Line {
    std::string what;
    std::uint64_t tuples;
    std::uint64_t of;
    std::string why;
};

// While the task runs, the receiver's and the switch's parts may be ahead of the sender's: shares are of what
// has been accounted for.
std::vector<Line> lines_of(const client::TaskStats& stats, const TaskSetup& setup) {
    const client::ReceiverTuples& receiver = stats.tuples_receiver;
    const std::uint64_t settled = stats.tuples_switch + receiver.total();
    const std::uint64_t sent = std::max(stats.tuples_sent, settled);
    std::vector<Line> lines{
        {"handed in by senders", stats.tuples_in, 0, ""},
        {"merged by senders", stats.tuples_merged, stats.tuples_in, "equal keys met before they were packed"},
        {"sent", stats.tuples_sent, stats.tuples_in, ""},
        {"aggregated on the switch", stats.tuples_switch, sent, ""},
        {"  evicted again", stats.tuples_evicted, sent,
         "a hotter key took the aggregator; what it held went on to the receiver"},
        {"left to the receiver", receiver.total(), sent, ""},
    };
    for (const Cause& cause : causes_of(stats, setup)) {
        lines.push_back({"  " + cause.name, cause.tuples, sent,
                         cause.why + (cause.advice.empty() ? "" : ": " + cause.advice)});
    }
    return lines;
}

std::uint32_t longest_key(const v1::Geometry& geometry) {
    const std::uint32_t words = geometry.groups() > 0 ? geometry.m() : geometry.short_slots() > 0 ? 1 : 0;
    return words * ASK_KPART_BYTES;
}

TaskSetup setup_of(const v1::AgentTask& task) {
    // Each switch has as many.
    std::uint32_t most = task.own_switches() ? 0 : task.aggregators();
    for (const v1::SwitchOfTask& at : task.switches()) {
        most = std::max(most, at.aggregators());
    }
    return {.longest_key = longest_key(task.geometry()),
            .aggregators = most,
            .note = task.note(),
            .whole_keys = task.whole_keys(),
            .own_switches = task.own_switches(),
            .planned = !task.geometry_reason().empty()};
}

TaskSetup setup_of(const v1::SwitchTask& task) {
    return {.longest_key = longest_key(task.geometry()),
            .aggregators = task.aggregators(),
            .note = "",
            .whole_keys = task.back_bytes() > 0};
}

std::string tuples_part(const v1::FlowStats& stats, const TaskSetup& setup) {
    Table table({{"Tuples"}, {"", Align::kRight}, {"", Align::kRight}, {""}});
    for (const Line& line : lines_of(client::stats_from_proto(stats), setup)) {
        table.add({line.what, grouped(line.tuples), line.of == 0 ? "" : percent(line.tuples, line.of),
                   line.tuples == 0 ? "" : line.why});
    }
    return table.text();
}

template <typename Tasks>
const auto* find_task(const Tasks& tasks, const std::string& id) {
    const auto found =
        std::find_if(tasks.begin(), tasks.end(), [&id](const auto& task) { return task.id() == id; });
    return found == tasks.end() ? nullptr : &*found;
}

// The switch knows its part of a running task before the agent does.
v1::FlowStats with_switch_part(v1::FlowStats stats, const v1::SwitchTask* on_switch) {
    if (on_switch == nullptr || stats.tuples_switch() != 0) {
        return stats;
    }
    copy_switch_part(stats, on_switch->stats());
    return stats;
}

// Of this host's agent, those under way first. A host may send to a task that it receives; one whose end not
// everybody knows yet is in both lists.
std::vector<const v1::AgentTask*> tasks_here(const std::string& id, const v1::AgentStatus& status) {
    std::vector<const v1::AgentTask*> found;
    const auto add = [&](const v1::AgentTask& task) {
        const bool known = std::ranges::any_of(found, [&](const v1::AgentTask* other) {
            return other->instance() == task.instance() && other->role() == task.role() &&
                   other->peer() == task.peer() && task.role() == "receiver";
        });
        if (task.id() == id && !known) {
            found.push_back(&task);
        }
    };
    std::ranges::for_each(status.tasks(), add);
    if (found.empty()) {
        std::ranges::for_each(status.ended(), add);
    }
    return found;
}

struct Found {
    const v1::SwitchTask* on_switch = nullptr;
    std::vector<const v1::AgentTask*> here;
};

Result<Found> find(const std::string& id, const TaskSources& sources) {
    Found found{.on_switch = sources.on_switch ? find_task(sources.on_switch->tasks(), id) : nullptr,
                .here = sources.agent ? tasks_here(id, *sources.agent) : std::vector<const v1::AgentTask*>()};
    if (found.on_switch == nullptr && found.here.empty()) {
        return Error(Errc::kUnknown, "no task " + id +
                                         " here: askctl tasks --all lists what there is and was; the "
                                         "receiver's host and the switch know most");
    }
    return found;
}

std::vector<v1::AgentStream> streams_here(const std::string& name, const TaskSources& sources) {
    return sources.agent ? streams_named(name, *sources.agent) : std::vector<v1::AgentStream>();
}

// Of several switches one is not the switch.
v1::FlowStats stats_of(const v1::AgentTask& task, const v1::SwitchTask* on_switch) {
    return task.role() == "sender" || task.own_switches() ? task.stats()
                                                          : with_switch_part(task.stats(), on_switch);
}

Json tuples_json(const v1::FlowStats& stats, const TaskSetup& setup) {
    Json list = Json::array();
    for (const Line& line : lines_of(client::stats_from_proto(stats), setup)) {
        const auto name = line.what.find_first_not_of(' ');
        list.push_back({{"what", line.what.substr(name)}, {"tuples", line.tuples}, {"why", line.why}});
    }
    return list;
}

}  // namespace

const v1::AgentTask* placed_task(const std::string& id, const v1::AgentStatus& status) {
    const auto tasks = tasks_here(id, status);
    const auto at = std::ranges::find_if(
        tasks, [](const v1::AgentTask* task) { return !task->placement().links().empty(); });
    return at == tasks.end() ? nullptr : *at;
}

Result<std::string> explain_task(const std::string& id, const TaskSources& sources) {
    std::string text;
    for (const v1::AgentStream& stream : streams_here(id, sources)) {
        text += explain_stream(stream);
    }
    const auto found = find(id, sources);
    if (!found && !text.empty()) {
        return text;
    }
    ASK_PASS(found);
    text += "Task " + id + "\n";
    for (const v1::AgentTask* const task : found->here) {
        text += agent_part(*task);
        text +=
            task == found->here.front() && found->on_switch != nullptr ? switch_part(*found->on_switch) : "";
        text += tuples_part(stats_of(*task, found->on_switch), setup_of(*task));
        text += links_text(*task, sources.relays);
    }
    if (found->here.empty()) {
        text += switch_part(*found->on_switch) +
                tuples_part(found->on_switch->stats(), setup_of(*found->on_switch));
    }
    if (!sources.switch_trouble.empty()) {
        text += "The switch could not be asked: " + sources.switch_trouble + ".\n";
    }
    return text;
}

Result<Json> explain_task_json(const std::string& id, const TaskSources& sources) {
    Json json = {{"id", id},
                 {"streams", streams_json(streams_here(id, sources))},
                 {"here", Json::array()},
                 {"switch", nullptr},
                 {"switch_trouble", sources.switch_trouble}};
    const auto found = find(id, sources);
    if (!found && !json["streams"].empty()) {
        return json;
    }
    ASK_PASS(found);
    for (const v1::AgentTask* const task : found->here) {
        Json entry = to_json(*task);
        entry["waits_for"] = waits_for(*task);
        entry["tuples"] = tuples_json(stats_of(*task, found->on_switch), setup_of(*task));
        entry["crossed"] = links_json(*task, sources.relays);
        json["here"].push_back(std::move(entry));
    }
    if (found->on_switch != nullptr) {
        json["switch"] = to_json(*found->on_switch);
        json["switch"]["tuples"] = tuples_json(found->on_switch->stats(), setup_of(*found->on_switch));
    }
    return json;
}

}  // namespace ask::cli
