// SPDX-License-Identifier: Apache-2.0
//
// How numbers that name things are written for people and scripts.
#pragma once

#include <cstdint>
#include <string>

#include "proto/common.pb.h"

namespace google::protobuf {
class EnumValueDescriptor;
}

namespace ask::cli {

// "198.18.1.2:49152", "[2001:db8::1]:49152".
[[nodiscard]] std::string channel_text(const v1::ChannelId& channel);
// "0x0123456789abcdef".
[[nodiscard]] std::string instance_text(std::uint64_t instance);
// "sum" of OPERATOR_SUM.
[[nodiscard]] std::string enum_text(const google::protobuf::EnumValueDescriptor& value);
[[nodiscard]] std::string op_text(v1::Operator op);
[[nodiscard]] std::string policy_text(v1::Policy policy);
// "16+8x2*4", as ask-recv --geometry takes it; "-" when unset.
[[nodiscard]] std::string geometry_text(const v1::Geometry& geometry);
// "switch 1, incarnation 0x1a2b3c4d"; "none".
[[nodiscard]] std::string mark_text(const v1::Mark& mark);

}  // namespace ask::cli
