// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/fetch_codec.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace ask {
namespace {

using Entries = std::map<std::string, std::int64_t>;

Entries read_all(std::string_view bytes) {
    Entries entries;
    EntryReader reader(bytes);
    while (!reader.done()) {
        const auto entry = reader.next();
        REQUIRE(entry.ok());
        CHECK(entries.emplace(entry->key, entry->value).second);
    }
    return entries;
}

TEST_CASE("entries read back, whatever key and value") {
    const Entries entries = {{"", 0},
                             {std::string(1, '\0'), -1},
                             {"abc", 127},
                             {std::string(127, 'k'), std::numeric_limits<std::int64_t>::max()},
                             {std::string(128, 'k'), std::numeric_limits<std::int64_t>::min()},
                             {std::string(65535, 'z'), 64}};
    std::string bytes;
    for (const auto& [key, value] : entries) {
        append_entry(bytes, key, value);
    }
    CHECK(read_all(bytes) == entries);
}

TEST_CASE("an entry cut short anywhere is an error") {
    std::string bytes;
    append_entry(bytes, std::string(200, 'k'), -123456789);
    for (std::size_t size = 1; size < bytes.size(); ++size) {
        EntryReader reader(std::string_view(bytes).substr(0, size));
        CHECK_FALSE(reader.next().ok());
        CHECK_FALSE(reader.done());
    }
    CHECK(EntryReader(bytes).next().ok());
}

TEST_CASE("lengths and numbers out of range are errors") {
    const auto refused = [](std::string bytes) { return !EntryReader(bytes).next().ok(); };
    CHECK(refused(std::string("\x80\x80\x04", 3) + std::string(70000, 'k')));  // key of 65536
    CHECK(refused(std::string(11, '\x80')));
    CHECK(refused(std::string(9, '\xff') + '\x7f'));
    CHECK(refused(std::string(1, '\0') + std::string(9, '\xff') + '\x02'));
    CHECK_FALSE(refused(std::string(1, '\0') + std::string(9, '\xff') + '\x01'));
}

// A region of two sets and two copies to write into.
struct Region {
    explicit Region(const CopyLayout& l)
        : layout(l), words(std::size_t{l.sets} * l.copies * l.geometry.aas() * l.aggregators) {}
    ask_aggregator& at(std::uint32_t set, std::uint32_t copy, std::uint32_t aa, std::uint32_t index) {
        return words[((std::size_t{set} * layout.copies + copy) * layout.geometry.aas() + aa) *
                         layout.aggregators +
                     index];
    }
    void put(std::uint32_t set, std::uint32_t copy, std::uint32_t aa, std::uint32_t index, const char* kpart,
             std::int32_t value) {
        ask_aggregator& word = at(set, copy, aa, index);
        std::memcpy(word.kpart, kpart, 4);
        word.vpart = value;
    }
    CopyLayout layout;
    std::vector<ask_aggregator> words;
};

CopyLayout some_layout(Op op, std::uint32_t copy) {
    return {.geometry = {.short_slots = 2, .groups = 1, .m = 3, .rows = 1},
            .op = op,
            .sets = 2,
            .copies = 2,
            .copy = copy,
            .aggregators = 5};
}

Entries walk(Region& region, std::size_t soft_limit = 1 << 16) {
    std::string bytes;
    CopyWalker walker(region.words, region.layout);
    for (;;) {
        std::string part;
        const auto more = walker.fill(part, soft_limit);
        REQUIRE(more.ok());
        bytes += part;
        if (!*more) {
            break;
        }
    }
    Entries entries;
    EntryReader reader(bytes);
    std::uint64_t count = 0;
    for (; !reader.done(); ++count) {
        const auto entry = reader.next();
        REQUIRE(entry.ok());
        entries[std::string(entry->key)] += entry->value;
    }
    CHECK(count == walker.count());
    return entries;
}

TEST_CASE("a copy's tuples come out, equal keys of its sets as one") {
    for (const Op op : {Op::kSum, Op::kMin, Op::kMax}) {
        Region region(some_layout(op, 1));
        region.put(0, 1, 0, 0, "a\0\0\0", 2147483647);
        region.put(1, 1, 0, 0, "a\0\0\0", 2147483647);
        region.put(0, 1, 1, 4, "abcd", -7);
        region.put(1, 1, 1, 4, "abce", -9);   // another key at the same place
        region.put(0, 0, 0, 1, "zz\0\0", 1);  // the other copy
        // Medium keys: one that fills three words, one with two words of padding.
        region.put(0, 1, 2, 3, "long", 0);
        region.put(0, 1, 3, 3, "wate", 0);
        region.put(0, 1, 4, 3, "rs\0\0", 5);
        region.put(1, 1, 2, 3, "pads", 0);
        region.put(1, 1, 3, 3, "\0\0\0\1", 0);
        region.put(1, 1, 4, 3, "\0\0\0\1", -2147483647 - 1);
        // A reservation that never got its value: its last word is blank.
        region.put(0, 1, 2, 2, "half", 0);
        const std::int64_t a = op == Op::kSum ? 4294967294 : 2147483647;
        const Entries expected = {
            {"a", a}, {"abcd", -7}, {"abce", -9}, {"longwaters", 5}, {"pads", -2147483648LL}};
        CHECK(walk(region) == expected);
        CHECK(walk(region, 1) == expected);
        region.layout.copy = 0;
        CHECK(walk(region) == Entries{{"zz", 1}});
    }
}

TEST_CASE(
    "entries are taken into a table by the dozen, and counted; near its limit only those that are new need "
    "room") {
    std::string bytes;
    std::uint64_t written = 0;
    for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < 100; ++i, ++written) {
            append_entry(bytes, "key" + std::to_string(i), i);
        }
    }
    CHECK(*count_entries(bytes) == written);
    auto table = ResultTable::create(make_heap_memory(), Op::kSum);
    REQUIRE(table.ok());
    CHECK(*add_entries(*table, bytes) == written);
    CHECK(table->size() == 100);
    // A table that holds some keys and has room for no others.
    std::string fits;
    auto full = ResultTable::create(make_heap_memory(1 << 16), Op::kSum);
    REQUIRE(full.ok());
    std::string last;
    for (int i = 0; full->add(last = std::string(20, 'x') + std::to_string(i), 1).ok(); ++i) {
        fits.clear();
        append_entry(fits, last, 5);
    }
    CHECK(*add_entries(*full, fits + fits) == 2);
    append_entry(fits, last, 1);
    CHECK(add_entries(*full, fits).error().code() == Errc::kLimit);
    bytes.pop_back();
    CHECK(count_entries(bytes).error().code() == Errc::kInput);
    CHECK(add_entries(*table, bytes).error().code() == Errc::kInput);
}

TEST_CASE("a table that is full in the middle of a piece is emptied, and nothing is lost or counted twice") {
    std::string bytes;
    constexpr int kKeys = 5000;
    for (int i = 0; i < kKeys; ++i) {
        append_entry(bytes, "a key of some length " + std::to_string(i), i);
    }
    const auto make = [] { return *ResultTable::create(make_heap_memory(256 << 10), Op::kSum); };
    ResultTable table = make();
    std::vector<ResultTable> parts;
    const auto make_room = [&]() -> Result<> {
        parts.push_back(std::exchange(table, make()));
        return {};
    };
    REQUIRE(*add_entries(table, bytes, make_room) == kKeys);
    CHECK(parts.size() > 1);
    ResultTable all = *ResultTable::create(make_heap_memory(), Op::kSum);
    std::uint64_t keys = table.size();
    REQUIRE(all.merge(table).ok());
    for (const ResultTable& part : parts) {
        keys += part.size();
        REQUIRE(all.merge(part).ok());
    }
    CHECK(keys == kKeys);
    CHECK(all.size() == kKeys);
    // Who cannot make room says why.
    table = make();
    const auto cannot = []() -> Result<> { return Error(Errc::kAborted, "no"); };
    CHECK(add_entries(table, bytes, cannot).error().code() == Errc::kAborted);
}

TEST_CASE("what is skipped is counted") {
    Region region(some_layout(Op::kSum, 0));
    region.put(0, 0, 0, 0, "a\0\0\0", 1);
    region.put(1, 0, 0, 0, "b\0\0\0", 2);
    region.put(0, 0, 1, 2, "c\0\0\0", 3);
    for (std::uint64_t skip = 0; skip <= 4; ++skip) {
        std::string out;
        CopyWalker walker(region.words, region.layout, skip);
        while (*walker.fill(out, 1)) {
        }
        CHECK(walker.count() == 3);
        CHECK(*count_entries(out) == 3 - std::min<std::uint64_t>(skip, 3));
    }
}

TEST_CASE("a value of 0 is a tuple, a blank word is none") {
    Region region(some_layout(Op::kSum, 0));
    region.put(0, 0, 0, 0, "k\0\0\0", 0);
    region.at(0, 0, 1, 1).vpart = 77;
    CHECK(walk(region) == Entries{{"k", 0}});
}

TEST_CASE("words that no sender writes are an error that names their place") {
    const auto refused = [](auto&& put) {
        Region region(some_layout(Op::kSum, 0));
        put(region);
        std::string out;
        CopyWalker walker(region.words, region.layout);
        const auto more = walker.fill(out, 1 << 16);
        REQUIRE_FALSE(more.ok());
        return more.error().text();
    };
    CHECK(refused([](Region& r) { r.put(0, 0, 1, 3, "a\0b\0", 1); }).find("array 1, index 3") !=
          std::string::npos);
    CHECK(refused([](Region& r) { r.put(1, 0, 0, 2, "\0\0\0\1", 1); }).find("array 0, index 2") !=
          std::string::npos);
    // The last word of a group without the leading ones; and one with a value in a leading word.
    CHECK(refused([](Region& r) { r.put(0, 0, 4, 1, "rest", 1); }).find("array 2, index 1") !=
          std::string::npos);
    refused([](Region& r) {
        r.put(0, 0, 2, 1, "lead", 9);
        r.put(0, 0, 3, 1, "\0\0\0\1", 0);
        r.put(0, 0, 4, 1, "\0\0\0\1", 1);
    });
}

TEST_CASE("a region too small for its layout is refused") {
    Region region(some_layout(Op::kSum, 0));
    std::string out;
    region.words.pop_back();
    CHECK(CopyWalker(region.words, region.layout).fill(out, 100).error().code() == Errc::kInternal);
    CopyLayout huge = region.layout;
    huge.sets = huge.copies = 0xffffffff;
    CHECK_FALSE(CopyWalker(region.words, huge).fill(out, 100).ok());
    CopyLayout no_copy = region.layout;
    no_copy.copy = 2;
    CHECK_FALSE(CopyWalker(region.words, no_copy).fill(out, 100).ok());
    CHECK(out.empty());
}

}  // namespace
}  // namespace ask
