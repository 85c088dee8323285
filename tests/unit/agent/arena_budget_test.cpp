// SPDX-License-Identifier: Apache-2.0
#include "agent/arena_budget.h"

#include <string>

#include <doctest/doctest.h>

namespace ask {
namespace {

TEST_CASE("arenas: all together have a limit, and one user's a smaller one, which root has not") {
    constexpr std::size_t kMiB = std::size_t{1} << 20U;
    ArenaBudget budget(8 * kMiB);
    auto first = budget.reserve(6 * kMiB, 1000);
    REQUIRE(first.ok());
    const auto own = budget.reserve(2 * kMiB, 1000);
    CHECK(own.error().code() == Errc::kLimit);
    CHECK(own.error().text().find("user 1000 have 6291456 of 7340032") != std::string::npos);
    const auto other = budget.reserve(2 * kMiB, 0);
    REQUIRE(other.ok());
    const auto none = budget.reserve(1, 0);
    CHECK(none.error().text().find("this agent's groups have 8388608 of 8388608") != std::string::npos);
    CHECK(none.error().text().find("arena_limit_mib") != std::string::npos);
    first->reset();
    CHECK(budget.used() == 2 * kMiB);
    CHECK(budget.reserve(std::size_t{1} << 63U, 1000).error().code() == Errc::kLimit);
    CHECK(budget.reserve(6 * kMiB, 0).ok());
    CHECK(budget.used() == 2 * kMiB);
}

}  // namespace
}  // namespace ask
