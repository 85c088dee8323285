// SPDX-License-Identifier: Apache-2.0
//
// What ask-switchd can be told.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/daemon/config.h"
#include "lib/daemon/security_config.h"

namespace ask {

struct SwitchConfig {
    std::string listen = "0.0.0.0:4792";
    std::string socket = "/run/ask-switchd/control.sock";
    std::string socket_group;  // name or number; empty: the daemon's own
    SecurityConfig security;
    std::uint16_t switch_id = 1;
    std::vector<std::string> ports;
    std::string bpffs = "/sys/fs/bpf";
    std::string pin_dir = "ask";
    std::string memory = "auto";
    std::string dedupe = "tagged";
    std::string xdp_mode = "native";
    std::string swap_barrier = "auto";
    std::uint32_t sram_kib = 20480;  // per pipeline: 16 stages of 1280 KiB
    bool allow_over_budget = false;
    std::uint32_t back_mib = 256;
    std::uint32_t max_channels = 1024;
    std::uint32_t max_flows = 1024;
    std::uint32_t max_tasks = 64;
    std::uint32_t value_slots = 4096;  // that groups share; a power of two
    bool value_flush = false;
    std::uint32_t prepared_programs = 1;  // for the smallest regions, of so many sizes, loaded at the start
    std::uint32_t aggregators = 32768;    // per AA, at most, where a task does not say
    std::uint32_t lease_seconds = 30;
    // Of one tenant, or host without one; 0: seven eighths of what there is.
    std::uint32_t quota_tasks = 0;
    std::uint32_t quota_channels = 0;
    std::uint32_t quota_flows = 0;
    std::uint32_t quota_packets = 0;
    std::uint32_t quota_sram_kib = 0;
    std::uint32_t quota_back_mib = 0;
    std::string log_level = "info";
    bool check = false;
    bool unload = false;
    bool unload_on_exit = false;
};

// Declares every option of `config`, which must outlive the table's parse().
void declare_options(ConfigTable& table, SwitchConfig* config);

}  // namespace ask
