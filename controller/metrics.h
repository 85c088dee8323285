// SPDX-License-Identifier: Apache-2.0
//
// The controller's figures as Prometheus metrics.
#pragma once

#include <memory>

#include "controller/service.h"
#include "lib/base/result.h"
#include "lib/daemon/security_config.h"

namespace prometheus {
class Exposer;
}

namespace ask {

class ControllerMetrics;

// Serves http://ADDRESS/metrics as long as it lives.
class ControllerMetricsServer {
 public:
    // `service` must outlive it. kUnavailable: the address cannot be listened on.
    static Result<ControllerMetricsServer> start(const SecurityConfig& config, ControllerService& service);
    ControllerMetricsServer(ControllerMetricsServer&&) noexcept;
    ControllerMetricsServer& operator=(ControllerMetricsServer&&) noexcept;
    ControllerMetricsServer(const ControllerMetricsServer&) = delete;
    ControllerMetricsServer& operator=(const ControllerMetricsServer&) = delete;
    ~ControllerMetricsServer();

 private:
    ControllerMetricsServer();

    std::shared_ptr<ControllerMetrics> metrics_;
    std::unique_ptr<prometheus::Exposer> exposer_;
};

}  // namespace ask
