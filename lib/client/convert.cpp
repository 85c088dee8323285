// SPDX-License-Identifier: Apache-2.0
#include "lib/client/convert.h"

#include <algorithm>
#include <cstddef>

#include "lib/rpc/flow_stats.h"

namespace ask::client {

TaskStats stats_from_proto(const v1::FlowStats& stats) {
    TaskStats out;
#define ASK_SENDER_STAT(name, text) out.name = stats.name();
#define ASK_TAKEN_STAT(name, field, text) out.field = stats.field();
#define ASK_BESIDE_STAT(name, text) out.name = stats.name();
#define ASK_PART_STAT(name, text) out.name = stats.name();
#define ASK_LEFT_STAT(cause, text) out.tuples_receiver.cause = stats.tuples_##cause();
#include "lib/abi/stats.def"
    const std::uint64_t explained = tuples_sent_on(stats);
    const std::uint64_t left = stats.tuples_data() + stats.tuples_var();
    if (left > explained) {
        out.tuples_receiver.no_region += left - explained;
    }
    out.tuples_receiver.long_key = stats.tuples_long();
    out.packets_by_tuples.assign(stats.packets_by_tuples().begin(), stats.packets_by_tuples().end());
    return out;
}

void add_stats(TaskStats& sum, const TaskStats& stats) {
#define ASK_SENDER_STAT(name, text) sum.name += stats.name;
#define ASK_TAKEN_STAT(name, field, text) sum.field += stats.field;
#define ASK_BESIDE_STAT(name, text) sum.name += stats.name;
#define ASK_PART_STAT(name, text) sum.name += stats.name;
#define ASK_LEFT_STAT(cause, text) sum.tuples_receiver.cause += stats.tuples_receiver.cause;
#include "lib/abi/stats.def"
    sum.tuples_receiver.long_key += stats.tuples_receiver.long_key;
    sum.packets_by_tuples.resize(std::max(sum.packets_by_tuples.size(), stats.packets_by_tuples.size()));
    for (std::size_t i = 0; i < stats.packets_by_tuples.size(); ++i) {
        sum.packets_by_tuples[i] += stats.packets_by_tuples[i];
    }
    sum.seconds += stats.seconds;
}

v1::Operator op_to_proto(TaskOp op) {
    switch (op) {
#define ASK_OPERATOR(NAME, Name, number, text) \
    case TaskOp::k##Name:                      \
        return v1::OPERATOR_##NAME;
#define ASK_OPERATOR_AS(NAME, Name, AS, As, text) ASK_OPERATOR(NAME, Name, 0, text)
#include "lib/abi/operators.def"
    }
    return v1::OPERATOR_UNSPECIFIED;
}

v1::Policy policy_to_proto(TaskPolicy policy) {
    switch (policy) {
        case TaskPolicy::kAuto:
            break;
#define ASK_POLICY(NAME, Name, number, text, meaning) \
    case TaskPolicy::k##Name:                         \
        return v1::POLICY_##NAME;
#include "lib/abi/policies.def"
    }
    return v1::POLICY_UNSPECIFIED;
}

Result<TaskOp> op_from_proto(v1::Operator op) {
    switch (op) {
#define ASK_OPERATOR(NAME, Name, number, text) \
    case v1::OPERATOR_##NAME:                  \
        return TaskOp::k##Name;
#define ASK_OPERATOR_AS(NAME, Name, AS, As, text) ASK_OPERATOR(NAME, Name, 0, text)
#include "lib/abi/operators.def"
        default:
            return Error(Errc::kInternal, "unknown operator " + std::to_string(static_cast<int>(op)));
    }
}

}  // namespace ask::client
