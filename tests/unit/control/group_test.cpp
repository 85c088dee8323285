// SPDX-License-Identifier: Apache-2.0
//
// Groups at a switch: what programs find of one, who may be in it, and what is left when it closes or when
// the daemon has a successor.
#include <arpa/inet.h>
#include <endian.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include <doctest/doctest.h>

#include "lib/abi/values.h"
#include "lib/control/switch/controller.h"
#include "tests/unit/control/memory_switch.h"

using namespace ask;
using namespace ask::test;

namespace {

constexpr std::uint32_t kHost = 0xc6120102;
constexpr std::uint64_t kOpened = 7;
constexpr ChannelId kChannel{kHost, ASK_CHANNEL_PORT_BASE};
constexpr CheckSecret kSecret{0x11, 0x22};

Caller root_host() {
    Caller caller;
    caller.address = "198.18.1.2";
    caller.ipv4 = kHost;
    caller.own_ipv4 = {kHost};
    caller.verified = true;
    caller.names = {"h1"};
    return caller;
}

TaskRequest group_of(std::uint32_t size) {
    TaskRequest request;
    request.id = "train";
    request.instance = kOpened;
    request.receiver = "198.18.1.2:4791";
    request.receiver_address = kHost;
    request.values = ValuesRequest{.size = size, .window = 256, .secret = kSecret};
    return request;
}

struct Switch {
    MemorySwitch store;
    std::unique_ptr<Controller> controller;

    explicit Switch(std::uint64_t sram = std::uint64_t{64} << 20U, std::uint32_t entries = 8)
        : store(entries) {
        start(sram);
    }
    void start(std::uint64_t sram = std::uint64_t{64} << 20U) {
        controller.reset();
        auto made = Controller::create(store, {.sram_bytes = sram});
        REQUIRE_MESSAGE(made.ok(), made.error().text());
        controller = std::move(*made);
    }
    [[nodiscard]] std::uint32_t index() const {
        for (std::uint32_t i = 0; i < store.meta().max_tasks; ++i) {
            const auto entry = store.tasks().find(i);
            if (entry.ok() && *entry && (*entry)->instance == htobe64(kOpened)) {
                return i;
            }
        }
        FAIL("no such task");
        return 0;
    }
    [[nodiscard]] ask_group group(std::uint32_t index) const { return store.groups()->find(index)->value(); }
    [[nodiscard]] std::optional<ask_flow> flow(std::uint32_t address, std::uint16_t port) const {
        const auto at = store.flow_ids().find(
            {.task = htobe64(kOpened), .host = htonl(address), .port = htons(port), .pad = 0});
        return *at ? store.flows().find(**at)->value() : std::optional<ask_flow>();
    }
    Result<std::uint64_t> join(std::uint32_t member, const CheckSecret& secret = kSecret) const {
        const auto registered = controller->register_channel(root_host(), kChannel, 3, 0);
        REQUIRE_MESSAGE(registered.ok(), registered.error().text());
        return controller->join_flow(root_host(), kOpened, kChannel, 3, secret, member);
    }
};

}  // namespace

TEST_CASE("a group that is open is there for programs, with the flow of its results and its members'") {
    const Switch on;
    const auto grant = on.controller->open_task(root_host(), group_of(3));
    REQUIRE_MESSAGE(grant.ok(), grant.error().text());
    CHECK(grant->value_slots == 1024);
    const std::uint32_t index = on.index();
    CHECK(on.store.tasks().find(index)->value().service == ASK_SERVICE_VALUES);
    const ask_group group = on.group(index);
    CHECK(group.instance == htobe64(kOpened));
    CHECK(group.all == 7);
    CHECK(group.want == 7);
    CHECK(group.local == 7);
    CHECK(group.above.ifindex[0] == 1);
    CHECK(group.collector == htonl(kHost));
    CHECK(group.window == 256);
    CHECK(group.pool_slots == 1024);
    CHECK(group.last_level == 1);
    const auto results = on.flow(0, 0);
    REQUIRE(results);
    CHECK(results->channel == ASK_NO_CHANNEL);
    REQUIRE(on.join(2).ok());
    const auto member = on.flow(kHost, kChannel.port);
    REQUIRE(member);
    CHECK(member->member == 2);
    CHECK(std::memcmp(&member->key, &results->key, sizeof(member->key)) == 0);
    const auto report = on.controller->report();
    REQUIRE(report->tasks.size() == 1);
    CHECK(report->tasks[0].members == 3);
    CHECK(report->tasks[0].flows == 1);
}

TEST_CASE("a group of more than 64 is refused by name, and one of 64 has them all") {
    const Switch on;
    CHECK(on.controller->open_task(root_host(), group_of(65)).error().text() ==
          "task train: a group of 65 members: must be from 1 to 64");
    CHECK_FALSE(on.controller->open_task(root_host(), group_of(0)).ok());
    REQUIRE(on.controller->open_task(root_host(), group_of(64)).ok());
    CHECK(on.group(on.index()).all == ~0ULL);
}

TEST_CASE("a member beyond the size, another secret and another's number are refused") {
    const Switch on;
    REQUIRE(on.controller->open_task(root_host(), group_of(2)).ok());
    CHECK(on.join(2).error().code() == Errc::kInput);
    CHECK(on.join(1, {0x11, 0x23}).error().code() == Errc::kExists);
    const auto joined = on.join(1);
    REQUIRE(joined.ok());
    CHECK(*on.join(1) == *joined);
    CHECK(on.join(0).error().code() == Errc::kExists);
}

TEST_CASE("nothing is left of a group that was closed, and its slots cost nothing any more") {
    const Switch on;
    REQUIRE(on.controller->open_task(root_host(), group_of(2)).ok());
    REQUIRE(on.join(0).ok());
    const std::uint32_t index = on.index();
    const std::uint64_t used = on.controller->sram().used();
    CHECK(used >= 1024 * sizeof(ask_value_slot));
    REQUIRE(on.controller->close_task(root_host(), kOpened).ok());
    CHECK(on.group(index).instance == 0);
    CHECK_FALSE(on.flow(0, 0));
    CHECK_FALSE(on.flow(kHost, kChannel.port));
    CHECK(on.controller->sram().used() == used - 1024 * sizeof(ask_value_slot));
    CHECK(on.controller->report()->flow_indices.used == 0);
}

TEST_CASE("a group's channels stay when it is closed as long as they are registered again and again") {
    const Switch on;
    REQUIRE(on.controller->open_task(root_host(), group_of(2)).ok());
    REQUIRE(on.join(0).ok());
    REQUIRE(on.controller->close_task(root_host(), kOpened).ok());
    const auto left_after = [&on](std::chrono::seconds lease) {
        on.controller->change_limits({.lease = lease});
        on.controller->expire_leases();
        return on.controller->report()->channels.size();
    };
    CHECK(left_after(std::chrono::seconds(30)) == 1);
    REQUIRE(on.controller->register_channel(root_host(), kChannel, 3, 3).ok());
    CHECK(left_after(std::chrono::seconds(30)) == 1);
    // Its member was killed.
    CHECK(left_after(std::chrono::seconds(0)) == 0);
    // What the keeper of one that lives asks for then changes nothing.
    CHECK(on.controller->register_channel(root_host(), kChannel, 3, 3)->incarnation == 0);
    CHECK(on.controller->report()->channels.empty());
}

TEST_CASE("two groups share the pool, which is charged once; without room for it a group has no slots") {
    const Switch on;
    REQUIRE(on.controller->open_task(root_host(), group_of(2)).ok());
    const std::uint64_t used = on.controller->sram().used();
    TaskRequest second = group_of(2);
    second.id = "second";
    second.instance = 8;
    CHECK(on.controller->open_task(root_host(), second)->value_slots == 1024);
    CHECK(on.controller->sram().used() == used);

    const Switch half(512 * sizeof(ask_value_slot));
    CHECK(half.controller->open_task(root_host(), group_of(2))->value_slots == 512);
    const Switch narrow(64 * sizeof(ask_value_slot));
    const auto grant = narrow.controller->open_task(root_host(), group_of(2));
    CHECK(grant->value_slots == 64);
    CHECK(grant->window == 64);
    CHECK(narrow.group(narrow.index()).window == 64);
    const Switch none(32 * sizeof(ask_value_slot));
    CHECK(none.controller->open_task(root_host(), group_of(2))->value_slots == 0);
    CHECK(none.group(none.index()).pool_slots == 0);
}

TEST_CASE("a successor adopts groups, their flows and the pool; half of one it removes") {
    Switch on;
    REQUIRE(on.controller->open_task(root_host(), group_of(2)).ok());
    REQUIRE(on.join(1).ok());
    const std::uint64_t used = on.controller->sram().used();
    const std::uint32_t index = on.index();
    on.start();
    CHECK(on.controller->sram().used() == used);
    CHECK(on.group(index).instance == htobe64(kOpened));
    CHECK(on.flow(0, 0));
    CHECK(on.flow(kHost, kChannel.port));
    CHECK(on.controller->report()->tasks.at(0).members == 2);
    CHECK(on.join(1).ok());
    REQUIRE(on.store.groups()->set(index, {}).ok());
    on.start();
    CHECK(on.controller->report()->tasks.empty());
    CHECK_FALSE(on.flow(0, 0));
    CHECK(on.controller->report()->flow_indices.used == 0);
}

namespace {

// Hosts 1.2, 2.2 and 3.2, each behind a port of its own.
TaskRequest direct_group(std::uint64_t instance = kOpened) {
    TaskRequest request = group_of(3);
    request.id = "direct" + std::to_string(instance);
    request.instance = instance;
    request.values->direct = true;
    request.values->members = {0xc6120102, 0xc6120202, 0xc6120302};
    return request;
}

}  // namespace

TEST_CASE("results go to all from here by a fan of the members' ports, which goes with the group") {
    const Switch on;
    const auto grant = on.controller->open_task(root_host(), direct_group());
    REQUIRE_MESSAGE(grant.ok(), grant.error().text());
    CHECK(grant->fan);
    CHECK(grant->direct);
    CHECK(grant->no_direct_reason.empty());
    const ask_group group = on.group(on.index());
    CHECK(group.has_fan == 1);
    CHECK(group.direct == 1);
    REQUIRE(on.store.fans.contains(group.fan));
    CHECK(on.store.fans.at(group.fan) == std::vector<std::uint32_t>{1, 2, 3});
    const auto third = on.store.fan_members()->find(3);
    REQUIRE(third->has_value());
    CHECK((*third)->address == htonl(0xc6120302));
    CHECK(on.controller->report()->tasks.at(0).direct);
    const auto again = on.controller->open_task(root_host(), direct_group());
    REQUIRE(again.ok());
    CHECK(again->direct);
    CHECK(on.store.fans.size() == 1);

    REQUIRE(on.controller->close_task(root_host(), kOpened).ok());
    CHECK(on.store.fans.empty());
    CHECK(on.store.fan_members()->keys()->empty());
}

TEST_CASE("a fan that is not asked to be direct copies the collector's results alone") {
    const Switch on;
    TaskRequest request = direct_group();
    request.values->direct = false;
    const auto grant = on.controller->open_task(root_host(), request);
    REQUIRE(grant.ok());
    CHECK(grant->fan);
    CHECK_FALSE(grant->direct);
    CHECK(on.group(on.index()).direct == 0);
    CHECK(on.group(on.index()).has_fan == 1);
}

TEST_CASE("where no copy can be told from another there is no fan, and it is said why") {
    const auto why = [](const std::vector<std::uint32_t>& members) {
        const Switch on;
        TaskRequest request = direct_group();
        request.values->members = members;
        const auto grant = on.controller->open_task(root_host(), request);
        REQUIRE(grant.ok());
        CHECK_FALSE(grant->fan);
        CHECK_FALSE(grant->direct);
        CHECK(on.group(on.index()).has_fan == 0);
        CHECK(on.group(on.index()).direct == 0);
        CHECK(on.store.fans.empty());
        CHECK(on.store.fan_members()->keys()->empty());
        return grant->no_direct_reason;
    };
    CHECK(why({0xc6120102, 0xc6120202, 0xc6120203}) ==
          "members 198.18.2.2 and 198.18.2.3 are both behind port p2");
    CHECK(why({0xc6120102, 0xc6120202}) == "it has 3 members, and it was said where 2 are");
    CHECK(why({}) == "it was not said where its members are");
    CHECK(why({0xc6120102, 0xc6120202, 0xc6120002}).ends_with("is behind no port"));
}

TEST_CASE("groups share what is behind a port; one that has another there gets no fan") {
    const Switch on;
    REQUIRE(on.controller->open_task(root_host(), direct_group())->direct);
    REQUIRE(on.controller->open_task(root_host(), direct_group(8))->direct);
    TaskRequest other = direct_group(9);
    other.values->members = {0xc6120102, 0xc6120202, 0xc6120303};
    const auto grant = on.controller->open_task(root_host(), other);
    REQUIRE(grant.ok());
    CHECK_FALSE(grant->direct);
    CHECK(grant->no_direct_reason ==
          "copies that leave by port p3 are for 198.18.3.2 of another group, not 198.18.3.3");
    REQUIRE(on.controller->close_task(root_host(), kOpened).ok());
    CHECK(on.store.fan_members()->keys()->size() == 3);
    REQUIRE(on.controller->close_task(root_host(), 8).ok());
    CHECK(on.store.fan_members()->keys()->empty());
}

TEST_CASE("one host takes not all fans: its next group gets none, and another's does") {
    const Switch on(std::uint64_t{64} << 20U, 2 * ASK_MAX_FANS);
    std::uint64_t instance = 100;
    for (; on.store.fans.size() < ASK_MAX_FANS - ASK_MAX_FANS / 8; ++instance) {
        REQUIRE(on.controller->open_task(root_host(), direct_group(instance))->direct);
    }
    const auto grant = on.controller->open_task(root_host(), direct_group(instance));
    REQUIRE(grant.ok());
    CHECK_FALSE(grant->direct);
    CHECK(grant->no_direct_reason == "host 198.18.1.2 has 56 of the 56 fans of the switch that one may have");
    constexpr std::uint32_t kOther = 0xc6120202;
    Caller other = root_host();
    other.ipv4 = kOther;
    other.own_ipv4 = {kOther};
    other.address = "198.18.2.2";
    TaskRequest request = direct_group(instance + 1);
    request.receiver = "198.18.2.2:4791";
    request.receiver_address = kOther;
    const auto others = on.controller->open_task(other, request);
    REQUIRE_MESSAGE(others.ok(), others.error().text());
    CHECK(others->direct);
}

TEST_CASE("a successor adopts fans, gives none of them out again, and removes what half a group left") {
    Switch on;
    REQUIRE(on.controller->open_task(root_host(), direct_group())->direct);
    const std::uint32_t first = on.group(on.index()).fan;
    on.start();
    CHECK(on.controller->report()->tasks.at(0).direct);
    CHECK(on.store.fan_members()->keys()->size() == 3);
    REQUIRE(on.controller->open_task(root_host(), direct_group(8))->direct);
    CHECK(on.store.fans.size() == 2);
    CHECK(on.store.fans.contains(first));

    // As if the daemon had died in the middle of a close.
    const std::uint32_t index = on.index();
    ask_group unnamed = on.group(index);
    unnamed.instance = 0;
    REQUIRE(on.store.groups()->set(index, unnamed).ok());
    on.start();
    CHECK_FALSE(on.store.fans.contains(first));
    CHECK(on.store.fans.size() == 1);
    CHECK(on.group(index).has_fan == 0);
    REQUIRE(on.controller->close_task(root_host(), 8).ok());
    CHECK(on.store.fans.empty());
    CHECK(on.store.fan_members()->keys()->empty());
}

TEST_CASE("nobody but its owner closes, joins or renews a group, and one that is not renewed is taken back") {
    const Switch on;
    REQUIRE(on.controller->open_task(root_host(), direct_group()).ok());
    Caller stranger = root_host();
    stranger.address = "198.18.2.2";
    stranger.ipv4 = 0xc6120202;
    stranger.own_ipv4 = {0xc6120202};
    stranger.names = {"h2"};
    const std::vector<std::uint64_t> instances{kOpened};
    CHECK(on.controller->renew(stranger, instances) == instances);
    CHECK(on.controller->renew(root_host(), instances).empty());
    CHECK(on.controller->close_task(stranger, kOpened).ok());
    CHECK(on.controller->report()->tasks.size() == 1);
    REQUIRE(on.controller->register_channel(stranger, {0xc6120202, ASK_CHANNEL_PORT_BASE}, 3, 0).ok());
    CHECK(on.controller->join_flow(stranger, kOpened, {0xc6120202, ASK_CHANNEL_PORT_BASE}, 3, kSecret, 1)
              .error()
              .code() == Errc::kUnknown);
}

namespace {

// Of four members those of hosts 1.2 and 2.2 are here, those of 100.2 and 101.2 beyond two uplinks.
TaskRequest last_level(std::uint64_t instance = kOpened) {
    TaskRequest request = group_of(4);
    request.id = "level" + std::to_string(instance);
    request.instance = instance;
    request.values->direct = true;
    request.values->members = {0xc6120102, 0xc6120202};
    request.values->racks = {{0xc6126402, 0xc6126502}};
    request.values->below = 12;
    return request;
}

}  // namespace

TEST_CASE("the last of two levels waits for all, takes partials of racks, and copies once to each") {
    const Switch on;
    const auto grant = on.controller->open_task(root_host(), last_level());
    REQUIRE_MESSAGE(grant.ok(), grant.error().text());
    CHECK(grant->direct);
    const ask_group group = on.group(on.index());
    CHECK(group.want == 15);
    CHECK(group.local == 3);
    CHECK(group.last_level == 1);
    CHECK(on.store.fans.at(group.fan) == std::vector<std::uint32_t>{1, 2, 11});
    // Repeated, it is the same; asked for otherwise, it is another's.
    CHECK(on.controller->open_task(root_host(), last_level())->direct);
    TaskRequest other = last_level();
    other.values->below = 8;
    CHECK(on.controller->open_task(root_host(), other).error().code() == Errc::kExists);
}

TEST_CASE(
    "a first level waits for its own, sends on what it has, and hears results by all ways to the collector") {
    Switch on;
    on.store.uplinks = {11, 12, 13};
    TaskRequest request = group_of(4);
    request.receiver = "198.18.100.2:4791";
    request.receiver_address = 0xc6126402;
    request.values->want = 12;
    request.values->members = {0xc6120102, 0xc6120202};
    Caller root = root_host();
    root.address = "198.18.100.2";
    root.ipv4 = request.receiver_address;
    root.own_ipv4 = {request.receiver_address};
    const auto grant = on.controller->open_task(root, request);
    REQUIRE_MESSAGE(grant.ok(), grant.error().text());
    CHECK(grant->fan);
    CHECK_FALSE(grant->direct);
    const std::uint32_t index = on.index();
    ask_group group = on.group(index);
    CHECK(group.all == 15);
    CHECK(group.want == 12);
    CHECK(group.local == 15);
    CHECK(group.last_level == 0);
    CHECK(group.above.ifindex[0] == 11);
    CHECK(group.above.ifindex[2] == 13);
    CHECK(on.controller->report()->tasks.at(0).wanted == 2);
    // Routes change while programs count.
    group.highest[0] = 99;
    REQUIRE(on.store.groups()->set(index, group).ok());
    on.store.uplinks = {12};
    on.controller->follow_routes();
    CHECK(on.group(index).above.ifindex[0] == 12);
    CHECK(on.group(index).above.ifindex[1] == 0);
    CHECK(on.group(index).highest[0] == 99);
    CHECK(on.group(index).instance == htobe64(kOpened));
    // A successor finds all of it.
    on.start();
    CHECK(on.controller->report()->tasks.at(0).wanted == 2);
    REQUIRE(on.controller->close_task(root, kOpened).ok());
    CHECK(on.store.fans.empty());
    CHECK(on.controller->report()->flow_indices.used == 0);
}

TEST_CASE("racks behind the same uplinks have one each; where there are more, there is no fan") {
    Switch on;
    TaskRequest request = last_level();
    request.values->size = 6;
    request.values->below = 0b111100;
    request.values->racks = {{0xc6126402, 0xc6126502}, {0xc6126602, 0xc6126702}};
    CHECK(on.controller->open_task(root_host(), request)->direct);
    CHECK(on.store.fans.at(on.group(on.index()).fan) == std::vector<std::uint32_t>{1, 2, 12, 11});
    // Another group goes to the same racks by other members of theirs, or by the same; and not to others.
    TaskRequest same = request;
    same.id = "same";
    same.instance = 8;
    std::ranges::reverse(same.values->racks[0]);
    CHECK(on.controller->open_task(root_host(), same)->direct);
    same.id = "others";
    same.instance = 9;
    same.values->racks[0] = {0xc6126802, 0xc6126902};
    CHECK(on.controller->open_task(root_host(), same)->no_direct_reason ==
          "copies that leave by port p12 are for 198.18.100.2 of another group, not 198.18.104.2");

    const Switch alone;
    TaskRequest three = last_level();
    three.values->size = 5;
    three.values->below = 0b11100;
    three.values->racks = {{0xc6126402}, {0xc6126502}, {0xc6126602}};
    CHECK(alone.controller->open_task(root_host(), three)->no_direct_reason ==
          "members 198.18.101.2 and 198.18.102.2 are both behind port p11");
}

TEST_CASE("copies leave by another port once the route leads there; where none is free they stay") {
    Switch on;
    REQUIRE(on.controller->open_task(root_host(), last_level())->direct);
    const std::uint32_t fan = on.group(on.index()).fan;
    on.store.uplinks = {12};
    on.controller->follow_routes();
    CHECK(on.store.fans.at(fan) == std::vector<std::uint32_t>{1, 2, 12});
    CHECK((*on.store.fan_members()->find(12))->address == htonl(0xc6126402));
    on.store.uplinks = {2};
    on.controller->follow_routes();
    CHECK(on.store.fans.at(fan) == std::vector<std::uint32_t>{1, 2, 12});
    REQUIRE(on.controller->close_task(root_host(), kOpened).ok());
    CHECK(on.store.fans.empty());
    CHECK(on.store.fan_members()->keys()->empty());
}

TEST_CASE("levels that cannot be are refused") {
    const Switch on;
    const auto refused = [&](auto change) {
        TaskRequest request = last_level();
        change(*request.values);
        const auto grant = on.controller->open_task(root_host(), request);
        return !grant.ok() && grant.error().code() == Errc::kInput;
    };
    CHECK(refused([](ValuesRequest& values) { values.want = 16; }));
    CHECK(refused([](ValuesRequest& values) { values.want = 3; }));
    CHECK(refused([](ValuesRequest& values) { values.below = 1ULL << 63U; }));
    CHECK(refused([](ValuesRequest& values) { values.racks.emplace_back(); }));
    CHECK(on.controller->report()->tasks.empty());
}
