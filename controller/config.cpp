// SPDX-License-Identifier: Apache-2.0
#include "controller/config.h"

#include <sys/un.h>

#include "lib/daemon/log.h"
#include "lib/net/address.h"

namespace ask {
namespace {

constexpr std::int64_t kMostPlans = 65536;
constexpr std::int64_t kMostSwitches = 1 << 24;

Result<> check_socket_path(std::string_view text) {
    constexpr std::size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
    if (!text.starts_with('/') || text.size() > kLongest) {
        return Error(Errc::kUsage,
                     "must be an absolute path of at most " + std::to_string(kLongest) + " bytes");
    }
    return {};
}

Result<> check_topology_path(std::string_view text) {
    return text.starts_with('/') ? Result<>() : Error(Errc::kUsage, "must be an absolute path");
}

}  // namespace

placing::Settings ControllerConfig::settings() const {
    return {.lease = std::chrono::seconds(lease_seconds),
            .pause = std::chrono::seconds(refusal_seconds),
            .k = k,
            .paced_tasks = paced_tasks,
            .max_plans = max_plans,
            .quota_plans = quota_plans,
            .quota_places = quota_places};
}

void declare_options(ConfigTable& table, ControllerConfig* config) {
    table.text("listen", &config->listen, "Address of the control interface", check_host_port);
    table.text("socket", &config->socket, "Unix socket for askctl on this machine", check_socket_path);
    table.text("socket_group", &config->socket_group,
               "Group, by name or number, whose members are operators here (default: the daemon's own)");
    table.text("topology", &config->topology,
               "Switches with their relays and capacities, and hosts with their addresses: TOML or JSON",
               check_topology_path);
    table.integer("lease_seconds", &config->lease_seconds, 1, 3600,
                  "A plan that its receiver does not renew for so long is given back");
    table.integer("refusal_seconds", &config->refusal_seconds, 0, 3600,
                  "A switch that has refused a task is proposed to nobody for so long");
    table.integer("k", &config->k, 0, kMostSwitches,
                  "Switches of a task that does not say how many, at most; 0: its part of what is left");
    table.integer("paced_tasks", &config->paced_tasks, 1, kMostPlans,
                  "Tasks that are to share the places of all switches, where k = 0");
    table.integer("max_plans", &config->max_plans, 1, kMostPlans, "Plans at a time");
    table.integer("quota_plans", &config->quota_plans, 0, kMostPlans,
                  "Plans of one tenant, or of a host without one; 0: seven eighths of max_plans");
    table.integer("quota_places", &config->quota_places, 0, kMostPlans,
                  "Its places at one switch; 0: seven eighths of the switch's capacity");
    table.choice("log_level", &config->log_level, log_levels(), "What is logged");
    declare_security(table, &config->security);
}

}  // namespace ask
