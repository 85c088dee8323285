// SPDX-License-Identifier: Apache-2.0
//
// A sending channel that carries tuples: what is set for it and what is counted of it.
#pragma once

#include <cstdint>

#include "lib/engine/sender_channel.h"
#include "lib/tuples/packer.h"
#include "lib/tuples/types.h"

namespace ask {

struct SenderConfig : ChannelConfig {
    std::uint32_t hold = 4096;  // PackerConfig::hold
};

// What packs a flow's tuples for such a channel.
[[nodiscard]] inline PackerConfig packer_config(const FlowParams& flow, const SenderConfig& config) {
    return {.geometry = flow.geometry,
            .op = flow.op,
            .hold = config.hold,
            .payload_limit = std::min(config.payload_limit, ASK_MAX_PAYLOAD),
            .slot_map = flow.slot_map,
            .whole_keys = flow.whole_keys};
}

struct SenderStats : ChannelStats {
    PackerStats packer;
    std::uint64_t tuples_merged = 0;  // before they came to the packer
};

void add(SenderStats& sum, const SenderStats& part);

}  // namespace ask
