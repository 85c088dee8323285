// SPDX-License-Identifier: Apache-2.0
//
// Starting, refusing to start, adopting, unloading.
#include <net/if.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <thread>

#include <bpf/bpf.h>
#include <doctest/doctest.h>

#include "lib/abi/map_types.h"
#include "lib/abi/wire.h"
#include "lib/bpf/object.h"
#include "lib/bpf/xdp.h"
#include "lib/rpc/types.h"
#include "tests/netns/switchd/daemon.h"

namespace {

using ask::test::base_flags;
using ask::test::CommandResult;
using ask::test::Daemon;
using ask::test::must_run;
using ask::test::pinned_paths;
using ask::test::run_daemon;

constexpr int kUsage = 2;
constexpr int kUnknown = 4;
constexpr int kExists = 5;
constexpr int kDenied = 7;
constexpr int kUnsupported = 8;

void refused(const CommandResult& result, int code, const std::string& text) {
    CHECK_MESSAGE(result.code == code, result.output);
    CHECK_MESSAGE(result.output.find(text) != std::string::npos, result.output);
}

bool has_program(const std::string& port) {
    return must_run("ip -d link show " + port).find("prog/xdp") != std::string::npos;
}

// At once: who unloads a switch may attach a program of his own.
bool is_free(const std::string& port) {
    const auto program = ask::bpf::attached_xdp(::if_nametoindex(port.c_str()), port);
    REQUIRE_MESSAGE(program.ok(), program.error().text());
    return *program == 0;
}

// The daemon answers calls before it serves metrics: nobody may listen there yet.
std::string scraped() {
    return must_run(
        "curl -sf --noproxy '*' --max-time 10 --retry 20 --retry-delay 1 --retry-connrefused "
        "http://127.0.0.1:9464/metrics");
}

}  // namespace

TEST_CASE("a start that cannot succeed says why and leaves nothing behind") {
    refused(run_daemon(base_flags("")), kUsage, "no ports");
    refused(run_daemon("--plain-text loopback --ports p1 --bpffs /proc"), kUnsupported,
            "mount -t bpf bpf /proc");
    refused(run_daemon("--plain-text loopback --ports p1 --bpffs /nonexistent"), kUnknown, "/nonexistent");
    must_run("ip link set lo mtu 1500");
    refused(run_daemon(base_flags("p1,lo")), kUnsupported, "interface lo cannot do native XDP");
    must_run("ip link set p2 mtu 9217");
    refused(run_daemon(base_flags()), kUnsupported, "port p2 has MTU 9217, native XDP takes up to 9216");
    must_run("ip link set p2 mtu 1500");
    refused(run_daemon(base_flags("p1") + "--metrics 198.18.9.9:1 --metrics-open"), kUnknown,
            "metrics: cannot listen on 198.18.9.9:1: Cannot assign requested address");
    CHECK(is_free("p1"));  // or the next one would find a program there
    refused(run_daemon(base_flags("p1") + "--plain-text everywhere --listen 198.18.9.9:4792"), kUnknown,
            "listen: cannot listen on 198.18.9.9:4792: Cannot assign requested address");
    CHECK(is_free("p1"));
    refused(run_daemon(base_flags("p1") + "--metrics 127.0.0.1:4792"), kExists,
            "metrics: cannot listen on 127.0.0.1:4792: Address already in use: stop what listens there");
    refused(run_daemon(base_flags() + "--max-tasks 0"), kUsage, "--max-tasks: 0: must be from 1");
    CHECK(pinned_paths().empty());
    CHECK(is_free("p1"));
}

TEST_CASE("a missing capability is named") {
    const std::string command = " " + ask::test::built("bin/ask-switchd") + " " + base_flags();
    refused(ask::test::run_command("exec setpriv --bounding-set=-perfmon,-sys_admin" + command), kDenied,
            "missing CAP_PERFMON:");
    refused(ask::test::run_command("exec setpriv --bounding-set=-bpf,-net_admin,-sys_admin" + command),
            kDenied, "missing CAP_BPF, CAP_NET_ADMIN:");
}

#ifdef ASK_TEST_LACKING_KERNEL
TEST_CASE("what the kernel lacks is named, all of it, and nothing is left behind") {
    const auto start = [](const std::string& lacks) {
        return ask::test::run_command(
            "exec env LD_PRELOAD=" + ask::test::built("tests/netns/switchd/liblacking_kernel.so") +
            " ASK_TEST_LACKS=" + lacks + " " + ask::test::built("bin/ask-switchd") + " " + base_flags());
    };
    refused(start("mmapable"), kUnsupported, "memory-mapped arrays");
    refused(start("devmap_hash"), kUnsupported, "this kernel lacks redirection by devmap_hash");
    const CommandResult both = start("inner,devmap_hash");
    refused(both, kUnsupported, "this kernel lacks arrays as inner maps of any size");
    refused(both, kUnsupported, "; redirection by devmap_hash");
    refused(both, kUnsupported, "Linux 6.1 or later has everything");
    CHECK(pinned_paths().empty());
    CHECK_FALSE(has_program("p1"));
}
#endif

TEST_CASE("the service's few capabilities are enough") {
    Daemon daemon("--unload-on-exit", "p1,p2", "setpriv --bounding-set=-all,+bpf,+net_admin,+perfmon --");
    CHECK(daemon.status().ports(1).attached());
    CHECK(daemon.open_task(ask::test::task_request("words", 1)).ok());
    CHECK(daemon.close_task(1).ok());
    CHECK(daemon.end(SIGTERM) == 0);
    CHECK(pinned_paths().empty());
}

// Up to Linux 6.6 every look-up in a map of maps waits for a grace period: a start, fresh or not, may not
// make one an entry. On those kernels this took ten minutes and more.
TEST_CASE("large tables do not hold up a start") {
    Daemon first("--max-flows 65536 --max-tasks 4096");
    CHECK(first.end(SIGKILL) == 128 + SIGKILL);
    Daemon second("--max-flows 65536 --max-tasks 4096");
    CHECK(second.status().ports(1).attached());
}

TEST_CASE("SIGHUP changes what can change, says what cannot, and never ends the daemon") {
    const std::string path = "/tmp/ask-hup-test.toml";
    const auto write = [&path](const std::string& text) {
        std::ofstream file(path, std::ios::trunc);
        file << text;
    };
    write("lease_seconds = 20\n");
    Daemon daemon("--config " + path);
    const auto says = [&daemon](const std::string& text) {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (daemon.log().find(text) == std::string::npos && std::chrono::steady_clock::now() < deadline) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
        return daemon.log().find(text) != std::string::npos;
    };
    write("lease_seconds = 2\nmax_tasks = 65\nlog_level = \"debug\"\n");
    daemon.signal(SIGHUP);
    CHECK(says("changed: lease_seconds, log_level"));
    CHECK(says("only a restart changes max_tasks"));
    REQUIRE(daemon.open_task(ask::test::task_request("short", 1)).ok());
    // It says so before it does so: a task that is opened in between has the lease of before until it is
    // renewed.
    const auto short_by_now = [&daemon] {
        daemon.renew({1});
        const ask::v1::SwitchStatus status = daemon.status();
        return status.tasks_size() == 0 || status.tasks(0).lease_left_seconds() <= 2;
    };
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!short_by_now() && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));  // between two looks
    }
    CHECK(says("task short: its receiver 198.18.2.2:4791 has not renewed it for 2 s"));
    write("lease_seconds = 20\nlease_secondss = 3\n");
    daemon.signal(SIGHUP);
    CHECK(says(path + ":2: unknown key \"lease_secondss\": did you mean lease_seconds?"));
    CHECK(says("everything stays as it is"));
    std::remove(path.c_str());
    daemon.signal(SIGHUP);
    CHECK(says(path + ": no such file; everything stays as it is"));
    CHECK(daemon.status().ports(0).attached());
}

TEST_CASE("one daemon at a time, and no unloading under its feet") {
    Daemon daemon;
    refused(run_daemon(base_flags()), kExists, "another ask-switchd runs");
    refused(run_daemon(base_flags("") + "--unload"), kExists, "another ask-switchd runs");
    CHECK(daemon.status().ports(0).attached());
}

TEST_CASE("stopped, the switch goes on; unloaded, nothing is left, however often") {
    Daemon daemon;
    CHECK(has_program("p1"));
    CHECK(daemon.end(SIGTERM) == 0);
    CHECK(has_program("p1"));
    CHECK(pinned_paths().find("ask/links/p1") != std::string::npos);
    for (int i = 0; i < 2; i++) {
        CHECK(run_daemon(base_flags("") + "--unload").code == 0);
        CHECK(is_free("p1"));
        CHECK(pinned_paths().empty());
    }
}

TEST_CASE("unloaded, a port is free whoever else holds its link") {
    Daemon daemon;
    const auto held = ask::bpf::open_pinned(std::string(ask::test::kPins) + "/links/p1");
    REQUIRE_MESSAGE(held.ok(), held.error().text());
    CHECK(daemon.end(SIGTERM) == 0);
    CHECK(run_daemon(base_flags("") + "--unload").code == 0);
    CHECK(is_free("p1"));
}

TEST_CASE("asked to, it unloads when it is stopped") {
    Daemon daemon("--unload-on-exit");
    CHECK(daemon.end(SIGINT) == 0);
    CHECK(is_free("p1"));
    CHECK(pinned_paths().empty());
}

TEST_CASE("a restart leaves the switch to the successor, even so") {
    Daemon daemon("--unload-on-exit");
    CHECK(daemon.end(SIGUSR1) == 0);
    CHECK(has_program("p1"));
    CHECK_FALSE(pinned_paths().empty());
}

TEST_CASE("a configuration that the running switch cannot take on is refused, naming what differs") {
    Daemon daemon;
    daemon.end(SIGKILL);
    refused(
        run_daemon(base_flags() + "--switch-id 9 --memory shared --dedupe compact --max-tasks 65"),
        kUnsupported,
        "switch_id is 1, configured 9, memory is pipelines, configured shared, dedupe is tagged, configured "
        "compact, max_tasks is 64, configured 65");
    refused(run_daemon(base_flags() + "--xdp-mode generic"), kUnsupported, "attached in native mode");
    CHECK(has_program("p1"));
    CHECK(has_program("p2"));
    must_run("rm " + std::string(ask::test::kPins) + "/maps/flows");
    const CommandResult without = run_daemon(base_flags());
    refused(without, kUnsupported, "maps/flows");
    refused(without, kUnsupported, "run ask-switchd --unload");
}

TEST_CASE("another version's pins are refused, and unloaded without being understood") {
    must_run(std::string("mkdir -p ") + ask::test::kPins + "/maps && " ASK_TEST_BPFTOOL " map create " +
             ask::test::kPins + "/maps/meta type array key 4 value 8 entries 1 name other");
    refused(run_daemon(base_flags()), kUnsupported, "another version's switch");
    refused(run_daemon(base_flags() + "--check"), kUnsupported, "another version's switch");
    CHECK(run_daemon(base_flags("") + "--unload").code == 0);
    CHECK(pinned_paths().empty());
    CHECK(run_daemon(base_flags() + "--check").code == 0);
    CHECK(pinned_paths().empty());
}

TEST_CASE("beside a daemon one hears whether a successor would take over") {
    Daemon daemon;
    CHECK(run_daemon(base_flags() + "--check").code == 0);
    refused(run_daemon(base_flags() + "--max-channels 7 --check"), kUnsupported, "max_channels is");
    CHECK(has_program("p1"));
}

TEST_CASE("pins of another wire version are refused, and the way out is told") {
    Daemon daemon;
    daemon.end(SIGKILL);
    const auto pin = ask::bpf::open_pinned(std::string(ask::test::kPins) + "/maps/meta");
    REQUIRE(pin.ok());
    const std::uint32_t zero = 0;
    ask_meta meta{};
    REQUIRE(bpf_map_lookup_elem(pin->get(), &zero, &meta) == 0);
    CHECK(meta.wire_version == ASK_WIRE_VERSION);
    const auto starts_with = [&](std::uint32_t version, const std::string& says) {
        meta.wire_version = version;
        REQUIRE(bpf_map_update_elem(pin->get(), &zero, &meta, BPF_ANY) == 0);
        const CommandResult started = run_daemon(base_flags());
        refused(started, kUnsupported, "holds a switch that speaks ASK packets of " + says);
        refused(started, kUnsupported, "this release speaks " + ask::wire_version_name(ASK_WIRE_VERSION));
        refused(started, kUnsupported, "wait until `askctl tasks --switch` lists no task");
        refused(started, kUnsupported, "ask-switchd --unload");
    };
    starts_with(ASK_WIRE_VERSION + 1, ask::wire_version_name(ASK_WIRE_VERSION + 1));
    // What there was before versions were told: an ABI of its own as well.
    --meta.abi_version;
    starts_with(0, "an older version");
    CHECK(has_program("p1"));
}

TEST_CASE("what a load that was cut short left is replaced") {
    must_run(std::string("mkdir -p ") + ask::test::kPins + "/maps " + ask::test::kPins +
             "/tasks/words && " ASK_TEST_BPFTOOL " map create " + ask::test::kPins +
             "/maps/tasks type array key 4 value 8 entries 1 name other");
    Daemon daemon;
    CHECK_MESSAGE(daemon.log().find("loaded the switch program") != std::string::npos, daemon.log());
    CHECK(daemon.status().tasks_size() == 0);
}

TEST_CASE("ports come and go with the configuration") {
    Daemon first("", "p1");
    CHECK_FALSE(has_program("p2"));
    CHECK(first.end(SIGTERM) == 0);
    Daemon second("", "p2");
    CHECK(is_free("p1"));
    CHECK(has_program("p2"));
    REQUIRE(second.status().ports_size() == 1);
    CHECK(second.status().ports(0).name() == "p2");
    CHECK(pinned_paths().find("links/p1") == std::string::npos);
}

TEST_CASE("an interface made again under its name is attached again, dots and all") {
    must_run("ip link add v.1 type veth peer name v.2; ip link set v.1 up; ip link set v.2 up");
    Daemon first("", "p1,v.1");
    CHECK(has_program("v.1"));
    first.end(SIGKILL);
    must_run(
        "ip link del v.1; ip link add v.1 type veth peer name v.2; ip link set v.1 up; ip link set v.2 up");
    CHECK_FALSE(has_program("v.1"));
    Daemon second("", "p1,v.1");
    CHECK(has_program("v.1"));
    must_run("ip link del v.1");
    const ask::v1::SwitchStatus status = second.status();
    for (const auto& port : status.ports()) {
        CHECK(port.attached() == (port.name() == "p1"));
    }
}

TEST_CASE("another XDP program on a port is left alone and named") {
    Daemon other("--pin-dir other", "p1");
    const CommandResult result = run_daemon(base_flags("p1,p2"));
    refused(result, kExists, "interface p1 already has XDP program ");
    CHECK(pinned_paths().find("./ask") == std::string::npos);
    CHECK(has_program("p1"));
    CHECK_FALSE(has_program("p2"));
    other.end(SIGTERM);
    CHECK(run_daemon(base_flags("") + "--pin-dir other --unload").code == 0);
}

TEST_CASE("generic mode is used when asked for, and only then") {
    Daemon daemon("--xdp-mode generic");
    REQUIRE(daemon.status().ports_size() == 2);
    CHECK(daemon.status().ports(0).mode() == "generic");
    CHECK(must_run("ip -d link show p1").find("xdpgeneric") != std::string::npos);
}

TEST_CASE("metrics are served in Prometheus' text format") {
    Daemon daemon("--metrics 127.0.0.1:9464");
    const std::string text = scraped();
    CHECK(text.find("ask_switch_packets_total{counter=\"ack_new\",class=\"traffic\"} 0") !=
          std::string::npos);
    CHECK(text.find("ask_switch_sram_limit_bytes 20971520") != std::string::npos);
    CHECK(text.find("ask_switch_refused_connections_total 0") != std::string::npos);
}

TEST_CASE("metrics are for this machine, and name no task, unless the configuration says so") {
    refused(run_daemon(base_flags("p1") + "--metrics 0.0.0.0:9464"), kDenied,
            "metrics: 0.0.0.0:9464 is not loopback");
    for (const bool named : {false, true}) {
        CAPTURE(named);
        Daemon daemon(std::string("--metrics 0.0.0.0:9464 --metrics-open") +
                      (named ? " --metrics-tasks" : ""));
        REQUIRE(daemon.open_task(ask::test::task_request("secret-plan", 77)).ok());
        const std::string text = scraped();
        CHECK((text.find("secret-plan") != std::string::npos) == named);
        CHECK(text.find("ask_switch_tasks 1") != std::string::npos);
    }
}

TEST_CASE("without a certificate it does not start, and says what to do") {
    refused(run_daemon("--config /dev/null --bpffs " + std::string(ask::test::kBpffs) +
                       " --ports p1 --listen 127.0.0.1:4792"),
            kUnknown, "/etc/ask/tls/ca.pem: No such file or directory: make one with askctl ca");
    refused(run_daemon(base_flags("p1") + "--listen 0.0.0.0:4792"), kDenied,
            "listen: 0.0.0.0:4792: is not loopback, and plain text is allowed nowhere else");
}

TEST_CASE("no other user can hold the lock on the pins, and keep a daemon from starting") {
    const std::string pins = ask::test::kPins;
    const std::string as_nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups ";
    // As a former version left it.
    must_run("mkdir -m 0755 " + pins);
    {
        Daemon daemon;
        CHECK(must_run("stat -c %a " + pins) == "700\n");
        const auto locked = ask::test::run_command(as_nobody + "flock --nonblock --shared " + pins + " true");
        CHECK(locked.code != 0);
        CHECK_MESSAGE(locked.output.find("Permission denied") != std::string::npos, locked.output);
    }
    must_run("mkdir -m 0777 " + pins + " && chown 65534 " + pins);
    refused(run_daemon(base_flags()), kDenied, "belongs to user 65534");
    must_run("rmdir " + pins);
}

TEST_CASE("a link in place of the pin directory is not followed") {
    const std::string pins = ask::test::kPins;
    const std::string target = pins + "-elsewhere";
    must_run("mkdir -m 0755 " + target + " && ln -s " + target + " " + pins);
    refused(run_daemon(base_flags()), kDenied, pins + " is no directory of its own: remove it");
    CHECK(must_run("stat -c %a " + target) == "755\n");
    must_run("rm " + pins + " && rmdir " + target);
}
