// SPDX-License-Identifier: Apache-2.0
//
// From requests of receivers to what the controller decides on. What comes in is checked: it is anybody's.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/result.h"
#include "lib/control/placing/wish.h"
#include "lib/net/host_book.h"
#include "lib/rpc/caller.h"
#include "proto/controller.pb.h"

namespace ask {

// The longest request: a placement of as many hosts as a task has senders.
inline constexpr int kControllerRequestBytes = 256 << 10;

// All kInput, naming the field; the hosts of both requests are made known by `caller`, who may make them:
// kLimit, kExists.
Result<NamedHost> receiver_from(const std::string& address);
Result<placing::Wish> wish_from_proto(const v1::AdmitRequest& request, const Caller& caller);
Result<placing::Claim> claim_from_proto(const v1::RenewPlanRequest& request, const Caller& caller);

}  // namespace ask
