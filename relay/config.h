// SPDX-License-Identifier: Apache-2.0
//
// What ask-relayd is told.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/control/relay/relays.h"
#include "lib/daemon/config.h"
#include "lib/daemon/security_config.h"
#include "lib/rpc/ports.h"

namespace ask {

struct RelayConfig {
    std::string name;  // in messages; default: its host's name
    std::string listen = "0.0.0.0:" + std::to_string(kRelayPort);
    std::string socket = "/run/ask-relayd/control.sock";
    std::string socket_group;
    std::string agent;  // socket of this host's agent; default: as applications find it
    std::uint32_t max_relays = 64;
    std::uint32_t memory_mib = 4096;  // that all relays may reserve
    std::uint32_t reserve_mib = 64;   // of one, where its receiver does not say
    std::uint32_t quota_relays = 0;   // of one tenant, or a host without one; 0: seven eighths
    std::uint32_t quota_memory_mib = 0;
    // That tasks may be sent on to, besides the hosts that they are of: addresses, and ranges of them.
    std::vector<std::string> parents;
    std::string log_level = "info";
    SecurityConfig security;

    [[nodiscard]] RelayLimits limits() const;

    static Result<ConfigAction> read(int argc, const char* const* argv, RelayConfig& config,
                                     ConfigSnapshot* snapshot);
};

}  // namespace ask
