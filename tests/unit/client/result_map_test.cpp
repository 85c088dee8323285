// SPDX-License-Identifier: Apache-2.0
//
// In which order, and how many, a result's keys are visited.
#include "lib/client/result_map.h"

#include <fcntl.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/unit/client/fake_agent.h"

namespace ask::client {
namespace {

using Rows = std::vector<std::pair<std::string, std::int64_t>>;
using Order = ResultMap::Order;

ResultMap map_of(const Rows& rows) {
    auto shared = test::share_table(rows, F_SEAL_SHRINK | F_SEAL_WRITE | F_SEAL_GROW);
    auto map = ResultMap::open(std::move(shared.slots), std::move(shared.keys));
    REQUIRE(map.ok());
    return *std::move(map);
}

Rows visited(const ResultMap& map, Order order, std::uint64_t most) {
    Rows rows;
    const auto walked = map.each_in_order(order, most, [&rows](std::string_view key, std::int64_t value) {
        rows.emplace_back(key, value);
        return Result<>();
    });
    REQUIRE(walked.ok());
    return rows;
}

TEST_CASE("by value the largest come first, equal ones by the keys' bytes") {
    const ResultMap map =
        map_of({{"b", 3}, {"\xff", INT64_MIN}, {"a", 3}, {"aa", 3}, {"", -1}, {"c", INT64_MAX}, {"d", 0}});
    CHECK(visited(map, Order::kValue, ResultMap::kAll) ==
          Rows{{"c", INT64_MAX}, {"a", 3}, {"aa", 3}, {"b", 3}, {"d", 0}, {"", -1}, {"\xff", INT64_MIN}});
    CHECK(visited(map, Order::kValue, 3) == Rows{{"c", INT64_MAX}, {"a", 3}, {"aa", 3}});
    CHECK(visited(map, Order::kKey, 2) == Rows{{"", -1}, {"a", 3}});
    CHECK(visited(map, Order::kKey, 7).size() == 7);
    CHECK(visited(map, Order::kKey, 8).size() == 7);
    CHECK(visited(map, Order::kKey, 0).empty());
    CHECK(visited(map_of({}), Order::kValue, 5).empty());
}

TEST_CASE("the first ones are those of the whole order, however many") {
    std::mt19937_64 random(7);
    Rows rows;
    for (int i = 0; i < 3000; ++i) {
        // Equal beginnings of keys, and equal values.
        rows.emplace_back("a common beginning " + std::to_string(i),
                          static_cast<std::int64_t>(random() % 50) - 25);
    }
    const ResultMap map = map_of(rows);
    Rows by_value = rows;
    std::ranges::sort(by_value, [](const auto& a, const auto& b) {
        return a.second != b.second ? a.second > b.second : a.first < b.first;
    });
    Rows by_key = rows;
    std::ranges::sort(by_key);
    for (const std::size_t most : {1U, 2U, 60U, 1500U, 2999U, 3000U, 4000U}) {
        const auto count = static_cast<std::ptrdiff_t>(std::min(most, rows.size()));
        CHECK(visited(map, Order::kValue, most) == Rows(by_value.begin(), by_value.begin() + count));
        CHECK(visited(map, Order::kKey, most) == Rows(by_key.begin(), by_key.begin() + count));
    }
}

}  // namespace
}  // namespace ask::client
