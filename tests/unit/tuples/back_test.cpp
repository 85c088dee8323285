// SPDX-License-Identifier: Apache-2.0
//
// Sizes of a back level, and walking one.
#include "lib/tuples/back.h"

#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/tuples/fetch_codec.h"

using namespace ask;

namespace {

std::uint64_t word(const std::string& bytes) {
    std::uint64_t out = 0;
    std::memcpy(&out, bytes.data(), std::min(bytes.size(), sizeof(out)));
    return out;
}

template <typename Bucket>
std::vector<std::byte> memory_of(const std::vector<Bucket>& table) {
    std::vector<std::byte> bytes(table.size() * sizeof(Bucket));
    std::memcpy(bytes.data(), table.data(), bytes.size());
    return bytes;
}

// All entries, as "key=value ".
std::string walked(const std::vector<std::byte>& table, unsigned group, std::size_t soft_limit = 1) {
    BackWalker walker(table, group);
    std::string text;
    std::uint64_t count = 0;
    std::uint64_t key_bytes = 0;
    for (bool more = true; more;) {
        std::string entries;
        const auto filled = walker.fill(entries, soft_limit);
        REQUIRE_MESSAGE(filled.ok(), filled.error().text());
        more = *filled;
        for (EntryReader reader(entries); !reader.done(); ++count) {
            const auto entry = reader.next();
            REQUIRE(entry.ok());
            text += std::string(entry->key) + "=" + std::to_string(entry->value) + " ";
            key_bytes += entry->key.size();
        }
    }
    CHECK(walker.count() == count);
    CHECK(measure_back(table, group) == BackSize{.entries = count, .key_bytes = key_bytes});
    return text;
}

}  // namespace

TEST_CASE("a table is at most half full, and of one of few sizes") {
    constexpr std::uint32_t kMost = ASK_BACK_MAX_BUCKETS;
    CHECK(back_for({0, 0, 0, 0}) == BackBuckets{0, 0, 0, 0});
    CHECK(back_for({1, 1, 1, 1}) == BackBuckets{64, 64, 64, 64});
    CHECK(back_for({128, 160, 76, 76}) == BackBuckets{64, 64, 64, 64});
    CHECK(back_for({129, 161, 77, 77}) == BackBuckets{96, 96, 96, 96});
    CHECK(back_for({193, 241, 116, 116}) == BackBuckets{128, 128, 128, 128});
    CHECK(back_for({1'000'000, 0, 0, 1'000'000}) == BackBuckets{524'288, 0, 0, 1'048'576});
    CHECK(back_for({~0ULL, ~0ULL, ~0ULL, ~0ULL}) == BackBuckets{kMost, kMost, kMost, kMost});
    for (std::uint64_t keys = 1; keys < 1'000'000; keys = keys * 9 / 8 + 1) {
        const BackBuckets buckets = back_for({keys, keys, keys, keys});
        for (unsigned group = 0; group < buckets.size(); ++group) {
            const std::uint64_t halves = group < ASK_BACK_32 ? 4 : 5;  // entries for two keys
            const std::uint64_t entries = std::uint64_t{buckets[group]} * kBackEntries[group];
            CHECK(entries * 2 >= halves * keys);
            CHECK((buckets[group] == 64 || entries < halves * keys));
        }
    }
}

TEST_CASE("what is too large gets smaller in its proportions, and what would be much too small is none") {
    const BackBuckets wanted{1024, 512};
    CHECK(back_bytes(wanted) == 131'072);
    CHECK(back_within(wanted, 131'072) == wanted);
    CHECK(back_within(wanted, 131'071) == BackBuckets{768, 384});
    CHECK(back_within(wanted, 65'536) == BackBuckets{512, 256});
    CHECK(back_within(wanted, 16'384) == BackBuckets{128, 64});
    CHECK(back_within(wanted, 16'383) == BackBuckets{});
    CHECK(back_within(wanted, 0) == BackBuckets{});
    CHECK(back_within({1 << 20, 0}, 1 << 22) == BackBuckets{1 << 16, 0});
    CHECK(back_within({1 << 20, 0}, (1 << 22) - 1) == BackBuckets{});
    CHECK(back_within({}, 0) == BackBuckets{});
}

TEST_CASE("a walk finds live entries, whatever their keys are padded with") {
    std::vector<ask_back8> small(3);
    small[0].key[0] = word("a");
    small[0].value[0] = ASK_BACK_WORD(-5);
    small[0].key[3] = word("abcdefgh");
    small[0].value[3] = ASK_BACK_WORD((std::int64_t{1} << 62) - 1);
    small[2].key[1] = word("claimed");
    small[2].key[2] = word("zero");
    small[2].value[2] = ASK_BACK_WORD(0);
    CHECK(walked(memory_of(small), ASK_BACK_8) == "a=-5 abcdefgh=4611686018427387903 zero=0 ");
    CHECK(walked(memory_of(small), ASK_BACK_8, 1'000) == "a=-5 abcdefgh=4611686018427387903 zero=0 ");

    std::vector<ask_back16> large(2);
    for (const unsigned entry : {0U, 4U}) {
        large[1].entry[entry].key[0] = word("abcdefgh");
        large[1].entry[entry].key[1] = word("i");
        large[1].entry[entry].value = ASK_BACK_WORD(std::int64_t{entry} - (std::int64_t{1} << 62));
    }
    large[1].entry[2].key[0] = word("abcdefgh");
    CHECK(walked(memory_of(large), ASK_BACK_16) ==
          "abcdefghi=-4611686018427387904 abcdefghi=-4611686018427387900 ");
}

TEST_CASE("keys of every length are themselves again, without the words that pad them") {
    std::vector<ask_back32> middle(1);
    std::vector<ask_back64> large(2);
    const std::string letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-";
    const auto put = [&letters](auto& entry, std::size_t length) {
        for (std::size_t i = 0; i < std::size(entry.key); ++i) {
            entry.key[i] = 8 * i < length ? word(letters.substr(8 * i, length - 8 * i)) : ASK_BACK_PAD_WORD;
        }
        entry.value = ASK_BACK_WORD(length);
    };
    put(middle[0].entry[0], 17);
    put(middle[0].entry[1], 24);
    put(middle[0].entry[2], 32);
    put(large[0].entry[0], 33);
    put(large[0].entry[2], 40);
    put(large[1].entry[1], 64);
    const auto text = [&letters](std::size_t length) {
        return letters.substr(0, length) + "=" + std::to_string(length) + " ";
    };
    CHECK(walked(memory_of(middle), ASK_BACK_32) == text(17) + text(24) + text(32));
    CHECK(walked(memory_of(large), ASK_BACK_64) == text(33) + text(40) + text(64));
}

TEST_CASE("a key of another group's length ends a walk, and one with a word that is not there yet") {
    for (const std::size_t words : {0U, 1U, 2U}) {
        ask_back32 bucket{};
        for (std::size_t i = 0; i < 4; ++i) {
            bucket.entry[0].key[i] = i < words ? word("abcdefgh") : ASK_BACK_PAD_WORD;
        }
        bucket.entry[0].value = ASK_BACK_WORD(1);
        const std::vector<std::byte> memory = memory_of(std::vector{bucket});
        std::string out;
        CHECK(BackWalker(memory, ASK_BACK_32).fill(out, 100).error().code() == Errc::kInternal);
    }
    ask_back64 torn{};
    std::fill(std::begin(torn.entry[1].key), std::end(torn.entry[1].key), word("abcdefgh"));
    torn.entry[1].key[5] = 0;
    torn.entry[1].value = ASK_BACK_WORD(1);
    const std::vector<std::byte> memory = memory_of(std::vector{torn});
    std::string out;
    CHECK(BackWalker(memory, ASK_BACK_64).fill(out, 100).error().code() == Errc::kInternal);
}

TEST_CASE("a key that no sender writes ends a walk") {
    for (const std::string& key : {std::string(), std::string("\0a", 2), std::string("a\0b", 3)}) {
        std::vector<ask_back8> table(1);
        table[0].key[1] = word(key);
        table[0].value[1] = ASK_BACK_WORD(1);
        const std::vector<std::byte> memory = memory_of(table);
        std::string out;
        CHECK(BackWalker(memory, ASK_BACK_8).fill(out, 100).error().code() == Errc::kInternal);
    }
}

TEST_CASE("what a table has at least is told by some of its buckets, and never as more than it has") {
    CHECK(least_back_size({}, 0, 64) == BackSize{});
    CHECK(least_back_size({}, 64, 64) == BackSize{});
    CHECK(least_back_size({.entries = 16, .key_bytes = 64}, 64, 64) == BackSize{});
    CHECK(least_back_size({.entries = 400, .key_bytes = 2000}, 64, 64) ==
          BackSize{.entries = 320, .key_bytes = 1600});
    CHECK(least_back_size({.entries = 10000, .key_bytes = 80000}, 4096, 1U << 20U) ==
          BackSize{.entries = 2457600, .key_bytes = 19660800});
}
