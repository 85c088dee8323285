// SPDX-License-Identifier: Apache-2.0
//
// Packets that claim a channel of this switch and fail to prove it: dropped, each under its own reason, and
// nothing changes (design sections 5 and 9, I5). The harness compares all state after each of them.
#include <array>
#include <functional>

#include <bpf/bpf.h>
#include <doctest/doctest.h>

#include "tests/bpf/switch/harness.h"

using namespace ask;
using namespace ask::test;

namespace {

using Change = std::function<void(Packet&)>;

struct Bad {
    const char* description;
    ask_counter counter;
    Change change;
};

Packet data(const Switch& sw) {
    Packet packet = sw.packet().seq(9).put(0, 0, "k", 1).put(1, 16, "medium", 2);
    return packet;
}

void expect_bad(Switch& sw, const Packet& good, const Bad& bad) {
    Packet packet = good;
    bad.change(packet);
    sw.expect_drop(bad.description, packet, bad.counter);
}

const Bad kBadData[] = {
    {"version 0", ASK_CNT_bad_version, [](Packet& p) { p.version = 0; }},
    {"another version", ASK_CNT_bad_version, [](Packet& p) { p.version = 0xA1; }},
    {"type 0", ASK_CNT_bad_type, [](Packet& p) { p.type = 0; }},
    {"an ACK to the switch", ASK_CNT_bad_type, [](Packet& p) { p.type = 3; }},
    {"type 6", ASK_CNT_bad_type, [](Packet& p) { p.type = 6; }},
    {"type 255", ASK_CNT_bad_type, [](Packet& p) { p.type = 255; }},
    {"another source address", ASK_CNT_bad_address, [](Packet& p) { p.source = kBehindSide; }},
    {"another source port", ASK_CNT_bad_address, [](Packet& p) { p.source_port = 50000; }},
    {"to another than the task's receiver", ASK_CNT_bad_receiver, [](Packet& p) { p.dest = kBehindSide; }},
    {"incarnation before", ASK_CNT_bad_incarnation, [](Packet& p) { p.incarnation -= 1; }},
    {"incarnation after", ASK_CNT_bad_incarnation, [](Packet& p) { p.incarnation += 1; }},
    {"another task", ASK_CNT_bad_task, [](Packet& p) { p.task += 1; }},
    {"no task", ASK_CNT_bad_task, [](Packet& p) { p.task = 0; }},
    {"one short slot more", ASK_CNT_bad_geometry, [](Packet& p) { p.short_slots += 1; }},
    {"one group less", ASK_CNT_bad_geometry, [](Packet& p) { p.groups -= 1; }},
    {"another m", ASK_CNT_bad_geometry, [](Packet& p) { p.m = 3; }},
    {"another operator", ASK_CNT_bad_geometry, [](Packet& p) { p.op = 2; }},
    {"operator 0", ASK_CNT_bad_geometry, [](Packet& p) { p.op = 0; }},
    {"one row more than the task's", ASK_CNT_bad_geometry, [](Packet& p) { p.row_count(5); }},
    {"255 rows", ASK_CNT_bad_geometry, [](Packet& p) { p.rows_field = 255; }},
    {"marked by a switch", ASK_CNT_bad_mark, [](Packet& p) { p.mark_switch = kMarkSwitch; }},
    {"marked by incarnation only", ASK_CNT_bad_mark, [](Packet& p) { p.mark_incarnation = 1; }},
    {"seq 0", ASK_CNT_bad_seq, [](Packet& p) { p.seq_field = 0; }},
    {"no rows", ASK_CNT_bad_length, [](Packet& p) { p.bitmaps.clear(), p.rows.clear(); }},
    {"rows 0, rows there", ASK_CNT_bad_length, [](Packet& p) { p.rows_field = 0; }},
    {"a row less than it says", ASK_CNT_bad_length, [](Packet& p) { p.rows.pop_back(); }},
    {"says a row less", ASK_CNT_bad_length, [](Packet& p) { p.rows_field = 1; }},
    {"says a row more", ASK_CNT_bad_length, [](Packet& p) { p.rows_field = 3; }},
    {"a byte too long", ASK_CNT_bad_length, [](Packet& p) { p.body = Bytes(1); }},
    {"a word too long", ASK_CNT_bad_length, [](Packet& p) { p.body = Bytes(8); }},
    {"a byte too short", ASK_CNT_bad_length, [](Packet& p) { p.rows.back().pop_back(); }},
    {"UDP length one less", ASK_CNT_bad_length,
     [](Packet& p) { p.udp_length = static_cast<std::uint16_t>(8 + p.payload().size() - 1); }},
    {"UDP length one more", ASK_CNT_bad_length,
     [](Packet& p) { p.udp_length = static_cast<std::uint16_t>(8 + p.payload().size() + 1); }},
    {"UDP length 0", ASK_CNT_bad_length, [](Packet& p) { p.udp_length = 0; }},
    {"UDP length 7", ASK_CNT_bad_length, [](Packet& p) { p.udp_length = 7; }},
    {"UDP length 55", ASK_CNT_bad_length,
     [](Packet& p) {
         p.udp_length = 55;
         p.total_length = 75;
     }},
    {"UDP length 65535", ASK_CNT_bad_length,
     [](Packet& p) {
         p.udp_length = 0xffff;
         p.total_length = 19;
     }},
    {"IP length one less", ASK_CNT_bad_length,
     [](Packet& p) { p.total_length = static_cast<std::uint16_t>(28 + p.payload().size() - 1); }},
    {"IP length one more", ASK_CNT_bad_length,
     [](Packet& p) { p.total_length = static_cast<std::uint16_t>(28 + p.payload().size() + 1); }},
    {"IP length 0", ASK_CNT_bad_length, [](Packet& p) { p.total_length = 0; }},
    {"both lengths say a byte more than the frame has", ASK_CNT_bad_length,
     [](Packet& p) {
         p.udp_length = static_cast<std::uint16_t>(8 + p.payload().size() + 1);
         p.total_length = static_cast<std::uint16_t>(28 + p.payload().size() + 1);
     }},
    {"both lengths past any frame", ASK_CNT_bad_length,
     [](Packet& p) {
         p.udp_length = 4000;
         p.total_length = 4020;
     }},
    {"check 0", ASK_CNT_bad_check, [](Packet& p) { p.check = 0; }},
    {"another task's secret", ASK_CNT_bad_check, [](Packet& p) { p.secret[0] ^= 1; }},
    {"sealed for another port", ASK_CNT_bad_check,
     [](Packet& p) {
         Packet other = p;
         other.source_port += 1;
         const Bytes sealed = other.payload();
         p.check = 0;
         for (unsigned i = 40; i < 48; ++i) {
             p.check = *p.check << 8 | sealed[i];
         }
     }},
    {"a bit of the first bitmap beyond the slots", ASK_CNT_bad_geometry,
     [](Packet& p) { p.bitmaps[0] |= 1U << 24; }},
    {"flags sealed otherwise", ASK_CNT_bad_check,
     [](Packet& p) {
         const Bytes sealed = p.payload();
         p.check = 0;
         for (unsigned i = 40; i < 48; ++i) {
             p.check = *p.check << 8 | sealed[i];
         }
         p.flags = 0x80;
     }},
};

}  // namespace

TEST_CASE("DATA that does not prove itself is dropped under its own reason") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default();
        for (const Bad& bad : kBadData) {
            expect_bad(sw, data(sw), bad);
        }
        sw.expect_ack("the good one is new after all of them", data(sw), ASK_CNT_ack_new);
    }
}

TEST_CASE("a packet on another port than its channel's is dropped") {
    Switch& sw = Switch::get({});
    sw.add_default();
    sw.expect_drop("port out", data(sw), ASK_CNT_bad_port, network().out);
    sw.expect_drop("port side", data(sw), ASK_CNT_bad_port, network().side);
    sw.expect_ack("its own", data(sw), ASK_CNT_ack_new);
}

TEST_CASE("a packet by any port of its channel's set passes, by another it is dropped") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default();
        sw.add_channel(0, {.ifindex = network().out, .more_ports = {network().in}});
        sw.expect_ack("the first", data(sw), ASK_CNT_ack_new, network().out);
        sw.expect_ack("the second", data(sw).seq(10), ASK_CNT_ack_new, network().in);
        sw.expect_drop("none of them", data(sw), ASK_CNT_bad_port, network().side);
        // As many as there can be: the last counts.
        std::vector<std::uint32_t> others(ASK_CHANNEL_PORTS - 2, network().out);
        others.push_back(network().side);
        sw.add_channel(0, {.ifindex = network().out, .more_ports = others});
        sw.expect_ack("the last", data(sw).seq(11), ASK_CNT_ack_new, network().side);
        sw.expect_drop("none of many", data(sw), ASK_CNT_bad_port, network().in);
    }
}

TEST_CASE("a task that is registered for another channel only is no task of this one") {
    Switch& sw = Switch::get({});
    sw.add_default();
    sw.add_channel(1, {.port = ASK_CHANNEL_PORT_BASE + 1});
    Packet packet = data(sw);
    packet.port = packet.source_port = ASK_CHANNEL_PORT_BASE + 1;
    sw.expect_drop("channel 1, task of channel 0", packet, ASK_CNT_bad_task);
}

TEST_CASE("a channel's packet is proved by the channel's own key") {
    Switch& sw = Switch::get({});
    sw.add_channel(0);
    sw.add_channel(1, {.port = ASK_CHANNEL_PORT_BASE + 1});
    sw.add_task(0);
    sw.add_flow(0, 0, 0);
    sw.add_flow(1, 1, 0);
    Packet packet = sw.packet(0).put(0, 0, "k", 1);
    packet.secret = sw.packet(1).secret;
    sw.expect_drop("sealed under another channel's key", packet, ASK_CNT_bad_check);
}

TEST_CASE("the first thing wrong is the one that counts") {
    Switch& sw = Switch::get({});
    sw.add_default();
    const Bad order[] = {{"version", ASK_CNT_bad_version, [](Packet& p) { p.version = 1; }},
                         {"address", ASK_CNT_bad_address, [](Packet& p) { p.source = kNowhere; }},
                         {"incarnation", ASK_CNT_bad_incarnation, [](Packet& p) { p.incarnation = 0; }},
                         {"type", ASK_CNT_bad_type, [](Packet& p) { p.type = 9; }},
                         {"geometry", ASK_CNT_bad_geometry, [](Packet& p) { p.m = 1; }},
                         {"mark", ASK_CNT_bad_mark, [](Packet& p) { p.mark_switch = 9; }},
                         {"seq", ASK_CNT_bad_seq, [](Packet& p) { p.seq_field = 0; }},
                         {"length", ASK_CNT_bad_length, [](Packet& p) { p.udp_length = 1; }},
                         {"check", ASK_CNT_bad_check, [](Packet& p) { p.check = 1; }}};
    for (std::size_t first = 0; first < std::size(order); ++first) {
        Packet packet = data(sw);
        for (std::size_t i = first; i < std::size(order); ++i) {
            order[i].change(packet);
        }
        sw.expect_drop(order[first].description, packet, order[first].counter);
    }
}

TEST_CASE("LONG with a length that is not one") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default();
        for (const std::size_t bytes : {0UL, 1UL, 4UL, 7UL, 9UL, 12UL, 15UL, 263UL, 3430UL}) {
            Packet packet = sw.packet();
            packet.type = ASK_LONG;
            packet.body = Bytes(bytes, 1);
            sw.expect_drop(std::to_string(bytes) + " bytes", packet, ASK_CNT_bad_length);
        }
        Packet packet = sw.packet();
        packet.type = ASK_LONG;
        packet.body = Bytes(16);
        packet.rows_field = 1;
        sw.expect_drop("rows 1", packet, ASK_CNT_bad_length);
        packet.rows_field.reset();
        packet.body = Bytes(3432);
        sw.expect_drop("past the longest payload", packet, ASK_CNT_bad_fragments);
        packet.body = Bytes(16);
        packet.check = 0;
        sw.expect_drop("check", packet, ASK_CNT_bad_check);
    }
}

TEST_CASE("FIN without a word behind its header, with more, or with rows") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default();
        for (const std::size_t bytes : {0UL, 1UL, 4UL, 7UL, 9UL, 16UL, 64UL}) {
            Packet packet = sw.packet();
            packet.type = ASK_FIN;
            packet.body = Bytes(bytes);
            packet.bare = true;
            sw.expect_drop(std::to_string(bytes) + " bytes", packet, ASK_CNT_bad_length);
        }
        Packet packet = sw.packet();
        packet.type = ASK_FIN;
        packet.rows_field = 1;
        sw.expect_drop("rows 1", packet, ASK_CNT_bad_length);
        packet.rows_field.reset();
        packet.check = 0;
        sw.expect_drop("check", packet, ASK_CNT_bad_check);
    }
}

namespace {

// What the keyed check does not cover and no rule looks at: MAC addresses; of the IP header type of service,
// id, "don't fragment" and the reserved flag, time to live, checksum; the UDP checksum. A packet that differs
// there is still its sender's, and is taken once like any other copy of it.
bool is_unproved(std::size_t byte, unsigned bit) {
    const bool flags = byte == 20 && bit >= 6;
    return byte < 12 || byte == 15 || byte == 18 || byte == 19 || flags || byte == 22 || byte == 24 ||
           byte == 25 || byte == 40 || byte == 41;
}

// Flips every bit of the frame: none may be accepted or change state.
void flip_every_bit(Switch& sw, const Bytes& frame) {
    const State before = sw.state();
    for (std::size_t byte = 0; byte < frame.size(); ++byte) {
        for (unsigned bit = 0; bit < 8; ++bit) {
            if (is_unproved(byte, bit)) {
                continue;
            }
            Bytes bad = frame;
            bad[byte] = static_cast<std::uint8_t>(bad[byte] ^ 1U << bit);
            INFO("bit ", bit, " of byte ", byte);
            const std::vector<std::uint64_t> counted = sw.counters();
            const Switch::Outcome outcome = sw.run(bad);
            const std::vector<std::uint64_t> after = sw.counters();
            std::uint64_t grown = 0;
            for (std::uint32_t i = 0; i < ASK_CNT_COUNT; ++i) {
                grown += after[i] - counted[i];
                const bool refused =
                    i <= ASK_CNT_up_no_route || (i >= ASK_CNT_bad_version && i <= ASK_CNT_bad_check);
                CHECK_MESSAGE((refused || after[i] == counted[i]), counter_name(i));
            }
            CHECK(grown == 1);
            CHECK(outcome.action != XDP_TX);
            CHECK((sw.state() == before));
        }
    }
}

}  // namespace

TEST_CASE("one flipped bit anywhere, and the packet proves nothing: DATA") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default();
        const Packet packet = data(sw);
        flip_every_bit(sw, packet.frame());
        sw.expect_ack("unflipped, it is new", packet, ASK_CNT_ack_new);
    }
}

TEST_CASE("one flipped bit anywhere, and the packet proves nothing: LONG and FIN") {
    Switch& sw = Switch::get({});
    sw.add_default();
    Packet packet = sw.packet();
    packet.type = ASK_LONG;
    packet.body = Bytes(64, 0x5a);
    flip_every_bit(sw, packet.frame());
    sw.expect_routed("LONG, unflipped", packet, ASK_CNT_long_new);
    packet = sw.packet().seq(2);
    packet.type = ASK_FIN;
    flip_every_bit(sw, packet.frame());
    sw.expect_routed("FIN, unflipped", packet, ASK_CNT_fin_new);
}

TEST_CASE("one flipped bit in a packet seen before is refused as well") {
    Switch& sw = Switch::get({});
    sw.add_default();
    const Packet packet = data(sw);
    sw.expect_ack("new", packet, ASK_CNT_ack_new);
    flip_every_bit(sw, packet.frame());
}

TEST_CASE("flipped bits that nothing proves still make it the same packet: taken once") {
    Switch& sw = Switch::get({});
    sw.add_default();
    const Bytes frame = data(sw).frame();
    bool first = true;
    for (std::size_t byte = 0; byte < 42; ++byte) {
        for (unsigned bit = 0; bit < 8; ++bit) {
            if (!is_unproved(byte, bit)) {
                continue;
            }
            INFO("bit ", bit, " of byte ", byte);
            Bytes bad = frame;
            bad[byte] = static_cast<std::uint8_t>(bad[byte] ^ 1U << bit);
            CHECK(sw.run(bad).action == XDP_TX);
            sw.expect_region(0, {{0, "k", 1}, {16, "medium", 2}});
            CHECK(sw.stats().packets_new == 1);
            CHECK(sw.stats().packets_seen == (first ? 0 : sw.stats().packets_acked - 1));
            first = false;
        }
    }
}

TEST_CASE("entries that lead nowhere: dropped as an error, not taken") {
    for (const Way& way : kWays) {
        const std::uint32_t nowhere = 1000;
        Switch& sw = Switch::get(way);
        sw.add_default();
        const Packet packet = data(sw);
        const auto expect_abort = [&](const char* description) {
            const State before = sw.state();
            sw.expect(description, packet, XDP_ABORTED, ASK_CNT_abort_state);
            CHECK((sw.state() == before));
        };
        std::uint32_t zero = 0;
        ask_flow flow{};
        REQUIRE(bpf_map_lookup_elem(sw.map("flows"), &zero, &flow) == 0);
        const auto set_flow = [&](const ask_flow& value) {
            REQUIRE(bpf_map_update_elem(sw.map("flows"), &zero, &value, BPF_ANY) == 0);
        };
        ask_flow bad = flow;
        bad.channel = nowhere;
        set_flow(bad);
        expect_abort("a flow without a channel");
        bad = flow;
        bad.task = nowhere;
        set_flow(bad);
        expect_abort("a flow without a task");
        bad = flow;
        bad.task_instance += 1;
        set_flow(bad);
        expect_abort("a flow of another instance than its task");
        set_flow(flow);
        ask_flow_id id{};
        REQUIRE(bpf_map_get_next_key(sw.map("flow_ids"), nullptr, &id) == 0);
        REQUIRE(bpf_map_update_elem(sw.map("flow_ids"), &id, &nowhere, BPF_ANY) == 0);
        expect_abort("a flow id without a flow");
        REQUIRE(bpf_map_delete_elem(sw.map("flow_ids"), &id) == 0);
        ask_channel_id channel{};
        REQUIRE(bpf_map_get_next_key(sw.map("channel_ids"), nullptr, &channel) == 0);
        REQUIRE(bpf_map_update_elem(sw.map("channel_ids"), &channel, &nowhere, BPF_ANY) == 0);
        expect_abort("a channel id without a channel");
    }
}

TEST_CASE("a channel without dedupe state or PktState") {
    SUBCASE("dedupe") {
        Switch sw({}, {.dedupe = 1});
        sw.add_channel(1);
        sw.add_task(0);
        sw.add_flow(0, 1, 0);
        const State before = sw.state();
        sw.expect("DATA", sw.packet().put(0, 0, "k", 1), XDP_ABORTED, ASK_CNT_abort_state);
        CHECK((sw.state() == before));
    }
    SUBCASE("PktState") {
        Switch sw({}, {.pkt_state = 1});
        sw.add_channel(1);
        sw.add_task(0);
        sw.add_flow(0, 1, 0);
        sw.expect("DATA", sw.packet().put(0, 0, "k", 1), XDP_ABORTED, ASK_CNT_abort_state);
        sw.expect_region(0, {});
    }
}

TEST_CASE("a task whose region is gone: everything is left to the receiver") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_task(1, {.instance = 5, .copies = 0});
        TaskSpec claims_one = sw.task(1);
        claims_one.copies = 1;
        sw.set_task(1, claims_one);
        sw.add_channel(0);
        sw.add_flow(0, 0, 1);
        const Packet packet = sw.packet().put(0, 0, "k", 1).put(2, 16, "medium", 1);
        sw.expect_left("no region map", packet, ASK_CNT_fwd_new, packet.bitmaps);
    }
}

TEST_CASE("a region that is smaller than its task says: what has no aggregator is left to the receiver") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default({.aggregators = 1});
        TaskSpec larger = sw.task(0);
        larger.aggregators = 1U << 20;
        larger.copies = 2;
        larger.copy = 1;
        sw.set_task(0, larger);
        const Packet packet = sw.packet().put(0, 0, "k", 1).put(2, 16, "medium", 1);
        sw.expect_left("past the end", packet, ASK_CNT_fwd_new, packet.bitmaps);
        sw.expect_region(0, {});
    }
}
