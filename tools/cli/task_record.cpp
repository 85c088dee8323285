// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/task_record.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "tools/cli/names.h"
#include "tools/cli/rate_flag.h"
#include "tools/cli/streams.h"
#include "tools/cli/table.h"

namespace ask::cli {
namespace {

using Names = google::protobuf::RepeatedPtrField<std::string>;

Error no_record(const std::string& id) {
    return {Errc::kUnknown, "no task " + id +
                                " here: askctl tasks --all lists what there is and was; the receiver's host "
                                "and the switch know most"};
}

// "2 (h1, h2)".
std::string counted_names(const Names& names) {
    std::string text = std::to_string(names.size());
    for (int i = 0; i < names.size(); ++i) {
        text += (i == 0 ? " (" : ", ") + names[i];
    }
    return names.empty() ? text : text + ")";
}

bool has_ended(const v1::AgentTask& task, const v1::AgentStatus& status) {
    return task.role() == "receiver" && std::ranges::any_of(status.ended(), [&task](const auto& other) {
               return other.role() == "receiver" && other.instance() == task.instance();
           });
}

// One whose end not all of its senders know yet is in both lists.
std::vector<const v1::AgentTask*> records_of(const std::string& id, const v1::AgentStatus& status) {
    std::vector<const v1::AgentTask*> records;
    for (const v1::AgentTask& task : status.tasks()) {
        if (task.id() == id && !has_ended(task, status)) {
            records.push_back(&task);
        }
    }
    for (const v1::AgentTask& task : status.ended()) {
        if (task.id() == id) {
            records.push_back(&task);
        }
    }
    return records;
}

std::vector<const v1::SwitchTask*> records_of(const std::string& id, const v1::SwitchStatus& status) {
    std::vector<const v1::SwitchTask*> records;
    for (const v1::SwitchTask& task : status.tasks()) {
        if (task.id() == id) {
            records.push_back(&task);
        }
    }
    return records;
}

std::string memory_text(std::uint32_t aggregators, std::uint64_t back_bytes) {
    return grouped(aggregators) + " aggregators per array" +
           (back_bytes == 0 ? ", no back level" : ", a back level of " + bytes_text(back_bytes));
}

std::string or_note(const std::string& text, const std::string& note) {
    return note.empty() ? text : text + ": " + note;
}

// Where it is added up on the way.
void add_switches(Table& table, const v1::AgentTask& task) {
    for (const v1::RelayOfTask& relay : task.relays()) {
        table.add({"relay", relay.name() + " (" + relay.address() + "), " + std::to_string(relay.senders()) +
                                " flows come to it, one goes on to " +
                                (relay.parent().empty() ? "the receiver" : relay.parent())});
    }
    for (const v1::SwitchOfTask& at : task.switches()) {
        table.add({"switch", at.address() + ": " +
                                 (at.aggregators() == 0 ? or_note("no memory", at.note())
                                                        : memory_text(at.aggregators(), at.back_bytes())) +
                                 ", " + grouped(at.tuples()) + " tuples of " + counted_names(at.senders())});
    }
    for (const v1::SenderWithout& without : task.without()) {
        table.add({"no switch", "for " + without.sender() + ": " + without.reason()});
    }
    if (task.relays().empty() && !task.own_switches() && task.role() != "sender") {
        table.add({"switch", task.aggregators() == 0 ? or_note("none", task.note())
                                                     : memory_text(task.aggregators(), task.back_bytes())});
    }
}

void add_state(Table& table, const v1::AgentTask& task) {
    const bool over = task.ended_seconds_ago() > 0;
    table.add({"state", task.state() + (over ? " " + duration_text(task.ended_seconds_ago()) + " ago" : "")});
    table.add({over ? "took" : "open for", duration_text(task.age_seconds())});
    if (!task.error().empty()) {
        table.add({"error", task.error()});
    }
}

std::string facts_text(const v1::AgentTask& task) {
    Table table({{"", Align::kLeft}, {"", Align::kLeft}});
    table.add({"task", task.id() + ", instance " + instance_text(task.instance())});
    table.add({"role", task.role() + (task.peer().empty() ? "" : ", to " + task.peer()) + ", of user " +
                           std::to_string(task.user())});
    table.add({"operator", op_text(task.op())});
    add_state(table, task);
    if (task.role() != "sender") {
        table.add({"senders", std::to_string(task.senders_expected()) + " expected"});
        table.add({"joined", counted_names(task.senders_joined())});
        table.add({"finished", counted_names(task.senders_finished())});
    }
    table.add({"geometry", task.geometry_reason().empty()
                               ? geometry_text(task.geometry())
                               : geometry_text(task.geometry()) + ", " + task.geometry_reason()});
    add_switches(table, task);
    if (!task.no_back_reason().empty()) {
        table.add({"no back level", task.no_back_reason()});
    }
    if (task.whole_keys()) {
        table.add({"long keys", "go to the back level, too"});
    }
    if (task.max_rate() != 0) {
        table.add({"rate", "no more than " + rate_text(task.max_rate())});
    }
    return table.text();
}

std::string facts_text(const v1::SwitchTask& task) {
    Table table({{"", Align::kLeft}, {"", Align::kLeft}});
    table.add({"task", task.id() + ", instance " + instance_text(task.instance())});
    table.add({"operator", op_text(task.op())});
    table.add({"receiver", task.receiver()});
    table.add({"geometry", geometry_text(task.geometry())});
    table.add({"region", task.aggregators() == 0 ? std::string("none")
                                                 : memory_text(task.aggregators(), task.back_bytes()) + ", " +
                                                       std::to_string(task.copies()) + " copies, " +
                                                       bytes_text(task.region_bytes())});
    if (task.aggregators() != 0) {
        table.add({"policy", policy_text(task.policy())});
        table.add({"epoch", std::to_string(task.epoch()) + ", " + task.phase()});
    }
    table.add({"flows", std::to_string(task.flows())});
    table.add({"lease", "for another " + duration_text(task.lease_left_seconds())});
    return table.text();
}

// What has been counted so far; zeros say nothing.
std::string statistics_text(const v1::FlowStats& stats) {
    Table table({{"STATISTIC"}, {"VALUE", Align::kRight}, {"MEANING"}});
    const auto add = [&table](const char* name, std::uint64_t value, const char* text) {
        if (value != 0) {
            table.add({name, grouped(value), text});
        }
    };
#define ASK_SENDER_STAT(name, text) add(#name, stats.name(), text);
#define ASK_SENDER_DETAIL(name, text) add(#name, stats.name(), text);
#define ASK_TAKEN_STAT(name, field, text) add(#field, stats.field(), text);
#define ASK_LEFT_STAT(cause, text) add("tuples_" #cause, stats.tuples_##cause(), text);
#define ASK_BESIDE_STAT(name, text) add(#name, stats.name(), text);
#define ASK_PART_STAT(name, text) add(#name, stats.name(), text);
#define ASK_RECEIVER_STAT(name, text) add(#name, stats.name(), text);
#include "lib/abi/stats.def"
    return table.empty() ? "nothing has been counted yet\n" : table.text();
}

template <typename Status>
Result<std::string> text_of(const std::string& id, const Status& status) {
    std::string text;
    for (const auto* const task : records_of(id, status)) {
        text += (text.empty() ? "" : "\n") + facts_text(*task) + statistics_text(task->stats());
    }
    return text.empty() ? Result<std::string>(no_record(id)) : text;
}

template <typename Status>
Result<Json> records_json(const std::string& id, const Status& status) {
    Json list = Json::array();
    for (const auto* const task : records_of(id, status)) {
        list.push_back(to_json(*task));
    }
    return list.empty() ? Result<Json>(no_record(id)) : list;
}

}  // namespace

Result<std::string> task_record_text(const std::string& id, const v1::AgentStatus& status) {
    std::string text;
    for (const v1::AgentStream& stream : streams_named(id, status)) {
        text += (text.empty() ? "" : "\n") + stream_record_text(stream);
    }
    auto tasks = text_of(id, status);
    if (text.empty() || !tasks) {
        return text.empty() ? std::move(tasks) : text;
    }
    return text + "\n" + *tasks;
}
Result<std::string> task_record_text(const std::string& id, const v1::SwitchStatus& status) {
    return text_of(id, status);
}
Result<Json> task_record_json(const std::string& id, const v1::AgentStatus& status) {
    Json list = streams_json(streams_named(id, status));
    auto tasks = records_json(id, status);
    if (list.empty() || !tasks) {
        return list.empty() ? std::move(tasks) : list;
    }
    for (Json& task : *tasks) {
        list.push_back(std::move(task));
    }
    return list;
}
Result<Json> task_record_json(const std::string& id, const v1::SwitchStatus& status) {
    return records_json(id, status);
}

}  // namespace ask::cli
