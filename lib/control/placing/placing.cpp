// SPDX-License-Identifier: Apache-2.0
#include "lib/control/placing/placing.h"

#include <algorithm>
#include <array>
#include <utility>

#include "lib/control/switch/quota.h"
#include "lib/net/host_book.h"
#include "lib/placement/solve.h"
#include "lib/topology/placed.h"

namespace ask::placing {
namespace {

using placement::Objective;
using placement::SwitchId;
using placement::Tree;
using placement::TreeSpec;

// Of the trace that a plan is made from: of a topology where that is not enough, k is too large.
constexpr std::uint64_t kPlanMemory = std::uint64_t{1} << 30;
constexpr std::size_t kMostNamed = 8;

PlanKey key_of(const Owner& owner, std::uint64_t instance) {
    return {.tenant = owner.tenant, .host = owner.host, .instance = instance};
}

Asker asker_of(const Plan& plan) {
    return {.holder = holder_of(plan.owner), .memory_mib = plan.wish.memory_mib};
}

void add_sentence(std::string& note, const std::string& sentence) {
    note += (note.empty() ? "" : "; ") + sentence;
}

// Where senders are: known hosts at their switches, everybody else and the receiver's own host nowhere.
std::vector<topology::PlacedSender> locate(const Wish& wish, std::uint32_t receiver,
                                           const topology::Fabric& fabric, std::string& note) {
    std::vector<topology::PlacedSender> located;
    std::string unknown;
    std::size_t strangers = 0;
    for (const Sender& sender : wish.senders) {
        const topology::Host* const host = fabric.host_at(sender.address);
        const std::string address = format_host(sender.address);
        topology::PlacedSender made{.name = host == nullptr ? address : host->name,
                                    .address = sender.address,
                                    .sends = sender.sends,
                                    .at = std::nullopt};
        if (host == nullptr) {
            unknown += ++strangers > kMostNamed ? "" : (strangers == 1 ? "" : ", ") + address;
        } else if (sender.address != receiver) {
            made.at = fabric.switch_of(*host);
        }
        located.push_back(std::move(made));
    }
    if (strangers > kMostNamed) {
        unknown += " and " + std::to_string(strangers - kMostNamed) + " more";
    }
    if (strangers > 0) {
        add_sentence(note, "no host of the topology, so straight to the receiver: " + unknown);
    }
    return located;
}

// Why the switches that could have saved something are not there.
std::string why_none(const Tree& tree, const std::vector<Verdict>& verdicts) {
    std::array<std::size_t, kVerdicts> count{};
    std::size_t on_the_way = 0;
    for (std::size_t id = 0; id < verdicts.size(); ++id) {
        // One that a single message passes cannot save any.
        if (tree.subtree_load(static_cast<SwitchId>(id)) >= 2) {
            ++on_the_way;
            ++count[static_cast<std::size_t>(verdicts[id])];
        }
    }
    if (count[static_cast<std::size_t>(Verdict::kFree)] == on_the_way) {
        return "no switch would save anything";
    }
    std::string text = "of " + std::to_string(on_the_way) + " switches that could aggregate";
    for (std::size_t verdict = 0; verdict < kVerdicts; ++verdict) {
        if (count[verdict] > 0) {
            text += ", " + std::to_string(count[verdict]) + " " + verdict_text(static_cast<Verdict>(verdict));
        }
    }
    return text;
}

Result<Answer> answer_of(const Plan& plan) {
    Answer made{.placement = {}, .plan = plan.id, .note = plan.note};
    if (!made.placement.ParseFromString(plan.placement)) {
        return Error(Errc::kInternal, "a plan that was kept cannot be read");
    }
    return made;
}

bool same_places(const std::vector<std::string>& switches, const v1::Placement& placement) {
    return std::ranges::equal(switches, placement.relays(), {}, {}, &v1::PlacedRelay::name);
}

}  // namespace

Placing::Placing(Ground ground, Settings settings, std::function<std::uint64_t()> draw, Time start)
    : ground_(std::make_unique<Ground>(std::move(ground))),
      settings_(settings),
      draw_(std::move(draw)),
      young_until_(start + settings.lease),
      places_(ground_->fabric, settings.quota_places) {}

Clock::duration Placing::young(Time now) const {
    return std::max(Clock::duration::zero(), young_until_ - now);
}

Plan* Placing::find(const Owner& owner, std::uint64_t instance) {
    const auto at = plans_.find(key_of(owner, instance));
    return at == plans_.end() ? nullptr : &at->second;
}

Result<> Placing::check_room(const Owner& owner) const {
    constexpr std::uint32_t kParts = 8;
    const std::uint32_t quota = settings_.quota_plans != 0
                                    ? settings_.quota_plans
                                    : settings_.max_plans - settings_.max_plans / kParts;
    const std::string holder = holder_of(owner);
    const auto at = plans_of_.find(holder);
    const std::uint32_t has = at == plans_of_.end() ? 0 : at->second;
    if (has >= quota && quota < settings_.max_plans) {
        return Error(Errc::kLimit, holder + " has " + std::to_string(has) + " plans of the " +
                                       std::to_string(quota) +
                                       " that one tenant, or host without one, may have: release some, or "
                                       "raise the controller's quota_plans");
    }
    if (plans_.size() >= settings_.max_plans) {
        return Error(Errc::kLimit, "all of " + std::to_string(settings_.max_plans) +
                                       " plans are in use: raise the controller's max_plans");
    }
    return {};
}

Result<Answer> Placing::admit(const Owner& owner, const Wish& wish, Time now) {
    expire(now);
    if (Plan* const known = find(owner, wish.instance); known != nullptr) {
        // Of one that was rebuilt nobody knows what was asked for.
        if (!known->rebuilt && known->wish != wish) {
            ++counters_.refused;
            return Error(Errc::kExists, "task " + wish.task +
                                            ": this instance is admitted already, with another request: "
                                            "another plan needs another instance");
        }
        ++counters_.repeated;
        renew_lease(*known, now);
        return answer_of(*known);
    }
    Plan plan;
    plan.owner = owner;
    plan.wish = wish;
    plan.made = now;
    auto done = check_room(owner);
    done = done.ok() ? place(plan, now) : std::move(done);
    if (!done.ok()) {
        ++counters_.refused;
        return std::move(done).error();
    }
    ++(young(now).count() > 0  ? counters_.young
       : plan.switches.empty() ? counters_.straight
                               : counters_.placed);
    renew_lease(plan, now);
    auto made = answer_of(plan);
    insert(std::move(plan));
    return made;
}

Result<bool> Placing::renew(const Owner& owner, const Claim& claim, Time now) {
    expire(now);
    Plan* const known = find(owner, claim.wish.instance);
    if (known != nullptr && known->id == claim.plan && same_places(known->switches, claim.placement)) {
        renew_lease(*known, now);
        ++counters_.renewed;
        return false;
    }
    // What the receiver says it runs by is what runs. (One that comes late says what was; the next one puts
    // it right.)
    if (known == nullptr) {
        ASK_PASS(check_room(owner));
    }
    Plan plan;
    plan.owner = owner;
    plan.id = claim.plan;
    plan.wish = claim.wish;
    plan.rebuilt = true;
    plan.made = known == nullptr ? now : known->made;
    v1::Placement kept = claim.placement;
    kept.clear_links();
    plan.placement = kept.SerializeAsString();
    for (const v1::PlacedRelay& relay : kept.relays()) {
        plan.switches.push_back(relay.name());
    }
    if (known != nullptr) {
        plan.refused = known->refused;
        drop(plans_.find(key_of(owner, claim.wish.instance)));
    }
    plan.taken = places_.take(plan.switches, asker_of(plan));
    renew_lease(plan, now);
    insert(std::move(plan));
    ++counters_.rebuilt;
    return true;
}

void Placing::release(const Owner& owner, std::uint64_t instance, Time now) {
    expire(now);
    const auto at = plans_.find(key_of(owner, instance));
    if (at != plans_.end()) {
        drop(at);
        ++counters_.released;
    }
}

Result<Answer> Placing::report_refused(const Owner& owner, const Refusal& refusal, Time now) {
    expire(now);
    Plan* const plan = find(owner, refusal.instance);
    if (plan == nullptr) {
        return Error(Errc::kUnknown,
                     "no such plan, or its lease is over: admit the task again, as another "
                     "instance");
    }
    if (plan->id != refusal.plan && plan->refused.contains(refusal.name)) {
        ++counters_.repeated;
        renew_lease(*plan, now);
        return answer_of(*plan);
    }
    if (plan->id != refusal.plan || std::ranges::find(plan->switches, refusal.name) == plan->switches.end()) {
        return Error(Errc::kAborted, "switch '" + refusal.name + "' is not in this plan");
    }
    ++counters_.reported;
    places_.refused(refusal.name, holder_of(owner), refusal.reason, now, settings_.pause);
    Plan next = *plan;
    next.refused.insert(refusal.name);
    // Its own places are free for it.
    give_back(*plan);
    plan->taken.clear();
    if (auto done = place(next, now); !done.ok()) {
        plan->taken = places_.take(plan->switches, asker_of(*plan));
        return std::move(done).error();
    }
    *plan = std::move(next);
    plan->rebuilt = false;
    renew_lease(*plan, now);
    return answer_of(*plan);
}

Result<bool> Placing::set_available(const std::string& name, bool available) {
    bool changed = false;
    if (!places_.set_available(name, available, &changed)) {
        return Error(Errc::kUnknown, "no switch '" + name + "' in the topology");
    }
    return changed;
}

void Placing::expire(Time now) {
    if (now < next_end_) {
        return;
    }
    next_end_ = Time::max();
    for (auto at = plans_.begin(); at != plans_.end();) {
        const auto here = at++;
        if (here->second.ends <= now) {
            drop(here);
            ++counters_.expired;
        } else {
            next_end_ = std::min(next_end_, here->second.ends);
        }
    }
}

void Placing::follow(Ground ground) {
    auto next = std::make_unique<Ground>(std::move(ground));
    places_.follow(next->fabric);
    ground_ = std::move(next);
    for (auto& [key, plan] : plans_) {
        plan.taken = places_.take(plan.switches, asker_of(plan));
    }
}

void Placing::change(const Settings& settings) {
    settings_ = settings;
    places_.set_quota(settings.quota_places);
}

Result<> Placing::place(Plan& plan, Time now) {
    const topology::Fabric& fabric = ground_->fabric;
    plan.note.clear();
    auto senders = locate(plan.wish, plan.owner.host, fabric, plan.note);
    const topology::Host* const receiver = fabric.host_at(plan.owner.host);
    TreeSpec spec = fabric.rooted_at(receiver);
    std::ranges::fill(spec.load, 0);
    for (topology::PlacedSender& sender : senders) {
        if (receiver == nullptr) {
            sender.at.reset();
        } else if (sender.at) {
            spec.load[*sender.at] += sender.sends;
        }
    }
    const auto tree = Tree::build(spec);
    ASK_PASS(tree);
    std::vector<SwitchId> blue;
    if (receiver == nullptr) {
        add_sentence(plan.note, "the receiver, " + format_host(plan.owner.host) +
                                    ", is no host of the topology: everything goes straight to it");
    } else if (young(now).count() > 0) {
        add_sentence(plan.note,
                     "the controller has started, and waits for up to " +
                         std::to_string(std::chrono::ceil<std::chrono::seconds>(young(now)).count()) +
                         " s to hear of tasks that run: everything goes straight to the receiver until then");
    } else if (plan.refused.size() > kMostRefusals) {
        add_sentence(plan.note,
                     std::to_string(plan.refused.size()) +
                         " switches have refused this task: everything goes straight to the receiver");
    } else {
        auto chosen = choose(plan, std::move(spec), now, plan.note);
        ASK_PASS(chosen);
        blue = *std::move(chosen);
    }
    const bool known_sizes = fabric.topology().message.line != 0;
    const v1::Placement placed = topology::placed_message(
        {.fabric = &fabric,
         .tree = &*tree,
         .destination = receiver == nullptr ? topology::kDestination : receiver->name,
         .blue = blue,
         .objective = plan.wish.objective,
         .model = known_sizes ? &ground_->model : nullptr},
        senders);
    plan.id = draw_();
    plan.switches.clear();
    for (const v1::PlacedRelay& relay : placed.relays()) {
        plan.switches.push_back(relay.name());
    }
    plan.placement = placed.SerializeAsString();
    plan.taken = places_.take(plan.switches, asker_of(plan));
    return {};
}

Result<std::vector<SwitchId>> Placing::choose(const Plan& plan, TreeSpec spec, Time now, std::string& note) {
    const Asker asker = asker_of(plan);
    std::vector<Verdict> verdicts;
    std::uint32_t left = 0;
    for (std::size_t at = 0; at < spec.parent.size(); ++at) {
        const auto id = static_cast<SwitchId>(at);
        const std::string& name = ground_->fabric.switches()[at].name;
        verdicts.push_back(places_.judge(id, asker, now));
        const bool wanted = !plan.wish.excluded.contains(name) && !plan.refused.contains(name);
        spec.available[at] = wanted && verdicts.back() == Verdict::kFree ? 1 : 0;
        // A task that is paced gets its part of what is left anywhere.
        const std::uint64_t more = spec.available[at] == 0 ? 0 : places_.left(id);
        left = static_cast<std::uint32_t>(std::min<std::uint64_t>(Places::kPlenty, left + more));
    }
    const auto tree = Tree::build(std::move(spec));
    ASK_PASS(tree);
    auto blue = solve(plan.wish, *tree, left);
    ASK_PASS(blue);
    if (blue->empty() && tree->total_load() > 0) {
        add_sentence(note, why_none(*tree, verdicts));
    }
    return blue;
}

Result<std::vector<SwitchId>> Placing::solve(const Wish& wish, const Tree& tree, std::uint32_t left) {
    const auto switches = static_cast<std::uint32_t>(tree.size());
    const std::uint32_t k = std::min(wish.k != 0 ? wish.k : settings_.k, switches);
    const placement::SoarOptions options{.threads = 1, .memory_limit = kPlanMemory};
    const auto running = static_cast<std::uint32_t>(plans_.size());
    const std::uint32_t to_come = settings_.paced_tasks > running ? settings_.paced_tasks - running : 1;
    if (wish.objective == Objective::kBottleneck) {
        // It has no curve that says what each further switch saves: an equal part of what is left.
        const std::uint32_t part = std::clamp(left / to_come, 1U, std::min(kMostPaced, switches));
        auto placed = placement::solve(tree, wish.objective, ground_->model, k != 0 ? k : part, options);
        ASK_PASS(placed);
        return std::move(placed->blue);
    }
    const std::uint32_t most = k != 0 ? k : std::min(kMostPaced, switches);
    const auto soar =
        placement::Soar::gather(make_problem(tree, wish.objective, ground_->model), most, options);
    ASK_PASS(soar);
    if (k != 0) {
        return soar->colour(k);
    }
    paced_.resume(left, to_come);
    return soar->colour(paced_.choose(soar->curve()));
}

void Placing::insert(Plan plan) {
    ++plans_of_[holder_of(plan.owner)];
    const PlanKey key = key_of(plan.owner, plan.wish.instance);
    plans_.emplace(key, std::move(plan));
}

void Placing::drop(std::map<PlanKey, Plan>::iterator at) {
    give_back(at->second);
    const auto of = plans_of_.find(holder_of(at->second.owner));
    if (--of->second == 0) {
        plans_of_.erase(of);
    }
    plans_.erase(at);
}

void Placing::give_back(const Plan& plan) {
    places_.give_back(plan.taken, asker_of(plan));
}

void Placing::renew_lease(Plan& plan, Time now) {
    plan.ends = now + settings_.lease;
    next_end_ = std::min(next_end_, plan.ends);
}

}  // namespace ask::placing
