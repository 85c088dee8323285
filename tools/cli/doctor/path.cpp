// SPDX-License-Identifier: Apache-2.0
//
// How large packets may be between here and another host: by ICMP echoes that must not be fragmented, since
// what is silently dropped on the way, nobody else tells.
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
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
#include "lib/net/host_book.h"
#include "lib/net/netlink.h"
#include "tools/cli/doctor/gather.h"

namespace ask::cli::doctor {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kEchoWait{300};
constexpr std::uint32_t kSmallest =
    84;  // of the packets that are tried: an IP header, ICMP's, and 36 or 56 bytes
constexpr int kTries = 2;

std::uint16_t checksum_of(std::span<const std::uint8_t> bytes) {
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        sum += i % 2 == 0 ? std::uint32_t{bytes[i]} << 8U : bytes[i];
    }
    sum = (sum >> 16U) + (sum & 0xffffU);
    return static_cast<std::uint16_t>(~(sum + (sum >> 16U)));
}

// Echoes of both families have one header, of other types.
struct Family {
    int domain;
    int protocol;
    std::uint8_t asks;
    std::uint8_t answers;
    std::uint32_t ip_header;
};
constexpr Family kIpv4{AF_INET, IPPROTO_ICMP, ICMP_ECHO, ICMP_ECHOREPLY, sizeof(iphdr)};
constexpr Family kIpv6{AF_INET6, IPPROTO_ICMPV6, ICMP6_ECHO_REQUEST, ICMP6_ECHO_REPLY, sizeof(ip6_hdr)};

// Asks one host for echoes.
class Echo {
 public:
    explicit Echo(std::uint32_t host) : family_(is_ipv6_number(host) ? kIpv6 : kIpv4), fd_(open(SOCK_DGRAM)) {
        if (!fd_) {
            // Not for every user, or not in every network namespace.
            fd_ = open(SOCK_RAW);
            raw_ = true;
        }
        usable_ = fd_ && never_fragments() && connects(host);
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
    [[nodiscard]] UniqueFd open(int type) const {
        return UniqueFd(::socket(family_.domain, type | SOCK_CLOEXEC | SOCK_NONBLOCK, family_.protocol));
    }
    bool never_fragments() {
        constexpr int kProbe = IP_PMTUDISC_PROBE;
        static_assert(IPV6_PMTUDISC_PROBE == kProbe);
        const bool six = family_.domain == AF_INET6;
        return ::setsockopt(fd_.get(), six ? IPPROTO_IPV6 : IPPROTO_IP,
                            six ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER, &kProbe, sizeof(kProbe)) == 0;
    }
    bool connects(std::uint32_t host) {
        if (const auto address = ipv6_of(host)) {
            sockaddr_in6 to{};
            to.sin6_family = AF_INET6;
            std::memcpy(&to.sin6_addr, address->data(), address->size());
            return ::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0;
        }
        const sockaddr_in to{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(host)}, .sin_zero = {}};
        return ::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0;
    }

    bool comes_back_once(std::uint32_t bytes) {
        std::vector<std::uint8_t> packet(bytes - family_.ip_header, 0);
        icmphdr header{};
        header.type = family_.asks;
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

    // To the last question; a raw socket has all that comes, of IPv4 with its IP header.
    bool is_answer() {
        std::array<std::uint8_t, 128> got{};
        const ssize_t n = ::recv(fd_.get(), got.data(), got.size(), MSG_TRUNC);
        const bool after_ip = raw_ && family_.domain == AF_INET;
        const std::size_t begins = after_ip ? std::size_t{4} * (got[0] & 15U) : 0;
        icmphdr header{};
        if (n < 0 || static_cast<std::size_t>(n) < begins + sizeof(header)) {
            return false;
        }
        std::memcpy(&header, got.data() + begins, sizeof(header));
        // The kernel writes the id of its own sockets' echoes.
        return header.type == family_.answers && ntohs(header.un.echo.sequence) == sequence_ &&
               (!raw_ || ntohs(header.un.echo.id) == static_cast<std::uint16_t>(::getpid()));
    }

    const Family family_;
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
    const auto address = parse_host(question.address);
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
