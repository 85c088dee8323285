// SPDX-License-Identifier: Apache-2.0
//
// What all parts of the agent share. Everything here lives from start to end of the daemon.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/channels.h"
#include "agent/config.h"
#include "agent/counters.h"
#include "agent/history.h"
#include "agent/host_link.h"
#include "agent/kept_results.h"
#include "agent/memfd_table.h"
#include "agent/peer_client.h"
#include "agent/registry.h"
#include "agent/rpc.h"
#include "agent/switch_client.h"
#include "agent/workers.h"
#include "lib/control/member/left_open.h"

namespace ask {

// The tasks that applications of this host send to, for status only. Thread-safe.
class SendList {
 public:
    struct Entry {
        v1::AgentTask task;
        std::uint16_t port = 0;  // of its channel; 0: none yet
        std::shared_ptr<Mailbox> mailbox;
    };
    // Tells the sessions that send to a task of that id to end; how many.
    std::uint32_t cancel(const std::string& id) {
        const Guard lock(mutex_);
        std::uint32_t told = 0;
        for (const auto& [sender, entry] : tasks_) {
            if (entry.task.id() == id) {
                entry.mailbox->post(SessionEvent::Kind::kCancelled);
                ++told;
            }
        }
        return told;
    }
    void put(std::uint64_t sender, Entry entry) {
        const Guard lock(mutex_);
        tasks_[sender] = std::move(entry);
    }
    void remove(std::uint64_t sender) {
        const Guard lock(mutex_);
        tasks_.erase(sender);
    }
    [[nodiscard]] std::vector<Entry> list() const {
        const Guard lock(mutex_);
        std::vector<Entry> all;
        all.reserve(tasks_.size());
        for (const auto& [sender, entry] : tasks_) {
            all.push_back(entry);
        }
        return all;
    }

 private:
    mutable Mutex mutex_;
    std::map<std::uint64_t, Entry> tasks_;
};

struct Agent {
    Agent(AgentConfig configuration, HostLink link);

    const AgentConfig config;
    const InterfaceInfo interface;
    const std::uint32_t address;
    const std::uint16_t control_port;
    const std::string bind_mode;
    const std::uint32_t payload_limit;  // longest UDP payload, bytes
    const Clock::time_point started = Clock::now();
    HostNames hosts;
    HostProgram program;
    AgentCounters counters;
    MemoryBudget budget;
    KeptResults kept;
    Workers workers;
    Channels channels;
    TaskRegistry registry;
    SendList sends;
    History history;
    LeftOpen left_open;
    RpcChannels rpc;
    std::shared_ptr<SwitchPort> switch_client;  // null: none configured

    // One that a task names, for one use.
    [[nodiscard]] std::unique_ptr<SwitchPort> switch_at(const std::string& its_address) {
        return std::make_unique<SwitchClient>(rpc, its_address);
    }
    // The agent there, which errors name as `name`.
    [[nodiscard]] std::unique_ptr<PeerPort> peer_at(const std::string& its_address, const std::string& name) {
        return std::make_unique<PeerClient>(rpc, its_address, name);
    }

    // Where other agents reach this one: "198.18.2.2:4791".
    [[nodiscard]] std::string control_address() const {
        return format_ipv4(address) + ":" + std::to_string(control_port);
    }
    // "h2 (198.18.2.2)"
    [[nodiscard]] std::string full_name() const { return config.name + " (" + format_ipv4(address) + ")"; }
};

}  // namespace ask
