// SPDX-License-Identifier: Apache-2.0
//
// From protobuf messages to our types and back, once for daemons and applications. What comes in is checked:
// it is anybody's.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lib/tuples/back.h"
#include "lib/tuples/fit/key_sample.h"
#include "lib/tuples/types.h"
#include "proto/common.pb.h"

namespace ask {

// kInput for one that cannot be.
Result<Geometry> geometry_from_proto(const v1::Geometry& geometry);
// The same for who judges it later, and in its own words: fields that fit.
Result<Geometry> geometry_fields(const v1::Geometry& geometry);
[[nodiscard]] v1::Geometry geometry_to_proto(const Geometry& geometry);
Result<KeySample> sample_from_proto(const v1::KeySample& sample);
[[nodiscard]] v1::KeySample sample_to_proto(const KeySample& sample);
// One that travels; and whatever an application may ask for, as what it travels as (COUNT is SUM).
Result<Op> op_from_proto(v1::Operator op);
Result<Op> wire_op(v1::Operator op);
[[nodiscard]] v1::Operator op_to_proto(Op op);
// Unset: the switch's choice.
Result<std::optional<ask_policy>> policy_from_proto(v1::Policy policy);
[[nodiscard]] v1::Policy policy_to_proto(ask_policy policy);
// Groups that this build does not know are passed over.
[[nodiscard]] BackWish back_from_proto(const v1::BackWish& wish);
[[nodiscard]] v1::BackWish back_to_proto(const BackWish& wish);
Result<ChannelId> channel_from_proto(const v1::ChannelId& channel);
// The same for who judges it later: a port that is one of UDP.
Result<ChannelId> channel_fields(const v1::ChannelId& channel);
[[nodiscard]] v1::ChannelId channel_to_proto(ChannelId channel);
Result<Mark> mark_from_proto(const v1::Mark& mark);
[[nodiscard]] v1::Mark mark_to_proto(Mark mark);
// 16 bytes, little-endian words.
Result<CheckSecret> secret_from_bytes(std::string_view bytes);
[[nodiscard]] std::string secret_to_bytes(const CheckSecret& secret);
// "version 0xa2" of ASK's packets; 0 is of a time when nobody said.
[[nodiscard]] std::string wire_version_name(std::uint32_t version);
// kUnsupported: `who` speaks packets of another version than this program (ASK_WIRE_VERSION).
Result<> check_wire_version(std::uint32_t version, const std::string& who);

}  // namespace ask
