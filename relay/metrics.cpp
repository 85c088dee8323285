// SPDX-License-Identifier: Apache-2.0
#include "relay/metrics.h"

#include <utility>

#include <prometheus/collectable.h>

namespace ask {
namespace {

class RelayMetrics final : public prometheus::Collectable {
 public:
    explicit RelayMetrics(const Relays& relays) : relays_(relays) {}

    [[nodiscard]] MetricFamilies Collect() const override {
        const RelayCounts counts = relays_.counts();
        MetricFamilies families;
        families.push_back(
            gauge("ask_relay_tasks", "Tasks that are relayed", static_cast<double>(relays_.size())));
        families.push_back(gauge("ask_relay_reserved_bytes", "Memory that they have reserved",
                                 static_cast<double>(relays_.reserved_bytes())));
        auto tasks =
            counter_family("ask_relay_tasks_total", "Tasks that were to be relayed, by what became of them");
        add_counter(tasks, {{"outcome", "committed"}}, counts.committed);
        add_counter(tasks, {{"outcome", "failed"}}, counts.failed);
        add_counter(tasks, {{"outcome", "refused_room"}}, counts.refused_room);
        add_counter(tasks, {{"outcome", "refused_quota"}}, counts.refused_quota);
        add_counter(tasks, {{"outcome", "refused_parent"}}, counts.refused_parent);
        families.push_back(std::move(tasks));
        families.push_back(counter("ask_relay_tasks_replaced_total", "Tasks that their receiver opened again",
                                   counts.replaced));
        families.push_back(counter("ask_relay_tuples_sent_total",
                                   "Tuples that tasks which have ended sent on", counts.tuples_out));
        families.push_back(counter("ask_relay_parts_sent_total",
                                   "Parts that such tasks sent on because their reserve was full",
                                   counts.parts));
        add_process_metrics("ask_relay", families);
        return families;
    }

 private:
    const Relays& relays_;
};

}  // namespace

Result<std::unique_ptr<MetricsServer>> expose_metrics(const SecurityConfig& config, const Relays& relays) {
    return MetricsServer::start(config.metrics, std::make_shared<RelayMetrics>(relays));
}

}  // namespace ask
