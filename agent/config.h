// SPDX-License-Identifier: Apache-2.0
//
// Configuration of ask-agentd: keys of the TOML file, each also a flag (packaging/config/agentd.toml).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/daemon/config.h"
#include "lib/daemon/security_config.h"
#include "lib/tuples/sender.h"

namespace ask {

struct AgentConfig {
    std::string name;  // default: host name
    std::string listen = "0.0.0.0:4791";
    std::string socket = "/run/ask/agent.sock";
    std::string socket_group;  // name or number; empty: the agent's own
    std::string interface = "eth0";
    std::vector<std::string> more_interfaces;
    std::string address;         // IPv4 or IPv6; empty: the interface's first
    std::string switch_address;  // key `switch`; empty: none
    std::vector<std::string> switches;
    std::string controller;  // of ask-controld; empty: none
    unsigned workers = 1;
    unsigned max_channels = 256;
    unsigned max_sessions = 512;
    unsigned quota_sessions = 0;  // of one user but root; 0: seven eighths of max_sessions
    std::string xdp_mode = "native";
    std::string bind_mode = "auto";
    std::uint32_t busy_poll_us = 0;
    std::uint32_t window = ASK_WINDOW;
    std::uint32_t initial_window = 32;
    std::uint32_t rto_floor_us = 2000;
    std::uint32_t rto_fixed_us = 0;  // 0: adaptive
    std::uint32_t hold = 4096;
    std::uint32_t merge_window = 1U << 17U;
    std::uint32_t ring_kib = 4096;
    std::uint32_t table_limit_mib = 8192;
    std::uint32_t quota_table_mib = 0;  // of one user but root; 0: seven eighths of table_limit_mib
    std::uint32_t arena_limit_mib = 8192;
    std::uint32_t deadline_seconds = 30;
    unsigned history_tasks = 32;
    std::uint32_t keep_result_seconds = 3600;
    std::string log_level = "info";
    std::map<std::string, std::string> hosts;
    SecurityConfig security;

    // Reads file and flags; kExit: --help or --version was printed. `snapshot`, if there is one: what was
    // read.
    static Result<ConfigAction> read(int argc, const char* const* argv, AgentConfig& config,
                                     ConfigSnapshot* snapshot = nullptr);
    [[nodiscard]] std::uint16_t control_port() const;
    // What all tables may take, and those of one user.
    [[nodiscard]] std::size_t table_bytes() const { return std::size_t{table_limit_mib} << 20U; }
    [[nodiscard]] std::size_t table_bytes_of_user() const;
    [[nodiscard]] std::size_t arena_bytes() const { return std::size_t{arena_limit_mib} << 20U; }
    // For channels of a host with this number over an interface of this MTU.
    [[nodiscard]] SenderConfig sender_config(std::uint32_t mtu, std::uint32_t host) const;
};

}  // namespace ask
