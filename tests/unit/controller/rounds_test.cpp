// SPDX-License-Identifier: Apache-2.0
//
// Random rounds of admissions, renewals, releases, refusals and time against a reference that counts
// everything anew each time, from a list of what runs.
#include <algorithm>
#include <list>
#include <map>
#include <random>
#include <set>

#include <doctest/doctest.h>

#include "lib/control/placing/placing.h"
#include "lib/control/switch/quota.h"
#include "lib/placement/solve.h"
#include "tests/unit/controller/binary_tree.h"

using namespace ask;
using namespace ask::placing;
using namespace ask::test;

namespace {

constexpr std::size_t kSwitches = 15;
constexpr std::uint32_t kCapacity = 3;
constexpr std::uint64_t kMemory = 100;
constexpr std::uint32_t kQuotaPlaces = 2;
constexpr std::uint32_t kQuotaPlans = 6;
constexpr std::uint32_t kMaxPlans = 12;
constexpr std::chrono::seconds kRoundLease{20};
constexpr std::chrono::seconds kPause{7};

struct Run {
    Owner owner;
    Wish wish;
    Answer answer;
    std::set<std::string> places;
    std::set<std::string> refused;
    Time ends;
};

std::set<std::string> names_of(const v1::Placement& placement) {
    std::set<std::string> names;
    for (const v1::PlacedRelay& relay : placement.relays()) {
        names.insert(relay.name());
    }
    return names;
}

class Reference {
 public:
    std::list<Run> runs;

    void expire(Time now) {
        std::erase_if(runs, [now](const Run& run) { return run.ends <= now; });
    }
    [[nodiscard]] std::size_t places_at(const std::string& name) const {
        return static_cast<std::size_t>(
            std::ranges::count_if(runs, [&](const Run& run) { return run.places.contains(name); }));
    }
    [[nodiscard]] std::size_t plans_of(const Owner& owner) const {
        return static_cast<std::size_t>(std::ranges::count_if(
            runs, [&](const Run& run) { return holder_of(run.owner) == holder_of(owner); }));
    }
    void refused(const std::string& name, const Owner& owner, Time now) {
        auto& last = words_[{name, holder_of(owner)}];
        if (last == Time{} || now >= last + 2 * kPause) {
            last = now;
            paused_[name] = std::max(paused_[name], now + kPause);
        }
    }

    // What the task should get, with the places of `self` free for it.
    [[nodiscard]] std::set<std::string> plan(const Owner& owner, const Wish& wish,
                                             const std::set<std::string>& never, Time now) {
        if (now < Time{} + kRoundLease || never.size() > Placing::kMostRefusals) {
            return {};
        }
        const auto topology = binary_tree(kSwitches, kCapacity);
        placement::TreeSpec spec;
        for (std::size_t id = 0; id < kSwitches; ++id) {
            const std::string name = "s" + std::to_string(id);
            spec.parent.push_back(id == 0 ? placement::kNoSwitch
                                          : static_cast<placement::SwitchId>((id - 1) / 2));
            spec.rate.push_back(1);
            std::uint64_t load = 0;
            for (const Sender& sender : wish.senders) {
                load += sender.address == leaf_host(id) ? sender.sends : 0;
            }
            spec.load.push_back(load);
            std::uint64_t memory = wish.memory_mib;
            std::size_t own = 0;
            for (const Run& run : runs) {
                const bool there = run.places.contains(name);
                memory += there ? run.wish.memory_mib : 0;
                own += there && holder_of(run.owner) == holder_of(owner) ? 1U : 0U;
            }
            const bool fits = places_at(name) < kCapacity && (wish.memory_mib == 0 || memory <= kMemory) &&
                              own < kQuotaPlaces && paused_[name] <= now && !wish.excluded.contains(name) &&
                              !never.contains(name);
            spec.available.push_back(fits ? 1 : 0);
        }
        const auto tree = placement::Tree::build(std::move(spec)).value();
        std::set<std::string> names;
        const auto model = placement::SizeModel::constant(1).value();
        const auto best = placement::solve(tree, wish.objective, model, wish.k).value();
        for (const auto id : best.blue) {
            // What nothing reaches is no relay.
            if (tree.subtree_load(id) > 0) {
                names.insert("s" + std::to_string(id));
            }
        }
        return names;
    }

 private:
    std::map<std::string, Time> paused_;
    std::map<std::pair<std::string, std::string>, Time> words_;
};

class Rounds {
 public:
    explicit Rounds(std::uint64_t seed)
        : random_(seed), placing_(ground(), settings(), [this] { return ++drawn_; }, Time{}) {}

    void run(int rounds) {
        for (int round = 0; round < rounds; ++round) {
            now_ += std::chrono::milliseconds(random_() % 3000);
            reference_.expire(now_);
            switch (random_() % 8) {
                case 0:
                    release();
                    break;
                case 1:
                case 2:
                case 3:
                    renew();
                    break;
                case 4:
                    refuse();
                    break;
                default:
                    admit();
            }
            check();
        }
    }

 private:
    static Ground ground() {
        auto topology = binary_tree(kSwitches, kCapacity);
        for (topology::Switch& each : topology.switches) {
            each.memory_mib = kMemory;
        }
        return ground_of(std::move(topology));
    }
    static Settings settings() {
        return {.lease = kRoundLease,
                .pause = kPause,
                .max_plans = kMaxPlans,
                .quota_plans = kQuotaPlans,
                .quota_places = kQuotaPlaces};
    }

    Run* any() {
        if (reference_.runs.empty()) {
            return nullptr;
        }
        return &*std::next(reference_.runs.begin(),
                           static_cast<std::ptrdiff_t>(random_() % reference_.runs.size()));
    }

    void admit() {
        Run run;
        run.owner = {.tenant = random_() % 2 == 0 ? "" : "t" + std::to_string(random_() % 2),
                     .host = kReceiver};
        run.wish.task = "t";
        run.wish.instance = ++instances_;
        run.wish.k = static_cast<std::uint32_t>(1 + random_() % 4);
        run.wish.objective =
            random_() % 4 == 0 ? placement::Objective::kBytes : placement::Objective::kUtilisation;
        run.wish.memory_mib = random_() % 2 == 0 ? 0 : static_cast<std::uint32_t>(1 + random_() % 60);
        for (std::size_t leaf = kSwitches / 2; leaf < kSwitches; ++leaf) {
            if (random_() % 3 != 0) {
                run.wish.senders.push_back({leaf_host(leaf), static_cast<std::uint32_t>(1 + random_() % 5)});
            }
        }
        if (random_() % 3 == 0) {
            run.wish.excluded.insert("s" + std::to_string(random_() % kSwitches));
        }
        const bool room = reference_.runs.size() < kMaxPlans && reference_.plans_of(run.owner) < kQuotaPlans;
        auto answer = placing_.admit(run.owner, run.wish, now_);
        REQUIRE(answer.ok() == room);
        if (!room) {
            CHECK(answer.error().code() == Errc::kLimit);
            return;
        }
        run.places = reference_.plan(run.owner, run.wish, {}, now_);
        CHECK(names_of(answer->placement) == run.places);
        run.answer = *std::move(answer);
        run.ends = now_ + kRoundLease;
        reference_.runs.push_back(std::move(run));
    }

    void renew() {
        if (Run* const run = any(); run != nullptr) {
            const auto rebuilt = placing_.renew(
                run->owner, {.wish = run->wish, .plan = run->answer.plan, .placement = run->answer.placement},
                now_);
            REQUIRE(rebuilt.ok());
            CHECK_FALSE(*rebuilt);
            run->ends = now_ + kRoundLease;
        }
    }

    void release() {
        if (Run* const run = any(); run != nullptr) {
            placing_.release(run->owner, run->wish.instance, now_);
            std::erase_if(reference_.runs, [run](const Run& each) { return &each == run; });
        }
    }

    void refuse() {
        Run* const run = any();
        if (run == nullptr || run->places.empty()) {
            return;
        }
        const std::string name = *run->places.begin();
        const auto answer = placing_.report_refused(
            run->owner,
            {.instance = run->wish.instance, .plan = run->answer.plan, .name = name, .reason = "full"}, now_);
        REQUIRE(answer.ok());
        run->refused.insert(name);
        run->places.clear();
        reference_.refused(name, run->owner, now_);
        run->places = reference_.plan(run->owner, run->wish, run->refused, now_);
        CHECK(names_of(answer->placement) == run->places);
        run->answer = *answer;
        run->ends = now_ + kRoundLease;
    }

    void check() {
        placing_.expire(now_);
        CHECK(placing_.plans().size() == reference_.runs.size());
        for (const SwitchState& state : placing_.places().states()) {
            CHECK(state.taken == reference_.places_at(state.name));
        }
    }

    std::mt19937_64 random_;
    std::uint64_t drawn_ = 0;
    std::uint64_t instances_ = 0;
    Time now_{};
    Reference reference_;
    Placing placing_;
};

}  // namespace

TEST_CASE("random rounds agree with a reference that counts everything anew") {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        CAPTURE(seed);
        Rounds(seed).run(400);
    }
}
