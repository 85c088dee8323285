// SPDX-License-Identifier: Apache-2.0
#include "agent/network.h"

#include <utility>

#include "agent/peer_client.h"
#include "agent/switch_client.h"

namespace ask {

HostNetwork::HostNetwork(InterfaceInfo interface, std::uint32_t address,
                         std::map<std::string, std::string> hosts, RpcChannels& rpc)
    : interface_(std::move(interface)), address_(address), hosts_(std::move(hosts)), rpc_(rpc) {}

Result<HostAddress> HostNetwork::resolve(const std::string& name) {
    return hosts_.resolve(name);
}

bool HostNetwork::is_own(std::uint32_t address) {
    return is_own_address(address);
}

Result<Path> HostNetwork::find_path(std::uint32_t dest, Clock::time_point deadline) {
    return ask::find_path(interface_, address_, dest, deadline);
}

std::unique_ptr<SwitchPort> HostNetwork::switch_at(const std::string& address) {
    return std::make_unique<SwitchClient>(rpc_, address);
}

std::unique_ptr<PeerPort> HostNetwork::peer_at(const std::string& address, const std::string& name) {
    return std::make_unique<PeerClient>(rpc_, address, name);
}

}  // namespace ask
