// SPDX-License-Identifier: Apache-2.0
//
// A placement as the message that says it (proto/placement.proto): what ask-plan writes and ask-controld
// answers is made here alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/placement/problem.h"
#include "lib/topology/network.h"
#include "proto/placement.pb.h"

namespace ask::topology {

// What was planned, for whom.
struct Planned {
    const Fabric* fabric = nullptr;
    const placement::Tree* tree = nullptr;  // the fabric's, rooted at the receiver, with the senders' loads
    std::string destination;                // the receiver's name
    std::span<const placement::SwitchId> blue;  // ascending; all have relays
    placement::Objective objective = placement::Objective::kUtilisation;
    const placement::SizeModel* model = nullptr;  // null: nothing is known of messages
};

struct PlacedSender {
    std::string name;
    std::uint32_t address = 0;
    std::uint32_t sends = 0;
    std::optional<placement::SwitchId> at;  // none: it goes straight to the receiver
};

// Switches that nothing reaches, and links that nothing crosses, are left out.
[[nodiscard]] v1::Placement placed_message(const Planned& planned, std::span<const PlacedSender> senders);

// The same of a network's own senders. kInput: something that is needed to carry it out is not in the file;
// the text says what.
Result<v1::Placement> placed_message(const Planned& planned, const Network& network);

// The proto3 JSON mapping of it, with all that has its default.
[[nodiscard]] std::string placed_json(const v1::Placement& placement);

}  // namespace ask::topology
