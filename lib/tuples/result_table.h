// SPDX-License-Identifier: Apache-2.0
//
// A task's table at the receiver (design section 7): open addressing over memory that the
// caller provides, so that the agent can keep it in shared memory and hand it to the
// application as it stands, which reads it from end to end and looks nothing up. Values are 128 bits while
// the task runs and are checked against int64 once, at the end, so overflow does not depend on order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "lib/tuples/keyed_hash.h"
#include "lib/tuples/types.h"

namespace ask {

// Where a table lives, and where its seeds come from. Getting memory may fail (memory limit, disk or shared
// memory full).
class TableMemory {
 public:
    virtual ~TableMemory() = default;
    // Another one each time. Whoever chooses the table's keys must not know it.
    virtual HashSeed draw_seed() = 0;
    // To be counted by whoever counts. kReseeded: keys lay too far from their places, and all got new ones
    // under another seed. kCrowded: that did not help, again and again; they stay far until the table grows.
    enum class Event : std::uint8_t { kReseeded, kCrowded };
    virtual void note(Event /*event*/) {}
    // A fresh zeroed block for the slots, aligned to 64 bytes or to malloc's, replacing the former one, which
    // stays valid until release_old_slots().
    virtual Result<std::span<std::byte>> allocate_slots(std::size_t bytes) = 0;
    virtual void release_old_slots() = 0;
    // Makes the key heap at least `bytes` long; contents stay, the address may change.
    virtual Result<std::span<std::byte>> grow_keys(std::size_t bytes) = 0;
};

// TableMemory on the heap, for tests and the simulator: its seeds are public ones.
std::unique_ptr<TableMemory> make_heap_memory(std::size_t limit_bytes = SIZE_MAX);

// Layout of the slot block, read by the application: header, then `slots` entries.
struct TableHeader {
    static constexpr std::uint64_t kMagic = 0x31454c4241545341ULL;  // "ASTABLE1"
    std::uint64_t magic;
    std::uint64_t slots;      // a power of two
    std::uint64_t keys;       // entries in use
    std::uint64_t key_bytes;  // used part of the key heap
    std::uint64_t finished;   // 1 once every value fits int64; 2: they need not
    std::uint64_t reserved[3];
};
struct TableEntry {
    static constexpr std::uint32_t kUsedBit = 1U << 31;
    std::uint64_t key_offset;  // into the key heap
    std::uint32_t key_len;
    std::uint32_t hash_used;  // kUsedBit: in use; the rest: of the key's hash by the table's seed
    std::uint64_t value_lo;   // two's complement 128 bits
    std::uint64_t value_hi;
};
static_assert(sizeof(TableHeader) == 64 && sizeof(TableEntry) == 32);

class ResultTable {
 public:
    // A new key that finds its place so many entries further than it should has the table rebuilt. By chance
    // one in 10^9 tables of 60,000 keys has such a key, and one in 10^4 of the largest.
    static constexpr std::uint64_t kFarthest = 512;
    // Between two sizes of a table; each costs as much as growing.
    static constexpr unsigned kMostRebuilds = 4;

    // Fails if the first block cannot be had.
    static Result<ResultTable> create(std::unique_ptr<TableMemory> memory, Op op);
    // What a table of so many keys takes at least.
    [[nodiscard]] static std::uint64_t least_memory(std::uint64_t keys, std::uint64_t key_bytes);
    ResultTable(ResultTable&&) noexcept;
    ResultTable& operator=(ResultTable&&) noexcept;
    ~ResultTable();

    // Adds a tuple. kLimit when memory is full; the table is unchanged then.
    Result<> add(std::string_view key, Wide value);
    // Adds all tuples of another table of the same operator. kLimit when memory is full;
    // this table is unchanged then.
    Result<> merge(const ResultTable& other);

    // Makes room for so many more tuples at once, which a table that grows would have twice. If there is not
    // enough for all of them to be new keys, then for as many keys together; kLimit: not even that.
    Result<> expect(std::uint64_t tuples, std::size_t key_bytes);

    // In steps, for a packet whose tuples go in all together or not at all: make room for so
    // many new keys, then add without the chance of failure. `hash` is keyed_hash(seed(), key).
    [[nodiscard]] const HashSeed& seed() const;
    // Before the packet: if keys lie too far from their places, all get new ones under another seed(), in the
    // memory that is there.
    void settle();
    Result<> reserve(std::uint64_t keys, std::size_t key_bytes);
    // Hide the cache misses of a later add: first of its entry, then, that being there, of its key.
    void prefetch(std::uint64_t hash) const;
    void prefetch_key(std::uint64_t hash) const;
    [[nodiscard]] bool contains(std::uint64_t hash, std::string_view key) const;
    void add_reserved(std::uint64_t hash, std::string_view key, Wide value);

    // Checks every value against int64 and marks the table finished (a later add unmarks it).
    // kOverflow names the key (escaped, at most 64 bytes of it), the smallest if several.
    Result<> finish();
    // The same for a table that is a part of another, and whose values are to be read wide.
    void finish_wide();
    [[nodiscard]] std::uint64_t size() const;
    // How many keys have as many bytes as the index says. Looks at all of them.
    [[nodiscard]] std::vector<std::uint64_t> keys_by_length() const;
    // Entries that were looked at so far, to find keys and to move them.
    [[nodiscard]] std::uint64_t probes() const;
    [[nodiscard]] TableMemory& memory();

 private:
    class Impl;
    explicit ResultTable(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

// Read side: checks header, sizes and every offset of an entry before use, so a damaged or
// hostile table gives errors, not crashes. Borrowed memory.
class TableView {
 public:
    static Result<TableView> open(std::span<const std::byte> slots, std::span<const std::byte> keys);
    [[nodiscard]] std::uint64_t size() const;
    // Calls visit(key, value) for each entry in table order; kInput if an entry is damaged, or its value does
    // not fit int64.
    template <typename Visit>
    Result<> each(Visit&& visit) const;
    // The same with a Wide value.
    template <typename Visit>
    Result<> each_wide(Visit&& visit) const;
    [[nodiscard]] std::uint64_t slots() const { return slot_count_; }
    // Entry `i` of slots(), if in use. Damaged: error.
    struct Item {
        bool used = false;
        std::string_view key;
        std::int64_t value = 0;
    };
    [[nodiscard]] Result<Item> at(std::uint64_t i) const;
    struct WideItem {
        bool used = false;
        std::string_view key;
        Wide value = 0;
    };
    [[nodiscard]] Result<WideItem> wide_at(std::uint64_t i) const;

 private:
    std::span<const std::byte> entries_;
    std::span<const std::byte> keys_;
    std::uint64_t slot_count_ = 0;
    std::uint64_t used_ = 0;
};

template <typename Visit>
Result<> TableView::each_wide(Visit&& visit) const {
    for (std::uint64_t i = 0; i < slot_count_; ++i) {
        auto item = wide_at(i);
        if (!item) {
            return std::move(item).error();
        }
        if (item->used) {
            visit(item->key, item->value);
        }
    }
    return {};
}

template <typename Visit>
Result<> TableView::each(Visit&& visit) const {
    for (std::uint64_t i = 0; i < slot_count_; ++i) {
        auto item = at(i);
        if (!item) {
            return std::move(item).error();
        }
        if (item->used) {
            visit(item->key, item->value);
        }
    }
    return {};
}

}  // namespace ask
