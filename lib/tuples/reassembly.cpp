// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/reassembly.h"

#include <algorithm>

#include "lib/base/bytes.h"

namespace ask {

namespace {

// Keys with a piece missing all reach into the sender's window of W packets: what lies in it,
// and the rest of the keys that stick out of it at both ends.
constexpr std::size_t kMaxBytes = std::size_t{ASK_WINDOW} * ASK_MAX_PAYLOAD + std::size_t{2} * ASK_MAX_KEY;

std::string_view text_at(std::span<const std::byte> body, std::size_t offset, std::size_t size) {
    return {reinterpret_cast<const char*>(body.data()) + offset, size};
}

// What follows the last record: nothing but zeros up to the next multiple of 8.
bool ends_at(std::span<const std::byte> body, std::size_t used) {
    const auto padding = body.subspan(used);
    return padding.size() < 8 &&
           std::all_of(padding.begin(), padding.end(), [](std::byte b) { return b == std::byte{0}; });
}

std::uint16_t field(std::span<const std::byte> body, std::size_t offset) {
    return load_be<std::uint16_t>(body.data() + offset);
}

// Bytes of all pieces but the last, as this piece tells; 0 if its numbers do not fit.
std::uint32_t unit_of(const LongPiece& piece) {
    const auto size = static_cast<std::uint32_t>(piece.bytes.size());
    if (piece.pieces < 2 || piece.piece >= piece.pieces || size == 0) {
        return 0;
    }
    const bool last = piece.piece + 1 == piece.pieces;
    const std::uint32_t unit = last ? piece.offset / piece.piece : size;
    const std::uint32_t end = piece.offset + size;
    if (unit == 0 || piece.offset != piece.piece * unit || size > unit ||
        (last ? end != piece.key_len : end >= piece.key_len) ||
        (piece.key_len + unit - 1) / unit != piece.pieces) {
        return 0;
    }
    return unit;
}

}  // namespace

bool is_piece(std::span<const std::byte> body) {
    return field(body, offsetof(ask_long_hdr, pieces)) > 0;
}

bool read_records(std::span<const std::byte> body, std::vector<LongTuple>& out) {
    out.clear();
    const std::uint16_t count = field(body, offsetof(ask_long_hdr, count));
    if (count == 0 || field(body, offsetof(ask_long_hdr, piece)) != 0 ||
        field(body, offsetof(ask_long_hdr, reserved)) != 0) {
        return false;
    }
    std::size_t used = sizeof(ask_long_hdr);
    for (std::uint16_t i = 0; i < count; ++i) {
        if (body.size() - used < ASK_LONG_RECORD_BYTES) {
            return false;
        }
        const auto value = static_cast<std::int64_t>(load_be<std::uint64_t>(body.data() + used));
        const std::size_t size = field(body, used + 8);
        used += ASK_LONG_RECORD_BYTES;
        if (body.size() - used < size) {
            return false;
        }
        out.push_back({.key = text_at(body, used, size), .value = value});
        used += size;
    }
    return ends_at(body, used);
}

std::optional<LongPiece> read_piece(std::span<const std::byte> body) {
    constexpr std::size_t kStart = sizeof(ask_long_hdr) + ASK_LONG_PIECE_BYTES;
    if (body.size() < kStart || field(body, offsetof(ask_long_hdr, count)) != 1 ||
        field(body, offsetof(ask_long_hdr, reserved)) != 0) {
        return std::nullopt;
    }
    LongPiece piece;
    piece.piece = field(body, offsetof(ask_long_hdr, piece));
    piece.pieces = field(body, offsetof(ask_long_hdr, pieces));
    piece.value = static_cast<std::int64_t>(load_be<std::uint64_t>(body.data() + sizeof(ask_long_hdr)));
    piece.key_len = field(body, sizeof(ask_long_hdr) + 8);
    piece.offset = field(body, sizeof(ask_long_hdr) + 10);
    const std::size_t size = field(body, sizeof(ask_long_hdr) + 12);
    if (body.size() - kStart < size) {
        return std::nullopt;
    }
    piece.bytes = text_at(body, kStart, size);
    if (unit_of(piece) == 0 || !ends_at(body, kStart + size)) {
        return std::nullopt;
    }
    return piece;
}

Reassembly::Key* Reassembly::stage(std::uint64_t first_seq, const LongPiece& piece) {
    const std::uint32_t unit = unit_of(piece);
    auto found = keys_.find(first_seq);
    if (found == keys_.end()) {
        if (unit == 0 || bytes_ + piece.key_len > kMaxBytes) {
            return nullptr;
        }
        bytes_ += piece.key_len;
        found = keys_
                    .emplace(first_seq, Key{.bytes = std::string(piece.key_len, '\0'),
                                            .value = piece.value,
                                            .unit = unit,
                                            .pieces = piece.pieces,
                                            .missing = piece.pieces})
                    .first;
    }
    Key& key = found->second;
    if (key.unit != unit || key.value != piece.value || key.pieces != piece.pieces ||
        key.bytes.size() != piece.key_len) {
        return nullptr;
    }
    std::copy(piece.bytes.begin(), piece.bytes.end(), key.bytes.begin() + piece.offset);
    return &key;
}

void Reassembly::commit(std::uint64_t first_seq) {
    --keys_.find(first_seq)->second.missing;
}

void Reassembly::drop(std::uint64_t first_seq) {
    const auto found = keys_.find(first_seq);
    bytes_ -= found->second.bytes.size();
    keys_.erase(found);
}

}  // namespace ask
