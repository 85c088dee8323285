// SPDX-License-Identifier: Apache-2.0
#include "lib/control/member/task_totals.h"

#include <spdlog/fmt/fmt.h>

#include "lib/rpc/flow_stats.h"

namespace ask {
namespace {

std::string way_of(const v1::FlowStats& stats) {
    const double share = stats.tuples_sent() == 0 ? 0
                                                  : 100 * static_cast<double>(stats.tuples_switch()) /
                                                        static_cast<double>(stats.tuples_sent());
    return fmt::format("{:.1f} % of the tuples sent added at the switch, {} packets, {} sent again", share,
                       stats.packets_sent(), stats.retransmissions());
}

}  // namespace

const char* to_string(TaskRole role) {
    return role == TaskRole::kReceiver ? "receiver" : "sender";
}

void TaskTotals::committed(TaskRole role, double seconds, const v1::FlowStats& stats, std::uint64_t keys,
                           std::uint64_t bytes) {
    const Guard lock(mutex_);
    OfRole& total = roles_[static_cast<std::size_t>(role)];
    ++total.ended[0];
    total.seconds.add(seconds);
    add_stats(total.stats, stats);
    total.keys += keys;
    total.bytes += bytes;
}

void TaskTotals::failed(TaskRole role, Errc code) {
    const Guard lock(mutex_);
    ++roles_[static_cast<std::size_t>(role)].ended[static_cast<std::size_t>(code)];
}

TaskTotals::OfRole TaskTotals::of(TaskRole role) const {
    const Guard lock(mutex_);
    return roles_[static_cast<std::size_t>(role)];
}

std::string figures_of(const v1::Done& done) {
    return fmt::format("{} tuples of {} senders, {} keys in {} bytes, {:.3f} s, {}", done.stats().tuples_in(),
                       done.per_sender_size(), done.result_keys(), done.result_bytes(), done.seconds(),
                       way_of(done.stats()));
}

std::string figures_of(const v1::FlowStats& sent, double seconds) {
    return fmt::format("{} tuples, {:.3f} s, {}", sent.tuples_in(), seconds, way_of(sent));
}

}  // namespace ask
