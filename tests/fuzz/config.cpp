// SPDX-License-Identifier: Apache-2.0
//
// Configuration files of both daemons: an error, or values within the limits that docs and --help state.
#include "agent/config.h"

#include <arpa/inet.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <string>

#include "lib/abi/consts.h"
#include "lib/base/unique_fd.h"
#include "loader/config.h"
#include "tests/fuzz/fuzz.h"

namespace ask::fuzz {
namespace {

bool one_of(std::string_view text, std::initializer_list<std::string_view> choices) {
    return std::ranges::find(choices, text) != choices.end();
}

bool is_ipv6(const std::string& text) {
    in6_addr address{};
    return ::inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

bool is_host_port(const std::string& text) {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string::npos || colon == 0) {
        return false;
    }
    const std::string host = text.substr(0, colon);
    if (host.find_first_of("[:") != std::string::npos &&
        (host.front() != '[' || host.back() != ']' ||
         !is_ipv6(host.substr(1, std::min(host.find('%'), host.size() - 1) - 1)))) {
        return false;
    }
    const std::string port = text.substr(colon + 1);
    return !port.empty() && port.size() <= 20 && port.find_first_not_of("0123456789") == std::string::npos &&
           std::strtoull(port.c_str(), nullptr, 10) - 1 < 65535;
}

bool is_ipv4(const std::string& text) {
    in_addr address{};
    return ::inet_pton(AF_INET, text.c_str(), &address) == 1;
}

// Of neither family what no host has.
bool is_host(const std::string& text) {
    in6_addr address{};
    if (::inet_pton(AF_INET6, text.c_str(), &address) != 1) {
        return is_ipv4(text) && std::strtoul(text.c_str(), nullptr, 10) < 240;
    }
    return !IN6_IS_ADDR_UNSPECIFIED(&address) && !IN6_IS_ADDR_LOOPBACK(&address) &&
           !IN6_IS_ADDR_MULTICAST(&address) && !IN6_IS_ADDR_LINKLOCAL(&address) &&
           !IN6_IS_ADDR_V4MAPPED(&address);
}

// Of one whose agent may listen elsewhere.
bool is_host_maybe_port(const std::string& text) {
    if (is_host(text)) {
        return true;
    }
    const std::string host = text.substr(0, text.rfind(':'));
    return is_host_port(text) && is_host(host.front() == '[' ? host.substr(1, host.size() - 2) : host);
}

template <typename T>
bool within(T value, T least, T most) {
    return value >= least && value <= most;
}

void check(const SecurityConfig& config) {
    require(config.metrics.empty() || is_host_port(config.metrics), "metrics");
    require(one_of(config.plain_text, {"never", "loopback", "everywhere"}), "plain_text");
}

void check(const AgentConfig& config) {
    require(within(config.workers, 1U, 64U), "workers");
    require(within(config.max_channels, 1U, ASK_MAX_CHANNELS_PER_HOST), "max_channels");
    require(within(config.max_sessions, 1U, 4096U), "max_sessions");
    require(config.quota_sessions <= 4096U, "quota_sessions");
    require(within(config.window, 1U, ASK_WINDOW), "window");
    require(within(config.initial_window, 1U, config.window), "initial_window, at most the window");
    require(within(config.rto_floor_us, 100U, 1000000U), "rto_floor_us");
    require(config.busy_poll_us <= 100000U, "busy_poll_us");
    require(within(config.hold, 1U, 1U << 20), "hold");
    require(within(config.ring_kib, 256U, 1U << 20), "ring_kib");
    require((config.ring_kib & (config.ring_kib - 1)) == 0, "ring_kib, a power of two");
    require(within(config.table_limit_mib, 1U, 1U << 30), "table_limit_mib");
    require(config.quota_table_mib <= 1U << 30, "quota_table_mib");
    require(within(config.arena_limit_mib, 1U, 1U << 30), "arena_limit_mib");
    require(within(config.deadline_seconds, 1U, 86400U), "deadline_seconds");
    require(one_of(config.xdp_mode, {"native", "generic"}), "xdp_mode");
    require(one_of(config.bind_mode, {"auto", "copy", "zerocopy"}), "bind_mode");
    require(is_host_port(config.listen), "listen");
    require(config.switch_address.empty() || is_host_port(config.switch_address), "switch");
    check(config.security);
    for (const std::string& address : config.switches) {
        require(is_host_port(address), "switches");
    }
    require(config.address.empty() || is_host(config.address), "address");
    require(config.socket.starts_with('/') && config.socket.size() < 104, "socket");
    require(within(config.interface.size(), std::size_t{1}, std::size_t{15}), "interface");
    for (const auto& [name, address] : config.hosts) {
        require(!name.empty() && is_host_maybe_port(address), "hosts");
    }
    const SenderConfig sender = config.sender_config(1500, 0xc6120102);
    require(sender.rto_initial >= sender.rto_floor, "first timeout, at least the floor");
}

void check(const SwitchConfig& config) {
    require(config.switch_id >= 1, "switch_id");
    require(within(config.sram_kib, 16U, 1U << 24), "sram_kib");
    require(within(config.max_channels, 1U, 65536U), "max_channels");
    require(within(config.max_flows, 1U, 1U << 20), "max_flows");
    require(within(config.max_tasks, 1U, 4096U), "max_tasks");
    require(within(config.aggregators, 1U, ASK_MAX_AGGREGATORS), "aggregators");
    require(within(config.lease_seconds, 1U, 3600U), "lease_seconds");
    require(config.quota_tasks <= 4096U && config.quota_channels <= 65536U, "quota_tasks, quota_channels");
    require(config.quota_flows <= 1U << 20 && config.quota_sram_kib <= 1U << 24,
            "quota_flows, quota_sram_kib");
    require(config.back_mib <= 1U << 20 && config.quota_back_mib <= 1U << 20, "back_mib, quota_back_mib");
    require(config.quota_packets <= 10'000'000U, "quota_packets");
    require(!config.unload && !config.unload_on_exit, "commands are not taken from the file");
    require(is_host_port(config.listen), "listen");
    check(config.security);
    require(one_of(config.memory, {"auto", "pipelines", "shared"}), "memory");
    require(one_of(config.dedupe, {"tagged", "compact"}), "dedupe");
    require(one_of(config.xdp_mode, {"native", "generic"}), "xdp_mode");
    require(one_of(config.swap_barrier, {"auto", "rcu"}), "swap_barrier");
    require(config.bpffs.starts_with('/'), "bpffs");
    require(!config.pin_dir.empty() && config.pin_dir.find_first_of("./") == std::string::npos, "pin_dir");
    for (const std::string& port : config.ports) {
        require(within(port.size(), std::size_t{1}, std::size_t{15}) && port.find('/') == std::string::npos,
                "ports");
    }
}

// An error is a sentence that names the file.
void check(const Error& error, const std::string& path) {
    require(error.code() == Errc::kUsage, "a bad file is the user's error");
    require(error.text().find(path) != std::string::npos, "the error names the file");
}

}  // namespace
}  // namespace ask::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace ask;
    fuzz::Input input(data, size);
    const bool agent = input.flag();
    const std::string_view text = input.rest();
    const UniqueFd file(::memfd_create("ask-config", MFD_CLOEXEC));
    fuzz::require(::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()),
                  "a file can be written");
    const std::string path = "/proc/self/fd/" + std::to_string(file.get());
    const std::array<const char*, 3> argv{"fuzz", "--config", path.c_str()};
    const int argc = static_cast<int>(argv.size());
    if (agent) {
        AgentConfig config;
        const auto action = AgentConfig::read(argc, argv.data(), config);
        action.ok() ? fuzz::check(config) : fuzz::check(action.error(), path);
    } else {
        SwitchConfig config;
        ConfigTable table("ask-switchd", "", "");
        declare_options(table, &config);
        const auto action = table.parse(argc, argv.data());
        action.ok() ? fuzz::check(config) : fuzz::check(action.error(), path);
    }
    return 0;
}
