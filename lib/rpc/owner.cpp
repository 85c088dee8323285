// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/owner.h"

#include "lib/net/host_book.h"

namespace ask {

std::string holder_of(const Owner& owner) {
    return owner.tenant.empty() ? "host " + format_host(owner.host) : "tenant " + owner.tenant;
}

Result<Owner> owner_for(const Caller& caller, const std::string& receiver) {
    if (receiver.empty()) {
        const auto from = host_of(caller);
        if (!from || !acts_for(caller, *from)) {
            return Error(Errc::kDenied, "the receiver's address is not said, and " + describe(caller) +
                                            " may not act for the host that it calls from");
        }
        return Owner{caller.tenant, *from};
    }
    const auto named = read_host_of_control(receiver);
    if (!named) {
        return Error(Errc::kInput, "the receiver's address " + named.error().text());
    }
    // Before anything of it is kept.
    if (!acts_for(caller, *named)) {
        return Error(Errc::kDenied, "the receiver's address is " + receiver + ", but " + describe(caller) +
                                        " may not act for that host");
    }
    const auto host = enter_host(*named);
    ASK_TRY(host, "the receiver's address");
    return Owner{caller.tenant, *host};
}

}  // namespace ask
