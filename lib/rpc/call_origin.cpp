// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/call_origin.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

#include <grpc/grpc_security_constants.h>

#include "lib/net/address.h"

namespace ask {
namespace {

std::string_view without_port(std::string_view text) {
    return text.substr(0, text.rfind(':'));
}

// gRPC writes brackets as in a URI.
std::string_view without_brackets(std::string_view text) {
    for (const std::string_view open : {"%5B", "[", "%5b"}) {
        if (text.starts_with(open)) {
            text.remove_prefix(open.size());
            return text.substr(0, text.find_first_of("%]"));
        }
    }
    return text;
}

// Who connected, as the kernel noted it then.
std::optional<std::uint32_t> uid_of(std::string_view number) {
    int fd = -1;
    const auto read = std::from_chars(number.data(), number.data() + number.size(), fd);
    ucred creds{};
    socklen_t size = sizeof(creds);
    sockaddr_storage own{};
    socklen_t own_size = sizeof(own);
    if (read.ec != std::errc() || read.ptr != number.data() + number.size() ||
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size) != 0 || own.ss_family != AF_UNIX ||
        ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &creds, &size) != 0) {
        return std::nullopt;
    }
    return creds.uid;
}

// A certificate that our CA has signed was shown then, since none else is let in.
bool is_tls(const grpc::AuthContext* auth) {
    if (auth == nullptr) {
        return false;
    }
    const auto types = auth->FindPropertyValues(GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME);
    return !types.empty() && types.front() == GRPC_SSL_TRANSPORT_SECURITY_TYPE;
}

}  // namespace

Caller caller_from_peer(std::string_view peer) {
    Caller caller;
    const std::string_view rest = peer.substr(peer.find(':') + 1);
    if (peer.starts_with("ipv4:")) {
        caller.address = without_port(rest);
        caller.ipv4 = parse_ipv4(caller.address);
    } else if (peer.starts_with("ipv6:")) {
        caller.address = without_brackets(without_port(rest));
        caller.ipv6 = parse_ipv6(caller.address);
        // An IPv4 host that came to an IPv6 socket.
        caller.ipv4 = caller.ipv6 ? mapped_ipv4(*caller.ipv6) : std::nullopt;
        if (caller.ipv4) {
            caller.ipv6.reset();
            caller.address = format_ipv4(*caller.ipv4);
        }
    } else if (peer.starts_with("fd:")) {
        caller.address = "local";
        caller.uid = uid_of(rest);
        // Whoever runs the daemon, and root, could do anything to it as they are.
        caller.role_operator = caller.uid && (*caller.uid == 0 || *caller.uid == ::geteuid());
    } else {
        caller.address = "unknown";
    }
    return caller;
}

bool shows_uri(const grpc::AuthContext* auth, std::string_view uri) {
    return is_tls(auth) && std::ranges::any_of(auth->FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME),
                                               [uri](const grpc::string_ref& shown) {
                                                   return std::string_view(shown.data(), shown.size()) == uri;
                                               });
}

std::vector<std::string> shown_addresses(const grpc::AuthContext* auth) {
    std::vector<std::string> all;
    if (is_tls(auth)) {
        for (const grpc::string_ref& address : auth->FindPropertyValues(GRPC_PEER_IP_PROPERTY_NAME)) {
            all.emplace_back(address.data(), address.size());
        }
    }
    return all;
}

Caller caller_of(const grpc::ServerContext& context) {
    Caller caller = caller_from_peer(context.peer());
    const auto auth = context.auth_context();
    if (!is_tls(auth.get())) {
        caller.plain_text = !caller.is_local();
        return caller;
    }
    CertificateNames names;
    for (const grpc::string_ref& name : auth->FindPropertyValues(GRPC_PEER_DNS_PROPERTY_NAME)) {
        names.add_dns({name.data(), name.size()});
    }
    for (const grpc::string_ref& address : auth->FindPropertyValues(GRPC_PEER_IP_PROPERTY_NAME)) {
        names.add_ip({address.data(), address.size()});
    }
    for (const grpc::string_ref& uri : auth->FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME)) {
        names.add_uri({uri.data(), uri.size()});
    }
    names.apply(caller);
    return caller;
}

}  // namespace ask
