// SPDX-License-Identifier: Apache-2.0
//
// What an operator sees of the agent: askctl's status, and the same figures as Prometheus text.
#pragma once

#include <memory>
#include <string>

#include "agent/agent.h"
#include "lib/rpc/caller.h"
#include "proto/agent.pb.h"

namespace ask {

v1::AgentStatus agent_status(Agent& agent);

// Takes out what is not for the caller to see: a local user's tasks and groups are his and root's, and those
// of a host not for other hosts, unless they operate it.
void keep_to(const Caller& caller, v1::AgentStatus& status);

// Serves the counters as Prometheus text on config.metrics for as long as it lives.
class MetricsServer {
 public:
    static Result<std::unique_ptr<MetricsServer>> start(Agent& agent);
    virtual ~MetricsServer() = default;
};

}  // namespace ask
