// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/groups/plan.h"

#include <algorithm>
#include <bit>

#include "lib/abi/values.h"
#include "lib/values/terms.h"

namespace ask::sim::groups {

namespace {

void draw_groups(Plan& plan, Random& random) {
    plan.jobs = rare(random, 2) ? 1 : range(random, 2, 4);
    plan.members = rare(random, 20) ? range(random, 6, 12) : range(random, 1, 5);
    plan.hosts = plan.members + range(random, 0, 2);
    plan.switches = rare(random, 2) ? 1 : range(random, 2, 3);
    plan.levels = range(random, 1, 2);
    plan.tasks = range(random, 1, 4);
    plan.operations = range(random, 1, 6);
    plan.depth = range(random, 1, 3);
    plan.values = pick(random, {1, 20, 100, 400});
    plan.kind = range(random, 0, 3);
    plan.window = rare(random, 4) ? pick(random, {64, 256}) : range(random, 1, 16);
    plan.streams = rare(random, 2) ? 1 : range(random, 2, 3);
    plan.blocks = rare(random, 16) ? 22 : range(random, 1, 3);
    plan.pool = rare(random, 16) ? 0 : pick(random, {1, 2, 4, 16, 64});
    plan.fan = range(random, 0, 2);
    plan.through = rare(random, 4) ? 0 : 1;
}

void draw_switch(Plan& plan, Random& random) {
    plan.cpus = range(random, 1, 3);
    plan.steering = rare(random, 3) ? 0 : 1;
    plan.pause = pick(random, {0, 5'000, 30'000, 200'000});
    plan.stall = pick(random, {2, 50, 2'000});
    plan.wipe = pick(random, {0, 0, 2'000, 20'000, 200'000});
    plan.replacements = rare(random, 4) ? range(random, 1, 3) : 0;
}

void draw_network(Plan& plan, Random& random) {
    plan.loss = pick(random, {0, 0, 1'000, 10'000, 100'000, 160'000});
    if (plan.switches == 1 && rare(random, 12)) {
        plan.loss = 300'000;
    }
    plan.duplicate = pick(random, {0, 0, 10'000, 100'000, 300'000});
    plan.damage = pick(random, {0, 0, 10'000, 50'000});
    plan.jitter = pick(random, {0, 20, 200, 1'000});
    plan.straggle = pick(random, {0, 0, 10'000, 100'000});
    plan.replay = pick(random, {0, 0, 20'000, 100'000});
    plan.bypass = pick(random, {0, 0, 0, 20'000, 200'000});
    plan.congestion = pick(random, {0, 0, 0, 50'000});
    plan.forge = pick(random, {0, 0, 0, 50'000});
    plan.reroutes = rare(random, 6) ? range(random, 1, 3) : 0;
}

// A set that is not its sender's is told where its group is open, and nowhere else: no packet may go round
// the switch, nor get past it in disguise.
bool may_lie(const Plan& plan) {
    return plan.bypass + plan.reroutes + plan.replacements + plan.forge == 0;
}

void draw_hosts(Plan& plan, Random& random) {
    plan.skew = pick(random, {0, 0, 1, 50, 1'500});
    plan.idle = pick(random, {0, 0, 1, 40});
    plan.stops = rare(random, 6) ? range(random, 1, 3) : 0;
    plan.deaths = rare(random, 8) ? range(random, 1, 2) : 0;
    plan.deadline = plan.deaths > 0 ? 20'000 : 0;
    if (may_lie(plan) && rare(random, 4)) {
        plan.rogue = pick(random, {20'000, 200'000});
    }
}

}  // namespace

std::span<const Field<Plan>> Plan::fields() {
    static constexpr Field<Plan> kFields[] = {
#define ASK_X(name, what) {#name, what, &Plan::name},
        ASK_GROUPS_PLAN(ASK_X)
#undef ASK_X
    };
    return kFields;
}

Plan draw_plan(std::uint64_t seed) {
    Random random(seed, 1);
    Plan plan;
    draw_groups(plan, random);
    draw_switch(plan, random);
    draw_network(plan, random);
    draw_hosts(plan, random);
    // From a number of its own: a seed means what it meant before there was IPv6.
    Random families(seed, 5);
    plan.six = rare(families, 4) ? 1 : 0;
    return plan;
}

Result<> check_plan(const Plan& plan) {
    ASK_PASS(must(plan.jobs >= 1 && plan.jobs <= 64, "1 to 64 groups"));
    ASK_PASS(must(plan.hosts >= 1 && plan.hosts <= 1000, "1 to 1000 hosts"));
    ASK_PASS(must(plan.members >= 1 && plan.members <= std::min(plan.hosts, ASK_MAX_MEMBERS),
                  "1 to 64 members, each on a host of its own"));
    ASK_PASS(must(plan.switches >= 1 && plan.switches <= 16, "1 to 16 switches"));
    ASK_PASS(must(plan.levels == 1 || plan.levels == 2, "1 or 2 levels"));
    ASK_PASS(must(plan.tasks >= 1 && plan.tasks <= 64, "1 to 64 tasks of a switch"));
    ASK_PASS(must(plan.operations >= 1 && plan.depth >= 1, "operations"));
    ASK_PASS(must(plan.values >= 1 && plan.values <= 100'000, "1 to 100000 values"));
    ASK_PASS(must(plan.window >= 1 && plan.window <= values::kMaxWindow, "a window of 1 to 256"));
    ASK_PASS(must(plan.streams >= 1 && plan.streams <= values::kMaxDataStreams, "1 to 7 streams"));
    ASK_PASS(must(plan.blocks >= 1 && plan.blocks <= 22, "1 to 22 blocks"));
    ASK_PASS(must(plan.pool == 0 || (std::has_single_bit(plan.pool) && plan.pool <= 4096),
                  "a pool that is a power of two"));
    ASK_PASS(must(plan.cpus >= 1 && plan.cpus <= 64, "1 to 64 CPUs"));
    ASK_PASS(must(plan.deaths == 0 || plan.deadline > 0, "a deadline where hosts die"));
    return must(plan.rogue == 0 || may_lie(plan),
                "all packets through switches that have their groups, where a member lies");
}

}  // namespace ask::sim::groups
