// SPDX-License-Identifier: Apache-2.0
//
// From protobuf messages to what the client API shows, and back.
#pragma once

#include "lib/client/task.h"
#include "proto/common.pb.h"

namespace ask::client {

// Whatever the switch did not account for never met a region: it counts as no_region.
[[nodiscard]] TaskStats stats_from_proto(const v1::FlowStats& stats);
void add_stats(TaskStats& sum, const TaskStats& stats);
[[nodiscard]] v1::Operator op_to_proto(TaskOp op);
[[nodiscard]] v1::Policy policy_to_proto(TaskPolicy policy);
// kInternal for an operator that does not exist.
Result<TaskOp> op_from_proto(v1::Operator op);

}  // namespace ask::client
