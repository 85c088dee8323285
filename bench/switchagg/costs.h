// SPDX-License-Identifier: Apache-2.0
//
// SwitchAgg's Table 3, what each stage takes: as the switch program's time a pair, since a CPU has no stages.
#pragma once

#include <cstdint>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/common/rig.h"

namespace ask::bench {

// Of so many keys in the back level. A line a stage on stdout.
Result<std::vector<nlohmann::ordered_json>> measure_costs(Rig& rig, std::uint64_t keys);

}  // namespace ask::bench
