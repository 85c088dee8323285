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
        (body.type == ASK_DATA ? take_data(body, bytes) : take_long(bytes));
    }
    std::vector<Seen> seen;
    std::size_t data_bodies = 0;
    std::size_t long_bodies = 0;

 private:
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

std::vector<Seen> pack(const Tuples& tuples, const PackerConfig& config, PackerStats* stats = nullptr) {
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
    CHECK(s.tuples_in == s.slots_filled + s.tuples_long);
    CHECK(s.slots_offered ==
          unpacker.data_bodies * config.geometry.slots() * std::uint64_t{config.geometry.rows});
    CHECK(unpacker.seen.size() == s.slots_filled + s.tuples_long);
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

Tuples key_classes() {
    Tuples tuples;
    for (const unsigned size : {0U, 1U, 3U, 4U, 5U, 8U, 9U, 16U, 17U, 4096U, 65535U}) {
        for (const std::int64_t value : {std::int64_t{-1}, kMost32, kLeast32, kMost64}) {
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
    for (const char* text : {"16+8x2*4", "32*4", "0+16x4*2", "0+32x1*2", "4+3x3*8"}) {
        for (const std::uint32_t payload : {800U, ASK_MAX_PAYLOAD}) {
            for (const std::uint32_t hold : {1U, 7U, 4096U}) {
                const auto geometry = parse_geometry(text, ASK_MAX_PAYLOAD);
                REQUIRE(geometry.ok());
                std::multiset<std::pair<std::string, std::int64_t>> got;
                for (const Seen& seen :
                     pack(tuples, {.geometry = *geometry, .hold = hold, .payload_limit = payload})) {
                    expect(seen.form == form_of(seen.key, seen.value, *geometry),
                           "another form than form_of says");
                    got.emplace(seen.key, seen.value);
                }
                CHECK(got == expected);
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
