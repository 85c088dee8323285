// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/relay_report.h"

#include <utility>

#include "tools/cli/table.h"

namespace ask::cli {
namespace {

std::string name_of_relay(const RelayAnswer& answer) {
    return answer.name.empty() && answer.status.ok() ? answer.status->name() : answer.name;
}

std::string parts_of(std::uint64_t number, std::uint64_t of) {
    return grouped(number) + " of " + grouped(of);
}

void add_task(Table& table, const std::string& relay, const v1::RelayedTask& task) {
    table.add({relay, task.task_id(), task.receiver(), task.parent(), task.state(),
               parts_of(task.senders_joined(), task.senders()), grouped(task.senders_finished()),
               grouped(task.tuples_in()), grouped(task.parts()),
               bytes_text(task.table_bytes_most()) + " of " + bytes_text(task.reserve_bytes()),
               duration_text(task.age_seconds()), task.error().empty() ? task.waits_for() : task.error()});
}

}  // namespace

std::string relay_tasks_text(std::span<const RelayAnswer> answers) {
    Table table({{"RELAY"},
                 {"TASK"},
                 {"RECEIVER"},
                 {"PARENT"},
                 {"STATE"},
                 {"JOINED", Align::kRight},
                 {"FINISHED", Align::kRight},
                 {"TUPLES IN", Align::kRight},
                 {"PARTS", Align::kRight},
                 {"TABLES AT MOST", Align::kRight},
                 {"AGE", Align::kRight},
                 {"WAITS FOR, OR ERROR"}});
    std::string silent;
    for (const RelayAnswer& answer : answers) {
        if (!answer.status.ok()) {
            silent += answer.status.error().text() + "\n";
            continue;
        }
        for (const v1::RelayedTask& task : answer.status->relays()) {
            add_task(table, name_of_relay(answer), task);
        }
    }
    return (table.empty() ? "no tasks\n" : table.text()) + silent;
}

Json relay_tasks_json(std::span<const RelayAnswer> answers) {
    Json all = Json::array();
    for (const RelayAnswer& answer : answers) {
        Json entry;
        entry["relay"] = name_of_relay(answer);
        entry["address"] = answer.address;
        if (answer.status.ok()) {
            entry["tasks"] = std::move(to_json(*answer.status)["relays"]);
        } else {
            entry["error"] = answer.status.error().text();
        }
        all.push_back(std::move(entry));
    }
    return all;
}

}  // namespace ask::cli
