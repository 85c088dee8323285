// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/fit/planner.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "lib/tuples/fit/key_loss.h"
#include "lib/tuples/fit/merging.h"
#include "lib/tuples/fit/slot_shares.h"
#include "lib/tuples/sram.h"

namespace ask {

namespace {

// How full the slots of a packet are meant to be, if frequent keys allow it: what is left is room for slots
// of frequent keys to take their part of the others, whose aggregators would be crowded otherwise.
constexpr double kFillTarget = 0.9;
// Of the tuples that collide, those that a back level has no place for either: it is sized for one in a
// thousand, but keys are counted by a sample.
constexpr double kPastTheBack = 0.01;
// The most that a region may take of the switch's memory, and halves of it.
constexpr unsigned kHalvings = 10;
// Places for keys that a task can make use of, for each that it has, and at least half of it: fewer than one
// key in fifteen then finds its place taken, and others can use more of them better.
constexpr double kPlacesPerKey = 16;
// Bytes of records in a LONG or VAR packet, and of a LONG one without its key.
constexpr double kRecordRoom = 1400;
constexpr double kRecordBytes = 10;

// Tuples in packets that are not DATA, of each tuple that travels.
struct Records {
    double tuples = 0;
    double bytes = 0;
    void add(const Records& more) {
        tuples += more.tuples;
        bytes += more.bytes;
    }
};

// Of keys that a VAR packet takes, by their group.
Records whole(unsigned group, double share) {
    return {share, share * static_cast<double>(ask_var_record_bytes(group))};
}

// Short or medium keys: those of groups [from, to).
class KeyClass {
 public:
    KeyClass(const KeySample& sample, unsigned from, unsigned to, double total)
        : loss_(counts(sample, from, to), total) {
        const auto all = static_cast<double>(sample.tuples());
        for (unsigned group = from; group < to; ++group) {
            for (unsigned bucket = 0; bucket < SlotMap::kBuckets; ++bucket) {
                const double share = static_cast<double>(sample.groups[group].tuples[bucket]) / all;
                tuples_[bucket] += share;
                share_ += share;
            }
        }
        order_ = heaviest_first(tuples_);
    }
    [[nodiscard]] double share() const { return share_; }
    [[nodiscard]] double distinct() const { return loss_.distinct(); }
    [[nodiscard]] SlotShares assign(unsigned first, unsigned slots, double limit) const {
        return share_slots(tuples_, order_, first, slots, limit);
    }
    // What the fullest of so many slots has at least of all tuples.
    [[nodiscard]] double largest(unsigned slots) const {
        return slots == 0 ? 0 : std::max(tuples_[order_[0]], share_ / slots);
    }
    // Share of all tuples that find their aggregator taken.
    [[nodiscard]] double collisions(const SlotShares& shares, unsigned slots, double aggregators) const {
        double lost = 0;
        for (unsigned slot = 0; slot < slots; ++slot) {
            const double part = static_cast<double>(shares.buckets[slot]) / SlotMap::kBuckets;
            lost += part * loss_.lost(part * loss_.distinct() / aggregators);
        }
        return lost;
    }

 private:
    static KeyCounts counts(const KeySample& sample, unsigned from, unsigned to) {
        KeyCounts sum{.all = static_cast<double>(sample.tuples())};
        for (unsigned group = from; group < to; ++group) {
            const KeyCounts counts = sample.counts(sample.groups[group]);
            sum.tuples += counts.tuples;
            sum.distinct += counts.distinct;
            sum.once += counts.once;
        }
        return sum;
    }

    std::array<double, SlotMap::kBuckets> tuples_{};
    BucketOrder order_{};
    double share_ = 0;
    KeyLoss loss_;
};

class Planner {
 public:
    Planner(const KeySample& sample, const PlanLimits& limits);
    Result<Plan> best();

 private:
    void try_row(Geometry geometry);
    void try_rows();
    void trim_memory();
    [[nodiscard]] Plan whole_only() const;
    void try_assignment(const Geometry& geometry, const KeyClass& short_keys, const KeyClass& medium_keys);
    [[nodiscard]] PlanEstimate estimate(const Geometry& geometry, double data, double fill,
                                        double collisions) const;
    [[nodiscard]] std::uint32_t most_for(const Geometry& geometry) const;
    [[nodiscard]] bool can_win(const Geometry& geometry, const KeyClass& short_keys,
                               const KeyClass& medium_keys) const;

    const PlanLimits& limits_;
    double total_;
    Records long_;   // that fit no slot whatever m is, and no VAR packet
    Records whole_;  // that fit no slot but VAR packets
    std::array<double, ASK_MAX_M> group_share_{};
    KeyClass none_;
    KeyClass short_;                          // keys of one word
    std::array<KeyClass, ASK_MAX_M> medium_;  // [m-1]: of 2 to m words
    std::array<KeyClass, ASK_MAX_M> any_;     // [m-1]: of 1 to m words, where there are no short slots
    std::uint64_t most_words_ = std::numeric_limits<std::uint64_t>::max();
    std::optional<Plan> best_;
    double best_keys_ = 0;  // that its slots take
};

double input_length(const KeySample& sample) {
    return static_cast<double>(
        std::max(sample.expected == 0 ? kUnknownLength : sample.expected, sample.tuples()));
}

Planner::Planner(const KeySample& sample, const PlanLimits& limits)
    : limits_(limits),
      total_(input_length(sample)),
      none_(sample, 0, 0, total_),
      short_(sample, 0, 1, total_),
      medium_{KeyClass(sample, 1, 1, total_), KeyClass(sample, 1, 2, total_), KeyClass(sample, 1, 3, total_),
              KeyClass(sample, 1, 4, total_)},
      any_{KeyClass(sample, 0, 1, total_), KeyClass(sample, 0, 2, total_), KeyClass(sample, 0, 3, total_),
           KeyClass(sample, 0, 4, total_)} {
    const auto all = static_cast<double>(sample.tuples());
    for (std::size_t i = 0; i < group_share_.size(); ++i) {
        group_share_[i] = static_cast<double>(sample.groups[i].all_tuples()) / all;
    }
    for (unsigned group = 0; group < sample.loose.size(); ++group) {
        const LooseKeys& loose = sample.loose[group];
        const double share = static_cast<double>(loose.tuples) / all;
        if (limits.back && group < ASK_VAR_GROUPS) {
            whole_.add(whole(group, share));
        } else {
            long_.add({share, static_cast<double>(loose.bytes) / all + kRecordBytes * share});
        }
    }
}

// Aggregators that a region of this geometry may have; 0: it does not fit.
std::uint32_t Planner::most_for(const Geometry& geometry) const {
    if (limits_.sram_total == 0) {
        return std::max(limits_.aggregators, 1U);
    }
    const std::uint32_t most = most_aggregators(geometry, limits_.sram_total, limits_.sram_left);
    return limits_.aggregators == 0 ? most : (limits_.aggregators <= most ? limits_.aggregators : 0);
}

PlanEstimate Planner::estimate(const Geometry& geometry, double data, double fill, double collisions) const {
    Records long_records = long_;
    Records whole_records = whole_;
    for (unsigned group = geometry.max_slot_key() / ASK_KPART_BYTES; group < ASK_MAX_M; ++group) {
        const unsigned longest = ASK_KPART_BYTES * (group + 1);
        const double share = group_share_[group];
        if (limits_.back) {
            whole_records.add(whole(ask_var_group(longest), share));
        } else {
            long_records.add({share, share * (kRecordBytes + longest)});
        }
    }
    PlanEstimate out;
    out.too_long = long_records.tuples;
    out.whole = whole_records.tuples;
    out.collisions = collisions;
    out.back = limits_.back;
    out.slots_filled = fill;
    const double tuples = geometry.slots() * geometry.rows * fill;  // of a packet
    const double long_packets = long_records.bytes / kRecordRoom;
    const double whole_packets =
        std::max(whole_records.bytes / kRecordRoom, whole_records.tuples / double{ASK_VAR_MAX_RECORDS});
    const double travel = collisions * (limits_.back ? kPastTheBack : 1);
    const double left = data > 0 ? std::min(travel / data, 1.0) : 0;
    const double data_packets = data > 0 ? data / tuples : 0;
    const double in_one = whole_packets > 0 ? whole_records.tuples / whole_packets : 0;
    out.packets = data_packets + long_packets + whole_packets;
    out.forwarded = data_packets * (1 - std::pow(1 - left, tuples)) + long_packets +
                    whole_packets * (1 - std::pow(1 - kPastTheBack, in_one));
    return out;
}

void Planner::try_assignment(const Geometry& geometry, const KeyClass& short_keys,
                             const KeyClass& medium_keys) {
    const double data = short_keys.share() + medium_keys.share();
    const double limit = data / geometry.slots() / kFillTarget;
    SlotShares shorts;
    SlotShares mediums;
    if (geometry.short_slots > 0) {
        shorts = short_keys.assign(0, geometry.short_slots, limit);
    }
    if (geometry.groups > 0) {
        mediums = medium_keys.assign(geometry.short_slots, geometry.groups, limit);
    }
    const double fill = data / geometry.slots() / std::max(shorts.largest, mediums.largest);
    const std::uint32_t most = most_for(geometry);
    const bool free_choice = limits_.sram_total > 0 && limits_.aggregators == 0;
    const std::uint64_t words = std::min(std::bit_floor(std::uint64_t{most} * geometry.aas()), most_words_);
    for (unsigned halved = 0; halved < (free_choice ? kHalvings : 1U); ++halved) {
        const std::uint32_t aggregators =
            free_choice ? aggregators_within(geometry, limits_.copies, words >> halved) : most;
        if (aggregators == 0 || (halved > 0 && words >> halved < kLeastRegionWords)) {
            break;
        }
        const double in_a_copy = static_cast<double>(aggregators) / limits_.copies;
        const double lost = limits_.sram_total == 0 && limits_.aggregators == 0
                                ? 0
                                : short_keys.collisions(shorts, geometry.short_slots, in_a_copy) +
                                      medium_keys.collisions(mediums, geometry.groups, in_a_copy);
        PlanEstimate now = estimate(geometry, data, fill, lost);
        if (limits_.sram_total > 0) {
            now.memory = static_cast<double>(region_bytes(geometry, aggregators)) /
                         static_cast<double>(limits_.sram_total);
        }
        if (!best_ || now.cost() < best_->estimate.cost()) {
            best_ = Plan{.geometry = geometry,
                         .aggregators = free_choice ? aggregators : limits_.aggregators,
                         .slot_map = {.short_slot = shorts.slot, .medium_slot = mediums.slot},
                         .estimate = now};
            best_keys_ = short_keys.distinct() + medium_keys.distinct();
        }
    }
}

void Planner::try_row(Geometry geometry) {
    geometry.rows = 1;
    if (!validate(geometry) || most_for(geometry) == 0) {
        return;
    }
    const KeyClass& short_keys = geometry.short_slots > 0 ? short_ : none_;
    const KeyClass& medium_keys = geometry.groups == 0       ? none_
                                  : geometry.short_slots > 0 ? medium_[geometry.m - 1U]
                                                             : any_[geometry.m - 1U];
    if (short_keys.share() + medium_keys.share() <= 0) {
        return;
    }
    if (limits_.geometry) {
        try_assignment(*limits_.geometry, short_keys, medium_keys);
        return;
    }
    // Slots of a class that no key is of are never the best.
    if ((geometry.short_slots > 0 && short_keys.share() <= 0) ||
        (geometry.groups > 0 && medium_keys.share() <= 0)) {
        return;
    }
    geometry.rows = static_cast<std::uint8_t>(most_rows(geometry, limits_.payload_limit));
    if (geometry.rows > 0 && can_win(geometry, short_keys, medium_keys)) {
        try_assignment(geometry, short_keys, medium_keys);
    }
}

// Whether it would be the best so far if no keys collided and slots were as full as can be. Most would not,
// and assigning buckets is what planning takes its time for.
bool Planner::can_win(const Geometry& geometry, const KeyClass& short_keys,
                      const KeyClass& medium_keys) const {
    if (!best_) {
        return true;
    }
    const double data = short_keys.share() + medium_keys.share();
    const double largest =
        std::max(short_keys.largest(geometry.short_slots), medium_keys.largest(geometry.groups));
    return estimate(geometry, data, data / geometry.slots() / largest, 0).cost() < best_->estimate.cost();
}

void Planner::try_rows() {
    for (unsigned shorts = 0; shorts <= ASK_MAX_SLOTS; ++shorts) {
        for (unsigned groups = 0; shorts + groups <= ASK_MAX_SLOTS; ++groups) {
            // Groups of one array are short slots by another name.
            for (unsigned m = groups == 0 ? 0 : 2; m <= (groups == 0 ? 0 : ASK_MAX_M); ++m) {
                try_row({.short_slots = static_cast<std::uint8_t>(shorts),
                         .groups = static_cast<std::uint8_t>(groups),
                         .m = static_cast<std::uint8_t>(m),
                         .rows = 1});
            }
        }
    }
}

// The geometry is chosen as if all that is free were this task's. Chosen with what its keys need it would be
// the one whose region happens to be rounded least.
void Planner::trim_memory() {
    const Geometry geometry = best_->geometry;
    const double a_place = static_cast<double>(geometry.aas()) / geometry.slots();  // words
    const double enough = kPlacesPerKey * limits_.copies * best_keys_ * a_place;
    const std::uint64_t words = std::bit_ceil(std::uint64_t{best_->aggregators} * geometry.aas());
    most_words_ = words;
    while (most_words_ > kLeastRegionWords && static_cast<double>(most_words_) > enough) {
        most_words_ /= 2;
    }
    if (most_words_ < words) {
        const std::optional<Plan> untrimmed = std::exchange(best_, std::nullopt);
        try_row(geometry);
        best_ = best_ ? best_ : untrimmed;
    }
}

// Slots and aggregators that hardly anything comes to: any will do.
Plan Planner::whole_only() const {
    Plan plan{.geometry = limits_.geometry.value_or(Geometry{}),
              .aggregators = limits_.aggregators,
              .slot_map = {},
              .estimate = {}};
    Geometry& geometry = plan.geometry;
    if (!limits_.geometry) {
        geometry.rows = static_cast<std::uint8_t>(std::max(most_rows(geometry, limits_.payload_limit), 1U));
    }
    if (plan.aggregators == 0 && limits_.sram_total > 0) {
        plan.aggregators = aggregators_within(geometry, limits_.copies, kLeastRegionWords);
        plan.estimate.memory = static_cast<double>(region_bytes(geometry, plan.aggregators)) /
                               static_cast<double>(limits_.sram_total);
    }
    if (geometry.short_slots > 0) {
        plan.slot_map.short_slot = none_.assign(0, geometry.short_slots, 0).slot;
    }
    if (geometry.groups > 0) {
        plan.slot_map.medium_slot = none_.assign(geometry.short_slots, geometry.groups, 0).slot;
    }
    const double memory = plan.estimate.memory;
    plan.estimate = estimate(geometry, 0, 1, 0);
    plan.estimate.memory = memory;
    return plan;
}

Result<Plan> Planner::best() {
    if (limits_.geometry) {
        try_row(*limits_.geometry);
    } else {
        try_rows();
    }
    if (!best_ && any_.back().share() <= 0 && whole_.tuples > 0) {
        return whole_only();
    }
    if (!best_ && any_.back().share() <= 0) {
        return Error(Errc::kLimit, "no key fits any slot");
    }
    if (!best_) {
        return Error(Errc::kLimit, "no geometry fits the keys, " + std::to_string(limits_.payload_limit) +
                                       " bytes of payload and " + std::to_string(limits_.sram_left / 1024) +
                                       " KiB of the switch's memory");
    }
    if (limits_.sram_total > 0 && limits_.aggregators == 0) {
        trim_memory();
    }
    return *best_;
}

}  // namespace

Result<Plan> plan_task(const KeySample& sample, const PlanLimits& limits) {
    if (auto valid = validate(sample); !valid) {
        return std::move(valid).error();
    }
    if (sample.tuples() < kLeastSample && !is_whole(sample)) {
        return Error(Errc::kInput, "a sample of " + std::to_string(sample.tuples()) +
                                       " tuples says too little, it takes " + std::to_string(kLeastSample));
    }
    const KeySample left = after_merging(sample, limits.senders);
    auto plan = Planner(left, limits).best();
    if (plan && left.window != sample.window) {
        const double all = sample.expected == 0 ? static_cast<double>(kUnknownLength) * limits.senders
                                                : static_cast<double>(sample.expected);
        plan->estimate.travel = std::min(static_cast<double>(left.tuples()) / all, 1.0);
    }
    return plan;
}

}  // namespace ask
