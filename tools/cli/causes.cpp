// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/causes.h"

#include <algorithm>

#include "lib/abi/consts.h"
#include "tools/cli/table.h"

namespace ask::cli {
namespace {

// Fewer of those sent, one in so many, are not worth a word.
constexpr std::uint64_t kWorthOneIn = 20;
constexpr std::uint32_t kLongestSlotKey = ASK_MAX_M * ASK_KPART_BYTES;

std::string collision_advice(const TaskSetup& setup) {
    const std::string more = std::to_string(std::uint64_t{setup.aggregators} * 2);
    return setup.aggregators == 0 ? "more --aggregators"
                                  : "more --aggregators than " + std::to_string(setup.aggregators) + ", as " +
                                        more + " (the switch's sram_kib limits them)";
}

Cause long_keys(std::uint64_t tuples, const TaskSetup& setup) {
    if (setup.whole_keys) {
        return {"long", tuples,
                "key longer than 64 bytes, empty or with a zero byte, or value outside 63 bits", ""};
    }
    const bool longer_slots = !setup.planned && setup.longest_key < kLongestSlotKey;
    return {"long", tuples, "key too long, empty or with a zero byte, or value outside int32",
            longer_slots ? "--geometry auto, or one with a larger m, takes longer keys" : ""};
}

// What is known of a cause besides what the list says.
void advise(Cause& cause, const TaskSetup& setup) {
    if (cause.name == "collision") {
        cause.advice = collision_advice(setup);
    } else if (cause.name == "contention") {
        cause.advice = "ask-switchd with memory = \"pipelines\"";
    } else if (cause.name == "back_full") {
        cause.advice = "a larger back_mib at the switch";
    } else if (cause.name == "no_region") {
        const bool off_path = setup.aggregators > 0;
        cause.name = "no region";
        if (setup.own_switches) {
            cause.why = "their senders have no switch of their own, or none with memory for this task";
            return;
        }
        cause.why =
            off_path ? "the switch was off their path" : "no switch, or no memory on it for this task";
        cause.advice = off_path ? "make the senders' routes to the receiver lead through it" : setup.note;
    }
}

// The cause of most tuples that something can be done about.
const Cause* most_worth(const std::vector<Cause>& causes, std::uint64_t sent) {
    const Cause* best = nullptr;
    for (const Cause& cause : causes) {
        if (!cause.advice.empty() && cause.tuples > 0 && cause.tuples >= sent / kWorthOneIn &&
            (best == nullptr || cause.tuples > best->tuples)) {
            best = &cause;
        }
    }
    return best;
}

std::string summary(const std::string& task, const client::TaskStats& stats, const std::string& merged,
                    const std::string& left) {
    if (stats.tuples_in == 0) {
        return "task " + task + ": no tuples";
    }
    return "task " + task + ": " + grouped(stats.tuples_in) + " tuples, " +
           percent(stats.tuples_merged, stats.tuples_in) + " merged " + merged + ", " +
           percent(stats.tuples_switch, stats.tuples_in) + " added up on the switch, " +
           percent(stats.tuples_receiver.total(), stats.tuples_in) + " " + left;
}

}  // namespace

std::vector<Cause> causes_of(const client::TaskStats& stats, const TaskSetup& setup) {
    std::vector<Cause> causes;
#define ASK_LEFT_STAT(cause, text) causes.push_back({#cause, stats.tuples_receiver.cause, text, ""});
#include "lib/abi/stats.def"
    causes.insert(causes.begin() + 1, long_keys(stats.tuples_receiver.long_key, setup));
    for (Cause& cause : causes) {
        advise(cause, setup);
    }
    return causes;
}

std::string receive_summary(const std::string& task, const client::TaskStats& stats, const TaskSetup& setup) {
    const std::vector<Cause> causes = causes_of(stats, setup);
    const Cause* const most = most_worth(causes, stats.tuples_sent);
    return summary(task, stats, "by senders", "here") +
           (most == nullptr ? "" : ": " + most->why + ": " + most->advice);
}

std::string send_summary(const std::string& task, const client::TaskStats& stats) {
    return summary(task, stats, "here", "at the receiver");
}

}  // namespace ask::cli
