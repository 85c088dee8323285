// SPDX-License-Identifier: Apache-2.0
//
// The switch's figures as Prometheus metrics, read from the maps at each scrape.
#pragma once

#include <memory>
#include <string>

#include "lib/base/result.h"
#include "lib/control/switch/controller.h"
#include "lib/daemon/security_config.h"
#include "loader/service.h"

namespace prometheus {
class Exposer;
}

namespace ask {

class SwitchMetrics;

// Serves http://ADDRESS/metrics as long as it lives.
class MetricsServer {
 public:
    // `controller` and `service` must outlive it. kUnavailable: the address cannot be listened on.
    static Result<MetricsServer> start(const SecurityConfig& config, const Controller& controller,
                                       const SwitchService& service);
    MetricsServer(MetricsServer&&) noexcept;
    MetricsServer& operator=(MetricsServer&&) noexcept;
    MetricsServer(const MetricsServer&) = delete;
    MetricsServer& operator=(const MetricsServer&) = delete;
    ~MetricsServer();

 private:
    MetricsServer();

    std::shared_ptr<SwitchMetrics> metrics_;
    std::unique_ptr<prometheus::Exposer> exposer_;
};

}  // namespace ask
