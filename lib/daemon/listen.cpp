// SPDX-License-Identifier: Apache-2.0
#include "lib/daemon/listen.h"

#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>

#include "lib/base/unique_fd.h"
#include "lib/daemon/config.h"
#include "lib/net/address.h"

namespace ask {
namespace {

std::string what_to_do(int err, const std::string& key) {
    switch (err) {
        case EADDRINUSE:
            return ": stop what listens there (ss -ltnp shows it), or set another `" + key + "`";
        case EADDRNOTAVAIL:
            return ": `" + key + "` must name an address of this machine, or 0.0.0.0 for all";
        case EACCES:
            return ": set a port above 1023 in `" + key + "`, or allow this one (CAP_NET_BIND_SERVICE)";
        default:
            return {};
    }
}

Errc class_of(int err) {
    return err == EADDRINUSE ? Errc::kExists : err == EADDRNOTAVAIL ? Errc::kUnknown : Errc::kInternal;
}

Result<> try_listen(const addrinfo& at, const std::string& key, const std::string& address) {
    const UniqueFd fd(::socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    // As both servers do: connections of a former daemon that have not yet timed out are in nobody's way.
    if (fd && ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
        ::bind(fd.get(), at.ai_addr, at.ai_addrlen) == 0 && ::listen(fd.get(), 1) == 0) {
        return {};
    }
    const int err = errno;
    const Error error = Error::from_errno(err, key + ": cannot listen on " + address);
    const Errc code = error.code() == Errc::kInternal ? class_of(err) : error.code();
    return Error(code, error.text() + what_to_do(err, key));
}

}  // namespace

Result<> check_listen(const std::string& key, const std::string& address) {
    auto parts = split_host_port(address);
    ASK_TRY(parts, key);
    std::string host = parts->host;
    if (host.front() == '[' && host.back() == ']') {
        host = host.substr(1, host.size() - 2);
    }
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE;
    addrinfo* found = nullptr;
    const int error = ::getaddrinfo(host.c_str(), std::to_string(parts->port).c_str(), &hints, &found);
    if (error != 0) {
        return Error(Errc::kUnknown,
                     key + ": cannot listen on " + address + ": \"" + host + "\": " + ::gai_strerror(error));
    }
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, &::freeaddrinfo);
    return try_listen(*owned, key, address);
}

}  // namespace ask
