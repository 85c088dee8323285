// SPDX-License-Identifier: Apache-2.0
//
// A simulated switch as its controller's store. Whatever changes it is a step of its own: others run before,
// and the daemon may be killed there.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "lib/control/switch/store.h"
#include "tests/sim/tuples/data_plane.h"
#include "tests/sim/tuples/network.h"
#include "tests/sim/tuples/world.h"

namespace ask::sim {

// To be used by threads of the daemon's process. The arguments must outlive it. `die` is asked before each
// step: true, and the thread waits there until it is killed.
std::unique_ptr<SwitchStore> make_switch_store(World& world, DataPlane& plane, const Network& network,
                                               std::uint32_t number, std::function<bool()> die);

}  // namespace ask::sim
