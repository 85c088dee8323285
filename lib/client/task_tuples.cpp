// SPDX-License-Identifier: Apache-2.0
#include "lib/client/task_tuples.h"

#include <string_view>

#include "lib/client/mean.h"

namespace ask::client {

Op combined_by(TaskOp op) {
    switch (op) {
#define ASK_OPERATOR(NAME, Name, number, text) \
    case TaskOp::k##Name:                      \
        return Op::k##Name;
#define ASK_OPERATOR_AS(NAME, Name, AS, As, text) \
    case TaskOp::k##Name:                         \
        return Op::k##As;
#include "lib/abi/operators.def"
    }
    return Op::kSum;
}

std::span<const Tuple> TaskTuples::ones_of(std::span<const Tuple> tuples) {
    if (std::ranges::all_of(tuples, [](const Tuple& tuple) { return tuple.value == 1; })) {
        return tuples;
    }
    counted_.assign(tuples.begin(), tuples.end());
    for (Tuple& tuple : counted_) {
        tuple.value = 1;
    }
    return counted_;
}

Result<std::span<const Tuple>> TaskTuples::pairs_of(std::span<const Tuple> tuples) {
    std::size_t bytes = 0;
    for (const Tuple& tuple : tuples) {
        if (tuple.key.size() > kMaxMeanKey) {
            return Error(Errc::kLimit, "a key of " + std::to_string(tuple.key.size()) +
                                           " bytes; the limit is " + std::to_string(kMaxMeanKey) +
                                           " in a task of means");
        }
        bytes += 2 * (tuple.key.size() + 1);
    }
    // Tuples borrow their keys, so these may not move.
    marked_.clear();
    marked_.reserve(bytes);
    const auto marked = [this](std::string_view key, char mark) {
        const std::size_t begin = marked_.size();
        marked_ += key;
        marked_ += mark;
        return std::string_view(marked_).substr(begin);
    };
    paired_.clear();
    paired_.reserve(2 * tuples.size());
    for (const Tuple& tuple : tuples) {
        paired_.push_back(marks_sum(tuple.key) ? Tuple(marked(tuple.key, kSumMark), tuple.value) : tuple);
        paired_.emplace_back(marked(tuple.key, kCountMark), 1);
    }
    return std::span<const Tuple>(paired_);
}

}  // namespace ask::client
