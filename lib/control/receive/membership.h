// SPDX-License-Identifier: Apache-2.0
//
// Who may send to a task: whom its receiver has named, or who shows its token; where it has said neither,
// every host of the receiver's tenant.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/rpc/caller.h"

namespace ask {

struct Membership {
    std::string tenant;                // of the receiver's host
    std::vector<std::string> names;    // of hosts, as certificates have them
    std::vector<std::uint32_t> hosts;  // the same by their addresses
    std::string token;                 // empty: none
};

// For people: what it calls itself, and what is proved of it.
[[nodiscard]] std::string proved_name(const Caller& caller, std::string_view claimed);

// How long it takes says nothing of where they differ.
[[nodiscard]] bool is_same_secret(std::string_view secret, std::string_view shown);

[[nodiscard]] bool may_join(const Membership& members, const Caller& caller, std::string_view token);
// Who may hear that there is such a task: the others are told what they would be without it, and as late.
[[nodiscard]] bool may_know(const Membership& members, const Caller& caller, std::string_view token);

}  // namespace ask
