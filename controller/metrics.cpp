// SPDX-License-Identifier: Apache-2.0
#include "controller/metrics.h"

#include <exception>
#include <limits>
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

struct Sample {
    std::string label;
    double value = 0;
};

// One metric, or, with a name for its label, one for each.
MetricFamily family(const char* name, const char* help, MetricType type, const char* label,
                    const std::vector<Sample>& samples) {
    MetricFamily made{name, help, type, {}};
    for (const Sample& sample : samples) {
        ClientMetric metric;
        if (*label != '\0') {
            metric.label.push_back({label, sample.label});
        }
        (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = sample.value;
        made.metric.push_back(std::move(metric));
    }
    return made;
}

MetricFamily single(const char* name, const char* help, MetricType type, double value) {
    return family(name, help, type, "", {{.label = {}, .value = value}});
}

MetricFamily by_outcome(const char* name, const char* help,
                        std::initializer_list<std::pair<const char*, std::uint64_t>> outcomes) {
    std::vector<Sample> samples;
    for (const auto& [outcome, value] : outcomes) {
        samples.push_back({.label = outcome, .value = static_cast<double>(value)});
    }
    return family(name, help, MetricType::Counter, "outcome", samples);
}

MetricFamily admit_seconds(const AdmitTimes& times) {
    MetricFamily made{
        "ask_controller_admit_seconds", "How long admitting a task took", MetricType::Histogram, {}};
    ClientMetric metric;
    std::uint64_t sum = 0;
    for (std::size_t bound = 0; bound < times.calls.size(); ++bound) {
        sum += times.calls[bound];
        metric.histogram.bucket.push_back({sum, bound < AdmitTimes::kBounds.size()
                                                    ? AdmitTimes::kBounds[bound]
                                                    : std::numeric_limits<double>::infinity()});
    }
    metric.histogram.sample_count = sum;
    metric.histogram.sample_sum = times.seconds;
    made.metric.push_back(std::move(metric));
    return made;
}

void add_switches(std::vector<MetricFamily>& families, const std::vector<SwitchFigures>& switches) {
    std::vector<Sample> capacity;
    std::vector<Sample> taken;
    std::vector<Sample> refusals;
    std::vector<Sample> available;
    for (const SwitchFigures& each : switches) {
        if (each.capacity != 0) {
            capacity.push_back({each.name, static_cast<double>(each.capacity)});
        }
        taken.push_back({each.name, static_cast<double>(each.taken)});
        refusals.push_back({each.name, static_cast<double>(each.refusals)});
        available.push_back({each.name, each.available ? 1.0 : 0.0});
    }
    families.push_back(family("ask_controller_switch_capacity", "Tasks that a switch may have at a time, if that is limited",
                              MetricType::Gauge, "switch", capacity));
    families.push_back(family("ask_controller_switch_taken", "Tasks that a switch has", MetricType::Gauge,
                              "switch", taken));
    families.push_back(family("ask_controller_switch_available",
                              "Whether tasks are admitted to a switch that has capacity left", MetricType::Gauge,
                              "switch", available));
    families.push_back(family("ask_controller_refusals_total", "Reports that a switch refuses a task",
                              MetricType::Counter, "switch", refusals));
}

}  // namespace

class ControllerMetrics : public prometheus::Collectable {
 public:
    explicit ControllerMetrics(ControllerService& service) : service_(service) {}

    std::vector<MetricFamily> Collect() const override {
        const ControllerFigures figures = service_.figures();
        const placing::Counters& counters = figures.counters;
        std::vector<MetricFamily> families;
        families.push_back(single("ask_controller_plans", "Plans that tasks run by", MetricType::Gauge,
                                  static_cast<double>(figures.plans)));
        families.push_back(single("ask_controller_plans_limit", "Plans that there may be", MetricType::Gauge,
                                  static_cast<double>(figures.plans_max)));
        families.push_back(by_outcome("ask_controller_admits_total", "Tasks that asked, by what they got",
                                      {{"switches", counters.placed},
                                       {"straight", counters.straight},
                                       {"young", counters.young},
                                       {"refused", counters.refused}}));
        families.push_back(admit_seconds(figures.admits));
        families.push_back(
            by_outcome("ask_controller_renewals_total", "Renewals of leases, by whether the plan was known",
                       {{"known", counters.renewed}, {"rebuilt", counters.rebuilt}}));
        families.push_back(by_outcome("ask_controller_plans_ended_total", "Plans given back, by whom",
                                      {{"released", counters.released}, {"expired", counters.expired}}));
        add_switches(families, figures.switches);
        families.push_back(single("ask_controller_refused_connections_total",
                                  "Connections turned away at the control port and socket, or cut off",
                                  MetricType::Counter, static_cast<double>(service_.refused())));
        return families;
    }

 private:
    ControllerService& service_;
};

ControllerMetricsServer::ControllerMetricsServer() = default;
ControllerMetricsServer::ControllerMetricsServer(ControllerMetricsServer&&) noexcept = default;
ControllerMetricsServer& ControllerMetricsServer::operator=(ControllerMetricsServer&&) noexcept = default;
ControllerMetricsServer::~ControllerMetricsServer() = default;

Result<ControllerMetricsServer> ControllerMetricsServer::start(const SecurityConfig& config,
                                                               ControllerService& service) {
    const std::string& address = config.metrics;
    ASK_PASS(check_listen("metrics", address));
    ControllerMetricsServer server;
    server.metrics_ = std::make_shared<ControllerMetrics>(service);
    try {
        server.exposer_ = std::make_unique<prometheus::Exposer>(address, kHttpThreads);
    } catch (const std::exception& error) {
        return Error(Errc::kUnavailable, "metrics: cannot listen on " + address + ": " + error.what());
    }
    server.exposer_->RegisterCollectable(server.metrics_);
    return server;
}

}  // namespace ask
