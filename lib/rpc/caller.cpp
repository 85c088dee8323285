// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/caller.h"

#include <algorithm>

#include "lib/base/task_id.h"
#include "lib/net/address.h"

namespace ask {

bool acts_for(const Caller& caller, std::uint32_t ipv4) {
    if (caller.verified) {
        return std::ranges::find(caller.own_ipv4, ipv4) != caller.own_ipv4.end();
    }
    return caller.ipv4 == ipv4;
}

std::string describe(const Caller& caller) {
    if (caller.uid) {
        return "user " + std::to_string(*caller.uid);
    }
    return caller.names.empty() ? caller.address : caller.names.front() + " (" + caller.address + ")";
}

std::string tenant_of(const std::vector<std::string>& uris) {
    CertificateNames names;
    for (const std::string& uri : uris) {
        names.add_uri(uri);
    }
    Caller caller;
    names.apply(caller);
    return caller.tenant;
}

void CertificateNames::add_dns(std::string_view name) {
    said_.names.emplace_back(name);
}

void CertificateNames::add_ip(std::string_view address) {
    if (const auto ipv4 = parse_ipv4(address)) {
        said_.own_ipv4.push_back(*ipv4);
    }
}

void CertificateNames::add_uri(std::string_view uri) {
    if (uri == kOperatorUri) {
        said_.role_operator = true;
    } else if (uri == kSwitchUri) {
        said_.role_switch = true;
    } else if (uri.starts_with(kTenantUri)) {
        const std::string_view tenant = uri.substr(kTenantUri.size());
        bad_ = bad_ || tenant_said_ || !is_pin_name(tenant);
        tenant_said_ = true;
        said_.tenant = tenant;
    }
}

void CertificateNames::apply(Caller& caller) const {
    caller.verified = true;
    caller.names = said_.names;
    caller.own_ipv4 = said_.own_ipv4;
    if (!bad_) {
        caller.tenant = said_.tenant;
        caller.role_operator = said_.role_operator;
        caller.role_switch = said_.role_switch;
    }
}

}  // namespace ask
