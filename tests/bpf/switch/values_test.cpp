// SPDX-License-Identifier: Apache-2.0
//
// Value streams, packet by packet: what the switch makes of a VALUE by what its slot holds, and of RESULTs,
// NEED, HELD and HAVE that pass. Three members, each behind a port of its own; the second is the collector's
// host.
#include "lib/abi/values.h"

#include <sched.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <thread>

#include <bpf/bpf.h>
#include <doctest/doctest.h>

#include "tests/bpf/switch/family.h"
#include "tests/bpf/switch/fan.h"
#include "tests/bpf/switch/harness.h"
#include "tests/bpf/switch/vlan.h"

using namespace ask;
using namespace ask::test;

namespace {

constexpr std::uint32_t kGroup = 0;
constexpr std::uint32_t kOther = 1;
constexpr std::uint32_t kResults = 6;
constexpr std::uint32_t kOtherResults = 7;
constexpr std::uint64_t kAll = 7;
constexpr std::uint32_t kShape = 0x51a9e001;
constexpr std::uint32_t kWindow = 8;
constexpr std::uint64_t kOtherInstance = 0x2122232425262728;
constexpr std::array<std::uint32_t, 3> kHosts{kSender, kReceiver, kBehindSide};

using Words = std::vector<std::uint64_t>;

std::uint32_t port_of(unsigned member) {
    const std::array<std::uint32_t, 3> ports{network().in, network().out, network().side};
    return ports.at(member);
}

// One level, all members here, results made here.
ask_group one_level() {
    ask_group group{};
    group.all = kAll;
    group.want = kAll;
    group.local = kAll;
    group.above.ifindex[0] = network().out;
    group.window = kWindow;
    group.pool_slots = 16;
    group.fan = 3;
    group.has_fan = 1;
    group.last_level = 1;
    group.direct = 1;
    return group;
}

// The lower of two levels: members 0 and 1 here, member 2 and the collector beyond `out`.
ask_group lower() {
    ask_group group = one_level();
    group.want = 3;
    group.local = 3;
    group.last_level = 0;
    group.direct = 0;
    return group;
}

// The upper of two: member 1 here, the others below `in` and `side`.
ask_group upper() {
    ask_group group = one_level();
    group.local = 2;
    return group;
}

TaskSpec group_spec(std::uint64_t instance = TaskSpec{}.instance) {
    return {.instance = instance, .copies = 0, .service = ASK_SERVICE_VALUES};
}

Switch& make_group(const ask_group& group, Way way = {}) {
    Switch& sw = Switch::get(way);
    for (std::uint32_t i = 0; i < kHosts.size(); ++i) {
        sw.add_channel(i, {.host = kHosts[i], .ifindex = port_of(i)});
    }
    sw.add_group(kGroup, group_spec(), group, kResults);
    static std::map<const Switch*, UniqueFd> fans;
    if (group.has_fan != 0) {
        fans[&sw] = make_fan(sw, group.fan);
    }
    for (std::uint32_t i = 0; i < kHosts.size(); ++i) {
        sw.add_member(i, i, kGroup, i);
    }
    return sw;
}

// One group more, on the same channels and slots: its members' flows are 3 and 4.
void add_other(Switch& sw, const ask_group& group) {
    sw.add_group(kOther, group_spec(kOtherInstance), group, kOtherResults);
    sw.add_member(3, 0, kOther, 0);
    sw.add_member(4, 1, kOther, 1);
}

void set_bits(Packet& packet, std::uint64_t bits) {
    packet.bitmaps[0] = static_cast<std::uint32_t>(bits >> 32);
    packet.bitmaps[1] = static_cast<std::uint32_t>(bits);
    packet.bitmaps[3] = static_cast<std::uint32_t>(__builtin_popcountll(bits));
}

void set_words(Packet& packet, const Words& words) {
    packet.body.resize(words.size() * 8);
    std::memcpy(packet.body.data(), words.data(), packet.body.size());  // little-endian, as lanes are
    packet.short_slots = static_cast<std::uint8_t>(words.size() / 8);
}

// A block, of words that tell members apart.
Words words_of(unsigned member, std::uint64_t seq = 1) {
    Words words(8);
    for (unsigned i = 0; i < words.size(); ++i) {
        words[i] = (std::uint64_t{1} << 8 * member) * (i + 1) + (seq << 48);
    }
    return words;
}

Words operator+(Words a, const Words& b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
        a[i] += b[i];
    }
    return a;
}

Packet value(const Switch& sw, std::uint32_t flow, std::uint64_t bits, std::uint64_t seq,
             const Words& words) {
    Packet packet = sw.packet(flow);
    packet.type = ASK_VALUE;
    packet.groups = 0;
    packet.m = ASK_LEVEL_MEMBER;
    packet.op = ASK_VALUES_ADD64;
    packet.bitmaps = {0, 0, kShape, 0};
    set_bits(packet, bits);
    set_words(packet, words);
    return packet.seq(seq);
}

Packet value(const Switch& sw, unsigned member, std::uint64_t seq = 1) {
    return value(sw, member, std::uint64_t{1} << member, seq, words_of(member, seq));
}

// A partial of a switch below, in the name of that member.
Packet partial(const Switch& sw, unsigned member, std::uint64_t bits, std::uint64_t seq, const Words& words) {
    Packet packet = value(sw, member, bits, seq, words);
    packet.m = ASK_LEVEL_PARTIAL;
    return packet;
}

Packet with_flags(Packet packet, std::uint8_t flags) {
    packet.flags = flags;
    return packet;
}

// The RESULT that a packet becomes, as the collector would have sent it.
Packet result_of(const Packet& packet, const Words& words, std::uint8_t flags) {
    Packet out = packet;
    out.type = ASK_RESULT;
    out.flags = flags;
    out.m = ASK_LEVEL_RESULT;
    out.host = 0;
    out.port = 0;
    out.incarnation = 0;
    out.tos = 0;
    out.ttl = 64;
    out.udp_checksum = 0;
    out.source = kReceiver;
    out.source_port = static_cast<std::uint16_t>(ASK_RESULT_PORT + out.groups);
    out.dest_port = ASK_UDP_PORT;
    set_bits(out, kAll);
    set_words(out, words);
    return out;
}

// A RESULT by the collector.
Packet result(const Switch& sw, std::uint64_t seq, const Words& words, std::uint8_t flags) {
    Packet out = result_of(value(sw, 0, seq), words, flags);
    out.dest = (flags & ASK_F_GROUP) != 0 ? kReceiver : kSender;
    out.source_mac = kReceiverMac;
    out.dest_mac = kOutMac;
    return out;
}

// The frame as it waits for its copies to be addressed: its checksum is still that of `came`. With IPv6 a
// result that was made of a member's packet is for the member until then.
Bytes unaddressed(const Packet& packet, const Packet& came) {
    Packet out = packet;
    out.dest_mac = {};
    out.dest = is_six_run() && packet.source != came.source ? came.source : packet.dest;
    --out.ttl;
    const Bytes frame = came.frame();
    out.ip_checksum = static_cast<std::uint16_t>(frame[24] << 8 | frame[25]);
    return out.frame();
}

Packet turned(const Packet& packet) {
    Packet out = packet;
    std::swap(out.dest_mac, out.source_mac);
    std::swap(out.source, out.dest);
    std::swap(out.source_port, out.dest_port);
    out.ttl = 64;
    out.tos = 0;
    out.udp_checksum = 0;
    return out;
}

void expect_absorbed(Switch& sw, const std::string& what, const Packet& packet, ask_counter counter,
                     unsigned member) {
    sw.expect_drop(what, packet, counter, port_of(member));
}

void expect_forwarded(Switch& sw, const std::string& what, const Packet& packet, ask_counter counter,
                      unsigned member, const Packet& out) {
    sw.expect(what, packet.frame(), XDP_REDIRECT, counter, out.routed(kOutMac, kReceiverMac).frame(),
              port_of(member));
}

void expect_forwarded(Switch& sw, const std::string& what, const Packet& packet, ask_counter counter,
                      unsigned member) {
    expect_forwarded(sw, what, packet, counter, member, packet);
}

// Forwarded, and told that it has collided.
void expect_collided(Switch& sw, const std::string& what, const Packet& packet, ask_counter counter,
                     unsigned member) {
    expect_forwarded(sw, what, packet, counter, member,
                     with_flags(packet, static_cast<std::uint8_t>(packet.flags | ASK_F_COLLIDED)));
}

void expect_held(Switch& sw, const std::string& what, const Packet& packet, std::uint64_t missing,
                 unsigned member) {
    Packet out = turned(packet);
    out.type = ASK_HELD;
    out.flags = (packet.tos & 3) == 3 ? ASK_F_ECE : 0;
    out.m = ASK_LEVEL_MEMBER;
    set_bits(out, missing);
    set_words(out, {});
    const Bytes frame = out.frame();
    REQUIRE(frame.size() == 42 + 64);
    sw.expect(what, packet.frame(), XDP_TX, ASK_CNT_value_held, frame, port_of(member));
}

void expect_result(Switch& sw, const std::string& what, const Packet& packet, const Words& words,
                   unsigned member, std::uint8_t flags = 0) {
    const Packet out = result_of(packet, words, static_cast<std::uint8_t>(flags | ASK_F_GROUP));
    // It keeps the destination until each copy gets its own.
    sw.expect(what, packet.frame(), XDP_REDIRECT, ASK_CNT_value_result, unaddressed(out, packet),
              port_of(member));
}

void expect_answered(Switch& sw, const std::string& what, const Packet& packet, const Words& words,
                     unsigned member, std::uint8_t flags = 0) {
    sw.expect(what, packet.frame(), XDP_TX, ASK_CNT_value_answered,
              result_of(turned(packet), words, flags).frame(), port_of(member));
}

// The slot that a seq falls in, found by what is in it.
std::uint32_t slot_of(const Switch& sw, std::uint64_t seq) {
    for (std::uint32_t i = 0; i < 16; ++i) {
        const ask_value_slot slot = sw.value_slot(i);
        if (slot.phase != ASK_SLOT_EMPTY && slot.seq == seq) {
            return i;
        }
    }
    FAIL("no slot has seq ", seq);
    return 0;
}

ask_value_slot slot_with(const Switch& sw, std::uint64_t seq) {
    return sw.value_slot(slot_of(sw, seq));
}

void change_slot(const Switch& sw, std::uint64_t seq, const std::function<void(ask_value_slot&)>& change) {
    const std::uint32_t at = slot_of(sw, seq);
    ask_value_slot slot = sw.value_slot(at);
    change(slot);
    sw.set_value_slot(at, slot);
}

Words slow_fold(std::uint8_t op, const Words& a, const Words& b) {
    const auto lanes = [](std::uint64_t x, std::uint64_t y, auto fold) {
        std::uint64_t out = 0;
        for (unsigned shift = 0; shift < 64; shift += 32) {
            const auto lane =
                fold(static_cast<std::int32_t>(x >> shift), static_cast<std::int32_t>(y >> shift));
            out |= std::uint64_t{static_cast<std::uint32_t>(lane)} << shift;
        }
        return out;
    };
    Words out(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
        switch (op) {
            case ASK_VALUES_ADD64:
                out[i] = a[i] + b[i];
                break;
            case ASK_VALUES_ADD32:
                out[i] = lanes(a[i], b[i], [](std::int64_t x, std::int64_t y) { return x + y; });
                break;
            case ASK_VALUES_MIN32:
                out[i] = lanes(a[i], b[i], [](std::int32_t x, std::int32_t y) { return std::min(x, y); });
                break;
            case ASK_VALUES_MAX32:
                out[i] = lanes(a[i], b[i], [](std::int32_t x, std::int32_t y) { return std::max(x, y); });
                break;
            case ASK_VALUES_AND64:
                out[i] = a[i] & b[i];
                break;
            case ASK_VALUES_OR64:
                out[i] = a[i] | b[i];
                break;
            default:
                out[i] = a[i] ^ b[i];
                break;
        }
    }
    return out;
}

Words random_words(std::mt19937_64& random, unsigned blocks) {
    constexpr std::array<std::uint64_t, 6> kEdges{
        0, ~0ULL, 0x8000000080000000, 0x7fffffff7fffffff, 0x00000001ffffffff, 0xffffffff00000001};
    Words words(std::size_t{8} * blocks);
    for (std::uint64_t& word : words) {
        word = random() % 4 == 0 ? kEdges.at(random() % kEdges.size()) : random();
    }
    return words;
}

}  // namespace

TEST_CASE("the values of all members make one result, by every operator and in every size") {
    for (const Way& way : kWays) {
        std::mt19937_64 random(1);
        Switch& sw = make_group(one_level(), way);
        std::uint64_t seq = 0;
        for (std::uint8_t op = 0; op < ASK_VALUES_OPS; ++op) {
            for (const unsigned blocks : {0U, 1U, 22U, 53U}) {
                INFO("operator ", int{op}, ", ", blocks, " blocks");
                ++seq;
                std::array<Words, 3> words{random_words(random, blocks), random_words(random, blocks),
                                           random_words(random, blocks)};
                std::array<Packet, 3> packets;
                for (unsigned i = 0; i < 3; ++i) {
                    packets.at(i) = value(sw, i, 1U << i, seq, words.at(i));
                    packets.at(i).op = op;
                    packets.at(i).groups = static_cast<std::uint8_t>(seq % ASK_VALUES_STREAMS);
                }
                expect_absorbed(sw, "first", packets[2], ASK_CNT_value_taken, 2);
                expect_absorbed(sw, "second", packets[0], ASK_CNT_value_folded, 0);
                expect_result(sw, "last", packets[1],
                              slow_fold(op, slow_fold(op, words[2], words[0]), words[1]), 1);
            }
        }
    }
}

TEST_CASE("a repeat adds nothing, and one that asks is told who is missing") {
    Switch& sw = make_group(one_level());
    expect_absorbed(sw, "first", value(sw, 0), ASK_CNT_value_taken, 0);
    expect_absorbed(sw, "a copy of it", value(sw, 0), ASK_CNT_value_repeat, 0);
    expect_held(sw, "a resend", with_flags(value(sw, 0), ASK_F_RESEND), 6, 0);
    Packet marked = with_flags(value(sw, 0), ASK_F_RESEND);
    marked.tos = 3;
    expect_held(sw, "a resend that met congestion", marked, 6, 0);
    expect_held(sw, "a resend whose first copy was lost", with_flags(value(sw, 2), ASK_F_RESEND), 2, 2);
    expect_held(sw, "a resend that takes a slot", with_flags(value(sw, 2, 2), ASK_F_RESEND), 3, 2);
    expect_result(sw, "last", value(sw, 1), words_of(0) + words_of(1) + words_of(2), 1);
    // Whoever is the last.
    expect_absorbed(sw, "second of the next", value(sw, 1, 3), ASK_CNT_value_taken, 1);
    expect_absorbed(sw, "third of it", value(sw, 2, 3), ASK_CNT_value_folded, 2);
}

TEST_CASE("where groups flush, what is sent again takes all there is to the collector") {
    ask_group group = one_level();
    group.flush = 1;
    Switch& sw = make_group(group);
    const auto resend = [&](unsigned member) { return with_flags(value(sw, member), ASK_F_RESEND); };
    const auto partial_of = [&](unsigned member, std::uint64_t bits, const Words& sum) {
        return with_flags(partial(sw, member, bits, 1, sum), ASK_F_RESEND);
    };
    expect_absorbed(sw, "first", value(sw, 0), ASK_CNT_value_taken, 0);
    const std::uint32_t at = slot_of(sw, 1);
    expect_forwarded(sw, "what is in there travels alone", resend(0), ASK_CNT_value_flushed, 0,
                     partial_of(0, 1, words_of(0)));
    CHECK(sw.value_slot(at).phase == ASK_SLOT_EMPTY);
    expect_absorbed(sw, "another", value(sw, 1), ASK_CNT_value_taken, 1);
    expect_forwarded(sw, "what is not takes it along", resend(2), ASK_CNT_value_flushed, 2,
                     partial_of(2, 6, words_of(1) + words_of(2)));
    CHECK(sw.value_slot(at).phase == ASK_SLOT_EMPTY);
    expect_forwarded(sw, "alone in there", resend(0), ASK_CNT_value_flushed, 0,
                     partial_of(0, 1, words_of(0)));
    CHECK(sw.value_slot(at).phase == ASK_SLOT_EMPTY);
    SUBCASE("the last of all makes a result") {
        expect_absorbed(sw, "first", value(sw, 0), ASK_CNT_value_taken, 0);
        expect_absorbed(sw, "second", value(sw, 1), ASK_CNT_value_folded, 1);
        expect_result(sw, "last", resend(2), words_of(0) + words_of(1) + words_of(2), 2);
    }
}

TEST_CASE("who lost the result gets it as long as its slot is not needed") {
    Switch& sw = make_group(one_level());
    const Words sum = words_of(0) + words_of(1) + words_of(2);
    for (unsigned i = 0; i < 2; ++i) {
        sw.run(value(sw, i).frame(), port_of(i));
    }
    expect_result(sw, "last", value(sw, 2), sum, 2);
    expect_answered(sw, "a resend", with_flags(value(sw, 0), ASK_F_RESEND), sum, 0);
    expect_answered(sw, "a copy", value(sw, 2), sum, 2);
    expect_answered(sw, "another of the collector's", value(sw, 1), sum, 1);
    // All three start anew once it is gone, since none of them can have the result but by the collector.
    change_slot(sw, 1, [](ask_value_slot& slot) { slot.phase = ASK_SLOT_EMPTY; });
    expect_held(sw, "a resend after a wipe", with_flags(value(sw, 0), ASK_F_RESEND), 6, 0);
}

TEST_CASE("congestion, collisions and range of every contributor are in the result") {
    Switch& sw = make_group(one_level());
    Packet congested = value(sw, 0);
    congested.tos = 3;
    expect_absorbed(sw, "came marked", congested, ASK_CNT_value_taken, 0);
    expect_absorbed(sw, "collided elsewhere", with_flags(value(sw, 1), ASK_F_COLLIDED), ASK_CNT_value_folded,
                    1);
    expect_result(sw, "out of range", with_flags(value(sw, 2), ASK_F_RANGE),
                  words_of(0) + words_of(1) + words_of(2), 2, ASK_F_ECE | ASK_F_COLLIDED | ASK_F_RANGE);
    expect_answered(sw, "and in its repeats", value(sw, 2), words_of(0) + words_of(1) + words_of(2), 2,
                    ASK_F_ECE | ASK_F_COLLIDED | ASK_F_RANGE);
    expect_absorbed(sw, "the next chunk", value(sw, 0, 2), ASK_CNT_value_taken, 0);
    expect_absorbed(sw, "has its own", value(sw, 1, 2), ASK_CNT_value_folded, 1);
    expect_result(sw, "none", value(sw, 2, 2), words_of(0, 2) + words_of(1, 2) + words_of(2, 2), 2);
}

TEST_CASE("what is not for switches goes to the collector as it is") {
    Switch& sw = make_group(one_level());
    expect_forwarded(sw, "alone", with_flags(value(sw, 0, 5), ASK_F_ALONE), ASK_CNT_value_alone, 0);
    CHECK(sw.group(kGroup).highest[0] == 5);
    expect_absorbed(sw, "within the window", value(sw, 0, 20), ASK_CNT_value_taken, 0);
    const State before = sw.state();
    expect_forwarded(sw, "a window behind", value(sw, 1, 20 - kWindow), ASK_CNT_value_late, 1);
    CHECK((sw.state() == before));
    expect_absorbed(sw, "just within it", value(sw, 1, 20 - kWindow + 1), ASK_CNT_value_taken, 1);
    Packet have = value(sw, 0, kAll, 3, words_of(1));
    have.type = ASK_HAVE;
    expect_forwarded(sw, "a result that the collector lacks", have, ASK_CNT_have, 0);
    have.groups = 1;
    expect_forwarded(sw, "of a stream that nothing was seen of", have, ASK_CNT_have, 0);
    CHECK(sw.group(kGroup).highest[1] == 0);
}

TEST_CASE("a stream is followed two windows ahead and no further") {
    Switch& sw = make_group(one_level());
    expect_absorbed(sw, "a switch that is new believes the first", value(sw, 0, 1000), ASK_CNT_value_taken,
                    0);
    expect_absorbed(sw, "two windows ahead", value(sw, 1, 1000 + 2 * kWindow), ASK_CNT_value_taken, 1);
    const State before = sw.state();
    expect_forwarded(sw, "further", value(sw, 2, 1001 + 4 * kWindow), ASK_CNT_value_ahead, 2);
    expect_forwarded(sw, "alone", with_flags(value(sw, 2, 1001 + 4 * kWindow), ASK_F_ALONE),
                     ASK_CNT_value_ahead, 2);
    expect_forwarded(sw, "as far as can be", value(sw, 2, ~0ULL), ASK_CNT_value_ahead, 2);
    CHECK((sw.state() == before));
    Packet stream = value(sw, 2, 1);
    stream.groups = 7;
    expect_absorbed(sw, "another stream is elsewhere", stream, ASK_CNT_value_taken, 2);
    CHECK(sw.group(kGroup).highest[0] == 1000 + 2 * kWindow);
    CHECK(sw.group(kGroup).highest[7] == 1);
}

TEST_CASE("a stream that went round the switch is followed again once a result passes") {
    for (const std::uint8_t to : {std::uint8_t{0}, std::uint8_t{ASK_F_GROUP}}) {
        Switch& sw = make_group(one_level());
        expect_absorbed(sw, "first", value(sw, 0), ASK_CNT_value_taken, 0);
        expect_forwarded(sw, "far ahead", value(sw, 0, 5000), ASK_CNT_value_ahead, 0);
        const Packet passes = result(sw, 4990, words_of(9), to);
        sw.expect(
            "a result", passes.frame(), XDP_REDIRECT, to == 0 ? ASK_CNT_result_one : ASK_CNT_result_group,
            to == 0 ? passes.routed(kInMac, kSenderMac).frame() : unaddressed(passes, passes), network().out);
        CHECK(sw.group(kGroup).highest[0] == 4990);
        expect_absorbed(sw, "the same", value(sw, 0, 5000), ASK_CNT_value_taken, 0);
    }
}

TEST_CASE("a slot that another chunk holds is left, and the packet says so") {
    ask_group group = one_level();
    group.pool_slots = 1;
    Switch& sw = make_group(group);
    add_other(sw, group);
    expect_absorbed(sw, "the first takes it", value(sw, 0), ASK_CNT_value_taken, 0);
    const ask_value_slot held = sw.value_slot(0);
    expect_collided(sw, "the next seq", value(sw, 0, 2), ASK_CNT_value_collided, 0);
    expect_collided(sw, "a resend keeps its flag", with_flags(value(sw, 0, 2), ASK_F_RESEND),
                    ASK_CNT_value_collided, 0);
    Packet stream = value(sw, 1);
    stream.groups = 1;
    expect_collided(sw, "another stream", stream, ASK_CNT_value_collided, 1);
    expect_collided(sw, "another group, same stream and seq", value(sw, 3, 1, 1, words_of(0)),
                    ASK_CNT_value_collided, 0);
    const ask_value_slot after = sw.value_slot(0);
    CHECK(std::memcmp(&held, &after, sizeof(held)) == 0);
    expect_absorbed(sw, "its own", value(sw, 1), ASK_CNT_value_folded, 1);
}

TEST_CASE("a slot is taken over once nobody waits for what is in it") {
    ask_group group = one_level();
    group.pool_slots = 1;
    Switch& sw = make_group(group);
    add_other(sw, group);
    const auto other = [&sw](std::uint64_t seq) { return value(sw, 3, 1, seq, words_of(0, seq)); };
    const auto starts_anew = [&sw](const Packet& packet) {
        expect_absorbed(sw, "takes it", packet, ASK_CNT_value_taken, 0);
        const ask_value_slot slot = sw.value_slot(0);
        CHECK(slot.seq == packet.seq_field);
        CHECK(slot.bits == 1);
        CHECK(slot.own == ASK_SLOT_FREE);
        CHECK(std::memcmp(slot.words, packet.body.data(), packet.body.size()) == 0);
    };
    SUBCASE("it is done") {
        for (unsigned i = 0; i < 3; ++i) {
            sw.run(value(sw, i).frame(), port_of(i));
        }
        CHECK(sw.value_slot(0).phase == ASK_SLOT_DONE);
        starts_anew(other(9));
    }
    SUBCASE("none of its packets came for a second") {
        sw.run(value(sw, 0).frame(), port_of(0));
        change_slot(sw, 1, [](ask_value_slot& slot) { slot.touched -= ASK_SLOT_STALE / 2; });
        expect_collided(sw, "for half a second", other(9), ASK_CNT_value_collided, 0);
        change_slot(sw, 1, [](ask_value_slot& slot) { slot.touched -= ASK_SLOT_STALE; });
        starts_anew(other(9));
    }
    SUBCASE("a repeat keeps it") {
        sw.run(value(sw, 0).frame(), port_of(0));
        change_slot(sw, 1, [](ask_value_slot& slot) {
            slot.touched -= 2 * ASK_SLOT_STALE;
            slot.tick -= 1000;
        });
        expect_absorbed(sw, "a copy", value(sw, 0), ASK_CNT_value_repeat, 0);
        expect_collided(sw, "another", other(9), ASK_CNT_value_collided, 0);
    }
    SUBCASE("its clock is ahead") {
        sw.run(value(sw, 0).frame(), port_of(0));
        change_slot(sw, 1, [](ask_value_slot& slot) { slot.touched += ASK_SLOT_STALE; });
        expect_collided(sw, "another", other(9), ASK_CNT_value_collided, 0);
    }
    SUBCASE("its group is closed") {
        sw.run(value(sw, 0).frame(), port_of(0));
        ask_group closed = sw.group(kGroup);
        closed.instance = 0;
        sw.set_group(kGroup, closed);
        starts_anew(other(9));
    }
    SUBCASE("its group's members are a window ahead") {
        sw.run(value(sw, 0).frame(), port_of(0));
        expect_collided(sw, "not yet", value(sw, 0, kWindow), ASK_CNT_value_collided, 0);
        expect_collided(sw, "nor for another", other(9), ASK_CNT_value_collided, 0);
        starts_anew(value(sw, 0, kWindow + 1));
    }
    SUBCASE("it has been emptied") {
        sw.run(value(sw, 0).frame(), port_of(0));
        change_slot(sw, 1, [](ask_value_slot& slot) { slot.phase = ASK_SLOT_EMPTY; });
        starts_anew(other(9));
        CHECK(sw.value_slot(0).instance == sw.group(kOther).instance);
    }
}

TEST_CASE("a slot that someone else owns is given up, and nothing in it changes") {
    Switch& sw = make_group(one_level());
    expect_absorbed(sw, "first", value(sw, 0), ASK_CNT_value_taken, 0);
    for (const std::uint64_t owner : {ASK_SLOT_PROGRAM, ASK_SLOT_DAEMON}) {
        change_slot(sw, 1, [owner](ask_value_slot& slot) { slot.own = owner; });
        const State before = sw.state();
        expect_collided(sw, "second", value(sw, 1), ASK_CNT_value_contended, 1);
        CHECK((sw.state() == before));
    }
    change_slot(sw, 1, [](ask_value_slot& slot) { slot.own = ASK_SLOT_FREE; });
    expect_absorbed(sw, "second", value(sw, 1), ASK_CNT_value_folded, 1);
}

TEST_CASE("another operation or size for a chunk is the collector's to judge") {
    Switch& sw = make_group(one_level());
    expect_absorbed(sw, "first", value(sw, 0), ASK_CNT_value_taken, 0);
    const State before = sw.state();
    Packet packet = value(sw, 1);
    packet.bitmaps[2] = kShape + 1;
    expect_forwarded(sw, "shape", packet, ASK_CNT_value_shape, 1);
    packet = value(sw, 1);
    packet.op = ASK_VALUES_XOR64;
    expect_forwarded(sw, "operator", packet, ASK_CNT_value_shape, 1);
    expect_forwarded(sw, "more", value(sw, 1, 2, 1, Words(16)), ASK_CNT_value_shape, 1);
    expect_forwarded(sw, "less", value(sw, 1, 2, 1, {}), ASK_CNT_value_shape, 1);
    CHECK((sw.state() == before));
    for (unsigned i = 1; i < 3; ++i) {
        sw.run(value(sw, i).frame(), port_of(i));
    }
    expect_forwarded(sw, "of one that is done, too", packet, ASK_CNT_value_shape, 1);
}

TEST_CASE("a group that has no slots, or no way to make copies, or a collector that answers itself") {
    ask_group group = one_level();
    const auto fill = [](Switch& sw) {
        expect_absorbed(sw, "first", value(sw, 0), ASK_CNT_value_taken, 0);
        expect_absorbed(sw, "second", value(sw, 1), ASK_CNT_value_folded, 1);
    };
    const Words sum = words_of(0) + words_of(1) + words_of(2);
    const auto to_collector = [&sum](Switch& sw) {
        Packet out = partial(sw, 2, kAll, 1, sum);
        expect_forwarded(sw, "all of them to the collector", value(sw, 2), ASK_CNT_value_partial, 2, out);
        expect_answered(sw, "who lost the result", with_flags(value(sw, 0), ASK_F_RESEND), sum, 0);
    };
    SUBCASE("no slots") {
        group.pool_slots = 0;
        Switch& sw = make_group(group);
        expect_forwarded(sw, "forwarded", value(sw, 0), ASK_CNT_value_no_pool, 0);
        CHECK(sw.group(kGroup).highest[0] == 1);
    }
    SUBCASE("results by the collector") {
        group.direct = 0;
        Switch& sw = make_group(group);
        fill(sw);
        to_collector(sw);
    }
    SUBCASE("no fan") {
        group.has_fan = 0;
        Switch& sw = make_group(group);
        fill(sw);
        to_collector(sw);
    }
}

TEST_CASE("a set is the sender's own: of one member at its port") {
    Switch& sw = make_group(one_level());
    const auto refused = [&sw](const std::string& what, const Packet& packet, unsigned member) {
        sw.expect_drop(what, packet, ASK_CNT_bad_set, port_of(member));
    };
    refused("another's bit", value(sw, 0, 2, 1, words_of(0)), 0);
    refused("two bits", value(sw, 0, 3, 1, words_of(0)), 0);
    refused("no bit", value(sw, 0, 0, 1, words_of(0)), 0);
    refused("a stranger's bit", value(sw, 0, 1ULL << 63, 1, words_of(0)), 0);
    refused("a partial", partial(sw, 0, 1, 1, words_of(0)), 0);
    refused("a partial of others", partial(sw, 0, 6, 1, words_of(0)), 0);
    refused("another count", value(sw, 0).with([](Packet& p) { p.bitmaps[3] = 2; }), 0);
    refused("a HAVE that is not of all",
            value(sw, 0, 3, 1, words_of(0)).with([](Packet& p) { p.type = ASK_HAVE; }), 0);
    refused("alone or not", with_flags(value(sw, 0, 2, 1, words_of(0)), ASK_F_ALONE), 0);
}

TEST_CASE("what is not a packet of values, or not its sender's, changes nothing") {
    for (const Way& way : kWays) {
        Switch& sw = make_group(one_level(), way);
        const auto refused = [&sw](const std::string& what, ask_counter counter,
                                   const std::function<void(Packet&)>& change, unsigned port = 0) {
            Packet packet = value(sw, 0);
            change(packet);
            sw.expect_drop(what, packet, counter, port_of(port));
        };
        refused("version", ASK_CNT_bad_version, [](Packet& p) { --p.version; });
        refused("a type of the tuples'", ASK_CNT_bad_type, [](Packet& p) { p.type = ASK_DATA; });
        refused("FIN", ASK_CNT_bad_type, [](Packet& p) { p.type = ASK_FIN; });
        refused("RESULT of a member", ASK_CNT_bad_type, [](Packet& p) { p.type = ASK_RESULT; });
        refused("blocks", ASK_CNT_bad_values, [](Packet& p) { p.short_slots = ASK_VALUES_MAX_BLOCKS + 1; });
        refused("stream", ASK_CNT_bad_values, [](Packet& p) { p.groups = ASK_VALUES_STREAMS; });
        refused("level", ASK_CNT_bad_values, [](Packet& p) { p.m = ASK_LEVEL_RESULT; });
        refused("a HAVE's level", ASK_CNT_bad_values, [](Packet& p) {
            p.type = ASK_HAVE;
            p.m = ASK_LEVEL_PARTIAL;
        });
        refused("operator", ASK_CNT_bad_values, [](Packet& p) { p.op = ASK_VALUES_OPS; });
        refused("flag", ASK_CNT_bad_values, [](Packet& p) { p.flags = ASK_F_GROUP; });
        refused("unknown flag", ASK_CNT_bad_values, [](Packet& p) { p.flags = 0x80; });
        refused("extension words", ASK_CNT_bad_values, [](Packet& p) { p.bitmaps.push_back(0); });
        refused("a block more", ASK_CNT_bad_length, [](Packet& p) { p.body.resize(128); });
        refused("a word less", ASK_CNT_bad_length, [](Packet& p) { p.body.resize(56); });
        refused("no payload", ASK_CNT_bad_length, [](Packet& p) { p.body.clear(); });
        refused("check", ASK_CNT_bad_check, [](Packet& p) { p.check = 1; });
        refused("another group's key", ASK_CNT_bad_check, [](Packet& p) { p.secret = group_secret(kOther); });
        refused("mark", ASK_CNT_bad_mark, [](Packet& p) { p.mark_switch = 1; });
        refused("seq", ASK_CNT_bad_seq, [](Packet& p) { p.seq_field = 0; });
        refused("port", ASK_CNT_bad_port, [](Packet&) {}, 1);
        refused("address", ASK_CNT_bad_address, [](Packet& p) { p.source = kReceiver; });
        refused("UDP port", ASK_CNT_bad_address, [](Packet& p) { ++p.source_port; });
        refused("incarnation", ASK_CNT_bad_incarnation, [](Packet& p) { ++p.incarnation; });
        refused("receiver", ASK_CNT_bad_receiver, [](Packet& p) { p.dest = kBehindSide; });
        for (const std::size_t at : {90U, 97U, 101U, 105U, 106U, 169U}) {
            Bytes frame = value(sw, 0).frame();
            frame[at] ^= 1;
            sw.expect("a bit changed", frame, XDP_DROP, ASK_CNT_bad_check, frame, port_of(0));
        }
        expect_absorbed(sw, "as it should be", value(sw, 0), ASK_CNT_value_taken, 0);
    }
}

TEST_CASE("a group that is not open here goes on without this switch") {
    Switch& sw = make_group(one_level());
    const auto unknown = [](Packet& p) { p.task = kOtherInstance; };
    for (const std::uint8_t type : {ASK_VALUE, ASK_HAVE}) {
        const Packet packet = value(sw, 0).with(unknown).with([type](Packet& p) { p.type = type; });
        const State before = sw.state();
        expect_forwarded(sw, "forwarded", packet, ASK_CNT_value_no_group, 0);
        CHECK((sw.state() == before));
        sw.expect_drop("by another port", packet, ASK_CNT_bad_port, port_of(2));
    }
    sw.expect_drop("DATA of no task", sw.packet(0).put(0, 0, "k", 1).with(unknown), ASK_CNT_bad_task);
    Packet foreign = result(sw, 1, words_of(0), ASK_F_GROUP).with(unknown);
    sw.expect("a RESULT of it is the stack's", foreign, XDP_PASS, ASK_CNT_pass_channel);
}

TEST_CASE("while a group is being closed its packets go on, and no RESULT is believed") {
    Switch& sw = make_group(one_level());
    ask_group closed = sw.group(kGroup);
    closed.instance = 0;
    sw.set_group(kGroup, closed);
    const State before = sw.state();
    expect_forwarded(sw, "a value", value(sw, 0), ASK_CNT_value_no_group, 0);
    sw.expect_drop("a result", result(sw, 1, words_of(9), ASK_F_GROUP), ASK_CNT_bad_task, network().out);
    CHECK((sw.state() == before));
}

TEST_CASE("two levels: the lower sends one partial up") {
    Switch& sw = make_group(lower());
    const Words sum = words_of(0) + words_of(1);
    expect_absorbed(sw, "first", value(sw, 0), ASK_CNT_value_taken, 0);
    expect_held(sw, "a resend", with_flags(value(sw, 0), ASK_F_RESEND), 2, 0);
    Packet second = value(sw, 1);
    second.tos = 3;
    Packet up = partial(sw, 1, 3, 1, sum);
    up.flags = ASK_F_ECE;
    up.tos = 3;
    expect_forwarded(sw, "all below", second, ASK_CNT_value_partial, 1, up);
    expect_absorbed(sw, "a copy", value(sw, 0), ASK_CNT_value_done, 0);
    const Packet again = with_flags(value(sw, 0), ASK_F_RESEND);
    up = partial(sw, 0, 3, 1, sum);
    up.flags = ASK_F_RESEND | ASK_F_ECE;
    expect_forwarded(sw, "the partial may be lost", again, ASK_CNT_value_partial_again, 0, up);
    SUBCASE("a result frees the slot") {
        const std::uint32_t at = slot_of(sw, 1);
        const Packet all = result(sw, 1, words_of(9), ASK_F_GROUP);
        sw.expect("to the members below", all.frame(), XDP_REDIRECT, ASK_CNT_result_group,
                  unaddressed(all, all), network().out);
        CHECK(sw.value_slot(at).phase == ASK_SLOT_EMPTY);
    }
}

TEST_CASE("a rack of one member sends its value up as a partial") {
    ask_group group = lower();
    group.want = 1;
    group.local = 1;
    Switch& sw = make_group(group);
    expect_forwarded(sw, "alone below", value(sw, 0), ASK_CNT_value_partial, 0,
                     partial(sw, 0, 1, 1, words_of(0)));
}

TEST_CASE("two levels: the upper merges sets") {
    Switch& sw = make_group(upper());
    const Words zero = words_of(0);
    const Words both = words_of(0) + words_of(2);
    SUBCASE("a partial takes the place of what it has in it") {
        expect_absorbed(sw, "a single", value(sw, 0), ASK_CNT_value_taken, 0);
        expect_absorbed(sw, "a partial with it", partial(sw, 2, 5, 1, both), ASK_CNT_value_replaced, 2);
        CHECK(slot_with(sw, 1).bits == 5);
        expect_absorbed(sw, "a single of it", value(sw, 2), ASK_CNT_value_repeat, 2);
        expect_held(sw, "a partial sent again", with_flags(partial(sw, 0, 5, 1, both), ASK_F_RESEND), 2, 0);
        expect_result(sw, "the rest", value(sw, 1), both + words_of(1), 1);
    }
    SUBCASE("sets that cross are not merged") {
        expect_absorbed(sw, "one's", partial(sw, 0, 1, 1, zero), ASK_CNT_value_taken, 0);
        expect_absorbed(sw, "the member here", value(sw, 1), ASK_CNT_value_folded, 1);
        const ask_value_slot before = slot_with(sw, 1);
        expect_forwarded(sw, "crosses", partial(sw, 2, 5, 1, both), ASK_CNT_value_crossing, 2);
        const ask_value_slot after = slot_with(sw, 1);
        CHECK(after.bits == before.bits);
        CHECK(std::memcmp(after.words, before.words, sizeof(after.words)) == 0);
        expect_result(sw, "what is missing", value(sw, 2), zero + words_of(1) + words_of(2), 2);
    }
    SUBCASE("disjoint ones are") {
        expect_absorbed(sw, "the member here", value(sw, 1), ASK_CNT_value_taken, 1);
        expect_result(sw, "the rack below", partial(sw, 2, 5, 1, both), both + words_of(1), 2);
    }
    SUBCASE("no partial has a member that is here, and none comes by its port") {
        sw.expect_drop("with member 1", partial(sw, 0, 3, 1, both), ASK_CNT_bad_set, port_of(0));
        sw.expect_drop("from member 1", partial(sw, 1, 5, 1, both), ASK_CNT_bad_set, port_of(1));
        sw.expect_drop("of nobody", partial(sw, 0, 0, 1, both), ASK_CNT_bad_set, port_of(0));
        sw.expect_drop("of a stranger", partial(sw, 0, 9, 1, both), ASK_CNT_bad_set, port_of(0));
    }
}

TEST_CASE("the collector's RESULT frees its slot and goes to all others") {
    for (const Way& way : kWays) {
        Switch& sw = make_group(one_level(), way);
        expect_absorbed(sw, "first", value(sw, 0), ASK_CNT_value_taken, 0);
        expect_absorbed(sw, "another seq", value(sw, 0, 2), ASK_CNT_value_taken, 0);
        const Packet all = result(sw, 1, words_of(9), ASK_F_GROUP | ASK_F_COLLIDED);
        sw.expect("to all", all.frame(), XDP_REDIRECT, ASK_CNT_result_group, unaddressed(all, all),
                  network().out);
        CHECK(slot_with(sw, 2).phase == ASK_SLOT_OPEN);
        unsigned open = 0;
        for (std::uint32_t i = 0; i < 16; ++i) {
            open += sw.value_slot(i).phase == ASK_SLOT_EMPTY ? 0U : 1U;
        }
        CHECK(open == 1);
        sw.expect("once more, of nothing that is here", all.frame(), XDP_REDIRECT, ASK_CNT_result_group,
                  unaddressed(all, all), network().out);
    }
}

TEST_CASE("a slot that cannot be had in time keeps its chunk, and the RESULT goes on") {
    Switch& sw = make_group(one_level());
    expect_absorbed(sw, "first", value(sw, 0), ASK_CNT_value_taken, 0);
    change_slot(sw, 1, [](ask_value_slot& slot) { slot.own = ASK_SLOT_DAEMON; });
    const State before = sw.state();
    const Packet all = result(sw, 1, words_of(9), ASK_F_GROUP);
    sw.expect("to all", all.frame(), XDP_REDIRECT, ASK_CNT_result_group, unaddressed(all, all),
              network().out);
    CHECK((sw.state() == before));
}

TEST_CASE("a RESULT for one member is forwarded to it") {
    Switch& sw = make_group(one_level());
    expect_absorbed(sw, "first", value(sw, 0), ASK_CNT_value_taken, 0);
    const State before = sw.state();
    const Packet one = result(sw, 1, words_of(9), 0);
    sw.expect("forwarded", one.frame(), XDP_REDIRECT, ASK_CNT_result_one,
              one.routed(kInMac, kSenderMac).frame(), network().out);
    sw.expect("by whatever port", one.frame(), XDP_REDIRECT, ASK_CNT_result_one,
              one.routed(kInMac, kSenderMac).frame(), network().side);
    CHECK((sw.state() == before));
}

TEST_CASE("a member in a VLAN: its answers have its tag, and copies for all have none") {
    Switch& sw = make_group(one_level());
    const Vlan vlan(sw, network().in);
    const auto expect = [&sw](const std::string& what, const Packet& packet, std::uint32_t action,
                              ask_counter counter, const Bytes& out) {
        sw.expect(what, tagged(packet.frame()), action, counter, out, network().in);
    };
    expect("first", value(sw, 2), XDP_DROP, ASK_CNT_value_taken, value(sw, 2).frame());
    const Packet resend = with_flags(value(sw, 2), ASK_F_RESEND);
    Packet held = turned(resend);
    held.type = ASK_HELD;
    held.flags = 0;
    held.m = ASK_LEVEL_MEMBER;
    set_bits(held, 3);
    set_words(held, {});
    expect("a resend", resend, XDP_TX, ASK_CNT_value_held, tagged(held.frame()));
    expect_absorbed(sw, "second", value(sw, 0), ASK_CNT_value_folded, 0);
    const Words all = words_of(0) + words_of(1) + words_of(2);
    expect_result(sw, "last", value(sw, 1), all, 1);
    expect("once more", resend, XDP_TX, ASK_CNT_value_answered,
           tagged(result_of(turned(resend), all, 0).frame()));
    expect_absorbed(sw, "first of the next", value(sw, 0, 2), ASK_CNT_value_taken, 0);
    expect_absorbed(sw, "second of it", value(sw, 1, 2), ASK_CNT_value_folded, 1);
    const Packet last = value(sw, 2, 2);
    expect("last of it", last, XDP_REDIRECT, ASK_CNT_value_result,
           unaddressed(result_of(last, words_of(0, 2) + words_of(1, 2) + words_of(2, 2), ASK_F_GROUP), last));
}

TEST_CASE("a RESULT for all is from above if the VLAN that it comes in is") {
    ask_group group = one_level();
    group.above.ifindex[0] = network().side;
    Switch& sw = make_group(group);
    const Vlan vlan(sw, network().out);
    const Packet all = result(sw, 1, words_of(9), ASK_F_GROUP);
    sw.expect_drop("without a tag", all, ASK_CNT_bad_port, network().out);
    sw.expect("with one", tagged(all.frame()), XDP_REDIRECT, ASK_CNT_result_group, unaddressed(all, all),
              network().out);
}

TEST_CASE("a RESULT that is not proved changes nothing") {
    Switch& sw = make_group(one_level());
    expect_absorbed(sw, "first", value(sw, 0), ASK_CNT_value_taken, 0);
    for (const std::uint8_t to : {std::uint8_t{0}, std::uint8_t{ASK_F_GROUP}}) {
        const auto refused = [&](const std::string& what, ask_counter counter,
                                 const std::function<void(Packet&)>& change) {
            Packet packet = result(sw, 1, words_of(9), to);
            change(packet);
            sw.expect_drop(what, packet, counter, network().out);
        };
        refused("version", ASK_CNT_bad_version, [](Packet& p) { ++p.version; });
        refused("a VALUE of no channel", ASK_CNT_bad_type, [](Packet& p) { p.type = ASK_VALUE; });
        refused("NEED", ASK_CNT_bad_type, [](Packet& p) { p.type = ASK_NEED; });
        refused("blocks", ASK_CNT_bad_values, [](Packet& p) { p.short_slots = ASK_VALUES_MAX_BLOCKS + 1; });
        refused("stream", ASK_CNT_bad_values, [](Packet& p) { p.groups = ASK_VALUES_STREAMS; });
        refused("level", ASK_CNT_bad_values, [](Packet& p) { p.m = ASK_LEVEL_PARTIAL; });
        refused("operator", ASK_CNT_bad_values, [](Packet& p) { p.op = ASK_VALUES_OPS; });
        refused("flag", ASK_CNT_bad_values, [](Packet& p) { p.flags |= ASK_F_RESEND; });
        refused("extension", ASK_CNT_bad_values, [](Packet& p) { p.rows_field = 3; });
        refused("incarnation", ASK_CNT_bad_incarnation, [](Packet& p) { p.incarnation = 1; });
        refused("port of another stream", ASK_CNT_bad_address, [](Packet& p) { ++p.source_port; });
        refused("from elsewhere", ASK_CNT_bad_receiver, [](Packet& p) { p.source = kSender; });
        refused("mark", ASK_CNT_bad_mark, [](Packet& p) { p.mark_switch = 1; });
        refused("seq", ASK_CNT_bad_seq, [](Packet& p) { p.seq_field = 0; });
        refused("length", ASK_CNT_bad_length, [](Packet& p) { p.body.resize(128); });
        refused("no extension", ASK_CNT_bad_length, [](Packet& p) {
            p.bitmaps.clear();
            p.body.clear();
            p.rows_field = 4;
        });
        refused("check", ASK_CNT_bad_check, [](Packet& p) { p.check = 1; });
        refused("not of all", ASK_CNT_bad_set, [](Packet& p) { set_bits(p, 3); });
        refused("count", ASK_CNT_bad_set, [](Packet& p) { ++p.bitmaps[3]; });
        Bytes frame = result(sw, 1, words_of(9), to).frame();
        frame.back() ^= 1;
        sw.expect("its last byte", frame, XDP_DROP, ASK_CNT_bad_check, frame, network().out);
    }
    sw.expect_drop("to all, by a member's port", result(sw, 1, words_of(9), ASK_F_GROUP), ASK_CNT_bad_port,
                   network().in);
    ask_group group = sw.group(kGroup);
    group.has_fan = 0;
    sw.set_group(kGroup, group);
    sw.expect_drop("to all, and no copies are made here", result(sw, 1, words_of(9), ASK_F_GROUP),
                   ASK_CNT_result_no_fan, network().out);
}

namespace {

// NEED or HELD by the collector, to member 0.
Packet to_member(const Switch& sw, std::uint8_t type) {
    Packet packet = turned(value(sw, 0));
    packet.type = type;
    packet.source_mac = kReceiverMac;
    packet.dest_mac = kOutMac;
    set_bits(packet, 6);
    set_words(packet, {});
    return packet;
}

}  // namespace

TEST_CASE("NEED and HELD pass as ACKs do, once they are proved") {
    Switch& sw = make_group(one_level());
    for (const std::uint8_t type : {ASK_NEED, ASK_HELD}) {
        const Packet good = to_member(sw, type);
        const State before = sw.state();
        sw.expect("forwarded", good.frame(), XDP_REDIRECT, ASK_CNT_transit_ack,
                  good.routed(kInMac, kSenderMac).frame(), network().out);
        const auto refused = [&](const std::string& what, ask_counter counter,
                                 const std::function<void(Packet&)>& change) {
            Packet packet = good;
            change(packet);
            sw.expect_drop(what, packet, counter, network().out);
        };
        refused("check", ASK_CNT_bad_check, [](Packet& p) { p.check = 1; });
        Bytes frame = good.frame();
        frame[42 + 48 + 7] ^= 1;
        sw.expect("another set", frame, XDP_DROP, ASK_CNT_bad_check, frame, network().out);
        refused("cut", ASK_CNT_bad_length, [](Packet& p) { p.bitmaps.pop_back(); });
        refused("longer", ASK_CNT_bad_length, [](Packet& p) { p.body.resize(8); });
        refused("to another", ASK_CNT_bad_address, [](Packet& p) { p.dest = kBehindSide; });
        refused("from another", ASK_CNT_bad_receiver, [](Packet& p) { p.source = kSender; });
        refused("incarnation", ASK_CNT_bad_incarnation, [](Packet& p) { ++p.incarnation; });
        refused("an ACK of a group", ASK_CNT_bad_type, [](Packet& p) {
            p.type = ASK_ACK;
            p.bitmaps.clear();
        });
        sw.expect("of no group here", good.frame(), XDP_REDIRECT, ASK_CNT_transit_ack,
                  good.routed(kInMac, kSenderMac).frame(), network().out);
        Packet unknown = good;
        unknown.task = kOtherInstance;
        sw.expect("of no group here", unknown, XDP_PASS, ASK_CNT_pass_ack);
        CHECK((sw.state() == before));
    }
    SUBCASE("of a task of tuples") {
        sw.add_task(2, {.instance = 77});
        sw.add_flow(5, 0, 2);
        Packet packet = to_member(sw, ASK_NEED);
        packet.task = 77;
        packet.secret = flow_secret(5);
        sw.expect_drop("refused", packet, ASK_CNT_bad_type, network().out);
    }
}

TEST_CASE("a tenant's packets are counted, those of groups among them") {
    Switch& sw = make_group(one_level());
    TaskSpec spec = group_spec();
    spec.bucket = 1;
    sw.set_task(kGroup, spec);
    const std::uint32_t number = 1;
    const ask_bucket bucket{.due = ~0ULL / 2, .cost = 1, .burst = 1, .pad = {}};
    REQUIRE(bpf_map_update_elem(sw.map("buckets"), &number, &bucket, BPF_ANY) == 0);
    sw.expect_drop("too many", value(sw, 0), ASK_CNT_drop_rate, port_of(0));
}

TEST_CASE("a flow of no channel belongs to groups alone") {
    Switch& sw = make_group(one_level());
    TaskSpec spec = group_spec();
    spec.service = ASK_SERVICE_TUPLES;
    sw.set_task(kGroup, spec);
    const State before = sw.state();
    sw.expect("tuples have none", result(sw, 1, words_of(9), ASK_F_GROUP), XDP_ABORTED, ASK_CNT_abort_state);
    CHECK((sw.state() == before));
}

namespace {

std::uint32_t run_quietly(int program, const Bytes& frame, std::uint32_t ifindex, Bytes& out) {
    xdp_md context{};
    context.data_end = static_cast<__u32>(frame.size());
    context.ingress_ifindex = ifindex;
    out.resize(4096);
    LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame.data(), .data_out = out.data(),
                .data_size_in = static_cast<__u32>(frame.size()),
                .data_size_out = static_cast<__u32>(out.size()), .ctx_in = &context,
                .ctx_size_in = sizeof(context), .repeat = 1);
    const bool ran = bpf_prog_test_run_opts(program, &options) == 0;
    out.resize(options.data_size_out);
    return ran ? options.retval : ~0U;
}

constexpr std::size_t kRaces = 4000;
constexpr std::size_t kRacingBlocks = 53;

// The pool as a daemon has it.
class SlotMemory {
 public:
    explicit SlotMemory(int map) : slots_(map_memory(map)) {}
    ~SlotMemory() { ::munmap(slots_, sizeof(ask_value_slot)); }
    SlotMemory(const SlotMemory&) = delete;
    SlotMemory& operator=(const SlotMemory&) = delete;

    // Empties the first slot if nobody owns it, as its owner.
    [[nodiscard]] bool empty_first() const {
        const std::atomic_ref own(slots_->own);
        __u64 expected = ASK_SLOT_FREE;
        if (!own.compare_exchange_strong(expected, ASK_SLOT_DAEMON)) {
            return false;
        }
        slots_->phase = ASK_SLOT_EMPTY;
        own.exchange(ASK_SLOT_FREE);
        return true;
    }

 private:
    static ask_value_slot* map_memory(int map) {
        void* const address =
            ::mmap(nullptr, sizeof(ask_value_slot), PROT_READ | PROT_WRITE, MAP_SHARED, map, 0);
        REQUIRE(address != MAP_FAILED);
        return static_cast<ask_value_slot*>(address);
    }

    ask_value_slot* slots_;
};

// What one CPU saw of a race: results, and those whose words are not the sum's.
struct Seen {
    std::uint64_t results = 0;
    std::uint64_t wrong = 0;
    std::uint64_t forwarded = 0;
    std::uint64_t failed = 0;
};

// Until the other has got there: at once if it runs. One that does not is waited for without a CPU, which it
// may need: two that spin, beside whatever else runs, would spend a turn of the scheduler's on each meeting.
void await_at(const std::atomic<std::size_t>& reached, std::size_t seq) {
    constexpr unsigned kSpins = 100'000;
    for (unsigned spins = 0; reached.load() < seq; ++spins) {
        if (spins >= kSpins) {
            reached.wait(seq - 1);
        }
    }
}

void look_at(const Bytes& out, std::uint32_t action, std::uint64_t sum, Seen& seen) {
    if (action != XDP_DROP && action != XDP_TX && action != XDP_REDIRECT) {
        ++seen.failed;
        return;
    }
    if (action == XDP_DROP) {
        return;
    }
    if (out[43] != ASK_RESULT) {
        ++seen.forwarded;
        return;
    }
    ++seen.results;
    for (std::size_t i = 0; i < kRacingBlocks * 8; ++i) {
        std::uint64_t word = 0;
        std::memcpy(&word, out.data() + 42 + 64 + 8 * i, sizeof(word));
        if (word != sum) {
            ++seen.wrong;
            return;
        }
    }
}

}  // namespace

TEST_CASE("members on two CPUs at one slot, with an owner that empties it: no result is wrong") {
    ask_group group = one_level();
    group.all = group.want = group.local = 3;
    group.pool_slots = 1;
    group.window = 1 << 20;
    Switch& sw = make_group(group);
    // Both CPUs send both members' values of one seq after the other: repeats, late ones, take-overs.
    std::vector<std::array<Bytes, 2>> frames(kRaces);
    for (std::size_t seq = 1; seq <= kRaces; ++seq) {
        for (unsigned member = 0; member < 2; ++member) {
            frames[seq - 1].at(member) =
                value(sw, member, 1U << member, seq, Words(kRacingBlocks * 8, seq << 2 | 1U << member))
                    .frame();
        }
    }
    const std::array<std::uint32_t, 2> ports{port_of(0), port_of(1)};
    const int program = sw.program();
    const std::vector<unsigned> cpus = allowed_cpus();
    std::array<Seen, 2> seen{};
    std::atomic<unsigned> waiting{2};
    std::atomic<unsigned> seen_all{0};
    std::array<std::atomic<std::size_t>, 2> reached{};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 2; ++i) {
        threads.emplace_back([&, i] {
            cpu_set_t set;
            CPU_ZERO(&set);
            CPU_SET(cpus[i % cpus.size()], &set);
            ::sched_setaffinity(0, sizeof(set), &set);
            --waiting;
            while (waiting.load() != 0) {
                std::this_thread::yield();
            }
            Bytes out;
            for (std::size_t seq = 1; seq <= kRaces; ++seq) {
                // Side by side, or they would hardly meet in the slot.
                reached.at(i) = seq;
                reached.at(i).notify_one();
                await_at(reached.at(1 - i), seq);
                for (unsigned turn = 0; turn < 4; ++turn) {
                    const unsigned member = (i + turn) % 2;
                    const std::uint32_t action =
                        run_quietly(program, frames[seq - 1].at(member), ports.at(member), out);
                    look_at(out, action, (seq << 3) + 3, seen.at(i));
                }
            }
            ++seen_all;
        });
    }
    const SlotMemory memory(sw.map("value_slots"));
    std::uint64_t emptied = 0;
    while (seen_all.load() < 2) {
        emptied += memory.empty_first() ? 1U : 0U;
        std::this_thread::yield();
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    CHECK(emptied > 0);
    CHECK(seen[0].failed + seen[1].failed == 0);
    CHECK(seen[0].wrong + seen[1].wrong == 0);
    CHECK(seen[0].results + seen[1].results > kRaces);
    CHECK(sw.value_slot(0).own == ASK_SLOT_FREE);
}

TEST_CASE("over real links each member gets the result, addressed to it, beside what is only forwarded") {
    using namespace std::chrono_literals;
    Switch& sw = make_group(one_level());
    const Attached attached(sw.program());
    std::vector<Host> hosts;
    for (const FanMember& member : members()) {
        hosts.emplace_back(member.host_interface);
    }
    const auto expect_copies = [&](const Packet& made, unsigned but) {
        unsigned at = 0;
        for (const FanMember& member : members()) {
            CAPTURE(member.host_interface);
            Packet expected = made.routed(member.port_mac, member.mac);
            expected.dest = member.address;
            if (at != but) {
                CHECK(hex(hosts[at].receive(5s)) == hex(expected.frame()));
            }
            ++at;
        }
    };
    const Packet alone = with_flags(value(sw, 0, 2), ASK_F_ALONE);
    hosts[0].send(value(sw, 0).frame());
    hosts[1].send(value(sw, 1).frame());
    // The member that makes it complete sends a plain packet to a port of the fan in the same burst.
    hosts[0].send(alone.frame());
    CHECK(hex(hosts[1].receive(5s)) == hex(alone.routed(kOutMac, kReceiverMac).frame()));
    const Packet last = value(sw, 2);
    hosts[2].send(last.frame());
    expect_copies(result_of(last, words_of(0) + words_of(1) + words_of(2), ASK_F_GROUP), 3);
    const Packet by_collector = result(sw, 2, words_of(9), ASK_F_GROUP);
    hosts[1].send(by_collector.frame());
    expect_copies(by_collector, 1);
    for (const Host& host : hosts) {
        CHECK(host.receive(50ms).empty());
    }
}
