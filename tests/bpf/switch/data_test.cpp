// SPDX-License-Identifier: Apache-2.0
//
// DATA: what is aggregated, what is left, and what the switch answers (design section 5, steps 3 to 5).
#include <algorithm>
#include <limits>
#include <span>

#include <doctest/doctest.h>

#include "lib/abi/hash.h"
#include "lib/engine/packet.h"
#include "tests/bpf/switch/harness.h"

using namespace ask;
using namespace ask::test;

namespace {

constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min();
constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();

std::span<const std::byte> as_bytes_of(const Bytes& bytes) {
    return std::as_bytes(std::span(bytes));
}

std::uint64_t state_word(std::uint64_t seq, std::uint32_t left) {
    return seq << 32 | left;
}

}  // namespace

TEST_CASE("a new packet whose tuples are all aggregated becomes its ACK") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default();
        Packet packet = sw.packet();
        packet.put(0, 0, "the", 5).put(0, 15, "a", -3).put(0, 16, "whole", 7).put(0, 23, "eightlet", 9);
        packet.id = 0xbeef;
        packet.udp_checksum = 0x5555;
        sw.expect_ack("two short, two medium", packet, ASK_CNT_ack_new);
        sw.expect_region(0, {{0, "the", 5}, {15, "a", -3}, {16, "whole", 7}, {23, "eightlet", 9}});
        CHECK(sw.pkt_state().row[1][0] == state_word(1, 0));
        const ask_flow_stats stats = sw.stats();
        CHECK(stats.packets_new == 1);
        CHECK(stats.packets_acked == 1);
        CHECK(stats.packets_forwarded == 0);
        CHECK(stats.tuples_aggregated == 4);
    }
}

TEST_CASE("the ACK is what the core takes for one") {
    Switch& sw = Switch::get({});
    sw.add_default();
    Packet packet = sw.packet().put(0, 3, "key", 1).with([](Packet& p) { p.tos = 0x03; });
    const Bytes ack = sw.run(packet.frame()).frame;
    REQUIRE(ack.size() == 90);
    const Bytes payload(ack.begin() + 42, ack.end());
    const auto view = parse_packet(as_bytes_of(payload));
    REQUIRE(view.has_value());
    CHECK(view->header.type == ASK_ACK);
    CHECK(view->header.flags == ASK_F_ECE);
    CHECK(view->header.seq == packet.seq_field);
    CHECK(view->header.instance == packet.task);
    CHECK(view->header.mark == Mark{.switch_id = kMarkSwitch, .incarnation = kMarkIncarnation});
    const CheckKey key(packet.secret);
    CHECK(key.verify(as_bytes_of(payload), {.source = ASK_UDP_PORT, .dest = packet.source_port}));
    // Byte for byte what the core would have written.
    std::vector<std::byte> own(sizeof(ask_hdr));
    const auto original = parse_packet(as_bytes_of(packet.payload()));
    REQUIRE(original.has_value());
    write_ack(own, original->header, {.source = packet.source_port, .dest = ASK_UDP_PORT}, view->header.mark,
              true, key);
    CHECK(std::equal(own.begin(), own.end(), as_bytes_of(payload).begin()));
}

TEST_CASE("the ACK echoes congestion, and only that") {
    Switch& sw = Switch::get({});
    sw.add_default();
    for (unsigned tos = 0; tos < 256; ++tos) {
        Packet packet = sw.packet().seq(tos + 1).put(0, 0, "k", 1);
        packet.tos = static_cast<std::uint8_t>(tos);
        sw.expect_ack("type of service " + std::to_string(tos), packet, ASK_CNT_ack_new);
    }
}

TEST_CASE("what collides is left, marked and forwarded") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default({.aggregators = 1});
        sw.expect_ack("first keys", sw.packet().seq(1).put(0, 0, "one", 1).put(0, 16, "mediumA", 2),
                      ASK_CNT_ack_new);
        Packet packet =
            sw.packet().seq(2).put(0, 0, "two", 10).put(0, 1, "new", 20).put(0, 16, "mediumB", 30);
        packet.tos = 0x02;
        packet.udp_checksum = 0x1234;
        sw.expect_left("two of three collide", packet, ASK_CNT_fwd_new, {1U << 0 | 1U << 16});
        sw.expect_region(0, {{0, "one", 1}, {1, "new", 20}, {16, "mediumA", 2}});
        CHECK(sw.pkt_state().row[2][0] == state_word(2, 1U << 0 | 1U << 16));
        const ask_flow_stats stats = sw.stats();
        CHECK(stats.tuples_collision == 2);
        CHECK(stats.tuples_aggregated == 3);
        CHECK(stats.packets_forwarded == 1);
    }
}

TEST_CASE("a packet of which nothing is aggregated goes on whole, but marked") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default({.aggregators = 1});
        sw.expect_ack("owner", sw.packet().seq(1).put(0, 5, "own", 1), ASK_CNT_ack_new);
        sw.expect_left("other", sw.packet().seq(2).put(0, 5, "oth", 1), ASK_CNT_fwd_new, {1U << 5});
        sw.expect_region(0, {{5, "own", 1}});
    }
}

TEST_CASE("what the switch forwards verifies under the core") {
    Switch& sw = Switch::get({});
    sw.add_default({.aggregators = 1});
    sw.run(sw.packet().seq(1).put(0, 0, "one", 1).put(2, 1, "two", 1).frame());
    Packet packet = sw.packet().seq(2);
    packet.put(0, 0, "zzz", 4).put(1, 1, "two", 5).put(2, 1, "two", 6).put(3, 20, "medium", 7);
    const Bytes frame = sw.run(packet.frame()).frame;
    const Bytes payload(frame.begin() + 42, frame.end());
    const auto view = parse_packet(as_bytes_of(payload));
    REQUIRE(view.has_value());
    CHECK(view->bitmap[0] == 1);
    CHECK(view->bitmap[3] == 0);
    CHECK(view->body.size() == 256);
    const CheckKey key(packet.secret);
    CHECK(key.verify(as_bytes_of(payload), {.source = packet.source_port, .dest = ASK_UDP_PORT}));
}

TEST_CASE("sums accumulate, over rows and packets") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default();
        Packet first = sw.packet().seq(1);
        first.put(0, 2, "k", 1).put(1, 2, "k", 2).put(2, 2, "k", 3).put(3, 17, "medium", 100);
        sw.expect_ack("one key in three rows of a packet", first, ASK_CNT_ack_new);
        sw.expect_region(0, {{2, "k", 6}, {17, "medium", 100}});
        sw.expect_ack("again", sw.packet().seq(2).put(0, 2, "k", -10).put(1, 17, "medium", -1),
                      ASK_CNT_ack_new);
        sw.expect_region(0, {{2, "k", -4}, {17, "medium", 99}});
    }
}

TEST_CASE("a value of 0 is a value, and a held 0 keeps its key") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default({.aggregators = 1});
        sw.expect_ack("zeros", sw.packet().seq(1).put(0, 0, "z", 0).put(0, 16, "zerozero", 0),
                      ASK_CNT_ack_new);
        sw.expect_region(0, {{0, "z", 0}, {16, "zerozero", 0}});
        sw.expect_left("another key does not take its place",
                       sw.packet().seq(2).put(0, 0, "y", 1).put(0, 16, "yerozero", 1), ASK_CNT_fwd_new,
                       {1U << 0 | 1U << 16});
        sw.expect_region(0, {{0, "z", 0}, {16, "zerozero", 0}});
    }
}

TEST_CASE("every row of 1 to 8 is aggregated, in its own place of PktState") {
    for (const Way& way : kWays) {
        for (unsigned rows = 1; rows <= 8; ++rows) {
            Switch& sw = Switch::get(way);
            const TaskSpec spec{.short_slots = 8, .groups = 4, .m = 2, .rows = 8, .aggregators = 16};
            sw.add_default(spec);
            Packet packet = sw.packet().seq(200);
            for (unsigned row = 0; row < rows; ++row) {
                packet.put(row, row, "r" + std::to_string(row), static_cast<std::int32_t>(row));
            }
            sw.expect_ack(std::to_string(rows) + " rows", packet, ASK_CNT_ack_new);
            std::vector<Held> held;
            for (unsigned row = 0; row < rows; ++row) {
                held.push_back({row, "r" + std::to_string(row), static_cast<std::int32_t>(row)});
            }
            sw.expect_region(0, held);
            const ask_pkt_state state = sw.pkt_state();
            for (unsigned row = 0; row < 8; ++row) {
                CHECK(state.row[200][row] == (row < rows ? state_word(200, 0) : 0));
            }
        }
    }
}

TEST_CASE("what is left moves up into the first rows, each tuple in its slot; new and seen") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default({.aggregators = 1});
        sw.expect_ack(
            "owners",
            sw.packet().seq(1).put(0, 0, "own", 1).put(0, 16, "ownmedi", 1).put(0, 23, "ownlast", 1),
            ASK_CNT_ack_new);
        Packet packet = sw.packet().seq(2);
        packet.put(0, 1, "fit", 1).put(1, 0, "one", 2).put(1, 16, "onemedi", 3).put(2, 0, "two", 4);
        packet.put(2, 1, "fit", 5).put(3, 0, "tri", 6).put(3, 23, "trilast", 7);
        // As it leaves: what was aggregated is still there where nothing came in its place.
        Packet out = packet;
        out.put(0, 0, "one", 2).put(0, 16, "onemedi", 3).put(0, 23, "trilast", 7);
        out.put(1, 0, "two", 4).put(2, 0, "tri", 6);
        out.rows.resize(3);
        out.bitmaps = {1U << 0 | 1U << 16 | 1U << 23, 1, 1, 0};
        out.mark_switch = kMarkSwitch;
        out.mark_incarnation = kMarkIncarnation;
        const Bytes frame = out.routed(kOutMac, kReceiverMac).frame();
        sw.expect("new", packet.frame(), XDP_REDIRECT, ASK_CNT_fwd_new, frame);
        sw.expect("seen", packet.frame(), XDP_REDIRECT, ASK_CNT_fwd_seen, frame);
        // PktState has it by the sender's rows.
        const ask_pkt_state state = sw.pkt_state();
        CHECK(state.row[2][0] == state_word(2, 0));
        CHECK(state.row[2][1] == state_word(2, 1U << 0 | 1U << 16));
        CHECK(state.row[2][2] == state_word(2, 1));
        CHECK(state.row[2][3] == state_word(2, 1U << 0 | 1U << 23));
    }
}

TEST_CASE("rows that are empty in the end are cut, their bitmaps stay") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default({.aggregators = 1});
        sw.expect_ack("owner", sw.packet().seq(1).put(0, 0, "own", 1), ASK_CNT_ack_new);
        for (unsigned last = 0; last < 4; ++last) {
            Packet packet = sw.packet().seq(2 + last);
            std::vector<std::uint32_t> left(4);
            for (unsigned row = 0; row < 4; ++row) {
                packet.put(row, 1, "fit", 1);
            }
            packet.put(last, 0, "other", 1);
            left[last] = 1;
            sw.expect_left("left in row " + std::to_string(last), packet, ASK_CNT_fwd_new, left);
        }
        Packet packet = sw.packet().seq(10).row_count(4).put(0, 0, "other", 1).put(3, 2, "fit", 1);
        packet.put(2, 0, "other", 2);
        sw.expect_left("of first and third row", packet, ASK_CNT_fwd_new, {1, 0, 1, 0});
        // An Ethernet trailer (padding) goes with what is cut.
        packet.seq(11).trailer = Bytes(7, 0xee);
        sw.expect_left("a trailer", packet, ASK_CNT_fwd_new, {1, 0, 1, 0});
        packet = sw.packet().seq(12).put(0, 1, "fit", 1);
        packet.trailer = Bytes(30, 0xee);
        sw.expect_ack("a trailer behind what is acknowledged", packet, ASK_CNT_ack_new);
    }
}

TEST_CASE("a packet with no tuples is acknowledged: an abandoned seq") {
    Switch& sw = Switch::get({});
    sw.add_default();
    sw.expect_ack("one empty row", sw.packet().seq(5).row_count(1), ASK_CNT_ack_new);
    sw.expect_region(0, {});
    CHECK(sw.pkt_state().row[5][0] == state_word(5, 0));
}

TEST_CASE("a sum that would leave int32 is left to the receiver, whole extremes are not") {
    struct Step {
        std::int32_t first;
        std::int32_t second;
        bool fits;
    };
    const Step steps[] = {
        {kMost, 0, true},      {kMost, 1, false},       {kMost - 1, 1, true},   {kMost - 1, 2, false},
        {kLeast, 0, true},     {kLeast, -1, false},     {kLeast + 1, -1, true}, {kLeast + 1, -2, false},
        {kMost, kMost, false}, {kLeast, kLeast, false}, {kMost, kLeast, true},  {kLeast, kMost, true},
        {kMost, -1, true},     {-1, kLeast, false},     {0, kLeast, true},      {1, kMost, false}};
    for (const Way& way : kWays) {
        for (const Step& step : steps) {
            Switch& sw = Switch::get(way);
            sw.add_default();
            const auto text = std::to_string(step.first) + " + " + std::to_string(step.second);
            sw.expect_ack(text + ": first",
                          sw.packet().seq(1).put(0, 4, "s", step.first).put(0, 18, "medium", step.first),
                          ASK_CNT_ack_new);
            const Packet next =
                sw.packet().seq(2).put(0, 4, "s", step.second).put(0, 18, "medium", step.second);
            const std::int64_t sum = std::int64_t{step.first} + step.second;
            if (step.fits) {
                sw.expect_ack(text, next, ASK_CNT_ack_new);
                sw.expect_region(0, {{4, "s", static_cast<std::int32_t>(sum)},
                                     {18, "medium", static_cast<std::int32_t>(sum)}});
            } else {
                sw.expect_left(text, next, ASK_CNT_fwd_new, {1U << 4 | 1U << 18});
                sw.expect_region(0, {{4, "s", step.first}, {18, "medium", step.first}});
                CHECK(sw.stats().tuples_overflow == 2);
                CHECK(sw.stats().tuples_collision == 0);
            }
        }
    }
}

TEST_CASE("MIN and MAX keep the least and the most, extremes included") {
    for (const Way& way : kWays) {
        for (const bool least : {true, false}) {
            Switch& sw = Switch::get(way);
            sw.add_default({.op = static_cast<std::uint8_t>(least ? ASK_OP_MIN : ASK_OP_MAX)});
            std::uint64_t seq = 0;
            std::int32_t kept = 0;
            for (const std::int32_t value : {5, -5, 7, 0, kMost, -6, kLeast, kMost, 1}) {
                kept = seq == 0 ? value : (least ? std::min(kept, value) : std::max(kept, value));
                sw.expect_ack(std::to_string(value),
                              sw.packet().seq(++seq).put(0, 0, "k", value).put(0, 16, "medium", value),
                              ASK_CNT_ack_new);
                sw.expect_region(0, {{0, "k", kept}, {16, "medium", kept}});
            }
        }
    }
}

TEST_CASE("medium keys that share a prefix or pad a whole word are different keys") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default({.aggregators = 1});
        sw.expect_ack("first", sw.packet().seq(1).put(0, 16, "prefaaaa", 1), ASK_CNT_ack_new);
        sw.expect_left("same leading word", sw.packet().seq(2).put(0, 16, "prefbbbb", 1), ASK_CNT_fwd_new,
                       {1U << 16});
        sw.expect_left("same leading word, the rest is padding", sw.packet().seq(3).put(0, 16, "pref", 1),
                       ASK_CNT_fwd_new, {1U << 16});
        sw.expect_region(0, {{16, "prefaaaa", 1}});
        sw.expect_ack("padding in another group", sw.packet().seq(4).put(0, 17, "pref", 4), ASK_CNT_ack_new);
        sw.expect_ack("equal", sw.packet().seq(5).put(0, 17, "pref", 5), ASK_CNT_ack_new);
        sw.expect_left("not padding", sw.packet().seq(6).put(0, 17, "prefx", 5), ASK_CNT_fwd_new, {1U << 17});
        sw.expect_region(0, {{16, "prefaaaa", 1}, {17, "pref", 9}});
    }
}

TEST_CASE("with room, keys that share a prefix live side by side") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default({.aggregators = 4096});
        sw.expect_ack(
            "three of a prefix",
            sw.packet().seq(1).put(0, 16, "prefaaaa", 1).put(1, 16, "prefbbbb", 2).put(2, 16, "pref", 3),
            ASK_CNT_ack_new);
        sw.expect_region(0, {{16, "prefaaaa", 1}, {16, "prefbbbb", 2}, {16, "pref", 3}});
    }
}

TEST_CASE("groups of 1 to 4 words, with and without short slots") {
    const TaskSpec specs[] = {{.short_slots = 16, .groups = 8, .m = 2, .rows = 4},
                              {.short_slots = 4, .groups = 4, .m = 3, .rows = 2},
                              {.short_slots = 2, .groups = 3, .m = 4, .rows = 3},
                              {.short_slots = 0, .groups = 16, .m = 4, .rows = 6},
                              {.short_slots = 0, .groups = 32, .m = 2, .rows = 2},
                              {.short_slots = 0, .groups = 8, .m = 1, .rows = 8},
                              {.short_slots = 32, .groups = 0, .m = 0, .rows = 4},
                              {.short_slots = 1, .groups = 0, .m = 0, .rows = 8},
                              {.short_slots = 7, .groups = 0, .m = 0, .rows = 1},
                              {.short_slots = 30, .groups = 0, .m = 0, .rows = 4},
                              {.short_slots = 29, .groups = 3, .m = 1, .rows = 4},
                              {.short_slots = 16, .groups = 16, .m = 3, .rows = 4},
                              {.short_slots = 0, .groups = 1, .m = 3, .rows = 1}};
    const std::string letters = "abcdefghijklmnop";
    for (const Way& way : kWays) {
        for (TaskSpec spec : specs) {
            spec.aggregators = 8;
            Switch& sw = Switch::get(way);
            sw.add_default(spec);
            Packet packet = sw.packet();
            std::vector<Held> held;
            const unsigned slots = unsigned{spec.short_slots} + spec.groups;
            for (unsigned slot = 0; slot < slots; ++slot) {
                const unsigned most = 4U * (slot < spec.short_slots ? 1 : spec.m);
                const std::string key = letters.substr(slot % 4, 1 + slot % most);
                packet.put(spec.rows - 1U, slot, key, static_cast<std::int32_t>(slot));
                held.push_back({slot, key, static_cast<std::int32_t>(slot)});
            }
            const std::string text = std::to_string(spec.short_slots) + "+" + std::to_string(spec.groups) +
                                     "x" + std::to_string(spec.m) + "*" + std::to_string(spec.rows);
            sw.expect_ack(text + ", every slot of the last row", packet, ASK_CNT_ack_new);
            sw.expect_region(0, held);
            sw.expect_ack(text + ", again", packet.seq(2), ASK_CNT_ack_new);
            for (Held& one : held) {
                one.value *= 2;
            }
            sw.expect_region(0, held);
        }
    }
}

TEST_CASE("a group of 4 that fails at each of its words") {
    for (const Way& way : kWays) {
        const std::string own = "aaaabbbbccccdddd";
        for (unsigned word = 0; word < 4; ++word) {
            Switch& sw = Switch::get(way);
            sw.add_default({.short_slots = 2, .groups = 2, .m = 4, .rows = 1, .aggregators = 1});
            sw.expect_ack("owner", sw.packet().seq(1).put(0, 3, own, 1), ASK_CNT_ack_new);
            std::string other = own;
            other[4 * word] = 'x';
            sw.expect_left("differs in word " + std::to_string(word), sw.packet().seq(2).put(0, 3, other, 1),
                           ASK_CNT_fwd_new, {1U << 3});
            sw.expect_region(0, {{3, own, 1}});
        }
    }
}

TEST_CASE("leading words reserved by a key that never finished are taken by its like, and only by it") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default({.aggregators = 1});
        std::vector<ask_aggregator> words = sw.region(0);
        ask_aggregator& lead = words[sw.place(0, 16, "leadtail")];
        std::copy_n("lead", 4, static_cast<char*>(lead.kpart));
        sw.set_region(0, words);
        sw.expect_left("another leading word", sw.packet().seq(1).put(0, 16, "xeadtail", 1), ASK_CNT_fwd_new,
                       {1U << 16});
        sw.expect_ack("the same leading word, another tail", sw.packet().seq(2).put(0, 16, "leadelse", 2),
                      ASK_CNT_ack_new);
        sw.expect_region(0, {{16, "leadelse", 2}});
    }
}

TEST_CASE("values in leading words are not looked at") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default();
        for (std::uint64_t seq = 1; seq <= 2; ++seq) {
            Packet packet = sw.packet().seq(seq).put_raw(0, 16, encode_key("leadtail", 2), 3, 0x7fffffff);
            sw.expect_ack("a value that would overflow", packet, ASK_CNT_ack_new);
        }
        sw.expect_region(0, {{16, "leadtail", 6}});
    }
}

TEST_CASE("a blank key, which no sender writes, is never aggregated") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default({.aggregators = 1});
        const Bytes blank(4);
        sw.expect_left("into a blank aggregator", sw.packet().seq(1).put_raw(0, 0, blank, 5), ASK_CNT_fwd_new,
                       {1});
        sw.expect_left("medium", sw.packet().seq(2).put_raw(0, 16, Bytes(8), 5), ASK_CNT_fwd_new, {1U << 16});
        sw.expect_region(0, {});
        sw.expect_ack("owner", sw.packet().seq(3).put(0, 0, "own", 1), ASK_CNT_ack_new);
        sw.expect_left("into an owned one", sw.packet().seq(4).put_raw(0, 0, blank, 5), ASK_CNT_fwd_new, {1});
        sw.expect_region(0, {{0, "own", 1}});
    }
}

TEST_CASE("a bit beyond the geometry's slots, which no sender sets, is refused and not acknowledged away") {
    for (const Way& way : kWays) {
        for (unsigned bit = 24; bit < 32; ++bit) {
            Switch& sw = Switch::get(way);
            sw.add_default();
            Packet packet = sw.packet().row_count(2).put(0, 0, "k", 1);
            packet.bitmaps[bit % 2] |= 1U << bit;
            sw.expect_drop("bit " + std::to_string(bit), packet, ASK_CNT_bad_geometry);
        }
    }
}

TEST_CASE("all slots of all rows of the default geometry") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default({.aggregators = 32768});
        Packet packet = sw.packet();
        for (unsigned row = 0; row < 4; ++row) {
            for (unsigned slot = 0; slot < 24; ++slot) {
                packet.put(row, slot, (slot < 16 ? "s" : "medium") + std::to_string(slot), 1);
            }
        }
        sw.expect_ack("96 tuples", packet, ASK_CNT_ack_new);
        std::vector<Held> held;
        for (unsigned slot = 0; slot < 24; ++slot) {
            held.push_back({slot, (slot < 16 ? "s" : "medium") + std::to_string(slot), 4});
        }
        sw.expect_region(0, held);
        CHECK(sw.stats().tuples_aggregated == 96);
    }
}

TEST_CASE("the largest packet: 3478 bytes of payload") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        // 48 + 8 x (4 + 53 x 8) = 3472.
        sw.add_default({.short_slots = 1, .groups = 13, .m = 4, .rows = 8, .aggregators = 1});
        Packet packet = sw.packet();
        for (unsigned row = 0; row < 8; ++row) {
            packet.put(row, 0, "s", 1).put(row, 13, "sixteenletterkey", 1);
        }
        REQUIRE(packet.payload().size() == 3472);
        sw.expect_ack("all aggregated", packet, ASK_CNT_ack_new);
        sw.expect_region(0, {{0, "s", 8}, {13, "sixteenletterkey", 8}});
        sw.expect_ack("another owner", sw.packet().seq(2).put(0, 12, "own", 1), ASK_CNT_ack_new);
        sw.expect_left("something left in the last row", packet.seq(3).put(7, 12, "x", 1), ASK_CNT_fwd_new,
                       {0, 0, 0, 0, 0, 0, 0, 1U << 12});
    }
}

TEST_CASE("a task without a region: nothing is aggregated, nothing is lost") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default({.copies = 0});
        const Packet packet = sw.packet().put(0, 0, "k", 1).put(2, 16, "medium", 1);
        sw.expect_left("new", packet, ASK_CNT_fwd_no_region, packet.bitmaps);
        CHECK(sw.pkt_state().row[1][0] == state_word(1, 1));
        CHECK(sw.pkt_state().row[1][2] == state_word(1, 1U << 16));
        CHECK(sw.stats().tuples_no_region == 2);
        CHECK(sw.stats().tuples_aggregated == 0);
        sw.expect_left("seen", packet, ASK_CNT_fwd_seen, packet.bitmaps);
        CHECK(sw.stats().tuples_no_region == 2);
        CHECK(sw.stats().packets_seen == 1);
    }
}

TEST_CASE("the copy in use is the one that the index names") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default({.copies = 2});
        const auto packet = [&](std::uint64_t seq) {
            return sw.packet().seq(seq).put(0, 0, "k", 1).put(1, 23, "medium", 1);
        };
        sw.expect_ack("copy 0", packet(1), ASK_CNT_ack_new);
        sw.expect_region(0, {{0, "k", 1}, {23, "medium", 1}}, 0);
        sw.set_region(0, std::vector<ask_aggregator>(sw.region(0).size()));
        sw.set_copy(0, 1);
        sw.expect_ack("copy 1", packet(2), ASK_CNT_ack_new);
        sw.expect_ack("copy 1 again", packet(3), ASK_CNT_ack_new);
        sw.expect_region(0, {{0, "k", 2}, {23, "medium", 2}}, 1);
    }
}

TEST_CASE("register sets: of the running CPU, or one for all") {
    const std::vector<unsigned> cpus = allowed_cpus();
    REQUIRE_MESSAGE(cpus.size() >= 2, "needs two CPUs");
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default({.copies = 2, .copy = 1});
        sw.expect_ack("first CPU", sw.packet().seq(1).put(0, 3, "k", 1), ASK_CNT_ack_new);
        sw.expect_region(0, {{3, "k", 1}}, 1);
        const std::size_t first = sw.place(0, 3, "k", 1);
        run_on(cpus[1]);
        sw.expect_ack("second CPU", sw.packet().seq(2).put(0, 3, "k", 10), ASK_CNT_ack_new);
        const std::size_t second = sw.place(0, 3, "k", 1);
        const std::vector<ask_aggregator> words = sw.region(0);
        if (way.memory == ASK_MEMORY_SHARED) {
            CHECK(first == second);
            CHECK(words[first].vpart == 11);
        } else {
            CHECK(second - first == std::size_t{2} * 32 * 64 * (cpus[1] - cpus[0]));
            CHECK(words[first].vpart == 1);
            CHECK(words[second].vpart == 10);
        }
        // Dedupe and PktState are one per channel, whatever the CPU.
        sw.expect_ack("seen on another CPU", sw.packet().seq(1).put(0, 3, "k", 1), ASK_CNT_ack_seen);
    }
}

TEST_CASE("tasks of one channel, and channels of one task, keep to their own") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_channel(0);
        sw.add_channel(1, {.port = ASK_CHANNEL_PORT_BASE + 1});
        sw.add_task(0);
        sw.add_task(1, {.instance = 99, .short_slots = 4, .groups = 0, .m = 0, .rows = 1, .op = ASK_OP_MAX});
        sw.add_flow(0, 0, 0);
        sw.add_flow(1, 0, 1);
        sw.add_flow(2, 1, 0);
        sw.expect_ack("channel 0, task 0", sw.packet(0).seq(1).put(0, 0, "k", 3), ASK_CNT_ack_new);
        sw.expect_ack("channel 0, task 1", sw.packet(1).seq(2).put(0, 0, "k", 5), ASK_CNT_ack_new);
        sw.expect_ack("channel 0, task 1, greater", sw.packet(1).seq(3).put(0, 0, "k", 7), ASK_CNT_ack_new);
        sw.expect_ack("channel 1, task 0, its own seq 1", sw.packet(2).seq(1).put(0, 0, "k", 4),
                      ASK_CNT_ack_new);
        sw.expect_region(0, {{0, "k", 7}});
        sw.expect_region(1, {{0, "k", 7}});
        CHECK(sw.stats(0).packets_new == 1);
        CHECK(sw.stats(1).packets_new == 2);
        CHECK(sw.stats(2).packets_new == 1);
    }
}
