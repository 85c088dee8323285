// SPDX-License-Identifier: Apache-2.0
//
// Who calls, and what is shown of him: gRPC's name of the other end, names of a certificate, a token, and
// text. What makes somebody something is read here once more, as simply as it can be.
#include "lib/rpc/caller.h"

#include <arpa/inet.h>

#include <string>
#include <vector>

#include "lib/base/task_id.h"
#include "lib/control/receive/membership.h"
#include "lib/net/address.h"
#include "lib/rpc/call_origin.h"
#include "lib/rpc/owner.h"
#include "lib/text/clean.h"
#include "tests/fuzz/fuzz.h"

namespace ask::fuzz {
namespace {

void check_peer(const Caller& caller) {
    require(!caller.verified && caller.tenant.empty() && caller.names.empty() && caller.own_ipv4.empty() &&
                caller.own_ipv6.empty(),
            "an address proves no name");
    require(!caller.role_switch && (!caller.role_operator || caller.uid), "nor a role");
    require(!caller.ipv4 || caller.address == format_ipv4(*caller.ipv4), "an address is shown as what it is");
    require(!caller.ipv6 || (!caller.ipv4 && parse_ipv6(caller.address) == caller.ipv6),
            "and is of one family");
}

struct Names {
    std::vector<std::string> dns;
    std::vector<std::string> ips;
    std::vector<std::string> uris;
};

Names take_names(Input& input) {
    Names names;
    for (unsigned left = input.below(8); left > 0; --left) {
        std::vector<std::string>* const lists[] = {&names.dns, &names.ips, &names.uris};
        std::vector<std::string>& list = *lists[input.below(3)];
        list.emplace_back(input.text(input.take<std::uint8_t>()));
    }
    return names;
}

void check_names(const Names& names, const Caller& caller) {
    std::vector<std::string> tenants;
    std::size_t addresses = 0;
    std::size_t addresses6 = 0;
    bool is_operator = false;
    for (const std::string& uri : names.uris) {
        if (uri.starts_with(kTenantUri)) {
            tenants.push_back(uri.substr(kTenantUri.size()));
        }
        is_operator = is_operator || uri == "ask://role/operator";
    }
    for (const std::string& ip : names.ips) {
        in_addr parsed{};
        // Which ends at a zero byte.
        if (ip.find('\0') == std::string::npos && ::inet_pton(AF_INET, ip.c_str(), &parsed) == 1) {
            ++addresses;
        }
        in6_addr parsed6{};
        if (ip.find('\0') == std::string::npos && ::inet_pton(AF_INET6, ip.c_str(), &parsed6) == 1) {
            ++addresses6;
        }
    }
    const bool sound = tenants.empty() || (tenants.size() == 1 && is_pin_name(tenants[0]));
    require(caller.verified && caller.names == names.dns && caller.own_ipv4.size() == addresses &&
                caller.own_ipv6.size() == addresses6,
            "names and addresses are what is said");
    require(caller.tenant == (sound && !tenants.empty() ? tenants[0] : ""), "one tenant, or none");
    require(caller.role_operator == (sound && is_operator), "an operator is who is said to be one");
    require(sound || !caller.role_switch, "who is said to be of two tenants is nothing");
}

bool is_one_of(const std::vector<std::string>& all, const std::string& one) {
    return std::ranges::find(all, one) != all.end();
}

void check_membership(Input& input, const Caller& caller) {
    Membership members;
    members.tenant = input.flag() ? caller.tenant : std::string(input.text(input.below(8)));
    if (input.flag()) {
        members.names.emplace_back(input.text(input.below(8)));
    }
    if (input.flag()) {
        members.hosts.push_back(input.take<std::uint32_t>());
    }
    members.token = input.text(input.below(32));
    const std::string token = input.flag() ? members.token : std::string(input.text(input.below(32)));
    const bool closed = !members.names.empty() || !members.hosts.empty() || !members.token.empty();
    const bool named = !members.names.empty() && is_one_of(caller.names, members.names[0]);
    const bool hosted = !members.hosts.empty() && acts_for(caller, members.hosts[0]);
    const bool shown = !members.token.empty() && token == members.token;
    const bool may = closed ? named || hosted || shown : caller.tenant == members.tenant;
    require(may_join(members, caller, token) == may, "a member is who is named, or shows the token");
    require(may_know(members, caller, token) == (may || caller.tenant == members.tenant),
            "members and the tenant may know");
}

bool is_printable(std::string_view text) {
    return std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

void check_text(const std::string& text) {
    const std::string name = clean_name(text);
    const std::string sentence = clean_text(text);
    require(is_printable(name) && name.size() <= kLongestName && clean_name(name) == name, "a clean name");
    require(is_printable(sentence) && sentence.size() <= kLongestText && clean_text(sentence) == sentence,
            "a clean sentence");
    require(!is_printable(text) || text.size() > kLongestText || sentence == text, "clean text stays");
    std::string lines = clean_lines(text);
    std::erase(lines, '\t');
    for (std::size_t at = lines.find('\n'); at != std::string::npos; at = lines.find('\n', at)) {
        require(lines.substr(at + 1, 2) == "  ", "no line begins as one of the log's own");
        lines.erase(at, 1);
    }
    require(is_printable(lines), "clean lines");
}

}  // namespace
}  // namespace ask::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace ask;
    fuzz::Input input(data, size);
    Caller caller = caller_from_peer(input.text(input.take<std::uint8_t>()));
    fuzz::check_peer(caller);
    if (input.flag()) {
        const fuzz::Names said = fuzz::take_names(input);
        CertificateNames names;
        std::ranges::for_each(said.dns, [&](const std::string& name) { names.add_dns(name); });
        std::ranges::for_each(said.ips, [&](const std::string& ip) { names.add_ip(ip); });
        std::ranges::for_each(said.uris, [&](const std::string& uri) { names.add_uri(uri); });
        const bool local = caller.role_operator;
        caller.role_operator = false;
        names.apply(caller);
        fuzz::check_names(said, caller);
        caller.role_operator = caller.role_operator || local;
    }
    fuzz::check_membership(input, caller);
    const auto owner = owner_for(caller, std::string(input.text(input.below(40))));
    fuzz::require(!owner.ok() || (acts_for(caller, owner->host) && owns(caller, *owner)),
                  "who owns what he opens may act for its host");
    fuzz::check_text(describe(caller));
    fuzz::check_text(std::string(input.rest()));
    return 0;
}
