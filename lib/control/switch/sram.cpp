// SPDX-License-Identifier: Apache-2.0
#include "lib/control/switch/sram.h"

#include <algorithm>

#include "lib/abi/map_types.h"

namespace ask {

std::uint64_t channel_bytes() {
    return sizeof(ask_dedupe_state) + sizeof(ask_pkt_state);
}

Result<> SramBudget::check(const Geometry& geometry, std::uint32_t aggregators, std::uint64_t heats) const {
    const std::uint64_t stage = total_ / kStages;
    const std::uint64_t array = std::uint64_t{aggregators} * sizeof(ask_aggregator);
    if (array > stage) {
        return Error(Errc::kLimit, "an AA of " + std::to_string(aggregators) + " aggregators takes " +
                                       std::to_string(array / 1024) + " KiB, a stage has " +
                                       std::to_string(stage / 1024) + " KiB: ask for at most " +
                                       std::to_string(stage / sizeof(ask_aggregator)));
    }
    const auto arrays = static_cast<std::uint32_t>(std::min<std::uint64_t>(kArraysPerStage, stage / array));
    const std::uint32_t stages = (geometry.aas() + arrays - 1) / arrays;
    if (stages > kStages) {
        return Error(Errc::kLimit, std::to_string(geometry.aas()) + " AAs of " + std::to_string(aggregators) +
                                       " aggregators take " + std::to_string(stages) + " stages, there are " +
                                       std::to_string(kStages) + ": ask for fewer aggregators or slots");
    }
    const std::uint64_t bytes = region_bytes(geometry, aggregators) + heats;
    if (bytes > left()) {
        return Error(Errc::kLimit,
                     "the region takes " + std::to_string(bytes / 1024) + " KiB of SRAM, " +
                         std::to_string(left() / 1024) + " of " + std::to_string(total_ / 1024) +
                         " KiB are left: wait for other tasks, ask for fewer aggregators, or raise sram_kib");
    }
    return {};
}

Result<> SramBudget::check_bytes(const std::string& what, std::uint64_t bytes) const {
    if (bytes <= left()) {
        return {};
    }
    return Error(Errc::kLimit, what + " takes " + std::to_string(bytes / 1024) + " KiB of SRAM, " +
                                   std::to_string(left() / 1024) + " of " + std::to_string(total_ / 1024) +
                                   " KiB are left: wait for other tasks, or raise the switch's sram_kib");
}

}  // namespace ask
