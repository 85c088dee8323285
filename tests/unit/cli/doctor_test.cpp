// SPDX-License-Identifier: Apache-2.0
//
// What `askctl doctor` makes of what is found: of a sound machine nothing, of each fault its name, and what
// to do.
#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "tools/cli/doctor/checks.h"

namespace ask::cli::doctor {
namespace {

constexpr std::time_t kNow = 1'800'000'000;
constexpr std::time_t kDay = 24L * 3600;

LinkFacts sound_link(const std::string& name) {
    LinkFacts link;
    link.name = name;
    link.present = link.up = true;
    link.mtu = 1500;
    link.rx_queues = 4;
    link.xdp = LinkFacts::Xdp::kNative;
    link.driver = "mlx5_core";
    link.offloads = {"tx", "tso", "txvlan"};
    return link;
}

CertificateFacts sound_certificate() {
    CertificateFacts certificate;
    certificate.file = "/etc/ask/tls/certificate.pem";
    certificate.begins = kNow - kDay;
    certificate.ends = kNow + 100 * kDay;
    return certificate;
}

DaemonFacts sound_daemon(const std::string& name) {
    DaemonFacts daemon;
    daemon.name = name;
    daemon.listen = "0.0.0.0:4791";
    daemon.version = "1.2";
    return daemon;
}

// A machine that is host and switch at once, and knows another host.
Facts sound() {
    Facts facts;
    facts.kernel = "6.12.3-amd64";
    facts.btf = facts.jit = facts.clock_kept = true;
    facts.nodes = {{0, 1, 2, 3}, {4, 5, 6, 7}};
    facts.now = kNow;
    HostFacts host;
    host.link = sound_link("eth0");
    host.has_address = true;
    host.xdp_mode = "native";
    host.link.card = {0, {{0}, {1}, {2}, {3}}};
    host.daemon = sound_daemon("ask-agentd");
    host.daemon.cpus = {0, 1};
    host.certificate = sound_certificate();
    host.status.emplace();
    host.switch_address = "192.0.2.1:4792";
    host.switch_version = "1.2";
    facts.host = host;
    SwitchFacts box;
    box.ports = {sound_link("p1"), sound_link("p2")};
    box.xdp_mode = "native";
    box.dedupe = "tagged";
    box.bpffs = "/sys/fs/bpf";
    box.bpffs_mounted = box.forwards = true;
    box.daemon = sound_daemon("ask-switchd");
    box.certificate = sound_certificate();
    box.status.emplace();
    for (const char* const name : {"p1", "p2"}) {
        v1::SwitchPort& port = *box.status->add_ports();
        port.set_name(name);
        port.set_attached(true);
    }
    facts.box = box;
    PathFacts path;
    path.to = "h2";
    path.address = "192.0.2.2";
    path.leaves_by = "eth0";
    path.answers = true;
    path.mtu = path.largest = 1500;
    facts.paths = {path};
    return facts;
}

struct Planted {
    const char* check;
    Level level;
    Errc code;         // of a fault
    const char* says;  // in the text, or what to do
    std::function<void(Facts&)> plant;
};

TEST_CASE("nothing is wrong with a sound machine") {
    const auto findings = examine(sound());
    CHECK(std::ranges::all_of(findings, [](const Finding& finding) {
        return finding.level == Level::kFine && !finding.text.empty() && finding.remedy.empty();
    }));
    CHECK(exit_code(findings) == 0);
    CHECK(findings_text(findings).ends_with("\n0 fault(s), 0 warning(s)\n"));
    const Json json = findings_json(findings);
    CHECK(json["faults"] == 0);
    CHECK(json["findings"].size() == findings.size());
}

TEST_CASE("each fault is found alone, by its name, with what to do") {
    const Planted planted[]{
        {"configuration", Level::kFault, Errc::kUsage, "unknown key",
         [](Facts& f) { f.config_troubles.emplace_back(Errc::kUsage, "agentd.toml:3: unknown key"); }},
        {"kernel", Level::kWarning, {}, "older than 6.1", [](Facts& f) { f.kernel = "5.15.0"; }},
        {"kernel", Level::kWarning, {}, "may panic", [](Facts& f) { f.kernel = "6.16.2"; }},
        {"kernel", Level::kWarning, {}, "bpf_jit_enable=1", [](Facts& f) { f.jit = false; }},
        {"kernel", Level::kFault, Errc::kUnsupported, "lacks devmaps",
         [](Facts& f) { f.bpf = Error(Errc::kUnsupported, "this kernel lacks devmaps"); }},
        {"btf", Level::kWarning, {}, "CONFIG_DEBUG_INFO_BTF", [](Facts& f) { f.btf = false; }},
        {"bpffs", Level::kFault, Errc::kUnsupported, "mount -t bpf bpf /sys/fs/bpf",
         [](Facts& f) { f.box->bpffs_mounted = false; }},
        {"capabilities", Level::kFault, Errc::kDenied, "ask-agentd lacks CAP_BPF, CAP_NET_RAW",
         [](Facts& f) { f.host->daemon.lacks = {"CAP_BPF", "CAP_NET_RAW"}; }},
        {"memlock", Level::kFault, Errc::kLimit, "8.0 MiB",
         [](Facts& f) {
             f.host->daemon.memory_limited = true;
             f.host->daemon.memory_limit = 8U << 20U;
         }},
        {"interface", Level::kFault, Errc::kUnknown, "no interface eth0",
         [](Facts& f) { f.host->link.present = false; }},
        {"interface", Level::kFault, Errc::kUnsupported, "ip link set dev p2 up",
         [](Facts& f) { f.box->ports[1].up = false; }},
        {"interface", Level::kFault, Errc::kUnknown, "does not have an address of IPv4 or IPv6",
         [](Facts& f) { f.host->has_address = false; }},
        {"interface", Level::kFault, Errc::kUsage, "no ports", [](Facts& f) { f.box->ports.clear(); }},
        {"mtu", Level::kFault, Errc::kUnsupported, "ip link set dev p1 mtu 9216",
         [](Facts& f) { f.box->ports[0].mtu = 9217; }},
        {"xdp",
         Level::kWarning,
         {},
         "generic on eth0",
         [](Facts& f) { f.host->link.xdp = LinkFacts::Xdp::kGeneric; }},
        {"queues", Level::kWarning, {}, "8 workers share 4", [](Facts& f) { f.host->workers = 8; }},
        {"queues",
         Level::kWarning,
         {},
         "port p1 has 4 queues",
         [](Facts& f) {
             f.box->dedupe = "compact";
             f.box->ports[1].rx_queues = 1;
         }},
        {"queues",
         Level::kWarning,
         {},
         "a queue of p2 has room for 256 packets, and a channel has up to 256",
         [](Facts& f) {
             f.box->ports[1].receive_ring = 256;
             f.box->ports[1].receive_ring_most = 4096;
         }},
        {"cpus",
         Level::kWarning,
         {},
         "CPU 3 serves all 4 interrupts of p2: one CPU works for its 4 queues",
         [](Facts& f) { f.box->ports[1].card.interrupts = {{3}, {3}, {3}, {3}}; }},
        {"cpus",
         Level::kWarning,
         {},
         "p1 is next to the memory of CPUs 4-7, and CPUs 0 serve interrupts of it",
         [](Facts& f) { f.box->ports[0].card = {1, {{0}, {4}, {5}, {6}}}; }},
        {"cpus",
         Level::kWarning,
         {},
         "[Service] CPUAffinity=4-7",
         [](Facts& f) {
             f.host->link.card = {1, {{4}, {5}}};
             f.host->daemon.cpus = {3, 4, 5};
         }},
        {"cpus",
         Level::kWarning,
         {},
         "echo 2 > /sys/class/net/eth0/napi_defer_hard_irqs",
         [](Facts& f) { f.host->busy_poll_us = 50; }},
        {"offloads",
         Level::kWarning,
         {},
         "ethtool -K p1 tx off tso off txvlan off",
         [](Facts& f) { f.box->ports[0].driver = "veth"; }},
        {"offloads",
         Level::kWarning,
         {},
         "merged before XDP",
         [](Facts& f) { f.host->link.offloads = {"tx", "lro"}; }},
        {"forwarding", Level::kFault, Errc::kUnsupported, "ip_forward=1",
         [](Facts& f) { f.box->forwards = false; }},
        {"forwarding",
         Level::kWarning,
         {},
         "net.ipv6.conf.all.forwarding=1",
         [](Facts& f) { f.box->has_ipv6 = true; }},
        {"clock", Level::kWarning, {}, "nothing keeps", [](Facts& f) { f.clock_kept = false; }},
        {"clock", Level::kFault, Errc::kDenied, "clock is behind",
         [](Facts& f) {
             f.host->certificate.begins = kNow + kDay;
             f.host->certificate.trouble = Error(Errc::kDenied, "is not valid before");
         }},
        {"certificate", Level::kFault, Errc::kDenied, "expired on",
         [](Facts& f) { f.host->certificate.trouble = Error(Errc::kDenied, "expired on"); }},
        {"certificate",
         Level::kWarning,
         {},
         "ends on",
         [](Facts& f) { f.box->certificate.ends = kNow + 3 * kDay; }},
        {"certificate",
         Level::kWarning,
         {},
         "plain text",
         [](Facts& f) { f.box->certificate.plain_text = true; }},
        {"group", Level::kFault, Errc::kUnknown, "groupadd",
         [](Facts& f) { f.box->daemon.group = Error(Errc::kUnknown, "make it (groupadd ask)"); }},
        {"daemon", Level::kFault, Errc::kUnavailable, "systemctl status ask-agentd",
         [](Facts& f) { f.host->daemon.trouble = Error(Errc::kUnavailable, "nobody listens"); }},
        {"daemon", Level::kFault, Errc::kExists, "another process listens",
         [](Facts& f) {
             f.box->daemon.trouble = Error(Errc::kUnavailable, "nobody listens");
             f.box->daemon.port_taken = true;
         }},
        {"ports", Level::kFault, Errc::kUnavailable, "not attached to port p2",
         [](Facts& f) { f.box->status->mutable_ports(1)->set_attached(false); }},
        {"ports", Level::kFault, Errc::kUnknown, "does not know port p2",
         [](Facts& f) { f.box->status->mutable_ports()->RemoveLast(); }},
        {"switch", Level::kFault, Errc::kDenied, "HOST:4792",
         [](Facts& f) { f.host->switch_trouble = Error(Errc::kDenied, "refuses our certificate"); }},
        {"switch", Level::kWarning, {}, "has no switch", [](Facts& f) { f.host->switch_address.clear(); }},
        {"switch",
         Level::kWarning,
         {},
         "install the same release",
         [](Facts& f) { f.host->switch_version = "1.3"; }},
        {"path", Level::kFault, Errc::kUnknown, "does not resolve",
         [](Facts& f) { f.paths[0].address.clear(); }},
        {"path", Level::kFault, Errc::kUnavailable, "no route",
         [](Facts& f) { f.paths[0].leaves_by.clear(); }},
        {"path", Level::kFault, Errc::kUnavailable, "leave by eth9",
         [](Facts& f) { f.paths[0].leaves_by = "eth9"; }},
        {"path",
         Level::kWarning,
         {},
         "does not answer to ICMP",
         [](Facts& f) { f.paths[0].answers = false; }},
        {"path", Level::kFault, Errc::kUnsupported, "packets of 1400 bytes get to h2 (192.0.2.2)",
         [](Facts& f) { f.paths[0].largest = 1400; }},
        {"path", Level::kFault, Errc::kDenied, "of another CA",
         [](Facts& f) { f.paths[0].control = Error(Errc::kDenied, "of another CA"); }},
    };
    for (const Planted& fault : planted) {
        CAPTURE(fault.says);
        Facts facts = sound();
        fault.plant(facts);
        auto findings = examine(facts);
        const int code = exit_code(findings);
        const std::string text = findings_text(findings);
        std::erase_if(findings, [](const Finding& finding) { return finding.level == Level::kFine; });
        REQUIRE(findings.size() == 1);
        CHECK(findings[0].check == fault.check);
        CHECK(findings[0].level == fault.level);
        CHECK((findings[0].text + " " + findings[0].remedy).find(fault.says) != std::string::npos);
        CHECK(code == (fault.level == Level::kFault ? static_cast<int>(fault.code) : 0));
        CHECK(text.find(fault.level == Level::kFault ? "FAULT" : "warning") != std::string::npos);
    }
}

TEST_CASE("the first fault decides how it ends, and others' words are made fit for terminals") {
    Facts facts = sound();
    facts.box->bpffs_mounted = false;
    facts.host->daemon.trouble = Error(Errc::kUnavailable, "\033[31mgone");
    const auto findings = examine(facts);
    CHECK(exit_code(findings) == static_cast<int>(Errc::kUnsupported));
    CHECK(findings_text(findings).find('\033') == std::string::npos);
    CHECK(findings_text(findings).ends_with("\n2 fault(s), 0 warning(s)\n"));
    CHECK(findings_json(findings)["faults"] == 2);
}

TEST_CASE("a machine with neither configuration is a kernel and a clock") {
    Facts facts;
    facts.kernel = "6.1.0";
    facts.btf = facts.jit = facts.clock_kept = true;
    const auto findings = examine(facts);
    REQUIRE_FALSE(findings.empty());
    CHECK(findings[0].check == "configuration");
    CHECK(findings[0].level == Level::kWarning);
    CHECK(std::ranges::count(findings, Level::kFine, &Finding::level) == std::ssize(findings) - 1);
}

}  // namespace
}  // namespace ask::cli::doctor
