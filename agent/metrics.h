// SPDX-License-Identifier: Apache-2.0
//
// The agent's figures as Prometheus metrics, made at each scrape.
#pragma once

#include <memory>

#include "agent/agent.h"
#include "lib/base/result.h"
#include "lib/daemon/metrics.h"

namespace ask {

// Serves them on config.metrics for as long as it lives. `agent` must outlive it.
[[nodiscard]] Result<std::unique_ptr<MetricsServer>> expose_metrics(Agent& agent);

}  // namespace ask
