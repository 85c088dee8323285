// SPDX-License-Identifier: Apache-2.0
//
// Switches and other agents, as a simulated host reaches them: by calls that may be lost or late.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/control/member/network_port.h"
#include "tests/sim/tuples/calls.h"
#include "tests/sim/tuples/network.h"
#include "tests/sim/tuples/switchd.h"
#include "tests/sim/tuples/world.h"

namespace ask::sim {

class Host;
class RelayDaemon;

// Everything that answers calls.
struct Cast {
    World& world;
    Network& network;
    std::vector<std::unique_ptr<SwitchDaemon>>& switchds;
    std::vector<std::unique_ptr<Host>>& hosts;
    std::vector<std::unique_ptr<RelayDaemon>>& relayds;
};

[[nodiscard]] std::string switch_address(std::uint32_t number);

// Who calls from there, without a certificate.
[[nodiscard]] Caller caller_at(std::uint32_t host);

class SimSwitch final : public SwitchPort {
 public:
    // Asked by that host.
    SimSwitch(const Cast& cast, std::uint32_t number, std::uint32_t host);

    [[nodiscard]] const std::string& address() const override { return address_; }
    Result<v1::SwitchInfo> info(milliseconds wait, CallCancel* cancel) override;
    Result<v1::SwitchStatus> status(milliseconds wait) override;
    Result<v1::OpenTaskReply> open_task(const v1::OpenTaskRequest& request, milliseconds wait,
                                        CallCancel* cancel) override;
    Result<> close_task(std::uint64_t instance, milliseconds wait, CallCancel* cancel = nullptr) override;
    Result<Joined> join_flow(const v1::JoinFlowRequest& request, milliseconds wait) override;
    Registered try_register(const v1::RegisterChannelRequest& request, milliseconds wait,
                            CallCancel* cancel) override;
    Result<> unregister_channel(ChannelId channel, std::uint32_t incarnation, milliseconds wait,
                                CallCancel* cancel) override;
    Result<v1::RenewTasksReply> renew_tasks(const std::vector<std::uint64_t>& instances,
                                            milliseconds wait) override;
    Result<CopyEnd> stream_copy(const FetchOrder& order, const TakeEntries& take,
                                CallCancel* cancel) override;
    Result<> confirm_copy(const RegionId& region, std::uint64_t epoch, milliseconds wait,
                          CallCancel* cancel) override;

 private:
    template <typename T>
    Result<T> ask(milliseconds wait, CallCancel* cancel, CallBody<T> body);

    Cast cast_;
    SwitchDaemon& daemon_;
    const Caller caller_;
    std::string address_;
};

class SimNetwork final : public NetworkPort {
 public:
    SimNetwork(const Cast& cast, std::uint32_t host) : cast_(cast), host_(host) {}

    // "h3", or an address.
    [[nodiscard]] Result<HostAddress> resolve(const std::string& name, std::uint32_t user) override;
    [[nodiscard]] bool is_own(std::uint32_t address) override { return address == address_of(host_); }
    Result<Path> find_path(std::uint32_t dest, ask::Clock::time_point deadline) override;
    [[nodiscard]] std::unique_ptr<SwitchPort> switch_at(const std::string& address) override;
    [[nodiscard]] std::unique_ptr<PeerPort> peer_at(const std::string& address,
                                                    const std::string& name) override;
    Result<v1::OpenRelayReply> open_relay(const std::string& address, const std::string& name,
                                          const v1::OpenRelayRequest& request, milliseconds wait,
                                          CallCancel* cancel) override;

 private:
    Cast cast_;
    const std::uint32_t host_;
};

}  // namespace ask::sim
