// SPDX-License-Identifier: Apache-2.0
//
// The policy of replacing: who takes whose aggregator, what travels on in the packet, and that a
// retransmission leaves as the packet did (bpf/tuples/replace.bpf.h, bpf/tuples/carried.bpf.h).
#include <limits>
#include <span>

#include <bpf/bpf.h>
#include <doctest/doctest.h>

#include "lib/engine/packet.h"
#include "tests/bpf/switch/harness.h"

using namespace ask;
using namespace ask::test;

namespace {

constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min();
constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
constexpr TaskSpec kOnePlace{.aggregators = 1, .policy = ASK_POLICY_REPLACE};

// The packet leaves for the receiver as `out`, less the slots that are not in `bitmaps`.
void expect_out(Switch& sw, const std::string& description, const Packet& packet, const Packet& out,
                ask_counter counter, const std::vector<std::uint32_t>& bitmaps) {
    sw.expect(description, packet.frame(), XDP_REDIRECT, counter,
              out.left(kMarkSwitch, kMarkIncarnation, bitmaps).routed(kOutMac, kReceiverMac).frame());
}

// Gives slots 0 and 16 owners that one collision each makes cold: seqs 1 and 2.
void cool_owners(Switch& sw, std::int32_t first = 10, std::int32_t second = 20) {
    sw.expect_ack("owners", sw.packet().seq(1).put(0, 0, "own", first).put(0, 16, "ownowner", second),
                  ASK_CNT_ack_new);
    sw.expect_left("first rivals", sw.packet().seq(2).put(0, 0, "one", 1).put(0, 16, "onerival", 1),
                   ASK_CNT_fwd_new, {1U << 0 | 1U << 16});
}

bool replaces_mediums(const Way& way) {
    return way.memory == ASK_MEMORY_PIPELINES;
}

}  // namespace

TEST_CASE("heat: 1 when taken, 15 by a hit in one row of four, 1 less for a collision") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default(kOnePlace);
        std::uint64_t seq = 0;
        for (const unsigned heat : {1U, 1U, 1U, 15U, 15U, 15U}) {
            sw.expect_ack("hit", sw.packet().seq(++seq).put(0, 0, "own", 1), ASK_CNT_ack_new);
            CHECK(sw.heat(0, 0, "own") == heat);
        }
        for (unsigned heat = 15; heat-- > 0;) {
            sw.expect_left("collision", sw.packet().seq(++seq).put(0, 0, "x", 1), ASK_CNT_fwd_new, {1});
            CHECK(sw.heat(0, 0, "own") == heat);
        }
        sw.expect_region(0, {{0, "own", 6}});
        const Packet rival = sw.packet().seq(++seq).put(0, 0, "x", 7);
        expect_out(sw, "the place changes hands", rival, Packet(rival).put(0, 0, "own", 6), ASK_CNT_fwd_new,
                   {1});
        sw.expect_region(0, {{0, "x", 7}});
        CHECK(sw.heat(0, 0, "x") == 1);
        CHECK(sw.stats().tuples_evicted == 1);
        CHECK(sw.stats().tuples_collision == 15);
        CHECK(sw.stats().tuples_aggregated == 7);
    }
}

TEST_CASE("of the rows of a packet and of the packets one after another, one in four heats") {
    for (const Way& way : kWays) {
        for (std::uint64_t seq = 4; seq < 12; ++seq) {
            for (unsigned row = 0; row < 4; ++row) {
                Switch& sw = Switch::get(way);
                sw.add_default(kOnePlace);
                sw.expect_ack("owners", sw.packet().seq(1).put(0, 0, "own", 1).put(0, 16, "ownowner", 1),
                              ASK_CNT_ack_new);
                sw.expect_ack("hits", sw.packet().seq(seq).put(row, 0, "own", 1).put(row, 16, "ownowner", 1),
                              ASK_CNT_ack_new);
                const unsigned heat = (seq + row) % 4 == 0 ? 15 : 1;
                CHECK(sw.heat(0, 0, "own") == heat);
                CHECK(sw.heat(0, 16, "ownowner") == (replaces_mediums(way) ? heat : 0));
            }
        }
    }
}

TEST_CASE("a cold aggregator is taken; the evicted tuple leaves in its slot") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default(kOnePlace);
        cool_owners(sw, -7, kMost);
        Packet packet = sw.packet().seq(3).put(0, 0, "new", 3).put(0, 16, "newowner", -4);
        packet.put(2, 1, "k", 5);
        packet.tos = 0x02;
        Packet out = packet;
        out.put(0, 0, "own", -7);
        if (replaces_mediums(way)) {
            out.put(0, 16, "ownowner", kMost);
        }
        expect_out(sw, "short and medium", packet, out, ASK_CNT_fwd_new, {1U << 0 | 1U << 16, 0, 0});
        const bool medium = replaces_mediums(way);
        sw.expect_region(
            0, {{0, "new", 3}, {1, "k", 5}, {16, medium ? "newowner" : "ownowner", medium ? -4 : kMost}});
        const ask_flow_stats stats = sw.stats();
        CHECK(stats.tuples_evicted == (medium ? 2 : 1));
        CHECK(stats.tuples_aggregated == 2 + 1 + stats.tuples_evicted);
        CHECK(stats.tuples_collision == 2 + (medium ? 0 : 1));
    }
}

TEST_CASE("first come, without the policy: nothing is ever replaced") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default({.aggregators = 1});
        cool_owners(sw);
        const Packet packet = sw.packet().put(0, 0, "new", 3).put(0, 16, "newowner", -4);
        for (std::uint64_t seq = 3; seq < 40; ++seq) {
            sw.expect_left("collision", Packet(packet).seq(seq), ASK_CNT_fwd_new, {1U << 0 | 1U << 16});
        }
        sw.expect_region(0, {{0, "own", 10}, {16, "ownowner", 20}});
        CHECK(sw.stats().tuples_evicted == 0);
    }
}

TEST_CASE("a retransmission has the sender's tuple and leaves with the evicted one, whatever changed since") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default(kOnePlace);
        cool_owners(sw);
        Packet packet = sw.packet().seq(3).row_count(4).put(1, 0, "new", 3).put(1, 16, "newowner", 4);
        packet.put(1, 5, "k", 5).put(3, 0, "y", 1).put(3, 16, "yetother", 1);
        Packet out = packet;
        out.put(1, 0, "own", 10);
        if (replaces_mediums(way)) {
            out.put(1, 16, "ownowner", 20);
        }
        const std::vector<std::uint32_t> left{0, 1U << 0 | 1U << 16, 0, 1U << 0 | 1U << 16};
        expect_out(sw, "new", packet, out, ASK_CNT_fwd_new, left);
        CHECK(sw.stats().tuples_evicted == (replaces_mediums(way) ? 2 : 1));
        for (unsigned i = 0; i < 3; ++i) {
            const State before = sw.state();
            const std::uint64_t evicted = sw.stats().tuples_evicted;
            packet.tos = static_cast<std::uint8_t>(i);
            out.tos = packet.tos;
            expect_out(sw, "seen", packet, out, ASK_CNT_fwd_seen, left);
            const State after = sw.state();
            CHECK((after.regions == before.regions));
            CHECK((after.heats == before.heats));
            CHECK((after.carried == before.carried));
            CHECK((after.pkt_state == before.pkt_state));
            CHECK(sw.stats().tuples_evicted == evicted);
            // Others take the places meanwhile, and the region is even blanked.
            sw.run(sw.packet().seq(4 + i).put(0, 0, "z", 1).put(0, 16, "zzzzzzzz", 1).frame());
            if (i == 1) {
                sw.set_region(0, std::vector<ask_aggregator>(sw.region(0).size()));
            }
        }
    }
}

TEST_CASE("what leaves with evicted tuples verifies under the core, new and seen") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default(kOnePlace);
        cool_owners(sw);
        Packet packet = sw.packet().seq(3).row_count(3).put(0, 0, "new", 3).put(0, 16, "newowner", 4);
        packet.put(2, 7, "fits", 1);
        const CheckKey key(packet.secret);
        for (unsigned i = 0; i < 2; ++i) {
            const Bytes frame = sw.run(packet.frame()).frame;
            CHECK(key.verify(std::as_bytes(std::span(frame)).subspan(42),
                             {.source = packet.source_port, .dest = ASK_UDP_PORT}));
        }
    }
}

TEST_CASE("one key evicts another and is evicted within a packet, row by row") {
    Switch& sw = Switch::get({});
    sw.add_default(kOnePlace);
    Packet packet = sw.packet().seq(1);
    // a takes it, b cools it, c replaces a, d cools c.
    packet.put(0, 2, "a", 1).put(1, 2, "b", 2).put(2, 2, "c", 3).put(3, 2, "d", 4);
    expect_out(sw, "new", packet, Packet(packet).put(2, 2, "a", 1), ASK_CNT_fwd_new, {0, 4, 4, 4});
    expect_out(sw, "seen", packet, Packet(packet).put(2, 2, "a", 1), ASK_CNT_fwd_seen, {0, 4, 4, 4});
    sw.expect_region(0, {{2, "c", 3}});
}

TEST_CASE("a packet still on its way through is not sent on half restored") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default(kOnePlace);
        cool_owners(sw);
        const Packet packet = sw.packet().seq(3).put(0, 0, "new", 3).put(1, 5, "k", 1).put(2, 0, "z", 1);
        const Packet out = Packet(packet).put(0, 0, "own", 10);
        expect_out(sw, "new", packet, out, ASK_CNT_fwd_new, {1, 0, 1});
        const ask_pkt_state done = sw.pkt_state();
        for (unsigned row = 0; row < 3; ++row) {
            ask_pkt_state state = done;
            state.row[3][row] = 0;
            sw.set_pkt_state(0, state);
            sw.expect_drop("PktState without row " + std::to_string(row), packet, ASK_CNT_drop_in_flight);
        }
        sw.set_pkt_state(0, done);
        const std::uint32_t head = ask_carried_head(4, 3, 0);
        const std::uint64_t word = sw.carried(0)[head];
        CHECK(word == (std::uint64_t{3} << 32 | 1));
        sw.set_carried(0, head, word + (std::uint64_t{ASK_WINDOW} << 32));
        sw.expect_drop("the head is the next packet's", packet, ASK_CNT_drop_in_flight);
        sw.set_carried(0, head, word);
        expect_out(sw, "all there again", packet, out, ASK_CNT_fwd_seen, {1, 0, 1});
    }
}

TEST_CASE("a place of the window serves the next packet, which carries something else or nothing") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default(kOnePlace);
        cool_owners(sw);
        const Packet first = sw.packet().seq(3).put(0, 0, "new", 3);
        expect_out(sw, "first", first, Packet(first).put(0, 0, "own", 10), ASK_CNT_fwd_new, {1});
        sw.run(sw.packet().seq(4).put(0, 0, "x", 1).frame());
        const Packet second = sw.packet().seq(3 + ASK_WINDOW).put(0, 0, "two", 2).put(0, 1, "k", 1);
        const Packet out = Packet(second).put(0, 0, "new", 3);
        expect_out(sw, "a window later", second, out, ASK_CNT_fwd_new, {1});
        expect_out(sw, "seen", second, out, ASK_CNT_fwd_seen, {1});
        const Packet third = sw.packet().seq(3 + 2 * ASK_WINDOW).put(0, 0, "own", 3);
        sw.expect_left("two windows later, nothing replaced", third, ASK_CNT_fwd_new, {1});
        sw.expect_left("seen", third, ASK_CNT_fwd_seen, {1});
        sw.expect_region(0, {{0, "two", 2}, {1, "k", 1}, {16, "ownowner", 20}});
    }
}

TEST_CASE("a sum that would leave int32 stays in the packet, and its key stays hot") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default(kOnePlace);
        cool_owners(sw, kMost, kLeast);
        sw.expect_left("overflow", sw.packet().seq(4).put(0, 0, "own", 1).put(0, 16, "ownowner", -1),
                       ASK_CNT_fwd_new, {1U << 0 | 1U << 16});
        CHECK(sw.heat(0, 0, "own") == 15);
        CHECK(sw.stats().tuples_overflow == 2);
        CHECK(sw.stats().tuples_evicted == 0);
        sw.expect_region(0, {{0, "own", kMost}, {16, "ownowner", kLeast}});
    }
}

TEST_CASE("MIN and MAX: what is evicted is the least or the most so far") {
    for (const Way& way : kWays) {
        for (const bool least : {true, false}) {
            Switch& sw = Switch::get(way);
            TaskSpec spec = kOnePlace;
            spec.op = static_cast<std::uint8_t>(least ? ASK_OP_MIN : ASK_OP_MAX);
            sw.add_default(spec);
            sw.expect_ack("two values", sw.packet().seq(1).put(0, 0, "own", 5).put(1, 0, "own", -6),
                          ASK_CNT_ack_new);
            std::uint64_t seq = 1;
            while (sw.heat(0, 0, "own") > 0) {
                sw.run(sw.packet().seq(++seq).put(0, 0, "x", 1).frame());
            }
            const Packet packet = sw.packet().seq(++seq).put(0, 0, "new", 0);
            expect_out(sw, least ? "MIN" : "MAX", packet, Packet(packet).put(0, 0, "own", least ? -6 : 5),
                       ASK_CNT_fwd_new, {1});
            sw.expect_region(0, {{0, "new", 0}});
        }
    }
}

TEST_CASE("groups of 1 to 4 words are replaced whole, whichever word differs") {
    for (const unsigned m : {1U, 2U, 3U, 4U}) {
        for (unsigned word = 0; word < m; ++word) {
            Switch& sw = Switch::get({});
            sw.add_default({.short_slots = 2,
                            .groups = 2,
                            .m = static_cast<std::uint8_t>(m),
                            .rows = 1,
                            .aggregators = 1,
                            .policy = ASK_POLICY_REPLACE});
            const std::string own = std::string("aaaabbbbccccdddd").substr(0, std::size_t{4} * m);
            std::string other = own;
            other[std::size_t{4} * word] = 'x';
            sw.expect_ack("owner", sw.packet().seq(1).put(0, 3, own, 1), ASK_CNT_ack_new);
            sw.expect_left("cools", sw.packet().seq(2).put(0, 3, other, 2), ASK_CNT_fwd_new, {1U << 3});
            const Packet packet = sw.packet().seq(3).put(0, 3, other, 3);
            const Packet out = Packet(packet).put(0, 3, own, 1);
            expect_out(sw, "new", packet, out, ASK_CNT_fwd_new, {1U << 3});
            expect_out(sw, "seen", packet, out, ASK_CNT_fwd_seen, {1U << 3});
            sw.expect_region(0, {{3, other, 3}});
        }
    }
}

TEST_CASE("values in the leading words of a key that takes a place are not kept") {
    Switch& sw = Switch::get({});
    sw.add_default(kOnePlace);
    cool_owners(sw);
    const Packet packet = sw.packet().seq(3).put_raw(0, 16, encode_key("newowner", 2), 4, 0x7fffffff);
    expect_out(sw, "new", packet, Packet(packet).put(0, 16, "ownowner", 20), ASK_CNT_fwd_new, {1U << 16});
    sw.expect_region(0, {{0, "own", 10}, {16, "newowner", 4}});
}

TEST_CASE("a blank key takes no place, and one half reserved is not evicted") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default(kOnePlace);
        cool_owners(sw);
        const Bytes half{'n', 'e', 'w', 'o', 0, 0, 0, 0};
        for (std::uint64_t seq = 3; seq < 6; ++seq) {
            const Packet packet = sw.packet()
                                      .seq(seq)
                                      .put_raw(0, 0, Bytes(4), 5)
                                      .put_raw(0, 16, half, 5)
                                      .put_raw(0, 17, half, 5);
            sw.expect_left("blank, half blank", packet, ASK_CNT_fwd_new, {1U << 0 | 1U << 16 | 1U << 17});
            sw.expect_left("seen", packet, ASK_CNT_fwd_seen, {1U << 0 | 1U << 16 | 1U << 17});
        }
        // The last one reserved the leading word of a blank group: another key does not evict nothing.
        for (std::uint64_t seq = 6; seq < 9; ++seq) {
            sw.expect_left("rival", sw.packet().seq(seq).put(0, 17, "xewother", 1), ASK_CNT_fwd_new,
                           {1U << 17});
        }
        CHECK(sw.stats().tuples_evicted == 0);
    }
}

TEST_CASE("heats belong to a set and place, whichever copy is in use") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default({.aggregators = 1, .copies = 2, .policy = ASK_POLICY_REPLACE});
        cool_owners(sw);
        sw.set_copy(0, 1);
        sw.expect_ack("the other copy is blank", sw.packet().seq(3).put(0, 0, "one", 1), ASK_CNT_ack_new);
        CHECK(sw.heat(0, 0, "one") == 1);
        sw.expect_left("cools", sw.packet().seq(4).put(0, 0, "own", 1), ASK_CNT_fwd_new, {1});
        const Packet packet = sw.packet().seq(5).put(0, 0, "own", 2);
        expect_out(sw, "takes the place in this copy", packet, Packet(packet).put(0, 0, "one", 1),
                   ASK_CNT_fwd_new, {1});
        const std::vector<ask_aggregator> words = sw.region(0);
        CHECK(words[sw.place(0, 0, "own", 0)].vpart == 10);
        CHECK(words[sw.place(0, 0, "own", 1)].vpart == 2);
    }
}

TEST_CASE("tasks with and without the policy share a channel") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_channel(0);
        sw.add_task(0, kOnePlace);
        sw.add_task(1, {.instance = 99, .aggregators = 1});
        sw.add_flow(0, 0, 0);
        sw.add_flow(1, 0, 1);
        sw.expect_ack("replacing", sw.packet(0).seq(1).put(0, 0, "own", 1), ASK_CNT_ack_new);
        sw.expect_ack("first come", sw.packet(1).seq(2).put(0, 0, "own", 2), ASK_CNT_ack_new);
        for (std::uint64_t seq = 3; seq < 9; seq += 2) {
            sw.run(sw.packet(0).seq(seq).put(0, 0, "x", 1).frame());
            sw.expect_left("first come", sw.packet(1).seq(seq + 1).put(0, 0, "x", 1), ASK_CNT_fwd_new, {1});
        }
        CHECK(sw.stats(0).tuples_evicted == 1);
        CHECK(sw.stats(1).tuples_evicted == 0);
        sw.expect_region(1, {{0, "own", 2}});
    }
}

TEST_CASE("a flow without room for evicted tuples is an error, and never acknowledged") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default(kOnePlace);
        const std::uint32_t flow = 0;
        REQUIRE(bpf_map_delete_elem(sw.map("carried"), &flow) == 0);
        const Packet packet = sw.packet().put(0, 0, "k", 1);
        CHECK(sw.run(packet.frame()).action == XDP_ABORTED);
        CHECK(sw.run(packet.frame()).action == XDP_DROP);
        sw.add_flow(0, 0, 0);
    }
}
