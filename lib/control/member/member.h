// SPDX-License-Identifier: Apache-2.0
//
// A member of tasks: what all sessions of one host share. It decides, and has whatever is done behind ports.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "lib/control/member/channels.h"
#include "lib/control/member/controller_port.h"
#include "lib/control/member/counters.h"
#include "lib/control/member/follow_list.h"
#include "lib/control/member/history.h"
#include "lib/control/member/left_open.h"
#include "lib/control/member/network_port.h"
#include "lib/control/member/plan_keeper.h"
#include "lib/control/member/send_list.h"
#include "lib/control/member/table_store.h"
#include "lib/control/member/task_totals.h"
#include "lib/control/member/workers_port.h"
#include "lib/control/receive/kept_results.h"
#include "lib/control/receive/registry.h"
#include "lib/net/host_book.h"

namespace ask {

struct MemberOptions {
    std::string name;                 // of the host
    std::uint32_t address = 0;        // number (lib/net/host_book.h)
    std::string tenant{};             // that its certificate names; empty: none
    std::string control_address;      // where other agents reach this one: "198.18.2.2:4791"
    std::string interface;            // of its packets, for messages
    std::uint32_t mtu = 0;            // the same
    std::uint32_t payload_limit = 0;  // longest UDP payload, bytes
    unsigned max_channels = 256;
    unsigned max_sessions = 512;
    unsigned deadline_seconds = 30;  // of tasks that ask for none
    std::uint32_t ring_kib = 4096;   // of tuples from an application
    std::uint32_t merge_window = 0;  // tuples that an application should hold back
    std::chrono::seconds keep_results{3600};
    unsigned history_tasks = 32;
};

// What a member acts through; all of it outlives the member.
struct MemberPorts {
    WorkersPort& workers;
    NetworkPort& network;
    TableStore& tables;
    AgentCounters& counters;
    std::shared_ptr<SwitchPort> own_switch;           // null: none configured
    std::shared_ptr<ControllerPort> controller = {};  // likewise
};

struct Member {
    Member(MemberOptions of, const MemberPorts& ports)
        : options(std::move(of)),
          workers(ports.workers),
          network(ports.network),
          tables(ports.tables),
          counters(ports.counters),
          own_switch(ports.own_switch),
          controller(ports.controller),
          plans(ports.controller),
          kept(options.keep_results, &counters),
          channels(&workers, options.address, options.max_channels),
          registry({.host_name = options.name,
                    .own_address = options.address,
                    .lease = std::chrono::seconds(options.deadline_seconds),
                    .max_waits = options.max_sessions,
                    .kept = &kept},
                   &workers, &counters),
          history(options.history_tasks) {}

    const MemberOptions options;
    WorkersPort& workers;
    NetworkPort& network;
    TableStore& tables;
    AgentCounters& counters;
    const std::shared_ptr<SwitchPort> own_switch;
    const std::shared_ptr<ControllerPort> controller;
    PlanKeeper plans;
    KeptResults kept;
    Channels channels;
    TaskRegistry registry;
    SendList sends;
    FollowList follows;
    History history;
    TaskTotals totals;
    LeftOpen left_open;

    // "h2 (198.18.2.2)"
    [[nodiscard]] std::string full_name() const {
        return options.name + " (" + format_host(options.address) + ")";
    }
};

}  // namespace ask
