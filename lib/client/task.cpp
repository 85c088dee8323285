// SPDX-License-Identifier: Apache-2.0
#include "lib/client/task.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

namespace ask::client {
namespace {

constexpr std::string_view kDefaultAgent = "/run/ask/agent.sock";
constexpr std::size_t kMaxTaskId = 63;

constexpr std::array<std::pair<TaskOp, std::string_view>, 4> kOps = {{
    {TaskOp::kSum, "sum"},
    {TaskOp::kCount, "count"},
    {TaskOp::kMin, "min"},
    {TaskOp::kMax, "max"},
}};

bool is_id_char(char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

}  // namespace

std::string_view to_string(TaskOp op) {
    const auto* const found = std::ranges::find(kOps, op, &std::pair<TaskOp, std::string_view>::first);
    return found == kOps.end() ? "unknown" : found->second;
}

std::optional<TaskOp> parse_task_op(std::string_view text) {
    const auto* const found = std::ranges::find(kOps, text, &std::pair<TaskOp, std::string_view>::second);
    return found == kOps.end() ? std::nullopt : std::optional(found->first);
}

Result<> check_task_id(std::string_view id) {
    if (id.empty() || id.size() > kMaxTaskId || !std::ranges::all_of(id, is_id_char)) {
        return Error(Errc::kUsage, "task id '" + std::string(id.substr(0, 80)) + "' must be 1 to " +
                                       std::to_string(kMaxTaskId) + " of A-Z a-z 0-9 _ -");
    }
    return {};
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
