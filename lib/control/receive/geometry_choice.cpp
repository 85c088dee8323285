// SPDX-License-Identifier: Apache-2.0
#include "lib/control/receive/geometry_choice.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <spdlog/spdlog.h>

#include "lib/control/member/convert.h"
#include "lib/tuples/fit/back_need.h"
#include "lib/tuples/fit/planner.h"
#include "lib/tuples/sram.h"

namespace ask {
namespace {

constexpr const char* kDefaultGeometry = "16+8x2";
constexpr milliseconds kInfoWait{2000};

Result<GeometryChoice> default_geometry(std::uint32_t payload_limit, const v1::OpenReceive& request,
                                        std::string reason) {
    auto geometry = parse_geometry(kDefaultGeometry, payload_limit);
    if (!geometry) {
        return std::move(geometry).error();
    }
    return GeometryChoice{.geometry = *geometry,
                          .slot_map = nullptr,
                          .aggregators = request.aggregators(),
                          .may_shrink = false,
                          .back = {.wanted = true, .keys = {}, .guess = true},
                          .reason = std::move(reason)};
}

std::string rows_to_be_chosen(const Geometry& geometry) {
    return std::to_string(geometry.short_slots) +
           (geometry.groups == 0 ? ""
                                 : "+" + std::to_string(geometry.groups) + "x" + std::to_string(geometry.m));
}

// What is left for aggregators if every eight of them have a word of heats beside them, as in a task that may
// replace cold keys (lib/tuples/sram.h).
std::uint64_t without_heats(std::uint64_t bytes) {
    constexpr std::uint64_t kEight = 8 * sizeof(ask_aggregator);
    return bytes / (kEight + sizeof(ask_heats)) * kEight;
}

// What the switch has for the task. Without one, or if it does not answer, memory is left out of the plan.
PlanLimits plan_limits(SwitchPort* at, const v1::OpenReceive& request, std::uint32_t payload_limit) {
    PlanLimits limits{.payload_limit = payload_limit,
                      .sram_total = 0,
                      .sram_left = 0,
                      .aggregators = request.aggregators(),
                      .copies = wants_two_copies(request) ? 2U : 1U,
                      .back = false,
                      .senders = request.senders(),
                      .geometry = std::nullopt};
    if (at != nullptr) {
        if (const auto info = at->info(kInfoWait); info.ok()) {
            limits.sram_total = info->sram_total_bytes();
            limits.back = wants_back(request) && info->back_left_bytes() > 0;
            const std::uint64_t left =
                limits.sram_total - std::min(limits.sram_total, info->sram_used_bytes());
            limits.sram_left = request.policy() == v1::POLICY_FIRST_COME ? left : without_heats(left);
            // Whoever fixes how much gets it if it is there.
            limits.sram_left /= request.aggregators() == 0 ? kPlannedPart : 1;
        }
    }
    return limits;
}

std::string percent(double share) {
    const auto tenths = std::lround(share * 1000);
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " %";
}

std::string describe_merging(const KeySample& sample, const PlanEstimate& estimate) {
    if (sample.window == 0) {
        return "all of them travel, as nothing is held back to be merged";
    }
    return estimate.travel < 1
               ? "about " + percent(estimate.travel) + " of them travel, the rest is merged before"
               : "all of them travel, as hardly a key comes twice while it is held back";
}

std::string describe_keys(const BackKeys& keys) {
    std::string text;
    for (unsigned group = 0; group < keys.size(); ++group) {
        if (keys[group] != 0) {
            text += (text.empty() ? "about " : ", ") + std::to_string(keys[group]) + " keys of up to " +
                    std::to_string(kBackKeyBytes[group]) + " bytes";
        }
    }
    return text;
}

std::string describe(const KeySample& sample, const Plan& plan, const BackWish& back) {
    const PlanEstimate& estimate = plan.estimate;
    std::string text = "chosen by a sample of " + std::to_string(sample.tuples()) +
                       " tuples: " + describe_merging(sample, estimate) + "; of those " +
                       percent(estimate.too_long) + " fit no slot, " +
                       (estimate.whole > 0 ? percent(estimate.whole) + " go to the back level whole, " : "") +
                       "about " + percent(estimate.collisions) + " may collide, slots about " +
                       percent(estimate.slots_filled) + " full";
    if (estimate.back) {
        text += "; a back level is asked for, for " + describe_keys(back.keys);
    }
    return text;
}

bool says_enough(const KeySample& sample) {
    return sample.tuples() >= kLeastSample || is_whole(sample);
}

}  // namespace

bool wants_back(const v1::OpenReceive& request) {
    return !request.no_switch() && !request.no_back() && (!request.has_swap() || request.swap().off());
}

bool wants_two_copies(const v1::OpenReceive& request) {
    return (request.has_swap() && !request.swap().off()) || request.allow_incomplete();
}

bool wants_samples(const Member& member, const v1::OpenReceive& request) {
    const bool through_switch =
        member.own_switch || request.own_switches() || request.has_placement() || request.has_place();
    return !request.partial() && (request.auto_geometry() ||
                                  (through_switch && !request.no_switch() && request.aggregators() == 0));
}

Result<GeometryChoice> asked_geometry(const Member& member, const v1::OpenReceive& request) {
    if (!request.has_geometry()) {
        return default_geometry(member.options.payload_limit, request, "");
    }
    v1::Geometry wanted = request.geometry();
    const bool any_rows = wanted.rows() == 0;
    wanted.set_rows(std::max(wanted.rows(), 1U));
    auto geometry = geometry_from_proto(wanted);
    if (geometry.ok() && any_rows) {
        geometry = parse_geometry(rows_to_be_chosen(*geometry), member.options.payload_limit);
    }
    if (!geometry) {
        return std::move(geometry).error();
    }
    const unsigned needed = geometry->payload_bytes(geometry->rows);
    if (needed > member.options.payload_limit) {
        return Error(Errc::kUnsupported,
                     "geometry " + to_string(*geometry) + " makes packets of " +
                         std::to_string(needed + packet_header_bytes(member.options.address)) +
                         " bytes, but the MTU of " + member.options.interface + " is " +
                         std::to_string(member.options.mtu) + ": use fewer rows, or raise the MTU");
    }
    return GeometryChoice{.geometry = *geometry,
                          .slot_map = nullptr,
                          .aggregators = request.aggregators(),
                          .may_shrink = request.partial(),
                          .back = {.wanted = true, .keys = {}, .guess = true},
                          .reason = ""};
}

Result<GeometryChoice> asked_geometry(const Member& member, SwitchPort* at, const v1::OpenReceive& request,
                                      const std::optional<KeySample>& sample) {
    auto choice = asked_geometry(member, request);
    ASK_PASS(choice);
    if (!sample || !says_enough(*sample)) {
        return choice;
    }
    PlanLimits limits = plan_limits(at, request, member.options.payload_limit);
    limits.geometry = choice->geometry;
    choice->back = back_need(*sample, request.senders());
    // Without a plan the switch chooses.
    if (const auto plan = plan_task(*sample, limits); plan.ok()) {
        choice->aggregators = plan->aggregators;
        choice->may_shrink = true;
    }
    return choice;
}

Result<GeometryChoice> planned_geometry(const Member& member, SwitchPort* at, const v1::OpenReceive& request,
                                        const std::optional<KeySample>& sample, std::uint32_t payload_limit) {
    payload_limit = std::min(payload_limit, member.options.payload_limit);
    if (!sample) {
        return default_geometry(payload_limit, request, "the default: no sender had a sample of its tuples");
    }
    if (!says_enough(*sample)) {
        return default_geometry(
            payload_limit, request,
            "the default: a sample of " + std::to_string(sample->tuples()) + " tuples says too little");
    }
    const PlanLimits limits = plan_limits(at, request, payload_limit);
    auto plan = plan_task(*sample, limits);
    if (!plan) {
        // Whatever senders say, it is no reason to fail. If the switch lacks memory, it says so itself.
        return default_geometry(payload_limit, request, "the default: " + plan.error().text());
    }
    const BackWish back = back_need(*sample, request.senders());
    return GeometryChoice{.geometry = plan->geometry,
                          .slot_map = std::make_shared<SlotMap>(plan->slot_map),
                          .aggregators = plan->aggregators,
                          .may_shrink = request.aggregators() == 0,
                          .back = back,
                          .reason = describe(*sample, *plan, back)};
}

}  // namespace ask
