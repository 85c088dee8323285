// SPDX-License-Identifier: Apache-2.0
//
// Bonds as native XDP sees them: the kernel puts a bond's program on its members, and what comes in by these
// has their index. What leaves by the bond leaves by a member that it chooses.
#pragma once

#include <string>
#include <vector>

#include "lib/net/netlink.h"

namespace ask {

// Why the kernel takes no native program for a bond of that mode, and what to do; empty: it does.
[[nodiscard]] std::string native_trouble(const InterfaceInfo& bond);

// Of a bond; of others none. They point into `all`.
[[nodiscard]] std::vector<const InterfaceInfo*> members_of(const InterfaceInfo& bond,
                                                           const std::vector<InterfaceInfo>& all);

}  // namespace ask
