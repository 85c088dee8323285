// SPDX-License-Identifier: Apache-2.0
//
// Takes a switch's copy into a task's table while it comes: whoever reads the stream checks a piece, and a
// thread of its own adds the pieces up, from the second on: small copies need none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "lib/base/result.h"
#include "lib/base/runtime.h"
#include "lib/tuples/back.h"
#include "lib/tuples/result_table.h"

namespace ask {

// take() and expect() are for one thread at a time.
class CopyMerger {
 public:
    // Nobody else has `table`, which outlives this, but after drain() and before the next piece.
    // `make_room` empties it when it is full; unset: it takes as much as it can.
    explicit CopyMerger(ResultTable& table, std::function<Result<>()> make_room = {})
        : table_(table), make_room_(std::move(make_room)) {}
    CopyMerger(const CopyMerger&) = delete;
    CopyMerger& operator=(const CopyMerger&) = delete;
    // What waits for the table does not go in.
    ~CopyMerger();

    // So much will come. kLimit: the table has no room for it.
    Result<> expect(const BackSize& size);
    // Entries of the next piece, which may go in later. kInput: it is no such piece, and nothing of it goes
    // in. Anything else: the table could not take a piece, this one or one before.
    Result<std::uint64_t> take(std::string piece);
    // Returns once all that was taken is in, or why not. For the thread that waits for the stream.
    Result<> drain();
    // That were taken, by all streams.
    [[nodiscard]] std::uint64_t entries() const { return entries_; }
    // The table has some of a piece and not all, or no room: what it has is of no use.
    [[nodiscard]] bool broken();

 private:
    static constexpr std::size_t kMostWaiting = 8;

    [[nodiscard]] bool start_thread();
    void merge(const std::string& piece);
    void merge_loop();
    void fail(Error error);

    ResultTable& table_;
    const std::function<Result<>()> make_room_;
    std::uint64_t entries_ = 0;
    bool any_ = false;
    Thread thread_;

    Mutex mutex_;
    CondVar changed_;
    std::array<std::string, kMostWaiting> waiting_;  // a ring
    std::size_t first_ = 0;
    std::size_t count_ = 0;  // also the one that is being merged
    bool stop_ = false;
    std::optional<Error> error_;
};

}  // namespace ask
