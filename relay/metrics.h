// SPDX-License-Identifier: Apache-2.0
//
// The relay's figures as Prometheus metrics.
#pragma once

#include <memory>

#include "lib/base/result.h"
#include "lib/control/relay/relays.h"
#include "lib/daemon/metrics.h"
#include "lib/daemon/security_config.h"

namespace ask {

// Serves http://ADDRESS/metrics for as long as it lives; `relays` must outlive it.
[[nodiscard]] Result<std::unique_ptr<MetricsServer>> expose_metrics(const SecurityConfig& config,
                                                                    const Relays& relays);

}  // namespace ask
