// SPDX-License-Identifier: Apache-2.0
//
// A look at the keys of a send's inputs before it starts, for a receiver that chooses its task's geometry by
// it.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "lib/tuples/fit/key_sample.h"
#include "tools/cli/input.h"

namespace ask::cli {

struct Sampled {
    std::optional<KeySample> sample;  // none: no line has come in time
    std::optional<Input> first;       // the first file, opened, if something of it has been read
};

// Files are looked into in many places, since texts change as they go on; only at their start if they are
// compressed. Of a pipe or terminal that comes first, what arrives within `patience` counts, at most 256 KiB,
// and is kept in `first`. Malformed lines, and damaged data, are passed over: sending finds them. kAborted:
// `stop_fd` is readable.
Result<Sampled> sample_inputs(const std::vector<std::string>& files, const InputRules& rules, int stop_fd,
                              std::chrono::milliseconds patience);

}  // namespace ask::cli
