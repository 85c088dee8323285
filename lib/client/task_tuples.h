// SPDX-License-Identifier: Apache-2.0
//
// What a task's operator makes of tuples before any are merged: of counts each value is 1, of means each
// tuple becomes two (lib/client/mean.h). Internal to lib/client.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/client/task.h"
#include "lib/tuples/tuple.h"
#include "lib/tuples/types.h"

namespace ask::client {

// How values of equal keys are added up on the way.
[[nodiscard]] Op combined_by(TaskOp op);

class TaskTuples {
 public:
    TaskTuples(bool ones, bool pairs) : ones_(ones), pairs_(pairs) {}
    // `out(std::span<const Tuple>)` returns Result<>, and gets what is borrowed for the call. kLimit: a key
    // that is too long for a mean.
    template <typename Out>
    Result<> each(std::span<const Tuple> tuples, Out&& out);

 private:
    // Tuples of a mean that become two each at a time.
    static constexpr std::size_t kMeanBatch = 128;
    [[nodiscard]] std::span<const Tuple> ones_of(std::span<const Tuple> tuples);
    Result<std::span<const Tuple>> pairs_of(std::span<const Tuple> tuples);

    bool ones_;                   // every value is 1
    bool pairs_;                  // of each tuple a sum and a count
    std::vector<Tuple> counted_;  // tuples with their values made 1
    std::vector<Tuple> paired_;   // sums and counts
    std::string marked_;          // keys of these
};

template <typename Out>
Result<> TaskTuples::each(std::span<const Tuple> tuples, Out&& out) {
    if (ones_) {
        tuples = ones_of(tuples);
    }
    if (!pairs_) {
        return out(tuples);
    }
    for (; !tuples.empty(); tuples = tuples.subspan(std::min(tuples.size(), kMeanBatch))) {
        const auto pairs = pairs_of(tuples.first(std::min(tuples.size(), kMeanBatch)));
        ASK_PASS(pairs);
        ASK_PASS(out(*pairs));
    }
    return {};
}

}  // namespace ask::client
