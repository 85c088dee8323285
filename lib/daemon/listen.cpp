// SPDX-License-Identifier: Apache-2.0
#include "lib/daemon/listen.h"

#include <grp.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <memory>
#include <vector>

#include "lib/base/unique_fd.h"
#include "lib/client/local_socket.h"
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

constexpr int kBacklog = 128;

Result<UniqueFd> try_listen(const addrinfo& at, const std::string& key, const std::string& address) {
    UniqueFd fd(::socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;
    // Connections of a former daemon that have not yet timed out are in nobody's way.
    if (fd && ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
        ::bind(fd.get(), at.ai_addr, at.ai_addrlen) == 0 && ::listen(fd.get(), kBacklog) == 0) {
        return fd;
    }
    const int err = errno;
    const Error error = Error::from_errno(err, key + ": cannot listen on " + address);
    const Errc code = error.code() == Errc::kInternal ? class_of(err) : error.code();
    return Error(code, error.text() + what_to_do(err, key));
}

// A file that nobody listens at any more.
Result<> clear_stale_file(const sockaddr_un& address, const std::string& path) {
    const UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const bool answered =
        ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ||
        errno == EAGAIN;
    if (answered) {
        return Error(Errc::kExists,
                     path + ": another daemon answers there: stop it, or use another `socket`");
    }
    if (errno == ECONNREFUSED) {
        ::unlink(path.c_str());
    }
    return {};
}

}  // namespace

Result<> check_listen(const std::string& key, const std::string& address) {
    ASK_PASS(listen_tcp(key, address));
    return {};
}

Result<UniqueFd> listen_tcp(const std::string& key, const std::string& address) {
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

Result<> make_socket_directory(const std::string& socket) {
    std::error_code error;
    const std::filesystem::path directory = std::filesystem::path(socket).parent_path();
    std::filesystem::create_directories(directory, error);
    if (error) {
        return Error(Errc::kDenied, "make directory " + directory.string() + ": " + error.message());
    }
    return {};
}

Result<gid_t> socket_group(const std::string& name) {
    if (name.empty()) {
        return ::getegid();
    }
    constexpr std::size_t kRoom = 16384;
    std::vector<char> room(kRoom);
    group entry{};
    group* found = nullptr;
    if (::getgrnam_r(name.c_str(), &entry, room.data(), room.size(), &found) == 0 && found != nullptr) {
        return found->gr_gid;
    }
    gid_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    // The highest number means "none" to the kernel.
    if (error != std::errc() || end != name.data() + name.size() || number == static_cast<gid_t>(-1)) {
        return Error(Errc::kUnknown, "socket_group: there is no group \"" + name + "\": make it (groupadd " +
                                         name + "), or name another");
    }
    return number;
}

Result<UniqueFd> listen_local(const std::string& path, gid_t group) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof(address.sun_path)) {
        return Error(Errc::kUsage, "socket: " + path + " is too long for the kernel");
    }
    path.copy(address.sun_path, path.size());
    ASK_PASS(clear_stale_file(address, path));
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
        const int err = errno;
        return Error::from_errno(err, "socket: cannot listen at " + path + " (its directory must exist)");
    }
    // Nobody can connect before listen(), so nobody slips in under the umask's permissions.
    ASK_PASS(open_to_group(path, group));
    if (::listen(fd.get(), kBacklog) != 0) {
        return Error::from_errno(errno, "socket: cannot listen at " + path);
    }
    return fd;
}

}  // namespace ask
