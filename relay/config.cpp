// SPDX-License-Identifier: Apache-2.0
#include "relay/config.h"

#include <sys/un.h>
#include <unistd.h>

#include <array>

#include "lib/daemon/log.h"
#include "lib/net/address.h"
#include "lib/net/address_range.h"

namespace ask {
namespace {

constexpr std::int64_t kMostRelays = 1024;
constexpr std::int64_t kMostMib = 1 << 30;

Result<> check_relay_socket(std::string_view text) {
    constexpr std::size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
    return text.starts_with('/') && text.size() <= kLongest
               ? Result<>()
               : Error(Errc::kUsage,
                       "must be an absolute path of at most " + std::to_string(kLongest) + " bytes");
}

void declare_relay(ConfigTable& table, RelayConfig& config) {
    table.text("name", &config.name, "this relay's name in messages (default: its host name)");
    table.text("listen", &config.listen, "where receivers' agents reach it", check_host_port);
    table.text("socket", &config.socket, "Unix socket for askctl on this machine", check_relay_socket);
    table.text("socket_group", &config.socket_group,
               "group, by name or number, whose members are operators here (default: the daemon's own)");
    table.text("agent", &config.agent, "socket of this host's agent (default: /run/ask/agent.sock)");
    table.integer("max_relays", &config.max_relays, 1, kMostRelays, "tasks that may be relayed at a time");
    table.integer("memory_mib", &config.memory_mib, 1, kMostMib,
                  "what all of them together may reserve, MiB");
    table.integer("reserve_mib", &config.reserve_mib, 1, kMostMib,
                  "of one where its receiver does not say, MiB");
    table.integer("quota_relays", &config.quota_relays, 0, kMostRelays,
                  "tasks of one tenant, or of a host without one; 0: seven eighths of max_relays");
    table.integer("quota_memory_mib", &config.quota_memory_mib, 0, kMostMib,
                  "what these may reserve, MiB; 0: seven eighths of memory_mib");
    table.list(
        "parents", &config.parents,
        "addresses, or ranges of them, of the relays above, which tasks may be sent on to besides their own "
        "receivers",
        check_address_range);
    table.choice("log_level", &config.log_level, log_levels(), "least severe messages that are logged");
    declare_security(table, &config.security);
}

}  // namespace

RelayLimits RelayConfig::limits() const {
    constexpr unsigned kMib = 20;
    return {.max_relays = max_relays,
            .memory_bytes = std::uint64_t{memory_mib} << kMib,
            .reserve_bytes = std::uint64_t{reserve_mib} << kMib,
            .quota_relays = quota_relays,
            .quota_memory_bytes = std::uint64_t{quota_memory_mib} << kMib,
            .parents = address_ranges(parents)};
}

Result<ConfigAction> RelayConfig::read(int argc, const char* const* argv, RelayConfig& config,
                                       ConfigSnapshot* snapshot) {
    ConfigTable table("ask-relayd",
                      "the ASK relay beside a switch: adds up what comes from below, and sends it on",
                      "/etc/ask/relayd.toml");
    declare_relay(table, config);
    auto action = table.parse(argc, argv);
    if (!action.ok() || *action == ConfigAction::kExit) {
        return action;
    }
    if (snapshot != nullptr) {
        *snapshot = table.snapshot();
    }
    if (config.name.empty()) {
        std::array<char, 256> name{};
        ::gethostname(name.data(), name.size() - 1);
        config.name = name.data();
    }
    return ConfigAction::kRun;
}

}  // namespace ask
