// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/controller_report.h"

#include "tools/cli/table.h"

namespace ask::cli {
namespace {

// Beyond, a count is easier to read, and --json has them all.
constexpr int kMostNamed = 6;

std::string switches_of(const v1::ControllerPlan& plan) {
    std::string text;
    for (int at = 0; at < plan.switches_size() && at < kMostNamed; ++at) {
        text += (at == 0 ? "" : ",") + plan.switches(at);
    }
    if (plan.switches_size() > kMostNamed) {
        text += " +" + std::to_string(plan.switches_size() - kMostNamed);
    }
    return text.empty() ? "none" : text;
}

std::string of_limit(std::uint64_t taken, std::uint64_t limit) {
    return grouped(taken) + (limit == 0 ? "" : " of " + grouped(limit));
}

std::string young_text(const v1::ControllerStatus& status) {
    return status.young_seconds() > 0
               ? "started " + duration_text(status.uptime_seconds()) + " ago: tasks get no switches for " +
                     duration_text(status.young_seconds()) + " more\n"
               : "";
}

}  // namespace

std::string plans_text(const v1::ControllerStatus& status) {
    Table table({{"TASK"},
                 {"RECEIVER"},
                 {"TENANT"},
                 {"SWITCHES"},
                 {"HOSTS", Align::kRight},
                 {"SENDS", Align::kRight},
                 {"AGE", Align::kRight},
                 {"LEASE", Align::kRight},
                 {"NOTE"}});
    for (const v1::ControllerPlan& plan : status.plans()) {
        table.add({plan.task(), plan.receiver(), plan.tenant().empty() ? "-" : plan.tenant(),
                   switches_of(plan), std::to_string(plan.hosts()), grouped(plan.sends()),
                   duration_text(plan.age_seconds()), duration_text(plan.lease_left_seconds()), plan.note()});
    }
    return young_text(status) + (table.empty() ? "no plans\n" : table.text());
}

Json plans_json(const v1::ControllerStatus& status) {
    return std::move(to_json(status)["plans"]);
}

std::string relays_text(const v1::ControllerStatus& status) {
    Table table({{"SWITCH"},
                 {"RELAY"},
                 {"TASKS", Align::kRight},
                 {"MEMORY MiB", Align::kRight},
                 {"REFUSALS", Align::kRight},
                 {"STATE"},
                 {"LAST REFUSAL"}});
    for (const v1::ControllerSwitch& each : status.switches()) {
        table.add({each.name(), each.relay().empty() ? "none" : each.relay(),
                   of_limit(each.taken(), each.capacity()),
                   of_limit(each.memory_taken_mib(), each.memory_mib()), grouped(each.refusals()),
                   each.reason().empty() ? "free" : each.reason(), each.last_refusal()});
    }
    return young_text(status) + (table.empty() ? "no switches: they are shown to operators\n" : table.text());
}

Json relays_json(const v1::ControllerStatus& status) {
    return std::move(to_json(status)["switches"]);
}

}  // namespace ask::cli
