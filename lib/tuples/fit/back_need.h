// SPDX-License-Identifier: Apache-2.0
//
// How large a back level a task needs, by a sample of its keys.
#pragma once

#include "lib/tuples/back.h"
#include "lib/tuples/fit/key_sample.h"

namespace ask {

// Room for all keys that travel in slots or whole, wherever they are aggregated in the end: who is first at
// an aggregator is chance. A guess if nobody knows how long the input is, or
// if some of the `senders` did not sample theirs: they may have keys of any length.
[[nodiscard]] BackWish back_need(const KeySample& sample, std::uint64_t senders);

}  // namespace ask
