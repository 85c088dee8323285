// SPDX-License-Identifier: Apache-2.0
//
// Which switches a group is to be opened on, and what its coordinator makes of those that refuse, are silent
// or lose it: whatever helps does, and what does not is named.
#include <map>
#include <memory>
#include <thread>

#include <doctest/doctest.h>

#include "lib/control/group/levels.h"
#include "lib/control/group/switches.h"
#include "lib/rpc/types.h"

using namespace ask;

namespace {

constexpr Mark kOfRoot{.switch_id = 1, .incarnation = 10};
constexpr Mark kOfRack{.switch_id = 2, .incarnation = 20};
constexpr Mark kOfOther{.switch_id = 3, .incarnation = 30};

std::string address_of(const Mark& mark) {
    return "198.19.128." + std::to_string(mark.switch_id) + ":4792";
}

LevelMember behind(const Mark& first, std::uint32_t number) {
    return {.name = "h" + std::to_string(number),
            .host = 0xc6120002U + (number << 8U),
            .first = first,
            .address = first.switch_id == 0 ? "" : address_of(first),
            .last = first == kOfRoot ? Mark() : kOfRoot};
}

// Two racks of two, the root behind the first.
std::vector<LevelMember> two_racks() {
    return {behind(kOfRoot, 1), behind(kOfRoot, 2), behind(kOfRack, 3), behind(kOfRack, 4)};
}

}  // namespace

TEST_CASE("members of one switch have it alone, which waits for all and copies to each") {
    const std::vector<LevelMember> members{behind(kOfRoot, 1), behind(kOfRoot, 2), behind(kOfRoot, 3)};
    const Levels levels = plan_levels(members, 0, {});
    REQUIRE(levels.switches.size() == 1);
    CHECK(levels.switches[0] == LevelSwitch{.mark = kOfRoot,
                                            .address = address_of(kOfRoot),
                                            .last = true,
                                            .behind = 7,
                                            .want = 7,
                                            .copies = 7});
    CHECK(levels.without.empty());
}

TEST_CASE(
    "a rack's switch waits for the rack, and the root's for all, of which it takes partials of the rack") {
    const Levels levels = plan_levels(two_racks(), 0, {});
    REQUIRE(levels.switches.size() == 2);
    CHECK(levels.switches[0] == LevelSwitch{.mark = kOfRoot,
                                            .address = address_of(kOfRoot),
                                            .last = true,
                                            .behind = 3,
                                            .want = 15,
                                            .below = 12,
                                            .copies = 3,
                                            .racks = {12}});
    CHECK(
        levels.switches[1] ==
        LevelSwitch{.mark = kOfRack, .address = address_of(kOfRack), .behind = 12, .want = 12, .copies = 12});
    CHECK(levels.without.empty());
    // The root's switch is the first to be opened, whatever its rank.
    const std::vector<LevelMember> other{behind(kOfRack, 1), behind(kOfRack, 2), behind(kOfRoot, 3)};
    CHECK(plan_levels(other, 2, {}).switches.front().mark == kOfRoot);
}

TEST_CASE("where one member is, there is nothing to add: it goes to the root's switch by itself") {
    const std::vector<LevelMember> members{behind(kOfRoot, 1), behind(kOfRack, 2), behind(kOfOther, 3)};
    const Levels levels = plan_levels(members, 0, {});
    REQUIRE(levels.switches.size() == 1);
    CHECK(levels.switches[0].want == 7);
    CHECK(levels.switches[0].below == 0);
    CHECK(levels.switches[0].copies == 7);
    CHECK(levels.without.empty());
}

TEST_CASE("a switch that refuses is left out by name, and its members' values come to the last one") {
    const Levels levels =
        plan_levels(two_racks(), 0, {{kOfRack.switch_id, {.none = "its table is full", .no_copies = ""}}});
    REQUIRE(levels.switches.size() == 1);
    CHECK(levels.switches[0].want == 15);
    CHECK(levels.switches[0].below == 0);
    CHECK(levels.switches[0].copies == 15);
    REQUIRE(levels.without.size() == 1);
    CHECK(levels.without[0] == "switch 198.19.128.2:4792 does not add for h3, h4: its table is full");
}

TEST_CASE("without the root's switch racks are added up all the same") {
    Levels levels =
        plan_levels(two_racks(), 0, {{kOfRoot.switch_id, {.none = "it is silent", .no_copies = ""}}});
    REQUIRE(levels.switches.size() == 1);
    CHECK_FALSE(levels.has_last());
    CHECK(levels.switches[0].mark == kOfRack);
    CHECK(levels.switches[0].want == 12);
    // Nor where the root has none.
    std::vector<LevelMember> members = two_racks();
    members[0].first = members[1].first = {};
    members[0].address.clear();
    levels = plan_levels(members, 0, {});
    REQUIRE(levels.switches.size() == 1);
    CHECK(levels.without == std::vector<std::string>{"h1 has no switch configured",
                                                     "h2 is not registered at switch 198.19.128.1:4792"});
}

TEST_CASE("a rack of which one is not registered at the root's switch has no part in what that adds") {
    std::vector<LevelMember> members = two_racks();
    members.push_back(behind(kOfOther, 5));
    members[3].last = {};
    members[3].no_last = "198.19.128.1:4792 is none of its switches";
    const Levels levels = plan_levels(members, 0, {});
    REQUIRE(levels.switches.size() == 2);
    CHECK(levels.switches[0].want == 0b10011);
    CHECK(levels.switches[0].below == 0);
    CHECK(levels.switches[0].copies == 0);
    CHECK(levels.switches[1].want == 0b01100);
    CHECK(levels.without == std::vector<std::string>{"h4 is not registered at switch 198.19.128.1:4792: "
                                                     "198.19.128.1:4792 is none of its switches"});
}

TEST_CASE("who has lost the root's switch before the root has is named once, with the reason") {
    std::vector<LevelMember> members = two_racks();
    members[1].first = members[1].last = {};
    members[1].no_last = "nobody listens there";
    const Levels levels = plan_levels(members, 0, {});
    CHECK(levels.switches[0].want == 0b1101);
    CHECK(levels.without == std::vector<std::string>{"h2 is not registered at switch 198.19.128.1:4792: "
                                                     "nobody listens there"});
}

TEST_CASE("who is registered at a former incarnation is registered nowhere") {
    std::vector<LevelMember> members = two_racks();
    members[1].first.incarnation = 9;
    const Levels levels = plan_levels(members, 0, {});
    CHECK(levels.switches[0].behind == 1);
    CHECK(levels.switches[0].want == 13);
    REQUIRE(levels.without.size() == 1);
    CHECK(levels.without[0].starts_with("h2 is not registered at switch 198.19.128.1:4792 any more"));
}

TEST_CASE(
    "a rack that gets no copies leaves all results to the collector, and its values are added as before") {
    const Levels levels =
        plan_levels(two_racks(), 0, {{kOfRack.switch_id, {.none = "", .no_copies = "no fans left"}}});
    REQUIRE(levels.switches.size() == 2);
    CHECK(levels.switches[0].below == 12);
    CHECK(levels.switches[0].copies == 0);
    CHECK(levels.switches[0].racks.empty());
    CHECK(levels.no_copies == "switch 198.19.128.2:4792 copies nothing: no fans left");
}

TEST_CASE("sixty-four members are as few as any") {
    std::vector<LevelMember> members;
    for (std::uint32_t number = 1; number <= 64; ++number) {
        members.push_back(behind(number <= 32 ? kOfRoot : kOfRack, number));
    }
    const Levels levels = plan_levels(members, 0, {});
    CHECK(levels.switches[0].want == ~std::uint64_t{0});
    CHECK(levels.switches[0].below == ~std::uint64_t{0} << 32U);
    CHECK(levels.switches[0].racks == std::vector{~std::uint64_t{0} << 32U});
}

namespace {

// A switch as it answers, and what it has.
struct FakeSwitch final : SwitchPort {
    FakeSwitch(const Mark& of, std::string at) : mark(of), where(std::move(at)) {}

    [[nodiscard]] const std::string& address() const override { return where; }
    Result<v1::SwitchInfo> info(milliseconds /*wait*/, CallCancel* /*cancel*/) override {
        ASK_PASS(answers());
        v1::SwitchInfo info;
        *info.mutable_mark() = mark_to_proto(mark);
        return info;
    }
    Result<v1::SwitchStatus> status(milliseconds /*wait*/) override { return none(); }
    Result<v1::OpenTaskReply> open_task(const v1::OpenTaskRequest& request, milliseconds /*wait*/,
                                        CallCancel* /*cancel*/) override {
        ASK_PASS(answers());
        ASK_PASS(refuses ? Result<>(*refuses) : Result<>());
        open = request.values();
        joined = 0;
        ++opened;
        v1::OpenTaskReply reply;
        *reply.mutable_mark() = mark_to_proto(mark);
        v1::ValuesGrant& grant = *reply.mutable_values();
        grant.set_slots(slots);
        grant.set_window(slots);
        grant.set_fan(fan && open->members_size() > 0);
        grant.set_direct(grant.fan() && open->direct());
        grant.set_no_direct_reason(fan ? "" : "two are behind port p1");
        return reply;
    }
    Result<> close_task(std::uint64_t /*instance*/, milliseconds /*wait*/, CallCancel* /*cancel*/) override {
        ASK_PASS(answers());
        open.reset();
        return {};
    }
    Result<Joined> join_flow(const v1::JoinFlowRequest& request, milliseconds /*wait*/) override {
        ASK_PASS(answers());
        joined |= std::uint64_t{1} << request.member();
        return Joined{.mark = mark, .nonce = 1};
    }
    Registered try_register(const v1::RegisterChannelRequest& /*request*/, milliseconds /*wait*/,
                            CallCancel* /*cancel*/) override {
        return {};
    }
    Result<> unregister_channel(ChannelId /*channel*/, std::uint32_t /*incarnation*/, milliseconds /*wait*/,
                                CallCancel* /*cancel*/) override {
        return {};
    }
    Result<v1::RenewTasksReply> renew_tasks(const std::vector<std::uint64_t>& instances,
                                            milliseconds /*wait*/) override {
        ASK_PASS(answers());
        v1::RenewTasksReply reply;
        if (!open) {
            reply.add_unknown(instances.front());
        }
        return reply;
    }
    Result<CopyEnd> stream_copy(const FetchOrder& /*order*/, const TakeEntries& /*take*/,
                                CallCancel* /*cancel*/) override {
        return none();
    }
    Result<> confirm_copy(const RegionId& /*region*/, std::uint64_t /*epoch*/, milliseconds /*wait*/,
                          CallCancel* /*cancel*/) override {
        return none();
    }

    Mark mark;
    const std::string where;
    bool silent = false;
    bool fan = true;
    std::optional<Error> refuses;
    std::uint32_t slots = 4096;
    std::optional<v1::ValuesTask> open;
    std::uint64_t joined = 0;
    unsigned opened = 0;

 private:
    [[nodiscard]] Result<> answers() const {
        return silent ? Error(Errc::kUnavailable, name() + " does not answer") : Result<>();
    }
    static Error none() { return {Errc::kUnsupported, "not of this test"}; }
};

// A group of two racks whose coordinator looks after it.
struct Coordinated {
    std::map<std::string, std::shared_ptr<FakeSwitch>> switches;
    std::vector<LevelMember> members = two_racks();
    unsigned asked_to_register = 0;
    v1::JoinGroupReply group;
    std::optional<GroupSwitches> at;

    Coordinated() {
        for (const Mark& mark : {kOfRoot, kOfRack, kOfOther}) {
            switches[address_of(mark)] = std::make_shared<FakeSwitch>(mark, address_of(mark));
        }
        group.set_instance(7);
        group.set_window(256);
        for (const LevelMember& member : members) {
            group.add_members()->set_name(member.name);
        }
        at.emplace(
            GroupSwitches::Ports{.at = [this](const std::string& address) { return switches.at(address); },
                                 .members = [this] { return members; },
                                 .register_again = [this](const Mark& mark) { return do_register(mark); },
                                 .patience = [] { return milliseconds(100); }},
            GroupSwitches::Terms{
                .id = "train", .root = 0, .address = members[0].host, .control_address = "x"},
            group);
    }
    bool do_register(const Mark& mark) {
        ++asked_to_register;
        for (LevelMember& member : members) {
            member.first = member.first.switch_id == mark.switch_id ? mark : member.first;
            member.last = member.last.switch_id == mark.switch_id ? mark : member.last;
        }
        return true;
    }
    FakeSwitch& of(const Mark& mark) { return *switches.at(address_of(mark)); }
    void open() {
        at->open();
        at->publish();
    }
    // Until it is so, or it is known not to be.
    template <typename F>
    bool look_until(F is_so) {
        const auto until = Clock::now() + std::chrono::seconds(10);
        while (!is_so() && Clock::now() < until) {
            at->look();
            // look() tries again by the clock, after a pause of its own that must really pass.
            std::this_thread::sleep_for(milliseconds(5));
        }
        return is_so();
    }
};

}  // namespace

TEST_CASE("a group is opened on both levels, members join where they are wanted, and nothing stays") {
    Coordinated one;
    one.of(kOfRack).slots = 128;
    one.open();
    CHECK(one.of(kOfRoot).joined == 15);
    CHECK(one.of(kOfRoot).open->below() == 12);
    CHECK(one.of(kOfRoot).open->racks_size() == 1);
    CHECK(one.of(kOfRack).joined == 12);
    CHECK(one.of(kOfRack).open->want() == 12);
    CHECK(one.of(kOfOther).opened == 0);
    CHECK(one.group.window() == 128);
    const auto status = one.at->status();
    CHECK(status.adds);
    CHECK(status.direct);
    CHECK(status.fan_out);
    CHECK(status.slots == 128);
    CHECK(status.note == "2 switches add, the last one sends results to all");
    one.at->close();
    CHECK_FALSE(one.of(kOfRoot).open);
    CHECK_FALSE(one.of(kOfRack).open);
}

TEST_CASE("a switch that refuses or makes no copies costs what it would have done, and says why") {
    Coordinated refused;
    refused.of(kOfRack).refuses = Error(Errc::kLimit, "all 64 tasks are in use");
    refused.open();
    CHECK(refused.of(kOfRoot).open->below() == 0);
    CHECK(refused.at->status().note ==
          "the switch adds and sends results to all; switch 198.19.128.2:4792 does not add for h3, h4: all "
          "64 tasks "
          "are in use");

    Coordinated fanless;
    fanless.of(kOfRack).fan = false;
    fanless.open();
    CHECK(fanless.of(kOfRoot).open->below() == 12);
    CHECK(fanless.of(kOfRoot).open->members_size() == 0);
    CHECK(fanless.at->status().note ==
          "2 switches add, the collector sends results: switch 198.19.128.2:4792 copies "
          "nothing: two are behind port p1");

    Coordinated headless;
    headless.of(kOfRoot).silent = true;
    headless.open();
    const auto status = headless.at->status();
    CHECK(status.adds);
    CHECK_FALSE(status.has_last);
    CHECK_FALSE(status.fan_out);
    CHECK(headless.of(kOfRack).joined == 12);
}

TEST_CASE("a rack's switch that has lost all is done without, and has the group again once it is back") {
    Coordinated one;
    one.open();
    one.of(kOfRack).open.reset();
    one.of(kOfRack).mark.incarnation = 21;
    one.of(kOfRack).silent = true;
    CHECK(one.look_until([&] { return one.of(kOfRoot).open && one.of(kOfRoot).open->members_size() == 0; }));
    CHECK(one.of(kOfRoot).open->below() == 12);
    one.of(kOfRack).silent = false;
    CHECK(one.look_until([&] { return one.of(kOfRoot).open && one.of(kOfRoot).open->below() == 0; }));
    CHECK(one.at->status().losses == 1);
    CHECK(one.at->status().lost == "switch 198.19.128.2:4792");
    CHECK_FALSE(one.at->status().is_back);
    CHECK(one.look_until([&] { return one.of(kOfRack).open.has_value(); }));
    CHECK(one.asked_to_register == 1);
    CHECK(one.of(kOfRack).joined == 12);
    CHECK(one.of(kOfRoot).open->below() == 12);
    CHECK(one.at->status().is_back);
    CHECK(one.at->status().note == "2 switches add, the last one sends results to all");
}

TEST_CASE("without the last switch racks go on; it is opened again as it was") {
    Coordinated one;
    one.open();
    one.of(kOfRoot).open.reset();
    one.of(kOfRoot).mark.incarnation = 11;
    CHECK(one.look_until([&] { return !one.at->status().has_last; }));
    CHECK(one.of(kOfRack).opened == 1);
    CHECK(one.look_until([&] { return one.at->status().direct; }));
    CHECK(one.of(kOfRack).opened == 1);
    CHECK(one.of(kOfRoot).joined == 15);
}
