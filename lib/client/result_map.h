// SPDX-License-Identifier: Apache-2.0
//
// A task's result as the agent handed it over: a table in shared memory that this process now owns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/tuples/result_table.h"

namespace ask::client {

// Memory mapped from a file for reading.
class ReadMapping {
 public:
    ReadMapping() = default;
    // Maps the whole of a memfd that can neither shrink nor be written any more. kInput: it still can.
    static Result<ReadMapping> map(const UniqueFd& fd);
    ReadMapping(ReadMapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
    ReadMapping& operator=(ReadMapping&& other) noexcept;
    ~ReadMapping();
    [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
    std::span<const std::byte> bytes_;
};

class ResultMap {
 public:
    // Takes the table's slots and keys. kInput: not a table.
    static Result<ResultMap> open(UniqueFd slots, UniqueFd keys);

    [[nodiscard]] std::uint64_t size() const { return view_.size(); }
    // Calls visit(key, value) for every key, in no particular order. Keys are borrowed from the table.
    // kInput: the table is damaged.
    template <typename Visit>
    Result<> each(Visit&& visit) const {
        return view_.each(std::forward<Visit>(visit));
    }
    // The same with values of 128 bits, of a result that is a part of another.
    template <typename Visit>
    Result<> each_wide(Visit&& visit) const {
        return view_.each_wide(std::forward<Visit>(visit));
    }
    // In the order of the keys' bytes, or of the values, the largest first, and of equal ones by the keys'
    // bytes.
    enum class Order : std::uint8_t { kKey, kValue };
    static constexpr std::uint64_t kAll = UINT64_MAX;
    // The same in some order, no more than the first `most`. `visit` returns Result<>, and an error ends the
    // walk. Needs 16 bytes on top for each that is visited, and time before the first visit, in which it
    // calls `pulse` now and then.
    template <typename Visit>
    Result<> each_in_order(
        Order order, std::uint64_t most, Visit&& visit, const std::function<void()>& pulse = [] {}) const;
    // All, by the keys' bytes.
    template <typename Visit>
    Result<> each_sorted(Visit&& visit, const std::function<void()>& pulse = [] {}) const {
        return each_in_order(Order::kKey, kAll, std::forward<Visit>(visit), pulse);
    }

 private:
    // Where an entry is, and a number that sorts like it, as far as it goes: the first bytes of its key, or
    // its value.
    struct Ref {
        std::uint64_t prefix;
        std::uint64_t slot;
    };
    ResultMap(ReadMapping slots, ReadMapping keys, TableView view)
        : slots_(std::move(slots)), keys_(std::move(keys)), view_(view) {}
    [[nodiscard]] Result<std::vector<Ref>> sorted(Order order, std::uint64_t most,
                                                  const std::function<void()>& pulse) const;

    ReadMapping slots_;
    ReadMapping keys_;
    TableView view_;
};

template <typename Visit>
Result<> ResultMap::each_in_order(Order order, std::uint64_t most, Visit&& visit,
                                  const std::function<void()>& pulse) const {
    auto refs = sorted(order, most, pulse);
    if (!refs) {
        return std::move(refs).error();
    }
    for (const Ref& ref : *refs) {
        auto item = view_.at(ref.slot);
        if (!item) {
            return std::move(item).error();
        }
        if (auto done = visit(item->key, item->value); !done) {
            return done;
        }
    }
    return {};
}

}  // namespace ask::client
