// SPDX-License-Identifier: Apache-2.0
//
// The agent of a host: what it does things with, and the member of tasks that decides what is done.
// Everything here lives from start to end of the daemon.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "agent/config.h"
#include "agent/host_link.h"
#include "agent/memfd_table.h"
#include "agent/network.h"
#include "agent/rpc.h"
#include "agent/workers.h"
#include "lib/control/group/book.h"
#include "lib/control/group/registry.h"
#include "lib/control/member/counters.h"
#include "lib/control/member/member.h"

namespace ask {

struct Agent {
    Agent(AgentConfig configuration, std::shared_ptr<RpcCredentials> credentials, HostLink link);

    const AgentConfig config;
    const std::vector<InterfaceInfo> interfaces;  // the first is `interface` of the configuration
    const std::uint16_t control_port;
    const std::string bind_mode;
    const Clock::time_point started = Clock::now();
    std::vector<HostProgram> programs;  // one per interface
    std::vector<BondLink> bonds;        // those of `interfaces` that are, natively
    AgentCounters counters;
    const std::shared_ptr<RpcCredentials> credentials;
    RpcChannels rpc;
    MemfdTables tables;
    HostNetwork network;
    Workers workers;
    Member member;
    GroupRegistry groups;
    GroupBook group_book;
    const GroupPorts group_ports;
};

}  // namespace ask
