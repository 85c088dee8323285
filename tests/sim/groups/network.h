// SPDX-License-Identifier: Apache-2.0
//
// Links that carry packets of values.
#pragma once

#include <string>
#include <utility>

#include "tests/sim/frame/links.h"
#include "tests/sim/groups/world.h"

namespace ask::sim::groups {

class Network final : public Links {
 public:
    explicit Network(World& world) : Links(world, LinkPlan::of(world.plan)), world_(world) {}

 private:
    bool forge(Frame& frame, Random& chance) override;
    void wrong(std::string what) override { world_.fail(Promise::kCount, std::move(what)); }

    World& world_;
};

// For the trace: what the frame carries, by its header.
[[nodiscard]] std::string text_of(const Frame& frame);

}  // namespace ask::sim::groups
