// SPDX-License-Identifier: Apache-2.0
//
// Streaming a task's copy to its receiver: in pieces, and known to be that copy only at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/control/switch/controller.h"

namespace ask {

struct FetchRequest {
    RegionId region;
    std::uint64_t epoch = 0;
    bool close = false;      // swaps first
    bool settled = false;    // counts only what no program is still to add to
    std::uint64_t skip = 0;  // entries that the caller has: the copy is still, and they are its first again
};

// What only the end of a stream can say.
struct FetchEnd {
    std::uint64_t nonce = 0;  // of the region
    std::uint64_t epoch = 0;
    std::uint64_t count = 0;  // entries of the copy, those skipped among them
    std::vector<FlowReport> flows;
};

// Hands the copy's entries (lib/tuples/fetch_codec.h) to `write`, at most `chunk_bytes` at a time and no
// empty piece; false from it: nobody reads any more, and nothing comes back. What was written is nothing
// unless an end comes back. kAborted: the task went on meanwhile.
// `announce`, if it is not empty, is told first how much of it the back level has, if that is a large one.
Result<std::optional<FetchEnd>> fetch_copy(Controller& controller, const Caller& caller,
                                           const FetchRequest& request, std::size_t chunk_bytes,
                                           const std::function<bool(std::string entries)>& write,
                                           const std::function<void(const BackSize& size)>& announce = {});

}  // namespace ask
