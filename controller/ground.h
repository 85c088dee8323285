// SPDX-License-Identifier: Apache-2.0
//
// The topology file as what plans are made on.
#pragma once

#include <string>

#include "lib/base/result.h"
#include "lib/control/placing/placing.h"

namespace ask {

// The error names file and line. The log says what it lacks for tasks to aggregate anywhere.
Result<placing::Ground> load_ground(const std::string& path);

}  // namespace ask
