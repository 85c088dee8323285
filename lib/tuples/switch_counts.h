// SPDX-License-Identifier: Apache-2.0
//
// Sums of what switch programs count of flows (lib/abi/stats.def): over CPUs, over a task's flows.
#pragma once

#include "lib/abi/map_types.h"

namespace ask {

inline void add(ask_flow_stats& sum, const ask_flow_stats& part) {
#define ASK_PROGRAM_STAT(name, text) sum.name += part.name;
#define ASK_TAKEN_STAT(name, field, text) sum.name += part.name;
#define ASK_LEFT_STAT(cause, text) sum.tuples_##cause += part.tuples_##cause;
#define ASK_BESIDE_STAT(name, text) sum.name += part.name;
#define ASK_PART_STAT(name, text) sum.name += part.name;
#include "lib/abi/stats.def"
}

}  // namespace ask
