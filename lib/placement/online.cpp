// SPDX-License-Identifier: Apache-2.0
#include "lib/placement/online.h"

#include <string>
#include <utility>

namespace ask::placement {

OnlinePlanner::OnlinePlanner(Tree tree, std::vector<std::uint32_t> capacity)
    : tree_(std::move(tree)), capacity_(std::move(capacity)), residual_(capacity_) {}

Result<OnlinePlanner> OnlinePlanner::create(Tree tree, std::vector<std::uint32_t> capacity) {
    if (capacity.size() != tree.size()) {
        return Error(Errc::kInput, "capacities: " + std::to_string(capacity.size()) + " entries for " +
                                       std::to_string(tree.size()) + " switches");
    }
    return OnlinePlanner(std::move(tree), std::move(capacity));
}

Result<Problem> OnlinePlanner::problem_for(std::vector<std::uint64_t> load) const {
    std::vector<std::uint8_t> available(tree_.size());
    for (std::size_t id = 0; id < available.size(); ++id) {
        available[id] = tree_.available(static_cast<SwitchId>(id)) && residual_[id] > 0 ? 1 : 0;
    }
    auto loaded = tree_.with_loads(std::move(load));
    if (!loaded.ok()) {
        return std::move(loaded).error();
    }
    // The length is right by construction.
    return make_problem(loaded->with_available(std::move(available)).value(), Objective::kUtilisation);
}

Result<> OnlinePlanner::take(std::span<const SwitchId> blue) {
    for (const SwitchId id : blue) {
        if (id >= residual_.size() || residual_[id] == 0) {
            return Error(Errc::kLimit, "switch " + std::to_string(id) + " has no capacity left");
        }
    }
    for (const SwitchId id : blue) {
        --residual_[id];
    }
    return {};
}

Result<> OnlinePlanner::release(std::span<const SwitchId> blue) {
    for (const SwitchId id : blue) {
        if (id >= residual_.size() || residual_[id] == capacity_[id]) {
            return Error(Errc::kLimit, "switch " + std::to_string(id) + " has no capacity taken");
        }
    }
    for (const SwitchId id : blue) {
        ++residual_[id];
    }
    return {};
}

}  // namespace ask::placement
