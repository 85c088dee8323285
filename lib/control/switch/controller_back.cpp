// SPDX-License-Identifier: Apache-2.0
//
// Back levels of the controller (lib/abi/back.h): granted from a budget of their own, in the machine's memory
// and not in the SRAM that a pipeline would have; fixed from a task's first packet to its last fetch.
#include <algorithm>
#include <utility>

#include "lib/base/random.h"
#include "lib/control/switch/controller.h"

namespace ask {
namespace {

constexpr std::uint64_t kKib = 1024;

// What a task gets of which nobody knows the keys: each group its part.
BackBuckets guessed(std::uint64_t bytes) {
    BackBuckets most{};
    most.fill(ASK_BACK_MAX_BUCKETS);
    for (unsigned group = 0; group < most.size(); ++group) {
        const std::uint64_t fit = bytes / most.size() / kBackBucketBytes[group];
        most[group] = std::min(most[group], static_cast<std::uint32_t>(std::bit_floor(fit)));
    }
    return most;
}

}  // namespace

std::uint64_t Controller::back_left() const {
    const Guard lock(mutex_);
    return limits_.back_bytes - std::min(limits_.back_bytes, back_used_);
}

Controller::BackPlan Controller::plan_back(const Owner& owner, const TaskRequest& request) const {
    const BackWish& wish = request.back;
    if (!wish.wanted) {
        return {};
    }
    if (limits_.back_bytes == 0) {
        return {.no_back_reason = "the switch has no memory for one: its back_mib is 0"};
    }
    const std::uint64_t left =
        std::min(limits_.back_bytes - std::min(limits_.back_bytes, back_used_), quotas_.back_left(owner));
    BackBuckets wanted = back_for(wish.keys);
    if (wish.guess) {
        const BackBuckets share = guessed(left / kDefaultPart);
        std::ranges::transform(wanted, share, wanted.begin(),
                               [](std::uint32_t a, std::uint32_t b) { return std::max(a, b); });
    }
    BackPlan plan{.buckets = back_within(wanted, left / kPlannedPart)};
    if (back_bytes(plan.buckets) == 0 && (wish.guess || back_bytes(wanted) != 0)) {
        plan.no_back_reason = std::to_string(back_bytes(wanted) / kKib) + " KiB are wanted, " +
                              std::to_string(left / kKib) +
                              " KiB are left, of which a task gets half: wait for other tasks, or raise the "
                              "switch's back_mib";
    }
    return plan;
}

void Controller::set_back_bytes(Task& task, std::uint64_t bytes) {
    back_used_ += bytes - task.back_bytes;
    quotas_.give_back(task.owner, {.back_bytes = task.back_bytes});
    task.back_bytes = bytes;
    quotas_.take(task.owner, {.back_bytes = bytes});
}

// Without the lock. One that is kept, or a new one, for which what is kept makes room where memory is short.
Result<OwnMapPtr> Controller::make_back(Task& task, unsigned group) {
    if (OwnMapPtr kept = claim_pooled(std::exchange(task.back_pooled[group], nullptr))) {
        return kept;
    }
    auto made = store_.create_back(group, task.back[group]);
    if (made.ok() || made.error().code() != Errc::kLimit || !drop_pooled()) {
        return made;
    }
    // The kernel takes a map's memory back no sooner.
    ASK_PASS(store_.grace_period());
    return store_.create_back(group, task.back[group]);
}

// Its maps, pinned; what they are for is written before they are put in place, so that a successor finds
// them. Without memory for them the task goes without.
Result<> Controller::build_back(Task& task) {
    if (back_bytes(task.back) == 0) {
        task.back_pooled = {};
        return {};
    }
    for (unsigned group = 0; group < task.back.size(); ++group) {
        auto map = task.back[group] == 0 ? Result<OwnMapPtr>(nullptr) : make_back(task, group);
        if (!map.ok() && map.error().code() == Errc::kLimit) {
            task.no_back_reason = map.error().text();
            task.back = {};
            task.back_maps = {};
            task.back_pooled = {};
            return {};
        }
        ASK_PASS(map);
        task.back_maps[group] = std::move(*map);
    }
    ask_back back{.seed = random_u64(), .buckets = {}};
    std::ranges::copy(task.back, std::begin(back.buckets));
    ASK_TRY(store_.backs().set(task.index, back), "back level");
    for (unsigned group = 0; group < task.back.size(); ++group) {
        if (task.back[group] != 0) {
            ASK_PASS(store_.pin(task.pins, back_pin(group), *task.back_maps[group]));
        }
    }
    task.entry.back = 1;
    return {};
}

// False: some of it is lost.
Result<bool> Controller::adopt_back(Task& task) const {
    const auto back = store_.backs().find(task.index);
    ASK_TRY(back, "back level");
    if (!*back) {
        return true;
    }
    for (unsigned group = 0; group < task.back.size(); ++group) {
        if ((*back)->buckets[group] == 0) {
            continue;
        }
        auto adopted = adopt_own_map(task, back_pin(group), store_.back(group), task.back_maps[group]);
        if (!adopted.ok() || !*adopted) {
            return adopted;
        }
        task.back[group] = (*back)->buckets[group];
    }
    return true;
}

Result<> Controller::view_back(const Task& task, FetchSource& source) const {
    for (unsigned group = 0; group < task.back.size(); ++group) {
        if (task.back[group] == 0) {
            continue;
        }
        auto view = store_.view_back(*task.back_maps[group], group, task.back[group]);
        ASK_TRY(view, "task " + task.id);
        // Whoever reads has the map, too: keep_back() sees it.
        struct Reading {
            OwnMapPtr map;
            std::shared_ptr<const BackView> view;
        };
        const auto reading = std::make_shared<const Reading>(task.back_maps[group], std::move(*view));
        source.back[group] = std::shared_ptr<const BackView>(reading, reading->view.get());
    }
    return {};
}

// By the first of each table's buckets: under the lock, and as often as the task is renewed.
BackSize Controller::least_back_of(const Task& task) const {
    constexpr std::uint32_t kLooked = 4096;
    BackSize all;
    for (unsigned group = 0; group < task.back.size(); ++group) {
        const std::uint32_t looked = std::min(task.back[group], kLooked);
        const auto view = looked == 0 ? Result<std::shared_ptr<const BackView>>(nullptr)
                                      : store_.view_back(*task.back_maps[group], group, looked);
        if (!view.ok() || *view == nullptr) {
            continue;
        }
        const auto part =
            measure_back((*view)->bytes().first(std::size_t{looked} * kBackBucketBytes[group]), group);
        const BackSize size = least_back_size(part, looked, task.back[group]);
        all.entries += size.entries;
        all.key_bytes += size.key_bytes;
    }
    return all;
}

Result<> Controller::erase_back(std::uint32_t index) const {
    const auto back = store_.backs().find(index);
    ASK_PASS(back);
    if (!*back) {
        return {};
    }
    bool any = false;
    for (unsigned group = 0; group < ASK_BACK_GROUPS; ++group) {
        if ((*back)->buckets[group] != 0) {
            ASK_PASS(store_.back(group).erase(index));
            any = true;
        }
    }
    return any ? store_.backs().set(index, {}) : Result<>();
}

}  // namespace ask
