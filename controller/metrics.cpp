// SPDX-License-Identifier: Apache-2.0
#include "controller/metrics.h"

#include <initializer_list>
#include <utility>
#include <vector>

#include <prometheus/collectable.h>

namespace ask {
namespace {

using prometheus::MetricFamily;

MetricFamily by_outcome(const char* name, const char* help,
                        std::initializer_list<std::pair<const char*, std::uint64_t>> outcomes) {
    MetricFamily made = counter_family(name, help);
    for (const auto& [outcome, value] : outcomes) {
        add_counter(made, {{"outcome", outcome}}, value);
    }
    return made;
}

void add_switches(MetricFamilies& families, const std::vector<SwitchFigures>& switches) {
    MetricFamily capacity = gauge_family("ask_controller_switch_capacity",
                                         "Tasks that a switch may have at a time, if that is limited");
    MetricFamily taken = gauge_family("ask_controller_switch_taken", "Tasks that a switch has");
    MetricFamily available = gauge_family("ask_controller_switch_available",
                                          "Whether tasks are admitted to a switch that has capacity left");
    MetricFamily refusals =
        counter_family("ask_controller_refusals_total", "Reports that a switch refuses a task");
    for (const SwitchFigures& each : switches) {
        const MetricLabels of = {{"switch", each.name}};
        if (each.capacity != 0) {
            add_gauge(capacity, of, static_cast<double>(each.capacity));
        }
        add_gauge(taken, of, static_cast<double>(each.taken));
        add_gauge(available, of, each.available ? 1.0 : 0.0);
        add_counter(refusals, of, each.refusals);
    }
    for (MetricFamily* const family : {&capacity, &taken, &available, &refusals}) {
        families.push_back(std::move(*family));
    }
}

class ControllerMetrics final : public prometheus::Collectable {
 public:
    explicit ControllerMetrics(ControllerService& service) : service_(service) {}

    [[nodiscard]] MetricFamilies Collect() const override {
        const ControllerFigures figures = service_.figures();
        const placing::Counters& counters = figures.counters;
        MetricFamilies families;
        families.push_back(
            gauge("ask_controller_plans", "Plans that tasks run by", static_cast<double>(figures.plans)));
        families.push_back(gauge("ask_controller_plans_limit", "Plans that there may be",
                                 static_cast<double>(figures.plans_max)));
        families.push_back(by_outcome("ask_controller_admits_total", "Tasks that asked, by what they got",
                                      {{"switches", counters.placed},
                                       {"straight", counters.straight},
                                       {"young", counters.young},
                                       {"refused", counters.refused}}));
        MetricFamily admits =
            histogram_family("ask_controller_admit_seconds", "How long admitting a task took");
        add_histogram(admits, {}, AdmitTimes::kBounds, figures.admits.calls, figures.admits.seconds);
        families.push_back(std::move(admits));
        families.push_back(by_outcome("ask_controller_renewals_total",
                                      "Renewals of leases, by whether the plan was known",
                                      {{"known", counters.renewed}, {"rebuilt", counters.rebuilt}}));
        families.push_back(by_outcome("ask_controller_plans_ended_total", "Plans given back, by whom",
                                      {{"released", counters.released}, {"expired", counters.expired}}));
        add_switches(families, figures.switches);
        families.push_back(counter("ask_controller_refused_connections_total",
                                   "Connections turned away at the control port and socket, or cut off",
                                   service_.refused()));
        add_process_metrics("ask_controller", families);
        return families;
    }

 private:
    ControllerService& service_;
};

}  // namespace

Result<std::unique_ptr<MetricsServer>> expose_metrics(const SecurityConfig& config,
                                                      ControllerService& service) {
    return MetricsServer::start(config.metrics, std::make_shared<ControllerMetrics>(service));
}

}  // namespace ask
