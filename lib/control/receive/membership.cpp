// SPDX-License-Identifier: Apache-2.0
#include "lib/control/receive/membership.h"

#include <algorithm>
#include <cstddef>

#include "lib/text/clean.h"

namespace ask {
namespace {

bool is_name_char(char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
}

}  // namespace

// What a sender calls itself proves nothing: beside it stands what its connection or certificate does.
std::string proved_name(const Caller& caller, std::string_view claimed) {
    constexpr std::size_t kLongest = 64;
    std::string name(claimed.substr(0, kLongest));
    std::ranges::replace_if(name, [](char c) { return !is_name_char(c); }, '?');
    if (std::ranges::find(caller.names, name) != caller.names.end()) {
        return clean_name(name + " (" + caller.address + ")");
    }
    return clean_name(name + " (" + describe(caller) + ")");
}

bool is_same_secret(std::string_view secret, std::string_view shown) {
    volatile unsigned difference = secret.size() == shown.size() ? 0 : 1;
    for (std::size_t i = 0; i < secret.size(); ++i) {
        const char other = shown.empty() ? '\0' : shown[i % shown.size()];
        difference = difference | (static_cast<unsigned char>(secret[i]) ^ static_cast<unsigned char>(other));
    }
    return difference == 0;
}

bool may_join(const Membership& members, const Caller& caller, std::string_view token) {
    if (members.names.empty() && members.hosts.empty() && members.token.empty()) {
        return caller.tenant == members.tenant;
    }
    if (!members.token.empty() && is_same_secret(members.token, token)) {
        return true;
    }
    const auto is_called = [&](const std::string& name) {
        return std::ranges::find(caller.names, name) != caller.names.end();
    };
    return std::ranges::any_of(members.names, is_called) ||
           std::ranges::any_of(members.hosts, [&](std::uint32_t host) { return acts_for(caller, host); });
}

bool may_know(const Membership& members, const Caller& caller, std::string_view token) {
    return caller.tenant == members.tenant || may_join(members, caller, token);
}

}  // namespace ask
