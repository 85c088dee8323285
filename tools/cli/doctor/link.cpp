// SPDX-License-Identifier: Apache-2.0
#include <linux/ethtool.h>
#include <linux/if_link.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

#include <bpf/libbpf.h>

#include "lib/base/unique_fd.h"
#include "lib/net/driver.h"
#include "lib/net/netlink.h"
#include "tools/cli/doctor/gather.h"

namespace ask::cli::doctor {
namespace {

// False: the driver has no answer.
template <typename Question>
bool ask_driver(const std::string& name, Question& question) {
    const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq request{};
    request.ifr_data = reinterpret_cast<char*>(&question);
    std::memcpy(request.ifr_name, name.data(), name.size());
    return socket && ::ioctl(socket.get(), SIOCETHTOOL, &request) == 0;
}

std::uint32_t driver_value(const std::string& name, std::uint32_t command) {
    ethtool_value value{.cmd = command, .data = 0};
    return ask_driver(name, value) ? value.data : 0;
}

std::vector<std::string> offloads_of(const std::string& name) {
    std::vector<std::string> on;
    if (driver_value(name, ETHTOOL_GTXCSUM) != 0) {
        on.emplace_back("tx");
    }
    if (driver_value(name, ETHTOOL_GTSO) != 0) {
        on.emplace_back("tso");
    }
    const std::uint32_t flags = driver_value(name, ETHTOOL_GFLAGS);
    constexpr std::array<std::pair<std::uint32_t, const char*>, 2> kFlags{
        {{ETH_FLAG_TXVLAN, "txvlan"}, {ETH_FLAG_LRO, "lro"}}};
    for (const auto& [flag, word] : kFlags) {
        if ((flags & flag) != 0) {
            on.emplace_back(word);
        }
    }
    return on;
}

LinkFacts::Xdp xdp_of(std::uint32_t index) {
    LIBBPF_OPTS(bpf_xdp_query_opts, options);
    if (bpf_xdp_query(static_cast<int>(index), 0, &options) != 0) {
        return LinkFacts::Xdp::kNone;
    }
    switch (options.attach_mode) {
        case XDP_ATTACHED_DRV:
            return LinkFacts::Xdp::kNative;
        case XDP_ATTACHED_SKB:
            return LinkFacts::Xdp::kGeneric;
        case XDP_ATTACHED_HW:
            return LinkFacts::Xdp::kHardware;
        default:
            return LinkFacts::Xdp::kNone;
    }
}

}  // namespace

LinkFacts look_at_link(const std::string& name) {
    LinkFacts link;
    link.name = name;
    auto netlink = Netlink::open();
    if (!netlink) {
        return link;
    }
    const auto info = netlink->interface(name);
    if (!info) {
        return link;
    }
    link.present = true;
    link.up = info->up;
    link.mtu = info->mtu;
    link.rx_queues = info->rx_queues;
    link.xdp = xdp_of(info->index);
    const DriverInfo driver = driver_info(name);
    link.driver = driver.name;
    link.receive_ring = driver.receive_ring;
    link.receive_ring_most = driver.receive_ring_most;
    link.offloads = offloads_of(name);
    link.card = look_at_card(name);
    return link;
}

}  // namespace ask::cli::doctor
