// SPDX-License-Identifier: Apache-2.0
#include "bench/allreduce/sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

namespace ask::bench {
namespace {

// What connections are told before they are non-blocking.
Result<> make_quick(int fd) {
    const int one = 1;
    if (::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) != 0 ||
        ::fcntl(fd, F_SETFL, O_NONBLOCK) != 0) {
        return Error::from_errno(errno, "set up a connection");
    }
    return {};
}

Result<sockaddr_in> address_of(const std::string& host, std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    if (!host.empty() && ::inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) {
        return Error(Errc::kUsage, "'" + host + "' is not an IPv4 address");
    }
    return address;
}

bool not_now() {
    return errno == EAGAIN || errno == EINTR;
}

}  // namespace

Result<UniqueFd> listen_on(const std::string& host, std::uint16_t port, unsigned backlog) {
    const auto address = address_of(host, port);
    ASK_PASS(address);
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int one = 1;
    if (!fd || ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
        ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) != 0 ||
        ::listen(fd.get(), static_cast<int>(backlog)) != 0) {
        return Error::from_errno(errno, "listen on port " + std::to_string(port));
    }
    return fd;
}

Result<UniqueFd> connect_to(const std::string& host, std::uint16_t port, unsigned deadline_seconds) {
    const auto address = address_of(host, port);
    ASK_PASS(address);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(deadline_seconds);
    while (true) {
        UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (fd && ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) == 0) {
            return fd;
        }
        if (errno != ECONNREFUSED || std::chrono::steady_clock::now() > deadline) {
            return Error::from_errno(errno, "connect to " + host);
        }
        ::usleep(1000);  // nothing says when another host begins to listen
    }
}

Result<> introduce(int fd, unsigned rank) {
    const auto said = static_cast<std::uint8_t>(rank);
    if (::send(fd, &said, 1, MSG_NOSIGNAL) != 1) {
        return Error::from_errno(errno, "say which rank this is");
    }
    return make_quick(fd);
}

Result<Arrival> accept_from(int listener, unsigned deadline_seconds) {
    pollfd waiting{listener, POLLIN, 0};
    ASK_PASS(wait_for(std::span(&waiting, 1), deadline_seconds));
    Arrival arrival{UniqueFd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)), 0};
    std::uint8_t said = 0;
    if (!arrival.fd || ::recv(arrival.fd.get(), &said, 1, 0) != 1) {
        return Error::from_errno(errno, "accept");
    }
    arrival.rank = said;
    ASK_PASS(make_quick(arrival.fd.get()));
    return arrival;
}

Result<std::size_t> write_some(int fd, std::span<const std::byte> bytes) {
    if (bytes.empty()) {
        return std::size_t{0};
    }
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && !not_now()) {
        return Error::from_errno(errno, "send");
    }
    return sent < 0 ? 0 : static_cast<std::size_t>(sent);
}

Result<std::size_t> read_some(int fd, std::span<std::byte> bytes) {
    if (bytes.empty()) {
        return std::size_t{0};
    }
    const ssize_t got = ::recv(fd, bytes.data(), bytes.size(), 0);
    if (got < 0 && !not_now()) {
        return Error::from_errno(errno, "receive");
    }
    if (got == 0) {
        return Error(Errc::kUnavailable, "a connection was closed before its end");
    }
    return got < 0 ? 0 : static_cast<std::size_t>(got);
}

Result<> wait_for(std::span<pollfd> fds, unsigned deadline_seconds) {
    const int ready = ::poll(fds.data(), fds.size(), static_cast<int>(deadline_seconds) * 1000);
    if (ready < 0 && errno != EINTR) {
        return Error::from_errno(errno, "poll");
    }
    return ready != 0 ? Result<>()
                      : Error(Errc::kDeadline, "nothing came in " + std::to_string(deadline_seconds) + " s");
}

}  // namespace ask::bench
