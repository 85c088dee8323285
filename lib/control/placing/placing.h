// SPDX-License-Identifier: Apache-2.0
//
// The controller of placements: admits tasks to switches one after the other (SOAR's online workloads), for
// as long as their receivers renew them. For one thread at a time; time goes in with each call and never goes
// back.
//
// What it knows is in memory. After a restart it hears of running tasks by their renewals; until a lease is
// over it has not heard of all, and admits tasks without switches, which is always right.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/control/placing/places.h"
#include "lib/control/placing/wish.h"
#include "lib/placement/budget.h"
#include "lib/placement/size_model.h"
#include "lib/rpc/owner.h"

namespace ask::placing {

// What plans are made on.
struct Ground {
    topology::Fabric fabric;
    placement::SizeModel model;
};

struct Settings {
    std::chrono::seconds lease{30};
    std::chrono::seconds pause{30};  // that a switch is left alone after a refusal
    std::uint32_t k = 0;             // where a task does not say; 0: paced
    std::uint32_t paced_tasks = 32;  // that are to share the places of all switches, if paced
    std::uint32_t max_plans = 1024;
    std::uint32_t quota_plans = 0;   // of one holder; 0: seven eighths of max_plans
    std::uint32_t quota_places = 0;  // of one holder at a switch; 0: seven eighths of its capacity
};

struct PlanKey {
    std::string tenant;
    std::uint32_t host = 0;
    std::uint64_t instance = 0;
    auto operator<=>(const PlanKey&) const = default;
};

struct Plan {
    Owner owner;
    std::uint64_t id = 0;
    Wish wish;
    std::set<std::string> refused;      // switches, by the task's own report
    std::string placement;              // v1::Placement as bytes, which are a third of the message
    std::vector<std::string> switches;  // that aggregate
    std::vector<std::string> taken;     // of these, those where a place is counted for it
    std::string note;
    bool rebuilt = false;
    Time made{};
    Time ends{};  // its lease
};

struct Answer {
    v1::Placement placement;
    std::uint64_t plan = 0;
    std::string note;
};

// What has been done since the start.
struct Counters {
    std::uint64_t placed = 0;    // tasks admitted to switches
    std::uint64_t straight = 0;  // without any
    std::uint64_t young = 0;     // without any, because not all running tasks were known yet
    std::uint64_t refused = 0;   // not admitted
    std::uint64_t repeated = 0;
    std::uint64_t renewed = 0;
    std::uint64_t rebuilt = 0;
    std::uint64_t released = 0;
    std::uint64_t expired = 0;
    std::uint64_t reported = 0;
};

class Placing {
 public:
    // A task may be refused so often; then it goes without switches.
    static constexpr std::size_t kMostRefusals = 3;
    // Switches of a task that does not say how many, at most.
    static constexpr std::uint32_t kMostPaced = 64;

    // `draw` makes ids of plans: never 0, never one that anybody had before.
    Placing(Ground ground, Settings settings, std::function<std::uint64_t()> draw, Time start);

    // Errors as Controller.Admit and so on (proto/controller.proto).
    Result<Answer> admit(const Owner& owner, const Wish& wish, Time now);
    // True: it was not known.
    Result<bool> renew(const Owner& owner, const Claim& claim, Time now);
    void release(const Owner& owner, std::uint64_t instance, Time now);
    struct Refusal {
        std::uint64_t instance = 0;
        std::uint64_t plan = 0;
        std::string name;    // of the switch
        std::string reason;  // fit to be shown
    };
    Result<Answer> report_refused(const Owner& owner, const Refusal& refusal, Time now);
    // Whether that changed anything.
    Result<bool> set_available(const std::string& name, bool available);

    // Gives back what nobody has renewed. Each call above does so first.
    void expire(Time now);
    // Another topology. Tasks keep their plans.
    void follow(Ground ground);
    void change(const Settings& settings);

    [[nodiscard]] const std::map<PlanKey, Plan>& plans() const { return plans_; }
    [[nodiscard]] const Places& places() const { return places_; }
    [[nodiscard]] const topology::Fabric& fabric() const { return ground_->fabric; }
    [[nodiscard]] const Settings& settings() const { return settings_; }
    [[nodiscard]] const Counters& counters() const { return counters_; }
    // For so long it is younger than its first lease.
    [[nodiscard]] Clock::duration young(Time now) const;

 private:
    [[nodiscard]] Plan* find(const Owner& owner, std::uint64_t instance);
    [[nodiscard]] Result<> check_room(const Owner& owner) const;
    // Decides where the plan's task aggregates, and takes the places.
    Result<> place(Plan& plan, Time now);
    [[nodiscard]] Result<std::vector<placement::SwitchId>> choose(const Plan& plan, placement::TreeSpec spec,
                                                                  Time now, std::string& note);
    [[nodiscard]] Result<std::vector<placement::SwitchId>> solve(const Wish& wish,
                                                                 const placement::Tree& tree,
                                                                 std::uint32_t left);
    void insert(Plan plan);
    void drop(std::map<PlanKey, Plan>::iterator at);
    void give_back(const Plan& plan);
    void renew_lease(Plan& plan, Time now);

    std::unique_ptr<Ground> ground_;
    Settings settings_;
    const std::function<std::uint64_t()> draw_;
    const Time young_until_;
    Places places_;
    placement::PacedBudget paced_{0, 0};
    std::map<PlanKey, Plan> plans_;
    std::map<std::string, std::uint32_t> plans_of_;  // by holder
    Time next_end_ = Time::max();                    // no lease ends before
    Counters counters_;
};

}  // namespace ask::placing
