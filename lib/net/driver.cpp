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

class Ethtool {
 public:
    explicit Ethtool(const std::string& interface)
        : socket_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)), interface_(interface) {}

    // Whether there was an answer, which is in `*command` then.
    template <typename T>
    bool ask(T* command) const {
        ifreq request{};
        if (!socket_ || interface_.size() >= sizeof(request.ifr_name)) {
            return false;
        }
        std::memcpy(request.ifr_name, interface_.data(), interface_.size());
        request.ifr_data = reinterpret_cast<char*>(command);
        return ::ioctl(socket_.get(), SIOCETHTOOL, &request) == 0;
    }
    [[nodiscard]] std::uint32_t value(std::uint32_t command) const {
        ethtool_value value{.cmd = command, .data = 0};
        return ask(&value) ? value.data : 0;
    }

 private:
    UniqueFd socket_;
    const std::string& interface_;
};

}  // namespace

DriverInfo driver_info(const std::string& interface) {
    const Ethtool ethtool(interface);
    DriverInfo info;
    ethtool_drvinfo driver{};
    driver.cmd = ETHTOOL_GDRVINFO;
    if (ethtool.ask(&driver)) {
        info.name.assign(driver.driver, strnlen(driver.driver, sizeof(driver.driver)));
    }
    ethtool_channels channels{};
    channels.cmd = ETHTOOL_GCHANNELS;
    if (ethtool.ask(&channels)) {
        info.queues = channels.combined_count + channels.tx_count;
    }
    info.strips_tags = (ethtool.value(ETHTOOL_GFLAGS) & ETH_FLAG_RXVLAN) != 0;
    info.merges = ethtool.value(ETHTOOL_GGRO) != 0;
    const long processors = ::sysconf(_SC_NPROCESSORS_ONLN);
    info.processors = processors > 0 ? static_cast<std::uint32_t>(processors) : 1;
    return info;
}

}  // namespace ask
