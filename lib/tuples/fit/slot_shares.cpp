// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/fit/slot_shares.h"

#include <algorithm>
#include <numeric>
#include <span>

namespace ask {

namespace {

// Where a bucket goes: the slot with the fewest buckets of those it fits, else the one with the fewest
// tuples.
unsigned choose(std::span<const double> load, std::span<const unsigned> buckets, double tuples,
                double limit) {
    unsigned best = 0;
    for (unsigned slot = 1; slot < load.size(); ++slot) {
        const bool fits = load[slot] + tuples <= limit;
        const bool best_fits = load[best] + tuples <= limit;
        if (fits != best_fits) {
            best = fits ? slot : best;
        } else if (!fits || buckets[slot] == buckets[best]) {
            best = load[slot] < load[best] ? slot : best;
        } else {
            best = buckets[slot] < buckets[best] ? slot : best;
        }
    }
    return best;
}

}  // namespace

BucketOrder heaviest_first(const std::array<double, SlotMap::kBuckets>& tuples) {
    static_assert(SlotMap::kBuckets <= 256, "a bucket's number fits a byte");
    BucketOrder order{};
    std::iota(order.begin(), order.end(), std::uint8_t{0});
    std::ranges::stable_sort(order, [&](unsigned a, unsigned b) { return tuples[a] > tuples[b]; });
    return order;
}

SlotShares share_slots(const std::array<double, SlotMap::kBuckets>& tuples, const BucketOrder& order,
                       unsigned first, unsigned slots, double limit) {
    SlotShares shares;
    std::array<double, ASK_MAX_SLOTS> load{};
    // The heaviest first, while there is room for them.
    for (const unsigned bucket : order) {
        const unsigned slot = choose(std::span(load).first(slots), shares.buckets, tuples[bucket], limit);
        load[slot] += tuples[bucket];
        ++shares.buckets[slot];
        shares.slot[bucket] = static_cast<std::uint8_t>(first + slot);
    }
    shares.largest = *std::max_element(load.begin(), load.begin() + slots);
    return shares;
}

}  // namespace ask
