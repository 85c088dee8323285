// SPDX-License-Identifier: Apache-2.0
#include "lib/ask/columns.h"

#include <string>

#include "lib/abi/consts.h"
#include "lib/ask/handle.h"
#include "lib/base/random.h"

namespace ask {
namespace {

static_assert(ASK_MAX_KEY_BYTES == ASK_MAX_KEY);

// Rows of a sample that lie together.
constexpr std::size_t kSamplePieces = 16;
constexpr std::size_t kPieceRows = KeySampler::kMaxTuples / kSamplePieces;

bool is_aligned(const void* at, std::size_t to) {
    return reinterpret_cast<std::uintptr_t>(at) % to == 0;
}

// The row whose key has no possible length; there is one.
template <typename Offset>
Error describe_row(const Offset* offsets, std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) {
        const std::int64_t from = offsets[row];
        const std::int64_t to = offsets[row + 1];
        const std::string where = "columns: row " + std::to_string(row);
        if (to < from) {
            return {Errc::kInput, where + ": its offsets decrease, from " + std::to_string(from) + " to " +
                                      std::to_string(to)};
        }
        if (to - from > ASK_MAX_KEY) {
            return {Errc::kLimit, where + ": a key of " + std::to_string(to - from) +
                                      " bytes; the limit is " + std::to_string(ASK_MAX_KEY)};
        }
    }
    return {Errc::kInput, "columns: the offsets change while they are read"};
}

template <typename Offset>
Result<> check_offsets(const ask_columns& columns) {
    const auto* const offsets = static_cast<const Offset*>(columns.offsets);
    if (offsets[0] < 0) {
        return Error(Errc::kInput, "columns: the first offset is " + std::to_string(offsets[0]) +
                                       "; offsets are not negative");
    }
    // One comparison for both, and no branch: a difference below zero is large without its sign.
    std::uint64_t wrong = 0;
    for (std::size_t row = 0; row < columns.rows; ++row) {
        const auto from = static_cast<std::uint64_t>(std::int64_t{offsets[row]});
        const auto to = static_cast<std::uint64_t>(std::int64_t{offsets[row + 1]});
        wrong |= static_cast<std::uint64_t>(to - from > ASK_MAX_KEY);
    }
    if (wrong != 0) {
        return describe_row(offsets, columns.rows);
    }
    const auto last = static_cast<std::uint64_t>(std::int64_t{offsets[columns.rows]});
    if (last > columns.key_bytes) {
        return Error(Errc::kInput, "columns: the last offset is " + std::to_string(last) + ", past the " +
                                       std::to_string(columns.key_bytes) + " bytes of keys");
    }
    return last > 0 && columns.keys == nullptr ? Result<>(usage("columns: the keys are NULL")) : Result<>();
}

}  // namespace

Result<> check_columns(const ask_columns* columns, bool needs_values) {
    if (columns == nullptr) {
        return usage("the columns are NULL");
    }
    const int type = columns->offset_type;
    if (type != ASK_INT32 && type != ASK_INT64) {
        return usage("columns: offsets of type " + std::to_string(type) + ": ASK_INT32 or ASK_INT64");
    }
    const std::size_t rows = columns->rows;
    if (rows == 0) {
        return {};
    }
    if (rows >= static_cast<std::size_t>(PTRDIFF_MAX) / sizeof(std::int64_t)) {
        return Error(Errc::kLimit, "columns: " + std::to_string(rows) +
                                       " rows are more than memory can hold; the limit is " +
                                       std::to_string(PTRDIFF_MAX / sizeof(std::int64_t) - 1));
    }
    if (columns->offsets == nullptr || (needs_values && columns->values == nullptr)) {
        return usage(columns->offsets == nullptr ? "columns: the offsets are NULL"
                                                 : "columns: the values are NULL, and the task's operator "
                                                   "is not ASK_COUNT");
    }
    if (!is_aligned(columns->offsets, ask_dtype_size(type)) ||
        !is_aligned(columns->values, sizeof(std::int64_t))) {
        return usage("columns: offsets or values do not lie at a multiple of their size");
    }
    return type == ASK_INT32 ? check_offsets<std::int32_t>(*columns) : check_offsets<std::int64_t>(*columns);
}

KeySample sample_columns(const ask_columns& columns, std::uint64_t expected) {
    KeySampler sampler(make_seed(random_u64));
    const std::size_t pieces = std::clamp(columns.rows / kPieceRows, std::size_t{1}, kSamplePieces);
    const std::size_t apart = columns.rows / pieces;
    const auto add = [&sampler](std::span<const Tuple> tuples) -> Result<> {
        for (const Tuple& tuple : tuples) {
            sampler.add(tuple.key, tuple.value);
        }
        return {};
    };
    for (std::size_t piece = 0; piece < pieces; ++piece) {
        if (pieces > 1) {
            sampler.next_place();
        }
        const std::size_t rows = pieces > 1 ? std::min(apart, kPieceRows) : columns.rows;
        static_cast<void>(each_batch(columns, piece * apart, rows, add));
    }
    return sampler.finish(expected);
}

}  // namespace ask
