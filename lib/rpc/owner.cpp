// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/owner.h"

#include "lib/net/address.h"

namespace ask {

std::string holder_of(const Owner& owner) {
    return owner.tenant.empty() ? "host " + format_ipv4(owner.host) : "tenant " + owner.tenant;
}

Result<Owner> owner_for(const Caller& caller, const std::string& receiver) {
    if (receiver.empty()) {
        if (!caller.ipv4 || !acts_for(caller, *caller.ipv4)) {
            return Error(Errc::kDenied, "the receiver's address is not said, and " + describe(caller) +
                                            " may not act for the host that it calls from");
        }
        return Owner{caller.tenant, *caller.ipv4};
    }
    const auto host = ipv4_of_control(receiver);
    if (!host) {
        return Error(Errc::kInput, "the receiver's address " + host.error().text());
    }
    if (!acts_for(caller, *host)) {
        return Error(Errc::kDenied, "the receiver's address is " + receiver + ", but " + describe(caller) +
                                        " may not act for that host");
    }
    return Owner{caller.tenant, *host};
}

}  // namespace ask
