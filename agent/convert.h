// SPDX-License-Identifier: Apache-2.0
//
// From protobuf messages to the core's types and back. What comes in is checked: it is anybody's.
#pragma once

#include <string>
#include <string_view>

#include "lib/engine/receiver.h"
#include "lib/tuples/fit/key_sample.h"
#include "lib/tuples/sender.h"
#include "lib/tuples/types.h"
#include "proto/common.pb.h"

namespace ask {

// [A-Za-z0-9_-]{1,63}: a task's id is also a directory's name on the switch.
Result<> check_task_id(std::string_view id);
// Printable ASCII only and at most 128 bytes, since it ends up in people's logs.
[[nodiscard]] std::string clean_name(std::string_view name);
// The same for a sentence: at most 1024 bytes.
[[nodiscard]] std::string clean_text(std::string_view text);

Result<Geometry> geometry_from_proto(const v1::Geometry& geometry);
[[nodiscard]] v1::Geometry geometry_to_proto(const Geometry& geometry);
// kInput for one that cannot be.
Result<KeySample> sample_from_proto(const v1::KeySample& sample);
// COUNT is SUM on the wire.
Result<Op> wire_op(v1::Operator op);
Result<ChannelId> channel_from_proto(const v1::ChannelId& channel);
[[nodiscard]] v1::ChannelId channel_to_proto(ChannelId channel);
Result<Mark> mark_from_proto(const v1::Mark& mark);
[[nodiscard]] v1::Mark mark_to_proto(Mark mark);
// 16 bytes, little-endian words.
Result<CheckSecret> secret_from_bytes(std::string_view bytes);
[[nodiscard]] std::string secret_to_bytes(const CheckSecret& secret);

// Parts of a flow's statistics: whoever counted them writes only these fields.
void set_sender_part(v1::FlowStats& stats, const SenderStats& sender);
void copy_sender_part(v1::FlowStats& stats, const v1::FlowStats& from);
void add_switch_part(v1::FlowStats& stats, const v1::FlowStats& from);
// Whether a switch has counted anything in it.
[[nodiscard]] bool has_switch_part(const v1::FlowStats& stats);
void set_receiver_part(v1::FlowStats& stats, const FlowRxStats& receiver);
// Adds every field.
void add_stats(v1::FlowStats& sum, const v1::FlowStats& stats);

}  // namespace ask
