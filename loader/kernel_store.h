// SPDX-License-Identifier: Apache-2.0
//
// The kernel as the controller's store: each call is one system call or a few, and decides nothing.
#pragma once

#include <memory>

#include "lib/base/result.h"
#include "lib/control/switch/store.h"
#include "loader/data_plane.h"
#include "loader/pin_dir.h"
#include "loader/ports.h"

namespace ask {

// The arguments must outlive it. `prepared_programs`: see SizedPrograms::prepare().
Result<std::unique_ptr<SwitchStore>> make_kernel_store(const DataPlane& plane, const PinDir& pins,
                                                       const PortTable& ports,
                                                       unsigned prepared_programs = 0);

}  // namespace ask
