// SPDX-License-Identifier: Apache-2.0
#include "relay/metrics.h"

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>

#include "lib/daemon/listen.h"

namespace ask {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr std::size_t kHttpThreads = 2;

MetricFamily relay_gauge(const char* name, const char* help, std::uint64_t value) {
    MetricFamily family{name, help, MetricType::Gauge, {}};
    ClientMetric metric;
    metric.gauge.value = static_cast<double>(value);
    family.metric.push_back(std::move(metric));
    return family;
}

MetricFamily relay_counter(const char* name, const char* help,
                           std::vector<std::pair<const char*, std::uint64_t>> values) {
    MetricFamily family{name, help, MetricType::Counter, {}};
    for (const auto& [outcome, value] : values) {
        ClientMetric metric;
        if (*outcome != '\0') {
            metric.label.push_back({"outcome", outcome});
        }
        metric.counter.value = static_cast<double>(value);
        family.metric.push_back(std::move(metric));
    }
    return family;
}

class RelayMetrics final : public prometheus::Collectable {
 public:
    explicit RelayMetrics(const Relays& relays) : relays_(relays) {}
    [[nodiscard]] std::vector<MetricFamily> Collect() const override {
        const RelayCounts counts = relays_.counts();
        return {relay_gauge("ask_relay_tasks", "Tasks that are relayed", relays_.size()),
                relay_gauge("ask_relay_reserved_bytes", "Memory that they have reserved", relays_.reserved_bytes()),
                relay_counter("ask_relay_tasks_total", "Tasks that were to be relayed, by what became of them",
                              {{"committed", counts.committed},
                               {"failed", counts.failed},
                               {"refused_room", counts.refused_room},
                               {"refused_quota", counts.refused_quota}}),
                relay_counter("ask_relay_tasks_replaced_total", "Tasks that their receiver opened again",
                              {{"", counts.replaced}}),
                relay_counter("ask_relay_tuples_sent_total", "Tuples that tasks which have ended sent on",
                              {{"", counts.tuples_out}})};
    }

 private:
    const Relays& relays_;
};

class ExposedRelay final : public RelayMetricsServer {
 public:
    ExposedRelay(const std::string& address, const Relays& relays)
        : metrics_(std::make_shared<RelayMetrics>(relays)), exposer_(address, kHttpThreads) {
        exposer_.RegisterCollectable(metrics_);
    }

 private:
    std::shared_ptr<RelayMetrics> metrics_;
    prometheus::Exposer exposer_;
};

}  // namespace

Result<std::unique_ptr<RelayMetricsServer>> RelayMetricsServer::start(const SecurityConfig& config,
                                                                      const Relays& relays) {
    ASK_PASS(check_listen("metrics", config.metrics));
    try {
        return std::unique_ptr<RelayMetricsServer>(std::make_unique<ExposedRelay>(config.metrics, relays));
    } catch (const std::exception& error) {
        return Error(Errc::kUnavailable, "metrics: cannot listen on " + config.metrics + ": " + error.what());
    }
}

}  // namespace ask
