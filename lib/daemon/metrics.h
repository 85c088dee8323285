// SPDX-License-Identifier: Apache-2.0
//
// Families of Prometheus metrics, as both daemons make them at each scrape, and what both tell of themselves.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <prometheus/metric_family.h>

#include "lib/base/result.h"

namespace prometheus {
class Collectable;
class Exposer;
}  // namespace prometheus

namespace ask {

using MetricFamilies = std::vector<prometheus::MetricFamily>;
using MetricLabels = std::initializer_list<std::pair<const char*, std::string>>;

[[nodiscard]] prometheus::MetricFamily gauge_family(std::string name, std::string help);
[[nodiscard]] prometheus::MetricFamily counter_family(std::string name, std::string help);
[[nodiscard]] prometheus::MetricFamily histogram_family(std::string name, std::string help);
void add_gauge(prometheus::MetricFamily& family, MetricLabels labels, double value);
void add_counter(prometheus::MetricFamily& family, MetricLabels labels, std::uint64_t value);
// `bounds` are of all counts but the last one's, which has what is above them; each count is its bucket's
// own.
void add_histogram(prometheus::MetricFamily& family, MetricLabels labels, std::span<const double> bounds,
                   std::span<const std::uint64_t> counts, double sum);
// Of one metric without labels.
[[nodiscard]] prometheus::MetricFamily gauge(std::string name, std::string help, double value);
[[nodiscard]] prometheus::MetricFamily counter(std::string name, std::string help, std::uint64_t value);

// NAME_build_info and process_...: what every daemon says of itself.
void add_process_metrics(const std::string& prefix, MetricFamilies& families);

// PREFIX_port_..._total, of interfaces as the kernel counts them; those that are gone are left out.
void add_port_metrics(const std::string& prefix, std::span<const std::string> interfaces,
                      MetricFamilies& families);

// Serves http://ADDRESS/metrics for as long as it lives.
class MetricsServer {
 public:
    // kUnavailable, or as listen.h's: the address cannot be listened on.
    static Result<std::unique_ptr<MetricsServer>> start(const std::string& address,
                                                        std::shared_ptr<prometheus::Collectable> metrics);
    MetricsServer(std::shared_ptr<prometheus::Collectable> metrics,
                  std::unique_ptr<prometheus::Exposer> exposer);
    ~MetricsServer();
    MetricsServer(const MetricsServer&) = delete;
    MetricsServer& operator=(const MetricsServer&) = delete;

 private:
    const std::shared_ptr<prometheus::Collectable> metrics_;  // the exposer does not keep it
    const std::unique_ptr<prometheus::Exposer> exposer_;
};

}  // namespace ask
