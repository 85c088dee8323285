// SPDX-License-Identifier: Apache-2.0
//
// New, seen and stale; what is restored of a packet seen before; LONG and FIN (design section 5, steps 2 and
// 4).
#include <doctest/doctest.h>

#include "tests/bpf/switch/harness.h"

using namespace ask;
using namespace ask::test;

namespace {

constexpr Way kTagged[] = {{ASK_MEMORY_PIPELINES, ASK_DEDUPE_TAGGED}, {ASK_MEMORY_SHARED, ASK_DEDUPE_TAGGED}};
constexpr Way kCompact[] = {{ASK_MEMORY_PIPELINES, ASK_DEDUPE_COMPACT},
                            {ASK_MEMORY_SHARED, ASK_DEDUPE_COMPACT}};

// A packet whose one tuple is aggregated, as long as nobody else owns AA 0.
Packet one_tuple(const Switch& sw, std::uint64_t seq) {
    return sw.packet().seq(seq).put(0, 0, "k", 1);
}

// A LONG packet of `words` words after its header.
Packet long_packet(const Switch& sw, std::uint64_t seq, unsigned words = 4) {
    Packet packet = sw.packet().seq(seq);
    packet.type = ASK_LONG;
    packet.udp_checksum = 0x4321;
    for (unsigned i = 0; i < 8 * words; ++i) {
        packet.body.push_back(static_cast<std::uint8_t>(i * 7 + words));
    }
    return packet;
}

Packet fin_packet(const Switch& sw, std::uint64_t seq) {
    Packet packet = sw.packet().seq(seq);
    packet.type = ASK_FIN;
    packet.udp_checksum = 0x4321;
    return packet;
}

}  // namespace

TEST_CASE("a packet seen before is acknowledged again and aggregated once") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default();
        Packet packet = sw.packet().put(0, 0, "k", 5).put(3, 16, "medium", 6);
        sw.expect_ack("new", packet, ASK_CNT_ack_new);
        for (unsigned i = 0; i < 3; ++i) {
            const State before = sw.state();
            // Of this copy the network says something else: congestion.
            packet.tos = 3;
            sw.expect_ack("seen", packet, ASK_CNT_ack_seen);
            CHECK((sw.state().regions == before.regions));
            CHECK((sw.state().dedupe == before.dedupe));
            CHECK((sw.state().pkt_state == before.pkt_state));
        }
        sw.expect_region(0, {{0, "k", 5}, {16, "medium", 6}});
        const ask_flow_stats stats = sw.stats();
        CHECK(stats.packets_new == 1);
        CHECK(stats.packets_seen == 3);
        CHECK(stats.packets_acked == 4);
        CHECK(stats.tuples_aggregated == 2);
    }
}

TEST_CASE("a packet seen before leaves as its first copy did, whatever changed since") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default({.aggregators = 1});
        sw.expect_ack("owner", sw.packet().seq(1).put(0, 0, "own", 1), ASK_CNT_ack_new);
        Packet packet = sw.packet().seq(2).row_count(4);
        packet.put(0, 0, "other", 2).put(0, 1, "k", 3).put(1, 0, "own", 4).put(2, 0, "other", 5);
        packet.put(3, 1, "k", 6);
        sw.expect_left("new", packet, ASK_CNT_fwd_new, {1, 0, 1, 0});
        sw.expect_left("seen", packet, ASK_CNT_fwd_seen, {1, 0, 1, 0});
        // Its aggregators became free: a seen packet still feeds nothing.
        sw.set_region(0, std::vector<ask_aggregator>(sw.region(0).size()));
        sw.expect_left("seen, region blank", packet, ASK_CNT_fwd_seen, {1, 0, 1, 0});
        sw.expect_region(0, {});
        CHECK(sw.stats().tuples_collision == 2);
        CHECK(sw.stats().packets_seen == 2);
    }
}

TEST_CASE("what is restored is exactly what PktState says") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default();
        Packet packet = sw.packet().seq(7).row_count(4);
        for (unsigned row = 0; row < 4; ++row) {
            packet.put(row, 2 * row, "k", 1).put(row, 2 * row + 1, "l", 1);
        }
        sw.expect_ack("new", packet, ASK_CNT_ack_new);
        ask_pkt_state state = sw.pkt_state();
        state.row[7][0] = 7ULL << 32 | 0x2;
        state.row[7][2] = 7ULL << 32 | 0x30;
        sw.set_pkt_state(0, state);
        sw.expect_left("rows 0 and 2", packet, ASK_CNT_fwd_seen, {0x2, 0, 0x30, 0});
        state.row[7][0] = 7ULL << 32;
        state.row[7][2] = 7ULL << 32;
        sw.set_pkt_state(0, state);
        sw.expect_ack("nothing", packet, ASK_CNT_ack_seen);
    }
}

TEST_CASE("a packet seen before its first copy came through is dropped, and changes nothing") {
    for (const Way& way : kWays) {
        for (unsigned row = 0; row < 4; ++row) {
            Switch& sw = Switch::get(way);
            sw.add_default();
            Packet packet = sw.packet().seq(200);
            for (unsigned r = 0; r < 4; ++r) {
                packet.put(r, 0, "k", 1);
            }
            sw.expect_ack("new", packet, ASK_CNT_ack_new);
            // As if the other CPU had not stored this row yet: blank, or an older packet's.
            for (const std::uint64_t tag : {0ULL, 1ULL, 199ULL, 201ULL}) {
                ask_pkt_state state = sw.pkt_state();
                state.row[200][row] = tag << 32;
                sw.set_pkt_state(0, state);
                const State before = sw.state();
                sw.expect_drop("row " + std::to_string(row) + " tagged " + std::to_string(tag), packet,
                               ASK_CNT_drop_in_flight);
                CHECK((sw.state() == before));
            }
        }
    }
}

TEST_CASE("tagged: new, seen and stale at every place of the window") {
    for (const Way& way : kTagged) {
        Switch& sw = Switch::get(way);
        sw.add_default();
        for (std::uint64_t seq = 1; seq <= 256; ++seq) {
            sw.expect_ack("first window", one_tuple(sw, seq), ASK_CNT_ack_new);
            CHECK(sw.dedupe_state().seen[seq % 256] == seq);
        }
        sw.expect_ack("seen, a window later", one_tuple(sw, 1), ASK_CNT_ack_seen);
        sw.expect_ack("new takes the place", one_tuple(sw, 257), ASK_CNT_ack_new);
        sw.expect_drop("stale", one_tuple(sw, 1), ASK_CNT_drop_stale);
        sw.expect_ack("its neighbour is only seen", one_tuple(sw, 2), ASK_CNT_ack_seen);
        sw.expect_ack("far ahead, seqs left out", one_tuple(sw, 1000 * 256 + 2), ASK_CNT_ack_new);
        sw.expect_drop("stale", one_tuple(sw, 2), ASK_CNT_drop_stale);
        sw.expect_drop("stale, never seen", one_tuple(sw, 999 * 256 + 2), ASK_CNT_drop_stale);
        sw.expect_region(0, {{0, "k", 258}});
    }
}

TEST_CASE("tagged: reordered within the window, each seq is new once") {
    for (const Way& way : kTagged) {
        Switch& sw = Switch::get(way);
        sw.add_default();
        for (const std::uint64_t seq : {255ULL, 1ULL, 256ULL, 128ULL, 2ULL}) {
            sw.expect_ack("new", one_tuple(sw, seq), ASK_CNT_ack_new);
        }
        for (const std::uint64_t seq : {2ULL, 1ULL, 128ULL, 256ULL, 255ULL}) {
            sw.expect_ack("seen", one_tuple(sw, seq), ASK_CNT_ack_seen);
        }
        sw.expect_region(0, {{0, "k", 5}});
    }
}

TEST_CASE("tagged: seqs of more than 32 bits") {
    for (const Way& way : kTagged) {
        Switch& sw = Switch::get(way);
        sw.add_default({.aggregators = 1});
        const std::uint64_t turn = 1ULL << 32;
        sw.expect_ack("low", one_tuple(sw, 5), ASK_CNT_ack_new);
        sw.expect_left("high, same low bits", sw.packet().seq(turn + 5).put(0, 0, "x", 1), ASK_CNT_fwd_new,
                       {1});
        CHECK(sw.pkt_state().row[5][0] == (5ULL << 32 | 1));
        sw.expect_left("high, seen", sw.packet().seq(turn + 5).put(0, 0, "x", 1), ASK_CNT_fwd_seen, {1});
        sw.expect_drop("low is stale", one_tuple(sw, 5), ASK_CNT_drop_stale);
        sw.expect_ack("the greatest", one_tuple(sw, ~0ULL), ASK_CNT_ack_new);
        sw.expect_ack("the greatest again", one_tuple(sw, ~0ULL), ASK_CNT_ack_seen);
        sw.expect_drop("a window before it", one_tuple(sw, ~0ULL - 256), ASK_CNT_drop_stale);
    }
}

TEST_CASE("compact: three windows in order, each seq new once and seen after") {
    for (const Way& way : kCompact) {
        Switch& sw = Switch::get(way);
        sw.add_default();
        for (std::uint64_t seq = 1; seq <= 768; ++seq) {
            sw.expect_ack("new", one_tuple(sw, seq), ASK_CNT_ack_new);
            sw.expect_ack("seen", one_tuple(sw, seq), ASK_CNT_ack_seen);
            const std::uint64_t bit = 1ULL << (seq - 1) % 64;
            const bool set = (sw.dedupe_state().seen[(seq - 1) % 256 / 64] & bit) != 0;
            // The bits' meaning turns over with every window.
            CHECK(set == ((seq - 1) / 256 % 2 == 0));
            CHECK(sw.dedupe_state().seen[ASK_WINDOW - 1] == seq);
        }
        sw.expect_drop("stale: just left the window", one_tuple(sw, 512), ASK_CNT_drop_stale);
        sw.expect_ack("the oldest of the window", one_tuple(sw, 513), ASK_CNT_ack_seen);
        sw.expect_region(0, {{0, "k", 768}});
    }
}

TEST_CASE("compact: reordered within the window") {
    for (const Way& way : kCompact) {
        Switch& sw = Switch::get(way);
        sw.add_default();
        sw.expect_ack("the window's last first", one_tuple(sw, 256), ASK_CNT_ack_new);
        for (std::uint64_t seq = 255; seq >= 1; --seq) {
            sw.expect_ack("new", one_tuple(sw, seq), ASK_CNT_ack_new);
        }
        sw.expect_ack("seen", one_tuple(sw, 1), ASK_CNT_ack_seen);
        CHECK(sw.dedupe_state().seen[ASK_WINDOW - 1] == 256);
        sw.expect_ack("next window", one_tuple(sw, 257), ASK_CNT_ack_new);
        sw.expect_drop("stale", one_tuple(sw, 1), ASK_CNT_drop_stale);
        sw.expect_ack("still in the window", one_tuple(sw, 2), ASK_CNT_ack_seen);
    }
}

TEST_CASE("compact, as the design warns: a seq left out makes the one a window later look seen") {
    for (const Way& way : kCompact) {
        Switch& sw = Switch::get(way);
        sw.add_default();
        for (std::uint64_t seq = 1; seq <= 256; ++seq) {
            if (seq != 9) {
                sw.expect_ack("new", one_tuple(sw, seq), ASK_CNT_ack_new);
            }
        }
        sw.expect_drop("taken for seen, with nothing in PktState", one_tuple(sw, 9 + 256),
                       ASK_CNT_drop_in_flight);
    }
}

TEST_CASE("LONG is deduped and forwarded as it is, new and seen") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default();
        std::uint64_t seq = 0;
        for (const unsigned words : {1U, 2U, 31U, 32U, 33U, 64U, 100U, 428U}) {
            const Packet packet = long_packet(sw, ++seq, words);
            const State before = sw.state();
            sw.expect_routed("new, words: " + std::to_string(words), packet, ASK_CNT_long_new);
            CHECK((sw.state().dedupe != before.dedupe));
            CHECK((sw.state().pkt_state == before.pkt_state));
            CHECK((sw.state().regions == before.regions));
            CHECK(sw.stats().long_packets == seq);
            const State after = sw.state();
            sw.expect_routed("seen", packet, ASK_CNT_long_seen);
            CHECK((sw.state() == after));
        }
        sw.expect_ack("DATA after it", one_tuple(sw, ++seq), ASK_CNT_ack_new);
    }
}

TEST_CASE("FIN is deduped and forwarded as it is, new and seen") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default();
        const State before = sw.state();
        sw.expect_routed("new", fin_packet(sw, 1), ASK_CNT_fin_new);
        const State after = sw.state();
        CHECK((after.dedupe != before.dedupe));
        CHECK((after.pkt_state == before.pkt_state));
        CHECK((after.flow_stats == before.flow_stats));
        sw.expect_routed("seen", fin_packet(sw, 1), ASK_CNT_fin_seen);
        CHECK((sw.state() == after));
    }
}

TEST_CASE("LONG and FIN of a task without a region are forwarded all the same") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default({.copies = 0});
        sw.expect_routed("LONG", long_packet(sw, 1), ASK_CNT_long_new);
        sw.expect_routed("FIN", fin_packet(sw, 2), ASK_CNT_fin_new);
    }
}

TEST_CASE("a stale LONG or FIN is dropped") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default();
        for (std::uint64_t seq = 1; seq <= 258; ++seq) {
            sw.expect_ack("new", one_tuple(sw, seq), ASK_CNT_ack_new);
        }
        sw.expect_drop("LONG", long_packet(sw, 1), ASK_CNT_drop_stale);
        sw.expect_drop("FIN", fin_packet(sw, 2), ASK_CNT_drop_stale);
    }
}

TEST_CASE("a LONG packet's place in PktState is left to the packet that was there before") {
    for (const Way& way : kTagged) {
        Switch& sw = Switch::get(way);
        sw.add_default();
        sw.expect_ack("DATA", one_tuple(sw, 3), ASK_CNT_ack_new);
        sw.expect_routed("LONG in the same place", long_packet(sw, 3 + 256), ASK_CNT_long_new);
        CHECK(sw.pkt_state().row[3][0] == 3ULL << 32);
        sw.expect_drop("the DATA packet is stale now", one_tuple(sw, 3), ASK_CNT_drop_stale);
        sw.expect_ack("DATA a window later", one_tuple(sw, 3 + 512), ASK_CNT_ack_new);
    }
}
