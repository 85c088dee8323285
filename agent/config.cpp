// SPDX-License-Identifier: Apache-2.0
#include "agent/config.h"

#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "lib/abi/limits.h"
#include "lib/daemon/log.h"
#include "lib/net/address.h"
#include "lib/net/frame.h"
#include "lib/rpc/ports.h"
#include "lib/tuples/combiner.h"

namespace ask {
namespace {

Result<> check_optional_host_port(std::string_view text) {
    return text.empty() ? Result<>() : check_host_port(text);
}

Result<> check_optional_address(std::string_view text) {
    return text.empty() ? Result<>() : check_host_address(text);
}

// The control socket beside it gets four bytes more.
Result<> check_socket_path(std::string_view text) {
    constexpr std::size_t kLongest = sizeof(sockaddr_un::sun_path) - 1 - 4;
    if (text.empty() || text.front() != '/' || text.size() > kLongest) {
        return Error(Errc::kUsage,
                     "must be an absolute path of at most " + std::to_string(kLongest) + " bytes");
    }
    return {};
}

void declare_network(ConfigTable& table, AgentConfig& config) {
    table.text("name", &config.name, "this host's name in messages (default: its host name)");
    table.text("listen", &config.listen, "where other agents reach this one", check_host_port);
    table.text("socket", &config.socket, "Unix socket for applications; askctl uses the same path with .ctl",
               check_socket_path);
    table.text("socket_group", &config.socket_group,
               "group, by name or number, whose members may use both sockets (default: the agent's own)");
    table.text("interface", &config.interface, "interface that ASK packets take", check_interface);
    table.list("more_interfaces", &config.more_interfaces,
               "others that they may take, where routes lead through them", check_interface);
    table.text("address", &config.address, "own IPv4 or IPv6 address (default: the interface's first)",
               check_optional_address);
    table.text("switch", &config.switch_address, "control address of ask-switchd, empty for none",
               check_optional_host_port);
    table.list("switches", &config.switches,
               "control addresses of other switches that this host's sends may be registered at",
               check_host_port);
    table.text(
        "controller", &config.controller,
        "control address of ask-controld, which places tasks (ask-recv --placement auto); empty for none",
        check_optional_host_port);
    table.choice("xdp_mode", &config.xdp_mode, {"native", "generic"},
                 "where the steering program runs; never falls back");
    table.choice("bind_mode", &config.bind_mode, {"auto", "copy", "zerocopy"},
                 "how AF_XDP sockets get packets; auto takes the best the driver can do");
    table.integer("busy_poll_us", &config.busy_poll_us, 0, 100000,
                  "how long a worker asks its queues for packets itself before it sleeps, microseconds; 0: "
                  "interrupts tell it");
    table.table("hosts", &config.hosts,
                "names of other hosts and their addresses, with :PORT where an agent listens elsewhere",
                check_host_maybe_port);
}

void declare_limits(ConfigTable& table, AgentConfig& config) {
    table.integer("workers", &config.workers, 1, 64, "threads that send and receive packets");
    table.integer("max_channels", &config.max_channels, 1, ASK_MAX_CHANNELS_PER_HOST,
                  "channels that may be made; a task's sends need one each, other tasks' wait for one");
    table.integer("max_sessions", &config.max_sessions, 1, ASK_MAX_SESSIONS,
                  "applications that may be connected");
    table.integer("quota_sessions", &config.quota_sessions, 0, ASK_MAX_SESSIONS,
                  "those of one user, but root; 0: seven eighths of max_sessions");
    table.integer("window", &config.window, 1, ASK_WINDOW, "most packets in flight per channel");
    table.integer("initial_window", &config.initial_window, 1, ASK_WINDOW,
                  "packets in flight per channel at the start");
    table.integer("rto_floor_us", &config.rto_floor_us, 100, 1000000,
                  "shortest retransmission timeout, microseconds");
    table.integer("rto_fixed_us", &config.rto_fixed_us, 0, 1000000,
                  "a retransmission timeout that never changes, microseconds; 0: by what packets take");
    table.integer("hold", &config.hold, 1, ASK_MAX_HOLD, "tuples held back to fill packets");
    table.integer("merge_window", &config.merge_window, 0, Combiner::kMaxWindow,
                  "tuples that a sending application holds back to merge equal keys; 0: none");
    table.integer("ring_kib", &config.ring_kib, 256, 1 << 20,
                  "shared memory between an application and the agent, KiB; rounded up to a power of two");
    table.integer("table_limit_mib", &config.table_limit_mib, 1, 1 << 30,
                  "what all result tables together may take, MiB");
    table.integer("quota_table_mib", &config.quota_table_mib, 0, 1 << 30,
                  "those of one user, but root, MiB; 0: seven eighths of table_limit_mib");
    table.integer("arena_limit_mib", &config.arena_limit_mib, 1, 1 << 30,
                  "memory that groups share with their applications, all together, MiB; of it, one user but "
                  "root may have seven eighths");
    table.integer("deadline_seconds", &config.deadline_seconds, ASK_MIN_DEADLINE, ASK_MAX_DEADLINE,
                  "how long a task waits for somebody who is silent, unless it says otherwise");
    table.integer("history_tasks", &config.history_tasks, 0, 4096,
                  "tasks that askctl still shows after their end");
    table.integer("keep_result_seconds", &config.keep_result_seconds, 0, 86400,
                  "how long a result that nobody has taken stays for ask-recv --again; 0: not at all");
    table.choice("log_level", &config.log_level, log_levels(), "least severe messages that are logged");
}

}  // namespace

Result<ConfigAction> AgentConfig::read(int argc, const char* const* argv, AgentConfig& config,
                                       ConfigSnapshot* snapshot) {
    ConfigTable table("ask-agentd", "the ASK agent of a host: sends, receives, aggregates what is left",
                      "/etc/ask/agentd.toml");
    declare_network(table, config);
    declare_limits(table, config);
    declare_security(table, &config.security);
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
    for (std::string* const address : {&config.switch_address, &config.controller}) {
        *address = canonical_host_port(*address);
    }
    std::ranges::transform(config.switches, config.switches.begin(), canonical_host_port);
    config.initial_window = std::min(config.initial_window, config.window);
    config.ring_kib = std::bit_ceil(config.ring_kib);
    return ConfigAction::kRun;
}

std::size_t AgentConfig::table_bytes_of_user() const {
    constexpr std::size_t kParts = 8;
    return quota_table_mib == 0 ? table_bytes() - table_bytes() / kParts
                                : std::size_t{quota_table_mib} << 20U;
}

std::uint16_t AgentConfig::control_port() const {
    const auto parts = split_host_port(listen);
    return parts.ok() ? parts->port : kControlPort;
}

SenderConfig AgentConfig::sender_config(std::uint32_t mtu, std::uint32_t host) const {
    SenderConfig sender;
    sender.window = window;
    sender.initial_window = initial_window;
    sender.rto_floor = rto_floor_us * kMicrosecond;
    sender.rto_initial = std::max(sender.rto_initial, sender.rto_floor);
    if (rto_fixed_us > 0) {
        sender.rto_floor = sender.rto_initial = sender.rto_ceiling = rto_fixed_us * kMicrosecond;
    }
    sender.hold = hold;
    // Links that carry more than a page keep long frames in pieces, of which only the first is read. How long
    // a piece is does not depend on the family, whose headers take their part of it.
    constexpr auto kIpv4Headers = static_cast<std::uint32_t>(kPacketHeaderBytes);
    constexpr std::uint32_t kOnePiece = ASK_MAX_PAYLOAD + kIpv4Headers;
    constexpr std::uint32_t kFirstPiece = ASK_MAX_JUMBO_PAYLOAD + kIpv4Headers;
    const std::uint32_t longest = mtu > kOnePiece ? kFirstPiece : mtu;
    sender.payload_limit = longest - static_cast<std::uint32_t>(packet_header_bytes(host));
    return sender;
}

}  // namespace ask
