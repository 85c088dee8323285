// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/caller.h"

#include <algorithm>

#include "lib/base/task_id.h"

namespace ask {
namespace {

template <typename Address>
bool has_address(const std::vector<Address>& own, const Address& address) {
    return std::ranges::find(own, address) != own.end();
}

}  // namespace

bool acts_for(const Caller& caller, std::uint32_t host) {
    return acts_for(caller, NamedHost{.number = host, .ipv6 = ipv6_of(host)});
}

bool acts_for(const Caller& caller, const NamedHost& host) {
    if (host.ipv6) {
        return caller.verified ? has_address(caller.own_ipv6, *host.ipv6) : caller.ipv6 == host.ipv6;
    }
    // An IPv4 address of 240.0.0.0/4 is nobody's: it would be another's number.
    return !is_ipv6_number(host.number) &&
           (caller.verified ? has_address(caller.own_ipv4, host.number) : caller.ipv4 == host.number);
}

std::optional<std::uint32_t> host_of(const Caller& caller) {
    if (!caller.ipv6) {
        return caller.ipv4 && is_ipv6_number(*caller.ipv4) ? std::nullopt : caller.ipv4;
    }
    const NamedHost from{.number = number_of(*caller.ipv6), .ipv6 = caller.ipv6};
    // Whoever has a certificate may have any number of addresses that it does not name.
    if (!acts_for(caller, from)) {
        return ipv6_of(from.number) == from.ipv6 ? std::optional(from.number) : std::nullopt;
    }
    const auto entered = enter_host(from);
    return entered.ok() ? std::optional(*entered) : std::nullopt;
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
    } else if (const auto ipv6 = parse_ipv6(address)) {
        said_.own_ipv6.push_back(*ipv6);
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
    caller.own_ipv6 = said_.own_ipv6;
    if (!bad_) {
        caller.tenant = said_.tenant;
        caller.role_operator = said_.role_operator;
        caller.role_switch = said_.role_switch;
    }
}

}  // namespace ask
