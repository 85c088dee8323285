// SPDX-License-Identifier: Apache-2.0
//
// How large a back level a task needs, by a sample of its keys.
#pragma once

#include "lib/tuples/back.h"
#include "lib/tuples/fit/key_sample.h"
#include "lib/tuples/types.h"

namespace ask {

// Whether it has places for all keys that VAR packets take.
inline constexpr bool kBackTakesWhole = kBackKeyBytes.back() >= ASK_VAR_MAX_KEY;

// Room for the keys that travel in slots of this geometry, and for those that travel whole, wherever they are
// aggregated in the end: who is first at an aggregator is chance. A guess if nobody knows how long the input
// is.
[[nodiscard]] BackWish back_need(const KeySample& sample, const Geometry& geometry);

}  // namespace ask
