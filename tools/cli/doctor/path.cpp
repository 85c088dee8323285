// SPDX-License-Identifier: Apache-2.0
//
// How large packets may be between here and another host: by ICMP echoes that must not be fragmented, since
// what is silently dropped on the way, nobody else tells.
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <numeric>
#include <span>

#include "lib/base/unique_fd.h"
#include "lib/net/address.h"
#include "lib/net/netlink.h"
#include "tools/cli/doctor/gather.h"

namespace ask::cli::doctor {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kEchoWait{300};
constexpr std::uint32_t kSmallest =
    84;  // of the packets that are tried: an IP header, and ICMP's with 56 bytes
constexpr int kTries = 2;

std::uint16_t checksum_of(std::span<const std::uint8_t> bytes) {
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        sum += i % 2 == 0 ? std::uint32_t{bytes[i]} << 8U : bytes[i];
    }
    sum = (sum >> 16U) + (sum & 0xffffU);
    return static_cast<std::uint16_t>(~(sum + (sum >> 16U)));
}

// Asks one host for echoes.
class Echo {
 public:
    explicit Echo(std::uint32_t address)
        : fd_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_ICMP)) {
        if (!fd_) {
            // Not for every user, or not in every network namespace.
            fd_ = UniqueFd(::socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_ICMP));
            raw_ = true;
        }
        const sockaddr_in to{
            .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(address)}, .sin_zero = {}};
        const int never_fragment = IP_PMTUDISC_PROBE;
        usable_ = fd_ &&
                  ::setsockopt(fd_.get(), IPPROTO_IP, IP_MTU_DISCOVER, &never_fragment,
                               sizeof(never_fragment)) == 0 &&
                  ::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0;
    }

    // Whether an IP packet of so many bytes comes back.
    bool comes_back(std::uint32_t bytes) {
        for (int i = 0; usable_ && i < kTries; ++i) {
            if (comes_back_once(bytes)) {
                return true;
            }
        }
        return false;
    }

 private:
    bool comes_back_once(std::uint32_t bytes) {
        std::vector<std::uint8_t> packet(bytes - sizeof(iphdr), 0);
        icmphdr header{};
        header.type = ICMP_ECHO;
        header.un.echo.id = htons(static_cast<std::uint16_t>(::getpid()));
        header.un.echo.sequence = htons(++sequence_);
        std::memcpy(packet.data(), &header, sizeof(header));
        header.checksum = htons(checksum_of(packet));
        std::memcpy(packet.data(), &header, sizeof(header));
        if (::send(fd_.get(), packet.data(), packet.size(), 0) < 0) {
            return false;
        }
        const auto until = Clock::now() + kEchoWait;
        for (auto left = kEchoWait; left.count() > 0;
             left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now())) {
            pollfd entry{.fd = fd_.get(), .events = POLLIN, .revents = 0};
            if (::poll(&entry, 1, static_cast<int>(left.count())) > 0 && is_answer()) {
                return true;
            }
        }
        return false;
    }

    // To the last question; a raw socket has all that comes, with its IP header.
    bool is_answer() {
        std::array<std::uint8_t, 128> got{};
        const ssize_t n = ::recv(fd_.get(), got.data(), got.size(), MSG_TRUNC);
        const std::size_t begins = raw_ ? std::size_t{4} * (got[0] & 15U) : 0;
        icmphdr header{};
        if (n < 0 || static_cast<std::size_t>(n) < begins + sizeof(header)) {
            return false;
        }
        std::memcpy(&header, got.data() + begins, sizeof(header));
        // The kernel writes the id of its own sockets' echoes.
        return header.type == ICMP_ECHOREPLY && ntohs(header.un.echo.sequence) == sequence_ &&
               (!raw_ || ntohs(header.un.echo.id) == static_cast<std::uint16_t>(::getpid()));
    }

    UniqueFd fd_;
    bool raw_ = false;
    bool usable_ = false;
    std::uint16_t sequence_ = 0;
};

}  // namespace

PathFacts look_at_path(const PathQuestion& question) {
    PathFacts path;
    path.to = question.name;
    path.address = question.address;
    const auto address = parse_ipv4(question.address);
    auto netlink = Netlink::open();
    if (!address || !netlink) {
        return path;
    }
    const auto route = netlink->route(*address);
    if (!route) {
        return path;
    }
    path.local = route->local;
    std::array<char, IF_NAMESIZE> name{};
    if (::if_indextoname(route->interface_index, name.data()) == nullptr) {
        return path;
    }
    path.leaves_by = name.data();
    if (const auto interface = netlink->interface(path.leaves_by)) {
        path.mtu = interface->mtu;
    }
    Echo echo(*address);
    path.answers = !path.local && echo.comes_back(kSmallest);
    if (!path.answers) {
        return path;
    }
    // What came through, and the least that did not.
    path.largest = kSmallest;
    std::uint32_t too_large = std::max(path.mtu, kSmallest) + 1;
    for (std::uint32_t size = path.mtu; path.largest + 1 < too_large;
         size = std::midpoint(path.largest, too_large)) {
        (echo.comes_back(size) ? path.largest : too_large) = size;
    }
    return path;
}

}  // namespace ask::cli::doctor
