// SPDX-License-Identifier: Apache-2.0
//
// Who calls: what the kernel and the certificate prove, never what is in the message. docs/security.md says
// which names of a certificate mean what.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/net/host_book.h"

namespace ask {

struct Caller {
    // Where it comes from, without a port: "198.18.1.2", "2001:db8::1"; of a local caller "local".
    std::string address;
    std::optional<std::uint32_t> ipv4;  // the same in host byte order, if it is one
    std::optional<Ipv6Address> ipv6;    // the same, if it is one
    std::optional<std::uint32_t> uid;   // of a local caller: who connected
    bool plain_text = false;  // over the network, and nothing is proved: the daemon was told to allow it
    // From here on: of a certificate that our CA has signed, or nothing.
    bool verified = false;
    std::vector<std::string> names;       // DNS names: for messages, the first of them
    std::vector<std::uint32_t> own_ipv4;  // addresses that it may act for
    std::vector<Ipv6Address> own_ipv6;
    std::string tenant;          // empty: none
    bool role_operator = false;  // may look at and end what is not its own
    bool role_switch = false;    // an ask-switchd

    [[nodiscard]] bool is_local() const { return uid.has_value(); }
};

// Names in a certificate's subject alternative name, as URI.
inline constexpr std::string_view kTenantUri = "ask://tenant/";
inline constexpr std::string_view kOperatorUri = "ask://role/operator";
inline constexpr std::string_view kSwitchUri = "ask://role/switch";

// Whether the caller may act for the host of this number: its certificate says so, or, if it has shown none,
// it calls from there. By the whole address of an IPv6 host, which the book has to know: there are others of
// the same number for whoever may choose.
[[nodiscard]] bool acts_for(const Caller& caller, std::uint32_t host);
// The same of one that the book need not know.
[[nodiscard]] bool acts_for(const Caller& caller, const NamedHost& host);

// The number of the host that it calls from, which the book knows from here on; none: a local caller, or an
// address that is no host's.
[[nodiscard]] std::optional<std::uint32_t> host_of(const Caller& caller);

// Whether the caller may look at and end what is not its own. Where plain text was asked for, nobody can be
// told from anybody else.
[[nodiscard]] inline bool may_operate(const Caller& caller) {
    return caller.role_operator || caller.plain_text;
}

// For messages and logs: "h1 (198.18.1.2)", "198.18.1.2", "user 1000".
[[nodiscard]] std::string describe(const Caller& caller);

// The tenant that a certificate with these URIs names; empty: none.
[[nodiscard]] std::string tenant_of(const std::vector<std::string>& uris);

// What a certificate says of its owner, one name of it after the other. A second tenant, or one that is no
// name, leaves the caller with neither tenant nor role.
class CertificateNames {
 public:
    void add_dns(std::string_view name);
    void add_ip(std::string_view address);
    void add_uri(std::string_view uri);
    // Into `caller`, which has shown it.
    void apply(Caller& caller) const;

 private:
    Caller said_;
    bool tenant_said_ = false;
    bool bad_ = false;
};

}  // namespace ask
