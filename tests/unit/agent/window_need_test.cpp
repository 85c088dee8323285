// SPDX-License-Identifier: Apache-2.0
#include "lib/control/receive/window_need.h"

#include <string>

#include <doctest/doctest.h>

#include "lib/tuples/result_table.h"

using namespace ask;

namespace {

// Keys of that many bytes.
void add_keys(ResultTable& table, std::size_t bytes, unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
        std::string key = std::to_string(i);
        key.insert(0, bytes - key.size(), 'k');
        REQUIRE(table.add(key, 1).ok());
    }
}

}  // namespace

TEST_CASE("a window's back level is a guess until a window before it has had a table") {
    const WindowNeed need;
    CHECK(need.wish() == BackWish{.wanted = true, .keys = {}, .guess = true});
}

TEST_CASE("a window's back level is for the keys of the last windows, by their lengths") {
    auto table = ResultTable::create(make_heap_memory(), Op::kSum);
    REQUIRE(table.ok());
    add_keys(*table, 5, 20'000);
    add_keys(*table, 8, 1'000);
    add_keys(*table, 9, 5'000);
    // For these there is no place there.
    add_keys(*table, 65, 3'000);
    WindowNeed need;
    need.note(table->keys_by_length());
    const BackKeys keys{21'000, 5'000, WindowNeed::kLeast, WindowNeed::kLeast};
    CHECK(need.wish() == BackWish{.wanted = true, .keys = keys, .guess = false});
    // As long as it is one of the last ones.
    for (std::size_t i = 1; i < WindowNeed::kLast; ++i) {
        need.note({});
        CHECK(need.wish().keys == keys);
    }
    need.note({});
    CHECK(need.wish().keys ==
          BackKeys{WindowNeed::kLeast, WindowNeed::kLeast, WindowNeed::kLeast, WindowNeed::kLeast});
}
