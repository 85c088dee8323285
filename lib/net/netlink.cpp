// SPDX-License-Identifier: Apache-2.0
#include "lib/net/netlink.h"

#include <arpa/inet.h>
#include <linux/ethtool.h>
#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/if_bonding.h>
#include <linux/if_bridge.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

namespace ask {
namespace {

using std::chrono::milliseconds;

constexpr int kAnswerTimeoutMs = 2000;
constexpr std::uint16_t kUsableNeighbour =
    NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY;

// A request with its fixed part and room for a few attributes.
template <typename Fixed>
struct Request {
    nlmsghdr header{};
    Fixed fixed{};
    alignas(NLMSG_ALIGNTO) std::array<std::byte, 64> attributes{};

    Request(std::uint16_t type, std::uint16_t flags) {
        header.nlmsg_len = NLMSG_LENGTH(sizeof(Fixed));
        header.nlmsg_type = type;
        header.nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags);
    }
    void add(std::uint16_t type, const void* data, std::size_t bytes) {
        rtattr attribute{};
        attribute.rta_type = type;
        attribute.rta_len = static_cast<std::uint16_t>(RTA_LENGTH(bytes));
        std::byte* const at = reinterpret_cast<std::byte*>(this) + NLMSG_ALIGN(header.nlmsg_len);
        std::memcpy(at, &attribute, sizeof(attribute));
        std::memcpy(at + RTA_LENGTH(0), data, bytes);
        header.nlmsg_len = static_cast<std::uint32_t>(NLMSG_ALIGN(header.nlmsg_len) + RTA_SPACE(bytes));
    }
    void add_u32(std::uint16_t type, std::uint32_t value) { add(type, &value, sizeof(value)); }
};

// The fixed part of an answer, if the message is long enough for it.
template <typename Fixed>
const Fixed* fixed_part(const nlmsghdr& message, std::uint16_t type) {
    if (message.nlmsg_type != type || message.nlmsg_len < NLMSG_LENGTH(sizeof(Fixed))) {
        return nullptr;
    }
    return reinterpret_cast<const Fixed*>(reinterpret_cast<const std::byte*>(&message) + NLMSG_HDRLEN);
}

// Calls visit(type, bytes) for each attribute in `bytes`.
template <typename Visit>
void each_attribute(std::span<const std::byte> bytes, Visit&& visit) {
    while (bytes.size() >= sizeof(rtattr)) {
        rtattr attribute{};
        std::memcpy(&attribute, bytes.data(), sizeof(attribute));
        if (attribute.rta_len < sizeof(rtattr) || attribute.rta_len > bytes.size()) {
            return;
        }
        visit(attribute.rta_type & static_cast<unsigned>(NLA_TYPE_MASK),
              bytes.subspan(RTA_LENGTH(0), attribute.rta_len - RTA_LENGTH(0)));
        bytes = bytes.subspan(std::min<std::size_t>(RTA_ALIGN(attribute.rta_len), bytes.size()));
    }
}

template <typename Fixed>
std::span<const std::byte> attributes_of(const nlmsghdr& message) {
    const std::size_t skip = NLMSG_SPACE(sizeof(Fixed));
    const std::span<const std::byte> all(reinterpret_cast<const std::byte*>(&message), message.nlmsg_len);
    return all.subspan(std::min(skip, all.size()));
}

std::uint32_t read_u32(std::span<const std::byte> bytes) {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof(value)));
    return value;
}

std::string read_text(std::span<const std::byte> bytes) {
    const auto* const text = reinterpret_cast<const char*>(bytes.data());
    return {text, strnlen(text, bytes.size())};
}

std::uint16_t read_u16(std::span<const std::byte> bytes) {
    std::uint16_t value = 0;
    std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof(value)));
    return value;
}

void read_vlan_attribute(InterfaceInfo& info, unsigned type, std::span<const std::byte> bytes) {
    if (type == IFLA_VLAN_ID) {
        info.vlan = read_u16(bytes);
    } else if (type == IFLA_VLAN_PROTOCOL) {
        info.service_tags = ntohs(read_u16(bytes)) != ETH_P_8021Q;
    }
}

void read_bond_attribute(InterfaceInfo& info, unsigned type, std::span<const std::byte> bytes) {
    if (type == IFLA_BOND_MODE && !bytes.empty()) {
        info.bond_mode = std::to_integer<std::uint8_t>(bytes.front());
    } else if (type == IFLA_BOND_XMIT_HASH_POLICY && !bytes.empty()) {
        info.bond_policy = std::to_integer<std::uint8_t>(bytes.front());
    } else if (type == IFLA_BOND_FAIL_OVER_MAC && !bytes.empty()) {
        info.bond_changes_mac = bytes.front() != std::byte{0};
    }
}

// What a bond thinks of its member.
void read_member_attribute(InterfaceInfo& info, unsigned type, std::span<const std::byte> bytes) {
    static_assert(BOND_STATE_ACTIVE == BOND_LINK_UP);
    if ((type == IFLA_BOND_SLAVE_STATE || type == IFLA_BOND_SLAVE_MII_STATUS) && !bytes.empty()) {
        info.bond_sends = info.bond_sends && bytes.front() == std::byte{BOND_LINK_UP};
    }
}

// What stands in IFLA_LINKINFO: kinds ahead of what is theirs.
void read_kind_attribute(InterfaceInfo& info, unsigned type, std::span<const std::byte> bytes) {
    if (type == IFLA_INFO_KIND) {
        info.kind = read_text(bytes);
    } else if (type == IFLA_INFO_DATA && info.kind == "bridge") {
        each_attribute(bytes, [&](unsigned inner, std::span<const std::byte> value) {
            if (inner == IFLA_BR_VLAN_FILTERING && !value.empty()) {
                info.filters_vlans = value.front() != std::byte{0};
            } else if (inner == IFLA_BR_VLAN_PROTOCOL) {
                info.service_tags = ntohs(read_u16(value)) != ETH_P_8021Q;
            }
        });
    } else if (type == IFLA_INFO_DATA && info.kind == "vlan") {
        each_attribute(bytes, [&](unsigned inner, std::span<const std::byte> value) {
            read_vlan_attribute(info, inner, value);
        });
    } else if (type == IFLA_INFO_DATA && info.kind == "bond") {
        each_attribute(bytes, [&](unsigned inner, std::span<const std::byte> value) {
            read_bond_attribute(info, inner, value);
        });
    } else if (type == IFLA_INFO_SLAVE_KIND) {
        info.bond_sends = info.carrier && read_text(bytes) == "bond";
    } else if (type == IFLA_INFO_SLAVE_DATA && info.bond_sends) {
        each_attribute(bytes, [&](unsigned inner, std::span<const std::byte> value) {
            read_member_attribute(info, inner, value);
        });
    }
}

void read_link_attribute(InterfaceInfo& info, unsigned type, std::span<const std::byte> bytes) {
    switch (type) {
        case IFLA_IFNAME:
            info.name = read_text(bytes);
            break;
        case IFLA_ADDRESS:
            if (bytes.size() == info.mac.size()) {
                std::memcpy(info.mac.data(), bytes.data(), info.mac.size());
            }
            break;
        case IFLA_MTU:
            info.mtu = read_u32(bytes);
            break;
        case IFLA_NUM_RX_QUEUES:
            info.rx_queues = read_u32(bytes);
            break;
        case IFLA_MASTER:
            info.master = read_u32(bytes);
            break;
        case IFLA_LINK:
            info.lower = read_u32(bytes);
            break;
        case IFLA_LINK_NETNSID:
            info.lower_elsewhere = true;
            break;
        case IFLA_LINKINFO:
            each_attribute(bytes, [&](unsigned inner, std::span<const std::byte> value) {
                read_kind_attribute(info, inner, value);
            });
            break;
        case IFLA_XDP:
            each_attribute(bytes, [&](unsigned inner, std::span<const std::byte> value) {
                if (inner == IFLA_XDP_PROG_ID) {
                    info.xdp_program = read_u32(value);
                } else if (inner == IFLA_XDP_ATTACHED && !value.empty()) {
                    info.xdp_generic = std::to_integer<std::uint8_t>(value[0]) == XDP_ATTACHED_SKB;
                }
            });
            break;
        default:
            break;
    }
}

void read_link(InterfaceInfo& info, const ifinfomsg& fixed) {
    info.index = static_cast<std::uint32_t>(fixed.ifi_index);
    info.up = (fixed.ifi_flags & IFF_UP) != 0;
    info.carrier = (fixed.ifi_flags & IFF_LOWER_UP) != 0;
    info.loopback = (fixed.ifi_flags & IFF_LOOPBACK) != 0;
}

std::optional<Ipv6Address> read_ipv6(std::span<const std::byte> bytes) {
    Ipv6Address address{};
    if (bytes.size() != address.size()) {
        return std::nullopt;
    }
    std::memcpy(address.data(), bytes.data(), address.size());
    return address;
}

void read_route_attribute(Route& route, unsigned type, std::span<const std::byte> bytes) {
    if (type == RTA_OIF) {
        route.interface_index = read_u32(bytes);
    } else if (type == RTA_GATEWAY && route.next_hop6) {
        route.next_hop6 = read_ipv6(bytes);
    } else if (type == RTA_GATEWAY) {
        route.next_hop = ntohl(read_u32(bytes));
    }
}

// Calls visit(hop, attributes) for each next hop of RTA_MULTIPATH.
template <typename Visit>
void each_next_hop(std::span<const std::byte> bytes, Visit&& visit) {
    while (bytes.size() >= sizeof(rtnexthop)) {
        rtnexthop hop{};
        std::memcpy(&hop, bytes.data(), sizeof(hop));
        if (hop.rtnh_len < sizeof(rtnexthop) || hop.rtnh_len > bytes.size()) {
            return;
        }
        visit(hop, bytes.subspan(sizeof(hop), hop.rtnh_len - sizeof(hop)));
        bytes = bytes.subspan(std::min<std::size_t>(RTNH_ALIGN(hop.rtnh_len), bytes.size()));
    }
}

// `none`: what is known of each of them before.
std::vector<Route> read_ways(const nlmsghdr& message, const Route& none) {
    constexpr unsigned kHopDown = RTNH_F_DEAD | RTNH_F_LINKDOWN;
    Route single = none;
    std::vector<Route> ways;
    each_attribute(attributes_of<rtmsg>(message), [&](unsigned type, std::span<const std::byte> bytes) {
        read_route_attribute(single, type, bytes);
        if (type != RTA_MULTIPATH) {
            return;
        }
        each_next_hop(bytes, [&](const rtnexthop& hop, std::span<const std::byte> attributes) {
            Route way = none;
            each_attribute(attributes, [&](unsigned inner, std::span<const std::byte> value) {
                read_route_attribute(way, inner, value);
            });
            way.interface_index = static_cast<std::uint32_t>(hop.rtnh_ifindex);
            way.down = (hop.rtnh_flags & kHopDown) != 0;
            ways.push_back(way);
        });
    });
    if (ways.empty()) {
        ways.push_back(single);
    }
    return ways;
}

// Whether others may reach an interface by an address that it has.
bool is_usable(const ifaddrmsg& fixed) {
    constexpr unsigned kNot6 = IFA_F_TEMPORARY | IFA_F_DEPRECATED | IFA_F_DADFAILED;
    return fixed.ifa_family == AF_INET ||
           (fixed.ifa_scope == RT_SCOPE_UNIVERSE && (fixed.ifa_flags & kNot6) == 0);
}

// An interface's own address: beside a peer's, IPv6 says so as IPv4 always does.
std::span<const std::byte> local_address(const nlmsghdr& message) {
    std::span<const std::byte> local;
    std::span<const std::byte> address;
    each_attribute(attributes_of<ifaddrmsg>(message), [&](unsigned type, std::span<const std::byte> bytes) {
        local = type == IFA_LOCAL ? bytes : local;
        address = type == IFA_ADDRESS ? bytes : address;
    });
    return local.empty() ? address : local;
}

// Of what a bridge says of one of its ports, or of itself: the VLAN of frames without a tag, in and out.
std::uint16_t untagged_vlan(const nlmsghdr& message) {
    constexpr unsigned kBothWays = BRIDGE_VLAN_INFO_PVID | BRIDGE_VLAN_INFO_UNTAGGED;
    std::uint16_t vlan = 0;
    const auto read = [&vlan](unsigned type, std::span<const std::byte> bytes) {
        bridge_vlan_info info{};
        std::memcpy(&info, bytes.data(), std::min(bytes.size(), sizeof(info)));
        if (type == IFLA_BRIDGE_VLAN_INFO && (info.flags & kBothWays) == kBothWays) {
            vlan = info.vid;
        }
    };
    each_attribute(attributes_of<ifinfomsg>(message), [&](unsigned type, std::span<const std::byte> bytes) {
        if (type == IFLA_AF_SPEC) {
            each_attribute(bytes, read);
        }
    });
    return vlan;
}

}  // namespace

struct Netlink::Wanted {
    std::uint8_t family = AF_INET;
    std::array<std::byte, sizeof(Ipv6Address)> bytes{};
    std::size_t size = sizeof(std::uint32_t);
    std::string text;

    Wanted(std::uint32_t ipv4) : text(format_ipv4(ipv4)) {
        const std::uint32_t raw = htonl(ipv4);
        std::memcpy(bytes.data(), &raw, sizeof(raw));
    }
    Wanted(const Ipv6Address& ipv6) : family(AF_INET6), size(ipv6.size()), text(format_ipv6(ipv6)) {
        std::memcpy(bytes.data(), ipv6.data(), ipv6.size());
    }
    [[nodiscard]] bool ipv6() const { return family == AF_INET6; }
    // A way there of which no gateway is known.
    [[nodiscard]] Route on_link(bool local) const {
        Route way{.local = local};
        if (ipv6()) {
            way.next_hop6 = read_ipv6(bytes);
        } else {
            way.next_hop = ntohl(read_u32(bytes));
        }
        return way;
    }
    void ask_route(Request<rtmsg>& look_up) const {
        constexpr unsigned kBitsOfByte = 8;
        look_up.fixed.rtm_family = family;
        look_up.fixed.rtm_dst_len = static_cast<std::uint8_t>(kBitsOfByte * size);
        look_up.add(RTA_DST, bytes.data(), size);
    }
    void ask_neighbour(Request<ndmsg>& look_up, std::uint32_t interface_index) const {
        look_up.fixed.ndm_family = family;
        look_up.fixed.ndm_ifindex = static_cast<std::int32_t>(interface_index);
        look_up.add(NDA_DST, bytes.data(), size);
    }
};

Result<Netlink::Wanted> Netlink::wanted_host(std::uint32_t number) {
    if (!is_ipv6_number(number)) {
        return Wanted(number);
    }
    const auto address = ipv6_of(number);
    return address ? Result<Wanted>(Wanted(*address))
                   : Error(Errc::kUnknown, format_host(number) + ": nobody told of its address");
}

Netlink::Wanted Netlink::next_hop_of(const Route& way) {
    return way.next_hop6 ? Wanted(*way.next_hop6) : Wanted(way.next_hop);
}

std::string format_next_hop(const Route& way) {
    return way.next_hop6 ? format_ipv6(*way.next_hop6) : format_ipv4(way.next_hop);
}

Result<Netlink> Netlink::open() {
    UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    if (!fd) {
        return Error::from_errno(errno, "open a netlink socket");
    }
    return Netlink(std::move(fd));
}

Result<> Netlink::request(nlmsghdr& header, const Visit& visit) {
    header.nlmsg_seq = ++sequence_;
    // To the kernel, as the socket is connected to nobody.
    if (::send(fd_.get(), &header, header.nlmsg_len, 0) < 0) {
        return Error::from_errno(errno, "send a netlink request");
    }
    for (;;) {
        auto more = receive_answer(visit);
        if (!more) {
            return std::move(more).error();
        }
        if (!*more) {
            return {};
        }
    }
}

// One datagram of an answer; true: more will come.
Result<bool> Netlink::receive_answer(const Visit& visit) {
    alignas(nlmsghdr) std::array<std::byte, 32768> buffer;
    pollfd entry{.fd = fd_.get(), .events = POLLIN, .revents = 0};
    const int ready = ::poll(&entry, 1, kAnswerTimeoutMs);
    if (ready == 0) {
        return Error(Errc::kDeadline, "the kernel did not answer a netlink request");
    }
    const ssize_t size = ready < 0 ? -1 : ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
    if (size < 0) {
        return errno == EINTR ? Result<bool>(true) : Error::from_errno(errno, "receive from netlink");
    }
    auto left = static_cast<std::size_t>(size);
    const std::byte* at = buffer.data();
    while (left >= sizeof(nlmsghdr)) {
        const auto* message = reinterpret_cast<const nlmsghdr*>(at);
        if (message->nlmsg_len < sizeof(nlmsghdr) || message->nlmsg_len > left) {
            return Error(Errc::kInternal, "a netlink message is cut short");
        }
        if (message->nlmsg_seq == sequence_) {
            if (message->nlmsg_type == NLMSG_DONE) {
                return false;
            }
            if (message->nlmsg_type == NLMSG_ERROR) {
                std::int32_t error = 0;
                std::memcpy(&error, at + NLMSG_HDRLEN, sizeof(error));
                return error == 0 ? Result<bool>(false) : Error::from_errno(-error, "netlink");
            }
            visit(*message);
            if ((message->nlmsg_flags & NLM_F_MULTI) == 0) {
                return false;
            }
        }
        const std::size_t step = std::min<std::size_t>(NLMSG_ALIGN(message->nlmsg_len), left);
        at += step;
        left -= step;
    }
    return true;
}

std::uint32_t sending_queues(const std::string& name) {
    constexpr std::uint32_t kAll = std::numeric_limits<std::uint32_t>::max();
    ethtool_channels channels{};
    channels.cmd = ETHTOOL_GCHANNELS;
    ifreq request{};
    request.ifr_data = reinterpret_cast<char*>(&channels);
    const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!socket || name.size() >= sizeof(request.ifr_name)) {
        return kAll;
    }
    std::memcpy(request.ifr_name, name.data(), name.size());
    if (::ioctl(socket.get(), SIOCETHTOOL, &request) != 0) {
        return kAll;
    }
    const std::uint32_t sending = channels.combined_count + channels.tx_count;
    return sending == 0 ? kAll : sending;
}

bool has_interface(std::uint32_t index) {
    ifreq request{};
    request.ifr_ifindex = static_cast<int>(index);
    const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    return !socket || ::ioctl(socket.get(), SIOCGIFNAME, &request) == 0 || errno != ENODEV;
}

Result<> Netlink::link(const std::string& name, const VisitLink& visit) {
    if (name.empty() || name.size() >= IFNAMSIZ) {
        return Error(Errc::kUnknown, "interface " + name + ": no such name is possible");
    }
    Request<ifinfomsg> ask_link(RTM_GETLINK, 0);
    ask_link.fixed.ifi_family = AF_UNSPEC;
    ask_link.add(IFLA_IFNAME, name.c_str(), name.size() + 1);
    bool found = false;
    ASK_TRY(request(ask_link.header,
                    [&](const nlmsghdr& message) {
                        const auto* fixed = fixed_part<ifinfomsg>(message, RTM_NEWLINK);
                        if (fixed == nullptr) {
                            return;
                        }
                        found = fixed->ifi_index != 0;
                        each_attribute(attributes_of<ifinfomsg>(message),
                                       [&](unsigned type, std::span<const std::byte> bytes) {
                                           visit(*fixed, type, bytes);
                                       });
                    }),
            "interface " + name);
    if (!found) {
        return Error(Errc::kUnknown, "interface " + name + ": not there");
    }
    return {};
}

Result<InterfaceInfo> Netlink::interface(std::string_view name) {
    InterfaceInfo info;
    ASK_PASS(
        link(std::string(name), [&](const ifinfomsg& fixed, unsigned type, std::span<const std::byte> bytes) {
            read_link(info, fixed);
            read_link_attribute(info, type, bytes);
        }));
    return info;
}

Result<std::vector<InterfaceInfo>> Netlink::interfaces() {
    Request<ifinfomsg> dump(RTM_GETLINK, NLM_F_DUMP);
    dump.fixed.ifi_family = AF_UNSPEC;
    std::vector<InterfaceInfo> all;
    ASK_TRY(request(dump.header,
                    [&](const nlmsghdr& message) {
                        const auto* fixed = fixed_part<ifinfomsg>(message, RTM_NEWLINK);
                        if (fixed == nullptr) {
                            return;
                        }
                        InterfaceInfo& info = all.emplace_back();
                        read_link(info, *fixed);
                        each_attribute(attributes_of<ifinfomsg>(message),
                                       [&](unsigned type, std::span<const std::byte> bytes) {
                                           read_link_attribute(info, type, bytes);
                                       });
                    }),
            "list interfaces");
    if (std::ranges::any_of(all, &InterfaceInfo::filters_vlans)) {
        ASK_PASS(read_untagged(all));
    }
    return all;
}

Result<> Netlink::read_untagged(std::vector<InterfaceInfo>& all) {
    Request<ifinfomsg> dump(RTM_GETLINK, NLM_F_DUMP);
    dump.fixed.ifi_family = AF_BRIDGE;
    // Ranges of VLANs that have nothing special as one: there may be thousands.
    dump.add_u32(IFLA_EXT_MASK, RTEXT_FILTER_BRVLAN_COMPRESSED);
    ASK_TRY(request(dump.header,
                    [&](const nlmsghdr& message) {
                        const auto* fixed = fixed_part<ifinfomsg>(message, RTM_NEWLINK);
                        if (fixed == nullptr) {
                            return;
                        }
                        const auto at = std::ranges::find(all, static_cast<std::uint32_t>(fixed->ifi_index),
                                                          &InterfaceInfo::index);
                        if (at != all.end()) {
                            at->untagged = untagged_vlan(message);
                        }
                    }),
            "list the VLANs of bridges");
    return {};
}

// One entry is asked for: there may be tens of thousands.
Result<std::vector<std::uint32_t>> Netlink::bridge_ports(std::uint32_t bridge, const MacAddress& mac,
                                                         std::uint16_t vlan) {
    Request<ndmsg> look_up(RTM_GETNEIGH, 0);
    look_up.fixed.ndm_family = AF_BRIDGE;
    look_up.add_u32(NDA_MASTER, bridge);
    look_up.add(NDA_LLADDR, mac.data(), mac.size());
    if (vlan != 0) {
        look_up.add(NDA_VLAN, &vlan, sizeof(vlan));
    }
    std::vector<std::uint32_t> found;
    auto answer = request(look_up.header, [&found](const nlmsghdr& message) {
        const auto* fixed = fixed_part<ndmsg>(message, RTM_NEWNEIGH);
        // Permanent ones are the bridge's own addresses.
        if (fixed != nullptr && (fixed->ndm_state & NUD_PERMANENT) == 0) {
            found.push_back(static_cast<std::uint32_t>(fixed->ndm_ifindex));
        }
    });
    if (!answer.ok() && answer.error().sys_errno() != ENOENT) {
        return std::move(answer).error().with_context("read the bridge's forwarding database");
    }
    return found;
}

Result<InterfaceTraffic> Netlink::traffic(std::string_view name) {
    rtnl_link_stats64 stats{};
    ASK_PASS(link(std::string(name),
                  [&](const ifinfomsg& /*fixed*/, unsigned type, std::span<const std::byte> bytes) {
                      if (type == IFLA_STATS64) {
                          std::memcpy(&stats, bytes.data(), std::min(bytes.size(), sizeof(stats)));
                      }
                  }));
    return InterfaceTraffic{.in = {.packets = stats.rx_packets,
                                   .bytes = stats.rx_bytes,
                                   .errors = stats.rx_errors,
                                   .dropped = stats.rx_dropped + stats.rx_missed_errors},
                            .out = {.packets = stats.tx_packets,
                                    .bytes = stats.tx_bytes,
                                    .errors = stats.tx_errors,
                                    .dropped = stats.tx_dropped}};
}

Result<std::vector<std::uint32_t>> Netlink::addresses(std::uint32_t interface_index) {
    std::vector<std::uint32_t> all;
    std::optional<Error> refused;
    for (const std::uint8_t family : {std::uint8_t{AF_INET}, std::uint8_t{AF_INET6}}) {
        const auto listed = addresses_of(family, interface_index, all);
        // The kernel's, which has a number.
        if (!listed.ok() && listed.error().sys_errno() != 0) {
            return Error(listed.error());
        }
        refused = listed.ok() ? refused : std::optional(listed.error());
    }
    // One that is no host's hides no other.
    return all.empty() && refused ? Result<std::vector<std::uint32_t>>(*refused) : all;
}

Result<> Netlink::addresses_of(std::uint8_t family, std::uint32_t interface_index,
                               std::vector<std::uint32_t>& found) {
    Request<ifaddrmsg> dump(RTM_GETADDR, NLM_F_DUMP);
    dump.fixed.ifa_family = family;
    std::vector<std::uint32_t> secondary;
    std::optional<Error> refused;
    ASK_TRY(request(dump.header,
                    [&](const nlmsghdr& message) {
                        const auto* fixed = fixed_part<ifaddrmsg>(message, RTM_NEWADDR);
                        if (fixed == nullptr || fixed->ifa_family != family ||
                            fixed->ifa_index != interface_index || !is_usable(*fixed)) {
                            return;
                        }
                        auto& list = (fixed->ifa_flags & IFA_F_SECONDARY) != 0 ? secondary : found;
                        const auto address = local_address(message);
                        const auto ipv6 = read_ipv6(address);
                        const auto number =
                            ipv6 ? enter_ipv6(*ipv6) : number_of_ipv4(ntohl(read_u32(address)));
                        if (number.ok()) {
                            list.push_back(*number);
                        } else {
                            refused = number.error();
                        }
                    }),
            "list addresses");
    found.insert(found.end(), secondary.begin(), secondary.end());
    return refused ? Result<>(*refused) : Result<>();
}

Result<Route> Netlink::route(std::uint32_t dest) {
    const auto wanted = wanted_host(dest);
    ASK_PASS(wanted);
    Request<rtmsg> look_up(RTM_GETROUTE, 0);
    wanted->ask_route(look_up);
    Route route;
    bool found = false;
    ASK_TRY(request(look_up.header,
                    [&](const nlmsghdr& message) {
                        const auto* fixed = fixed_part<rtmsg>(message, RTM_NEWROUTE);
                        if (fixed == nullptr) {
                            return;
                        }
                        found = fixed->rtm_type == RTN_UNICAST || fixed->rtm_type == RTN_LOCAL;
                        route = wanted->on_link(fixed->rtm_type == RTN_LOCAL);
                        each_attribute(attributes_of<rtmsg>(message),
                                       [&](unsigned type, std::span<const std::byte> bytes) {
                                           read_route_attribute(route, type, bytes);
                                       });
                    }),
            "route to " + wanted->text);
    if (!found) {
        return Error(Errc::kUnknown, "route to " + wanted->text + ": there is none");
    }
    return route;
}

Result<std::vector<Route>> Netlink::ways(std::uint32_t dest, std::uint32_t by_interface) {
    const auto wanted = wanted_host(dest);
    ASK_PASS(wanted);
    Request<rtmsg> look_up(RTM_GETROUTE, 0);
    // The route as it stands in the table, not the way that this look-up takes.
    look_up.fixed.rtm_flags = RTM_F_FIB_MATCH;
    wanted->ask_route(look_up);
    if (by_interface != 0) {
        look_up.add_u32(RTA_OIF, by_interface);
    }
    std::vector<Route> ways;
    ASK_TRY(request(look_up.header,
                    [&](const nlmsghdr& message) {
                        const auto* fixed = fixed_part<rtmsg>(message, RTM_NEWROUTE);
                        if (fixed != nullptr &&
                            (fixed->rtm_type == RTN_UNICAST || fixed->rtm_type == RTN_LOCAL)) {
                            ways = read_ways(message, wanted->on_link(fixed->rtm_type == RTN_LOCAL));
                        }
                    }),
            "ways to " + wanted->text);
    if (ways.empty()) {
        return Error(Errc::kUnknown, "ways to " + wanted->text + ": there is none");
    }
    return ways;
}

Result<Route> Netlink::way_by(std::uint32_t dest, std::uint32_t interface_index) {
    const auto all = ways(dest, interface_index);
    ASK_PASS(all);
    const Route* found = nullptr;
    for (const Route& way : *all) {
        if (way.interface_index == interface_index && (found == nullptr || (found->down && !way.down))) {
            found = &way;
        }
    }
    if (found == nullptr) {
        return Error(Errc::kUnknown, "ways to " + format_host(dest) + ": none by that interface");
    }
    return *found;
}

Result<std::optional<MacAddress>> Netlink::neighbour(std::uint32_t interface_index, std::uint32_t address) {
    const auto wanted = wanted_host(address);
    ASK_PASS(wanted);
    return neighbour(interface_index, *wanted);
}

Result<std::optional<MacAddress>> Netlink::neighbour(const Route& way) {
    return neighbour(way.interface_index, next_hop_of(way));
}

Result<std::optional<MacAddress>> Netlink::neighbour(std::uint32_t interface_index, const Wanted& wanted) {
    Request<ndmsg> look_up(RTM_GETNEIGH, 0);
    wanted.ask_neighbour(look_up, interface_index);
    std::optional<MacAddress> mac;
    const auto answer = request(look_up.header, [&](const nlmsghdr& message) {
        const auto* fixed = fixed_part<ndmsg>(message, RTM_NEWNEIGH);
        if (fixed == nullptr || (fixed->ndm_state & kUsableNeighbour) == 0) {
            return;
        }
        each_attribute(attributes_of<ndmsg>(message), [&](unsigned type, std::span<const std::byte> bytes) {
            if (type == NDA_LLADDR && bytes.size() == sizeof(MacAddress)) {
                mac.emplace();
                std::memcpy(mac->data(), bytes.data(), mac->size());
            }
        });
    });
    if (!answer.ok() && answer.error().sys_errno() != ENOENT) {
        return Error(answer.error()).with_context("neighbour " + wanted.text);
    }
    return mac;
}

// Makes the kernel look the neighbour up, as if it had a packet for it.
Result<> Netlink::probe(std::uint32_t interface_index, const Wanted& wanted) {
    Request<ndmsg> use(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_ACK);
    use.fixed.ndm_state = NUD_NONE;
    use.fixed.ndm_flags = NTF_USE;
    wanted.ask_neighbour(use, interface_index);
    return request(use.header, [](const nlmsghdr&) {});
}

Result<MacAddress> Netlink::resolve(std::uint32_t interface_index, std::uint32_t address,
                                    Clock::time_point deadline) {
    const auto wanted = wanted_host(address);
    ASK_PASS(wanted);
    return resolve(interface_index, *wanted, deadline);
}

Result<MacAddress> Netlink::resolve(const Route& way, Clock::time_point deadline) {
    return resolve(way.interface_index, next_hop_of(way), deadline);
}

Result<MacAddress> Netlink::resolve(std::uint32_t interface_index, const Wanted& wanted,
                                    Clock::time_point deadline) {
    // Subscribed before the first look, so that no change is missed.
    UniqueFd events(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
    sockaddr_nl group{};
    group.nl_family = AF_NETLINK;
    group.nl_groups = RTMGRP_NEIGH;
    if (!events || ::bind(events.get(), reinterpret_cast<const sockaddr*>(&group), sizeof(group)) < 0) {
        return Error::from_errno(errno, "subscribe to neighbour changes");
    }
    // An unanswered request is repeated by the kernel; after it gave up, by us.
    constexpr milliseconds kAskAgain{1000};
    Clock::time_point ask_at = Clock::now();
    for (;;) {
        auto mac = neighbour(interface_index, wanted);
        if (!mac) {
            return std::move(mac).error();
        }
        if (*mac) {
            return **mac;
        }
        const auto now = Clock::now();
        if (now >= deadline) {
            return Error(Errc::kDeadline, "no answer from neighbour " + wanted.text +
                                              (wanted.ipv6() ? " (NDP)" : " (ARP)") +
                                              ": is it up and on this link?");
        }
        if (now >= ask_at) {
            ASK_TRY(probe(interface_index, wanted), "ask for neighbour " + wanted.text);
            ask_at = now + kAskAgain;
        }
        const auto wait = std::chrono::ceil<milliseconds>(std::min(deadline, ask_at) - now);
        pollfd entry{.fd = events.get(), .events = POLLIN, .revents = 0};
        ::poll(&entry, 1, static_cast<int>(wait.count()));
        std::array<std::byte, 8192> drained;
        while (::recv(events.get(), drained.data(), drained.size(), 0) > 0) {
        }
    }
}

namespace {

// A socket to which the kernel tells changes of `groups`.
Result<UniqueFd> subscribe(std::uint32_t groups, const char* what) {
    UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
    sockaddr_nl group{};
    group.nl_family = AF_NETLINK;
    group.nl_groups = groups;
    if (!fd || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&group), sizeof(group)) < 0) {
        return Error::from_errno(errno, std::string("subscribe to changes of ") + what);
    }
    return fd;
}

// Calls visit(start) with the front of each message that is there; empty: some were lost. What is left after
// many is for the next call: things may change faster than this reads.
template <typename Visit>
void each_change(const UniqueFd& fd, Visit&& visit) {
    constexpr int kMostAtOnce = 1024;
    alignas(nlmsghdr) std::array<std::byte, 64> start{};
    for (int i = 0; i < kMostAtOnce; ++i) {
        const ssize_t size = ::recv(fd.get(), start.data(), start.size(), 0);
        if (size < 0 && errno != ENOBUFS && errno != EINTR) {
            return;
        }
        visit(std::span<const std::byte>(start).first(size < 0 ? 0 : static_cast<std::size_t>(size)));
    }
}

// Whether the front of a message is about a route to link-local or multicast addresses, of which an interface
// has its own as soon as it is up.
bool leads_to_no_host(std::span<const std::byte> start) {
    if (start.size() < NLMSG_LENGTH(sizeof(rtmsg))) {
        return false;
    }
    rtmsg fixed{};
    std::memcpy(&fixed, start.data() + NLMSG_HDRLEN, sizeof(fixed));
    bool no_host = false;
    each_attribute(start.subspan(NLMSG_SPACE(sizeof(fixed))),
                   [&](unsigned type, std::span<const std::byte> bytes) {
                       const auto dest = type == RTA_DST ? read_ipv6(bytes) : std::nullopt;
                       no_host = no_host || (dest && is_link_local_or_multicast(*dest));
                   });
    return fixed.rtm_family == AF_INET6 && no_host;
}

}  // namespace

Result<RouteWatch> RouteWatch::open() {
    constexpr std::uint32_t kIpv6Rules = 1U << (RTNLGRP_IPV6_RULE - 1);
    auto fd = subscribe(RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE | RTMGRP_IPV4_RULE | kIpv6Rules, "routes");
    ASK_PASS(fd);
    return RouteWatch(std::move(*fd));
}

bool RouteWatch::changed() {
    bool any = std::exchange(first_, false);
    each_change(fd_, [&any](std::span<const std::byte> start) { any = any || !leads_to_no_host(start); });
    return any;
}

Result<LinkWatch> LinkWatch::open() {
    auto fd = subscribe(RTMGRP_LINK | RTMGRP_NEIGH, "interfaces");
    ASK_PASS(fd);
    return LinkWatch(std::move(*fd));
}

LinkWatch::Changes LinkWatch::changed() {
    const bool first = std::exchange(first_, false);
    Changes changes{.links = first, .stations = first};
    each_change(fd_, [&changes](std::span<const std::byte> start) {
        if (start.size() < NLMSG_LENGTH(sizeof(ndmsg))) {
            changes = {.links = true, .stations = true};
            return;
        }
        nlmsghdr header{};
        std::memcpy(&header, start.data(), sizeof(header));
        ndmsg neighbour{};
        std::memcpy(&neighbour, start.data() + NLMSG_HDRLEN, sizeof(neighbour));
        const bool of_link = header.nlmsg_type == RTM_NEWLINK || header.nlmsg_type == RTM_DELLINK;
        changes.links = changes.links || of_link;
        changes.stations = changes.stations || (!of_link && neighbour.ndm_family == AF_BRIDGE);
    });
    return changes;
}

}  // namespace ask
