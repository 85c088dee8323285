// SPDX-License-Identifier: Apache-2.0
#include "lib/client/task.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

namespace ask::client {
namespace {

constexpr std::string_view kDefaultAgent = "/run/ask/agent.sock";

template <typename Value>
using Named = std::pair<Value, std::string_view>;

constexpr auto kOps = std::to_array<Named<TaskOp>>({
#define ASK_OPERATOR(NAME, Name, number, text) {TaskOp::k##Name, text},
#define ASK_OPERATOR_AS(NAME, Name, AS, As, text) {TaskOp::k##Name, text},
#include "lib/abi/operators.def"
});

constexpr auto kPolicies = std::to_array<Named<TaskPolicy>>({
    {TaskPolicy::kAuto, "auto"},
#define ASK_POLICY(NAME, Name, number, text, meaning) {TaskPolicy::k##Name, text},
#include "lib/abi/policies.def"
});

template <typename Table>
std::vector<std::string> names_of(const Table& table) {
    std::vector<std::string> names;
    names.reserve(table.size());
    for (const auto& [value, name] : table) {
        names.emplace_back(name);
    }
    return names;
}

template <typename Table>
auto find_name(const Table& table, std::string_view name) {
    const auto found = std::ranges::find(table, name, [](const auto& entry) { return entry.second; });
    return found == table.end() ? std::nullopt : std::optional(found->first);
}

}  // namespace

const std::vector<std::string>& task_op_names() {
    static const std::vector<std::string> kNames = names_of(kOps);
    return kNames;
}

std::string_view to_string(TaskOp op) {
    const auto* const found = std::ranges::find(kOps, op, &Named<TaskOp>::first);
    return found == kOps.end() ? "unknown" : found->second;
}

std::optional<TaskOp> parse_task_op(std::string_view text) {
    return find_name(kOps, text);
}

const std::vector<std::string>& task_policy_names() {
    static const std::vector<std::string> kNames = names_of(kPolicies);
    return kNames;
}

std::optional<TaskPolicy> parse_task_policy(std::string_view text) {
    return find_name(kPolicies, text);
}

std::string agent_socket_path(std::string_view chosen) {
    if (chosen.empty()) {
        // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here changes the environment
        const char* const from_environment = std::getenv("ASK_AGENT");
        chosen = from_environment == nullptr ? std::string_view() : from_environment;
    }
    if (chosen.starts_with("unix:")) {
        chosen.remove_prefix(5);
    }
    return std::string(chosen.empty() ? kDefaultAgent : chosen);
}

}  // namespace ask::client
