// SPDX-License-Identifier: Apache-2.0
//
// What is not this switch's: passed to the stack, or routed on unmarked (design sections 2 and 5, step 1);
// and what happens to ASK packets that no route takes.
#include <doctest/doctest.h>

#include "tests/bpf/switch/harness.h"

using namespace ask;
using namespace ask::test;

namespace {

// An ACK of a receiver on its way to the sender.
Packet passing_ack(const Switch& sw) {
    Packet packet = sw.packet();
    packet.dest_mac = kOutMac;
    packet.source_mac = kReceiverMac;
    packet.source = kReceiver;
    packet.dest = kSender;
    packet.dest_port = packet.source_port;
    packet.source_port = ASK_UDP_PORT;
    packet.type = ASK_ACK;
    packet.udp_checksum = 0x9999;
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

TEST_CASE("packets of a channel that is not registered here travel on, unmarked, whatever is in them") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default();
        const auto transit = [&](const char* description, auto change) {
            Packet packet = sw.packet().put(0, 0, "k", 1);
            packet.udp_checksum = 0x7777;
            packet.host = kBehindSide;
            change(packet);
            sw.expect_routed(description, packet, ASK_CNT_transit_data);
        };
        transit("another host", [](Packet&) {});
        transit("another port of the host", [](Packet& p) {
            p.host = kSender;
            p.port += 1;
        });
        transit("not sealed", [](Packet& p) { p.check = 0; });
        transit("marked by another switch", [](Packet& p) { p.mark_switch = 99; });
        transit("another version", [](Packet& p) { p.version = 9; });
        transit("rows missing", [](Packet& p) { p.rows.clear(); });
        transit("LONG", [](Packet& p) { p.type = ASK_LONG; });
        transit("FIN", [](Packet& p) { p.type = ASK_FIN; });
        transit("seq 0", [](Packet& p) { p.seq_field = 0; });
        transit("no tuples", [](Packet& p) { p.bitmaps[0] = 0; });
        transit("a trailer", [](Packet& p) { p.trailer = Bytes(9, 1); });
    }
}

TEST_CASE("ACKs travel on to their sender") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default();
        const Packet packet = passing_ack(sw);
        sw.expect("of a registered channel", packet.frame(), XDP_REDIRECT, ASK_CNT_transit_ack,
                  packet.routed(kInMac, kSenderMac).frame(), network().out);
        Packet other = packet;
        other.host = kNowhere;
        other.check = 5;
        sw.expect("of another channel, unproved: the sender will see", other.frame(), XDP_REDIRECT,
                  ASK_CNT_transit_ack, other.routed(kInMac, kSenderMac).frame(), network().out);
    }
}

TEST_CASE("no route, no port, no time to live: up to the stack") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default();
        const auto up = [&](const char* description, auto change) {
            Packet packet = sw.packet().put(0, 0, "k", 1);
            packet.host = kBehindSide;
            change(packet);
            sw.expect(description, packet, XDP_PASS, ASK_CNT_up_no_route);
        };
        up("no route", [](Packet& p) { p.dest = kNowhere; });
        up("no neighbour", [](Packet& p) { p.dest = kReceiver + 7; });
        up("to a port that is not the switch's", [](Packet& p) { p.dest = kBehindSide; });
        up("to the switch itself", [](Packet& p) { p.dest = 0xC6120201; });
        up("time to live 1", [](Packet& p) { p.ttl = 1; });
        up("time to live 0", [](Packet& p) { p.ttl = 0; });
        up("longer than the route's MTU", [](Packet& p) {
            p.dest = kNarrow;
            p.row_count(3);
        });
        Packet fits = sw.packet().put(0, 0, "k", 1).with([](Packet& p) {
            p.host = kBehindSide;
            p.dest = kNarrow;
        });
        sw.expect_routed("within the route's MTU", fits, ASK_CNT_transit_data);
        Packet ack = passing_ack(sw);
        ack.dest = kNowhere;
        sw.expect("an ACK without a route", ack.frame(), XDP_PASS, ASK_CNT_up_no_route, ack.frame(),
                  network().out);
    }
}

TEST_CASE("the last hop but one: time to live 2 is forwarded") {
    Switch& sw = Switch::get({});
    sw.add_default();
    Packet packet = sw.packet().put(0, 0, "k", 1).with([](Packet& p) {
        p.host = kBehindSide;
        p.ttl = 2;
    });
    sw.expect_routed("transit", packet, ASK_CNT_transit_data);
}

TEST_CASE("own packets that no route takes go up, and are aggregated once all the same") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default({.aggregators = 1});
        sw.expect_ack("owner", sw.packet().seq(1).put(0, 0, "own", 1), ASK_CNT_ack_new);
        Packet packet = sw.packet().seq(2).row_count(3).put(0, 0, "other", 1).put(2, 1, "k", 1);
        packet.dest = kNowhere;
        const Bytes out = packet.left(kMarkSwitch, kMarkIncarnation, {1, 0, 0}).frame();
        sw.expect("new", packet.frame(), XDP_PASS, ASK_CNT_up_no_route, out);
        sw.expect_region(0, {{0, "own", 1}, {1, "k", 1}});
        sw.expect("seen", packet.frame(), XDP_PASS, ASK_CNT_up_no_route, out);
        packet.dest = kReceiver;
        sw.expect_left("once there is a route", packet, ASK_CNT_fwd_seen, {1, 0, 0});
        sw.expect_region(0, {{0, "own", 1}, {1, "k", 1}});
        packet = sw.packet().seq(3);
        packet.type = ASK_FIN;
        packet.dest = kNowhere;
        sw.expect("FIN", packet, XDP_PASS, ASK_CNT_up_no_route);
    }
}

TEST_CASE("the IP checksum comes out right for any header") {
    Switch& sw = Switch::get({});
    sw.add_default();
    std::uint32_t random = 1;
    for (unsigned i = 0; i < 2000; ++i) {
        random = random * 1664525 + 1013904223;
        Packet packet = sw.packet().put(0, 0, "k", 1).with([&](Packet& p) {
            p.host = kBehindSide;
            p.id = static_cast<std::uint16_t>(random >> 16);
            p.tos = static_cast<std::uint8_t>(random & 0xff);
            p.ttl = static_cast<std::uint8_t>(2 + i % 254);
            p.source = random;
        });
        // The route lookup refuses martian sources; what it forwards must add up.
        const Switch::Outcome outcome = sw.run(packet.frame());
        if (outcome.action == XDP_REDIRECT) {
            CHECK((outcome.frame == packet.routed(kOutMac, kReceiverMac).frame()));
        } else {
            CHECK((outcome.frame == packet.frame()));
        }
    }
}
