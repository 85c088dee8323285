// SPDX-License-Identifier: Apache-2.0
#include "lib/placement/tree.h"

#include <algorithm>
#include <string>
#include <utility>

namespace ask::placement {
namespace {

std::string switch_name(std::size_t id) {
    return "switch " + std::to_string(id);
}

Result<> check_length(std::string_view what, std::size_t got, std::size_t want) {
    if (got == want) {
        return {};
    }
    return Error(Errc::kInput, std::string(what) + ": " + std::to_string(got) + " entries for " +
                                   std::to_string(want) + " switches");
}

Result<> check_rate(std::size_t id, double rate) {
    // Written so that a NaN fails too.
    if (rate >= kMinRate && rate <= kMaxRate) {
        return {};
    }
    return Error(Errc::kInput, switch_name(id) + ": rate " + std::to_string(rate) +
                                   " is not a number of messages per second in [1e-12, 1e18]");
}

Result<SwitchId> find_root(const std::vector<SwitchId>& parent) {
    SwitchId root = kNoSwitch;
    for (std::size_t id = 0; id < parent.size(); ++id) {
        if (parent[id] == kNoSwitch) {
            if (root != kNoSwitch) {
                return Error(Errc::kInput, "two roots: " + switch_name(root) + " and " + switch_name(id) +
                                               "; give one of them a parent");
            }
            root = static_cast<SwitchId>(id);
        } else if (parent[id] >= parent.size()) {
            return Error(Errc::kInput,
                         switch_name(id) + ": its parent, " + switch_name(parent[id]) + ", does not exist");
        }
    }
    if (root == kNoSwitch) {
        return Error(Errc::kInput, "no root: every switch has a parent, so the links form a cycle");
    }
    return root;
}

}  // namespace

Result<std::shared_ptr<const Tree::Shape>> Tree::build_shape(std::vector<SwitchId> parent,
                                                             std::vector<double> rate) {
    const std::size_t count = parent.size();
    const Result<SwitchId> root = find_root(parent);
    if (!root.ok()) {
        return root.error();
    }
    for (std::size_t id = 0; id < count; ++id) {
        ASK_TRY(check_rate(id, rate[id]), "tree");
    }
    auto shape = std::make_shared<Shape>();
    shape->first_child.assign(count + 1, 0);
    for (const SwitchId up : parent) {
        if (up != kNoSwitch) {
            ++shape->first_child[up + 1];
        }
    }
    for (std::size_t id = 0; id < count; ++id) {
        shape->first_child[id + 1] += shape->first_child[id];
    }
    shape->child.resize(count - 1);
    std::vector<std::uint32_t> next(shape->first_child.begin(), shape->first_child.end() - 1);
    for (std::size_t id = 0; id < count; ++id) {
        if (parent[id] != kNoSwitch) {
            shape->child[next[parent[id]]++] = static_cast<SwitchId>(id);
        }
    }
    shape->depth.assign(count, 0);
    shape->top_down.reserve(count);
    shape->top_down.push_back(*root);
    for (std::size_t at = 0; at < shape->top_down.size(); ++at) {
        const SwitchId id = shape->top_down[at];
        shape->height = std::max(shape->height, shape->depth[id]);
        for (std::uint32_t edge = shape->first_child[id]; edge < shape->first_child[id + 1]; ++edge) {
            shape->depth[shape->child[edge]] = shape->depth[id] + 1;
            shape->top_down.push_back(shape->child[edge]);
        }
    }
    if (shape->top_down.size() != count) {
        std::vector<bool> reached(count, false);
        for (const SwitchId id : shape->top_down) {
            reached[id] = true;
        }
        const auto lost = std::find(reached.begin(), reached.end(), false) - reached.begin();
        return Error(Errc::kInput, switch_name(static_cast<std::size_t>(lost)) +
                                       " does not reach the root: its links form a cycle");
    }
    shape->parent = std::move(parent);
    shape->rate = std::move(rate);
    return std::shared_ptr<const Shape>(std::move(shape));
}

Result<Tree> Tree::build(TreeSpec spec) {
    const std::size_t count = spec.parent.size();
    if (count == 0) {
        return Error(Errc::kInput, "a tree needs at least one switch");
    }
    if (count > kMaxSwitches) {
        return Error(Errc::kLimit,
                     std::to_string(count) + " switches; the limit is " + std::to_string(kMaxSwitches));
    }
    ASK_TRY(check_length("rates", spec.rate.size(), count), "tree");
    if (spec.available.empty()) {
        spec.available.assign(count, 1);
    }
    ASK_TRY(check_length("availability", spec.available.size(), count), "tree");
    auto shape = build_shape(std::move(spec.parent), std::move(spec.rate));
    if (!shape.ok()) {
        return std::move(shape).error();
    }
    Tree tree;
    tree.shape_ = std::move(*shape);
    tree.available_ = std::move(spec.available);
    ASK_TRY(tree.adopt_loads(std::move(spec.load)), "tree");
    return tree;
}

Result<> Tree::adopt_loads(std::vector<std::uint64_t> load) {
    ASK_TRY(check_length("loads", load.size(), size()), "loads");
    std::uint64_t total = 0;
    for (std::size_t id = 0; id < load.size(); ++id) {
        if (load[id] > kMaxTotalLoad - total) {
            return Error(Errc::kLimit, switch_name(id) + ": load " + std::to_string(load[id]) +
                                           " brings the total above " + std::to_string(kMaxTotalLoad));
        }
        total += load[id];
    }
    load_ = std::move(load);
    subtree_load_ = load_;
    const auto order = top_down();
    for (std::size_t at = order.size(); at-- > 1;) {
        subtree_load_[parent(order[at])] += subtree_load_[order[at]];
    }
    return {};
}

Result<Tree> Tree::with_loads(std::vector<std::uint64_t> load) const {
    Tree tree = *this;
    ASK_TRY(tree.adopt_loads(std::move(load)), "tree");
    return tree;
}

Result<Tree> Tree::with_available(std::vector<std::uint8_t> available) const {
    ASK_TRY(check_length("availability", available.size(), size()), "tree");
    Tree tree = *this;
    tree.available_ = std::move(available);
    return tree;
}

Result<> Tree::set_load(SwitchId id, std::uint64_t load) {
    if (id >= size()) {
        return Error(Errc::kInput,
                     switch_name(id) + " does not exist; the tree has " + std::to_string(size()));
    }
    const std::uint64_t others = total_load() - load_[id];
    if (load > kMaxTotalLoad - others) {
        return Error(Errc::kLimit, switch_name(id) + ": load " + std::to_string(load) +
                                       " brings the total above " + std::to_string(kMaxTotalLoad));
    }
    const std::uint64_t old = load_[id];
    load_[id] = load;
    for (SwitchId at = id; at != kNoSwitch; at = parent(at)) {
        subtree_load_[at] = subtree_load_[at] - old + load;
    }
    return {};
}

std::span<const SwitchId> Tree::children(SwitchId id) const {
    const auto begin = shape_->first_child[id];
    return std::span(shape_->child).subspan(begin, shape_->first_child[id + 1] - begin);
}

}  // namespace ask::placement
