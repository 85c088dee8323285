// SPDX-License-Identifier: Apache-2.0
//
// What askctl prints about agents and switches. Text only: no I/O.
#pragma once

#include <algorithm>
#include <string>

#include "proto/agent.pb.h"
#include "proto/switch.pb.h"
#include "tools/cli/to_json.h"

namespace ask::cli {

[[nodiscard]] std::string status_text(const v1::AgentStatus& status);
[[nodiscard]] std::string status_text(const v1::SwitchStatus& status);
// `all`: those that have ended, too.
[[nodiscard]] std::string tasks_text(const v1::AgentStatus& status, bool all);
[[nodiscard]] std::string tasks_text(const v1::SwitchStatus& status, bool all);
[[nodiscard]] std::string counters_text(const google::protobuf::RepeatedPtrField<v1::Counter>& counters);

// Everything but tasks and counters, which have commands of their own.
template <typename Status>
[[nodiscard]] Json status_json(const Status& status) {
    Json json = to_json(status);
    json.erase("tasks");
    json.erase("ended");
    json.erase("groups");
    json.erase("ended_groups");
    json.erase("counters");
    return json;
}
// A task whose end not all of its senders know yet is in both lists; of sends to one task each is another.
inline void remove_ended(Json& tasks, const Json& ended) {
    const auto over = [&ended](const Json& task) {
        return task["role"] == "receiver" && std::ranges::any_of(ended, [&task](const Json& other) {
                   return other["role"] == "receiver" && other["instance"] == task["instance"];
               });
    };
    tasks.erase(std::remove_if(tasks.begin(), tasks.end(), over), tasks.end());
}
template <typename Status>
[[nodiscard]] Json tasks_json(const Status& status, bool all) {
    Json json = to_json(status);
    if (all && json.contains("ended")) {
        remove_ended(json["tasks"], json["ended"]);
        for (Json& task : json["ended"]) {
            json["tasks"].push_back(std::move(task));
        }
    }
    return std::move(json["tasks"]);
}
template <typename Status>
[[nodiscard]] Json counters_json(const Status& status) {
    return to_json(status)["counters"];
}

}  // namespace ask::cli
