// SPDX-License-Identifier: Apache-2.0
//
// Links that carry packets of tuples.
#pragma once

#include <string>
#include <utility>

#include "tests/sim/frame/links.h"
#include "tests/sim/tuples/world.h"

namespace ask::sim {

class Network final : public Links {
 public:
    explicit Network(World& world) : Links(world, links_of(world.plan)), world_(world) {}

 private:
    static LinkPlan links_of(const Plan& plan) {
        LinkPlan links = LinkPlan::of(plan);
        links.hosts = plan.nodes();
        return links;
    }
    bool forge(Frame& frame, Random& chance) override;
    void wrong(std::string what) override { world_.fail(Promise::kCount, std::move(what)); }

    World& world_;
};

// For the trace: what the frame carries, by its header.
[[nodiscard]] std::string frame_text(const Frame& frame);

}  // namespace ask::sim
