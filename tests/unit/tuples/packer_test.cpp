// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/packer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/bytes.h"
#include "lib/tuples/key_hash.h"
#include "tests/support/combined.h"

namespace ask {
namespace {

constexpr std::int64_t kMost32 = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kLeast32 = std::numeric_limits<std::int32_t>::min();
constexpr std::int64_t kMost63 = (std::int64_t{1} << 62) - 1;
constexpr std::int64_t kLeast63 = -(std::int64_t{1} << 62);
constexpr std::int64_t kMost64 = std::numeric_limits<std::int64_t>::max();

// CHECK for conditions met by the million: doctest's own costs more than what is tested.
void expect(bool holds, const char* what) {
    if (!holds) {
        FAIL(what);
    }
}

struct Seen {
    std::string key;
    std::int64_t value = 0;
    Form form = Form::kLong;
    unsigned slot = 0;
};

// Takes bodies apart again, checking everything that the wire format promises.
class Unpacker {
 public:
    explicit Unpacker(const Geometry& geometry) : geometry_(geometry) {}

    void take(const PacketBody& body, std::span<const std::byte> bytes) {
        switch (body.type) {
            case ASK_DATA:
                return take_data(body, bytes);
            case ASK_VAR:
                return take_var(body, bytes);
            default:
                return take_long(bytes);
        }
    }
    std::vector<Seen> seen;
    std::size_t data_bodies = 0;
    std::size_t long_bodies = 0;
    std::vector<std::size_t> var_payloads;  // bytes of UDP payload

 private:
    void take_var(const PacketBody& body, std::span<const std::byte> bytes) {
        ask_var_hdr header;
        REQUIRE(bytes.size() >= sizeof(header));
        std::memcpy(&header, bytes.data(), sizeof(header));
        CHECK(load_raw<std::uint32_t>(header.reserved) == 0);
        const std::uint32_t records = ask_var_records(&header);
        REQUIRE(records >= 1);
        REQUIRE(records <= ASK_VAR_MAX_RECORDS);
        REQUIRE(body.rows == (records + 31) / 32);
        REQUIRE(bytes.size() == ask_var_body_bytes(&header));
        for (std::uint32_t i = 0; i < 32U * body.rows; ++i) {
            expect((body.bitmap[i / 32] >> (i % 32) & 1) == (i < records ? 1 : 0),
                   "another bitmap than full");
        }
        std::size_t at = sizeof(header);
        for (std::uint32_t group = 0; group < ASK_VAR_GROUPS; ++group) {
            for (std::uint32_t i = 0; i < header.count[group]; ++i, at += ask_var_record_bytes(group)) {
                const auto key = record_key(bytes.data() + at, group);
                expect(key.has_value(), "a record that does not decode");
                seen.push_back({.key = std::string(*key),
                                .value = static_cast<std::int64_t>(load_be<std::uint64_t>(bytes.data() + at)),
                                .form = Form::kVar});
            }
        }
        var_payloads.push_back(sizeof(ask_hdr) + std::size_t{4} * body.rows + bytes.size());
    }

    void take_data(const PacketBody& body, std::span<const std::byte> bytes) {
        ++data_bodies;
        REQUIRE(body.rows >= 1);
        REQUIRE(body.rows <= geometry_.rows);
        REQUIRE(bytes.size() == std::size_t{body.rows} * geometry_.row_bytes());
        CHECK(body.bitmap[body.rows - 1] != 0);
        for (unsigned row = 0; row < body.rows; ++row) {
            // Filled from the top: a slot is used only below a used one.
            expect(row == 0 || (body.bitmap[row] & ~body.bitmap[row - 1]) == 0, "a hole above a used slot");
            for (unsigned slot = 0; slot < geometry_.slots(); ++slot) {
                take_slot(body, bytes, row, slot);
            }
        }
    }

    void take_slot(const PacketBody& body, std::span<const std::byte> bytes, unsigned row, unsigned slot) {
        const unsigned aas = slot_aas(slot, geometry_);
        const auto words = bytes.subspan(
            std::size_t{row} * geometry_.row_bytes() + std::size_t{slot_first_aa(slot, geometry_)} * 8,
            std::size_t{aas} * 8);
        if ((body.bitmap[row] >> slot & 1) == 0) {
            expect(std::all_of(words.begin(), words.end(), [](std::byte b) { return b == std::byte{0}; }),
                   "bytes in a slot that is not used");
            return;
        }
        std::array<char, 16> key;
        const auto size = decode_slot_key(words, key);
        expect(size.has_value(), "a slot that does not decode");
        seen.push_back(
            {.key = {key.data(), *size},
             .value = static_cast<std::int32_t>(load_be<std::uint32_t>(words.data() + aas * 8 - 4)),
             .form = slot < geometry_.short_slots ? Form::kShort : Form::kMedium,
             .slot = slot});
    }

    void take_long(std::span<const std::byte> bytes) {
        ++long_bodies;
        REQUIRE(bytes.size() % 8 == 0);
        const auto u16 = [&](std::size_t at) { return load_be<std::uint16_t>(bytes.data() + at); };
        const unsigned count = u16(0);
        std::size_t at = 8;
        CHECK(u16(6) == 0);
        if (u16(4) > 0) {
            REQUIRE(count == 1);
            take_piece(bytes, u16(2), u16(4));
            at = 22 + std::size_t{u16(20)};
        } else {
            for (unsigned i = 0; i < count; ++i) {
                const auto value = static_cast<std::int64_t>(load_be<std::uint64_t>(bytes.data() + at));
                const std::size_t size = u16(at + 8);
                const char* key = reinterpret_cast<const char*>(bytes.data()) + at + 10;
                seen.push_back({.key = {key, size}, .value = value});
                at += 10 + size;
            }
        }
        REQUIRE(at <= bytes.size());
        CHECK(bytes.size() - at < 8);
        CHECK(std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes.end(),
                          [](std::byte b) { return b == std::byte{0}; }));
    }

    void take_piece(std::span<const std::byte> bytes, unsigned piece, unsigned pieces) {
        const auto u16 = [&](std::size_t at) { return load_be<std::uint16_t>(bytes.data() + at); };
        CHECK(piece == next_piece_);
        CHECK(u16(18) == partial_.size());
        partial_.append(reinterpret_cast<const char*>(bytes.data()) + 22, u16(20));
        next_piece_ = piece + 1;
        if (next_piece_ == pieces) {
            CHECK(partial_.size() == u16(16));
            seen.push_back({.key = partial_,
                            .value = static_cast<std::int64_t>(load_be<std::uint64_t>(bytes.data() + 8))});
            partial_.clear();
            next_piece_ = 0;
        }
    }

    Geometry geometry_;
    std::string partial_;
    unsigned next_piece_ = 0;
};

void drain(Packer& packer, Unpacker& unpacker) {
    std::vector<std::byte> buffer(ASK_MAX_PAYLOAD);
    while (packer.has_body()) {
        const auto body = packer.next(buffer);
        REQUIRE(body);
        unpacker.take(*body, std::span(buffer).first(body->bytes));
    }
}

using Tuples = std::vector<std::pair<std::string, std::int64_t>>;

std::vector<Seen> pack(const Tuples& tuples, const PackerConfig& config, PackerStats* stats = nullptr,
                       std::vector<std::size_t>* var_payloads = nullptr) {
    REQUIRE(check(config).ok());
    Packer packer(config);
    Unpacker unpacker(config.geometry);
    for (const auto& [key, value] : tuples) {
        if (!packer.has_room()) {
            drain(packer, unpacker);
        }
        expect(packer.has_room(), "no room after draining");
        packer.add(key, value);
    }
    packer.finish();
    drain(packer, unpacker);
    CHECK(packer.empty());
    const PackerStats& s = packer.stats();
    CHECK(s.tuples_in == tuples.size());
    CHECK(s.tuples_in == s.slots_filled + s.tuples_long + s.tuples_var);
    CHECK(s.slots_offered ==
          unpacker.data_bodies * config.geometry.slots() * std::uint64_t{config.geometry.rows});
    CHECK(unpacker.seen.size() == s.slots_filled + s.tuples_long + s.tuples_var);
    std::uint64_t bodies = 0;
    std::uint64_t tuples_in_bodies = 0;
    for (std::size_t i = 0; i < s.bodies.size(); ++i) {
        bodies += s.bodies[i];
        tuples_in_bodies += i * s.bodies[i];
    }
    CHECK(bodies == unpacker.data_bodies);
    CHECK(tuples_in_bodies == s.slots_filled);
    if (stats != nullptr) {
        *stats = s;
    }
    if (var_payloads != nullptr) {
        *var_payloads = unpacker.var_payloads;
    }
    return unpacker.seen;
}

TEST_CASE("every key takes the form that the design gives it") {
    const Geometry g;  // 16+8x2
    const auto zero = [](const char* text, std::size_t size) { return std::string(text, size); };
    CHECK(form_of("", 1, g) == Form::kLong);
    CHECK(form_of("a", 1, g) == Form::kShort);
    CHECK(form_of("abcd", 1, g) == Form::kShort);
    CHECK(form_of("abcde", 1, g) == Form::kMedium);
    CHECK(form_of("abcdefgh", 1, g) == Form::kMedium);
    CHECK(form_of("abcdefghi", 1, g) == Form::kLong);
    CHECK(form_of(zero("\0", 1), 1, g) == Form::kLong);
    CHECK(form_of(zero("a\0", 2), 1, g) == Form::kLong);
    CHECK(form_of(zero("a\0b", 3), 1, g) == Form::kLong);
    CHECK(form_of("\x01", 1, g) == Form::kShort);
    CHECK(form_of("a", kMost32, g) == Form::kShort);
    CHECK(form_of("a", kMost32 + 1, g) == Form::kLong);
    CHECK(form_of("a", kLeast32, g) == Form::kShort);
    CHECK(form_of("a", kLeast32 - 1, g) == Form::kLong);
    const Geometry only_short{.short_slots = 8, .groups = 0, .m = 0, .rows = 1};
    CHECK(form_of("abcde", 1, only_short) == Form::kLong);
    const Geometry only_medium{.short_slots = 0, .groups = 8, .m = 4, .rows = 1};
    CHECK(form_of("a", 1, only_medium) == Form::kMedium);
    CHECK(form_of("abcdefghijklmnop", 1, only_medium) == Form::kMedium);
    CHECK(form_of("abcdefghijklmnopq", 1, only_medium) == Form::kLong);
}

TEST_CASE("where whole keys are agreed, what fits no slot is VAR as far as the back level takes it") {
    const Geometry g;  // 16+8x2
    const auto form = [&](const std::string& key, std::int64_t value) {
        return form_of(key, value, g, true);
    };
    CHECK(form("", 1) == Form::kLong);
    CHECK(form("abcd", 1) == Form::kShort);
    CHECK(form("abcdefgh", kLeast32) == Form::kMedium);
    CHECK(form("abcdefghi", 1) == Form::kVar);
    CHECK(form("a", kMost32 + 1) == Form::kVar);
    CHECK(form("abcdefgh", kLeast32 - 1) == Form::kVar);
    CHECK(form(std::string(64, 'k'), kMost63) == Form::kVar);
    CHECK(form(std::string(64, 'k'), kLeast63) == Form::kVar);
    CHECK(form(std::string(65, 'k'), 1) == Form::kLong);
    CHECK(form("a", kMost63 + 1) == Form::kLong);
    CHECK(form("a", kLeast63 - 1) == Form::kLong);
    for (std::size_t size = 1; size <= ASK_VAR_MAX_KEY; ++size) {
        for (std::size_t at = 0; at < size; ++at) {
            std::string key(size, 'k');
            key[at] = '\0';
            expect(form(key, 1) == Form::kLong, "a key with a zero byte is not LONG");
            expect(form(key, kMost63) == Form::kLong, "a key with a zero byte is not LONG");
        }
    }
}

Tuples key_classes() {
    Tuples tuples;
    for (const unsigned size :
         {0U, 1U, 3U, 4U, 5U, 8U, 9U, 16U, 17U, 24U, 32U, 33U, 56U, 63U, 64U, 65U, 4096U, 65535U}) {
        for (const std::int64_t value :
             {std::int64_t{-1}, kMost32, kLeast32, kMost63, kLeast63, kLeast63 - 1, kMost64}) {
            tuples.emplace_back(std::string(size, 'k'), value);
            if (size > 0) {
                tuples.emplace_back(std::string(size - 1, 'k') + '\0', value);
                tuples.emplace_back('\0' + std::string(size - 1, 'k'), value);
                tuples.emplace_back(std::string(size - 1, '\xff') + '\x01', value);
            }
        }
    }
    return tuples;
}

TEST_CASE("every key class comes out as it went in") {
    const Tuples tuples = key_classes();
    std::multiset<std::pair<std::string, std::int64_t>> expected(tuples.begin(), tuples.end());
    for (const char* text : {"16+8x2", "32", "0+16x4", "0+32x1", "4+3x3"}) {
        for (const std::uint32_t payload : {800U, ASK_MAX_PAYLOAD}) {
            for (const std::uint32_t hold : {1U, 7U, 4096U}) {
                const auto geometry = parse_geometry(text, payload);
                REQUIRE(geometry.ok());
                for (const bool whole_keys : {false, true}) {
                    std::multiset<std::pair<std::string, std::int64_t>> got;
                    for (const Seen& seen : pack(tuples, {.geometry = *geometry,
                                                          .hold = hold,
                                                          .payload_limit = payload,
                                                          .whole_keys = whole_keys})) {
                        expect(seen.form == form_of(seen.key, seen.value, *geometry, whole_keys),
                               "another form than form_of says");
                        got.emplace(seen.key, seen.value);
                    }
                    CHECK(got == expected);
                }
            }
        }
    }
}

TEST_CASE("a key always takes the same slot, and slots get their share of keys") {
    const Geometry geometry;
    std::mt19937_64 random(1);
    Tuples tuples;
    for (int i = 0; i < 50'000; ++i) {
        tuples.emplace_back(std::to_string(random() % 20'000), 1);
    }
    std::map<std::string, unsigned> slot_of;
    std::vector<unsigned> keys(geometry.slots());
    for (const Seen& seen : pack(tuples, {.geometry = geometry})) {
        const auto [at, fresh] = slot_of.emplace(seen.key, seen.slot);
        expect(at->second == seen.slot, "one key in two slots");
        keys[seen.slot] += fresh ? 1U : 0U;
    }
    // 10000 short keys over 16 slots, 10000 medium ones over 8.
    for (unsigned slot = 0; slot < geometry.slots(); ++slot) {
        const double share = slot < 16 ? 1.0 / 16 : 1.0 / 8;
        const double all =
            static_cast<double>(slot < 16 ? std::min<std::size_t>(slot_of.size(), 10'000) : 9000);
        CHECK(keys[slot] > 0.75 * share * all);
        CHECK(keys[slot] < 1.35 * share * all);
    }
}

TEST_CASE("a slot map puts keys where it says") {
    const Geometry geometry{.short_slots = 2, .groups = 3, .m = 2, .rows = 2};
    auto map = std::make_shared<SlotMap>();
    for (unsigned bucket = 0; bucket < SlotMap::kBuckets; ++bucket) {
        map->short_slot[bucket] = static_cast<std::uint8_t>(bucket % 2);
        map->medium_slot[bucket] = static_cast<std::uint8_t>(4 - bucket % 3);
    }
    Tuples tuples;
    std::multiset<std::string> expected;
    for (int i = 0; i < 5'000; ++i) {
        tuples.emplace_back(std::to_string(i * 7), 1);
        expected.insert(tuples.back().first);
    }
    std::multiset<std::string> got;
    for (const Seen& seen : pack(tuples, {.geometry = geometry, .slot_map = map})) {
        got.insert(seen.key);
        const unsigned bucket = SlotMap::bucket_of(key_hash(seen.key));
        expect(seen.slot == (seen.key.size() <= 4 ? bucket % 2 : 4 - bucket % 3), "another slot than mapped");
    }
    CHECK(got == expected);
}

TEST_CASE("tuples wait until the window of held ones is full") {
    const Geometry geometry;
    Packer packer({.geometry = geometry, .hold = 500});
    for (int i = 0; i < 499; ++i) {
        packer.add(std::to_string(i), 1);
        CHECK_FALSE(packer.has_body());
    }
    packer.add("last", 1);
    CHECK(packer.has_body());
    CHECK_FALSE(packer.has_room());
    Unpacker unpacker(geometry);
    drain(packer, unpacker);
    CHECK(packer.has_room());
    CHECK(unpacker.data_bodies == 1);
    // Everything up to three digits is short: a packet's full share of them.
    CHECK(unpacker.seen.size() == 64);
    CHECK_FALSE(packer.empty());
}

TEST_CASE("words as frequent as in a text, merged, take a fraction of the packets") {
    // Ranks by Zipf's law; frequent words are short, as in any language.
    std::mt19937_64 random(5);
    std::vector<double> weights;
    for (int rank = 1; rank <= 20'000; ++rank) {
        weights.push_back(1.0 / rank);
    }
    std::discrete_distribution<int> zipf(weights.begin(), weights.end());
    const auto word = [](int rank) {
        std::mt19937_64 letters(static_cast<std::uint64_t>(rank));
        std::string text(rank < 200 ? 2 + letters() % 3 : 4 + letters() % 5, ' ');
        std::generate(text.begin(), text.end(), [&] { return static_cast<char>('a' + letters() % 26); });
        return text;
    };
    Tuples tuples;
    for (int i = 0; i < 150'000; ++i) {
        tuples.emplace_back(word(zipf(random)), 1);
    }
    PackerStats merged;
    PackerStats plain;
    pack(test::combined(tuples, Op::kSum, 4096), {.geometry = {}}, &merged);
    pack(tuples, {.geometry = {}}, &plain);
    CHECK(merged.tuples_in < tuples.size() / 2);
    CHECK(merged.slots_offered < plain.slots_offered / 3);
}

TEST_CASE("memory stays bounded however long the keys") {
    Packer packer({.geometry = {}, .hold = 1 << 20, .payload_limit = 1472});
    std::mt19937_64 random(2);
    std::size_t waiting = 0;
    while (packer.has_room()) {
        std::string key(60'000, 'x');
        std::memcpy(key.data(), &waiting, sizeof(waiting));
        packer.add(key, 1);
        waiting += key.size();
        REQUIRE(waiting < std::size_t{5} << 20);
    }
    CHECK(packer.has_body());
    packer.finish();
    Unpacker unpacker(Geometry{});
    drain(packer, unpacker);
    CHECK(unpacker.seen.size() * 60'000 == waiting);
}

TEST_CASE("of several tuples as many are taken as there is room for") {
    const std::string key(60'000, 'x');
    std::vector<Tuple> tuples;
    for (int i = 0; i < 200; ++i) {
        tuples.emplace_back("short", i);
    }
    SUBCASE("in the window") {
        Packer packer({.geometry = {}, .hold = 150});
        CHECK(packer.room() == 150);
        CHECK(packer.add(std::span(tuples).first(100)) == 100);
        CHECK(packer.room() == 50);
        CHECK(packer.add(tuples) == 50);
        CHECK(packer.add(tuples) == 0);
        CHECK(packer.stats().tuples_in == 150);
    }
    SUBCASE("of long keys") {
        Packer packer({.geometry = {}, .hold = 4096});
        tuples.assign(200, Tuple(key, 1));
        const std::size_t taken = packer.add(tuples);
        CHECK(taken > 60);
        CHECK(taken < 70);
        CHECK_FALSE(packer.has_room());
        CHECK(packer.add(std::span(tuples).first(1)) == 0);
        CHECK(packer.stats().tuples_in == taken);
    }
}

TEST_CASE("long keys come and go through the ring without mixing") {
    std::mt19937_64 random(8);
    Tuples tuples;
    for (int i = 0; i < 1500; ++i) {
        std::string key(17 + random() % (random() % 40 == 0 ? 65000 : 3000), '\0');
        std::generate(key.begin(), key.end(), [&] { return static_cast<char>(random()); });
        tuples.emplace_back(key, i);
    }
    std::multiset<std::pair<std::string, std::int64_t>> expected(tuples.begin(), tuples.end());
    std::multiset<std::pair<std::string, std::int64_t>> got;
    for (const Seen& seen : pack(tuples, {.geometry = {}, .hold = 2000})) {
        got.emplace(seen.key, seen.value);
    }
    CHECK((got == expected));
}

TEST_CASE("a tuple for a key that is being cut into pieces is not lost") {
    Packer packer({.geometry = {}, .hold = 1});
    Unpacker unpacker(Geometry{});
    const std::string key(5000, 'p');
    packer.add(key, 1);
    std::vector<std::byte> buffer(1472);
    auto body = packer.next(buffer);
    REQUIRE(body);
    unpacker.take(*body, std::span(buffer).first(body->bytes));
    CHECK(packer.has_body());
    drain(packer, unpacker);
    packer.add(key, 2);
    packer.finish();
    drain(packer, unpacker);
    REQUIRE(unpacker.seen.size() == 2);
    CHECK(unpacker.seen[0].value + unpacker.seen[1].value == 3);
}

std::string random_key(std::mt19937_64& random, std::size_t size, bool zero_bytes = false) {
    std::string key(size, '\0');
    std::generate(key.begin(), key.end(),
                  [&] { return static_cast<char>(zero_bytes ? random() : 1 + random() % 255); });
    return key;
}

TEST_CASE("a record of any key and value reads back") {
    std::mt19937_64 random(3);
    for (std::size_t size = 1; size <= ASK_VAR_MAX_KEY; ++size) {
        for (int i = 0; i < 300; ++i) {
            const std::string key = random_key(random, size);
            const auto value = static_cast<std::int64_t>(random());
            const std::uint32_t group = ask_var_group(static_cast<std::uint32_t>(size));
            std::array<std::byte, 80> record;
            record.fill(std::byte{0xee});
            write_record(record.data(), key, value);
            const std::size_t end = ask_var_record_bytes(group);
            expect(record[end] == std::byte{0xee}, "a record is longer than its group's");
            expect(record_key(record.data(), group) == key, "another key");
            expect(static_cast<std::int64_t>(load_be<std::uint64_t>(record.data())) == value,
                   "another value");
            for (std::size_t at = 8; at < end; at += 8) {
                expect(load_raw<std::uint64_t>(record.data() + at) != 0, "a word of a key is 0");
            }
        }
    }
}

// Whatever decodes is, encoded, what it was made of: so there is one encoding of each key, and no other
// passes.
TEST_CASE("a record that no sender writes does not decode") {
    std::mt19937_64 random(4);
    std::size_t decoded = 0;
    for (int i = 0; i < 300'000; ++i) {
        const auto group = static_cast<std::uint32_t>(random() % ASK_VAR_GROUPS);
        const std::size_t size =
            (group == 0 ? 1 : (std::size_t{4} << group) + 1) + random() % (std::size_t{4} << group);
        std::array<std::byte, 72> record{};
        write_record(record.data(), random_key(random, size), 1);
        const std::size_t words = ask_var_key_words(group);
        for (auto left = random() % 3; left > 0; --left) {
            std::byte* const word = record.data() + 8 + 8 * (random() % words);
            switch (random() % 5) {
                case 0:
                    store_raw(word, std::uint64_t{ASK_BACK_PAD_WORD});
                    break;
                case 1:
                    store_raw(word, std::uint64_t{0});
                    break;
                default:
                    word[random() % 8] = static_cast<std::byte>(random() % 3);
                    break;
            }
        }
        const auto key = record_key(record.data(), group);
        if (key) {
            ++decoded;
            expect(!key->empty() && !has_zero_byte(*key), "a key that cannot travel so");
            expect(ask_var_group(static_cast<std::uint32_t>(key->size())) == group, "a key of another group");
            std::array<std::byte, 72> again{};
            write_record(again.data(), *key, 1);
            expect(again == record, "two encodings of one key");
        }
    }
    CHECK(decoded > 50'000);
    CHECK(decoded < 250'000);
}

// One of any form, as streams may mix them.
std::pair<std::string, std::int64_t> random_tuple(std::mt19937_64& random, unsigned kind) {
    const auto wide = static_cast<std::int64_t>(random()) >> (random() % 64);
    switch (kind) {
        case 0:
            return {random_key(random, 1 + random() % 8), static_cast<std::int32_t>(wide)};
        case 1:
            return {random_key(random, 1 + random() % 64), wide};
        case 2:
            return {random_key(random, 33 + random() % 32), wide};
        case 3:
            return {random_key(random, random() % 80, true), wide};
        default:
            return {random_key(random, random() % 5000, true), wide};
    }
}

TEST_CASE("streams of all forms, in any mix and however they are drained, come out as they went in") {
    std::mt19937_64 random(6);
    for (int round = 0; round < 300; ++round) {
        const PackerConfig config{
            .geometry = *parse_geometry(round % 2 == 0 ? "16+8x2*1" : "4+3x3*1", 1472),
            .hold = static_cast<std::uint32_t>(1 + random() % (random() % 2 == 0 ? 8 : 3000)),
            .payload_limit = static_cast<std::uint32_t>(400 + random() % 3000),
            .whole_keys = round % 5 != 0};
        Packer packer(config);
        Unpacker unpacker(config.geometry);
        std::vector<std::byte> buffer(ASK_MAX_PAYLOAD);
        std::multiset<std::pair<std::string, std::int64_t>> expected;
        const unsigned kinds = 1U + static_cast<unsigned>(random() % 31);
        for (int left = 2000; left > 0;) {
            if (packer.has_room() && random() % 64 != 0) {
                unsigned kind = 0;
                do {
                    kind = static_cast<unsigned>(random() % 5);
                } while ((kinds >> kind & 1U) == 0);
                const auto tuple = random_tuple(random, kind);
                packer.add(tuple.first, tuple.second);
                expected.insert(tuple);
                --left;
            } else if (packer.has_body()) {
                const auto body = packer.next(buffer);
                REQUIRE(body);
                unpacker.take(*body, std::span(buffer).first(body->bytes));
            } else {
                expect(packer.has_room(), "neither room nor a body");
            }
        }
        packer.finish();
        drain(packer, unpacker);
        CHECK(packer.empty());
        std::multiset<std::pair<std::string, std::int64_t>> got;
        for (const Seen& seen : unpacker.seen) {
            got.emplace(seen.key, seen.value);
        }
        CHECK(got == expected);
    }
}

TEST_CASE("whole keys leave in full packets, and as soon as one is") {
    std::mt19937_64 random(7);
    for (const std::uint32_t payload : {1472U, ASK_MAX_PAYLOAD}) {
        for (const unsigned shortest : {1U, 9U, 17U, 33U}) {
            Tuples tuples;
            for (int i = 0; i < 20'000; ++i) {
                tuples.emplace_back(random_key(random, shortest + random() % (65 - shortest)), kMost32 + 1);
            }
            std::vector<std::size_t> sizes;
            pack(tuples, {.geometry = {}, .payload_limit = payload, .whole_keys = true}, nullptr, &sizes);
            sizes.pop_back();
            CAPTURE(payload);
            CAPTURE(shortest);
            // What is left is less than a record; or there are as many as may be.
            for (const std::size_t size : sizes) {
                expect(size <= payload, "longer than a packet may be");
                expect(size + 76 > payload || payload > 1472, "a packet is not full");
            }
        }
    }
    Packer packer({.geometry = {}, .hold = 1 << 20, .whole_keys = true});
    std::size_t waiting = 0;
    while (!packer.has_body()) {
        packer.add("a key that no slot takes " + std::to_string(waiting++), 1);
        REQUIRE(waiting < 100);
    }
    CHECK(waiting > 30);
    CHECK(packer.has_room());
}

TEST_CASE("whole keys that cannot leave wait in bounded memory") {
    Packer packer({.geometry = {}, .hold = 1 << 20, .whole_keys = true});
    std::size_t waiting = 0;
    for (; packer.has_room(); ++waiting) {
        packer.add("a key that no slot takes " + std::to_string(waiting), 1);
    }
    CHECK(waiting < 200);
    Unpacker unpacker(Geometry{});
    drain(packer, unpacker);
    CHECK(packer.has_room());
    packer.finish();
    drain(packer, unpacker);
    CHECK(unpacker.seen.size() == waiting);
}

TEST_CASE("a payload that takes no record of VAR is refused where that is agreed") {
    PackerConfig config{.geometry = *parse_geometry("1*1", 1472), .payload_limit = 131};
    CHECK(check(config).ok());
    config.whole_keys = true;
    CHECK(check(config).error().code() == Errc::kUnsupported);
    config.payload_limit = 132;
    Tuples tuples{{std::string(64, 'k'), 1}, {std::string(64, 'l'), 2}};
    CHECK(pack(tuples, config).size() == 2);
}

TEST_CASE("slots that no sender writes do not decode") {
    const auto decodes = [](std::vector<int> bytes) {
        std::vector<std::byte> slot;
        for (const int b : bytes) {
            slot.push_back(static_cast<std::byte>(b));
        }
        std::array<char, 16> out;
        const auto size = decode_slot_key(slot, out);
        return size ? std::string(out.data(), *size) : std::string("refused");
    };
    CHECK(decodes({'a', 0, 0, 0, 1, 2, 3, 4}) == "a");
    CHECK(decodes({'a', 'b', 'c', 'd', 0, 0, 0, 0}) == "abcd");
    CHECK(decodes({0xff, 0xff, 0xff, 0x80, 0, 0, 0, 0}) == "\xff\xff\xff\x80");
    CHECK(decodes({0, 0, 0, 0, 0, 0, 0, 1}) == "refused");
    CHECK(decodes({0, 0, 0, 1, 0, 0, 0, 1}) == "refused");
    CHECK(decodes({'a', 0, 'c', 0, 0, 0, 0, 1}) == "refused");
    CHECK(decodes({0, 'b', 0, 0, 0, 0, 0, 1}) == "refused");
    CHECK(decodes({'a', 'b', 'c', 'd', 0, 0, 0, 0, 'e', 0, 0, 0, 9, 9, 9, 9}) == "abcde");
    CHECK(decodes({'a', 'b', 'c', 'd', 0, 0, 0, 0, 0, 0, 0, 1, 9, 9, 9, 9}) == "abcd");
    CHECK(decodes({'a', 'b', 'c', 0, 0, 0, 0, 0, 0, 0, 0, 1, 9, 9, 9, 9}) == "abc");
    CHECK(decodes({'a', 'b', 'c', 0, 0, 0, 0, 0, 'e', 0, 0, 0, 9, 9, 9, 9}) == "refused");
    CHECK(decodes({'a', 'b', 'c', 'd', 0, 0, 0, 0, 0, 0, 0, 0, 9, 9, 9, 9}) == "refused");
    CHECK(decodes({'a', 'b', 'c', 'd', 0, 0, 0, 7, 'e', 0, 0, 0, 9, 9, 9, 9}) == "refused");
    CHECK(decodes({'a', 'b', 'c', 'd', 0, 0, 0}) == "refused");
    CHECK(decodes({}) == "refused");
}

}  // namespace
}  // namespace ask
