// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/table_sink.h"

#include <bit>

#include "lib/base/bytes.h"
#include "lib/tuples/keyed_hash.h"

namespace ask {

namespace {

constexpr Intake kBad{.result = Intake::Result::kBad};
constexpr Intake kFull{.result = Intake::Result::kFull};

Intake taken(std::size_t tuples) {
    return {.items = static_cast<std::uint32_t>(tuples)};
}

}  // namespace

Intake TableSink::take(const FlowTerms& flow, const PacketView& packet) {
    // Hashes of keys hold from here to the packet's end.
    table_->settle();
    switch (packet.header.type) {
        case ASK_DATA:
            return take_data(packet);
        case ASK_VAR:
            return take_var(packet);
        case ASK_LONG:
            return is_piece(packet.body) ? take_piece(flow, packet) : take_records(packet);
        default: {
            const auto pieces = pieces_.find(flow.channel);
            return pieces == pieces_.end() || pieces->second.empty() ? taken(0) : kBad;
        }
    }
}

template <typename Tuple>
bool TableSink::make_room(std::span<const Tuple> tuples, std::size_t key_bytes) {
    if (table_->reserve(tuples.size(), key_bytes)) {
        return true;
    }
    // Near its limit: only for those that are new.
    std::uint64_t keys = 0;
    std::size_t bytes = 0;
    for (const Tuple& tuple : tuples) {
        const std::string_view key = tuple.text();
        if (!table_->contains(keyed_hash(table_->seed(), key), key)) {
            ++keys;
            bytes += key.size();
        }
    }
    return table_->reserve(keys, bytes).ok();
}

template <typename Tuple>
Intake TableSink::add_all(std::span<const Tuple> tuples) {
    std::size_t key_bytes = 0;
    for (const Tuple& tuple : tuples) {
        table_->prefetch(tuple.hash);
        key_bytes += tuple.text().size();
    }
    for (const Tuple& tuple : tuples) {
        table_->prefetch_key(tuple.hash);
    }
    if (!make_room(tuples, key_bytes)) {
        return kFull;
    }
    for (const Tuple& tuple : tuples) {
        table_->add_reserved(tuple.hash, tuple.text(), tuple.value);
    }
    return taken(tuples.size());
}

bool TableSink::read_row(const std::byte* row, std::uint32_t bitmap) {
    const HashSeed& seed = table_->seed();
    for (; bitmap != 0; bitmap &= bitmap - 1) {
        const auto slot = static_cast<std::uint32_t>(std::countr_zero(bitmap));
        const unsigned aas = slot_aas(slot, geometry_);
        const std::byte* const words = row + std::size_t{slot_first_aa(slot, geometry_)} * ASK_SLOT_BYTES;
        DataTuple& tuple = tuples_[tuple_count_];
        const std::size_t size = decode_kparts(words, aas, tuple.key.data());
        if (size == 0) {
            return false;
        }
        tuple.key_len = static_cast<std::uint8_t>(size);
        tuple.value =
            static_cast<std::int32_t>(load_be<std::uint32_t>(words + std::size_t{aas} * ASK_SLOT_BYTES - 4));
        tuple.hash = keyed_hash(seed, tuple.text());
        ++tuple_count_;
    }
    return true;
}

Intake TableSink::take_data(const PacketView& packet) {
    tuple_count_ = 0;
    for (unsigned row = 0; row < packet.header.rows; ++row) {
        // Rows that the switch emptied at the end are not there, and their bitmaps are 0.
        if (packet.bitmap[row] == 0) {
            continue;
        }
        const std::byte* const words = packet.body.data() + std::size_t{row} * geometry_.row_bytes();
        if (!read_row(words, packet.bitmap[row])) {
            return kBad;
        }
    }
    return add_all(std::span<const DataTuple>(tuples_).first(tuple_count_));
}

bool TableSink::read_whole(const std::byte* record, std::uint32_t group) {
    const auto value = static_cast<std::int64_t>(load_be<std::uint64_t>(record));
    const auto key = record_key(record, group);
    if (!key || !fits_entry(value)) {
        return false;
    }
    whole_[whole_count_++] = {.hash = keyed_hash(table_->seed(), *key), .value = value, .key = *key};
    return true;
}

// The packet's length and bitmaps are as its counts say: parse_packet().
Intake TableSink::take_var(const PacketView& packet) {
    ask_var_hdr header;
    std::memcpy(&header, packet.body.data(), sizeof(header));
    if (load_raw<std::uint32_t>(header.reserved) != 0) {
        return kBad;
    }
    whole_count_ = 0;
    const std::byte* record = packet.body.data() + sizeof(header);
    std::uint32_t number = 0;
    for (std::uint32_t group = 0; group < ASK_VAR_GROUPS; ++group) {
        for (std::uint32_t i = 0; i < header.count[group]; ++i, ++number) {
            const bool left = (packet.bitmap[number / 32] >> (number % 32) & 1) != 0;
            if (left && !read_whole(record, group)) {
                return kBad;
            }
            record += ask_var_record_bytes(group);
        }
    }
    return add_all(std::span<const WholeTuple>(whole_).first(whole_count_));
}

Intake TableSink::take_records(const PacketView& packet) {
    if (!read_records(packet.body, records_)) {
        return kBad;
    }
    if (!make_room(std::span<const LongTuple>(records_), packet.body.size())) {
        return kFull;
    }
    for (const LongTuple& tuple : records_) {
        table_->add_reserved(keyed_hash(table_->seed(), tuple.key), tuple.key, tuple.value);
    }
    return taken(records_.size());
}

Intake TableSink::take_piece(const FlowTerms& flow, const PacketView& packet) {
    const auto piece = read_piece(packet.body);
    if (!piece || packet.header.seq - flow.first_seq < piece->piece) {
        return kBad;
    }
    const std::uint64_t first_seq = packet.header.seq - piece->piece;
    Reassembly& pieces = pieces_[flow.channel];
    Reassembly::Key* const key = pieces.stage(first_seq, *piece);
    if (key == nullptr) {
        return kBad;
    }
    if (key->missing > 1) {
        pieces.commit(first_seq);
        return taken(0);
    }
    // The last piece to come is taken only together with its key.
    if (!table_->add(key->bytes, key->value)) {
        return kFull;
    }
    pieces.drop(first_seq);
    return taken(1);
}

}  // namespace ask
