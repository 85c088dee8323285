// SPDX-License-Identifier: Apache-2.0
#include "agent/agent.h"

#include <utility>

namespace ask {

Agent::Agent(AgentConfig configuration, HostLink link)
    : config(std::move(configuration)),
      interface(link.interface),
      address(link.address),
      control_port(config.control_port()),
      bind_mode(link.bind_mode),
      payload_limit(config.sender_config(link.interface.mtu).payload_limit),
      hosts(config.hosts),
      program(std::move(link.program)),
      budget(std::size_t{config.table_limit_mib} << 20U),
      kept(std::chrono::seconds(config.keep_result_seconds), &counters),
      workers({.workers = config.workers,
               .own_address = link.address,
               .sender = config.sender_config(link.interface.mtu)},
              std::move(link.sockets)),
      channels(&workers, link.address, config.max_channels),
      registry({.host_name = config.name,
                .own_address = link.address,
                .lease = std::chrono::seconds(config.deadline_seconds),
                .max_waits = config.max_sessions,
                .kept = &kept},
               &workers, &counters),
      history(config.history_tasks) {
    budget.set_reclaim([this] { return kept.make_room(); });
    if (!config.switch_address.empty()) {
        switch_client = std::make_shared<SwitchClient>(rpc, config.switch_address);
    }
}

}  // namespace ask
