// SPDX-License-Identifier: Apache-2.0
//
// A placement from a file: what `ask-plan --json` prints, or its member `placement` alone.
#pragma once

#include <string>

#include "lib/base/result.h"
#include "lib/client/placement.h"

namespace ask::cli {

// "-" is standard input. kInput names the file and what is wrong with it.
Result<client::Placement> read_placement(const std::string& path);
// The same of its text, which errors call `name`.
Result<client::Placement> parse_placement(const std::string& text, const std::string& name);

}  // namespace ask::cli
