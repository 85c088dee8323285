// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/abi/map_types.h"
#include "lib/control/switch/index_pool.h"
#include "lib/control/switch/sram.h"
#include "loader/config.h"
#include "loader/counter_names.h"
#include "loader/service.h"

namespace {

using ask::Geometry;
using ask::IndexPool;
using ask::SramBudget;

constexpr std::uint64_t kKib = 1024;
constexpr Geometry kPaper{16, 8, 2, 4};

std::string refusal(const SramBudget& budget, const Geometry& geometry, std::uint32_t aggregators) {
    const auto result = budget.check(geometry, aggregators);
    if (result.ok()) {
        return "";
    }
    CHECK(result.error().code() == ask::Errc::kLimit);
    return result.error().text();
}

}  // namespace

TEST_CASE("an index is given out once, and again only after it was reclaimed") {
    IndexPool pool(3);
    pool.fill();
    std::set<std::uint32_t> taken;
    for (int i = 0; i < 3; i++) {
        taken.insert(pool.take().value());
    }
    CHECK(taken == std::set<std::uint32_t>{0, 1, 2});
    CHECK_FALSE(pool.take().has_value());
    CHECK_FALSE(pool.has_retired());
    pool.retire(1);
    CHECK(pool.used() == 2);
    CHECK(pool.has_retired());
    CHECK_FALSE(pool.has_free());
    CHECK_FALSE(pool.take().has_value());
    pool.reclaim(1);
    CHECK_FALSE(pool.has_retired());
    CHECK(pool.take() == 1U);
    pool.put_back(1);
    CHECK(pool.take() == 1U);
}

TEST_CASE("indices of a predecessor stay in use") {
    IndexPool pool(4);
    CHECK(pool.adopt(2));
    CHECK_FALSE(pool.adopt(2));
    CHECK_FALSE(pool.adopt(4));
    pool.fill();
    CHECK(pool.used() == 1);
    std::set<std::uint32_t> rest;
    while (const auto index = pool.take()) {
        rest.insert(*index);
    }
    CHECK(rest == std::set<std::uint32_t>{0, 1, 3});
}

TEST_CASE("the paper's region fits twice into 16 stages of 1280 KiB, not three times") {
    SramBudget budget(20480 * kKib);
    CHECK(ask::region_bytes(kPaper, 32768) == 8192 * kKib);
    for (int i = 0; i < 2; i++) {
        CHECK(refusal(budget, kPaper, 32768).empty());
        budget.take(ask::region_bytes(kPaper, 32768));
    }
    CHECK(refusal(budget, kPaper, 32768).find("4096 of 20480 KiB are left") != std::string::npos);
    budget.give_back(ask::region_bytes(kPaper, 32768));
    CHECK(refusal(budget, kPaper, 32768).empty());
}

TEST_CASE("an AA must fit a stage, and all AAs the stages") {
    const SramBudget budget(20480 * kKib);
    constexpr Geometry kOneArray{1, 0, 0, 1};
    CHECK(refusal(budget, kOneArray, 163840).empty());
    CHECK(refusal(budget, kOneArray, 163841).find("a stage has 1280 KiB") != std::string::npos);
    // 81920 aggregators take 640 KiB: two arrays a stage.
    CHECK(refusal(budget, kPaper, 81920).empty());
    CHECK(refusal(budget, kPaper, 81921).find("32 stages, there are 16") != std::string::npos);
}

TEST_CASE("regions of whatever geometry come near a few sizes") {
    for (const std::uint32_t copies : {1U, 2U}) {
        for (std::uint8_t groups = 0; groups < 12; ++groups) {
            const Geometry geometry{5, groups, static_cast<std::uint8_t>(groups == 0 ? 0 : 3), 1};
            const std::uint32_t aggregators = ask::aggregators_within(geometry, copies, 1U << 20U);
            const std::uint32_t words = aggregators * geometry.aas();
            CHECK(aggregators % copies == 0);
            CHECK(words <= 1U << 20U);
            CHECK((1U << 20U) - words < geometry.aas() * copies);
        }
    }
    CHECK(ask::aggregators_within(kPaper, 1, 1U << 20U) == 32768);
    CHECK(ask::aggregators_within(kPaper, 1, 31) == 0);
}

TEST_CASE("a budget that is overdrawn has nothing left") {
    SramBudget budget(1024 * kKib);
    budget.take(2048 * kKib);
    CHECK(refusal(budget, Geometry{1, 0, 0, 1}, 1).find(" 0 of 1024 KiB are left") != std::string::npos);
}

TEST_CASE("every counter has a name of its own and a class") {
    std::set<std::string_view> names;
    for (const ask::CounterName& counter : ask::kSwitchCounters) {
        names.insert(counter.name);
        const bool known = counter.kind == "traffic" || counter.kind == "drop" || counter.kind == "never";
        CHECK_MESSAGE(known, counter.name);
        CHECK_FALSE(counter.text.empty());
    }
    CHECK(names.size() == ask::kSwitchCounters.size());
    CHECK(ask::kSwitchCounters[ASK_CNT_bad_check].name == "bad_check");
}

TEST_CASE("the configuration refuses what cannot be a pin directory or an address") {
    const auto parse = [](std::vector<const char*> arguments) {
        ask::SwitchConfig config;
        ask::ConfigTable table("ask-switchd", "", "");
        ask::declare_options(table, &config);
        arguments.insert(arguments.begin(), "ask-switchd");
        return table.parse(static_cast<int>(arguments.size()), arguments.data());
    };
    CHECK(parse({"--pin-dir", "ask-2", "--ports", "p1,eth0.100", "--unload"}).ok());
    CHECK_FALSE(parse({"--pin-dir", "a.b"}).ok());
    CHECK_FALSE(parse({"--pin-dir", "../x"}).ok());
    CHECK_FALSE(parse({"--bpffs", "sys/fs/bpf"}).ok());
    CHECK_FALSE(parse({"--metrics", "9090"}).ok());
    CHECK(parse({"--metrics", ""}).ok());
    CHECK_FALSE(parse({"--switch-id", "0"}).ok());
    CHECK_FALSE(parse({"--xdp-mode", "auto"}).ok());
}

TEST_CASE("whoever reads all that he may, and reads slowly, leaves others a place") {
    ask::FetchGate gate;
    std::vector<ask::FetchGate::Pass> slow;
    for (std::size_t i = 0; i < ask::FetchGate::kMaxOfOne; i++) {
        auto pass = gate.enter(nullptr, "host 198.18.1.3");
        REQUIRE(pass.ok());
        slow.push_back(std::move(*pass));
    }
    const auto refused = gate.enter(nullptr, "host 198.18.1.3");
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code() == ask::Errc::kLimit);
    CHECK(refused.error().text() ==
          "56 fetches of host 198.18.1.3 are under way, which is as many as one may have: try again");
    std::vector<ask::FetchGate::Pass> others;
    while (others.size() + slow.size() < ask::FetchGate::kMaxFetches) {
        auto pass = gate.enter(nullptr, "tenant search");
        REQUIRE(pass.ok());
        others.push_back(std::move(*pass));
    }
    CHECK(gate.enter(nullptr, "tenant ads").error().text() == "64 fetches are under way: try again");
    slow.clear();
    CHECK(gate.enter(nullptr, "host 198.18.1.3").ok());
}
