// SPDX-License-Identifier: Apache-2.0
//
// What taking the hosts of a message takes, whoever sent it.
#pragma once

#include <functional>

#include <google/protobuf/message.h>

#include "lib/base/result.h"
#include "lib/net/address.h"

namespace ask {

// Visits what its `hosts6` has, as long as that goes well.
Result<> each_host(const google::protobuf::Message& message,
                   const std::function<Result<>(const Ipv6Address&)>& visit);
// Whether the book knows every IPv6 host in it.
Result<> check_explained(const google::protobuf::Message& message);

}  // namespace ask
