// SPDX-License-Identifier: Apache-2.0
//
// Ports that come and go while the daemon runs.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/netns/switchd/daemon.h"
#include "tests/support/patience.h"

namespace {

using ask::test::base_flags;
using ask::test::Daemon;
using ask::test::must_run;
using ask::test::patience;
using ask::test::run_command;
using ask::test::run_daemon;

constexpr const char* kMakePort =
    "ip link add w1 type veth peer name w2 && ip link set w2 up && ip link set w1 up";

// The port of that name; one without a name: there is none.
ask::v1::SwitchPort port_of(Daemon& daemon, const std::string& name) {
    const ask::v1::SwitchStatus status = daemon.status();
    for (const auto& port : status.ports()) {
        if (port.name() == name) {
            return port;
        }
    }
    return {};
}

bool becomes(Daemon& daemon, const std::string& name,
             const std::function<bool(const ask::v1::SwitchPort&)>& is) {
    const auto deadline = std::chrono::steady_clock::now() + patience(std::chrono::seconds(10));
    while (!is(port_of(daemon, name))) {
        if (std::chrono::steady_clock::now() >= deadline) {
            INFO(daemon.status().DebugString(), daemon.log());
            return false;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(2));  // between two looks
    }
    return true;
}

bool is_attached(const ask::v1::SwitchPort& port) {
    return port.attached();
}

bool is_unknown(const ask::v1::SwitchPort& port) {
    return port.name().empty();
}

std::function<bool(const ask::v1::SwitchPort&)> says(const std::string& trouble) {
    return [trouble](const ask::v1::SwitchPort& port) {
        return !port.attached() && port.trouble().find(trouble) != std::string::npos;
    };
}

}  // namespace

TEST_CASE("ports by pattern are attached as they come, whatever they were before, and forgotten as they go") {
    Daemon daemon("", "p*,w[0-9],nope");
    CHECK(port_of(daemon, "p1").attached());
    CHECK(port_of(daemon, "p2").attached());
    CHECK(is_unknown(port_of(daemon, "h1")));
    CHECK(is_unknown(port_of(daemon, "lo")));
    CHECK(says("port nope: no such interface")(port_of(daemon, "nope")));
    CHECK(daemon.log().find("port nope: no such interface") != std::string::npos);

    must_run(kMakePort);
    CHECK(becomes(daemon, "w1", is_attached));
    const auto before = port_of(daemon, "w1").ifindex();
    must_run("ip link del w1");
    CHECK(becomes(daemon, "w1", is_unknown));
    must_run(kMakePort);
    CHECK(becomes(daemon, "w1",
                  [before](const auto& port) { return port.attached() && port.ifindex() != before; }));

    // Kernels before 6.2 rename none that is up.
    must_run("ip link set w1 down && ip link set w1 name nope && ip link set nope up");
    CHECK(becomes(daemon, "nope", is_attached));
    CHECK(becomes(daemon, "w1", is_unknown));
    must_run("ip link set nope down && ip link set nope name w3 && ip link set w3 up");
    CHECK(becomes(daemon, "w3", is_attached));
    CHECK(becomes(daemon, "nope", says("no such interface")));
    CHECK(ask::test::pinned_paths().find("links/w1") == std::string::npos);

    // Where it is gone to, our program is not on it either.
    must_run("ip netns add ask-away && ip link set w3 netns ask-away");
    CHECK(becomes(daemon, "w3", is_unknown));
    const auto holds_program = [] {
        return must_run("ip -netns ask-away -d link show w3").find("prog/xdp") != std::string::npos;
    };
    // The kernel takes it off in the background.
    const auto deadline = std::chrono::steady_clock::now() + patience(std::chrono::seconds(10));
    while (holds_program() && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));  // between two looks
    }
    CHECK_FALSE(holds_program());
    must_run("ip netns del ask-away");
    // Its peer goes with it.
    CHECK(becomes(daemon, "w2", is_unknown));
}

TEST_CASE("a thousand ports that come at once are all attached, and adopted by the next daemon") {
    constexpr int kMany = 1000;
    const auto all_attached = [](Daemon& daemon) {
        const ask::v1::SwitchStatus status = daemon.status();
        return status.ports_size() == kMany + 1 && std::ranges::all_of(status.ports(), is_attached);
    };
    Daemon daemon("", "p1,m*");
    must_run("for i in $(seq " + std::to_string(kMany) +
             "); do echo link add m$i up group 77 type veth peer name o$i; done | ip -batch -");
    // By its log: a status asks the kernel for each port.
    const std::string last = "port m" + std::to_string(kMany) + ": attached in native mode";
    const auto deadline = std::chrono::steady_clock::now() + patience(std::chrono::seconds(30));
    while (daemon.log().find(last) == std::string::npos && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));  // a file tells nobody of a new line
    }
    // It logs each as it attaches it, and shows them once it is through with all.
    while (!all_attached(daemon) && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));  // between two looks
    }
    CHECK(all_attached(daemon));
    {
        daemon.end(SIGKILL);
        Daemon next("", "p1,m*");
        CHECK(all_attached(next));
        CHECK(next.log().find("port m1000: still attached in native mode") != std::string::npos);
    }
    must_run("ip link del group 77");
}

TEST_CASE("packets are redirected to a port that has been in another namespace while nobody looked") {
    must_run(kMakePort);
    Daemon daemon("", "p1,w1");
    const auto index = port_of(daemon, "w1").ifindex();
    REQUIRE(index != 0);
    daemon.signal(SIGSTOP);
    must_run(
        "ip netns add ask-away && ip link set w1 netns ask-away && ip -netns ask-away link set w1 netns $$ "
        "up");
    daemon.signal(SIGCONT);
    CHECK(becomes(daemon, "w1",
                  [index](const auto& port) { return port.attached() && port.ifindex() == index; }));
    const std::string look_up =
        std::string(ASK_TEST_BPFTOOL) + " map dump pinned " + ask::test::kPins + "/maps/ports | tail -n 1";
    const auto deadline = std::chrono::steady_clock::now() + patience(std::chrono::seconds(10));
    while (run_command(look_up).output != "Found 2 elements\n" &&
           std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));  // between two looks
    }
    CHECK(run_command(look_up).output == "Found 2 elements\n");
    must_run("ip netns del ask-away; ip link del w1");
}

TEST_CASE("a port that another's program holds is named, and taken once it is free") {
    Daemon other("--pin-dir other", "p2");
    other.end(SIGTERM);
    Daemon daemon("", "p1,p?");
    CHECK(says("interface p2 already has XDP program")(port_of(daemon, "p2")));
    CHECK(run_daemon(base_flags("") + "--pin-dir other --unload").code == 0);
    CHECK(becomes(daemon, "p2", is_attached));
}

// What the switch sends back by a veth arrives only where the other end has a native program, or merges
// packets.
TEST_CASE("a veth's other end that would lose what the switch sends back is told of") {
    const std::string program = std::string(std::getenv("ASK_BUILD_DIR")) + "/bpf/pass.bpf.o sec xdp";
    const auto told = [] {
        Daemon daemon("", "w1");
        CHECK(is_attached(port_of(daemon, "w1")));
        return daemon.log();
    };
    must_run(kMakePort);
    CHECK(told().find("port w1: its veth peer has no XDP program") != std::string::npos);
    must_run("ip link set dev w2 xdpgeneric obj " + program);
    CHECK(told().find("port w1: its veth peer has a generic XDP program; ACKs sent back through the port are "
                      "lost there unless it has GRO on") != std::string::npos);
    must_run("ip link set dev w2 xdpgeneric off && ip link set dev w2 xdpdrv obj " + program);
    CHECK(told().find("its veth peer") == std::string::npos);
    must_run("ip link del w1");
}

TEST_CASE("a port's bridge, and too large an MTU: followed, named, and taken when it goes") {
    must_run(kMakePort);
    must_run("ip link add br0 type bridge && ip link set br0 up && ip link set w1 master br0");
    must_run("ip link set w2 mtu 9300");
    Daemon daemon("", "p1,w?,br*");
    const auto on = [](const std::string& bridge) {
        return [bridge](const auto& port) { return port.attached() && port.bridge() == bridge; };
    };
    CHECK(is_unknown(port_of(daemon, "br0")));
    CHECK(says("port w2 has MTU 9300")(port_of(daemon, "w2")));
    must_run("ip link set w2 mtu 1500");
    CHECK(becomes(daemon, "w2", is_attached));
    CHECK(becomes(daemon, "w1", on("br0")));
    must_run("ip link set w1 nomaster");
    CHECK(becomes(daemon, "w1", on("")));
    must_run("ip link set w1 master br0");
    CHECK(becomes(daemon, "w1", on("br0")));

    // A machine may have had any number of bridges: nothing is kept of those that are gone.
    must_run("ip link add br1 type bridge && ip link set w1 master br1 && ip link del br0");
    CHECK(becomes(daemon, "w1", on("br1")));
    must_run("ip link set w1 nomaster && ip link del br1");
    CHECK(becomes(daemon, "w1", on("")));
    const std::string dump = std::string(ASK_TEST_BPFTOOL) + " map dump pinned " + ask::test::kPins;
    CHECK(nlohmann::json::parse(must_run(dump + "/maps/bridges --json")).empty());
    must_run("ip link del w1");
}

// Not every kernel has them.
TEST_CASE(
    "a bridge that filters VLANs of providers, and tags that are taken off: named, and taken when they go") {
    must_run(kMakePort);
    must_run("ip link add br0 type bridge && ip link set br0 up && ip link set w1 master br0");
    const bool filters = run_command("ip link set br0 type bridge vlan_filtering 1").code == 0;
    const bool tags = run_command("ip link add link w2 name w2.7 type vlan id 7").code == 0;
    if (filters) {
        must_run("ip link set br0 type bridge vlan_protocol 802.1ad");
    }
    Daemon daemon("", "p1,w?");
    if (filters) {
        CHECK(
            says("port w1 is on bridge br0, which filters VLANs by tags of 802.1ad")(port_of(daemon, "w1")));
        must_run("ip link set br0 type bridge vlan_protocol 802.1Q");
    }
    CHECK(becomes(daemon, "w1", is_attached));
    if (filters) {
        must_run("ip link set br0 type bridge vlan_protocol 802.1ad");
        CHECK(becomes(daemon, "w1", says("filters VLANs")));
    }
    if (tags) {
        CHECK(says("port w2 carries VLAN w2.7 and takes tags off")(port_of(daemon, "w2")));
        must_run("ip link del w2.7");
    }
    CHECK(becomes(daemon, "w2", is_attached));
    must_run("ip link del w1; ip link del br0");
}

TEST_CASE("a daemon that starts again waits for ports that are gone, and for those that others hold") {
    must_run(kMakePort);
    Daemon first("", "p1,w1");
    CHECK(is_attached(port_of(first, "w1")));
    first.end(SIGKILL);
    must_run("ip link del w1");
    Daemon second("", "p1,w1");
    CHECK(is_attached(port_of(second, "p1")));
    CHECK(says("no such interface")(port_of(second, "w1")));
    must_run(kMakePort);
    CHECK(becomes(second, "w1", is_attached));
    must_run("ip link del w1");
}
