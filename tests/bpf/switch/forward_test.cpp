// SPDX-License-Identifier: Apache-2.0
//
// What is not this switch's is the stack's, with its filters (design sections 2 and 5, step 1). What goes on
// past them has proved that it belongs to a flow that is registered here, ACKs too; and what happens to ASK
// packets that no route takes.
#include <doctest/doctest.h>

#include "lib/abi/vlan.h"
#include "tests/bpf/switch/harness.h"

using namespace ask;
using namespace ask::test;

namespace {

// An ACK of a receiver on its way to the sender.
Packet passing_ack(const Switch& sw) {
    Packet packet = sw.packet().seq(5);
    packet.dest_mac = kOutMac;
    packet.source_mac = kReceiverMac;
    packet.source = packet.dest;
    packet.dest = kSender;
    packet.dest_port = packet.source_port;
    packet.source_port = ASK_UDP_PORT;
    packet.type = ASK_ACK;
    packet.udp_checksum = 0x9999;
    return packet;
}

Packet passing_fin(const Switch& sw, std::uint64_t seq) {
    Packet packet = sw.packet().seq(seq);
    packet.type = ASK_FIN;
    return packet;
}

}  // namespace

TEST_CASE("what is not ASK is the stack's, untouched") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default();
        const auto pass = [&](const char* description, auto change) {
            Packet packet = sw.packet().put(0, 0, "k", 1);
            change(packet);
            sw.expect(description, packet, XDP_PASS, ASK_CNT_pass_foreign);
        };
        pass("ARP", [](Packet& p) { p.ether_type = 0x0806; });
        pass("IPv6", [](Packet& p) { p.ether_type = 0x86dd; });
        pass("a VLAN tag", [](Packet& p) { p.ether_type = 0x8100; });
        pass("a service VLAN tag", [](Packet& p) { p.ether_type = 0x88a8; });
        pass("IP version 6", [](Packet& p) { p.version_ihl = 0x65; });
        pass("IP options", [](Packet& p) { p.version_ihl = 0x46; });
        pass("IP header too short", [](Packet& p) { p.version_ihl = 0x44; });
        pass("TCP", [](Packet& p) { p.protocol = 6; });
        pass("ICMP", [](Packet& p) { p.protocol = 1; });
        pass("first fragment", [](Packet& p) { p.fragment = 0x2000; });
        pass("middle fragment", [](Packet& p) { p.fragment = 0x2001; });
        pass("last fragment", [](Packet& p) { p.fragment = 0x0100; });
        pass("another UDP port", [](Packet& p) { p.dest_port = 53; });
        pass("next UDP port", [](Packet& p) { p.dest_port = ASK_UDP_PORT + 1; });
        pass("from the port, but no ACK", [](Packet& p) {
            p.source_port = ASK_UDP_PORT;
            p.dest_port = 50000;
        });
        pass("from the port, an ACK of another version", [](Packet& p) {
            p.source_port = ASK_UDP_PORT;
            p.dest_port = 50000;
            p.type = ASK_ACK;
            p.version = 0xA0;
        });
    }
}

TEST_CASE("a frame that ends before an ASK header does is the stack's") {
    Switch& sw = Switch::get({});
    sw.add_default();
    const Bytes whole = sw.packet().put(0, 0, "k", 1).frame();
    // The kernel takes no test frame shorter than an Ethernet header.
    for (std::size_t size = 14; size < 90; ++size) {
        const Bytes frame(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
        sw.expect("cut to " + std::to_string(size), frame, XDP_PASS, ASK_CNT_pass_foreign, frame);
    }
}

TEST_CASE("a frame that ends before its rows do is malformed") {
    Switch& sw = Switch::get({});
    sw.add_default();
    const Bytes whole = sw.packet().put(0, 0, "k", 1).frame();
    for (std::size_t size = 90; size < whole.size(); ++size) {
        const Bytes frame(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
        sw.expect("cut to " + std::to_string(size), frame, XDP_DROP, ASK_CNT_bad_length, frame);
    }
}

TEST_CASE("packets of a channel that is not registered here are the stack's, whatever is in them") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default();
        const auto up = [&](const char* description, auto change) {
            Packet packet = sw.packet().put(0, 0, "k", 1);
            packet.udp_checksum = 0x7777;
            packet.host = kBehindSide;
            change(packet);
            sw.expect(description, packet, XDP_PASS, ASK_CNT_pass_channel);
        };
        up("another host", [](Packet&) {});
        up("another port of the host", [](Packet& p) {
            p.host = kSender;
            p.port += 1;
        });
        up("not sealed", [](Packet& p) { p.check = 0; });
        up("marked by another switch", [](Packet& p) { p.mark_switch = 99; });
        up("another version", [](Packet& p) { p.version = 9; });
        up("rows missing", [](Packet& p) { p.rows.clear(); });
        up("LONG", [](Packet& p) { p.type = ASK_LONG; });
        up("FIN", [](Packet& p) { p.type = ASK_FIN; });
        up("seq 0", [](Packet& p) { p.seq_field = 0; });
        up("no tuples", [](Packet& p) { p.bitmaps[0] = 0; });
        up("a trailer", [](Packet& p) { p.trailer = Bytes(9, 1); });
        up("an address that nobody has", [](Packet& p) { p.source = kNowhere; });
    }
}

TEST_CASE("a proven packet goes to its task's receiver and nowhere else") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default();
        const auto refused = [&](const char* description, auto change) {
            Packet packet = sw.packet().put(0, 0, "k", 1);
            change(packet);
            sw.expect_drop(description, packet, ASK_CNT_bad_receiver);
        };
        refused("DATA to another host", [](Packet& p) { p.dest = kBehindSide; });
        refused("DATA back to its sender", [](Packet& p) { p.dest = kSender; });
        refused("DATA to nobody", [](Packet& p) { p.dest = kNowhere; });
        refused("LONG to another host", [](Packet& p) {
            p.type = ASK_LONG;
            p.dest = kBehindSide;
        });
        refused("FIN to another host", [](Packet& p) {
            p.type = ASK_FIN;
            p.dest = kBehindSide;
        });
    }
}

TEST_CASE("ACKs of a registered flow travel on to their sender") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default();
        const auto travels = [&](const char* description, auto change) {
            Packet packet = passing_ack(sw);
            change(packet);
            sw.expect(description, packet.frame(), XDP_REDIRECT, ASK_CNT_transit_ack,
                      packet.routed(kInMac, kSenderMac).frame(), network().out);
        };
        travels("a receiver's", [](Packet&) {});
        travels("another switch's", [](Packet& p) { p.mark_switch = 99; });
        travels("with the echo of a mark", [](Packet& p) { p.flags = ASK_F_ECE; });
        travels("marked itself on its way", [](Packet& p) { p.tos = 3; });
        travels("padded to Ethernet's least", [](Packet& p) { p.trailer = Bytes(9, 1); });
    }
}

TEST_CASE("ACKs that claim a registered flow and do not prove it are dropped") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default();
        const auto refused = [&](const char* description, ask_counter counter, auto change) {
            Packet packet = passing_ack(sw);
            change(packet);
            sw.expect_drop(description, packet, counter, network().out);
        };
        refused("not sealed", ASK_CNT_bad_check, [](Packet& p) { p.check = 5; });
        refused("under another secret", ASK_CNT_bad_check, [](Packet& p) { p.secret = flow_secret(1); });
        refused("to another host", ASK_CNT_bad_address, [](Packet& p) { p.dest = kBehindSide; });
        refused("to another port of the host", ASK_CNT_bad_address, [](Packet& p) { p.dest_port = 22; });
        refused("from another than the receiver", ASK_CNT_bad_receiver,
                [](Packet& p) { p.source = kBehindSide; });
        refused("of a former incarnation", ASK_CNT_bad_incarnation, [](Packet& p) { p.incarnation += 1; });
        refused("longer than an ACK", ASK_CNT_bad_length, [](Packet& p) { p.body = Bytes(8, 0); });
    }
}

TEST_CASE(
    "what goes on behind its first buffer is dropped if it is a registered channel's, and else the stack's") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default();
        const Bytes more(6000, 1);
        const auto with_more = [&more](Packet packet) {
            packet.trailer = more;
            return packet;
        };
        const Packet data = sw.packet().put(0, 0, "k", 1);
        sw.expect_drop("DATA", with_more(data), ASK_CNT_bad_fragments);
        sw.expect_drop("FIN", with_more(passing_fin(sw, 1)), ASK_CNT_bad_fragments);
        sw.expect_drop("an ACK", with_more(passing_ack(sw)), ASK_CNT_bad_fragments, network().out);
        Packet others = with_more(data);
        others.host = kBehindSide;
        sw.expect("of a channel that is not registered", others, XDP_PASS, ASK_CNT_pass_channel);
        Packet tcp = with_more(data);
        tcp.protocol = 6;
        sw.expect("TCP", tcp, XDP_PASS, ASK_CNT_pass_foreign);
        sw.expect_ack("the same without it", data, ASK_CNT_ack_new);
    }
}

TEST_CASE("one flipped bit in an ACK, from its addresses on: not forwarded") {
    Switch& sw = Switch::get({});
    sw.add_default();
    const Bytes ack = passing_ack(sw).frame();
    constexpr std::size_t kAddresses = 26;
    constexpr std::size_t kUdpChecksum = 40;
    for (std::size_t byte = kAddresses; byte < ack.size(); ++byte) {
        for (unsigned bit = 0; bit < 8; ++bit) {
            Bytes bad = ack;
            bad[byte] = static_cast<std::uint8_t>(bad[byte] ^ 1U << bit);
            INFO("bit ", bit, " of byte ", byte);
            const bool unread = byte == kUdpChecksum || byte == kUdpChecksum + 1;
            CHECK((sw.run(bad, network().out).action == XDP_REDIRECT) == unread);
        }
    }
}

TEST_CASE("ACKs of no registered flow are the stack's") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default();
        const auto up = [&](const char* description, auto change) {
            Packet packet = passing_ack(sw);
            change(packet);
            sw.expect(description, packet.frame(), XDP_PASS, ASK_CNT_pass_ack, packet.frame(), network().out);
        };
        up("another host's", [](Packet& p) { p.host = kNowhere; });
        up("another channel's", [](Packet& p) { p.port += 1; });
        up("another task's", [](Packet& p) { p.task += 1; });
        up("to a port that is no channel's", [](Packet& p) {
            p.host = kNowhere;
            p.dest_port = 22;
        });
        up("from an address that nobody has", [](Packet& p) {
            p.task += 1;
            p.source = kNowhere;
        });
    }
}

TEST_CASE("no route, no port, no time to live: up to the stack") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        const auto up = [&](const char* description, std::uint32_t receiver, auto change) {
            sw.reset();
            sw.add_default({.receiver = receiver});
            Packet packet = passing_fin(sw, 1);
            change(packet);
            sw.expect(description, packet, XDP_PASS, ASK_CNT_up_no_route);
        };
        const auto as_it_is = [](Packet&) {};
        up("no route", kNowhere, as_it_is);
        up("no neighbour", kReceiver + 7, as_it_is);
        up("to a port that is not the switch's", kBehindSide, as_it_is);
        up("to the switch itself", 0xC6120201, as_it_is);
        up("time to live 1", kReceiver, [](Packet& p) { p.ttl = 1; });
        up("time to live 0", kReceiver, [](Packet& p) { p.ttl = 0; });
        up("longer than the route's MTU", kNarrow, [](Packet& p) {
            p.type = ASK_LONG;
            p.body = Bytes(1000, 0);
        });
        sw.reset();
        sw.add_default({.receiver = kNarrow});
        sw.expect_routed("within the route's MTU", passing_fin(sw, 1), ASK_CNT_fin_new);
        sw.reset();
        sw.add_default();
        const Packet ack = passing_ack(sw).with([](Packet& p) { p.ttl = 1; });
        sw.expect("an ACK at its last hop", ack.frame(), XDP_PASS, ASK_CNT_up_no_route, ack.frame(),
                  network().out);
    }
}

TEST_CASE("what comes in by a bridge's port, or is to leave by a bridge, goes up to it") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        const auto bridged = [&sw](std::uint32_t ifindex) {
            REQUIRE(bpf_map_update_elem(sw.map("bridges"), &ifindex, &ifindex, BPF_ANY) == 0);
        };
        const std::uint32_t zero = 0;
        const std::uint32_t kinds = ASK_PORTS_ON_BRIDGES;
        REQUIRE(bpf_map_update_elem(sw.map("port_kinds"), &zero, &kinds, BPF_ANY) == 0);
        const auto no_more = [&sw](std::uint32_t ifindex) {
            REQUIRE(bpf_map_delete_elem(sw.map("bridges"), &ifindex) == 0);
        };
        sw.reset();
        sw.add_default({.aggregators = 1});
        bridged(network().in);
        sw.expect_ack("nothing left of it", sw.packet().seq(1).put(0, 0, "own", 1), ASK_CNT_ack_new);
        const Packet packet = sw.packet().seq(2).row_count(3).put(0, 0, "other", 1).put(2, 1, "k", 1);
        sw.expect("some left, marked, time to live as it was", packet.frame(), XDP_PASS, ASK_CNT_up_bridge,
                  packet.left(kMarkSwitch, kMarkIncarnation, {1, 0, 0}).frame());
        sw.expect("FIN", passing_fin(sw, 3).with([](Packet& p) { p.ttl = 1; }), XDP_PASS, ASK_CNT_up_bridge);
        no_more(network().in);

        sw.reset();
        sw.add_default({.receiver = kBehindSide});
        bridged(network().side);
        sw.expect("routed to a bridge", passing_fin(sw, 1), XDP_PASS, ASK_CNT_up_bridge);
        no_more(network().side);
    }
}

TEST_CASE("the last hop but one: time to live 2 is forwarded") {
    Switch& sw = Switch::get({});
    sw.add_default();
    sw.expect_routed("FIN", passing_fin(sw, 1).with([](Packet& p) { p.ttl = 2; }), ASK_CNT_fin_new);
}

TEST_CASE("own packets that no route takes go up, and are aggregated once all the same") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        TaskSpec task{.aggregators = 1, .receiver = kNowhere};
        sw.add_default(task);
        sw.expect_ack("owner", sw.packet().seq(1).put(0, 0, "own", 1), ASK_CNT_ack_new);
        Packet packet = sw.packet().seq(2).row_count(3).put(0, 0, "other", 1).put(2, 1, "k", 1);
        const Bytes out = packet.left(kMarkSwitch, kMarkIncarnation, {1, 0, 0}).frame();
        sw.expect("new", packet.frame(), XDP_PASS, ASK_CNT_up_no_route, out);
        sw.expect_region(0, {{0, "own", 1}, {1, "k", 1}});
        sw.expect("seen", packet.frame(), XDP_PASS, ASK_CNT_up_no_route, out);
        sw.expect("FIN", passing_fin(sw, 3), XDP_PASS, ASK_CNT_up_no_route);
        task.receiver = packet.dest = kReceiver;
        sw.set_task(0, task);
        sw.expect_left("once there is a route", packet, ASK_CNT_fwd_seen, {1, 0, 0});
        sw.expect_region(0, {{0, "own", 1}, {1, "k", 1}});
    }
}

TEST_CASE("the IP checksum comes out right for any header") {
    Switch& sw = Switch::get({});
    sw.add_default();
    std::uint32_t random = 1;
    for (unsigned i = 0; i < 2000; ++i) {
        random = random * 1664525 + 1013904223;
        const Packet packet = passing_fin(sw, i + 1).with([&](Packet& p) {
            p.id = static_cast<std::uint16_t>(random >> 16);
            p.tos = static_cast<std::uint8_t>(random & 0xff);
            p.ttl = static_cast<std::uint8_t>(2 + i % 254);
        });
        const Switch::Outcome outcome = sw.run(packet.frame());
        CHECK(outcome.action == XDP_REDIRECT);
        CHECK((outcome.frame == packet.routed(kOutMac, kReceiverMac).frame()));
    }
}
