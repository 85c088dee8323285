// SPDX-License-Identifier: Apache-2.0
#include "loader/config.h"

#include <sys/un.h>

#include <algorithm>

#include "lib/abi/consts.h"
#include "lib/abi/limits.h"
#include "lib/base/task_id.h"
#include "lib/daemon/log.h"
#include "lib/net/address.h"
#include "loader/port_names.h"

namespace ask {
namespace {

// What a bucket's cost, in whole nanoseconds, is exact enough for.
constexpr std::uint32_t kMostPacketsASecond = 10'000'000;

// One component of a path under bpffs, which takes no dots.
Result<> check_pin_name(std::string_view text) {
    return is_pin_name(text) ? Result<>() : Error(Errc::kUsage, "must be 1 to 63 of A-Z a-z 0-9 _ -");
}

Result<> check_absolute_path(std::string_view text) {
    if (!text.starts_with('/')) {
        return Error(Errc::kUsage, "must be an absolute path");
    }
    return {};
}

Result<> check_socket_path(std::string_view text) {
    constexpr std::size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
    if (!text.starts_with('/') || text.size() > kLongest) {
        return Error(Errc::kUsage,
                     "must be an absolute path of at most " + std::to_string(kLongest) + " bytes");
    }
    return {};
}

}  // namespace

void declare_options(ConfigTable& table, SwitchConfig* config) {
    table.text("listen", &config->listen, "Address of the control interface", check_host_port);
    table.text("socket", &config->socket, "Unix socket for askctl on this machine", check_socket_path);
    table.text("socket_group", &config->socket_group,
               "Group, by name or number, whose members are operators here (default: the daemon's own)");
    table.integer("switch_id", &config->switch_id, 1, ASK_MAX_SWITCH_ID,
                  "This switch's number in the marks it writes");
    table.list("ports", &config->ports,
               "Interfaces that the switch program is attached to: names, or patterns such as veth*",
               check_port_name);
    table.text("bpffs", &config->bpffs, "Where a bpffs is mounted", check_absolute_path);
    table.text("pin_dir", &config->pin_dir, "Directory of the pins under bpffs", check_pin_name);
    table.choice("memory", &config->memory, {"auto", "pipelines", "shared"},
                 "How aggregators are kept exact: a register set per CPU, or one with compare-and-swap");
    table.choice("dedupe", &config->dedupe, {"tagged", "compact"},
                 "How duplicates are recognised: compact only where each channel stays on one CPU");
    table.choice("xdp_mode", &config->xdp_mode, {"native", "generic"},
                 "How the program is attached; never both");
    table.choice("swap_barrier", &config->swap_barrier, {"auto", "rcu"},
                 "What a swap waits for: CPUs seen outside (microseconds), or always an RCU grace period");
    table.integer("sram_kib", &config->sram_kib, 16, 1 << 24,
                  "SRAM budget of a pipeline, KiB, over 16 stages");
    table.integer(
        "back_mib", &config->back_mib, 0, 1 << 20,
        "Memory for back levels, which take tuples that aggregators have no place for, MiB; 0: none");
    table.boolean("allow_over_budget", &config->allow_over_budget, "Grant regions past the SRAM budget");
    table.integer("max_channels", &config->max_channels, 1, ASK_MAX_CHANNELS,
                  "Channels that may be registered");
    table.integer("max_flows", &config->max_flows, 1, ASK_MAX_FLOWS, "Flows (a task on a channel) at a time");
    table.integer("max_tasks", &config->max_tasks, 1, ASK_MAX_TASKS, "Tasks at a time");
    table.integer("value_slots", &config->value_slots, 0, 1 << 20,
                  "Chunks of value streams that are held at a time, of all groups: a power of two; 0: none");
    table.boolean("value_flush", &config->value_flush,
                  "For comparison: a value sent again flushes its chunk's slot, ATP's rule");
    table.integer("aggregators", &config->aggregators, 1, ASK_MAX_AGGREGATORS,
                  "Aggregators of an AA, at most, where a task does not say");
    table.integer("prepared_programs", &config->prepared_programs, 0, ASK_SERVICE_PROGRAMS - 1,
                  "Programs for the smallest regions that are loaded at the start: of so many sizes, each "
                  "twice the one before");
    table.integer("lease_seconds", &config->lease_seconds, 1, 3600,
                  "A task that its receiver does not renew for so long is taken back");
    table.integer("quota_tasks", &config->quota_tasks, 0, ASK_MAX_TASKS,
                  "Tasks of one tenant, or of a host without one; 0: seven eighths of max_tasks");
    table.integer("quota_channels", &config->quota_channels, 0, ASK_MAX_CHANNELS,
                  "Its channels; 0: seven eighths of max_channels");
    table.integer("quota_flows", &config->quota_flows, 0, ASK_MAX_FLOWS,
                  "Flows of its tasks; 0: seven eighths of max_flows");
    table.integer("quota_sram_kib", &config->quota_sram_kib, 0, 1 << 24,
                  "SRAM of all these, KiB; 0: seven eighths of sram_kib");
    table.integer("quota_back_mib", &config->quota_back_mib, 0, 1 << 20,
                  "Back levels of all these, MiB; 0: seven eighths of back_mib");
    table.integer("quota_packets", &config->quota_packets, 0, kMostPacketsASecond,
                  "Packets of its tasks a second; 0: no limit");
    table.choice("log_level", &config->log_level, log_levels(), "What is logged");
    declare_security(table, &config->security);
    table.command("check", &config->check,
                  "Say whether it would take over what is pinned, as it is configured, and exit: 0 or 8");
    table.command("unload", &config->unload, "Detach the program, remove everything pinned, and exit");
    table.command("unload_on_exit", &config->unload_on_exit,
                  "Do the same when stopped by SIGTERM or SIGINT (not by SIGUSR1)");
}

}  // namespace ask
