// SPDX-License-Identifier: Apache-2.0
//
// The relay's figures as Prometheus metrics.
#pragma once

#include <memory>

#include "lib/base/result.h"
#include "lib/daemon/security_config.h"
#include "relay/relays.h"

namespace ask {

// Serves http://ADDRESS/metrics as long as it lives.
class RelayMetricsServer {
 public:
    RelayMetricsServer() = default;
    virtual ~RelayMetricsServer() = default;
    RelayMetricsServer(const RelayMetricsServer&) = delete;
    RelayMetricsServer& operator=(const RelayMetricsServer&) = delete;
    // `relays` must outlive it. kUnavailable: the address cannot be listened on.
    static Result<std::unique_ptr<RelayMetricsServer>> start(const SecurityConfig& config, const Relays& relays);
};

}  // namespace ask
