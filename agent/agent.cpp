// SPDX-License-Identifier: Apache-2.0
#include "agent/agent.h"

#include <memory>
#include <utility>
#include <vector>

#include "agent/controller_client.h"
#include "agent/peer_client.h"
#include "agent/switch_client.h"
#include "lib/rpc/caller.h"

namespace ask {
namespace {

MemberOptions member_options(const AgentConfig& config, const RpcCredentials& credentials,
                             const HostLink& link) {
    const auto identity = credentials.identity();
    return {.name = config.name,
            .address = link.address,
            .tenant = identity ? tenant_of(identity->uris) : "",
            .control_address = control_address(link.address, config.control_port()),
            .interface = link.interfaces.front().name,
            .mtu = link.mtu(),
            .payload_limit = config.sender_config(link.mtu(), link.address).payload_limit,
            .max_channels = config.max_channels,
            .max_sessions = config.max_sessions,
            .deadline_seconds = config.deadline_seconds,
            .ring_kib = config.ring_kib,
            .merge_window = config.merge_window,
            .keep_results = std::chrono::seconds(config.keep_result_seconds),
            .history_tasks = config.history_tasks};
}

std::shared_ptr<SwitchPort> own_switch(const AgentConfig& config, RpcChannels& rpc) {
    return config.switch_address.empty() ? nullptr
                                         : std::make_shared<SwitchClient>(rpc, config.switch_address);
}

std::shared_ptr<ControllerPort> own_controller(const AgentConfig& config, RpcChannels& rpc) {
    return config.controller.empty() ? nullptr : std::make_shared<ControllerClient>(rpc, config.controller);
}

// Those that are named in the configuration.
std::vector<std::string> allowed_switches(const AgentConfig& config) {
    std::vector<std::string> all = config.switches;
    if (!config.switch_address.empty()) {
        all.push_back(config.switch_address);
    }
    return all;
}

}  // namespace

Agent::Agent(AgentConfig configuration, std::shared_ptr<RpcCredentials> rpc_credentials, HostLink link)
    : config(std::move(configuration)),
      interfaces(link.interfaces),
      control_port(config.control_port()),
      bind_mode(link.bind_mode),
      programs(std::move(link.programs)),
      bonds(std::move(link.bonds)),
      credentials(std::move(rpc_credentials)),
      rpc(credentials),
      tables(config.table_bytes(), config.table_bytes_of_user(), &counters),
      network(link.interfaces, link.address, config.hosts, allowed_switches(config), rpc),
      workers({.workers = config.workers,
               .own_address = link.address,
               .sender = config.sender_config(link.mtu(), link.address),
               .busy_poll = config.busy_poll_us * kMicrosecond,
               .arena_limit = config.arena_bytes()},
              std::move(link.sockets)),
      member(member_options(config, *credentials, link), {.workers = workers,
                                                          .network = network,
                                                          .tables = tables,
                                                          .counters = counters,
                                                          .own_switch = own_switch(config, rpc),
                                                          .controller = own_controller(config, rpc)}),
      group_book(config.history_tasks),
      group_ports{.workers = workers,
                  .book = group_book,
                  .peer_at = [this](const std::string& address, const std::string& name) {
                      return std::unique_ptr<GroupPeer>(std::make_unique<PeerClient>(rpc, address, name));
                  }} {
    tables.set_reclaim([this](std::optional<std::uint32_t> user) { return member.kept.make_room(user); });
}

}  // namespace ask
