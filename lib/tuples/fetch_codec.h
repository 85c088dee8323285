// SPDX-License-Identifier: Apache-2.0
//
// How a copy travels from the switch to the receiver (design section 8): entries back to
// back, each a varint key length, the key, and the value as a zigzag varint (64 bits: equal
// keys of several register sets may be added before they travel).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/abi/map_types.h"
#include "lib/tuples/result_table.h"
#include "lib/tuples/types.h"

namespace ask {

void append_entry(std::string& out, std::string_view key, std::int64_t value);

// Appends many of them to a string, which has them all once this is gone.
class EntryWriter {
 public:
    explicit EntryWriter(std::string& out) : out_(out) {}
    EntryWriter(const EntryWriter&) = delete;
    EntryWriter& operator=(const EntryWriter&) = delete;
    ~EntryWriter() { flush(); }
    void add(std::string_view key, std::int64_t value);
    // Bytes in the string, and on their way there.
    [[nodiscard]] std::size_t size() const { return out_.size() + used_; }

 private:
    void flush() {
        out_.append(bytes_.data(), used_);
        used_ = 0;
    }

    std::string& out_;
    std::size_t used_ = 0;
    std::array<char, 4096> bytes_;
};

// Reads entries one by one; a truncated or oversized one is an error, never a guess.
class EntryReader {
 public:
    explicit EntryReader(std::string_view bytes) : rest_(bytes) {}
    struct Entry {
        std::string_view key;
        std::int64_t value = 0;
    };
    [[nodiscard]] bool done() const { return rest_.empty(); }
    Result<Entry> next();
    // The same, for many: false if there is none to be had, and explain() says why not.
    bool take(Entry& entry);
    [[nodiscard]] Error explain() const;

 private:
    std::string_view rest_;
};

// How many `entries` are; an error if that cannot be told.
Result<std::uint64_t> count_entries(std::string_view entries);

// Takes all of `entries` into `table`, and says how many they are. Up to where it fails they are in it.
// With `make_room`, a table that is full is emptied by that, and the rest goes into it.
Result<std::uint64_t> add_entries(ResultTable& table, std::string_view entries,
                                  const std::function<Result<>()>& make_room = {});

// Walks one copy of a region (memory as lib/abi/map_types.h lays it out, all register sets)
// without its blanks; equal keys at one place in several sets are combined by `op`. The copy
// must be still: nobody writes it any more (design section 8).
struct CopyLayout {
    Geometry geometry;
    Op op = Op::kSum;
    std::uint32_t sets = 1;
    std::uint32_t copies = 1;
    std::uint32_t copy = 0;
    std::uint32_t aggregators = 0;  // per AA and copy
};
class CopyWalker {
 public:
    // `region` is the whole region, all sets and copies. The first `skip` entries are counted and not
    // written.
    CopyWalker(std::span<const ask_aggregator> region, const CopyLayout& layout, std::uint64_t skip = 0);
    // Appends encoded entries to `out` until it holds `soft_limit` bytes or the copy is done;
    // at least those of one place each call. Returns false when done. kInternal if the region
    // is too small for its layout, or holds words that no sender writes: the walk is over then.
    Result<bool> fill(std::string& out, std::size_t soft_limit);
    // Entries so far.
    [[nodiscard]] std::uint64_t count() const { return count_; }

    // The words of one slot in one register set, or of several whose key is the same.
    struct SlotWords {
        std::array<std::byte, std::size_t{ASK_MAX_M} * ASK_SLOT_BYTES> bytes{};
        std::int64_t value = 0;
    };

 private:
    [[nodiscard]] Result<> check_layout() const;
    // Fills found_ with what all sets hold at index_ of the slot that starts at `aa`.
    void collect(std::uint32_t aa, unsigned aas);

    std::vector<SlotWords> found_;
    std::span<const ask_aggregator> region_;
    CopyLayout layout_;
    std::uint64_t skip_;
    std::uint32_t slot_ = 0;
    std::uint32_t index_ = 0;
    std::uint64_t count_ = 0;
};

}  // namespace ask
