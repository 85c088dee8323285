// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/flow_stats.h"

namespace ask {
namespace {

// Of packets_by_tuples: 0 to all that fit a packet.
constexpr int kMostPacketSizes = ASK_MAX_TUPLES + 1;

// `name` of one more message.
#define ASK_ADD(name) sum.set_##name(sum.name() + stats.name());

void add_sizes(v1::FlowStats& sum, const v1::FlowStats& stats) {
    for (int i = 0; i < stats.packets_by_tuples_size(); ++i) {
        if (i == sum.packets_by_tuples_size()) {
            sum.add_packets_by_tuples(0);
        }
        sum.set_packets_by_tuples(i, sum.packets_by_tuples(i) + stats.packets_by_tuples(i));
    }
}

}  // namespace

void copy_sender_part(v1::FlowStats& stats, const v1::FlowStats& from) {
#define ASK_SENDER_STAT(name, text) stats.set_##name(from.name());
#define ASK_SENDER_DETAIL(name, text) stats.set_##name(from.name());
#include "lib/abi/stats.def"
    *stats.mutable_packets_by_tuples() = from.packets_by_tuples();
    if (stats.packets_by_tuples_size() > kMostPacketSizes) {
        stats.mutable_packets_by_tuples()->Truncate(kMostPacketSizes);
    }
}

void set_switch_part(v1::FlowStats& stats, const ask_flow_stats& counted) {
#define ASK_TAKEN_STAT(name, field, text) stats.set_##field(counted.name);
#define ASK_LEFT_STAT(cause, text) stats.set_tuples_##cause(counted.tuples_##cause);
#define ASK_BESIDE_STAT(name, text) stats.set_##name(counted.name);
#define ASK_PART_STAT(name, text) stats.set_##name(counted.name);
#include "lib/abi/stats.def"
}

void copy_switch_part(v1::FlowStats& stats, const v1::FlowStats& from) {
#define ASK_TAKEN_STAT(name, field, text) stats.set_##field(from.field());
#define ASK_LEFT_STAT(cause, text) stats.set_tuples_##cause(from.tuples_##cause());
#define ASK_BESIDE_STAT(name, text) stats.set_##name(from.name());
#define ASK_PART_STAT(name, text) stats.set_##name(from.name());
#include "lib/abi/stats.def"
}

void add_switch_part(v1::FlowStats& sum, const v1::FlowStats& stats) {
#define ASK_TAKEN_STAT(name, field, text) ASK_ADD(field)
#define ASK_LEFT_STAT(cause, text) ASK_ADD(tuples_##cause)
#define ASK_BESIDE_STAT(name, text) ASK_ADD(name)
#define ASK_PART_STAT(name, text) ASK_ADD(name)
#include "lib/abi/stats.def"
}

bool has_switch_part(const v1::FlowStats& stats) {
    std::uint64_t sum = tuples_sent_on(stats);
#define ASK_TAKEN_STAT(name, field, text) sum += stats.field();
#include "lib/abi/stats.def"
    return sum > 0;
}

std::uint64_t tuples_sent_on(const v1::FlowStats& stats) {
    std::uint64_t sum = 0;
#define ASK_LEFT_STAT(cause, text) sum += stats.tuples_##cause();
#define ASK_BESIDE_STAT(name, text) sum += stats.name();
#include "lib/abi/stats.def"
    return sum;
}

void add_stats(v1::FlowStats& sum, const v1::FlowStats& stats) {
    add_switch_part(sum, stats);
#define ASK_SENDER_STAT(name, text) ASK_ADD(name)
#define ASK_SENDER_DETAIL(name, text) ASK_ADD(name)
#define ASK_RECEIVER_STAT(name, text) ASK_ADD(name)
#include "lib/abi/stats.def"
    add_sizes(sum, stats);
}

#undef ASK_ADD

}  // namespace ask
