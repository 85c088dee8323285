// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/fetch_codec.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "lib/tuples/key_hash.h"
#include "lib/tuples/slot_codec.h"

namespace ask {

namespace {

constexpr int kVarintBytes = 10;

// Returns where it ends.
char* write_varint(char* at, std::uint64_t value) {
    while (value >= 0x80) {
        *at++ = static_cast<char>(static_cast<unsigned char>(value | 0x80));
        value >>= 7;
    }
    *at++ = static_cast<char>(static_cast<unsigned char>(value));
    return at;
}

// Returns where it ends; null if it is cut short or wider than 64 bits.
const char* read_varint(const char* at, const char* end, std::uint64_t& value) {
    value = 0;
    for (int i = 0; i < kVarintBytes && at != end; ++i) {
        const auto byte = static_cast<unsigned char>(*at++);
        if (i == kVarintBytes - 1 && byte > 1) {
            return nullptr;
        }
        value |= std::uint64_t{byte & 0x7fU} << (7 * i);
        if (byte < 0x80) {
            return at;
        }
    }
    return nullptr;
}

// memcpy() is a call; most keys are short, and two copies that overlap cover up to 16 bytes. Returns where it
// ends.
char* copy_key(char* to, std::string_view key) {
    const auto ends = [&]<typename Word>(Word) {
        std::memcpy(to, key.data(), sizeof(Word));
        std::memcpy(to + key.size() - sizeof(Word), key.data() + key.size() - sizeof(Word), sizeof(Word));
        return to + key.size();
    };
    if (key.size() > 16) {
        return std::copy(key.begin(), key.end(), to);
    }
    if (key.size() >= 8) {
        return ends(std::uint64_t{});
    }
    if (key.size() >= 4) {
        return ends(std::uint32_t{});
    }
    for (const char byte : key) {
        *to++ = byte;
    }
    return to;
}

std::uint64_t zigzag(std::int64_t value) {
    return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}

std::int64_t unzigzag(std::uint64_t value) {
    return static_cast<std::int64_t>((value >> 1) ^ (~(value & 1) + 1));
}

using SlotWords = CopyWalker::SlotWords;

bool same_key(const SlotWords& a, const SlotWords& b, unsigned aas) {
    for (unsigned word = 0; word < aas; ++word) {
        const std::size_t at = std::size_t{word} * ASK_SLOT_BYTES;
        if (std::memcmp(a.bytes.data() + at, b.bytes.data() + at, ASK_KPART_BYTES) != 0) {
            return false;
        }
    }
    return true;
}

// Adds a set's words to those collected so far: equal keys become one.
void combine(std::vector<SlotWords>& found, const SlotWords& next, unsigned aas, Op op) {
    const auto same = std::find_if(found.begin(), found.end(),
                                   [&](const SlotWords& old) { return same_key(old, next, aas); });
    if (same == found.end()) {
        found.push_back(next);
    } else {
        same->value = static_cast<std::int64_t>(apply(op, same->value, next.value));
    }
}

}  // namespace

void append_entry(std::string& out, std::string_view key, std::int64_t value) {
    EntryWriter(out).add(key, value);
}

void EntryWriter::add(std::string_view key, std::int64_t value) {
    // Of an entry beside its key.
    constexpr std::size_t kNumbers = std::size_t{2} * kVarintBytes;
    if (key.size() + kNumbers > bytes_.size() - used_) {
        flush();
    }
    char* at = write_varint(bytes_.data() + used_, key.size());
    if (key.size() + kNumbers > bytes_.size()) {
        out_.append(bytes_.data(), at);
        out_.append(key);
        at = bytes_.data();
    } else {
        at = copy_key(at, key);
    }
    at = write_varint(at, zigzag(value));
    used_ = static_cast<std::size_t>(at - bytes_.data());
}

bool EntryReader::take(Entry& entry) {
    const char* const end = rest_.data() + rest_.size();
    std::uint64_t number = 0;
    const char* at = read_varint(rest_.data(), end, number);
    if (at == nullptr || number > ASK_MAX_KEY || number > static_cast<std::size_t>(end - at)) {
        return false;
    }
    entry.key = {at, static_cast<std::size_t>(number)};
    at = read_varint(at + number, end, number);
    if (at == nullptr) {
        return false;
    }
    entry.value = unzigzag(number);
    rest_ = {at, static_cast<std::size_t>(end - at)};
    return true;
}

Result<EntryReader::Entry> EntryReader::next() {
    Entry entry;
    return take(entry) ? Result<Entry>(entry) : Result<Entry>(explain());
}

// Why the entry at the front cannot be taken.
Error EntryReader::explain() const {
    const char* const end = rest_.data() + rest_.size();
    std::uint64_t size = 0;
    const char* const at = read_varint(rest_.data(), end, size);
    if (at == nullptr) {
        return {Errc::kInput, "fetched entry: its key length is cut short or malformed"};
    }
    if (size > ASK_MAX_KEY) {
        return {Errc::kInput, "fetched entry: key of " + std::to_string(size) + " bytes, the limit is " +
                                  std::to_string(ASK_MAX_KEY)};
    }
    if (size > static_cast<std::size_t>(end - at)) {
        return {Errc::kInput, "fetched entry: key of " + std::to_string(size) + " bytes, only " +
                                  std::to_string(end - at) + " are left"};
    }
    return {Errc::kInput, "fetched entry: its value is cut short or malformed"};
}

Result<std::uint64_t> count_entries(std::string_view entries) {
    std::uint64_t count = 0;
    EntryReader::Entry entry;
    for (EntryReader reader(entries); !reader.done(); ++count) {
        if (!reader.take(entry)) {
            return reader.explain();
        }
    }
    return count;
}

namespace {

// Entries that are taken into a table together, so that the cache misses of one hide behind those of others.
class EntryBatch {
 public:
    explicit EntryBatch(ResultTable& table) : table_(table) {}

    // Up to so many of the reader's.
    Result<> read(EntryReader& reader) {
        // Hashes hold from here to the batch's end.
        table_.settle();
        size_ = 0;
        key_bytes_ = 0;
        while (size_ < entries_.size() && !reader.done()) {
            EntryReader::Entry& entry = entries_[size_];
            if (!reader.take(entry)) {
                return reader.explain();
            }
            hashes_[size_] = keyed_hash(table_.seed(), entry.key);
            key_bytes_ += entry.key.size();
            ++size_;
        }
        return {};
    }
    // All that was read; kLimit: some of it is in the table.
    Result<std::uint64_t> add(const std::function<Result<>()>& make_room) {
        // Near its limit: one by one, so that only keys that are new need room.
        const bool together = table_.reserve(size_, key_bytes_).ok();
        for (std::size_t i = 0; i < size_; ++i) {
            table_.prefetch(hashes_[i]);
        }
        for (std::size_t i = 0; i < size_; ++i) {
            table_.prefetch_key(hashes_[i]);
        }
        for (std::size_t i = 0; i < size_; ++i) {
            if (together) {
                table_.add_reserved(hashes_[i], entries_[i].key, entries_[i].value);
            } else {
                ASK_PASS(add_one(entries_[i], make_room));
            }
        }
        return size_;
    }

 private:
    Result<> add_one(const EntryReader::Entry& entry, const std::function<Result<>()>& make_room) {
        auto added = table_.add(entry.key, entry.value);
        if (added || !make_room || added.error().code() != Errc::kLimit) {
            return added;
        }
        ASK_PASS(make_room());
        return table_.add(entry.key, entry.value);
    }

    ResultTable& table_;
    std::array<EntryReader::Entry, 32> entries_;
    std::array<std::uint64_t, 32> hashes_{};
    std::size_t size_ = 0;
    std::size_t key_bytes_ = 0;
};

}  // namespace

Result<std::uint64_t> add_entries(ResultTable& table, std::string_view entries,
                                  const std::function<Result<>()>& make_room) {
    EntryReader reader(entries);
    EntryBatch batch(table);
    std::uint64_t count = 0;
    while (!reader.done()) {
        ASK_PASS(batch.read(reader));
        const auto added = batch.add(make_room);
        ASK_PASS(added);
        count += *added;
    }
    return count;
}

CopyWalker::CopyWalker(std::span<const ask_aggregator> region, const CopyLayout& layout, std::uint64_t skip)
    : region_(region), layout_(layout), skip_(skip) {}

Result<> CopyWalker::check_layout() const {
    const Geometry& geometry = layout_.geometry;
    if (geometry.slots() == 0 || geometry.slots() > ASK_MAX_SLOTS || geometry.m > ASK_MAX_M ||
        layout_.copy >= layout_.copies || layout_.aggregators > ASK_MAX_AGGREGATORS) {
        return Error(Errc::kInternal, "region of geometry " + to_string(geometry) + ": no valid layout");
    }
    const Wide needed = Wide{layout_.sets} * layout_.copies * geometry.aas() * layout_.aggregators;
    if (needed > Wide{region_.size()}) {
        return Error(Errc::kInternal,
                     "region has " + std::to_string(region_.size()) +
                         " aggregators, fewer than its layout of " + std::to_string(layout_.sets) +
                         " sets x " + std::to_string(layout_.copies) + " copies x " +
                         std::to_string(geometry.aas()) + " arrays x " + std::to_string(layout_.aggregators));
    }
    return {};
}

void CopyWalker::collect(std::uint32_t aa, unsigned aas) {
    found_.clear();
    const Geometry& geometry = layout_.geometry;
    for (std::uint32_t set = 0; set < layout_.sets; ++set) {
        const std::size_t first =
            ((std::size_t{set} * layout_.copies + layout_.copy) * geometry.aas() + aa) * layout_.aggregators +
            index_;
        const std::size_t last = first + std::size_t{aas - 1} * layout_.aggregators;
        if (load_raw<std::uint32_t>(&region_[last].kpart) == 0) {
            continue;
        }
        SlotWords words;
        for (unsigned word = 0; word < aas; ++word) {
            std::memcpy(words.bytes.data() + std::size_t{word} * ASK_SLOT_BYTES,
                        &region_[first + std::size_t{word} * layout_.aggregators], ASK_SLOT_BYTES);
        }
        words.value = region_[last].vpart;
        combine(found_, words, aas, layout_.op);
    }
}

Result<bool> CopyWalker::fill(std::string& out, std::size_t soft_limit) {
    if (auto fits = check_layout(); !fits) {
        return std::move(fits).error();
    }
    const std::uint32_t slots = layout_.geometry.slots();
    for (; slot_ < slots; ++slot_, index_ = 0) {
        const std::uint32_t aa = slot_first_aa(slot_, layout_.geometry);
        const unsigned aas = slot_aas(slot_, layout_.geometry);
        for (; index_ < layout_.aggregators; ++index_) {
            collect(aa, aas);
            for (const SlotWords& words : found_) {
                char key[kMaxSlotKey];
                const std::size_t size = decode_kparts(words.bytes.data(), aas, key);
                if (size == 0) {
                    return Error(Errc::kInternal, "aggregator array " + std::to_string(aa) + ", index " +
                                                      std::to_string(index_) +
                                                      ": holds words that no sender writes");
                }
                if (++count_ > skip_) {
                    append_entry(out, {key, size}, words.value);
                }
            }
            if (!found_.empty() && out.size() >= soft_limit) {
                ++index_;
                return true;
            }
        }
    }
    return false;
}

}  // namespace ask
