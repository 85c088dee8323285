// SPDX-License-Identifier: Apache-2.0
//
// Frames with VLAN tags: by which port they come in, and with which tag they leave.
#include "tests/bpf/switch/vlan.h"

#include <linux/bpf.h>

#include <chrono>
#include <functional>
#include <string>

#include <bpf/bpf.h>
#include <doctest/doctest.h>

#include "tests/bpf/switch/fan.h"
#include "tests/bpf/switch/harness.h"
#include "tests/support/patience.h"

using namespace ask::test;

namespace {

// The sender is in the VLAN.
void add_sender_inside(Switch& sw, TaskSpec task = {}) {
    sw.add_default(task, {.ifindex = network().side});
}

Packet inner_fin(const Switch& sw, std::uint64_t seq) {
    Packet packet = sw.packet().seq(seq);
    packet.type = ASK_FIN;
    return packet;
}

// On its way to the channel's host.
Packet transit_ack(const Switch& sw) {
    Packet packet = sw.packet();
    packet.source = packet.dest;
    packet.dest = kSender;
    packet.dest_port = packet.source_port;
    packet.source_port = ASK_UDP_PORT;
    packet.type = ASK_ACK;
    return packet;
}

}  // namespace

TEST_CASE(
    "a sender in a VLAN gets its ACKs with the tag that its packets have, and what is left goes on without") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        const Vlan vlan(sw, network().in);
        add_sender_inside(sw, {.aggregators = 1});
        const Packet whole = sw.packet().seq(1).put(0, 0, "own", 1);
        const Bytes ack = tagged(whole.ack(kMarkSwitch, kMarkIncarnation).frame());
        sw.expect("new", tagged(whole.frame()), XDP_TX, ASK_CNT_ack_new, ack);
        sw.expect("seen", tagged(whole.frame()), XDP_TX, ASK_CNT_ack_seen, ack);
        const Packet some = sw.packet().seq(2).row_count(3).put(0, 0, "other", 1).put(2, 1, "k", 1);
        const Packet left = some.left(kMarkSwitch, kMarkIncarnation, {1, 0, 0});
        sw.expect("some left", tagged(some.frame()), XDP_REDIRECT, ASK_CNT_fwd_new,
                  left.routed(kOutMac, kReceiverMac).frame());
        sw.expect_region(0, {{0, "own", 1}, {1, "k", 1}});
        sw.expect("FIN", tagged(inner_fin(sw, 3).frame()), XDP_REDIRECT, ASK_CNT_fin_new,
                  inner_fin(sw, 3).routed(kOutMac, kReceiverMac).frame());
        const Packet bad = sw.packet().seq(9).put(0, 0, "k", 1).with([](Packet& p) { p.check = 1; });
        sw.expect("not sealed", tagged(bad.frame()), XDP_DROP, ASK_CNT_bad_check, bad.frame());
    }
}

TEST_CASE("what goes up is as it came, tag and priority among it") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        const Vlan vlan(sw, network().in);
        add_sender_inside(sw, {.aggregators = 1, .receiver = kNowhere});
        sw.expect("ACK", tagged(sw.packet().seq(1).put(0, 0, "own", 1).frame()), XDP_TX, ASK_CNT_ack_new,
                  tagged(sw.packet().seq(1).put(0, 0, "own", 1).ack(kMarkSwitch, kMarkIncarnation).frame()));
        const Packet some = sw.packet().seq(2).row_count(3).put(0, 0, "other", 1).put(2, 1, "k", 1);
        sw.expect("some left", tagged(some.frame()), XDP_PASS, ASK_CNT_up_no_route,
                  tagged(some.left(kMarkSwitch, kMarkIncarnation, {1, 0, 0}).frame()));
        const auto up = [&sw](const std::string& what, const Packet& packet, ask_counter counter) {
            sw.expect(what, tagged(packet.frame()), XDP_PASS, counter, tagged(packet.frame()));
        };
        up("FIN", inner_fin(sw, 3), ASK_CNT_up_no_route);
        up("a channel that is not registered", sw.packet().seq(4).with([](Packet& p) { p.port += 1; }),
           ASK_CNT_pass_channel);
        up("an ACK of no flow", transit_ack(sw).with([](Packet& p) { p.task += 1; }), ASK_CNT_pass_ack);
    }
}

TEST_CASE("what the route leads to a VLAN leaves by the port that carries it, with its tag") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        {
            const Vlan vlan(sw, network().out);
            sw.add_default({.aggregators = 1, .receiver = kBehindSide});
            sw.expect_ack("ACKs have none", sw.packet().seq(1).put(0, 0, "own", 1), ASK_CNT_ack_new);
            const Packet some = sw.packet().seq(2).row_count(3).put(0, 0, "other", 1).put(2, 1, "k", 1);
            const Packet left = some.left(kMarkSwitch, kMarkIncarnation, {1, 0, 0});
            sw.expect("some left", some.frame(), XDP_REDIRECT, ASK_CNT_fwd_new,
                      tagged(left.routed(kSideMac, kBehindSideMac).frame(), kVlan));
            sw.expect("FIN", inner_fin(sw, 3).frame(), XDP_REDIRECT, ASK_CNT_fin_new,
                      tagged(inner_fin(sw, 3).routed(kSideMac, kBehindSideMac).frame(), kVlan));
        }
        sw.reset();
        const Vlan vlan(sw, network().in);
        add_sender_inside(sw, {.receiver = kBehindSide});
        sw.expect("from a VLAN to a VLAN", tagged(inner_fin(sw, 1).frame()), XDP_REDIRECT, ASK_CNT_fin_new,
                  tagged(inner_fin(sw, 1).routed(kSideMac, kBehindSideMac).frame(), kVlan));
    }
}

TEST_CASE("an ACK that passes takes the tag of the VLAN that its sender is in") {
    Switch& sw = Switch::get({});
    const Vlan vlan(sw, network().in);
    sw.add_channel(0, {.host = kBehindSide, .ifindex = network().side});
    sw.add_task(0);
    sw.add_flow(0, 0, 0);
    const Packet ack = transit_ack(sw).with([](Packet& p) { p.dest = kBehindSide; });
    sw.expect("by a port without tags", ack.frame(), XDP_REDIRECT, ASK_CNT_transit_ack,
              tagged(ack.routed(kSideMac, kBehindSideMac).frame(), kVlan), network().out);
}

TEST_CASE("a VLAN whose port is not one of the switch's any more is the stack's") {
    Switch& sw = Switch::get({});
    const Vlan vlan(sw, network().side);
    sw.add_default({.receiver = kBehindSide});
    sw.expect("FIN", inner_fin(sw, 1), XDP_PASS, ASK_CNT_up_no_route);
}

TEST_CASE("a packet is of the port that its tag says") {
    Switch& sw = Switch::get({});
    const Vlan vlan(sw, network().in);
    sw.add_default();
    const Packet packet = sw.packet().seq(1).put(0, 0, "k", 1);
    sw.expect("tagged, of a channel outside", tagged(packet.frame()), XDP_DROP, ASK_CNT_bad_port,
              packet.frame());
    sw.expect_ack("and without", packet, ASK_CNT_ack_new);
    sw.reset();
    add_sender_inside(sw);
    const Packet inside = sw.packet().seq(1).put(0, 0, "k", 1);
    sw.expect("untagged, of a channel inside", inside.frame(), XDP_DROP, ASK_CNT_bad_port, inside.frame());
    sw.expect("tagged, by another port", tagged(inside.frame()), XDP_PASS, ASK_CNT_pass_foreign,
              tagged(inside.frame()), network().out);
    sw.expect("and as it is to be", tagged(inside.frame()), XDP_TX, ASK_CNT_ack_new,
              tagged(inside.ack(kMarkSwitch, kMarkIncarnation).frame()));
}

TEST_CASE(
    "a VLAN on a bridge: what comes in by it goes up to the bridge with its tag, and so does what is for "
    "it") {
    Switch& sw = Switch::get({});
    const Vlan vlan(sw, network().in, ASK_PORTS_ON_VLANS | ASK_PORTS_ON_BRIDGES);
    REQUIRE(bpf_map_update_elem(sw.map("bridges"), &network().side, &network().side, BPF_ANY) == 0);
    add_sender_inside(sw);
    sw.expect("in", tagged(inner_fin(sw, 1).frame()), XDP_PASS, ASK_CNT_up_bridge,
              tagged(inner_fin(sw, 1).frame()));
    sw.reset();
    sw.add_default();
    sw.expect_routed("and the next, which has none, is not the bridge's", inner_fin(sw, 1), ASK_CNT_fin_new);
    sw.reset();
    sw.add_default({.receiver = kBehindSide});
    sw.expect("out", inner_fin(sw, 1), XDP_PASS, ASK_CNT_up_bridge);
    REQUIRE(bpf_map_delete_elem(sw.map("bridges"), &network().side) == 0);
}

TEST_CASE("tagged frames that are not ASK's, or of no port, pass as they are") {
    Switch& sw = Switch::get({});
    const Vlan vlan(sw, network().in);
    add_sender_inside(sw);
    const Packet packet = sw.packet().put(0, 0, "k", 1);
    const auto pass = [&sw](const std::string& what, const Bytes& frame) {
        sw.expect(what, frame, XDP_PASS, ASK_CNT_pass_foreign, frame);
    };
    pass("another VLAN", tagged(packet.frame(), kVlan + 1));
    pass("a priority, and no VLAN", tagged(packet.frame(), 0xb000));
    pass("a service tag", tagged(packet.frame(), kControl, 0x88a8));
    pass("two tags", tagged(tagged(packet.frame()), kControl));
    pass("a service tag and one of ours", tagged(tagged(packet.frame()), kControl, 0x88a8));
    const auto changed = [&](const std::string& what, const std::function<void(Packet&)>& change) {
        Packet other = packet;
        change(other);
        pass(what, tagged(other.frame()));
    };
    changed("ARP", [](Packet& p) { p.ether_type = 0x0806; });
    changed("IPv6", [](Packet& p) { p.ether_type = 0x86dd; });
    changed("TCP", [](Packet& p) { p.protocol = 6; });
    changed("another UDP port", [](Packet& p) { p.dest_port = 53; });
    changed("IP options", [](Packet& p) { p.version_ihl = 0x46; });
    changed("a fragment", [](Packet& p) { p.fragment = 0x2000; });
    const Bytes whole = tagged(packet.frame());
    for (std::size_t size = 14; size < 94; ++size) {
        pass("cut to " + std::to_string(size),
             Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)));
    }
}

TEST_CASE("frames with and without a tag, one after the other, in any order") {
    Switch& sw = Switch::get({});
    const Vlan vlan(sw, network().in);
    sw.add_default({.aggregators = 1});
    sw.add_channel(1, {.host = kBehindSide, .ifindex = network().side});
    sw.add_flow(1, 1, 0);
    for (std::uint64_t seq = 1; seq < 40; ++seq) {
        const std::uint32_t flow = seq * 2654435761U >> 7 & 1;
        const Packet packet = sw.packet(flow).seq(seq).put(0, 0, seq % 3 == 0 ? "own" : "other", 1);
        const Bytes frame = flow == 0 ? packet.frame() : tagged(packet.frame(), kVlan);
        const Switch::Outcome outcome = sw.run(frame);
        CAPTURE(seq);
        CHECK((outcome.action == XDP_TX || outcome.action == XDP_REDIRECT));
        const bool has_tag = outcome.frame[12] == 0x81;
        CHECK(has_tag == (outcome.action == XDP_TX && flow == 1));
    }
}

TEST_CASE(
    "over real links: a tag comes back with the ACK, goes where there is none, and comes where there was "
    "none") {
    const auto wait = patience(std::chrono::seconds(5));
    Switch& sw = Switch::get({});
    const Attached attached(sw.program());
    const TaggedHost inner("in_host");
    const TaggedHost outer("out_host");
    {
        const Vlan vlan(sw, network().in);
        add_sender_inside(sw, {.aggregators = 1});
        const Packet packet = sw.packet().seq(1).put(0, 0, "own", 1);
        inner.send(tagged(packet.frame()));
        CHECK(hex(inner.receive(wait)) == hex(tagged(packet.ack(kMarkSwitch, kMarkIncarnation).frame())));
        inner.send(tagged(inner_fin(sw, 2).frame()));
        CHECK(hex(outer.receive(wait)) == hex(inner_fin(sw, 2).routed(kOutMac, kReceiverMac).frame()));
    }
    const Vlan vlan(sw, network().out);
    sw.reset();
    sw.add_default({.receiver = kBehindSide});
    inner.send(inner_fin(sw, 1).frame());
    CHECK(hex(outer.receive(wait)) ==
          hex(tagged(inner_fin(sw, 1).routed(kSideMac, kBehindSideMac).frame(), kVlan)));
}
