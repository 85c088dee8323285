// SPDX-License-Identifier: Apache-2.0
//
// What the agent says of others and of itself in messages, beside what all daemons convert alike (lib/rpc).
#pragma once

#include "lib/base/task_id.h"
#include "lib/engine/receiver.h"
#include "lib/rpc/flow_stats.h"
#include "lib/rpc/types.h"
#include "lib/text/clean.h"
#include "lib/tuples/fit/key_sample.h"
#include "lib/tuples/sender.h"
#include "lib/tuples/types.h"
#include "proto/common.pb.h"

namespace ask {

// What both ends of a flow have counted, into their fields of its statistics.
void set_sender_part(v1::FlowStats& stats, const SenderStats& sender, std::uint32_t host);
void set_receiver_part(v1::FlowStats& stats, const FlowRxStats& receiver);

}  // namespace ask
