// SPDX-License-Identifier: Apache-2.0
//
// What crossed the links of a task's plan, planned and counted: a flow's way between two places where it ends
// is known from the plan, so each place's word on who has come to it counts on every link between. Text only:
// no I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "proto/agent.pb.h"
#include "tools/cli/relay_report.h"
#include "tools/cli/to_json.h"

namespace ask::cli {

// Of flows that have ended: bytes of frames as their senders sent them, each once, whatever a switch has
// kept.
struct Crossed {
    std::uint64_t flows = 0;
    std::uint64_t frame_bytes = 0;
    std::uint64_t retransmissions = 0;  // packets, besides
};

struct LinkCount {
    std::string from;
    std::string to;
    std::uint64_t planned = 0;       // flows
    double predicted = 0;            // bytes; 0: the plan says nothing of them
    std::optional<Crossed> counted;  // nothing: somebody who knows of it could not say
};

struct LinkCounts {
    std::vector<LinkCount> links;      // leaves first
    std::vector<std::string> unknown;  // why something could not be counted
};

// `task` is the receiver's, `relays` what those of its plan have said; those of others do no harm.
[[nodiscard]] LinkCounts count_links(const v1::AgentTask& task, std::span<const RelayAnswer> relays);
// Empty: the task has no plan, or its plan says nothing of links.
[[nodiscard]] std::string links_text(const v1::AgentTask& task, std::span<const RelayAnswer> relays);
[[nodiscard]] Json links_json(const v1::AgentTask& task, std::span<const RelayAnswer> relays);

}  // namespace ask::cli
