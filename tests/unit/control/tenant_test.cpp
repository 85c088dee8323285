// SPDX-License-Identifier: Apache-2.0
//
// Callers with certificates at a switch: tenants, their ids, what they see and hold, and operators.
#include <endian.h>

#include <memory>

#include <doctest/doctest.h>

#include "lib/control/switch/controller.h"
#include "lib/control/switch/fetch.h"
#include "tests/unit/control/memory_switch.h"

using namespace ask;
using namespace ask::test;

namespace {

constexpr std::uint32_t kHostA = 0xc6120102;
constexpr std::uint32_t kHostB = 0xc6120202;
constexpr Geometry kGeometry{.short_slots = 4, .groups = 0, .m = 0, .rows = 1};

Caller member_of(const std::string& tenant, std::uint32_t host) {
    Caller caller;
    caller.address = "198.18.9.9";
    caller.ipv4 = 0xc6120909;  // wherever it calls from
    caller.verified = true;
    caller.names = {"h"};
    caller.own_ipv4 = {host};
    caller.tenant = tenant;
    return caller;
}

struct Switch {
    MemorySwitch store;
    std::unique_ptr<Controller> controller;

    Switch() { start(); }
    void start(const ControllerLimits& limits = {.sram_bytes = 1U << 20U}) {
        controller.reset();
        auto made = Controller::create(store, limits);
        REQUIRE_MESSAGE(made.ok(), made.error().text());
        controller = std::move(*made);
    }
    [[nodiscard]] ask_task entry_of(std::uint64_t instance) const {
        for (std::uint32_t index = 0; index < store.meta().max_tasks; ++index) {
            const auto entry = store.tasks().find(index);
            if (entry.ok() && entry->has_value() && (*entry)->instance == htobe64(instance)) {
                return **entry;
            }
        }
        FAIL("no such task");
        return {};
    }
    Result<TaskGrant> open(const Caller& caller, const std::string& id, std::uint64_t instance,
                           const std::string& receiver, std::uint32_t address) const {
        TaskRequest request;
        request.id = id;
        request.instance = instance;
        request.geometry = kGeometry;
        request.aggregators = 16;
        request.copies = 1;
        request.receiver = receiver;
        request.receiver_address = address;
        return controller->open_task(caller, request);
    }
};

const Caller kSearch = member_of("search", kHostA);
const Caller kAds = member_of("ads", kHostB);

}  // namespace

TEST_CASE("ids belong to a tenant: two use the same, and each has its own") {
    Switch on;
    REQUIRE(on.open(kSearch, "hits", 1, "198.18.1.2:4791", kHostA).ok());
    REQUIRE(on.open(kAds, "hits", 2, "198.18.2.2:4791", kHostB).ok());
    CHECK(on.store.names() == std::map<std::string, std::string>{{"search/hits", "0000000000000001"},
                                                                 {"ads/hits", "0000000000000002"}});
    CHECK(on.open(kSearch, "hits", 3, "198.18.1.2:4791", kHostA).error().code() == Errc::kExists);
    // In nobody's name.
    CHECK(on.open(kAds, "other", 4, "198.18.1.2:4791", kHostA).error().code() == Errc::kDenied);
    CHECK(on.open(kAds, "other", 4, "198.18.2.2:4791", kHostA).error().code() == Errc::kDenied);
    on.start();
    CHECK(on.store.names().size() == 2);
    CHECK(on.open(kAds, "hits", 3, "198.18.2.2:4791", kHostB).error().code() == Errc::kExists);
    REQUIRE(on.controller->close_task(kAds, 2).ok());
    CHECK(on.store.names() == std::map<std::string, std::string>{{"search/hits", "0000000000000001"}});
    CHECK(on.open(kAds, "hits", 3, "198.18.2.2:4791", kHostB).ok());
}

TEST_CASE("a tenant sees its own tasks, and nothing of others'") {
    Switch on;
    const auto opened = on.open(kSearch, "hits", 1, "198.18.1.2:4791", kHostA);
    REQUIRE(opened.ok());
    const RegionId region{1, opened->nonce};
    REQUIRE(on.open(kAds, "hits", 2, "198.18.2.2:4791", kHostB).ok());
    REQUIRE(on.controller->register_channel(kSearch, {kHostA, 49152}, 7, 0).ok());
    const auto seen = on.controller->report(kAds);
    REQUIRE(seen.ok());
    REQUIRE(seen->tasks.size() == 1);
    CHECK(seen->tasks[0].instance == 2);
    CHECK(seen->channels.empty());
    // The same host in another tenant's name is somebody else.
    const Caller posing = member_of("ads", kHostA);
    CHECK(on.controller->begin_fetch(posing, region, 0).error().code() == Errc::kUnknown);
    CHECK(on.controller->renew(posing, std::vector<std::uint64_t>{1}).size() == 1);
    REQUIRE(on.controller->close_task(posing, 1).ok());
    CHECK(on.controller->renew(kSearch, std::vector<std::uint64_t>{1}).empty());

    Caller operates = member_of("", 0);
    operates.role_operator = true;
    CHECK(on.controller->report(operates)->tasks.size() == 2);
    CHECK(on.controller->report(operates)->channels.size() == 1);
    CHECK(on.controller->begin_fetch(operates, region, 0).ok());
    CHECK(on.controller->confirm(operates, region, 0).error().code() == Errc::kUnknown);
    CHECK(on.controller->renew(operates, std::vector<std::uint64_t>{1}).size() == 1);
    REQUIRE(on.controller->close_task(operates, 1).ok());
    CHECK(on.controller->renew(kSearch, std::vector<std::uint64_t>{1}).size() == 1);
}

TEST_CASE("a tenant's hosts share its quota, and others have theirs") {
    Switch on;
    on.start({.sram_bytes = 1U << 20U, .quota = {.tasks = 2, .channels = 2}});
    const Caller second = member_of("search", kHostB);
    REQUIRE(on.open(kSearch, "one", 1, "198.18.1.2:4791", kHostA).ok());
    REQUIRE(on.open(second, "two", 2, "198.18.2.2:4791", kHostB).ok());
    const auto third = on.open(second, "three", 3, "198.18.2.2:4791", kHostB);
    REQUIRE_FALSE(third.ok());
    CHECK(third.error().code() == Errc::kLimit);
    CHECK(third.error().text().find("tenant search has 2 of the 2 tasks") != std::string::npos);
    CHECK(on.open(kAds, "one", 4, "198.18.2.2:4791", kHostB).ok());
    REQUIRE(on.controller->register_channel(kSearch, {kHostA, 49152}, 7, 0).ok());
    REQUIRE(on.controller->register_channel(second, {kHostB, 49152}, 7, 0).ok());
    CHECK(on.controller->register_channel(second, {kHostB, 49153}, 7, 0).error().code() == Errc::kLimit);
    // After a restart and all.
    on.start({.sram_bytes = 1U << 20U, .quota = {.tasks = 2}});
    CHECK(on.open(second, "three", 3, "198.18.2.2:4791", kHostB).error().code() == Errc::kLimit);
}

TEST_CASE("a tenant's tasks share one bucket of packets, and others have their own") {
    Switch on;
    on.start({.sram_bytes = 1U << 20U, .packet_rate = 20'000});
    REQUIRE(on.open(kSearch, "a", 1, "198.18.1.2:4791", kHostA).ok());
    REQUIRE(on.open(kSearch, "b", 2, "198.18.1.2:4791", kHostA).ok());
    REQUIRE(on.open(kAds, "a", 3, "198.18.2.2:4791", kHostB).ok());
    const auto bucket = [&](std::uint64_t instance) { return on.entry_of(instance).bucket; };
    CHECK(bucket(1) != 0);
    CHECK(bucket(1) == bucket(2));
    CHECK(bucket(3) != 0);
    CHECK(bucket(3) != bucket(1));
    const auto filled = on.store.buckets().find(bucket(3));
    REQUIRE((filled.ok() && filled->has_value()));
    CHECK((*filled)->cost == 50'000);
    CHECK((*filled)->burst == Buckets::kBurst);

    SUBCASE("other limits hold for tasks that are open, too") {
        on.controller->change_limits({.sram_bytes = 1U << 20U, .packet_rate = 10'000'000});
        CHECK((*on.store.buckets().find(bucket(3)))->cost == 100);
        on.controller->change_limits({.sram_bytes = 1U << 20U});
        CHECK(bucket(1) == 0);
        CHECK(bucket(3) == 0);
        on.controller->change_limits({.sram_bytes = 1U << 20U, .packet_rate = 20'000});
        CHECK(bucket(1) == bucket(2));
        CHECK(bucket(3) != bucket(1));
    }
    SUBCASE("a successor's limits hold, whatever its predecessor's were") {
        on.start({.sram_bytes = 1U << 20U, .packet_rate = 1000});
        CHECK(bucket(1) == bucket(2));
        CHECK(bucket(3) != bucket(1));
        CHECK((*on.store.buckets().find(bucket(1)))->cost == 1'000'000);
        on.start();
        CHECK(bucket(1) == 0);
        CHECK(bucket(3) == 0);
    }
}

TEST_CASE("there is a bucket for whoever has a task, and it stays his as long as it can") {
    Buckets buckets(2);
    const std::uint32_t first = buckets.take("tenant a");
    const std::uint32_t second = buckets.take("tenant b");
    CHECK(first != second);
    CHECK(buckets.take("tenant a") == first);
    buckets.give_back(second);
    CHECK(buckets.take("tenant b") == second);
    buckets.give_back(second);
    CHECK(buckets.take("tenant c") == second);
    buckets.give_back(first);
    buckets.give_back(first);
    CHECK(buckets.take("tenant b") == first);
}
