// SPDX-License-Identifier: Apache-2.0
//
// What an operator sees of the agent: askctl's status, and the same figures as Prometheus text.
#pragma once

#include <memory>
#include <string>

#include "agent/agent.h"
#include "proto/agent.pb.h"

namespace ask {

v1::AgentStatus agent_status(Agent& agent);

// Serves the counters as Prometheus text on config.metrics for as long as it lives.
class MetricsServer {
 public:
    static Result<std::unique_ptr<MetricsServer>> start(Agent& agent);
    virtual ~MetricsServer() = default;
};

}  // namespace ask
