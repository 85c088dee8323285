// SPDX-License-Identifier: Apache-2.0
//
// A program that takes DATA for regions of one size (bpf/tuples/program.bpf.h). Its map of regions holds
// inner maps of that size alone, and so the kernel inlines its look-ups of aggregators, which are calls
// otherwise: half of what a packet costs (docs/decisions/0008).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "lib/abi/map_types.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace ask {

struct DataProgram {
    UniqueFd program;
    UniqueFd regions;
};

// Descriptor of the dispatcher's map of that name.
using MapFinder = std::function<Result<UniqueFd>(const std::string& name)>;

// Loads one for the regions that are like `region`, on the dispatcher's other maps. `meta` has the choices of
// the dispatcher's load. Takes as long as the verifier does: tens of milliseconds, or hundreds on Linux 6.1.
Result<DataProgram> load_data_program(const ask_meta& meta, int region, const MapFinder& find_map);

}  // namespace ask
