// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/doctor/gather.h"

#include <ifaddrs.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/timex.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include <bpf/bpf.h>

#include "agent/config.h"
#include "lib/base/runtime.h"
#include "lib/base/unique_fd.h"
#include "lib/bpf/kernel.h"
#include "lib/daemon/listen.h"
#include "lib/net/address.h"
#include "lib/net/host_book.h"
#include "lib/net/netlink.h"
#include "lib/rpc/ports.h"
#include "lib/tls/probe.h"
#include "loader/config.h"
#include "loader/port_names.h"
#include "tools/cli/control.h"

namespace ask::cli::doctor {
namespace {

constexpr const char* kAgentConfig = "/etc/ask/agentd.toml";
constexpr const char* kSwitchConfig = "/etc/ask/switchd.toml";

std::string first_word(const std::string& path) {
    std::ifstream file(path);
    std::string word;
    file >> word;
    return word;
}

// The file that is meant; empty: none is named, and there is none at the usual place.
std::string config_file(const std::string& named, const char* usual) {
    return !named.empty() ? named : ::access(usual, F_OK) == 0 ? usual : "";
}

Result<AgentConfig> agent_config(const std::string& file) {
    const std::array<const char*, 3> arguments{"ask-agentd", "--config", file.c_str()};
    AgentConfig config;
    ASK_PASS(AgentConfig::read(static_cast<int>(arguments.size()), arguments.data(), config));
    return config;
}

Result<SwitchConfig> switch_config(const std::string& file) {
    const std::array<const char*, 3> arguments{"ask-switchd", "--config", file.c_str()};
    SwitchConfig config;
    ConfigTable table("ask-switchd", "", "");
    declare_options(table, &config);
    ASK_PASS(table.parse(static_cast<int>(arguments.size()), arguments.data()));
    return config;
}

CertificateFacts look_at_certificate(const SecurityConfig& security) {
    CertificateFacts facts;
    facts.file = security.tls_certificate;
    const RpcSecurity rpc = security.rpc();
    facts.plain_text = rpc.plain_text == PlainText::kEverywhere;
    if (facts.plain_text) {
        return facts;
    }
    if (const auto times = certificate_times(security.tls_certificate)) {
        facts.begins = times->begins;
        facts.ends = times->ends;
    }
    if (const auto identity = TlsIdentity::load(rpc.files); !identity) {
        facts.trouble = identity.error();
    }
    return facts;
}

// Of the process that listens at a Unix socket; 0: nobody does.
pid_t listener_at(const std::string& path) {
    const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    if (!fd || path.size() >= sizeof(address.sun_path)) {
        return 0;
    }
    std::memcpy(address.sun_path, path.data(), path.size());
    ucred peer{};
    socklen_t size = sizeof(peer);
    const bool connected =
        ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
        ::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
    return connected ? peer.pid : 0;
}

// Of /proc/PID/status; 0: it cannot be read.
std::uint64_t capabilities_of(const std::string& process) {
    std::ifstream file("/proc/" + process + "/status");
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("CapEff:")) {
            return std::stoull(line.substr(line.find('\t') + 1), nullptr, 16);
        }
    }
    return 0;
}

// The soft limit of /proc/PID/limits; RLIM_INFINITY: there is none.
std::uint64_t locked_memory_of(const std::string& process) {
    constexpr std::string_view kLine = "Max locked memory";
    std::ifstream file("/proc/" + process + "/limits");
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with(kLine)) {
            std::istringstream rest(line.substr(kLine.size()));
            std::uint64_t limit = RLIM_INFINITY;
            return rest >> limit ? limit : RLIM_INFINITY;
        }
    }
    return RLIM_INFINITY;
}

// Rings and frames of a few queues.
constexpr std::uint64_t kLeastLocked = std::uint64_t{64} << 20U;

bool has_capability(std::uint64_t set, int number) {
    return ((set >> static_cast<unsigned>(number)) & 1U) != 0;
}

void look_at_process(pid_t pid, bool sends_raw, DaemonFacts& daemon) {
    const std::string process = pid > 0 ? std::to_string(pid) : "self";
    const std::uint64_t set = capabilities_of(process);
    const bool all = has_capability(set, CAP_SYS_ADMIN);
    for (const auto& capability : bpf::kXdpCapabilities) {
        if (!has_capability(set, capability.number) && (capability.number == CAP_NET_ADMIN || !all)) {
            daemon.lacks.emplace_back(capability.name);
        }
    }
    if (sends_raw && !has_capability(set, CAP_NET_RAW)) {
        daemon.lacks.emplace_back("CAP_NET_RAW");
    }
    daemon.cpus = cpus_of_process(process);
    daemon.memory_limit = locked_memory_of(process);
    daemon.memory_limited = daemon.memory_limit < kLeastLocked && !has_capability(set, CAP_IPC_LOCK);
}

DaemonFacts look_at_daemon(const std::string& name, const std::string& socket, const std::string& control,
                           const std::string& listen, const std::string& group) {
    DaemonFacts daemon;
    daemon.name = name;
    daemon.socket = socket;
    daemon.listen = listen;
    if (const auto known = socket_group(group); !known) {
        daemon.group = known.error();
    }
    look_at_process(listener_at(control), name == "ask-agentd", daemon);
    return daemon;
}

template <typename Status>
std::optional<Status> take_status(Result<Status> status, DaemonFacts& daemon) {
    if (status) {
        daemon.version = status->version();
        return *std::move(status);
    }
    daemon.trouble = status.error();
    const auto free = check_listen("listen", daemon.listen);
    daemon.port_taken = !free && free.error().code() == Errc::kExists;
    return std::nullopt;
}

void look_at_switch_of(const AgentConfig& config, HostFacts& host) {
    if (config.switch_address.empty()) {
        return;
    }
    const ControlSecurity security{
        .tls = {}, .plain_text = host.certificate.plain_text, .files = config.security.rpc().files};
    if (const auto status = switch_status(config.switch_address, security)) {
        host.switch_version = status->version();
    } else {
        host.switch_trouble = status.error();
    }
}

bool has_address(const AgentConfig& config) {
    auto netlink = Netlink::open();
    if (!netlink) {
        return false;
    }
    const auto info = netlink->interface(config.interface);
    if (!info) {
        return false;
    }
    const auto addresses = netlink->addresses(info->index);
    const auto wanted = parse_host(config.address);
    // One that several interfaces lead to may be the loopback's.
    if (wanted && !config.more_interfaces.empty()) {
        const auto route = netlink->route(*wanted);
        return route && route->local;
    }
    return addresses && !addresses->empty() &&
           (!wanted || std::ranges::find(*addresses, *wanted) != addresses->end());
}

std::vector<LinkFacts> look_at_links(const std::vector<std::string>& names) {
    std::vector<LinkFacts> links(names.size());
    std::ranges::transform(names, links.begin(), look_at_link);
    return links;
}

HostFacts look_at_host(const std::string& file, const AgentConfig& config) {
    HostFacts host{.config = file,
                   .link = look_at_link(config.interface),
                   .more_links = look_at_links(config.more_interfaces),
                   .has_address = has_address(config),
                   .address = config.address,
                   .xdp_mode = config.xdp_mode,
                   .workers = config.workers,
                   .busy_poll_us = config.busy_poll_us,
                   .daemon = look_at_daemon("ask-agentd", config.socket, config.socket + ".ctl",
                                            config.listen, config.socket_group),
                   .certificate = look_at_certificate(config.security),
                   .status = {},
                   .switch_address = config.switch_address,
                   .switch_trouble = {},
                   .switch_version = {}};
    host.status = take_status(agent_status(config.socket), host.daemon);
    look_at_switch_of(config, host);
    return host;
}

// What stands for them now, and those that are missing.
std::vector<std::string> port_names(const std::vector<std::string>& configured) {
    auto netlink = Netlink::open();
    const auto all =
        netlink.ok() ? netlink->interfaces() : Result<std::vector<InterfaceInfo>>(netlink.error());
    PortChoice choice = choose_ports(configured, all.ok() ? *all : std::vector<InterfaceInfo>());
    std::vector<std::string> names = std::move(choice.missing);
    std::ranges::transform(choice.ports, std::back_inserter(names),
                           [](const PortChoice::Named& port) { return port.interface.name; });
    return names;
}

// "2001:db8::1" of "[2001:db8::1]".
std::string without_brackets(const std::string& text) {
    return text.size() > 2 && text.front() == '[' && text.back() == ']' ? text.substr(1, text.size() - 2)
                                                                        : text;
}

// Of which families its ports have addresses; those that name a link's neighbour alone say nothing.
void look_at_families(SwitchFacts& box) {
    const auto is_port = [&box](const char* name) {
        return std::ranges::find(box.ports, name, &LinkFacts::name) != box.ports.end();
    };
    ifaddrs* all = nullptr;
    if (::getifaddrs(&all) != 0) {
        return;
    }
    box.has_ipv4 = false;
    for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
        if (each->ifa_addr == nullptr || !is_port(each->ifa_name)) {
            continue;
        }
        sockaddr_in6 address{};
        box.has_ipv4 = box.has_ipv4 || each->ifa_addr->sa_family == AF_INET;
        if (each->ifa_addr->sa_family == AF_INET6) {
            std::memcpy(&address, each->ifa_addr, sizeof(address));
            box.has_ipv6 = box.has_ipv6 || !IN6_IS_ADDR_LINKLOCAL(&address.sin6_addr);
        }
    }
    ::freeifaddrs(all);
    box.has_ipv4 = box.has_ipv4 || !box.has_ipv6;
}

SwitchFacts look_at_box(const std::string& file, const SwitchConfig& config) {
    SwitchFacts box{.config = file,
                    .ports = {},
                    .xdp_mode = config.xdp_mode,
                    .dedupe = config.dedupe,
                    .bpffs = config.bpffs,
                    .bpffs_mounted = false,
                    .forwards = first_word("/proc/sys/net/ipv4/ip_forward") == "1",
                    .forwards6 = first_word("/proc/sys/net/ipv6/conf/all/forwarding") == "1",
                    .daemon = look_at_daemon("ask-switchd", config.socket, config.socket, config.listen,
                                             config.socket_group),
                    .certificate = look_at_certificate(config.security),
                    .status = {}};
    for (const std::string& port : port_names(config.ports)) {
        box.ports.push_back(look_at_link(port));
    }
    look_at_families(box);
    box.waits_for_ports = std::ranges::any_of(config.ports, is_port_pattern);
    struct statfs info{};
    box.bpffs_mounted = ::statfs(config.bpffs.c_str(), &info) == 0 && info.f_type == BPF_FS_MAGIC;
    box.status = take_status(switch_status("unix:" + config.socket, {}), box.daemon);
    return box;
}

// The address of a name, of that family; empty: it has none.
std::string address_of(const std::string& name, int family) {
    addrinfo hints{};
    hints.ai_family = family;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (::getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) {
        return "";
    }
    std::array<char, NI_MAXHOST> text{};
    const int failed = ::getnameinfo(found->ai_addr, found->ai_addrlen, text.data(), text.size(), nullptr, 0,
                                     NI_NUMERICHOST);
    ::freeaddrinfo(found);
    return failed == 0 ? text.data() : "";
}

// Of the family that this host's packets have, if it is known, else of any.
std::string address_of(const std::string& name, const AgentConfig* config) {
    if (const auto host = parse_host(without_brackets(name))) {
        return format_host(*host);
    }
    const bool six = config != nullptr && parse_ipv6(config->address);
    const std::string preferred = address_of(name, six ? AF_INET6 : AF_INET);
    return preferred.empty() && (config == nullptr || config->address.empty()) ? address_of(name, AF_INET6)
                                                                               : preferred;
}

struct Target {
    std::string address;
    std::uint16_t port = kControlPort;
};

// As the agent takes the name: one of its table, an address, or what the resolver knows, each perhaps with a
// port.
Target target_of(const std::string& name, const AgentConfig* config) {
    const auto named = split_host_port(name);
    const std::string host = named ? named->host : name;
    Target target{.address = host};
    if (config != nullptr) {
        if (const auto at = config->hosts.find(host); at != config->hosts.end()) {
            const auto parts = split_host_port(at->second);
            target = parts ? Target{parts->host, parts->port} : Target{at->second};
        }
    }
    target.address = address_of(target.address, config);
    target.port = named ? named->port : target.port;
    return target;
}

PathFacts look_at_host_path(const std::string& name, const AgentConfig* config) {
    constexpr std::chrono::milliseconds kWait{3000};
    const Target target = target_of(name, config);
    PathFacts path = look_at_path({name, target.address});
    if (path.leaves_by.empty()) {
        return path;
    }
    // Without an agent's certificate only that somebody listens.
    std::optional<TlsIdentity> identity;
    if (config != nullptr && config->security.rpc().plain_text != PlainText::kEverywhere) {
        auto loaded = TlsIdentity::load(config->security.rpc().files);
        if (!loaded) {
            return path;  // it is said of the certificate itself
        }
        identity = *std::move(loaded);
    }
    const std::string address = control_address(*parse_host(target.address), target.port);
    const auto reached =
        probe_rpc_port({.address = address, .identity = identity ? &*identity : nullptr, .wait = kWait});
    if (!reached) {
        path.control = Error(reached.error().code(), "the agent of " + name + ": " + reached.error().text());
    }
    return path;
}

void look_at_kernel(Facts& facts) {
    utsname names{};
    ::uname(&names);
    facts.kernel = names.release;
    facts.btf = ::access("/sys/kernel/btf/vmlinux", R_OK) == 0;
    // Where it is compiled in for good, the file says 1 as well.
    const std::string jit = first_word("/proc/sys/net/core/bpf_jit_enable");
    facts.jit = jit.empty() || jit != "0";
    facts.nodes = look_at_nodes();
    facts.now = time_of_day();
    timex clock{};
    facts.clock_kept = ::adjtimex(&clock) != TIME_ERROR && (clock.status & STA_UNSYNC) == 0;
}

}  // namespace

Facts gather(const Questions& questions) {
    Facts facts;
    look_at_kernel(facts);
    std::optional<AgentConfig> agent;
    if (const std::string file = config_file(questions.agent_config, kAgentConfig); !file.empty()) {
        if (auto config = agent_config(file)) {
            agent = *std::move(config);
            facts.host = look_at_host(file, *agent);
        } else {
            facts.config_troubles.push_back(config.error());
        }
    }
    if (const std::string file = config_file(questions.switch_config, kSwitchConfig); !file.empty()) {
        if (const auto config = switch_config(file)) {
            facts.box = look_at_box(file, *config);
            const auto able = bpf::check_switch_features();
            // Whoever may not try does not know.
            if (::geteuid() == 0 && !able) {
                facts.bpf = able.error();
            }
        } else {
            facts.config_troubles.push_back(config.error());
        }
    }
    for (const std::string& name : questions.to) {
        facts.paths.push_back(look_at_host_path(name, agent ? &*agent : nullptr));
    }
    return facts;
}

}  // namespace ask::cli::doctor
