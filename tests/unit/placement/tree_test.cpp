// SPDX-License-Identifier: Apache-2.0
#include "lib/placement/tree.h"

#include <cmath>
#include <limits>
#include <string>

#include <doctest/doctest.h>

using namespace ask::placement;

namespace {

TreeSpec chain(std::uint32_t count) {
    TreeSpec spec;
    for (std::uint32_t id = 0; id < count; ++id) {
        spec.parent.push_back(id == 0 ? kNoSwitch : id - 1);
        spec.rate.push_back(1);
        spec.load.push_back(1);
    }
    return spec;
}

void check_refused(const TreeSpec& spec, ask::Errc code, const std::string& says) {
    const auto tree = Tree::build(spec);
    REQUIRE_FALSE(tree.ok());
    CHECK(tree.error().code() == code);
    INFO(tree.error().text());
    CHECK(tree.error().text().find(says) != std::string::npos);
}

}  // namespace

TEST_CASE("a tree knows its shape") {
    TreeSpec spec = chain(4);
    spec.parent = {2, 2, kNoSwitch, 1};
    spec.load = {5, 0, 1, 7};
    const Tree tree = Tree::build(spec).value();
    CHECK(tree.root() == 2);
    CHECK(tree.children(2).size() == 2);
    CHECK(tree.children(3).empty());
    CHECK(tree.depth(3) == 2);
    CHECK(tree.height() == 2);
    CHECK(tree.subtree_load(1) == 7);
    CHECK(tree.total_load() == 13);
    CHECK(tree.available(3));
    CHECK(tree.top_down().front() == 2);
}

TEST_CASE("trees that are none are refused, naming the switch") {
    check_refused(TreeSpec{}, ask::Errc::kInput, "at least one switch");
    TreeSpec spec = chain(3);
    spec.parent[2] = kNoSwitch;
    check_refused(spec, ask::Errc::kInput, "two roots: switch 0 and switch 2");
    spec = chain(3);
    spec.parent[1] = 9;
    check_refused(spec, ask::Errc::kInput, "switch 1: its parent, switch 9, does not exist");
    spec = chain(3);
    spec.parent[0] = 2;
    check_refused(spec, ask::Errc::kInput, "no root");
    spec = chain(4);
    spec.parent[2] = 3;
    check_refused(spec, ask::Errc::kInput, "switch 2 does not reach the root");
    spec = chain(2);
    spec.parent[1] = 1;
    check_refused(spec, ask::Errc::kInput, "switch 1 does not reach the root");
    spec = chain(3);
    spec.load.pop_back();
    check_refused(spec, ask::Errc::kInput, "loads: 2 entries for 3 switches");
}

TEST_CASE("rates must be positive numbers within bounds") {
    for (const double rate :
         {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity(), 1e-13, 1e19}) {
        TreeSpec spec = chain(3);
        spec.rate[1] = rate;
        check_refused(spec, ask::Errc::kInput, "switch 1: rate");
    }
}

TEST_CASE("a total load that a double cannot count is refused") {
    TreeSpec spec = chain(2);
    spec.load = {kMaxTotalLoad, 1};
    check_refused(spec, ask::Errc::kLimit, "switch 1: load 1");
    spec.load = {~std::uint64_t{0}, 2};
    check_refused(spec, ask::Errc::kLimit, "switch 0");
    spec.load = {kMaxTotalLoad, 0};
    Tree tree = Tree::build(spec).value();
    CHECK(tree.set_load(1, 1).error().code() == ask::Errc::kLimit);
    CHECK(tree.set_load(2, 1).error().code() == ask::Errc::kInput);
    CHECK(tree.total_load() == kMaxTotalLoad);
}

TEST_CASE("copies share the shape and keep their own loads and availability") {
    const Tree tree = Tree::build(chain(3)).value();
    Tree other = tree.with_loads({0, 0, 4}).value();
    CHECK(other.set_load(1, 2).ok());
    CHECK(other.subtree_load(0) == 6);
    CHECK(other.subtree_load(2) == 4);
    CHECK(tree.subtree_load(0) == 3);
    CHECK_FALSE(tree.with_available({1, 0, 1}).value().available(1));
    CHECK(tree.available(1));
    CHECK_FALSE(tree.with_loads({1, 2}).ok());
    CHECK_FALSE(tree.with_available({1}).ok());
}
