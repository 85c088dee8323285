// SPDX-License-Identifier: Apache-2.0
//
// What an operator sees of the agent: askctl's status.
#pragma once

#include <vector>

#include "agent/agent.h"
#include "lib/rpc/caller.h"
#include "proto/agent.pb.h"

namespace ask {

v1::AgentStatus agent_status(Agent& agent);

// Takes out what is not for the caller to see: a local user's tasks and groups are his and root's, and those
// of a host not for other hosts, unless they operate it. Then says what of it would be lost.
void keep_to(const Caller& caller, v1::AgentStatus& status);

// Every counter of the agent, workers' by what they have told.
void add_counters(Agent& agent, const WorkerTotals& sum, v1::AgentStatus& status);

// As they are now, with what their workers and, of those that are coordinated here, the registry know.
[[nodiscard]] std::vector<v1::AgentGroup> groups_now(Agent& agent);

// That are received here, and that applications of this host are members of.
[[nodiscard]] std::vector<v1::AgentStream> streams_now(Agent& agent);

}  // namespace ask
