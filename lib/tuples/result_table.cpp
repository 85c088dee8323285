// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/result_table.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "lib/base/bytes.h"
#include "lib/tuples/key_text.h"

namespace ask {

namespace {

constexpr std::uint64_t kFirstSlots = 1024;
constexpr std::size_t kFirstKeyBytes = std::size_t{64} << 10;
// The stored part of a hash also says where an entry belongs, so growth reads no keys.
constexpr std::uint64_t kMaxSlots = std::uint64_t{1} << 31;

// Entries that a table of `slots` takes before it grows: 11/16 keeps probes short.
constexpr std::uint64_t room_of(std::uint64_t slots) {
    return slots / 16 * 11;
}

// memcmp() is a call; most keys are short, and two loads that overlap cover up to 16 bytes.
bool same_bytes(const char* a, const char* b, std::size_t size) {
    if (size > 16) {
        return std::memcmp(a, b, size) == 0;
    }
    const auto differ = [&]<typename Word>(Word) {
        const std::size_t last = size - sizeof(Word);
        return (load_raw<Word>(a) ^ load_raw<Word>(b)) |
               (load_raw<Word>(a + last) ^ load_raw<Word>(b + last));
    };
    if (size >= 8) {
        return differ(std::uint64_t{}) == 0;
    }
    if (size >= 4) {
        return differ(std::uint32_t{}) == 0;
    }
    return size == 0 || (a[0] == b[0] && a[size / 2] == b[size / 2] && a[size - 1] == b[size - 1]);
}

// In key_len, which needs 16 bits: an entry that a rebuild has still to move.
constexpr std::uint32_t kStaleBit = 1U << 31;

constexpr std::uint32_t tag_of(std::uint64_t hash) {
    return static_cast<std::uint32_t>(hash) | TableEntry::kUsedBit;
}

Wide value_of(const TableEntry& entry) {
    return static_cast<Wide>(detail::U128{entry.value_hi} << 64 | entry.value_lo);
}

void set_value(TableEntry& entry, Wide value) {
    const auto bits = static_cast<detail::U128>(value);
    entry.value_lo = static_cast<std::uint64_t>(bits);
    entry.value_hi = static_cast<std::uint64_t>(bits >> 64);
}

bool fits_int64(Wide value) {
    return value >= std::numeric_limits<std::int64_t>::min() &&
           value <= std::numeric_limits<std::int64_t>::max();
}

}  // namespace

// Invariant: count_ <= room_of(slots), so that every probe ends at a blank entry.
class ResultTable::Impl {
 public:
    Impl(std::unique_ptr<TableMemory> memory, Op op) : memory_(std::move(memory)), op_(op) {}

    Result<> allocate(std::uint64_t slots);
    Result<> reserve(std::uint64_t keys, std::size_t key_bytes);
    [[nodiscard]] const HashSeed& seed() const { return seed_; }
    void settle() {
        if (crowded_) {
            relieve();
        }
    }
    void prefetch(std::uint64_t hash) const { __builtin_prefetch(&entries_[tag_of(hash) & mask_]); }
    void prefetch_key(std::uint64_t hash) const {
        const TableEntry& entry = entries_[tag_of(hash) & mask_];
        if (entry.hash_used == tag_of(hash)) {
            __builtin_prefetch(key_data_ + entry.key_offset);
        }
    }
    [[nodiscard]] std::uint64_t hash(std::string_view key) const { return keyed_hash(seed_, key); }
    [[nodiscard]] bool contains(std::uint64_t hash, std::string_view key) const {
        return probe(tag_of(hash), key)->hash_used != 0;
    }
    void add(std::uint64_t hash, std::string_view key, Wide value);
    Result<> merge(const Impl& other);
    Result<> finish();
    void finish_wide();

    [[nodiscard]] std::uint64_t size() const { return count_; }
    [[nodiscard]] std::vector<std::uint64_t> keys_by_length() const;
    [[nodiscard]] std::size_t key_bytes() const { return key_used_; }
    [[nodiscard]] std::uint64_t probes() const { return probes_; }
    [[nodiscard]] TableMemory& memory() { return *memory_; }

 private:
    [[nodiscard]] std::uint64_t slots() const { return mask_ + 1; }
    [[nodiscard]] std::string_view key_of(const TableEntry& entry) const {
        return {key_data_ + entry.key_offset, entry.key_len};
    }
    [[nodiscard]] std::uint64_t distance(std::uint32_t tag, std::uint64_t at) const {
        return (at - tag) & mask_;
    }
    // The entry of `key`, or the blank one where it belongs.
    [[nodiscard]] TableEntry* probe(std::uint32_t tag, std::string_view key) const;
    Result<> grow_slots(std::uint64_t keys);
    Result<> grow_keys(std::size_t bytes);
    void relieve();
    void rebuild();
    void move(TableEntry entry);
    void write_header(std::uint64_t finished);

    std::unique_ptr<TableMemory> memory_;
    Op op_;
    TableHeader* header_ = nullptr;
    TableEntry* entries_ = nullptr;
    std::uint64_t mask_ = 0;
    std::uint64_t count_ = 0;
    char* key_data_ = nullptr;
    std::size_t key_room_ = 0;
    std::size_t key_used_ = 0;
    bool finished_ = false;
    bool wide_ = false;  // some value did not fit int64, and perhaps does not
    HashSeed seed_ = memory_->draw_seed();
    bool crowded_ = false;  // a key lies farther from its place than kFarthest
    unsigned rebuilds_left_ = kMostRebuilds;
    mutable std::uint64_t probes_ = 0;
};

Result<> ResultTable::Impl::allocate(std::uint64_t slots) {
    auto block = memory_->allocate_slots(sizeof(TableHeader) + slots * sizeof(TableEntry));
    if (!block) {
        return std::move(block).error();
    }
    header_ = reinterpret_cast<TableHeader*>(block->data());
    entries_ = reinterpret_cast<TableEntry*>(block->data() + sizeof(TableHeader));
    mask_ = slots - 1;
    write_header(0);
    return {};
}

void ResultTable::Impl::write_header(std::uint64_t finished) {
    finished_ = finished != 0;
    *header_ = TableHeader{.magic = TableHeader::kMagic,
                           .slots = slots(),
                           .keys = count_,
                           .key_bytes = key_used_,
                           .finished = finished,
                           .reserved = {}};
}

TableEntry* ResultTable::Impl::probe(std::uint32_t tag, std::string_view key) const {
    for (std::uint64_t i = tag & mask_;; i = (i + 1) & mask_) {
        TableEntry& entry = entries_[i];
        if (entry.hash_used == 0 || (entry.hash_used == tag && entry.key_len == key.size() &&
                                     same_bytes(key_data_ + entry.key_offset, key.data(), key.size()))) {
            probes_ += distance(tag, i) + 1;
            return &entry;
        }
    }
}

Result<> ResultTable::Impl::grow_slots(std::uint64_t keys) {
    const TableEntry* const old = entries_;
    const std::uint64_t old_slots = slots();
    std::uint64_t wanted = old_slots;
    while (room_of(wanted) < keys && wanted < kMaxSlots) {
        wanted *= 2;
    }
    if (room_of(wanted) < keys) {
        return Error(Errc::kLimit,
                     "result table: more than " + std::to_string(room_of(kMaxSlots)) + " distinct keys");
    }
    if (auto grown = allocate(wanted); !grown) {
        return std::move(grown).error().with_context("result table of " + std::to_string(count_) + " keys");
    }
    for (std::uint64_t i = 0; i < old_slots; ++i) {
        if (old[i].hash_used != 0) {
            std::uint64_t to = old[i].hash_used & mask_;
            while (entries_[to].hash_used != 0) {
                to = (to + 1) & mask_;
            }
            probes_ += distance(old[i].hash_used, to) + 1;
            entries_[to] = old[i];
        }
    }
    memory_->release_old_slots();
    rebuilds_left_ = kMostRebuilds;
    return {};
}

// Bounded, whatever seeds do: when they have not helped so often, keys stay where they are.
void ResultTable::Impl::relieve() {
    while (crowded_ && rebuilds_left_ > 0) {
        --rebuilds_left_;
        rebuild();
        memory_->note(crowded_ && rebuilds_left_ == 0 ? TableMemory::Event::kCrowded
                                                      : TableMemory::Event::kReseeded);
    }
    crowded_ = false;
}

// In place, so that it cannot fail. Entries that are still to be moved count as blank: whoever takes the
// place of one moves it first.
void ResultTable::Impl::rebuild() {
    seed_ = memory_->draw_seed();
    crowded_ = false;
    for (std::uint64_t i = 0; i <= mask_; ++i) {
        entries_[i].key_len |= entries_[i].hash_used != 0 ? kStaleBit : 0;
    }
    for (std::uint64_t i = 0; i <= mask_; ++i) {
        if ((entries_[i].key_len & kStaleBit) != 0) {
            move(std::exchange(entries_[i], {}));
        }
    }
}

void ResultTable::Impl::move(TableEntry entry) {
    while (entry.hash_used != 0) {
        entry.key_len &= ~kStaleBit;
        entry.hash_used = tag_of(hash(key_of(entry)));
        std::uint64_t to = entry.hash_used & mask_;
        while (entries_[to].hash_used != 0 && (entries_[to].key_len & kStaleBit) == 0) {
            to = (to + 1) & mask_;
        }
        probes_ += distance(entry.hash_used, to) + 1;
        crowded_ = crowded_ || distance(entry.hash_used, to) > kFarthest;
        std::swap(entry, entries_[to]);
    }
}

Result<> ResultTable::Impl::grow_keys(std::size_t bytes) {
    auto heap = memory_->grow_keys(std::max({bytes, 2 * key_room_, kFirstKeyBytes}));
    if (!heap) {
        // Near the limit: no more than what is needed.
        heap = memory_->grow_keys(bytes);
    }
    if (!heap) {
        return std::move(heap).error().with_context("result table of " + std::to_string(count_) + " keys");
    }
    key_data_ = reinterpret_cast<char*>(heap->data());
    key_room_ = heap->size();
    return {};
}

Result<> ResultTable::Impl::reserve(std::uint64_t keys, std::size_t key_bytes) {
    if (key_bytes > key_room_ - key_used_) {
        if (auto grown = grow_keys(key_used_ + key_bytes); !grown) {
            return grown;
        }
    }
    if (count_ + keys > room_of(slots())) {
        return grow_slots(count_ + keys);
    }
    return {};
}

void ResultTable::Impl::add(std::uint64_t hash, std::string_view key, Wide value) {
    if (finished_) {
        write_header(0);
    }
    const std::uint32_t tag = tag_of(hash);
    TableEntry* const entry = probe(tag, key);
    if (entry->hash_used != 0) {
        value = apply(op_, value_of(*entry), value);
        wide_ = wide_ || !fits_int64(value);
        set_value(*entry, value);
        return;
    }
    wide_ = wide_ || !fits_int64(value);
    crowded_ = crowded_ || distance(tag, static_cast<std::uint64_t>(entry - entries_)) > kFarthest;
    std::copy(key.begin(), key.end(), key_data_ + key_used_);
    entry->key_offset = key_used_;
    entry->key_len = static_cast<std::uint32_t>(key.size());
    entry->hash_used = tag;
    set_value(*entry, value);
    key_used_ += key.size();
    ++count_;
}

Result<> ResultTable::Impl::merge(const Impl& other) {
    if (other.op_ != op_) {
        return Error(Errc::kInternal, "result table: merging tables of different operators");
    }
    // Room for all of it beforehand: a merge is whole or not at all.
    if (!reserve(other.count_, other.key_used_)) {
        std::uint64_t keys = 0;
        std::size_t bytes = 0;
        for (std::uint64_t i = 0; i < other.slots(); ++i) {
            const TableEntry& entry = other.entries_[i];
            const std::string_view key = other.key_of(entry);
            if (entry.hash_used != 0 && !contains(hash(key), key)) {
                ++keys;
                bytes += key.size();
            }
        }
        if (auto room = reserve(keys, bytes); !room) {
            return room;
        }
    }
    for (std::uint64_t i = 0; i < other.slots(); ++i) {
        const TableEntry& entry = other.entries_[i];
        if (entry.hash_used != 0) {
            const std::string_view key = other.key_of(entry);
            settle();
            add(hash(key), key, value_of(entry));
        }
    }
    return {};
}

std::vector<std::uint64_t> ResultTable::Impl::keys_by_length() const {
    std::vector<std::uint64_t> keys;
    for (std::uint64_t i = 0; i <= mask_; ++i) {
        const TableEntry& entry = entries_[i];
        if (entry.hash_used != 0) {
            keys.resize(std::max<std::size_t>(keys.size(), entry.key_len + std::size_t{1}));
            ++keys[entry.key_len];
        }
    }
    return keys;
}

void ResultTable::Impl::finish_wide() {
    constexpr std::uint64_t kWide = 2;
    write_header(kWide);
}

Result<> ResultTable::Impl::finish() {
    // Of several keys that overflow the smallest is named, so that the error does not depend
    // on the order of arrival.
    std::optional<std::string_view> worst;
    for (std::uint64_t i = 0; wide_ && i <= mask_; ++i) {
        const TableEntry& entry = entries_[i];
        if (entry.hash_used != 0 && !fits_int64(value_of(entry))) {
            worst = worst ? std::min(*worst, key_of(entry)) : key_of(entry);
        }
    }
    if (worst) {
        return Error(Errc::kOverflow, "key " + quote_key(*worst) +
                                          ": its sum does not fit a signed 64-bit integer; "
                                          "sum smaller values or split the task");
    }
    write_header(1);
    return {};
}

Result<ResultTable> ResultTable::create(std::unique_ptr<TableMemory> memory, Op op) {
    auto impl = std::make_unique<Impl>(std::move(memory), op);
    if (auto first = impl->allocate(kFirstSlots); !first) {
        return std::move(first).error().with_context("first block of a result table");
    }
    return ResultTable(std::move(impl));
}

std::uint64_t ResultTable::least_memory(std::uint64_t keys, std::uint64_t key_bytes) {
    std::uint64_t slots = kFirstSlots;
    while (room_of(slots) < keys && slots < kMaxSlots) {
        slots *= 2;
    }
    return sizeof(TableHeader) + slots * sizeof(TableEntry) + key_bytes;
}

ResultTable::ResultTable(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ResultTable::ResultTable(ResultTable&&) noexcept = default;
ResultTable& ResultTable::operator=(ResultTable&&) noexcept = default;
ResultTable::~ResultTable() = default;

Result<> ResultTable::add(std::string_view key, Wide value) {
    impl_->settle();
    const std::uint64_t hash = impl_->hash(key);
    if (!impl_->reserve(1, key.size()) && !impl_->contains(hash, key)) {
        return Error(Errc::kLimit, "key " + quote_key(key) + ": no memory left for the result table of " +
                                       std::to_string(size()) + " keys; raise the task's memory limit");
    }
    impl_->add(hash, key, value);
    return {};
}

Result<> ResultTable::expect(std::uint64_t tuples, std::size_t key_bytes) {
    if (impl_->reserve(tuples, key_bytes)) {
        return {};
    }
    return impl_->reserve(tuples - std::min(tuples, impl_->size()),
                          key_bytes - std::min(key_bytes, impl_->key_bytes()));
}

const HashSeed& ResultTable::seed() const {
    return impl_->seed();
}
void ResultTable::settle() {
    impl_->settle();
}
Result<> ResultTable::reserve(std::uint64_t keys, std::size_t key_bytes) {
    return impl_->reserve(keys, key_bytes);
}
void ResultTable::prefetch(std::uint64_t hash) const {
    impl_->prefetch(hash);
}
void ResultTable::prefetch_key(std::uint64_t hash) const {
    impl_->prefetch_key(hash);
}
bool ResultTable::contains(std::uint64_t hash, std::string_view key) const {
    return impl_->contains(hash, key);
}
void ResultTable::add_reserved(std::uint64_t hash, std::string_view key, Wide value) {
    impl_->add(hash, key, value);
}

Result<> ResultTable::merge(const ResultTable& other) {
    return impl_->merge(*other.impl_);
}
void ResultTable::finish_wide() {
    impl_->finish_wide();
}
Result<> ResultTable::finish() {
    return impl_->finish();
}
std::uint64_t ResultTable::size() const {
    return impl_->size();
}
std::vector<std::uint64_t> ResultTable::keys_by_length() const {
    return impl_->keys_by_length();
}
std::uint64_t ResultTable::probes() const {
    return impl_->probes();
}
TableMemory& ResultTable::memory() {
    return impl_->memory();
}

}  // namespace ask
