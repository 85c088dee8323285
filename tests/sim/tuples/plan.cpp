// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/tuples/plan.h"

#include <algorithm>
#include <array>

#include "tests/sim/tuples/data_plane.h"

namespace ask::sim {

namespace {

void draw_size(Plan& plan, Random& random, Size size) {
    switch (size) {
        case Size::kTiny:
        case Size::kWindows:
            plan.senders = range(random, 1, 3);
            plan.receivers = rare(random, 4) ? 2 : 1;
            plan.hosts = plan.senders + plan.receivers;
            plan.switches = rare(random, 8) ? 2 : 1;
            plan.tasks = range(random, 1, 2);
            plan.channels = range(random, 1, 2);
            plan.tuples = range(random, 1, 40);
            break;
        case Size::kSmall:
            plan.senders = range(random, 1, 6);
            plan.receivers = range(random, 1, 3);
            plan.hosts = plan.senders + plan.receivers;
            plan.switches = range(random, 1, 3);
            plan.tasks = range(random, 1, 4);
            plan.channels = range(random, 1, 4);
            plan.tuples = range(random, 20, 600);
            break;
        case Size::kLarge:
            plan.hosts = range(random, 64, 80);
            plan.receivers = range(random, 4, 8);
            plan.senders = range(random, 8, 24);
            plan.switches = range(random, 3, 5);
            plan.tasks = range(random, 2, 3);
            plan.channels = range(random, 2, 8);
            plan.tuples = range(random, 100, 400);
            break;
    }
    plan.keys = pick(random, {1, 2, 4, 16, 64, 1000});
}

void draw_geometry(Plan& plan, Random& random) {
    struct Shape {
        std::uint32_t short_slots, groups, m;
    };
    constexpr std::array kShapes = {Shape{1, 0, 0}, Shape{2, 0, 0}, Shape{2, 1, 2}, Shape{0, 2, 2},
                                    Shape{1, 2, 3}, Shape{4, 2, 2}, Shape{0, 1, 4}, Shape{16, 8, 2}};
    const Shape& shape = kShapes[random.below(rare(random, 10) ? kShapes.size() : kShapes.size() - 1)];
    plan.short_slots = shape.short_slots;
    plan.groups = shape.groups;
    plan.m = shape.m;
    plan.rows = rare(random, 3) ? range(random, 2, 4) : 1;
    plan.aggregators = rare(random, 10) ? 0 : pick(random, {1, 1, 2, 4, 16, 64});
    plan.copies = rare(random, 2) ? 2 : 1;
    plan.policy = rare(random, 2) ? ASK_POLICY_REPLACE : ASK_POLICY_FIRST_COME;
    plan.memory = rare(random, 2) ? ASK_MEMORY_SHARED : ASK_MEMORY_PIPELINES;
    plan.op = rare(random, 3) ? pick(random, {ASK_OP_MIN, ASK_OP_MAX}) : std::uint32_t{ASK_OP_SUM};
}

void draw_switch(Plan& plan, Random& random) {
    plan.cpus = range(random, 1, 3);
    plan.steering = rare(random, 3) ? 0 : 1;
    plan.dedupe = rare(random, 5) ? ASK_DEDUPE_COMPACT : ASK_DEDUPE_TAGGED;
    if (plan.dedupe == ASK_DEDUPE_COMPACT) {
        plan.steering = 0;  // where it is exact (docs/models.md)
    }
    plan.pause = pick(random, {0, 5'000, 30'000, 200'000});
    plan.stall = pick(random, {2, 50, 2'000});
    plan.rcu_only = rare(random, 4) ? 1 : 0;
    plan.swap_packets = rare(random, 3) ? 0 : range(random, 1, 12);
}

void draw_network(Plan& plan, Random& random) {
    plan.loss = pick(random, {0, 0, 1'000, 10'000, 100'000, 300'000});
    plan.duplicate = pick(random, {0, 0, 10'000, 100'000, 300'000});
    plan.damage = pick(random, {0, 0, 10'000, 50'000});
    plan.jitter = pick(random, {0, 20, 200, 1'000});
    plan.straggle = pick(random, {0, 0, 10'000, 100'000});
    plan.replay = pick(random, {0, 0, 20'000});
    plan.bypass = pick(random, {0, 0, 0, 20'000});
    plan.congestion = pick(random, {0, 0, 0, 50'000});
    plan.forge = pick(random, {0, 0, 0, 50'000});
    plan.call_loss = pick(random, {0, 0, 0, 10'000, 100'000});
    plan.call_delay = pick(random, {50, 500, 5'000});
}

void draw_deaths(Plan& plan, Random& random) {
    plan.partitions = rare(random, 6) ? range(random, 1, 2) : 0;
    plan.switchd_deaths = rare(random, 3) ? range(random, 1, 3) : 0;
    plan.reboots = rare(random, 10) ? 1 : 0;
    plan.sender_deaths = rare(random, 12) ? 1 : 0;
    plan.receiver_deaths = rare(random, 12) ? 1 : 0;
    plan.deadline = 3'000;
    if (plan.dedupe == ASK_DEDUPE_COMPACT) {
        plan.bypass = 0;  // every seq must pass the switch
    }
    if (!rare(random, 16)) {
        plan.channels = std::max(plan.channels, plan.receivers);
    }
}

void draw_applications(Plan& plan, Random& random) {
    plan.workers = range(random, 1, 2);
    plan.local = rare(random, 4) ? 1 : 0;
    plan.idle = rare(random, 4) ? pick(random, {100, plan.deadline / 2, 2 * plan.deadline}) : 0;
    plan.dawdle = rare(random, 8) ? pick(random, {10, plan.deadline / 2, 2 * plan.deadline}) : 0;
    plan.quits = rare(random, 10) ? 20 : 0;
    plan.incomplete = rare(random, 8) ? 1 : 0;
    plan.fit = rare(random, 50) ? 1 : 0;  // the planner takes as long as ten histories
    plan.reroutes = rare(random, 8) && plan.dedupe != ASK_DEDUPE_COMPACT ? range(random, 1, 2) : 0;
    plan.late = rare(random, 8) ? pick(random, {100, 1'000, 5'000}) : 0;
    plan.agent_stops = rare(random, 8) ? range(random, 1, 2) : 0;
    plan.stranger = rare(random, 4) ? range(random, 4, 12) : 0;
    plan.intruder = rare(random, 8) ? range(random, 1, 4) : 0;
}

// From numbers of their own: with none of them a seed means what it meant before there were relays.
void draw_relays(Plan& plan, Random random, Size size) {
    if (size == Size::kLarge || size == Size::kWindows || !rare(random, 5)) {
        return;
    }
    plan.relays = range(random, 1, size == Size::kTiny ? 3 : 4);
    plan.relay_room = rare(random, 6) ? 1 : 0;
    plan.relay_deaths = rare(random, 6) ? range(random, 1, 2) : 0;
    plan.relay_stops = rare(random, 8) ? 1 : 0;
    if (plan.op == ASK_OP_SUM) {
        plan.count = rare(random, 4) ? 1 : 0;
        plan.far = plan.count == 0 && rare(random, 3) ? 1 : 0;
    }
    plan.relay_part = rare(random, 2) ? pick(random, {40, 48}) : 0;
    plan.relay_hangs = rare(random, 8) ? 1 : 0;
}

// A second takes some thousand events of daemons that wait, so a history has few.
void draw_windows(Plan& plan, Random random) {
    plan.windows = range(random, 2, 10);
    plan.tasks = plan.receivers = 1;
    plan.late_members = rare(random, 3) ? range(random, 1, 2) : 0;
    plan.hosts = 1 + plan.senders + plan.late_members;
    plan.channels = 4;
    plan.with_state = pick(random, {0, 50, 100, 100});
    plan.recv_deaths = rare(random, 3) ? range(random, 1, 3) : 0;
    plan.send_deaths = rare(random, 3) ? range(random, 1, 3) : 0;
    plan.spool_kib = rare(random, 4) ? 1 : 0;
    plan.clocks = rare(random, 3) ? pick(random, {50, 700, 3'600'000}) : 0;
    plan.tuples = range(random, 5, 120);
    plan.keys = pick(random, {1, 4, 64});
    plan.op = ASK_OP_SUM;
    plan.count = rare(random, 3) ? 1 : 0;
    plan.copies = 1;
    plan.loss = pick(random, {0, 0, 1'000, 10'000, 100'000});
    // Each window takes a dozen calls, of which each that is lost takes seconds.
    plan.call_loss = pick(random, {0, 0, 0, 1'000, 10'000});
    plan.idle = plan.dawdle = plan.quits = plan.late = 0;
    plan.fit = plan.stranger = plan.intruder = plan.packet_rate = 0;
    plan.pace = pick(random, {0, 20, 500});
    plan.deadline = pick(random, {3'000, 3'000, 10'000});
    plan.key_kind = range(random, 0, 2);
}

}  // namespace

std::span<const Field<Plan>> Plan::fields() {
    static constexpr Field<Plan> kFields[] = {
#define ASK_X(name, what) {#name, what, &Plan::name},
        ASK_SIM_PLAN(ASK_X)
#undef ASK_X
    };
    return kFields;
}

Plan draw_plan(std::uint64_t seed, Size size) {
    Random random(seed, 1);
    Plan plan;
    draw_size(plan, random, size);
    draw_geometry(plan, random);
    draw_switch(plan, random);
    draw_network(plan, random);
    draw_deaths(plan, random);
    plan.key_kind = rare(random, 12) ? 3 : range(random, 0, 2);
    plan.value_kind = range(random, 0, 2);
    plan.merge = rare(random, 2) ? 1 : 0;
    plan.hold = pick(random, {1, 4, 16, 64});
    plan.pace = pick(random, {0, 20, 500});
    plan.switchd_stops = rare(random, 8) ? range(random, 1, 2) : 0;
    if (plan.switchd_stops > 0) {
        // Longer than a stop, so that tasks outlive it; or much shorter, so that they end in time.
        plan.deadline = rare(random, 2) ? 2'000 : 60'000;
    }
    draw_applications(plan, random);
    plan.back_kib = pick(random, {0, 64, 1'024});
    if (plan.back_kib > 0 && plan.aggregators > 0 && rare(random, 2)) {
        // What travels whole.
        plan.key_kind = 4;
        plan.value_kind = range(random, 2, 3);
    }
    plan.packet_rate = rare(random, 24) ? pick(random, {200, 1000, 5000}) : 0;
    plan.own = plan.switches > 1 && rare(random, 2) ? 1 : 0;
    draw_relays(plan, Random(seed, 2), size);
    if (size == Size::kWindows) {
        draw_windows(plan, Random(seed, 3));
    }
    // From a number of its own, too.
    Random families(seed, 5);
    plan.six = rare(families, 4) ? 1 : 0;
    return plan;
}

Result<> check_plan(const Plan& plan) {
    ASK_PASS(validate(plan.geometry()));
    const unsigned payload = plan.geometry().payload_bytes(plan.rows);
    ASK_PASS(must(payload + kMostFrameHeaderBytes <= kFrameRoom, "a geometry that fits a frame"));
    ASK_PASS(must(plan.hosts >= 2 && plan.hosts <= 1000, "2 to 1000 hosts"));
    ASK_PASS(must(plan.relays <= 8 && (plan.relays + 1) * plan.receivers <= DataPlane::kTasks,
                  "relays that fit the switch's tasks, for every receiver"));
    ASK_PASS(
        must(plan.op == ASK_OP_SUM || plan.count + plan.far == 0, "sums, where tasks count or leave int64"));
    ASK_PASS(must(plan.switches >= 1 && plan.switches <= 16, "1 to 16 switches"));
    ASK_PASS(must(plan.receivers >= 1 && plan.receivers <= plan.hosts, "1 receiver up to all hosts"));
    ASK_PASS(must(plan.receivers <= DataPlane::kTasks / 2, "receivers that fit the switch's tasks"));
    ASK_PASS(must(plan.senders >= 1 && plan.tasks >= 1, "senders and tasks"));
    ASK_PASS(must(plan.channels >= 1 && plan.channels <= 64, "1 to 64 channels a host"));
    ASK_PASS(must(plan.cpus >= 1 && plan.cpus <= 64, "1 to 64 CPUs"));
    ASK_PASS(must(plan.workers <= 8, "no more than 8 workers"));
    ASK_PASS(must(
        plan.windows == 0 || (plan.hosts == 1 + plan.senders + plan.late_members && plan.op == ASK_OP_SUM),
        "a host for each member of a stream, and one for its receiver"));
    ASK_PASS(must(plan.copies >= 1 && plan.copies <= 2, "1 or 2 copies"));
    ASK_PASS(must(plan.op >= ASK_OP_SUM && plan.op <= ASK_OP_MAX, "an operator"));
    ASK_PASS(must(plan.hold >= 1 && plan.keys >= 1 && plan.deadline >= 1000,
                  "hold, keys and a deadline from a second"));
    return must(plan.dedupe != ASK_DEDUPE_COMPACT || (plan.steering == 0 && plan.bypass + plan.reroutes == 0),
                "a channel's packets all on one CPU of the switch where dedupe is compact");
}

}  // namespace ask::sim
