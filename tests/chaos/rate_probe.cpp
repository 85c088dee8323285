// SPDX-License-Identifier: Apache-2.0
//
// ask-rate-probe: what a link lets through, of plain UDP and TCP. One subcommand an end.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace ask {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPatienceMs = 10'000;
constexpr std::size_t kDatagram = 1472;  // an MTU of 1500
constexpr std::size_t kSome = std::size_t{256} << 10U;

sockaddr_in address_of(const char* host, const char* port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(port)));
    ::inet_pton(AF_INET, host, &address.sin_addr);
    return address;
}

Result<UniqueFd> open_socket(bool tcp, const sockaddr_in& address, bool listens) {
    UniqueFd fd(::socket(AF_INET, (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC, 0));
    const auto* const to = reinterpret_cast<const sockaddr*>(&address);
    const int room = 8 << 20;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
    if (!fd ||
        (listens ? ::bind(fd.get(), to, sizeof(address)) : ::connect(fd.get(), to, sizeof(address))) != 0) {
        return Error::from_errno(errno, listens ? "bind" : "connect");
    }
    return fd;
}

double seconds_since(Clock::time_point then) {
    return std::chrono::duration<double>(Clock::now() - then).count();
}

// For so many seconds, as fast as it goes.
Result<> send(bool tcp, const sockaddr_in& to, double seconds) {
    const auto socket = open_socket(tcp, to, false);
    ASK_PASS(socket);
    std::array<std::byte, kDatagram> bytes{};
    for (const auto began = Clock::now(); seconds_since(began) < seconds;) {
        if (::send(socket->get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0 && errno != ENOBUFS) {
            return Error::from_errno(errno, "send");
        }
    }
    return {};
}

// {"bytes", "packets", "seconds"} from the first to the last; of UDP until nothing comes for half a second.
Result<> receive(bool tcp, const sockaddr_in& at) {
    auto socket = open_socket(tcp, at, true);
    ASK_PASS(socket);
    if (tcp) {
        if (::listen(socket->get(), 1) != 0) {
            return Error::from_errno(errno, "listen");
        }
        std::puts("ready");
        std::fflush(stdout);
        pollfd waiting{socket->get(), POLLIN, 0};
        if (::poll(&waiting, 1, kPatienceMs) != 1) {
            return Error(Errc::kDeadline, "nobody has connected");
        }
        socket = UniqueFd(::accept(socket->get(), nullptr, nullptr));
    } else {
        std::puts("ready");
        std::fflush(stdout);
    }
    std::string some(kSome, '\0');
    std::uint64_t bytes = 0;
    std::uint64_t packets = 0;
    Clock::time_point first;
    Clock::time_point last;
    for (;;) {
        pollfd waiting{socket->get(), POLLIN, 0};
        if (::poll(&waiting, 1, packets == 0 ? kPatienceMs : 500) != 1) {
            break;
        }
        const ssize_t got = ::recv(socket->get(), some.data(), some.size(), 0);
        if (got <= 0) {
            break;
        }
        last = Clock::now();
        first = packets == 0 ? last : first;
        bytes += packets == 0 ? 0 : static_cast<std::uint64_t>(got);
        ++packets;
    }
    std::printf("{\"bytes\": %llu, \"packets\": %llu, \"seconds\": %.6f}\n",
                static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(packets),
                std::chrono::duration<double>(last - first).count());
    return {};
}

}  // namespace
}  // namespace ask

int main(int argc, char** argv) {
    const std::string usage =
        "ask-rate-probe send udp|tcp HOST PORT SECONDS | receive udp|tcp ADDRESS PORT\n";
    if (argc < 5) {
        std::fputs(usage.c_str(), stderr);
        return 2;
    }
    const bool tcp = std::strcmp(argv[2], "tcp") == 0;
    const sockaddr_in address = ask::address_of(argv[3], argv[4]);
    const auto done = std::strcmp(argv[1], "send") == 0
                          ? ask::send(tcp, address, argc > 5 ? std::atof(argv[5]) : 1)
                          : ask::receive(tcp, address);
    if (!done) {
        std::fprintf(stderr, "ask-rate-probe: %s\n", done.error().text().c_str());
        return 1;
    }
    return 0;
}
