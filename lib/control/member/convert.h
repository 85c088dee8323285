// SPDX-License-Identifier: Apache-2.0
//
// What the agent says of others and of itself in messages, beside what all daemons convert alike (lib/rpc).
#pragma once

#include <string>
#include <string_view>

#include "lib/base/task_id.h"
#include "lib/engine/receiver.h"
#include "lib/rpc/flow_stats.h"
#include "lib/rpc/types.h"
#include "lib/tuples/fit/key_sample.h"
#include "lib/tuples/sender.h"
#include "lib/tuples/types.h"
#include "proto/common.pb.h"

namespace ask {

// Printable ASCII only and at most 128 bytes, since it ends up in people's logs.
[[nodiscard]] std::string clean_name(std::string_view name);
// The same for a sentence: at most 1024 bytes.
[[nodiscard]] std::string clean_text(std::string_view text);

// What both ends of a flow have counted, into their fields of its statistics.
void set_sender_part(v1::FlowStats& stats, const SenderStats& sender);
void set_receiver_part(v1::FlowStats& stats, const FlowRxStats& receiver);

}  // namespace ask
