// SPDX-License-Identifier: Apache-2.0
//
// Hosts in what others ask of us.
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "lib/rpc/hosts6.h"
#include "lib/rpc/hosts6_parts.h"

namespace ask {
namespace {

// How many hosts each caller, or user of this machine, has made known that are not his own.
class Introductions {
 public:
    Result<> add(const std::string& whose) {
        const std::lock_guard lock(mutex_);
        const auto known = counts_.find(whose);
        if (known == counts_.end() ? counts_.size() >= kMostCallers : known->second >= kMostIntroduced) {
            return Error(Errc::kLimit, whose + " has made " + std::to_string(kMostIntroduced) +
                                           " IPv6 hosts known here that are not its own, or too many others "
                                           "have made some known: restart this daemon");
        }
        ++counts_[whose];
        return {};
    }

 private:
    static constexpr std::size_t kMostCallers = 4096;
    std::mutex mutex_;
    std::map<std::string, std::size_t> counts_;
};

Introductions& introductions() {
    static Introductions counts;
    return counts;
}

// Not where it calls from, if it has shown a certificate: with IPv6 a host has any number of addresses.
std::string name_of(const Caller& caller) {
    if (!caller.tenant.empty()) {
        return "tenant " + caller.tenant;
    }
    return caller.verified && !caller.names.empty() ? caller.names.front() : describe(caller);
}

}  // namespace

Result<> take_hosts(const google::protobuf::Message& message, const Caller& caller,
                    std::optional<std::uint32_t> about) {
    const auto named = [](const Ipv6Address& address) {
        return NamedHost{.number = number_of(address), .ipv6 = address};
    };
    ASK_PASS(each_host(message, [&](const Ipv6Address& address) -> Result<> {
        const auto entered =
            acts_for(caller, named(address)) ? enter_ipv6(address) : Result<std::uint32_t>(0);
        return entered.ok() ? Result<>() : Error(entered.error());
    }));
    const bool may_introduce = about && acts_for(caller, *about);
    ASK_PASS(each_host(message, [&](const Ipv6Address& address) -> Result<> {
        // Of a number that the book has under another address to enter it says so.
        const bool known = ipv6_of(number_of(address)).has_value();
        if (!known && !may_introduce) {
            return Error(Errc::kDenied, "the request names host " + format_ipv6(address) +
                                            ", which is not for " + describe(caller) + " to make known here");
        }
        const auto entered = introduce(named(address), caller);
        return entered.ok() ? Result<>() : Error(entered.error());
    }));
    return check_explained(message);
}

Result<std::uint32_t> introduce(const NamedHost& host, const Caller& caller) {
    if (host.ipv6 && !ipv6_of(host.number) && !acts_for(caller, host)) {
        ASK_PASS(check_ipv6_host(*host.ipv6));
        ASK_PASS(introductions().add(name_of(caller)));
    }
    return enter_host(host);
}

Result<std::uint32_t> introduce(const NamedHost& host, std::uint32_t user) {
    if (host.ipv6 && !ipv6_of(host.number) && user != 0) {
        ASK_PASS(check_ipv6_host(*host.ipv6));
        ASK_PASS(introductions().add("user " + std::to_string(user)));
    }
    return enter_host(host);
}

}  // namespace ask
