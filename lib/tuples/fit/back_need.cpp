// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/fit/back_need.h"

#include <cmath>

#include "lib/tuples/fit/key_loss.h"

namespace ask {
namespace {

// Of keys that take so many kParts.
unsigned group_of(unsigned kparts) {
    return kparts * ASK_KPART_BYTES <= kBackKeyBytes[ASK_BACK_8] ? ASK_BACK_8 : ASK_BACK_16;
}

}  // namespace

BackWish back_need(const KeySample& sample, const Geometry& geometry) {
    BackWish wish{.wanted = true, .keys = {}, .guess = sample.expected == 0};
    for (unsigned i = 0; i < sample.groups.size(); ++i) {
        if ((i + 1) * ASK_KPART_BYTES > geometry.max_slot_key()) {
            break;
        }
        const KeyGroup& group = sample.groups[i];
        const KeyLoss loss({.all = static_cast<double>(sample.tuples()),
                            .tuples = static_cast<double>(group.all_tuples()),
                            .distinct = static_cast<double>(group.distinct),
                            .once = static_cast<double>(group.once)},
                           static_cast<double>(sample.expected));
        wish.keys[group_of(i + 1)] += static_cast<std::uint64_t>(std::ceil(loss.distinct()));
    }
    return wish;
}

}  // namespace ask
