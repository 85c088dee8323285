// SPDX-License-Identifier: Apache-2.0
//
// Results of means: which sums and counts belong together, in which order they come, and how they are
// written.
#include "lib/client/means.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "lib/base/unique_fd.h"
#include "tests/unit/client/fake_agent.h"
#include "tools/cli/output.h"

namespace ask::cli {
namespace {

using Rows = std::vector<std::pair<std::string, std::int64_t>>;
using client::larger;
using client::Mean;
using client::Means;
using Order = client::ResultMap::Order;
constexpr std::uint64_t kEveryKey = client::ResultMap::kAll;

client::ResultMap result_of(const Rows& rows) {
    auto shared = test::share_table(rows, F_SEAL_SHRINK | F_SEAL_WRITE | F_SEAL_GROW);
    auto map = client::ResultMap::open(std::move(shared.slots), std::move(shared.keys));
    REQUIRE(map.ok());
    return *std::move(map);
}

std::string keys_of(const Rows& rows, Order order, std::uint64_t most) {
    const client::ResultMap result = result_of(rows);
    const auto means = Means::of(result);
    REQUIRE(means.ok());
    std::string keys;
    for (const std::size_t each : means->in_order(order, most)) {
        keys += std::string((*means)[each].key) + " ";
    }
    return keys;
}

// Keys between which others' marks sort.
const Rows kMeanRows{{"a", 10}, {"a#", 4}, {"a!", 9}, {"a!#", 3}, {"a#+", -1}, {"a##", 2},
                     {"", 30},  {"#", 10}, {"b", -9}, {"b#", 1},  {"++", 5},   {"+#", 2}};

TEST_CASE("a key's sum and count are brought together, whatever sorts between them") {
    const client::ResultMap result = result_of(kMeanRows);
    const auto means = Means::of(result);
    REQUIRE(means.ok());
    REQUIRE(means->size() == 6);
    std::string all;
    for (std::size_t i = 0; i < means->size(); ++i) {
        const Mean mean = (*means)[i];
        all +=
            std::string(mean.key) + " " + std::to_string(mean.sum) + "/" + std::to_string(mean.count) + "\n";
    }
    CHECK(all == " 30/10\n+ 5/2\na 10/4\na! 9/3\na# -1/2\nb -9/1\n");
    CHECK(Means::of(result_of({}))->size() == 0);
}

TEST_CASE("means come by key, or the largest first, by their exact value") {
    CHECK(keys_of(kMeanRows, Order::kKey, kEveryKey) == " + a a! a# b ");
    CHECK(keys_of(kMeanRows, Order::kKey, 2) == " + ");
    // 3, 3, 2.5, 2.5, -0.5, -9
    CHECK(keys_of(kMeanRows, Order::kValue, kEveryKey) == " a! + a a# b ");
    CHECK(keys_of(kMeanRows, Order::kValue, 3) == " a! + ");
    CHECK(keys_of(kMeanRows, Order::kValue, 9) == " a! + a a# b ");
    // Neighbours that doubles do not tell apart.
    const std::int64_t large = INT64_MAX - 1;
    CHECK(larger({"a", large, large - 1}, {"b", INT64_MAX, large}));
    CHECK_FALSE(larger({"b", INT64_MAX, large}, {"a", large, large - 1}));
    CHECK(larger({"a", 0, 1}, {"b", INT64_MIN, INT64_MAX}));
    CHECK_FALSE(larger({"a", 2, 4}, {"b", 1, 2}));
}

TEST_CASE("a sum without a count, or a count without a sum, is an error that names the key") {
    for (const Rows& rows : {Rows{{"a", 1}}, Rows{{"a#", 1}}, Rows{{"a", 1}, {"a#", 0}},
                             Rows{{"b", 1}, {"b#", 1}, {"a", 1}}, Rows{{"a", 1}, {"b#", 1}}}) {
        const client::ResultMap result = result_of(rows);
        const auto means = Means::of(result);
        REQUIRE_FALSE(means.ok());
        CHECK(means.error().code() == Errc::kInternal);
        CHECK(means.error().text().starts_with("key 'a' has a sum and no count"));
    }
}

std::string means_written(const ResultWriter::Style& style, const std::vector<Mean>& means) {
    const UniqueFd file(::memfd_create("written", MFD_CLOEXEC));
    ResultWriter writer(file.get(), style);
    for (const Mean& mean : means) {
        REQUIRE(writer.add(mean).ok());
    }
    REQUIRE(writer.finish().ok());
    std::string text(4096, '\0');
    text.resize(static_cast<std::size_t>(::pread(file.get(), text.data(), text.size(), 0)));
    return text;
}

TEST_CASE("means are written with what they are made of") {
    const std::vector<Mean> means{{"/home", 301, 3}, {"a,\t", -5, 2}};
    CHECK(means_written({ResultFormat::kTsv, 0, 2}, means) == "/home\t100.33\t301\t3\na,\\t\t-2.50\t-5\t2\n");
    CHECK(means_written({ResultFormat::kTsv, 1, 3}, means) ==
          "/home\t10.033\t30.1\t3\na,\\t\t-0.250\t-0.5\t2\n");
    CHECK(means_written({ResultFormat::kCsv, 0, 0}, means) ==
          "key,mean,sum,count\r\n/home,100,301,3\r\n\"a,\\t\",-3,-5,2\r\n");
    CHECK(means_written({ResultFormat::kCsv, 0, 0}, {}) == "key,mean,sum,count\r\n");
    const auto json = nlohmann::json::parse(means_written({ResultFormat::kJson, 0, 6}, means));
    REQUIRE(json.size() == 2);
    CHECK(json[0] ==
          nlohmann::json::parse(R"({"key": "/home", "mean": 100.333333, "sum": 301, "count": 3})"));
}

}  // namespace
}  // namespace ask::cli
