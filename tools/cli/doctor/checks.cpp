// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/doctor/checks.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <iterator>
#include <utility>

#include "lib/abi/consts.h"
#include "lib/abi/limits.h"
#include "lib/text/clean.h"
#include "tools/cli/table.h"

namespace ask::cli::doctor {
namespace {

// The least kernel that all of it is tested with.
constexpr std::pair<unsigned, unsigned> kLeastKernel{6, 1};
constexpr std::time_t kSoon = 14L * 24 * 3600;

// Of one check.
class Report {
 public:
    Report(std::string_view check, std::vector<Finding>& findings) : check_(check), findings_(findings) {}

    void fine(std::string text) { add(Level::kFine, Errc::kInternal, std::move(text), ""); }
    void warning(std::string text, std::string remedy) {
        add(Level::kWarning, Errc::kInternal, std::move(text), std::move(remedy));
    }
    void fault(Errc code, std::string text, std::string remedy) {
        add(Level::kFault, code, std::move(text), std::move(remedy));
    }
    // The error says what to do itself.
    void fault(const Error& error) { fault(error.code(), error.text(), ""); }
    // Whether nothing has been found so far.
    [[nodiscard]] bool clean() const { return !found_; }

 private:
    void add(Level level, Errc code, std::string text, std::string remedy) {
        found_ = found_ || level != Level::kFine;
        findings_.push_back({check_, level, std::move(text), std::move(remedy), code});
    }

    std::string check_;
    std::vector<Finding>& findings_;
    bool found_ = false;
};

std::string joined(const std::vector<std::string>& words, std::string_view between) {
    std::string text;
    for (const std::string& word : words) {
        text.append(text.empty() ? "" : between).append(word);
    }
    return text;
}

std::string date_of(std::time_t time) {
    std::tm parts{};
    std::array<char, 32> text{};
    ::gmtime_r(&time, &parts);
    std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
    return text.data();
}

// Interfaces that ASK's packets take, and how they are to be attached.
struct Used {
    const LinkFacts* link;
    std::string xdp_mode;
};

// All that the agent uses, its `interface` first.
std::vector<const LinkFacts*> links_of(const HostFacts& host) {
    std::vector<const LinkFacts*> links{&host.link};
    std::ranges::transform(host.more_links, std::back_inserter(links),
                           [](const LinkFacts& link) { return &link; });
    return links;
}

std::vector<Used> used_links(const Facts& facts) {
    std::vector<Used> links;
    if (facts.host) {
        for (const LinkFacts* const link : links_of(*facts.host)) {
            links.push_back({link, facts.host->xdp_mode});
        }
    }
    if (facts.box) {
        for (const LinkFacts& port : facts.box->ports) {
            links.push_back({&port, facts.box->xdp_mode});
        }
    }
    std::erase_if(links, [](const Used& used) { return !used.link->present; });
    return links;
}

std::vector<const DaemonFacts*> daemons(const Facts& facts) {
    std::vector<const DaemonFacts*> all;
    if (facts.host) {
        all.push_back(&facts.host->daemon);
    }
    if (facts.box) {
        all.push_back(&facts.box->daemon);
    }
    return all;
}

std::vector<const CertificateFacts*> certificates(const Facts& facts) {
    std::vector<const CertificateFacts*> all;
    if (facts.host) {
        all.push_back(&facts.host->certificate);
    }
    if (facts.box) {
        all.push_back(&facts.box->certificate);
    }
    return all;
}

std::pair<unsigned, unsigned> version_of(const std::string& release) {
    std::pair<unsigned, unsigned> version{0, 0};
    const char* const end = release.data() + release.size();
    const auto first = std::from_chars(release.data(), end, version.first);
    if (first.ec == std::errc() && first.ptr != end && *first.ptr == '.') {
        std::from_chars(first.ptr + 1, end, version.second);
    }
    return version;
}

void check_configuration(const Facts& facts, Report& report) {
    for (const Error& trouble : facts.config_troubles) {
        report.fault(trouble);
    }
    if (facts.host) {
        report.fine("a host, by " + facts.host->config);
    }
    if (facts.box) {
        report.fine("a switch, by " + facts.box->config);
    }
    if (!facts.host && !facts.box && report.clean()) {
        report.warning("no daemon is configured in /etc/ask, so that little can be looked at",
                       "--agent-config or --switch-config names a file that is elsewhere");
    }
}

void check_kernel(const Facts& facts, Report& report) {
    const auto version = version_of(facts.kernel);
    if (version < kLeastKernel) {
        report.warning("Linux " + facts.kernel + " is older than 6.1, the oldest that this is tested with",
                       "run 6.1 or later (docs/kernels.md)");
    }
    if (facts.host && (version == std::pair{6U, 16U} || version == std::pair{6U, 17U})) {
        report.warning("Linux " + facts.kernel + " may panic when AF_XDP sends",
                       "run 6.18 or later, or a 6.17 with the fix (docs/kernels.md)");
    }
    if (facts.bpf) {
        report.fault(facts.bpf->code(), facts.bpf->text(), "run another kernel (docs/kernels.md)");
    }
    if (!facts.jit) {
        report.warning("BPF programs are interpreted, which is many times slower",
                       "sysctl net.core.bpf_jit_enable=1");
    }
    if (report.clean()) {
        report.fine("Linux " + facts.kernel + ", BPF is compiled");
    }
}

void check_btf(const Facts& facts, Report& report) {
    if (facts.btf) {
        report.fine("the kernel has its types (/sys/kernel/btf/vmlinux)");
    } else {
        report.warning(
            "the kernel has no types of its own (/sys/kernel/btf/vmlinux): maps can be dumped, but "
            "tracing tools will not work",
            "run a kernel with CONFIG_DEBUG_INFO_BTF");
    }
}

void check_bpffs(const Facts& facts, Report& report) {
    if (!facts.box) {
        return;
    }
    const std::string& path = facts.box->bpffs;
    if (facts.box->bpffs_mounted) {
        report.fine(path + " is a bpffs");
    } else {
        report.fault(Errc::kUnsupported,
                     "no bpffs is mounted at " + path + ", where the switch's pins are to be",
                     "mount -t bpf bpf " + path + ", or name another as bpffs");
    }
}

void check_capabilities(const Facts& facts, Report& report) {
    for (const DaemonFacts* const daemon : daemons(facts)) {
        const bool runs = !daemon->trouble;
        const std::string who = runs ? daemon->name : daemon->name + ", started from here,";
        if (daemon->lacks.empty()) {
            report.fine(who + " has the capabilities that it needs");
        } else {
            report.fault(Errc::kDenied, who + " lacks " + joined(daemon->lacks, ", "),
                         runs ? "start it by its unit, or as root"
                              : "start it by its unit (systemctl start " + daemon->name + "), or as root");
        }
    }
}

void check_memlock(const Facts& facts, Report& report) {
    for (const DaemonFacts* const daemon : daemons(facts)) {
        if (daemon->memory_limited) {
            report.fault(Errc::kLimit,
                         daemon->name + " may lock " + bytes_text(daemon->memory_limit) +
                             " of memory only, and AF_XDP and maps take more",
                         "LimitMEMLOCK=infinity in its unit, or ulimit -l unlimited");
        } else {
            report.fine(daemon->name + " may lock the memory that it needs");
        }
    }
}

void check_clock(const Facts& facts, Report& report) {
    for (const CertificateFacts* const certificate : certificates(facts)) {
        if (certificate->begins > facts.now) {
            report.fault(
                Errc::kDenied,
                "it is " + date_of(facts.now) + " here, and " + certificate->file + " begins on " +
                    date_of(certificate->begins) +
                    ": this clock is behind, or the one that it was issued by was ahead",
                "set this machine's clock (timedatectl set-ntp true), or issue the certificate anew");
        }
    }
    if (!facts.clock_kept) {
        report.warning(
            "nothing keeps this machine's clock, as the kernel knows: certificates are judged by it, and it "
            "will drift",
            "timedatectl set-ntp true, or chrony");
    }
    if (report.clean()) {
        report.fine("it is " + date_of(facts.now) + ", and the clock is kept");
    }
}

void check_certificates(const Facts& facts, Report& report) {
    for (const CertificateFacts* const certificate : certificates(facts)) {
        if (certificate->plain_text) {
            report.warning("plain text: whoever reaches the control port may do anything",
                           "issue certificates (askctl ca issue), and leave out plain_text");
        } else if (certificate->trouble && certificate->begins <= facts.now) {
            report.fault(*certificate->trouble);
        } else if (!certificate->trouble && certificate->ends - facts.now < kSoon) {
            report.warning(certificate->file + " ends on " + date_of(certificate->ends),
                           "issue a new one (askctl ca issue); daemons read it without a restart");
        } else if (!certificate->trouble) {
            report.fine(certificate->file + " is good until " + date_of(certificate->ends));
        }
    }
}

void check_interfaces(const Facts& facts, Report& report) {
    const auto look = [&report](const LinkFacts& link, const char* key) {
        if (!link.present) {
            report.fault(Errc::kUnknown, "there is no interface " + link.name + " in this network namespace",
                         std::string("ip link shows those that there are; name one of them as ") + key);
        } else if (!link.up) {
            report.fault(Errc::kUnsupported, "interface " + link.name + " is down",
                         "ip link set dev " + link.name + " up");
        } else {
            report.fine(link.name + " is up" + (link.driver.empty() ? "" : ", driver " + link.driver) + ", " +
                        std::to_string(link.rx_queues) + " queue(s)");
        }
    };
    if (facts.host) {
        look(facts.host->link, "interface");
        for (const LinkFacts& link : facts.host->more_links) {
            look(link, "more_interfaces");
        }
        if (facts.host->link.present && !facts.host->has_address) {
            const bool named = !facts.host->address.empty();
            report.fault(
                Errc::kUnknown,
                "interface " + facts.host->link.name + " does not have " +
                    (named ? "the address " + facts.host->address : "an address of IPv4 or IPv6"),
                "ip address add it, or name another as " + std::string(named ? "address" : "interface"));
        }
    }
    if (facts.box) {
        if (facts.box->ports.empty() && !facts.box->waits_for_ports) {
            report.fault(Errc::kUsage, "the switch has no ports", "name its interfaces as ports");
        }
        for (const LinkFacts& port : facts.box->ports) {
            look(port, "ports");
        }
    }
}

void check_mtu(const Facts& facts, Report& report) {
    std::vector<std::string> mtus;
    for (const Used& used : used_links(facts)) {
        const LinkFacts& link = *used.link;
        mtus.push_back(link.name + " " + std::to_string(link.mtu));
        if (link.mtu > ASK_MAX_MTU && used.xdp_mode == "native") {
            report.fault(Errc::kUnsupported,
                         "interface " + link.name + " has MTU " + std::to_string(link.mtu) +
                             ", native XDP takes up to " + std::to_string(ASK_MAX_MTU),
                         "ip link set dev " + link.name + " mtu " + std::to_string(ASK_MAX_MTU));
        }
    }
    if (report.clean() && !mtus.empty()) {
        report.fine(joined(mtus, ", "));
    }
}

void check_xdp(const Facts& facts, Report& report) {
    for (const Used& used : used_links(facts)) {
        const LinkFacts& link = *used.link;
        if (link.xdp == LinkFacts::Xdp::kGeneric || used.xdp_mode == "generic") {
            report.warning("XDP is generic on " + link.name +
                               ": each packet is copied into a socket buffer first, many times "
                               "slower, and on veth it breaks TCP",
                           "xdp_mode = \"native\", if the driver can do it, and restart the daemon");
        } else if (link.xdp == LinkFacts::Xdp::kNative) {
            report.fine("XDP is native on " + link.name);
        }
    }
}

// A sender has up to a window of packets under way in each of its channels, and several send to one queue at
// once.
void check_ring(const LinkFacts& link, Report& report) {
    constexpr std::uint32_t kEnough = 4 * ASK_WINDOW;
    const std::uint32_t most = std::min(link.receive_ring_most, kEnough);
    if (link.receive_ring != 0 && link.receive_ring < most) {
        report.warning("a queue of " + link.name + " has room for " + std::to_string(link.receive_ring) +
                           " packets, and a channel has up to " + std::to_string(ASK_WINDOW) +
                           " under way: of several at once some are lost, and sent again",
                       "ethtool -G " + link.name + " rx " + std::to_string(most));
    }
}

void check_queues(const Facts& facts, Report& report) {
    for (const Used& used : used_links(facts)) {
        check_ring(*used.link, report);
    }
    if (facts.host && facts.host->link.present && facts.host->workers > facts.host->link.rx_queues) {
        report.warning(
            std::to_string(facts.host->workers) + " workers share " +
                std::to_string(facts.host->link.rx_queues) + " queue(s) of " + facts.host->link.name,
            "workers = " + std::to_string(facts.host->link.rx_queues) + ", or more queues (ethtool -L " +
                facts.host->link.name + " combined " + std::to_string(facts.host->workers) + ")");
    }
    if (facts.box && facts.box->dedupe == "compact") {
        for (const LinkFacts& port : facts.box->ports) {
            if (port.rx_queues > 1) {
                report.warning("dedupe is compact, which takes each channel to stay on one CPU, and port " +
                                   port.name + " has " + std::to_string(port.rx_queues) + " queues",
                               "dedupe = \"tagged\", unless the NIC spreads by addresses and ports");
            }
        }
    }
}

bool overlap(const Cpus& one, const Cpus& other) {
    return std::ranges::any_of(one, [&other](unsigned cpu) { return other.contains(cpu); });
}

// Several queues are for several CPUs.
void check_spread(const LinkFacts& link, Report& report) {
    const auto& interrupts = link.card.interrupts;
    const bool one =
        interrupts.size() > 1 && interrupts.front().size() == 1 &&
        std::ranges::all_of(interrupts, [&](const Cpus& at) { return at == interrupts.front(); });
    if (one && link.rx_queues > 1) {
        report.warning("CPU " + cpus_text(interrupts.front()) + " serves all " +
                           std::to_string(interrupts.size()) + " interrupts of " + link.name +
                           ": one CPU works for its " + std::to_string(link.rx_queues) + " queues",
                       "irqbalance, or by hand, a queue a CPU: /proc/irq/N/smp_affinity_list");
    }
}

// What a card brings is in its own node's memory.
void check_node(const LinkFacts& link, const Cpus& near, Report& report) {
    const std::string where = link.name + " is next to the memory of CPUs " + cpus_text(near) + ", and ";
    const auto far = [&near](const Cpus& at) { return !overlap(at, near); };
    if (const auto at = std::ranges::find_if(link.card.interrupts, far); at != link.card.interrupts.end()) {
        report.warning(
            where + "CPUs " + cpus_text(*at) + " serve interrupts of it: its packets cross between them",
            "irqbalance, or by hand: /proc/irq/N/smp_affinity_list of its interrupts, CPUs " +
                cpus_text(near));
    }
}

void check_agents_node(const HostFacts& host, const Cpus& near, Report& report) {
    if (!host.daemon.cpus.empty() && !std::ranges::includes(near, host.daemon.cpus)) {
        report.warning(host.link.name + " is next to the memory of CPUs " + cpus_text(near) +
                           ", and ask-agentd may run on CPUs " + cpus_text(host.daemon.cpus) +
                           ": its workers may be far from what they read",
                       "systemctl edit ask-agentd: [Service] CPUAffinity=" + cpus_text(near));
    }
}

// Workers that poll, while interrupts take the packets away from under them.
void check_deferral(const LinkFacts& link, Report& report) {
    if (link.present && !link.card.defers) {
        const std::string folder = "/sys/class/net/" + link.name + "/";
        report.warning("busy_poll_us has workers poll " + link.name +
                           ", whose interrupts do not wait for that: they are served beside it",
                       "echo 2 > " + folder + "napi_defer_hard_irqs; echo 200000 > " + folder +
                           "gro_flush_timeout, or leave busy_poll_us out");
    }
}

// nullptr: there is one node, or the card is next to none.
const Cpus* near_to(const LinkFacts& link, const Facts& facts) {
    const auto busy = std::ranges::count_if(facts.nodes, [](const Cpus& cpus) { return !cpus.empty(); });
    const bool known = link.card.node >= 0 && static_cast<std::size_t>(link.card.node) < facts.nodes.size();
    const Cpus* const near = known ? &facts.nodes[static_cast<std::size_t>(link.card.node)] : nullptr;
    return busy > 1 && near != nullptr && !near->empty() ? near : nullptr;
}

void check_cpus(const Facts& facts, Report& report) {
    for (const Used& used : used_links(facts)) {
        check_spread(*used.link, report);
        if (const Cpus* const near = near_to(*used.link, facts)) {
            check_node(*used.link, *near, report);
        }
    }
    if (facts.host && facts.host->busy_poll_us > 0) {
        for (const LinkFacts* const link : links_of(*facts.host)) {
            check_deferral(*link, report);
        }
    }
    if (facts.host && facts.host->link.present) {
        if (const Cpus* const near = near_to(facts.host->link, facts)) {
            check_agents_node(*facts.host, *near, report);
        }
    }
}

void check_offloads(const Facts& facts, Report& report) {
    std::vector<std::string> names;
    for (const Used& used : used_links(facts)) {
        const LinkFacts& link = *used.link;
        names.push_back(link.name);
        std::vector<std::string> off = link.offloads;
        // A NIC's are done once a frame leaves; a veth hands frames on for which nothing has been done.
        const bool veth = link.driver == "veth";
        std::erase_if(off, [veth](const std::string& offload) { return !veth && offload != "lro"; });
        if (!off.empty()) {
            report.warning(link.name + " offloads " + joined(off, ", ") +
                               (veth ? ": XDP at its other end sees frames without checksums and VLAN tags, "
                                       "and longer than the MTU"
                                     : ": frames are merged before XDP sees them"),
                           "ethtool -K " + link.name + " " + joined(off, " off ") + " off");
        }
    }
    if (report.clean() && !names.empty()) {
        report.fine("nothing is offloaded that XDP would miss: " + joined(names, ", "));
    }
}

void check_forwarding(const Facts& facts, Report& report) {
    if (!facts.box) {
        return;
    }
    const bool bridges =
        facts.box->status && std::ranges::any_of(facts.box->status->ports(), [](const v1::SwitchPort& port) {
            return !port.bridge().empty();
        });
    const bool only_ipv6 = facts.box->has_ipv6 && !facts.box->has_ipv4;
    if (facts.box->has_ipv6 && !facts.box->forwards6 && !bridges) {
        report.warning(
            "this machine's ports have IPv6 addresses, and it does not route IPv6",
            "sysctl net.ipv6.conf.all.forwarding=1, and a file in /etc/sysctl.d for after a reboot, "
            "if hosts with IPv6 are behind it");
    } else if (facts.box->has_ipv6 && !bridges) {
        report.fine("this machine routes IPv6 (net.ipv6.conf.all.forwarding)");
    }
    if (facts.box->forwards) {
        report.fine("this machine routes (net.ipv4.ip_forward)");
    } else if (bridges) {
        report.fine("this machine bridges, and does not route");
    } else if (!only_ipv6) {
        report.fault(Errc::kUnsupported,
                     "this machine does not route: what the switch program passes on, control traffic above "
                     "all, stops here",
                     "sysctl net.ipv4.ip_forward=1, and a file in /etc/sysctl.d for after a reboot");
    }
}

void check_groups(const Facts& facts, Report& report) {
    for (const DaemonFacts* const daemon : daemons(facts)) {
        if (daemon->group) {
            report.fault(*daemon->group);
        }
    }
}

void check_daemons(const Facts& facts, Report& report) {
    for (const DaemonFacts* const daemon : daemons(facts)) {
        if (!daemon->trouble) {
            report.fine(daemon->name + " answers, version " + daemon->version);
        } else if (daemon->port_taken) {
            report.fault(
                Errc::kExists,
                daemon->name + " does not run, and another process listens at its port, " + daemon->listen,
                "ss -ltnp names it; end it, or let the daemon listen elsewhere");
        } else {
            report.fault(daemon->trouble->code(),
                         daemon->name + " does not answer: " + daemon->trouble->text(),
                         "systemctl status " + daemon->name + ", and its log: journalctl -u " + daemon->name);
        }
    }
}

void check_ports(const Facts& facts, Report& report) {
    if (!facts.box || !facts.box->status) {
        return;
    }
    for (const LinkFacts& port : facts.box->ports) {
        const auto& known = facts.box->status->ports();
        const auto at = std::ranges::find(known, port.name, &v1::SwitchPort::name);
        if (at == known.end()) {
            report.fault(Errc::kUnknown,
                         "ask-switchd does not know port " + port.name + ", which its file names",
                         "systemctl restart ask-switchd");
        } else if (!at->attached()) {
            report.fault(Errc::kUnavailable, "the switch program is not attached to port " + port.name,
                         at->trouble().empty() ? "systemctl restart ask-switchd; ip -details link show " +
                                                     port.name + " says what is there instead"
                                               : at->trouble());
        }
    }
    if (report.clean() && !facts.box->ports.empty()) {
        report.fine("the switch program is attached to all " + std::to_string(facts.box->ports.size()) +
                    " ports");
    }
}

void check_switch(const Facts& facts, Report& report) {
    if (!facts.host) {
        return;
    }
    const HostFacts& host = *facts.host;
    if (host.switch_address.empty()) {
        report.warning("this host's agent has no switch: everything is added up on hosts",
                       "name one as switch");
    } else if (host.switch_trouble) {
        report.fault(host.switch_trouble->code(), host.switch_trouble->text(),
                     "switch names the control address of an ask-switchd, HOST:4792; is that the one?");
    } else {
        report.fine("the switch at " + host.switch_address + " answers");
        if (!host.daemon.version.empty() && host.daemon.version != host.switch_version) {
            report.warning("ask-agentd is version " + host.daemon.version + ", the switch at " +
                               host.switch_address + " " + host.switch_version,
                           "install the same release on both (docs/operations.md)");
        }
    }
}

bool uses(const HostFacts& host, const std::string& interface) {
    return std::ranges::any_of(links_of(host),
                               [&interface](const LinkFacts* link) { return link->name == interface; });
}

void check_path(const Facts& facts, const PathFacts& path, Report& report) {
    if (path.address.empty()) {
        report.fault(Errc::kUnknown, "the name " + path.to + " does not resolve",
                     "name it in the agent's [hosts], or give an address");
        return;
    }
    const std::string to = path.to == path.address ? path.to : path.to + " (" + path.address + ")";
    if (path.local) {
        report.fine(to + " is this host");
        return;
    }
    if (path.leaves_by.empty()) {
        report.fault(Errc::kUnavailable, "there is no route to " + to, "ip route add one");
        return;
    }
    if (facts.host && !uses(*facts.host, path.leaves_by)) {
        std::vector<std::string> names;
        for (const LinkFacts* const link : links_of(*facts.host)) {
            names.insert(names.end(), link->name);
        }
        report.fault(Errc::kUnavailable,
                     "packets to " + to + " leave by " + path.leaves_by + ", not by " +
                         joined(names, " or ") + ", which the agent uses",
                     "a route by " + names.front() + ", or \"" + path.leaves_by +
                         "\" as interface or one of more_interfaces");
    }
    if (!path.answers) {
        report.warning(to + " does not answer to ICMP, so nobody knows how large packets may be on the way",
                       "let ICMP through, or ask the other host: is it up?");
    } else if (path.largest < path.mtu) {
        report.fault(Errc::kUnsupported,
                     "packets of " + std::to_string(path.largest) + " bytes get to " + to +
                         " and back, those of " + std::to_string(path.mtu) + ", the MTU of " +
                         path.leaves_by + ", do not",
                     "ip link set dev " + path.leaves_by + " mtu " + std::to_string(path.largest) +
                         " at all hosts, or a larger MTU at each hop between");
    }
    if (path.control) {
        report.fault(path.control->code(), path.control->text(),
                     "is ask-agentd running there, at that port, and does a firewall let TCP through?");
    }
    if (report.clean()) {
        report.fine("packets of " + std::to_string(path.largest) + " bytes get to " + to +
                    " and back, and its agent answers");
    }
}

void check_paths(const Facts& facts, Report& report) {
    for (const PathFacts& path : facts.paths) {
        check_path(facts, path, report);
    }
}

struct Check {
    const char* name;
    void (*run)(const Facts& facts, Report& report);
};
constexpr std::array kChecks{
    Check{"configuration", check_configuration},
    Check{"kernel", check_kernel},
    Check{"btf", check_btf},
    Check{"bpffs", check_bpffs},
    Check{"capabilities", check_capabilities},
    Check{"memlock", check_memlock},
    Check{"interface", check_interfaces},
    Check{"mtu", check_mtu},
    Check{"xdp", check_xdp},
    Check{"queues", check_queues},
    Check{"cpus", check_cpus},
    Check{"offloads", check_offloads},
    Check{"forwarding", check_forwarding},
    Check{"clock", check_clock},
    Check{"certificate", check_certificates},
    Check{"group", check_groups},
    Check{"daemon", check_daemons},
    Check{"ports", check_ports},
    Check{"switch", check_switch},
    Check{"path", check_paths},
};

const char* level_text(Level level) {
    return level == Level::kFine ? "ok" : level == Level::kWarning ? "warning" : "FAULT";
}

std::size_t count(const std::vector<Finding>& findings, Level level) {
    return static_cast<std::size_t>(std::ranges::count(findings, level, &Finding::level));
}

}  // namespace

std::vector<Finding> examine(const Facts& facts) {
    std::vector<Finding> findings;
    for (const Check& check : kChecks) {
        Report report(check.name, findings);
        check.run(facts, report);
    }
    for (Finding& finding : findings) {
        finding.text = clean_text(finding.text);
        finding.remedy = clean_text(finding.remedy);
    }
    return findings;
}

std::string findings_text(const std::vector<Finding>& findings) {
    Table table({{""}, {""}, {""}});
    for (const Finding& finding : findings) {
        table.add({level_text(finding.level), finding.check, finding.text});
        if (!finding.remedy.empty()) {
            table.add({"", "", "-> " + finding.remedy});
        }
    }
    const std::size_t faults = count(findings, Level::kFault);
    const std::size_t warnings = count(findings, Level::kWarning);
    return table.text() + std::to_string(faults) + " fault(s), " + std::to_string(warnings) + " warning(s)\n";
}

Json findings_json(const std::vector<Finding>& findings) {
    Json list = Json::array();
    for (const Finding& finding : findings) {
        const char* const level = finding.level == Level::kFine      ? "ok"
                                  : finding.level == Level::kWarning ? "warning"
                                                                     : "fault";
        list.push_back(
            {{"check", finding.check}, {"level", level}, {"text", finding.text}, {"remedy", finding.remedy}});
    }
    return {{"faults", count(findings, Level::kFault)},
            {"warnings", count(findings, Level::kWarning)},
            {"findings", std::move(list)}};
}

int exit_code(const std::vector<Finding>& findings) {
    const auto first = std::ranges::find(findings, Level::kFault, &Finding::level);
    return first == findings.end() ? 0 : static_cast<int>(first->code);
}

}  // namespace ask::cli::doctor
