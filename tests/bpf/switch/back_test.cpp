// SPDX-License-Identifier: Apache-2.0
//
// The back level: what finds no aggregator is there, is counted once, and what finds no place there either
// travels on (bpf/tuples/back.bpf.h).
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <bpf/bpf.h>
#include <doctest/doctest.h>

#include "tests/bpf/switch/harness.h"

using namespace ask;
using namespace ask::test;

namespace {

using Entries = std::vector<std::pair<std::string, std::int64_t>>;

constexpr std::int64_t kMostValue = (std::int64_t{1} << 62) - 1;
constexpr BackBuckets kRoom{64, 64};
// Every second key of a slot collides.
constexpr TaskSpec kOnePlace{.aggregators = 1, .back = kRoom};
constexpr TaskSpec kLongKeys{
    .short_slots = 4, .groups = 4, .m = 4, .rows = 2, .aggregators = 1, .back = kRoom};

std::uint64_t key_word(const std::string& key) {
    std::uint64_t word = 0;
    std::memcpy(&word, key.data(), std::min(key.size(), sizeof(word)));
    return word;
}

// Buckets that a key of up to 8 bytes may be in, in the order in which they are tried.
std::vector<std::uint32_t> candidates(const std::string& key, std::uint32_t buckets) {
    std::vector<std::uint32_t> all;
    std::uint64_t hash = ask_back_hash8(kBackSeed, key_word(key));
    for (unsigned i = 0; i < ASK_BACK_CANDIDATES; ++i) {
        all.push_back(ask_back_index(hash, buckets));
        hash = ask_back_next(kBackSeed, hash);
    }
    return all;
}

// Of the values in a packet of two rows of kLongKeys' geometry.
std::int64_t sum_of(const Bytes& frame) {
    constexpr std::size_t kBitmaps = 90;
    constexpr std::size_t kRowBytes = 8 * 20;
    std::int64_t sum = 0;
    for (std::size_t row = 0; row < 2; ++row) {
        std::uint32_t bitmap = 0;
        std::memcpy(&bitmap, frame.data() + kBitmaps + 4 * row, sizeof(bitmap));
        for (std::size_t slot = 0; slot < 8; ++slot) {
            const std::size_t last = slot < 4 ? slot : 4 * (slot - 4) + 7;
            if ((__builtin_bswap32(bitmap) >> slot & 1U) != 0) {
                std::uint32_t value = 0;
                std::memcpy(&value, frame.data() + kBitmaps + 8 + row * kRowBytes + 8 * last + 4,
                            sizeof(value));
                sum += static_cast<std::int32_t>(__builtin_bswap32(value));
            }
        }
    }
    return sum;
}

}  // namespace

TEST_CASE("what finds its aggregator taken is in the back level, and the packet is acknowledged") {
    for (const Way& way : kWays) {
        CAPTURE(to_string(way));
        Switch& sw = Switch::get(way);
        sw.add_default(kOnePlace);
        sw.expect_ack("owners", sw.packet().seq(1).put(0, 0, "own", 1).put(0, 16, "ownowner", 2),
                      ASK_CNT_ack_new);
        sw.expect_ack("rivals", sw.packet().seq(2).put(0, 0, "riv", 3).put(0, 16, "rivals", 4),
                      ASK_CNT_ack_new);
        sw.expect_ack("again", sw.packet().seq(3).put(1, 0, "riv", 30).put(2, 16, "rivals", 40),
                      ASK_CNT_ack_new);
        CHECK(sw.back() == Entries{{"riv", 33}, {"rivals", 44}});
        sw.expect_region(0, {{0, "own", 1}, {16, "ownowner", 2}});
        CHECK(sw.stats().tuples_aggregated == 6);
        CHECK(sw.stats().tuples_back == 4);
        CHECK(sw.stats().packets_acked == 3);
    }
}

TEST_CASE("rows of which all is left, nearly all, or every second: each tuple is taken once") {
    for (const Way& way : kWays) {
        CAPTURE(to_string(way));
        Switch& sw = Switch::get(way);
        sw.add_default({.short_slots = 32, .groups = 0, .m = 0, .aggregators = 1, .back = kRoom});
        Packet owners = sw.packet().seq(1);
        for (unsigned slot = 0; slot < 32; ++slot) {
            owners.put(0, slot, "own", 1);
        }
        sw.expect_ack("owners", owners, ASK_CNT_ack_new);
        constexpr std::array<std::uint32_t, 4> kLeft{0xffffffff, 0xff7fff00, 0x55555555, 0x80ff00fe};
        std::map<std::string, std::int64_t> sums;
        for (std::uint64_t seq = 2; seq <= 5; ++seq) {
            Packet packet = sw.packet().seq(seq);
            for (unsigned row = 0; row < kLeft.size(); ++row) {
                for (unsigned slot = 0; slot < 32; ++slot) {
                    // Of each row one key that has not been here.
                    const std::string key =
                        slot == 8 + row ? "n" + std::to_string(10 * seq + row) : "k" + std::to_string(slot);
                    const auto value = static_cast<std::int32_t>(seq * 1000 + row * 100 + slot);
                    const bool is_left = (kLeft[row] >> slot & 1U) != 0;
                    packet.put(row, slot, is_left ? key : "own", value);
                    sums[key] += is_left ? value : 0;
                }
            }
            sw.expect_ack("rows", packet, ASK_CNT_ack_new);
        }
        std::erase_if(sums, [](const auto& sum) { return sum.second == 0; });
        CHECK(sw.back() == Entries(sums.begin(), sums.end()));
        CHECK(sw.stats().tuples_back == std::uint64_t{4} * (32 + 23 + 16 + 16));
    }
}

TEST_CASE("a packet seen before adds nothing to the back level, and leaves as it did") {
    for (const Way& way : kWays) {
        CAPTURE(to_string(way));
        Switch& sw = Switch::get(way);
        sw.add_default(kOnePlace);
        sw.expect_ack("owner", sw.packet().seq(1).put(0, 0, "own", 1), ASK_CNT_ack_new);
        const Packet rival = sw.packet().seq(2).put(0, 0, "riv", 3);
        sw.expect_ack("rival", rival, ASK_CNT_ack_new);
        sw.expect_ack("the same", rival, ASK_CNT_ack_seen);
        CHECK(sw.back() == Entries{{"riv", 3}});
    }
}

TEST_CASE("keys of every length that a slot takes, with and without padding, are themselves again") {
    const std::vector<std::string> keys = {"a",
                                           "ab",
                                           "abc",
                                           "abcd",
                                           "abcde",
                                           "abcdef",
                                           "abcdefg",
                                           "abcdefgh",
                                           "abcdefghi",
                                           "abcdefghij",
                                           "abcdefghijk",
                                           "abcdefghijkl",
                                           "abcdefghijklm",
                                           "abcdefghijklmn",
                                           "abcdefghijklmno",
                                           "abcdefghijklmnop"};
    Switch& sw = Switch::get({});
    sw.add_default(kLongKeys);
    Entries want;
    std::uint64_t seq = 0;
    for (const std::string& key : keys) {
        const unsigned slot = key.size() <= 4 ? 0 : 4;
        sw.expect_ack("owner", sw.packet().seq(++seq).put(0, slot, slot == 0 ? "zz" : "zzzzzz", 1),
                      ASK_CNT_ack_new);
        sw.expect_ack(key, sw.packet().seq(++seq).put(0, slot, key, -7), ASK_CNT_ack_new);
        sw.expect_ack(key, sw.packet().seq(++seq).put(1, slot, key, 9), ASK_CNT_ack_new);
        want.emplace_back(key, 2);
    }
    CHECK(sw.back() == want);
}

TEST_CASE("a value that an aggregator has no room for is in the back level") {
    constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
    for (const Way& way : kWays) {
        CAPTURE(to_string(way));
        Switch& sw = Switch::get(way);
        sw.add_default(kOnePlace);
        for (std::uint64_t seq = 1; seq <= 4; ++seq) {
            sw.expect_ack("as much as can be", sw.packet().seq(seq).put(0, 0, "k", kMost), ASK_CNT_ack_new);
        }
        CHECK(sw.back() == Entries{{"k", std::int64_t{kMost} * 3}});
        sw.expect_region(0, {{0, "k", kMost}});
    }
}

TEST_CASE("minimum and maximum") {
    for (const Way& way : kWays) {
        for (const unsigned op : {ASK_OP_MIN, ASK_OP_MAX}) {
            CAPTURE(op);
            Switch& sw = Switch::get(way);
            TaskSpec spec = kOnePlace;
            spec.op = static_cast<std::uint8_t>(op);
            sw.add_default(spec);
            sw.expect_ack("owner", sw.packet().seq(1).put(0, 0, "own", 1), ASK_CNT_ack_new);
            std::uint64_t seq = 1;
            for (const std::int32_t value : {5, -9, 7, -3, 0}) {
                sw.expect_ack("rival", sw.packet().seq(++seq).put(0, 0, "riv", value), ASK_CNT_ack_new);
            }
            CHECK(sw.back() == Entries{{"riv", op == ASK_OP_MIN ? -9 : 7}});
        }
    }
}

TEST_CASE("a sum that would leave 63 bits stays as it is, and the tuple travels on") {
    Switch& sw = Switch::get({});
    sw.add_default(kOnePlace);
    sw.expect_ack("owner", sw.packet().seq(1).put(0, 0, "own", 1), ASK_CNT_ack_new);
    const std::uint32_t at = candidates("riv", 64).front();
    for (const auto& [held, value] : {std::pair(kMostValue - 1, 2), std::pair(-kMostValue, -2)}) {
        ask_back8 bucket{};
        bucket.key[1] = key_word("riv");
        bucket.key[0] = key_word("x");
        bucket.value[1] = ASK_BACK_WORD(held);
        sw.set_bucket(0, ASK_BACK_8, at, &bucket);
        const std::uint64_t seq = value > 0 ? 2 : 4;
        sw.expect_left("too much", sw.packet().seq(seq).put(0, 0, "riv", value), ASK_CNT_fwd_new, {1});
        CHECK(sw.bucket<ask_back8>(0, ASK_BACK_8, at).value[1] == ASK_BACK_WORD(held));
        sw.expect_ack("what it has room for", sw.packet().seq(seq + 1).put(0, 0, "riv", value / 2),
                      ASK_CNT_ack_new);
        CHECK(ASK_BACK_VALUE(sw.bucket<ask_back8>(0, ASK_BACK_8, at).value[1]) == held + value / 2);
    }
    CHECK(sw.stats().tuples_back_contention == 2);
    CHECK(sw.stats().tuples_back == 2);
}

TEST_CASE("a bucket that is full leads to the next candidate, and the last of them into the packet") {
    for (const unsigned group : {ASK_BACK_8, ASK_BACK_16}) {
        CAPTURE(group);
        Switch& sw = Switch::get({});
        TaskSpec spec = kLongKeys;
        spec.back = {1, 1};
        sw.add_default(spec);
        const unsigned slot = group == ASK_BACK_8 ? 0 : 4;
        const auto key = [&](unsigned i) {
            return group == ASK_BACK_8 ? "k" + std::to_string(i) : "a long key " + std::to_string(i);
        };
        sw.expect_ack("owner", sw.packet().seq(1).put(0, slot, key(0), 1), ASK_CNT_ack_new);
        std::uint64_t seq = 1;
        Entries want;
        for (unsigned i = 1; i <= kBackEntries[group]; ++i) {
            sw.expect_ack("one more", sw.packet().seq(++seq).put(0, slot, key(i), 1), ASK_CNT_ack_new);
            want.emplace_back(key(i), 1);
        }
        sw.expect_left("one too many", sw.packet().seq(++seq).put(0, slot, key(9), 1), ASK_CNT_fwd_new,
                       {1U << slot});
        CHECK(sw.back() == want);
        CHECK(sw.stats().tuples_back_full == 1);
        CHECK(sw.stats().tuples_collision == 0);
    }
    Switch& sw = Switch::get({});
    sw.add_default(kOnePlace);
    sw.expect_ack("owner", sw.packet().seq(1).put(0, 0, "own", 1), ASK_CNT_ack_new);
    const std::vector<std::uint32_t> at = candidates("riv", 64);
    REQUIRE(at[0] != at[1]);
    ask_back8 full{};
    for (unsigned e = 0; e < ASK_BACK8_ENTRIES; ++e) {
        full.key[e] = key_word("o" + std::to_string(e));
    }
    sw.set_bucket(0, ASK_BACK_8, at[0], &full);
    sw.expect_ack("the second", sw.packet().seq(2).put(0, 0, "riv", 5), ASK_CNT_ack_new);
    CHECK(sw.bucket<ask_back8>(0, ASK_BACK_8, at[1]).key[0] == key_word("riv"));
}

TEST_CASE("an entry that is claimed and has no key yet is nobody's, and nobody else's is taken for it") {
    Switch& sw = Switch::get({});
    TaskSpec spec = kLongKeys;
    spec.back = {0, 1};
    sw.add_default(spec);
    const std::string key = "abcdefghijkl";
    std::uint64_t words[2] = {};
    std::memcpy(static_cast<void*>(words), key.data(), key.size());
    const std::uint64_t tag = ask_back_tag(ask_back_hash16(kBackSeed, words[0], words[1]));
    ask_back16 bucket{};
    bucket.tags = tag | tag << 12;
    bucket.entry[1].key[0] = words[0];
    sw.set_bucket(0, ASK_BACK_16, 0, &bucket);
    sw.expect_ack("owner", sw.packet().seq(1).put(0, 4, "zzzzzzzzz", 1), ASK_CNT_ack_new);
    sw.expect_ack("its key", sw.packet().seq(2).put(0, 4, key, 3), ASK_CNT_ack_new);
    const auto after = sw.bucket<ask_back16>(0, ASK_BACK_16, 0);
    CHECK(after.tags == (tag | tag << 12 | tag << 24));
    CHECK(after.entry[0].value == 0);
    CHECK(after.entry[1].value == 0);
    CHECK(after.entry[2].value == ASK_BACK_WORD(3));
    CHECK(sw.back() == Entries{{key, 3}});
}

TEST_CASE("without a back level of its group, or none that takes tuples, a tuple travels on") {
    Switch& sw = Switch::get({});
    TaskSpec spec = kLongKeys;
    spec.back = {64, 0};
    sw.add_default(spec);
    sw.expect_ack("owners", sw.packet().seq(1).put(0, 0, "own", 1).put(0, 4, "a long owner", 1),
                  ASK_CNT_ack_new);
    sw.expect_left("no place for long keys",
                   sw.packet().seq(2).put(0, 0, "riv", 1).put(0, 4, "a long rival", 1), ASK_CNT_fwd_new,
                   {1U << 4});
    CHECK(sw.back() == Entries{{"riv", 1}});
    spec.back = {};
    sw.set_task(0, spec);
    sw.expect_left("closed", sw.packet().seq(3).put(0, 0, "riv", 1), ASK_CNT_fwd_new, {1});
    CHECK(sw.back() == Entries{{"riv", 1}});
    CHECK(sw.stats().tuples_collision == 1);
    CHECK(sw.stats().tuples_back_full == 1);
}

TEST_CASE("an evicted tuple goes to the back level, and counts as neither lost nor travelled") {
    for (const Way& way : kWays) {
        CAPTURE(to_string(way));
        Switch& sw = Switch::get(way);
        TaskSpec spec = kOnePlace;
        spec.policy = ASK_POLICY_REPLACE;
        sw.add_default(spec);
        sw.expect_ack("owner", sw.packet().seq(1).put(0, 0, "own", 10), ASK_CNT_ack_new);
        sw.expect_ack("cools it", sw.packet().seq(2).put(0, 0, "one", 1), ASK_CNT_ack_new);
        const Packet taker = sw.packet().seq(3).put(0, 0, "two", 2);
        sw.expect_ack("takes its place", taker, ASK_CNT_ack_new);
        sw.expect_ack("the same", taker, ASK_CNT_ack_seen);
        sw.expect_region(0, {{0, "two", 2}});
        CHECK(sw.back() == Entries{{"one", 1}, {"own", 10}});
        CHECK(sw.stats().tuples_aggregated == 3);
        CHECK(sw.stats().tuples_evicted == 0);
        CHECK(sw.stats().tuples_back == 2);
    }
}

TEST_CASE("an evicted tuple that finds no place travels on, and once more when its packet does") {
    Switch& sw = Switch::get({});
    TaskSpec spec = kOnePlace;
    spec.policy = ASK_POLICY_REPLACE;
    spec.back = {1, 0};
    sw.add_default(spec);
    ask_back8 full{};
    for (unsigned e = 0; e < ASK_BACK8_ENTRIES; ++e) {
        full.key[e] = key_word("o" + std::to_string(e));
    }
    sw.set_bucket(0, ASK_BACK_8, 0, &full);
    sw.expect_ack("owner", sw.packet().seq(1).put(0, 0, "own", 10), ASK_CNT_ack_new);
    sw.expect_left("cools it", sw.packet().seq(2).put(0, 0, "one", 1), ASK_CNT_fwd_new, {1});
    const Packet taker = sw.packet().seq(3).put(0, 0, "two", 2);
    const Bytes out = Packet(taker)
                          .put(0, 0, "own", 10)
                          .left(kMarkSwitch, kMarkIncarnation, {1})
                          .routed(kOutMac, kReceiverMac)
                          .frame();
    sw.expect("takes its place", taker.frame(), XDP_REDIRECT, ASK_CNT_fwd_new, out);
    sw.expect("the same", taker.frame(), XDP_REDIRECT, ASK_CNT_fwd_seen, out);
    CHECK(sw.stats().tuples_aggregated == 2);
    CHECK(sw.stats().tuples_evicted == 1);
    CHECK(sw.stats().tuples_back_full == 1);
    CHECK(sw.stats().tuples_back == 0);
}

TEST_CASE("whatever comes, each tuple is in one place") {
    std::mt19937_64 random(20261123);
    for (const Way& way : kWays) {
        for (const std::uint8_t policy : {ASK_POLICY_FIRST_COME, ASK_POLICY_REPLACE}) {
            for (const BackBuckets& buckets : {BackBuckets{2, 2}, BackBuckets{16, 16}}) {
                CAPTURE(to_string(way));
                Switch& sw = Switch::get(way);
                TaskSpec spec = kLongKeys;
                spec.aggregators = 4;
                spec.policy = policy;
                spec.back = buckets;
                sw.add_default(spec);
                std::int64_t sent = 0;
                std::int64_t travelled = 0;
                std::uint64_t tuples = 0;
                for (std::uint64_t seq = 1; seq <= 150; ++seq) {
                    Packet packet = sw.packet().seq(seq);
                    packet.row_count(2);
                    for (unsigned row = 0; row < 2; ++row) {
                        for (unsigned slot = 0; slot < 8; ++slot) {
                            const std::string key = (slot < 4            ? "s"
                                                     : random() % 2 == 0 ? "short-m"
                                                                         : "rather long ") +
                                                    std::to_string(random() % 30);
                            const auto value = static_cast<std::int32_t>(random() % 2001) - 1000;
                            packet.put(row, slot, key, value);
                            sent += value;
                            ++tuples;
                        }
                    }
                    const Switch::Outcome outcome = sw.run(packet.frame());
                    if (outcome.action == XDP_REDIRECT) {
                        travelled += sum_of(outcome.frame);
                    } else {
                        REQUIRE(outcome.action == XDP_TX);
                    }
                }
                std::int64_t held = 0;
                for (const ask_aggregator& word : sw.region(0)) {
                    held += word.vpart;
                }
                for (const auto& [key, value] : sw.back()) {
                    held += value;
                }
                CHECK(sent == held + travelled);
                const ask_flow_stats stats = sw.stats();
                CHECK(tuples ==
                      stats.tuples_aggregated + stats.tuples_back_full + stats.tuples_back_contention);
                CHECK(stats.tuples_back > 0);
                CHECK((buckets[0] > 2 || stats.tuples_back_full > 0));
            }
        }
    }
}

TEST_CASE("programs of the back level that are gone: VAR is dropped as an error, DATA goes on without them") {
    Switch sw({}, {});
    sw.add_default({.aggregators = 1, .back = {1, 1, 1, 1}});
    for (std::uint32_t program = 0; program < 2; ++program) {
        REQUIRE(bpf_map_delete_elem(sw.map("back_programs"), &program) == 0);
    }
    sw.expect("VAR", sw.packet().seq(1).records({{"a", 1}}), XDP_ABORTED, ASK_CNT_abort_state);
    sw.expect_ack("owner", sw.packet().seq(2).put(0, 0, "own", 1), ASK_CNT_ack_new);
    sw.expect_left("what is left", sw.packet().seq(3).put(0, 0, "riv", 1), ASK_CNT_fwd_new, {1});
    CHECK(sw.back().empty());
}
