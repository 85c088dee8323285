// SPDX-License-Identifier: Apache-2.0
#include "lib/net/driver.h"

#include <linux/ethtool.h>
#include <linux/if.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "lib/base/unique_fd.h"

namespace ask {
namespace {

bool ask_kernel(int socket, const std::string& interface, void* command) {
    ifreq request{};
    if (socket < 0 || interface.size() >= sizeof(request.ifr_name)) {
        return false;
    }
    std::memcpy(request.ifr_name, interface.data(), interface.size());
    request.ifr_data = static_cast<char*>(command);
    return ::ioctl(socket, SIOCETHTOOL, &request) == 0;
}

std::uint32_t value_of(const AskDriver& ask, std::uint32_t command) {
    ethtool_value value{.cmd = command, .data = 0};
    return ask(&value) ? value.data : 0;
}

// Vendors' own drivers say more behind it: "mlx4_en (MT_0DD0120009_CX3)".
std::string name_of(const ethtool_drvinfo& driver) {
    const std::string text(driver.driver, strnlen(driver.driver, sizeof(driver.driver)));
    return text.substr(0, text.find(' '));
}

}  // namespace

DriverInfo read_driver(const AskDriver& ask) {
    DriverInfo info;
    ethtool_drvinfo driver{};
    driver.cmd = ETHTOOL_GDRVINFO;
    if (ask(&driver)) {
        info.name = name_of(driver);
    }
    ethtool_channels channels{};
    channels.cmd = ETHTOOL_GCHANNELS;
    if (ask(&channels)) {
        info.queues = channels.combined_count + channels.tx_count;
    }
    ethtool_ringparam rings{};
    rings.cmd = ETHTOOL_GRINGPARAM;
    if (ask(&rings)) {
        info.receive_ring = rings.rx_pending;
        info.receive_ring_most = rings.rx_max_pending;
    }
    info.strips_tags = (value_of(ask, ETHTOOL_GFLAGS) & ETH_FLAG_RXVLAN) != 0;
    info.merges = value_of(ask, ETHTOOL_GGRO) != 0;
    const long processors = ::sysconf(_SC_NPROCESSORS_ONLN);
    info.processors = processors > 0 ? static_cast<std::uint32_t>(processors) : 1;
    return info;
}

DriverInfo driver_info(const std::string& interface) {
    const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    return read_driver([&](void* command) { return ask_kernel(socket.get(), interface, command); });
}

}  // namespace ask
