// SPDX-License-Identifier: Apache-2.0
//
// Whose something is: a task on a switch, a sender's place in a task. What a caller may do follows from who
// it is, never from what is in its message.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/result.h"
#include "lib/rpc/caller.h"

namespace ask {

struct Owner {
    std::string tenant;      // empty: none
    std::uint32_t host = 0;  // number (lib/net/host_book.h)
    bool operator==(const Owner&) const = default;
};

// Whose quota something is of, in words: a tenant's, or, where there is none, a host's.
[[nodiscard]] std::string holder_of(const Owner& owner);

// Whether the caller has what the owner has: its tenant, and its host. That of another tenant may come from
// an address that is this owner's next.
[[nodiscard]] inline bool owns(const Caller& caller, const Owner& owner) {
    return caller.tenant == owner.tenant && acts_for(caller, owner.host);
}

// Whether a local caller may look at and end what belongs to that user of this host. Where the socket does
// not say who calls, whoever may open it may.
[[nodiscard]] inline bool may_use(const Caller& caller, std::uint32_t user) {
    return may_operate(caller) || !caller.uid || caller.uid == user;
}

// Who would own what the caller opens for the agent that answers at `receiver` ("198.18.2.2:4791"; empty:
// wherever it calls from). kInput: that is no address. kDenied: it is not the caller's.
[[nodiscard]] Result<Owner> owner_for(const Caller& caller, const std::string& receiver);

}  // namespace ask
