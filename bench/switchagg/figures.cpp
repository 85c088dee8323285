// SPDX-License-Identifier: Apache-2.0
#include "bench/switchagg/figures.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "bench/switchagg/bucket_model.h"

namespace ask::bench {
namespace {

constexpr double kMega = 1e6;
constexpr double kGiga = 1e9;
// Fig. 2(a): a key of 16 bytes and its value. Fig. 9: keys of 16 to 64 bytes, 40 in the mean.
constexpr double kPairOfFig2 = 20;
constexpr double kPairOfFig9 = 44;
constexpr double kSkew = 0.99;

std::uint64_t whole(double value) {
    return static_cast<std::uint64_t>(std::max(1.0, std::round(value)));
}

Plan eq3_point(const Scale& scale, double load, bool back) {
    const auto places = static_cast<double>(scale.places);
    const std::uint64_t keys = whole(places * load);
    // Pairs a key: where most keys find no place, fewer do.
    const std::uint64_t each = load > 10 ? 4 : 16;
    Plan plan{.figure = "eq3",
              .series = back ? "back level" : "front",
              .x = load,
              .capacity = places,
              .trial = {.keys = {.count = keys, .shortest = 8, .longest = 8},
                        .tuples = keys * each,
                        .turns = Turns::kAlways}};
    if (back) {
        plan.trial.front_places = 1;
        plan.trial.back_keys = scale.places / 2;
        plan.kept = keys_kept({.buckets = scale.places / ASK_BACK8_ENTRIES}, keys);
    } else {
        plan.trial.front_places = scale.places;
    }
    return plan;
}

Plan fig2a_point(const Scale& scale, double places, double keys) {
    return {.figure = "fig2a",
            .series = "front",
            .x = keys / places,
            .capacity = places,
            .trial = {.keys = {.count = whole(keys), .shortest = 16, .longest = 16},
                      .tuples = whole(kGiga * scale.of_fig2 / kPairOfFig2),
                      .front_places = whole(places)}};
}

Plan fig9_point(const Scale& scale, double exponent, unsigned gigabytes, unsigned front) {
    const double part = scale.of_paper / kPairOfFig9;
    const double places = front * kMega * part;
    return {
        .figure = exponent == 0 ? "fig9-uniform" : "fig9-zipf",
        .series = "S-" + std::to_string(front) + "MB",
        .x = static_cast<double>(gigabytes),
        .capacity = exponent == 0 ? places : 0,
        .trial = {.keys = {.count = whole(kGiga * part), .exponent = exponent, .shortest = 9, .longest = 16},
                  .tuples = whole(gigabytes * kGiga * part),
                  .front_places = whole(places)}};
}

// Behind the largest front a back level with room for all keys: keys as long as the paper's, of which those
// beyond 16 bytes travel by VAR.
Plan two_level(const Scale& scale, double exponent, unsigned gigabytes) {
    const unsigned front = scale.fronts.back();
    Plan plan = fig9_point(scale, exponent, gigabytes, front);
    plan.trial.keys.shortest = 16;
    plan.trial.keys.longest = 64;
    plan.series = "M-" + std::to_string(front) + "MB";
    plan.capacity = exponent == 0 ? static_cast<double>(plan.trial.keys.count) : 0;
    plan.trial.back_keys = plan.trial.keys.count;
    return plan;
}

// The same with so few different keys that 99 % is possible at all.
Plan few_keys(const Scale& scale, double exponent, unsigned gigabytes) {
    Plan plan = two_level(scale, exponent, gigabytes);
    plan.series += ", few keys";
    plan.trial.keys.count = whole(static_cast<double>(plan.trial.tuples) / 250);
    plan.trial.back_keys = plan.trial.keys.count;
    plan.capacity = exponent == 0 ? static_cast<double>(plan.trial.keys.count) : 0;
    return plan;
}

}  // namespace

double eq3(double keys, double places, double pairs) {
    const double reduction = keys <= places ? 1 - keys / pairs : (1 / keys - 1 / pairs) * places;
    return std::max(0.0, reduction);
}

double eq3_kept(double keys, double kept, double pairs) {
    return std::max(0.0, (1 / keys - 1 / pairs) * kept);
}

double eq3_hashed(double keys, double places, double pairs) {
    return eq3_kept(keys, places * -std::expm1(-keys / places), pairs);
}

std::vector<Plan> plan_eq3(const Scale& scale) {
    constexpr std::array kLoads{1.0 / 16, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0, 100.0};
    std::vector<Plan> plans;
    for (const bool back : {true, false}) {
        for (const double load : kLoads) {
            plans.push_back(eq3_point(scale, load, back));
        }
    }
    return plans;
}

std::vector<Plan> plan_fig2a(const Scale& scale) {
    constexpr double kMemory = 16 * kMega;
    constexpr double kMostKeys = 4 * kGiga;
    const double places = kMemory * scale.of_fig2 / kPairOfFig2;
    std::vector<double> counts;
    for (const double load : {1.0 / 16, 0.25, 0.5, 1.0, 4.0, 10.0, 100.0}) {
        counts.push_back(places * load);
    }
    counts.push_back(kMostKeys * scale.of_fig2);
    std::vector<Plan> plans;
    plans.reserve(counts.size());
    for (const double count : counts) {
        plans.push_back(fig2a_point(scale, places, count));
    }
    // The same memory's worth of places, or a little more as tables come, behind no front to speak of.
    for (const double load : {0.25, 0.5, 1.0}) {
        Plan plan = fig2a_point(scale, places, places * load);
        plan.series = "back level";
        plan.trial.back_keys = whole(places / 2);
        plan.trial.front_places = 1;
        plans.push_back(plan);
    }
    return plans;
}

std::vector<Plan> plan_fig9(const Scale& scale) {
    std::vector<Plan> plans;
    for (const double exponent : {0.0, kSkew}) {
        for (const unsigned gigabytes : scale.gigabytes) {
            for (const unsigned front : scale.fronts) {
                plans.push_back(fig9_point(scale, exponent, gigabytes, front));
            }
            plans.push_back(two_level(scale, exponent, gigabytes));
            plans.push_back(few_keys(scale, exponent, gigabytes));
        }
    }
    return plans;
}

}  // namespace ask::bench
