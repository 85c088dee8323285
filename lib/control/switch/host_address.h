// SPDX-License-Identifier: Apache-2.0
//
// IPv6 addresses as programs have them.
#pragma once

#include <cstdint>

#include "lib/abi/hosts.h"
#include "lib/abi/values.h"
#include "lib/net/address.h"

namespace ask {

[[nodiscard]] ask_ipv6 program_address(const Ipv6Address& address);
[[nodiscard]] Ipv6Address address_of(const ask_ipv6& address);
// Who copies are for: a host that is known.
void set_address(ask_fan_member& member, std::uint32_t number);

}  // namespace ask
