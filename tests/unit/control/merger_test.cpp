// SPDX-License-Identifier: Apache-2.0
//
// A copy on its way into a table, by two threads: whole, in order, and refused by name.
#include <string>

#include <doctest/doctest.h>

#include "lib/control/receive/copy_merger.h"
#include "lib/tuples/fetch_codec.h"

using namespace ask;

namespace {

ResultTable make_table(std::size_t limit = SIZE_MAX) {
    auto table = ResultTable::create(make_heap_memory(limit), Op::kSum);
    REQUIRE(table.ok());
    return *std::move(table);
}

// Entries `first` to `first + count`, each 1.
std::string entries_of(unsigned first, unsigned count) {
    std::string entries;
    for (unsigned i = first; i < first + count; ++i) {
        append_entry(entries, "key" + std::to_string(i), 1);
    }
    return entries;
}

}  // namespace

TEST_CASE("all that was taken is in after a drain, whatever the number of pieces") {
    for (const unsigned pieces : {0U, 1U, 2U, 100U}) {
        ResultTable table = make_table();
        CopyMerger merger(table);
        for (unsigned i = 0; i < pieces; ++i) {
            const auto taken = merger.take(entries_of(i * 500, 1000));
            REQUIRE(taken.ok());
            CHECK(*taken == 1000);
        }
        CHECK(merger.drain().ok());
        CHECK(merger.entries() == 1000 * pieces);
        CHECK(table.size() == (pieces == 0 ? 0 : 500 * pieces + 500));
    }
}

TEST_CASE("another stream goes on in the same table") {
    ResultTable table = make_table();
    CopyMerger merger(table);
    for (unsigned stream = 0; stream < 3; ++stream) {
        REQUIRE(merger.take(entries_of(stream * 1000, 1000)).ok());
        REQUIRE(merger.drain().ok());
        CHECK(table.size() == merger.entries());
    }
}

TEST_CASE("of a piece that is damaged nothing goes in, and the merger is as it was") {
    ResultTable table = make_table();
    CopyMerger merger(table);
    REQUIRE(merger.take(entries_of(0, 10)).ok());
    std::string damaged = entries_of(10, 10);
    damaged.pop_back();
    CHECK(merger.take(damaged).error().code() == Errc::kInput);
    CHECK(merger.drain().ok());
    CHECK(!merger.broken());
    CHECK(table.size() == 10);
    CHECK(merger.entries() == 10);
}

TEST_CASE("a table that is full breaks the merger, by its own words") {
    ResultTable table = make_table(std::size_t{256} << 10U);
    CopyMerger merger(table);
    Result<std::uint64_t> taken(std::uint64_t{0});
    for (unsigned i = 0; i < 1000 && taken.ok(); ++i) {
        taken = merger.take(entries_of(i * 1000, 1000));
    }
    REQUIRE(!taken.ok());
    CHECK(taken.error().code() == Errc::kLimit);
    CHECK(merger.broken());
    CHECK(merger.drain().error().text() == taken.error().text());
    CHECK(merger.entries() % 1000 == 0);
}

TEST_CASE("a merger that is given up with pieces on their way ends") {
    ResultTable table = make_table();
    CopyMerger merger(table);
    for (unsigned i = 0; i < 20; ++i) {
        REQUIRE(merger.take(entries_of(i * 10'000, 10'000)).ok());
    }
}

TEST_CASE("room is made once for what is expected, and what does not fit is refused before it comes") {
    ResultTable table = make_table(std::size_t{45} << 20U);
    CopyMerger merger(table);
    REQUIRE(merger.expect({.entries = 700'000, .key_bytes = 7'000'000}).ok());
    // A table that grew would need half as much again on the way.
    for (unsigned i = 0; i < 700; ++i) {
        REQUIRE(merger.take(entries_of(i * 1000, 1000)).ok());
    }
    CHECK(merger.drain().ok());
    ResultTable small = make_table(std::size_t{16} << 20U);
    CopyMerger none(small);
    const auto refused = none.expect({.entries = 700'000, .key_bytes = 7'000'000});
    REQUIRE(!refused.ok());
    CHECK(refused.error().code() == Errc::kLimit);
    CHECK(none.broken());
}

TEST_CASE("what is expected may be there already: room for all keys together is enough") {
    ResultTable table = make_table(std::size_t{164} << 10U);
    REQUIRE(table.reserve(1400, 14'000).ok());
    CopyMerger merger(table);
    REQUIRE(merger.take(entries_of(0, 1400)).ok());
    CHECK(merger.expect({.entries = 1400, .key_bytes = 14'000}).ok());
    CHECK(merger.take(entries_of(0, 1400)).ok());
    CHECK(merger.drain().ok());
    CHECK(table.size() == 1400);
}
