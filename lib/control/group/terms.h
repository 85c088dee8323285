// SPDX-License-Identifier: Apache-2.0
//
// What a group's root says of it, as terms of its ends. Outside input: the root may be anybody's host.
#pragma once

#include <cstdint>

#include "lib/base/result.h"
#include "lib/values/terms.h"
#include "proto/agent.pb.h"

namespace ask {

// kDenied: terms by which this member's packets would go elsewhere than to the collector, or never go.
// `payload_limit`: what this host's MTU has room for.
Result<values::GroupTerms> group_terms(const v1::JoinGroupReply& group, std::uint32_t payload_limit);

}  // namespace ask
