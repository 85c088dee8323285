// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/shrink.h"

#include <algorithm>

#include "tests/sim/frame.h"
#include "tests/sim/history.h"

namespace ask::sim {

Result<> check_plan(const Plan& plan) {
    const auto must = [](bool holds, const char* what) -> Result<> {
        return holds ? Result<>() : Result<>(Error(Errc::kUsage, std::string("the plan needs ") + what));
    };
    ASK_PASS(validate(plan.geometry()));
    const unsigned payload = plan.geometry().payload_bytes(plan.rows);
    ASK_PASS(must(payload + kFrameHeaderBytes <= kFrameRoom, "a geometry that fits a frame"));
    ASK_PASS(must(plan.hosts >= 2 && plan.hosts <= 1000, "2 to 1000 hosts"));
    ASK_PASS(must(plan.switches >= 1 && plan.switches <= 16, "1 to 16 switches"));
    ASK_PASS(must(plan.receivers >= 1 && plan.receivers <= plan.hosts, "1 receiver up to all hosts"));
    ASK_PASS(must(plan.receivers <= DataPlane::kTasks / 2, "receivers that fit the switch's tasks"));
    ASK_PASS(must(plan.senders >= 1 && plan.tasks >= 1, "senders and tasks"));
    ASK_PASS(must(plan.channels >= 1 && plan.channels <= 64, "1 to 64 channels a host"));
    ASK_PASS(must(plan.cpus >= 1 && plan.cpus <= 64, "1 to 64 CPUs"));
    ASK_PASS(must(plan.workers <= 8, "no more than 8 workers"));
    ASK_PASS(must(plan.copies >= 1 && plan.copies <= 2, "1 or 2 copies"));
    ASK_PASS(must(plan.op >= ASK_OP_SUM && plan.op <= ASK_OP_MAX, "an operator"));
    ASK_PASS(must(plan.hold >= 1 && plan.keys >= 1 && plan.deadline >= 1000,
                  "hold, keys and a deadline from a second"));
    return must(plan.dedupe != ASK_DEDUPE_COMPACT || (plan.steering == 0 && plan.bypass + plan.reroutes == 0),
                "a channel's packets all on one CPU of the switch where dedupe is compact");
}

Plan shrink(const Plan& plan, std::uint64_t seed, Promise broken) {
    // A bound for the work, as events: half a minute or so.
    constexpr std::uint64_t kMostEvents = 100'000'000;
    Plan best = plan;
    std::uint64_t events = 0;
    for (bool better = true; better && events < kMostEvents;) {
        better = false;
        for (std::size_t n = 0; number_of(best, n) != nullptr; ++n) {
            if (number_of(best, n) == &best.broken) {
                continue;
            }
            const std::uint32_t now = *number_of(best, n);
            for (const std::uint32_t smaller : {std::uint32_t{0}, std::uint32_t{1}, now / 2, now - 1}) {
                Plan candidate = best;
                *number_of(candidate, n) = smaller;
                if (smaller >= now || !check_plan(candidate).ok()) {
                    continue;
                }
                const Verdict verdict = sim::History(candidate, seed, false).run();
                events += verdict.events;
                if (verdict.broken == broken) {
                    best = candidate;
                    better = true;
                    break;
                }
            }
        }
    }
    return best;
}

}  // namespace ask::sim
