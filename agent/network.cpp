// SPDX-License-Identifier: Apache-2.0
#include "agent/network.h"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "agent/peer_client.h"
#include "agent/switch_client.h"
#include "proto/relay.grpc.pb.h"

namespace ask {

HostNetwork::HostNetwork(std::vector<InterfaceInfo> interfaces, std::uint32_t address,
                         std::map<std::string, std::string> hosts, std::vector<std::string> switches,
                         RpcChannels& rpc)
    : interfaces_(std::move(interfaces)),
      address_(address),
      hosts_(std::move(hosts)),
      switches_(std::move(switches)),
      rpc_(rpc) {}

Result<HostAddress> HostNetwork::resolve(const std::string& name, std::uint32_t user) {
    const bool ipv6 = is_ipv6_number(address_);
    auto host = hosts_.resolve(name, ipv6 ? AF_INET6 : AF_INET, user);
    // Packets would find no way, however long control messages found theirs.
    if (host.ok() && is_ipv6_number(host->address) != ipv6 && !is_own(host->address)) {
        return Error(Errc::kUnsupported, name + " (" + format_host(host->address) + ") has " +
                                             (ipv6 ? "IPv4" : "IPv6") + " alone, this host (" +
                                             format_host(address_) + ") " + (ipv6 ? "IPv6" : "IPv4") +
                                             " alone: packets go between hosts of one family");
    }
    return host;
}

bool HostNetwork::is_own(std::uint32_t address) {
    return is_own_address(address);
}

Result<Path> HostNetwork::find_path(std::uint32_t dest, Clock::time_point deadline) {
    return ask::find_path(interfaces_, address_, dest, deadline);
}

std::unique_ptr<SwitchPort> HostNetwork::switch_at(const std::string& address) {
    // A receiver names it, and could have this host connect anywhere.
    const bool known = std::ranges::find(switches_, address) != switches_.end() || rpc_.is_learned(address);
    return std::make_unique<SwitchClient>(
        rpc_, address,
        known ? Result<>()
              : Error(Errc::kDenied, "switch " + address +
                                         " is neither this host's `switch`, by any address in its "
                                         "certificate, nor one of its `switches`: add it there, "
                                         "if it is one of yours, or open the task with --no-switch"));
}

void HostNetwork::expect_relay(const std::string& address) {
    if (rpc_.credentials().check_address(address)) {
        rpc_.get(address)->GetState(true);
    }
}

Result<v1::OpenRelayReply> HostNetwork::open_relay(const std::string& address, const std::string& name,
                                                   const v1::OpenRelayRequest& request, milliseconds wait,
                                                   CallCancel* cancel) {
    ASK_TRY(rpc_.credentials().check_address(address), name);
    const auto stub = v1::Relay::NewStub(rpc_.get(address));
    auto reply = call_rpc(rpc_, *stub, &v1::Relay::Stub::OpenRelay, request, wait, name, cancel);
    if (!reply.ok() && reply.error().code() == Errc::kUnavailable) {
        if (auto wrong = rpc_.credentials().diagnose(address, reply.error().text())) {
            return std::move(*wrong).with_context(name);
        }
    }
    return reply;
}

std::unique_ptr<PeerPort> HostNetwork::peer_at(const std::string& address, const std::string& name) {
    return std::make_unique<PeerClient>(rpc_, address, name);
}

}  // namespace ask
