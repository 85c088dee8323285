// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/fit/back_need.h"

#include <algorithm>
#include <cmath>

#include "lib/tuples/fit/growth.h"

namespace ask {
namespace {

// The group of keys of so many bytes, or ASK_BACK_GROUPS if there is none.
unsigned group_of(unsigned bytes) {
    const auto* const group =
        std::ranges::find_if(kBackKeyBytes, [bytes](std::uint32_t longest) { return bytes <= longest; });
    return static_cast<unsigned>(group - kBackKeyBytes.begin());
}

void add_keys(BackWish& wish, unsigned bytes, const KeyCounts& counts, std::uint64_t expected) {
    if (const unsigned group = group_of(bytes); group < ASK_BACK_GROUPS) {
        const double total = std::max(static_cast<double>(expected), counts.all);
        wish.keys[group] += static_cast<std::uint64_t>(std::ceil(Growth::fit(counts).distinct(total)));
    }
}

}  // namespace

BackWish back_need(const KeySample& sample, const Geometry& geometry) {
    BackWish wish{.wanted = true, .keys = {}, .guess = sample.expected == 0};
    for (unsigned i = 0; i < sample.groups.size(); ++i) {
        const unsigned bytes = (i + 1) * ASK_KPART_BYTES;
        if (kBackTakesWhole || bytes <= geometry.max_slot_key()) {
            add_keys(wish, bytes, sample.counts(sample.groups[i]), sample.expected);
        }
    }
    for (unsigned group = 0; kBackTakesWhole && group < ASK_VAR_GROUPS; ++group) {
        add_keys(wish, 8U << group, sample.counts(sample.loose[group]), sample.expected);
    }
    return wish;
}

}  // namespace ask
