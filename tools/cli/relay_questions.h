// SPDX-License-Identifier: Apache-2.0
//
// Several relays are asked at once: one that is silent costs its time once, however many are.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "proto/agent.pb.h"
#include "proto/controller.pb.h"
#include "tools/cli/relay_report.h"

namespace ask::cli {

struct RelayToAsk {
    std::string name;  // of the switch that it is beside
    std::string address;
};

// Those that the controller knows; those that have a part of the task.
[[nodiscard]] std::vector<RelayToAsk> relays_of(const v1::ControllerStatus& status);
[[nodiscard]] std::vector<RelayToAsk> relays_of(const v1::AgentTask& task);

// Answers in their order. `ask` is called from several threads.
using AskRelay = std::function<Result<v1::RelayStatus>(const std::string& address)>;
[[nodiscard]] std::vector<RelayAnswer> ask_relays(std::vector<RelayToAsk> relays, const AskRelay& ask);

}  // namespace ask::cli
