// SPDX-License-Identifier: Apache-2.0
//
// The switch's figures as Prometheus metrics, read from the maps at each scrape.
#pragma once

#include <memory>

#include "lib/base/result.h"
#include "lib/control/switch/controller.h"
#include "lib/daemon/metrics.h"
#include "lib/daemon/security_config.h"
#include "loader/ports.h"
#include "loader/service.h"

namespace ask {

// Serves http://ADDRESS/metrics for as long as it lives; all but `config` must outlive it.
[[nodiscard]] Result<std::unique_ptr<MetricsServer>> expose_metrics(const SecurityConfig& config,
                                                                    const Controller& controller,
                                                                    const SwitchService& service,
                                                                    const PortTable& ports);

}  // namespace ask
