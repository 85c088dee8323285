// SPDX-License-Identifier: Apache-2.0
//
// The network that placement works on: a tree of switches whose root hands its messages to the destination
// (SOAR, section 2). Every switch has one link towards the destination, so a link is named by the switch
// below it.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "lib/base/result.h"

namespace ask::placement {

using SwitchId = std::uint32_t;

inline constexpr SwitchId kNoSwitch = std::numeric_limits<SwitchId>::max();
inline constexpr std::size_t kMaxSwitches = std::size_t{1} << 24;
// Message counts stay exact in a double, and costs finite, inside these bounds.
inline constexpr std::uint64_t kMaxTotalLoad = std::uint64_t{1} << 40;
inline constexpr double kMinRate = 1e-12;
inline constexpr double kMaxRate = 1e18;

// What a tree is built from: one entry per switch in every vector that is not empty.
struct TreeSpec {
    std::vector<SwitchId> parent;         // kNoSwitch for the root
    std::vector<double> rate;             // of the link towards the parent, messages per second
    std::vector<std::uint64_t> load;      // servers at the switch, each of which sends one message
    std::vector<std::uint8_t> available;  // 1: may aggregate; empty: all may
};

// A checked tree. Cheap to copy: the shape is shared, loads and availability are the copy's own.
class Tree {
 public:
    // Fails with kInput for vectors of unequal length, no or several roots, a parent that does not exist, a
    // cycle, a rate outside [kMinRate, kMaxRate] or not a number; with kLimit beyond kMaxSwitches or
    // kMaxTotalLoad. The text names the switch by its index.
    static Result<Tree> build(TreeSpec spec);

    // The same shape under other loads or another availability (kInput if the length differs).
    [[nodiscard]] Result<Tree> with_loads(std::vector<std::uint64_t> load) const;
    [[nodiscard]] Result<Tree> with_available(std::vector<std::uint8_t> available) const;

    // Moves a load in place: the cost is one step per ancestor. kInput for an unknown switch, kLimit beyond
    // kMaxTotalLoad.
    Result<> set_load(SwitchId id, std::uint64_t load);

    [[nodiscard]] std::size_t size() const { return shape_->parent.size(); }
    [[nodiscard]] SwitchId root() const { return shape_->top_down.front(); }
    [[nodiscard]] SwitchId parent(SwitchId id) const { return shape_->parent[id]; }
    [[nodiscard]] std::span<const SwitchId> children(SwitchId id) const;
    [[nodiscard]] double rate(SwitchId id) const { return shape_->rate[id]; }
    // Seconds that one message takes on the link above `id` (the paper's rho).
    [[nodiscard]] double seconds(SwitchId id) const { return 1.0 / shape_->rate[id]; }
    // Links between `id` and the root.
    [[nodiscard]] std::uint32_t depth(SwitchId id) const { return shape_->depth[id]; }
    [[nodiscard]] std::uint32_t height() const { return shape_->height; }
    // Every switch, each after its parent.
    [[nodiscard]] std::span<const SwitchId> top_down() const { return shape_->top_down; }

    [[nodiscard]] std::uint64_t load(SwitchId id) const { return load_[id]; }
    [[nodiscard]] std::span<const std::uint64_t> loads() const { return load_; }
    [[nodiscard]] bool available(SwitchId id) const { return available_[id] != 0; }
    [[nodiscard]] std::uint64_t subtree_load(SwitchId id) const { return subtree_load_[id]; }
    [[nodiscard]] std::uint64_t total_load() const { return subtree_load_[root()]; }

 private:
    struct Shape {
        std::vector<SwitchId> parent;
        std::vector<double> rate;
        std::vector<std::uint32_t> first_child;  // into `child`, size() + 1 entries
        std::vector<SwitchId> child;
        std::vector<SwitchId> top_down;
        std::vector<std::uint32_t> depth;
        std::uint32_t height = 0;
    };

    Tree() = default;
    static Result<std::shared_ptr<const Shape>> build_shape(std::vector<SwitchId> parent,
                                                            std::vector<double> rate);
    Result<> adopt_loads(std::vector<std::uint64_t> load);

    std::shared_ptr<const Shape> shape_;
    std::vector<std::uint64_t> load_;
    std::vector<std::uint8_t> available_;
    std::vector<std::uint64_t> subtree_load_;
};

}  // namespace ask::placement
