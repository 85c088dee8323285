// SPDX-License-Identifier: Apache-2.0
//
// Which geometry a task gets: as its application asked, the default, or planned from the senders' samples.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lib/control/member/member.h"
#include "lib/tuples/back.h"
#include "lib/tuples/fit/key_sample.h"
#include "lib/tuples/slot_map.h"
#include "proto/local.pb.h"

namespace ask {

struct GeometryChoice {
    Geometry geometry;
    std::shared_ptr<const SlotMap> slot_map;  // null: by hash
    std::uint32_t aggregators = 0;            // to ask the switch for; 0: its choice
    bool may_shrink = false;                  // fewer will do
    BackWish back;                            // to ask it for
    std::string reason;                       // for people; empty: as asked, or the default
};

// Whether the region has a copy to swap with.
[[nodiscard]] bool wants_two_copies(const v1::OpenReceive& request);

// Whether the switch is asked for a back level. A task that swaps has none: each swap would fetch all of it.
[[nodiscard]] bool wants_back(const v1::OpenReceive& request);

// Whether the senders' samples decide something: the geometry, or how much memory one that is given gets.
[[nodiscard]] bool wants_samples(const Member& member, const v1::OpenReceive& request);

// As asked for, or the default; as many rows as the MTU allows unless their number is given.
Result<GeometryChoice> asked_geometry(const Member& member, const v1::OpenReceive& request);
// The same, with memory for the keys in these samples.
Result<GeometryChoice> asked_geometry(const Member& member, SwitchPort* at, const v1::OpenReceive& request,
                                      const std::optional<KeySample>& sample);

// The planner's choice for these samples, with what memory that switch (null: none) has left. Without
// samples, or with too few tuples in them to speak for the rest, the default. `payload_limit`: the longest
// that all senders can send.
Result<GeometryChoice> planned_geometry(const Member& member, SwitchPort* at, const v1::OpenReceive& request,
                                        const std::optional<KeySample>& sample, std::uint32_t payload_limit);

}  // namespace ask
