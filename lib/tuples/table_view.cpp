// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "lib/base/bytes.h"
#include "lib/tuples/result_table.h"

namespace ask {

namespace {

Error damaged(std::string what) {
    return Error(Errc::kInput, "result table: " + std::move(what) + "; the table is damaged");
}

}  // namespace

Result<TableView> TableView::open(std::span<const std::byte> slots, std::span<const std::byte> keys) {
    if (slots.size() < sizeof(TableHeader)) {
        return damaged("block of " + std::to_string(slots.size()) + " bytes has no header");
    }
    TableHeader header;
    std::memcpy(&header, slots.data(), sizeof(header));
    if (header.magic != TableHeader::kMagic) {
        return damaged("wrong magic number");
    }
    const std::span<const std::byte> entries = slots.subspan(sizeof(TableHeader));
    if (!std::has_single_bit(header.slots) || header.slots > entries.size() / sizeof(TableEntry)) {
        return damaged(std::to_string(header.slots) + " entries do not fit its block");
    }
    if (header.keys > header.slots || header.key_bytes > keys.size()) {
        return damaged("counts more keys than fit");
    }
    if (header.finished != 1 && header.finished != 2) {
        return Error(Errc::kInput, "result table: not finished; wait until its task is done");
    }
    TableView view;
    view.entries_ = entries.first(header.slots * sizeof(TableEntry));
    view.keys_ = keys.first(header.key_bytes);
    view.slot_count_ = header.slots;
    view.used_ = header.keys;
    return view;
}

std::uint64_t TableView::size() const {
    return used_;
}

Result<TableView::Item> TableView::at(std::uint64_t i) const {
    const auto item = wide_at(i);
    if (!item) {
        return item.error();
    }
    const auto value = static_cast<std::int64_t>(item->value);
    if (value != item->value) {
        return damaged("value of entry " + std::to_string(i) + " does not fit 64 bits");
    }
    return Item{.used = item->used, .key = item->key, .value = value};
}

Result<TableView::WideItem> TableView::wide_at(std::uint64_t i) const {
    if (i >= slot_count_) {
        return Error(Errc::kInternal, "result table: entry " + std::to_string(i) + " of " +
                                          std::to_string(slot_count_) + " asked for");
    }
    // One copy, so that what is checked is what is used even if somebody writes meanwhile.
    TableEntry entry;
    std::memcpy(&entry, entries_.data() + i * sizeof(TableEntry), sizeof(entry));
    if ((entry.hash_used & TableEntry::kUsedBit) == 0) {
        return WideItem{};
    }
    if (entry.key_len > ASK_MAX_KEY || entry.key_offset > keys_.size() ||
        entry.key_len > keys_.size() - entry.key_offset) {
        return damaged("key of entry " + std::to_string(i) + " lies outside the key heap");
    }
    const std::span<const std::byte> key = keys_.subspan(entry.key_offset, entry.key_len);
    // Arithmetic on the high half, as two's complement has it.
    const Wide high = static_cast<std::int64_t>(entry.value_hi);
    const Wide value = high * (Wide{1} << 64) + static_cast<Wide>(entry.value_lo);
    return WideItem{.used = true,
                    .key = std::string_view(reinterpret_cast<const char*>(key.data()), key.size()),
                    .value = value};
}

}  // namespace ask
