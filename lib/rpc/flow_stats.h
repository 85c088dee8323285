// SPDX-License-Identifier: Apache-2.0
//
// A flow's statistics in messages (lib/abi/stats.def): whoever counted a part of them writes only those
// fields.
#pragma once

#include "lib/abi/map_types.h"
#include "proto/common.pb.h"

namespace ask {

void copy_sender_part(v1::FlowStats& stats, const v1::FlowStats& from);
void set_switch_part(v1::FlowStats& stats, const ask_flow_stats& counted);
void copy_switch_part(v1::FlowStats& stats, const v1::FlowStats& from);
void add_switch_part(v1::FlowStats& stats, const v1::FlowStats& from);
// Whether a switch has counted anything in it.
[[nodiscard]] bool has_switch_part(const v1::FlowStats& stats);
// Tuples that the switch sent on to the receiver: its own, and those that others took the place of.
[[nodiscard]] std::uint64_t tuples_sent_on(const v1::FlowStats& stats);
// Adds every field.
void add_stats(v1::FlowStats& sum, const v1::FlowStats& stats);

}  // namespace ask
