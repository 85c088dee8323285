// SPDX-License-Identifier: Apache-2.0
//
// The controller's figures as Prometheus metrics.
#pragma once

#include <memory>

#include "controller/service.h"
#include "lib/base/result.h"
#include "lib/daemon/metrics.h"
#include "lib/daemon/security_config.h"

namespace ask {

// Serves http://ADDRESS/metrics for as long as it lives; `service` must outlive it.
[[nodiscard]] Result<std::unique_ptr<MetricsServer>> expose_metrics(const SecurityConfig& config,
                                                                    ControllerService& service);

}  // namespace ask
