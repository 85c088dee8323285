// SPDX-License-Identifier: Apache-2.0
//
// What ask-controld can be told.
#pragma once

#include <cstdint>
#include <string>

#include "lib/control/placing/placing.h"
#include "lib/daemon/config.h"
#include "lib/daemon/security_config.h"

namespace ask {

struct ControllerConfig {
    std::string listen = "0.0.0.0:4794";
    std::string socket = "/run/ask-controld/control.sock";
    std::string socket_group;  // name or number; empty: the daemon's own
    SecurityConfig security;
    std::string topology = "/etc/ask/topology.toml";
    std::uint32_t lease_seconds = 30;
    std::uint32_t refusal_seconds = 30;
    std::uint32_t k = 0;
    std::uint32_t paced_tasks = 32;
    std::uint32_t max_plans = 1024;
    std::uint32_t quota_plans = 0;
    std::uint32_t quota_places = 0;
    std::string log_level = "info";

    [[nodiscard]] placing::Settings settings() const;
};

// Declares every option of `config`, which must outlive the table's parse().
void declare_options(ConfigTable& table, ControllerConfig* config);

}  // namespace ask
