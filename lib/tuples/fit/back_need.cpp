// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/fit/back_need.h"

#include <algorithm>
#include <cmath>

#include "lib/tuples/fit/growth.h"

namespace ask {
namespace {

void add_keys(BackWish& wish, unsigned group, const KeyCounts& counts, std::uint64_t expected) {
    const double total = std::max(static_cast<double>(expected), counts.all);
    const double keys = std::max(Growth::fit(counts).distinct(total), counts.distinct);
    wish.keys[group] += static_cast<std::uint64_t>(std::min(std::ceil(keys), total));
}

}  // namespace

BackWish back_need(const KeySample& sample, std::uint64_t senders) {
    BackWish wish{.wanted = true, .keys = {}, .guess = sample.expected == 0 || sample.senders < senders};
    for (unsigned i = 0; i < sample.groups.size(); ++i) {
        add_keys(wish, ask_var_group((i + 1) * ASK_KPART_BYTES), sample.counts(sample.groups[i]),
                 sample.expected);
    }
    for (unsigned group = 0; group < ASK_BACK_GROUPS; ++group) {
        add_keys(wish, group, sample.counts(sample.loose[group]), sample.expected);
    }
    return wish;
}

}  // namespace ask
