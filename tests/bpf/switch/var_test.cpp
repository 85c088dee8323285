// SPDX-License-Identifier: Apache-2.0
//
// VAR: whole keys that the back level alone takes (bpf/tuples/var.bpf.h).
#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/bpf/switch/harness.h"

using namespace ask;
using namespace ask::test;

namespace {

using Entries = std::vector<std::pair<std::string, std::int64_t>>;

constexpr std::int64_t kMostValue = (std::int64_t{1} << 62) - 1;
constexpr BackBuckets kRoom{64, 64, 64, 64};
constexpr TaskSpec kWholeKeys{
    .short_slots = 4, .groups = 4, .m = 4, .rows = 2, .aggregators = 1, .back = kRoom};

std::string key_of(std::size_t length, char first = 'a') {
    std::string key;
    for (std::size_t i = 0; i < length; ++i) {
        key += static_cast<char>(static_cast<unsigned char>(first) + i % 23);
    }
    return key;
}

// A key of each group's longest length, and its `number`th.
std::string key_in(unsigned group, unsigned number) {
    return key_of(kBackKeyBytes[group] - 2, 'A') + std::to_string(number + 10);
}

std::vector<std::uint64_t> words_of(const std::string& key) {
    const Bytes bytes = encode_whole_key(key);
    std::vector<std::uint64_t> words(bytes.size() / 8);
    std::memcpy(words.data(), bytes.data(), bytes.size());
    return words;
}

std::uint64_t hash_of(const std::string& key) {
    const std::vector<std::uint64_t> words = words_of(key);
    std::uint64_t hash = ask_back_hash8(kBackSeed, words[0]);
    for (std::size_t i = 1; i < words.size(); ++i) {
        hash = ask_back_hash_add(hash, words[i]);
    }
    return hash;
}

// A bucket as words, whatever its group.
using Words = std::vector<std::uint64_t>;
Words bucket_words(const Switch& sw, unsigned group, std::uint32_t index) {
    Words words(32);
    const ask_back64 wide = group == ASK_BACK_64 ? sw.bucket<ask_back64>(0, group, index) : ask_back64{};
    const ask_back32 middle = group == ASK_BACK_32 ? sw.bucket<ask_back32>(0, group, index) : ask_back32{};
    const ask_back16 small = group == ASK_BACK_16 ? sw.bucket<ask_back16>(0, group, index) : ask_back16{};
    const ask_back8 least = group == ASK_BACK_8 ? sw.bucket<ask_back8>(0, group, index) : ask_back8{};
    const void* from = group == ASK_BACK_64   ? static_cast<const void*>(&wide)
                       : group == ASK_BACK_32 ? static_cast<const void*>(&middle)
                       : group == ASK_BACK_16 ? static_cast<const void*>(&small)
                                              : &least;
    std::memcpy(words.data(), from, kBackBucketBytes[group]);
    return words;
}

}  // namespace

TEST_CASE("records of every group are taken, added up, and their packet is acknowledged") {
    for (const Way& way : kWays) {
        CAPTURE(to_string(way));
        Switch& sw = Switch::get(way);
        sw.add_default(kWholeKeys);
        std::vector<Record> all;
        Entries want;
        for (std::size_t length = 1; length <= ASK_VAR_MAX_KEY; ++length) {
            all.push_back({key_of(length), static_cast<std::int64_t>(length) - 30});
            want.emplace_back(key_of(length), 3 * (static_cast<std::int64_t>(length) - 30));
        }
        std::ranges::sort(want);
        for (std::uint64_t seq = 1; seq <= 3; ++seq) {
            sw.expect_ack("all lengths", sw.packet().seq(seq).records(all), ASK_CNT_ack_new);
        }
        CHECK(sw.back() == want);
        CHECK(sw.stats().tuples_aggregated == 192);
        CHECK(sw.stats().tuples_back == 192);
        CHECK(sw.stats().packets_acked == 3);
    }
}

TEST_CASE("a packet of as many records as there can be") {
    Switch& sw = Switch::get({});
    sw.add_default(kWholeKeys);
    std::vector<Record> all;
    Entries want;
    for (unsigned i = 0; i < ASK_VAR_MAX_RECORDS; ++i) {
        all.push_back({"k" + std::to_string(i), 1});
        want.emplace_back("k" + std::to_string(i), 2);
    }
    std::ranges::sort(want);
    sw.expect_ack("first", sw.packet().seq(1).records(all), ASK_CNT_ack_new);
    sw.expect_ack("second", sw.packet().seq(2).records(all), ASK_CNT_ack_new);
    CHECK(sw.back() == want);
}

TEST_CASE("a packet seen before adds nothing, and leaves as it did") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        TaskSpec spec = kWholeKeys;
        spec.back = {64, 0, 64, 0};
        sw.add_default(spec);
        const Packet packet =
            sw.packet().seq(1).records({{"a", 1}, {key_of(12), 2}, {key_of(20), 3}, {key_of(50), 4}});
        sw.expect_left("new", packet, ASK_CNT_fwd_new, {0b1010});
        sw.expect_left("seen", packet, ASK_CNT_fwd_seen, {0b1010});
        CHECK(sw.back() == Entries{{"a", 1}, {key_of(20), 3}});
        const Packet whole = sw.packet().seq(2).records({{"a", 1}});
        sw.expect_ack("new", whole, ASK_CNT_ack_new);
        sw.expect_ack("seen", whole, ASK_CNT_ack_seen);
        CHECK(sw.stats().tuples_aggregated == 3);
        CHECK(sw.stats().tuples_back_full == 2);
        CHECK(sw.stats().packets_seen == 2);
    }
}

TEST_CASE("one that is older than the window, and one whose first copy is on its way") {
    Switch& sw = Switch::get({});
    sw.add_default(kWholeKeys);
    sw.expect_ack("far ahead", sw.packet().seq(1 + ASK_WINDOW).records({{"a", 1}}), ASK_CNT_ack_new);
    sw.expect_drop("stale", sw.packet().seq(1).records({{"a", 1}}), ASK_CNT_drop_stale);
    ask_dedupe_state state{};
    state.seen[2] = 2;
    sw.set_dedupe(0, state);
    sw.expect_drop("in flight", sw.packet().seq(2).records({{"a", 1}}), ASK_CNT_drop_in_flight);
    CHECK(sw.back() == Entries{{"a", 1}});
}

TEST_CASE("minimum and maximum of VAR") {
    for (const Way& way : kWays) {
        for (const unsigned op : {ASK_OP_MIN, ASK_OP_MAX}) {
            Switch& sw = Switch::get(way);
            TaskSpec spec = kWholeKeys;
            spec.op = static_cast<std::uint8_t>(op);
            sw.add_default(spec);
            std::uint64_t seq = 0;
            for (const std::int64_t value : {std::int64_t{5}, -kMostValue, kMostValue, std::int64_t{0}}) {
                sw.expect_ack(
                    "values",
                    sw.packet().seq(++seq).records(
                        {{"a", value}, {key_of(9), value}, {key_of(17), value}, {key_of(64), value}}),
                    ASK_CNT_ack_new);
            }
            const std::int64_t want = op == ASK_OP_MIN ? -kMostValue : kMostValue;
            CHECK(sw.back() ==
                  Entries{{"a", want}, {key_of(9), want}, {key_of(17), want}, {key_of(64), want}});
        }
    }
}

TEST_CASE("a value outside 63 bits claims nothing, and a sum that would leave them stays as it is") {
    for (unsigned group = 0; group < ASK_BACK_GROUPS; ++group) {
        CAPTURE(group);
        Switch& sw = Switch::get({});
        TaskSpec spec = kWholeKeys;
        spec.back = {1, 1, 1, 1};
        sw.add_default(spec);
        std::uint64_t seq = 0;
        for (const std::int64_t value :
             {kMostValue + 1, -kMostValue - 2, std::numeric_limits<std::int64_t>::min()}) {
            sw.expect_left("too large", sw.packet().seq(++seq).records({{key_in(group, 1), value}}),
                           ASK_CNT_fwd_new, {1});
        }
        CHECK(sw.back().empty());
        for (unsigned i = 0; i < kBackEntries[group]; ++i) {
            sw.expect_ack("every place is free",
                          sw.packet().seq(++seq).records({{key_in(group, i), i == 0 ? kMostValue : 1}}),
                          ASK_CNT_ack_new);
        }
        sw.expect_left("no room for a sum",
                       sw.packet().seq(++seq).records({{key_in(group, 0), 1}, {key_in(group, 1), 1}}),
                       ASK_CNT_fwd_new, {1});
        CHECK(sw.back()[0] == std::pair(key_in(group, 0), kMostValue));
        CHECK(sw.back()[1] == std::pair(key_in(group, 1), std::int64_t{2}));
        CHECK(sw.stats().tuples_back_contention == 4);
        CHECK(sw.stats().tuples_back_full == 0);
    }
}

TEST_CASE("a bucket that is full leads to the next candidate, and the last of them into the packet") {
    for (unsigned group = 0; group < ASK_BACK_GROUPS; ++group) {
        CAPTURE(group);
        Switch& sw = Switch::get({});
        TaskSpec spec = kWholeKeys;
        spec.back = {1, 1, 1, 1};
        sw.add_default(spec);
        std::vector<Record> all;
        for (unsigned i = 0; i < kBackEntries[group] + 2; ++i) {
            all.push_back({key_in(group, i), 1});
        }
        const std::uint32_t left = 0b11U << kBackEntries[group];
        sw.expect_left("two too many", sw.packet().seq(1).records(all), ASK_CNT_fwd_new, {left});
        sw.expect_left("again", sw.packet().seq(2).records(all), ASK_CNT_fwd_new, {left});
        CHECK(sw.back().size() == kBackEntries[group]);
        CHECK(std::ranges::all_of(sw.back(), [](const auto& entry) { return entry.second == 2; }));
        CHECK(sw.stats().tuples_back_full == 4);
        CHECK(sw.stats().tuples_back == 2 * kBackEntries[group]);
    }
}

TEST_CASE("an entry of which a word is not there yet is nobody's") {
    for (const unsigned group : {ASK_BACK_16, ASK_BACK_32, ASK_BACK_64}) {
        const std::string key = key_in(group, 1);
        const std::vector<std::uint64_t> words = words_of(key);
        for (std::size_t missing = 0; missing < words.size(); ++missing) {
            CAPTURE(group);
            CAPTURE(missing);
            Switch& sw = Switch::get({});
            TaskSpec spec = kWholeKeys;
            spec.back = {0, 1, 1, 1};
            sw.add_default(spec);
            const std::uint64_t tag = ask_back_tag(hash_of(key));
            Words bucket(32);
            bucket[0] = tag;
            std::ranges::copy(words, bucket.begin() + 1);
            bucket[1 + missing] = 0;
            bucket[1 + words.size()] = ASK_BACK_WORD(7);
            sw.set_bucket(0, group, 0, bucket.data());
            sw.expect_ack("its key", sw.packet().seq(1).records({{key, 3}}), ASK_CNT_ack_new);
            const Words after = bucket_words(sw, group, 0);
            CHECK(after[0] == (tag | tag << ASK_BACK_TAG_BITS));
            CHECK(after[1 + words.size()] == ASK_BACK_WORD(7));
            CHECK(after[1 + (words.size() + 1) + words.size()] == ASK_BACK_WORD(3));
        }
    }
}

TEST_CASE("an entry that has its key and no value yet: the first is what it is, whatever the operator") {
    for (const std::uint8_t op : {ASK_OP_SUM, ASK_OP_MIN, ASK_OP_MAX}) {
        for (unsigned group = 0; group < ASK_BACK_GROUPS; ++group) {
            CAPTURE(group);
            Switch& sw = Switch::get({});
            TaskSpec spec = kWholeKeys;
            spec.op = op;
            spec.back = {1, 1, 1, 1};
            sw.add_default(spec);
            const std::string key = key_in(group, 1);
            const std::vector<std::uint64_t> words = words_of(key);
            Words bucket(32);
            bucket[0] = ask_back_tag(hash_of(key));
            std::ranges::copy(words, bucket.begin() + (group == ASK_BACK_8 ? 0 : 1));
            sw.set_bucket(0, group, 0, bucket.data());
            CHECK(sw.back().empty());
            // Neither the least of 0 and this, nor the most.
            const std::int64_t value = op == ASK_OP_MIN ? 3 : -3;
            sw.expect_ack("the first", sw.packet().seq(1).records({{key, value}}), ASK_CNT_ack_new);
            CHECK(sw.back() == Entries{{key, value}});
            const Words after = bucket_words(sw, group, 0);
            CHECK(after[group == ASK_BACK_8 ? ASK_BACK8_ENTRIES : 1 + words.size()] == ASK_BACK_WORD(value));
        }
    }
}

TEST_CASE("a key with a word of zeros, which no sender writes, is not offered") {
    for (unsigned group = 0; group < ASK_BACK_GROUPS; ++group) {
        CAPTURE(group);
        Switch& sw = Switch::get({});
        sw.add_default(kWholeKeys);
        Packet packet = sw.packet().seq(1).records({{key_in(group, 1), 1}});
        std::fill(packet.body.end() - 8, packet.body.end(), std::uint8_t{0});
        sw.expect_left("a word of zeros", packet, ASK_CNT_fwd_new, {1});
        CHECK(sw.back().empty());
        CHECK(sw.stats().tuples_back_contention == 1);
        CHECK(sw.stats().tuples_back_full == 0);
    }
}

TEST_CASE("a key that comes in DATA and in VAR is in one entry, whatever its length") {
    Switch& sw = Switch::get({});
    sw.add_default(kWholeKeys);
    std::uint64_t seq = 0;
    Entries want;
    for (std::size_t length = 1; length <= 16; ++length) {
        const std::string key = key_of(length);
        const unsigned slot = length <= 4 ? 0 : 4;
        sw.expect_ack("owner", sw.packet().seq(++seq).put(0, slot, slot == 0 ? "zz" : "zzzzzz", 1),
                      ASK_CNT_ack_new);
        if (length % 2 == 0) {
            sw.expect_ack("DATA first", sw.packet().seq(++seq).put(0, slot, key, 1), ASK_CNT_ack_new);
        }
        sw.expect_ack("VAR", sw.packet().seq(++seq).records({{key, 10}}), ASK_CNT_ack_new);
        sw.expect_ack("DATA", sw.packet().seq(++seq).put(1, slot, key, 100), ASK_CNT_ack_new);
        sw.expect_ack("VAR again", sw.packet().seq(++seq).records({{key, 1000}}), ASK_CNT_ack_new);
        want.emplace_back(key, length % 2 == 0 ? 1111 : 1110);
    }
    std::ranges::sort(want);
    CHECK(sw.back() == want);
}

TEST_CASE("without a back level, or one that takes tuples, the packet travels on and its counter says so") {
    Switch& sw = Switch::get({});
    TaskSpec spec = kWholeKeys;
    sw.add_default(spec);
    spec.back = {};
    sw.set_task(0, spec);
    sw.expect_left("closed", sw.packet().seq(1).records({{"a", 1}, {key_of(40), 1}}), ASK_CNT_fwd_new, {3});
    CHECK(sw.stats().tuples_back_full == 2);
    spec.copies = 0;
    sw.set_task(0, spec);
    sw.expect_left("no memory", sw.packet().seq(2).records({{"a", 1}, {key_of(40), 1}}),
                   ASK_CNT_fwd_no_region, {3});
    CHECK(sw.stats().tuples_no_region == 2);
    CHECK(sw.stats().tuples_aggregated == 0);
    CHECK(sw.back().empty());
}

TEST_CASE("a seq that another type had: no bit comes out that did not come in") {
    Switch& sw = Switch::get({});
    TaskSpec spec = kWholeKeys;
    spec.back = {};
    sw.add_default(spec);
    sw.expect_ack("owner", sw.packet().seq(1).put(0, 3, "own", 1), ASK_CNT_ack_new);
    sw.expect_left("DATA", sw.packet().seq(2).put(0, 3, "riv", 1), ASK_CNT_fwd_new, {8});
    sw.expect_ack("VAR", sw.packet().seq(2).records({{"a", 1}}), ASK_CNT_ack_seen);
}

TEST_CASE("VAR that is not what its counts say is dropped ahead of the dedupe, under its own reason") {
    struct Case {
        const char* description;
        ask_counter counter;
        void (*change)(Packet&);
    };
    const Case cases[] = {
        {"no rows", ASK_CNT_bad_geometry, [](Packet& p) { p.bitmaps.clear(); }},
        {"five rows", ASK_CNT_bad_geometry, [](Packet& p) { p.bitmaps.resize(5); }},
        {"255 rows", ASK_CNT_bad_geometry, [](Packet& p) { p.rows_field = 255; }},
        {"another operator", ASK_CNT_bad_geometry, [](Packet& p) { p.op = ASK_OP_MAX; }},
        {"a record less than it says", ASK_CNT_bad_length, [](Packet& p) { ++p.body[0]; }},
        {"a record more", ASK_CNT_bad_length, [](Packet& p) { --p.body[3]; }},
        {"no body", ASK_CNT_bad_length, [](Packet& p) { p.body.clear(); }},
        {"half a word", ASK_CNT_bad_length, [](Packet& p) { p.body.resize(p.body.size() - 4); }},
        {"a word behind the records", ASK_CNT_bad_length,
         [](Packet& p) { p.body.resize(p.body.size() + 8); }},
        {"no records", ASK_CNT_bad_records,
         [](Packet& p) {
             p.body.assign(8, 0);
             p.bitmaps = {0};
         }},
        {"a row more than its records need", ASK_CNT_bad_records, [](Packet& p) { p.bitmaps.push_back(0); }},
        {"a bit beyond the records", ASK_CNT_bad_records, [](Packet& p) { p.bitmaps[0] |= 1U << 4U; }},
        {"the last bit", ASK_CNT_bad_records, [](Packet& p) { p.bitmaps[0] |= 1U << 31U; }},
        {"a reserved byte", ASK_CNT_bad_records, [](Packet& p) { p.body[4] = 1; }},
        {"the last reserved byte", ASK_CNT_bad_records, [](Packet& p) { p.body[7] = 128; }},
        {"129 records", ASK_CNT_bad_records,
         [](Packet& p) { p.records(std::vector<Record>(129, {"a", 1})).bitmaps.resize(4); }},
        {"marked", ASK_CNT_bad_mark, [](Packet& p) { p.mark_switch = 1; }},
        {"a check that does not fit", ASK_CNT_bad_check, [](Packet& p) { p.check = 1; }},
    };
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default(kWholeKeys);
        for (const Case& bad : cases) {
            Packet packet =
                sw.packet().seq(1).records({{"a", 1}, {key_of(12), 2}, {key_of(20), 3}, {key_of(50), 4}});
            bad.change(packet);
            sw.expect_drop(bad.description, packet, bad.counter);
        }
        sw.expect_ack("the good one", sw.packet().seq(1).records({{"a", 1}}), ASK_CNT_ack_new);
    }
}

TEST_CASE("a record that is cleared already is neither offered nor counted") {
    Switch& sw = Switch::get({});
    sw.add_default(kWholeKeys);
    Packet packet = sw.packet().seq(1).records({{"a", 1}, {"b", 2}, {key_of(20), 3}});
    packet.bitmaps[0] = 0b101;
    sw.expect_ack("two of three", packet, ASK_CNT_ack_new);
    CHECK(sw.back() == Entries{{"a", 1}, {key_of(20), 3}});
    CHECK(sw.stats().tuples_aggregated == 2);
}

TEST_CASE("whatever comes in VAR and DATA, each tuple is in one place") {
    std::mt19937_64 random(20261124);
    for (const Way& way : kWays) {
        for (const std::uint32_t buckets : {2U, 16U}) {
            CAPTURE(to_string(way));
            Switch& sw = Switch::get(way);
            TaskSpec spec = kWholeKeys;
            spec.back = {buckets, buckets, buckets, buckets};
            sw.add_default(spec);
            std::int64_t sent = 0;
            std::int64_t travelled = 0;
            std::uint64_t tuples = 0;
            std::uint64_t received = 0;
            for (std::uint64_t seq = 1; seq <= 120; ++seq) {
                std::vector<Record> all;
                const unsigned counts[] = {
                    static_cast<unsigned>(random() % 20), static_cast<unsigned>(random() % 20),
                    static_cast<unsigned>(random() % 15), static_cast<unsigned>(random() % 10 + 1)};
                for (unsigned group = 0; group < 4; ++group) {
                    for (unsigned i = 0; i < counts[group]; ++i) {
                        all.push_back({key_in(group, static_cast<unsigned>(random() % 30)),
                                       static_cast<std::int64_t>(random() % 2001) - 1000});
                        sent += all.back().value;
                    }
                }
                tuples += all.size();
                const Packet packet = sw.packet().seq(seq).records(all);
                const Switch::Outcome outcome = sw.run(packet.frame());
                if (outcome.action == XDP_REDIRECT) {
                    for (std::size_t i = 0; i < all.size(); ++i) {
                        std::uint32_t bitmap = 0;
                        std::memcpy(&bitmap, outcome.frame.data() + 90 + 4 * (i / 32), sizeof(bitmap));
                        if ((__builtin_bswap32(bitmap) >> i % 32 & 1U) != 0) {
                            travelled += all[i].value;
                            ++received;
                        }
                    }
                } else {
                    REQUIRE(outcome.action == XDP_TX);
                }
            }
            std::int64_t held = 0;
            for (const auto& [key, value] : sw.back()) {
                held += value;
            }
            CHECK(sent == held + travelled);
            const ask_flow_stats stats = sw.stats();
            CHECK(tuples == stats.tuples_aggregated + received);
            CHECK(received == stats.tuples_back_full + stats.tuples_back_contention);
            CHECK(stats.tuples_back == stats.tuples_aggregated);
            CHECK(stats.tuples_back > 0);
            CHECK((buckets > 2 || received > 0));
        }
    }
}
