// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/packer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string>

#include "lib/tuples/key_hash.h"
#include "lib/tuples/slot_codec.h"

namespace ask {

namespace {

// Long keys wait for company, but not with more than this many bytes.
constexpr std::uint32_t kLongKeyBytes = std::uint32_t{1} << 20;
// Of the held tuples, LONG ones may be at most one in so many before they leave.
constexpr std::uint32_t kLongShare = 4;
constexpr std::uint32_t kMaxHold = std::uint32_t{1} << 22;
// Header, LONG header and the smallest piece of a key.
constexpr std::uint32_t kLeastPayload = sizeof(ask_hdr) + sizeof(ask_long_hdr) + ASK_LONG_RECORD_BYTES + 16;

// Header, a bitmap, VAR header and the longest record.
std::uint32_t least_var_payload() {
    return std::uint32_t{sizeof(ask_hdr) + 4 + sizeof(ask_var_hdr)} +
           ask_var_record_bytes(ASK_VAR_GROUPS - 1);
}

}  // namespace

Result<> check(const PackerConfig& config) {
    ASK_PASS(validate(config.geometry));
    const unsigned needed = std::max({config.geometry.payload_bytes(config.geometry.rows), kLeastPayload,
                                      config.whole_keys ? least_var_payload() : 0});
    if (needed > config.payload_limit) {
        return Error(Errc::kUnsupported, "packets of " + std::to_string(needed) +
                                             " bytes of UDP payload do not fit the limit of " +
                                             std::to_string(config.payload_limit) +
                                             "; raise the MTU or take fewer rows");
    }
    if (config.hold > kMaxHold) {
        return Error(Errc::kUsage, "hold " + std::to_string(config.hold) + ", the limit is " +
                                       std::to_string(kMaxHold) + " tuples");
    }
    return {};
}

Packer::Packer(const PackerConfig& config)
    : config_(config),
      room_(std::min(config.payload_limit, ASK_MAX_PAYLOAD) - std::uint32_t{sizeof(ask_hdr)}),
      hold_(std::max(1U, config.hold)),
      slots_(config.geometry, hold_),
      long_(hold_) {
    rows_ = std::min<std::uint32_t>(config.geometry.rows, room_ / (4 + config.geometry.row_bytes()));
    long_room_ = room_ / 8 * 8 - std::uint32_t{sizeof(ask_long_hdr)};
}

inline unsigned Packer::slot_of(Form form, std::uint64_t hash) const {
    const SlotMap* const map = config_.slot_map.get();
    if (form == Form::kShort) {
        return map != nullptr ? map->short_slot[SlotMap::bucket_of(hash)]
                              : short_slot_of(hash, config_.geometry);
    }
    return map != nullptr ? map->medium_slot[SlotMap::bucket_of(hash)]
                          : medium_slot_of(hash, config_.geometry);
}

// False: it fits none. Inlined, where `small` may be known to have no upper half.
[[gnu::always_inline]] inline bool Packer::add_to_slot(const SmallKey& small, const Tuple& tuple) {
    const std::size_t size = tuple.key.size();
    const auto value = static_cast<std::int32_t>(tuple.value);
    const Form form = form_of(small, size, tuple.value, config_.geometry);
    if (form == Form::kLong) {
        return false;
    }
    std::byte* const to = slots_.push(slot_of(form, key_hash(small, size)));
    const char* const key = reinterpret_cast<const char*>(&small);
    if (form == Form::kShort) {
        encode_slot(to, 1, key, size, value);
    } else {
        encode_slot(to, config_.geometry.m, key, size, value);
    }
    return true;
}

// The key may be in memory that somebody else writes to: what of it is looked at is loaded once.
inline void Packer::add_one(const Tuple& tuple) {
    const std::size_t size = tuple.key.size();
    if (size <= sizeof(tuple.head)
            ? add_to_slot({.low = tuple.head, .high = 0}, tuple)
            : size <= SmallKey::kBytes && add_to_slot(SmallKey::of(tuple.key), tuple)) {
        return;
    }
    add_beside(tuple);
}

// What fits no slot.
void Packer::add_beside(const Tuple& tuple) {
    const std::size_t size = tuple.key.size();
    if (config_.whole_keys && size <= ASK_VAR_MAX_KEY) {
        std::array<char, ASK_VAR_MAX_KEY> loaded;
        std::copy_n(tuple.key.begin(), size, loaded.begin());
        const std::string_view key(loaded.data(), size);
        if (form_of(key, tuple.value, config_.geometry, true) == Form::kVar) {
            whole_.push(key, tuple.value);
            return;
        }
    }
    long_bytes_ += ASK_LONG_RECORD_BYTES + size;
    long_.push(tuple.key, tuple.value);
}

std::size_t Packer::add(std::span<const Tuple> tuples) {
    const std::size_t most = std::min<std::size_t>(tuples.size(), hold_ - held());
    std::size_t taken = 0;
    while (taken < most && has_room()) {
        add_one(tuples[taken++]);
    }
    stats_.tuples_in += taken;
    return taken;
}

void Packer::add(std::string_view key, std::int64_t value) {
    const Tuple tuple(key, value);
    add(std::span(&tuple, 1));
}

bool Packer::long_due() const {
    return pieces_ > 0 ||
           (long_fills() && (long_.size() > hold_ / kLongShare || long_.key_bytes() > kLongKeyBytes));
}

std::uint32_t Packer::sendable_data() const {
    std::uint32_t tuples = 0;
    for (unsigned slot = 0; slot < config_.geometry.slots(); ++slot) {
        tuples += std::min(rows_, slots_.queued(slot));
    }
    return tuples;
}

// Whether the next body is LONG: because it must be, or because DATA would be emptier.
bool Packer::long_next(std::uint32_t data_tuples) const {
    if (pieces_ > 0 || data_tuples == 0) {
        return true;
    }
    if (finished_) {
        return false;
    }
    const bool data_sparse = 2 * data_tuples < config_.geometry.slots() * rows_;
    return long_due() || !long_.has_room() || (data_sparse && long_fills());
}

// Whether the next body is VAR: a full one; or, if something must leave, the fuller one.
bool Packer::var_next(std::uint32_t data_tuples) const {
    if (pieces_ > 0 || whole_.records() == 0) {
        return false;
    }
    if (whole_.fill(room_) || slots_.size() + long_.size() == 0) {
        return true;
    }
    const bool must = finished_ || held() >= hold_;
    const std::uint64_t most = std::uint64_t{config_.geometry.slots()} * rows_;
    return must && data_tuples > 0 && whole_.bytes() * most > std::uint64_t{data_tuples} * room_;
}

std::optional<PacketBody> Packer::next(std::span<std::byte> out) {
    if (!has_body()) {
        return std::nullopt;
    }
    const std::uint32_t data_tuples = sendable_data();
    if (var_next(data_tuples)) {
        return next_var(out);
    }
    return long_next(data_tuples) ? next_long(out) : next_data(out);
}

std::optional<PacketBody> Packer::next_data(std::span<std::byte> out) {
    const Geometry& geometry = config_.geometry;
    PacketBody body;
    for (unsigned slot = 0; slot < geometry.slots(); ++slot) {
        const std::uint32_t queued = std::min(rows_, slots_.queued(slot));
        body.rows = std::max(body.rows, static_cast<std::uint8_t>(queued));
    }
    body.bytes = std::size_t{body.rows} * geometry.row_bytes();
    if (out.size() < body.bytes) {
        return std::nullopt;
    }
    std::fill_n(out.begin(), body.bytes, std::byte{0});
    std::uint32_t tuples = 0;
    for (unsigned slot = 0; slot < geometry.slots(); ++slot) {
        const std::size_t offset = std::size_t{slot_first_aa(slot, geometry)} * ASK_SLOT_BYTES;
        const std::uint32_t take = std::min(rows_, slots_.queued(slot));
        slots_.take(slot, take, out.data() + offset, geometry.row_bytes());
        for (std::uint32_t row = 0; row < take; ++row) {
            body.bitmap[row] |= 1U << slot;
        }
        tuples += take;
    }
    stats_.slots_filled += tuples;
    ++stats_.bodies[tuples];
    stats_.slots_offered += std::uint64_t{geometry.slots()} * geometry.rows;
    return body;
}

std::optional<PacketBody> Packer::next_var(std::span<std::byte> out) {
    if (out.size() < room_) {
        return std::nullopt;
    }
    const HeldRecords::Counts counts = whole_.that_fit(room_);
    PacketBody body;
    body.type = ASK_VAR;
    ask_var_hdr header{};
    body.bytes = sizeof(header);
    for (std::uint32_t group = 0; group < ASK_VAR_GROUPS; ++group) {
        header.count[group] = static_cast<std::uint8_t>(counts[group]);
        body.bytes += whole_.pop(group, counts[group], out.data() + body.bytes);
    }
    std::memcpy(out.data(), &header, sizeof(header));
    const std::uint32_t records = ask_var_records(&header);
    body.rows = static_cast<std::uint8_t>(ask_var_rows(records));
    for (std::uint32_t row = 0; row < body.rows; ++row) {
        body.bitmap[row] = ask_var_full_row(records, row);
    }
    stats_.tuples_var += records;
    return body;
}

std::optional<PacketBody> Packer::next_long(std::span<std::byte> out) {
    if (out.size() < sizeof(ask_long_hdr) + long_room_) {
        return std::nullopt;
    }
    if (pieces_ == 0) {
        const HeldTuple& first = long_.front();
        if (ASK_LONG_RECORD_BYTES + first.key_len <= long_room_) {
            return write_records(out);
        }
        const std::uint32_t unit = long_room_ - ASK_LONG_PIECE_BYTES;
        pieces_ = (first.key_len + unit - 1) / unit;
        piece_ = 0;
    }
    return write_piece(out);
}

namespace {

// Ends a LONG body of `used` bytes: its header, and zeros up to a multiple of 8.
PacketBody close_long(std::span<std::byte> out, std::size_t used, std::uint16_t count, std::uint32_t piece,
                      std::uint32_t pieces) {
    store_be(out.data() + offsetof(ask_long_hdr, count), count);
    store_be(out.data() + offsetof(ask_long_hdr, piece), static_cast<std::uint16_t>(piece));
    store_be(out.data() + offsetof(ask_long_hdr, pieces), static_cast<std::uint16_t>(pieces));
    store_be(out.data() + offsetof(ask_long_hdr, reserved), std::uint16_t{0});
    PacketBody body;
    body.type = ASK_LONG;
    body.bytes = (used + 7) / 8 * 8;
    std::fill(out.begin() + static_cast<std::ptrdiff_t>(used),
              out.begin() + static_cast<std::ptrdiff_t>(body.bytes), std::byte{0});
    return body;
}

}  // namespace

PacketBody Packer::write_records(std::span<std::byte> out) {
    std::size_t used = sizeof(ask_long_hdr);
    std::uint16_t count = 0;
    const std::size_t end = sizeof(ask_long_hdr) + long_room_;
    while (long_.size() > 0) {
        const HeldTuple& tuple = long_.front();
        if (used + ASK_LONG_RECORD_BYTES + tuple.key_len > end) {
            break;
        }
        const std::string_view key = long_.key_of(tuple);
        store_be(out.data() + used, static_cast<std::uint64_t>(tuple.value));
        store_be(out.data() + used + 8, tuple.key_len);
        std::memcpy(out.data() + used + ASK_LONG_RECORD_BYTES, key.data(), key.size());
        used += ASK_LONG_RECORD_BYTES + key.size();
        long_bytes_ -= ASK_LONG_RECORD_BYTES + key.size();
        long_.pop();
        ++count;
    }
    stats_.tuples_long += count;
    return close_long(out, used, count, 0, 0);
}

PacketBody Packer::write_piece(std::span<std::byte> out) {
    const HeldTuple& tuple = long_.front();
    const std::uint32_t unit = long_room_ - ASK_LONG_PIECE_BYTES;
    const std::uint32_t offset = piece_ * unit;
    const std::string_view part = long_.key_of(tuple).substr(offset, unit);
    std::byte* const record = out.data() + sizeof(ask_long_hdr);
    store_be(record, static_cast<std::uint64_t>(tuple.value));
    store_be(record + 8, tuple.key_len);
    store_be(record + 10, static_cast<std::uint16_t>(offset));
    store_be(record + 12, static_cast<std::uint16_t>(part.size()));
    std::memcpy(record + ASK_LONG_PIECE_BYTES, part.data(), part.size());
    const std::size_t used = sizeof(ask_long_hdr) + ASK_LONG_PIECE_BYTES + part.size();
    const PacketBody body = close_long(out, used, 1, piece_, pieces_);
    if (++piece_ == pieces_) {
        long_bytes_ -= ASK_LONG_RECORD_BYTES + tuple.key_len;
        long_.pop();
        ++stats_.tuples_long;
        pieces_ = 0;
    }
    return body;
}

}  // namespace ask
