// SPDX-License-Identifier: Apache-2.0
//
// ask_columns of a caller's: checked as a whole before the first row is used, then walked in batches.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "lib/ask/ask.h"
#include "lib/base/result.h"
#include "lib/tuples/fit/key_sample.h"
#include "lib/tuples/tuple.h"

namespace ask {

// kUsage: NULL, or a type or address that offsets cannot have. kInput: offsets that decrease or pass the end;
// the row is named. kLimit: too long a key, or more rows than memory can hold. Reads nothing past what is
// said to be there.
Result<> check_columns(const ask_columns* columns, bool needs_values);

// Of checked columns: what a planner wants to know of them, from rows all over them. `expected`: tuples in
// all; 0: not known.
[[nodiscard]] KeySample sample_columns(const ask_columns& columns, std::uint64_t expected);

namespace detail {

template <typename Offset, typename Sink>
Result<> walk(const ask_columns& columns, std::size_t first, std::size_t rows, Sink& sink) {
    constexpr std::size_t kBatch = 256;
    const auto* const offsets = static_cast<const Offset*>(columns.offsets) + first;
    const auto* const keys = columns.keys == nullptr ? "" : static_cast<const char*>(columns.keys);
    const std::int64_t* const values = columns.values == nullptr ? nullptr : columns.values + first;
    const char* const end = keys + columns.key_bytes;
    std::array<Tuple, kBatch> batch;
    for (std::size_t row = 0; row < rows;) {
        const std::size_t some = std::min(kBatch, rows - row);
        for (std::size_t i = 0; i < some; ++i, ++row) {
            const auto from = static_cast<std::size_t>(offsets[row]);
            const auto to = static_cast<std::size_t>(offsets[row + 1]);
            batch[i] = Tuple({keys + from, to - from}, values == nullptr ? 1 : values[row], end);
        }
        ASK_PASS(sink(std::span<const Tuple>(batch.data(), some)));
    }
    return {};
}

}  // namespace detail

// Calls sink(tuples), which returns Result<>, for checked columns' rows, some at a time; ends at its first
// error.
template <typename Sink>
Result<> each_batch(const ask_columns& columns, std::size_t first, std::size_t rows, Sink&& sink) {
    return columns.offset_type == ASK_INT32 ? detail::walk<std::int32_t>(columns, first, rows, sink)
                                            : detail::walk<std::int64_t>(columns, first, rows, sink);
}

}  // namespace ask
