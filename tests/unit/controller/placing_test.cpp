// SPDX-License-Identifier: Apache-2.0
//
// What the controller of placements decides: on what is left, for whom, and for how long.
#include "lib/control/placing/placing.h"

#include <algorithm>
#include <random>
#include <set>

#include <doctest/doctest.h>

#include "lib/placement/online.h"
#include "lib/placement/soar.h"
#include "lib/placement/topologies.h"
#include "tests/unit/controller/binary_tree.h"

using namespace ask;
using namespace ask::placing;
using namespace ask::test;
using placement::SwitchId;

namespace {

constexpr std::chrono::seconds kLease{30};
const Owner kOwner{.tenant = "", .host = kReceiver};
const Owner kSearch{.tenant = "search", .host = kReceiver};

// A controller and its time, in seconds since it started.
struct Desk {
    explicit Desk(topology::Topology topology, Settings settings = {})
        : placing(make(std::move(topology), settings)) {}

    [[nodiscard]] Placing make(topology::Topology topology, Settings settings) {
        settings.lease = kLease;
        return Placing(ground_of(std::move(topology)), settings, [this] { return ++drawn; }, at(0));
    }
    [[nodiscard]] static Time at(int seconds) { return Time{} + std::chrono::seconds(seconds); }
    // When it knows of all tasks.
    [[nodiscard]] static Time grown(int seconds = 0) { return at(30 + seconds); }
    [[nodiscard]] std::uint32_t taken(const std::string& name) const {
        return std::ranges::find(placing.places().states(), name, &SwitchState::name)->taken;
    }

    std::uint64_t drawn = 0;
    Placing placing;
};

// One send from each of these leaves.
Wish wish_of(std::uint64_t instance, const std::vector<std::size_t>& leaves, std::uint32_t k) {
    Wish wish;
    wish.task = "t";
    wish.instance = instance;
    wish.k = k;
    for (const std::size_t leaf : leaves) {
        wish.senders.push_back({.address = leaf_host(leaf), .sends = 1});
    }
    return wish;
}

std::vector<std::string> relays_of(const v1::Placement& placement) {
    std::vector<std::string> names;
    for (const v1::PlacedRelay& relay : placement.relays()) {
        names.push_back(relay.name());
    }
    std::ranges::sort(names);
    return names;
}

std::string entry_of(const v1::Placement& placement, const std::string& host) {
    const auto found = std::ranges::find(placement.hosts(), host, &v1::PlacedHost::name);
    REQUIRE(found != placement.hosts().end());
    return found->entry();
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

using Names = std::vector<std::string>;

Claim claim_of(const Wish& wish, const Answer& answer) {
    return {.wish = wish, .plan = answer.plan, .placement = answer.placement};
}

}  // namespace

TEST_CASE("workloads one after the other get what SOAR gives them on what is left") {
    constexpr std::size_t kSwitches = 31;
    std::mt19937_64 random(1);
    Settings settings;
    settings.quota_places = 2;
    Desk desk(binary_tree(kSwitches, 2), settings);
    const auto spec = placement::complete_binary(kSwitches + 1, placement::RateScheme::kConstant).value();
    auto reference = placement::OnlinePlanner::create(placement::Tree::build(spec).value(),
                                                      std::vector<std::uint32_t>(kSwitches, 2))
                         .value();
    std::vector<std::pair<std::uint64_t, std::vector<SwitchId>>> running;
    for (std::uint64_t instance = 1; instance <= 60; ++instance) {
        const auto k = static_cast<std::uint32_t>(1 + random() % 6);
        std::vector<std::uint64_t> load(kSwitches);
        Wish wish = wish_of(instance, {}, k);
        for (std::size_t leaf = kSwitches / 2; leaf < kSwitches; ++leaf) {
            load[leaf] = random() % 7;
            if (load[leaf] > 0) {
                wish.senders.push_back({leaf_host(leaf), static_cast<std::uint32_t>(load[leaf])});
            }
        }
        const auto soar = placement::Soar::gather(reference.problem_for(load).value(), k).value();
        const auto blue = soar.colour(k);
        REQUIRE(reference.take(blue).ok());
        const auto answer = desk.placing.admit(kOwner, wish, Desk::grown());
        REQUIRE_MESSAGE(answer.ok(), answer.error().text());
        Names want;
        for (const SwitchId id : blue) {
            want.push_back("s" + std::to_string(id));
        }
        std::ranges::sort(want);
        CHECK(relays_of(answer->placement) == want);
        running.emplace_back(instance, blue);
        if (random() % 2 == 0) {
            const std::size_t ended = random() % running.size();
            desk.placing.release(kOwner, running[ended].first, Desk::grown());
            REQUIRE(reference.release(running[ended].second).ok());
            running.erase(running.begin() + static_cast<std::ptrdiff_t>(ended));
        }
        for (std::size_t id = 0; id < kSwitches; ++id) {
            CHECK(desk.placing.places().left(static_cast<SwitchId>(id)) == reference.residual()[id]);
        }
    }
}

TEST_CASE("a placement names relays from the top, and each host's way in") {
    Desk desk(binary_tree(7, 0));
    const auto answer = desk.placing.admit(kOwner, wish_of(1, {3, 4, 5, 6}, 7), Desk::grown()).value();
    const v1::Placement& placement = answer.placement;
    REQUIRE(placement.relays_size() == 3);
    CHECK(placement.relays(0).name() == "s0");
    CHECK(placement.relays(0).parent().empty());
    CHECK(placement.relays(0).address() == "198.19.0.0:4793");
    CHECK(placement.relays(1).parent() == "s0");
    CHECK(entry_of(placement, "h3") == "s1");
    CHECK(entry_of(placement, "h6") == "s2");
    CHECK(placement.objective() == "utilisation");
    // One message on each link of a tree that aggregates everywhere, no sizes being known.
    CHECK(placement.links_size() == 7);
    for (const v1::PlacedLink& link : placement.links()) {
        CHECK(link.messages() == 1);
        CHECK(link.bytes() == 0);
    }
    CHECK(placement.links(0).from() == "s0");
    CHECK(placement.links(0).to() == "r");
    CHECK(answer.note.empty());
}

TEST_CASE("a request that is repeated is answered as before, and another under its instance is refused") {
    Desk desk(binary_tree(7, 1));
    const Wish wish = wish_of(1, {3, 4, 5}, 2);
    const auto first = desk.placing.admit(kOwner, wish, Desk::grown()).value();
    const auto again = desk.placing.admit(kOwner, wish, Desk::grown(1)).value();
    CHECK(first.plan == again.plan);
    CHECK(first.placement.SerializeAsString() == again.placement.SerializeAsString());
    CHECK(desk.placing.plans().size() == 1);
    const auto other = desk.placing.admit(kOwner, wish_of(1, {3, 4}, 2), Desk::grown(2));
    REQUIRE_FALSE(other.ok());
    CHECK(other.error().code() == Errc::kExists);
    // Another owner's instance is another's.
    CHECK(desk.placing.admit(kSearch, wish_of(1, {3, 4}, 2), Desk::grown(2)).ok());
}

TEST_CASE("a lease that nobody renews ends, and its places are free again") {
    Desk desk(binary_tree(7, 1));
    const Wish first = wish_of(1, {3, 4, 5, 6}, 1);
    const auto answer = desk.placing.admit(kOwner, first, Desk::grown()).value();
    CHECK(relays_of(answer.placement) == Names{"s0"});
    CHECK(
        relays_of(desk.placing.admit(kOwner, wish_of(2, {3, 4, 5, 6}, 1), Desk::grown()).value().placement) !=
        Names{"s0"});
    desk.placing.release(kOwner, 2, Desk::grown());
    REQUIRE(desk.placing.renew(kOwner, claim_of(first, answer), Desk::grown(20)).ok());
    desk.placing.expire(Desk::grown(49));
    CHECK(desk.taken("s0") == 1);
    desk.placing.expire(Desk::grown(50));
    CHECK(desk.taken("s0") == 0);
    CHECK(desk.placing.counters().expired == 1);
    CHECK(desk.placing.plans().empty());
    // Releasing what is not there any more is fine.
    desk.placing.release(kOwner, 1, Desk::grown(51));
}

TEST_CASE("a young controller admits without switches, and knows running tasks by their renewals") {
    Desk before(binary_tree(7, 1));
    const Wish wish = wish_of(1, {3, 4, 5, 6}, 1);
    const auto running = before.placing.admit(kOwner, wish, Desk::grown()).value();
    REQUIRE(relays_of(running.placement) == Names{"s0"});

    Desk after(binary_tree(7, 1));
    const auto early = after.placing.admit(kSearch, wish_of(2, {3, 4, 5, 6}, 1), Desk::at(1)).value();
    CHECK(early.placement.relays_size() == 0);
    CHECK(entry_of(early.placement, "h3").empty());
    CHECK_MESSAGE(contains(early.note, "up to 29 s"), early.note);
    // The prediction is that of no switch.
    CHECK(early.placement.links(0).messages() == 4);
    CHECK(after.placing.renew(kOwner, claim_of(wish, running), Desk::at(9)).value());
    CHECK(after.taken("s0") == 1);
    CHECK_FALSE(after.placing.renew(kOwner, claim_of(wish, running), Desk::at(29)).value());
    const auto late = after.placing.admit(kSearch, wish_of(3, {3, 4, 5, 6}, 1), Desk::at(30)).value();
    CHECK(relays_of(late.placement) != Names{"s0"});
    CHECK(late.placement.relays_size() == 1);
    // Whoever repeats what the predecessor answered is told what he runs by.
    const auto again = after.placing.admit(kOwner, wish, Desk::at(31)).value();
    CHECK(again.plan == running.plan);
    CHECK(relays_of(again.placement) == Names{"s0"});
    CHECK(after.placing.counters().young == 1);
    CHECK(after.placing.counters().rebuilt == 1);
}

TEST_CASE("what is claimed is counted, though it were too much, and leaves other holders their part") {
    Settings settings;
    settings.quota_places = 1;
    Desk desk(binary_tree(7, 1), settings);
    const Wish wish = wish_of(1, {3, 4, 5, 6}, 1);
    const auto answer = desk.placing.admit(kOwner, wish, Desk::grown()).value();
    CHECK(desk.taken("s0") == 1);
    // Another's claim of the place that is taken: it runs there.
    Claim claim = claim_of(wish_of(9, {3, 4}, 1), answer);
    CHECK(desk.placing.renew(kSearch, claim, Desk::grown(1)).value());
    CHECK(desk.taken("s0") == 2);
    CHECK(desk.placing.places().left(0) == 0);
    // The same holder's second claim is past its quota there.
    claim.wish.instance = 10;
    CHECK(desk.placing.renew(kSearch, claim, Desk::grown(1)).value());
    CHECK(desk.taken("s0") == 2);
    desk.placing.release(kSearch, 10, Desk::grown(2));
    CHECK(desk.taken("s0") == 2);
    desk.placing.release(kSearch, 9, Desk::grown(2));
    desk.placing.release(kOwner, 1, Desk::grown(2));
    CHECK(desk.taken("s0") == 0);
    // A claim of switches that are none counts nowhere.
    claim.placement.mutable_relays(0)->set_name("nowhere");
    CHECK(desk.placing.renew(kSearch, claim, Desk::grown(2)).value());
    desk.placing.release(kSearch, 10, Desk::grown(2));
}

TEST_CASE("a switch that refuses is not proposed to that task again, and to others not for a while") {
    Settings settings;
    settings.pause = std::chrono::seconds(10);
    Desk desk(binary_tree(7, 0), settings);
    const Wish wish = wish_of(1, {3, 4, 5, 6}, 1);
    const auto first = desk.placing.admit(kOwner, wish, Desk::grown()).value();
    REQUIRE(relays_of(first.placement) == Names{"s0"});
    const Placing::Refusal refusal{.instance = 1, .plan = first.plan, .name = "s0", .reason = "no memory"};
    const auto second = desk.placing.report_refused(kOwner, refusal, Desk::grown()).value();
    CHECK(second.plan != first.plan);
    CHECK(relays_of(second.placement) != Names{"s0"});
    CHECK(desk.taken("s0") == 0);
    // Repeated, it is answered as before.
    CHECK(desk.placing.report_refused(kOwner, refusal, Desk::grown(1)).value().plan == second.plan);
    CHECK(desk.placing.places().states()[0].refusals == 1);
    CHECK(desk.placing.places().states()[0].last_refusal == "host 198.18.0.1: no memory");
    const auto other = [&desk](std::uint64_t instance, int seconds) {
        return relays_of(desk.placing.admit(kSearch, wish_of(instance, {3, 4, 5, 6}, 1), Desk::grown(seconds))
                             .value()
                             .placement);
    };
    CHECK(other(2, 9) != Names{"s0"});
    CHECK(other(3, 10) == Names{"s0"});
    // The same host cannot keep others from it for more than half of the time.
    const auto third = desk.placing.admit(kOwner, wish_of(4, {3, 4, 5, 6}, 1), Desk::grown(11)).value();
    REQUIRE(relays_of(third.placement) == Names{"s0"});
    const auto fourth = desk.placing.report_refused(
        kOwner, {.instance = 4, .plan = third.plan, .name = "s0", .reason = "again"}, Desk::grown(11));
    CHECK(relays_of(fourth.value().placement) != Names{"s0"});
    CHECK(other(5, 12) == Names{"s0"});
    // What is not in a plan cannot refuse, and nobody reports for another.
    CHECK(desk.placing
              .report_refused(kOwner, {.instance = 4, .plan = third.plan, .name = "s6", .reason = ""},
                              Desk::grown(12))
              .error()
              .code() == Errc::kAborted);
    CHECK(desk.placing
              .report_refused(kSearch, {.instance = 4, .plan = third.plan, .name = "s0", .reason = ""},
                              Desk::grown(12))
              .error()
              .code() == Errc::kUnknown);
}

TEST_CASE("a task that is refused more than three times goes without switches") {
    Desk desk(binary_tree(31, 0));
    auto answer = desk.placing.admit(kOwner, wish_of(1, {15, 16, 17, 18, 19, 20}, 4), Desk::grown()).value();
    std::set<std::string> refused;
    for (int turn = 0; turn < 3; ++turn) {
        REQUIRE(answer.placement.relays_size() > 0);
        const std::string name = answer.placement.relays(0).name();
        CHECK(refused.insert(name).second);
        answer =
            desk.placing
                .report_refused(kOwner, {.instance = 1, .plan = answer.plan, .name = name, .reason = "x"},
                                Desk::grown(turn))
                .value();
    }
    REQUIRE(answer.placement.relays_size() > 0);
    answer = desk.placing
                 .report_refused(kOwner,
                                 {.instance = 1,
                                  .plan = answer.plan,
                                  .name = answer.placement.relays(0).name(),
                                  .reason = "x"},
                                 Desk::grown(4))
                 .value();
    CHECK(answer.placement.relays_size() == 0);
    CHECK_MESSAGE(contains(answer.note, "4 switches have refused this task"), answer.note);
}

TEST_CASE(
    "switches without a relay, without memory, switched off or excluded are not chosen, and a task is told") {
    topology::Topology topology = binary_tree(3, 1);
    topology.switches[0].relay.clear();
    topology.switches[1].memory_mib = 100;
    topology.switches[2].available = false;
    topology.hosts.push_back(topology.hosts[0]);
    topology.hosts.back().name = "h1b";
    topology.hosts.back().address = 0xc6120199U;
    Desk desk(std::move(topology));
    Wish wish = wish_of(1, {1, 2}, 3);
    wish.senders.push_back({.address = 0xc6120199U, .sends = 1});
    wish.memory_mib = 60;
    CHECK(relays_of(desk.placing.admit(kOwner, wish, Desk::grown()).value().placement) == Names{"s1"});
    CHECK(desk.placing.places().states()[1].memory_taken_mib == 60);
    wish.instance = 2;
    auto none = desk.placing.admit(kSearch, wish, Desk::grown()).value();
    CHECK(none.placement.relays_size() == 0);
    CHECK_MESSAGE(contains(none.note, "of 2 switches that could aggregate, 1 without a relay, 1 full"),
                  none.note);
    desk.placing.release(kOwner, 1, Desk::grown());
    CHECK(desk.placing.set_available("s1", false).value());
    CHECK_FALSE(desk.placing.set_available("s1", false).value());
    CHECK(desk.placing.set_available("s9", false).error().code() == Errc::kUnknown);
    wish.instance = 3;
    none = desk.placing.admit(kSearch, wish, Desk::grown()).value();
    CHECK_MESSAGE(contains(none.note, "1 switched off by an operator"), none.note);
    CHECK(desk.placing.set_available("s1", true).value());
    wish.instance = 4;
    wish.excluded = {"s1"};
    CHECK(desk.placing.admit(kSearch, wish, Desk::grown()).value().placement.relays_size() == 0);
    wish.instance = 5;
    wish.excluded.clear();
    wish.memory_mib = 101;
    none = desk.placing.admit(kSearch, wish, Desk::grown()).value();
    CHECK_MESSAGE(contains(none.note, "1 without enough memory"), none.note);
}

TEST_CASE("hosts that are nowhere send straight to the receiver, as does its own") {
    Desk desk(binary_tree(7, 0));
    Wish wish = wish_of(1, {3, 3 + 1}, 7);
    wish.senders.push_back({.address = 0x0a000001U, .sends = 2});
    wish.senders.push_back({.address = kReceiver, .sends = 1});
    const auto answer = desk.placing.admit(kOwner, wish, Desk::grown()).value();
    CHECK(entry_of(answer.placement, "10.0.0.1").empty());
    CHECK(entry_of(answer.placement, "r").empty());
    CHECK(entry_of(answer.placement, "h3") == "s1");
    CHECK(answer.note == "no host of the topology, so straight to the receiver: 10.0.0.1");
    const Owner stranger{.tenant = "", .host = 0x0a000002U};
    const auto nowhere = desk.placing.admit(stranger, wish_of(1, {3, 4}, 7), Desk::grown()).value();
    CHECK(nowhere.placement.relays_size() == 0);
    CHECK(nowhere.placement.links_size() == 0);
    CHECK(nowhere.placement.hosts_size() == 2);
    CHECK_MESSAGE(contains(nowhere.note, "the receiver, 10.0.0.2, is no host of the topology"), nowhere.note);
    // Many strangers are not all named.
    Wish many = wish_of(2, {}, 1);
    for (std::uint32_t host = 1; host <= 20; ++host) {
        many.senders.push_back({.address = 0x0a000000U + host, .sends = 1});
    }
    CHECK(contains(desk.placing.admit(kOwner, many, Desk::grown()).value().note, "10.0.0.8 and 12 more"));
}

TEST_CASE("a tenant, or a host without one, has its part of plans and places") {
    Settings settings;
    settings.max_plans = 8;
    Desk desk(binary_tree(7, 8), settings);
    for (std::uint64_t instance = 1; instance <= 7; ++instance) {
        const auto answer = desk.placing.admit(kOwner, wish_of(instance, {3, 4, 5, 6}, 1), Desk::grown());
        REQUIRE(answer.ok());
        CHECK(relays_of(answer->placement) == Names{"s0"});
    }
    const auto eighth = desk.placing.admit(kOwner, wish_of(8, {3, 4}, 1), Desk::grown());
    REQUIRE_FALSE(eighth.ok());
    CHECK(eighth.error().code() == Errc::kLimit);
    CHECK_MESSAGE(contains(eighth.error().text(), "quota_plans"), eighth.error().text());
    CHECK(
        desk.placing.renew(kOwner, {.wish = wish_of(8, {3, 4}, 1), .plan = 5, .placement = {}}, Desk::grown())
            .error()
            .code() == Errc::kLimit);
    // Of the root's eight places seven are one holder's, and the last is another's.
    const auto other = desk.placing.admit(kSearch, wish_of(8, {3, 4, 5, 6}, 1), Desk::grown()).value();
    CHECK(relays_of(other.placement) == Names{"s0"});
    const Owner third{.tenant = "mail", .host = kReceiver};
    CHECK(contains(desk.placing.admit(third, wish_of(8, {3, 4}, 1), Desk::grown()).error().text(),
                   "max_plans"));
    // What a holder gives back is his again.
    desk.placing.release(kOwner, 3, Desk::grown());
    CHECK(desk.placing.admit(kOwner, wish_of(8, {3, 4}, 1), Desk::grown()).ok());
}

TEST_CASE("a holder that has his part of a switch gets others") {
    Settings settings;
    settings.quota_places = 1;
    Desk desk(binary_tree(7, 4), settings);
    CHECK(
        relays_of(desk.placing.admit(kOwner, wish_of(1, {3, 4, 5, 6}, 1), Desk::grown()).value().placement) ==
        Names{"s0"});
    CHECK(
        relays_of(desk.placing.admit(kOwner, wish_of(2, {3, 4, 5, 6}, 1), Desk::grown()).value().placement) !=
        Names{"s0"});
    CHECK(relays_of(
              desk.placing.admit(kSearch, wish_of(2, {3, 4, 5, 6}, 1), Desk::grown()).value().placement) ==
          Names{"s0"});
}

TEST_CASE("a task that does not say how many switches it wants gets its part of what is left") {
    const std::vector<std::size_t> all = {15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30};
    // Where there is no limit, whatever saves anything.
    Desk plenty(binary_tree(31, 0));
    CHECK(plenty.placing.admit(kOwner, wish_of(1, all, 0), Desk::grown()).value().placement.relays_size() ==
          15);
    // Fifteen switches that can save anything, for fifteen tasks.
    Settings settings;
    settings.paced_tasks = 31;
    Desk scarce(binary_tree(31, 1), settings);
    const auto first = scarce.placing.admit(kOwner, wish_of(1, all, 0), Desk::grown()).value();
    CHECK(first.placement.relays_size() == 1);
    settings.lease = kLease;
    settings.k = 3;
    scarce.placing.change(settings);
    CHECK(scarce.placing.admit(kOwner, wish_of(2, all, 0), Desk::grown()).value().placement.relays_size() ==
          3);
    Wish busiest = wish_of(3, all, 0);
    busiest.objective = placement::Objective::kBottleneck;
    CHECK(scarce.placing.admit(kOwner, busiest, Desk::grown()).value().placement.relays_size() <= 3);
}

TEST_CASE("another topology is followed, and tasks keep their plans") {
    Desk desk(binary_tree(7, 1));
    const Wish wish = wish_of(1, {3, 4, 5, 6}, 1);
    const auto running = desk.placing.admit(kOwner, wish, Desk::grown()).value();
    REQUIRE(relays_of(running.placement) == Names{"s0"});
    CHECK(desk.placing.set_available("s1", false).value());
    topology::Topology next = binary_tree(15, 2);
    next.switches[0].name = "top";
    for (topology::Switch& each : next.switches) {
        each.parent = each.parent == "s0" ? "top" : each.parent;
    }
    next.hosts.back().attached_to = "top";
    desk.placing.follow(ground_of(std::move(next)));
    CHECK(desk.taken("top") == 0);
    CHECK(desk.placing.places().states()[1].off);
    CHECK_FALSE(desk.placing.renew(kOwner, claim_of(wish, running), Desk::grown(1)).value());
    desk.placing.release(kOwner, 1, Desk::grown(2));
    desk.placing.follow(ground_of(binary_tree(7, 1)));
    CHECK(desk.taken("s0") == 0);
    CHECK(desk.placing.admit(kOwner, wish_of(2, {3, 4, 5, 6}, 1), Desk::grown(3)).ok());
    CHECK(desk.taken("s0") == 1);
}
