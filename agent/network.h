// SPDX-License-Identifier: Apache-2.0
//
// Others on the network, by the kernel's routes and neighbours, by name and over gRPC.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/host_link.h"
#include "agent/rpc.h"
#include "lib/control/member/network_port.h"

namespace ask {

class HostNetwork final : public NetworkPort {
 public:
    // `rpc` outlives it. `switches`: those that may be called, whoever names them.
    HostNetwork(std::vector<InterfaceInfo> interfaces, std::uint32_t address,
                std::map<std::string, std::string> hosts, std::vector<std::string> switches,
                RpcChannels& rpc);
    // The table [hosts] has changed.
    void set_hosts(std::map<std::string, std::string> hosts) { hosts_.set(std::move(hosts)); }

    [[nodiscard]] Result<HostAddress> resolve(const std::string& name, std::uint32_t user) override;
    [[nodiscard]] bool is_own(std::uint32_t address) override;
    Result<Path> find_path(std::uint32_t dest, Clock::time_point deadline) override;
    [[nodiscard]] std::unique_ptr<SwitchPort> switch_at(const std::string& address) override;
    void expect_relay(const std::string& address) override;
    Result<v1::OpenRelayReply> open_relay(const std::string& address, const std::string& name,
                                          const v1::OpenRelayRequest& request, milliseconds wait,
                                          CallCancel* cancel) override;
    [[nodiscard]] std::unique_ptr<PeerPort> peer_at(const std::string& address,
                                                    const std::string& name) override;

 private:
    const std::vector<InterfaceInfo> interfaces_;
    const std::uint32_t address_;
    HostNames hosts_;
    const std::vector<std::string> switches_;
    RpcChannels& rpc_;
};

}  // namespace ask
