// SPDX-License-Identifier: Apache-2.0
#include "lib/client/convert.h"

namespace ask::client {

TaskStats stats_from_proto(const v1::FlowStats& stats) {
    TaskStats out;
    out.tuples_in = stats.tuples_in();
    out.tuples_merged = stats.tuples_merged();
    out.tuples_sent = stats.tuples_sent();
    out.tuples_switch = stats.tuples_switch();
    out.tuples_evicted = stats.tuples_evicted();
    ReceiverTuples& receiver = out.tuples_receiver;
    receiver.collision = stats.tuples_collision();
    receiver.overflow = stats.tuples_overflow();
    receiver.contention = stats.tuples_contention();
    receiver.no_region = stats.tuples_no_region();
    const std::uint64_t explained = receiver.total() + out.tuples_evicted;
    if (stats.tuples_data() > explained) {
        receiver.no_region += stats.tuples_data() - explained;
    }
    receiver.long_key = stats.tuples_long();
    out.packets_sent = stats.packets_sent();
    out.packets_acked_by_switch = stats.packets_acked_by_switch();
    out.retransmissions = stats.retransmissions();
    out.slots_filled = stats.slots_filled();
    out.slots_offered = stats.slots_offered();
    out.packets_by_tuples.assign(stats.packets_by_tuples().begin(), stats.packets_by_tuples().end());
    return out;
}

v1::Operator op_to_proto(TaskOp op) {
    switch (op) {
        case TaskOp::kSum:
            return v1::OPERATOR_SUM;
        case TaskOp::kCount:
            return v1::OPERATOR_COUNT;
        case TaskOp::kMin:
            return v1::OPERATOR_MIN;
        case TaskOp::kMax:
            return v1::OPERATOR_MAX;
    }
    return v1::OPERATOR_UNSPECIFIED;
}

v1::Policy policy_to_proto(TaskPolicy policy) {
    switch (policy) {
        case TaskPolicy::kAuto:
            return v1::POLICY_UNSPECIFIED;
        case TaskPolicy::kFirstCome:
            return v1::POLICY_FIRST_COME;
        case TaskPolicy::kReplace:
            return v1::POLICY_REPLACE;
    }
    return v1::POLICY_UNSPECIFIED;
}

Result<TaskOp> op_from_proto(v1::Operator op) {
    switch (op) {
        case v1::OPERATOR_SUM:
            return TaskOp::kSum;
        case v1::OPERATOR_COUNT:
            return TaskOp::kCount;
        case v1::OPERATOR_MIN:
            return TaskOp::kMin;
        case v1::OPERATOR_MAX:
            return TaskOp::kMax;
        default:
            return Error(Errc::kInternal, "unknown operator " + std::to_string(static_cast<int>(op)));
    }
}

v1::KeySample sample_to_proto(const KeySample& sample) {
    v1::KeySample message;
    for (const KeyGroup& group : sample.groups) {
        v1::KeyGroup& to = *message.add_groups();
        to.set_distinct(group.distinct);
        to.set_once(group.once);
        if (group.distinct > 0) {
            to.mutable_tuples()->Assign(group.tuples.begin(), group.tuples.end());
        }
    }
    message.set_long_tuples(sample.long_tuples);
    message.set_long_bytes(sample.long_bytes);
    message.set_expected(sample.expected);
    return message;
}

}  // namespace ask::client
