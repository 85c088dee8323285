// SPDX-License-Identifier: Apache-2.0
//
// Turns tuples into packet bodies (ASK sections 3.2.1-3.2.3): chooses each tuple's form
// (short, medium, VAR, LONG), its slot by key-space partition, and fills packets well: a packet leaves
// only when the window of waiting tuples is full, or at the end. Equal keys are merged before they
// come here (lib/tuples/combiner.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "lib/engine/packet_source.h"
#include "lib/tuples/held_long.h"
#include "lib/tuples/held_slots.h"
#include "lib/tuples/key_hash.h"
#include "lib/tuples/slot_map.h"
#include "lib/tuples/tuple.h"
#include "lib/tuples/types.h"
#include "lib/tuples/whole_keys.h"

namespace ask {

// Which form a tuple takes; decided by the sender alone and unambiguous (design section 4).
enum class Form : std::uint8_t { kShort, kMedium, kVar, kLong };
// An empty key and a key with a zero byte are LONG. So is a key longer than the geometry's slots or a value
// outside int32, unless the flow has agreed to whole keys: then it is VAR, up to ASK_VAR_MAX_KEY bytes and
// within 63 bits. Without short slots, short keys travel as medium ones.
[[nodiscard]] Form form_of(std::string_view key, std::int64_t value, const Geometry& geometry,
                           bool whole_keys = false);
// The same without whole keys, of a key of `size` bytes, in `key` if they are no more than it holds.
[[nodiscard]] inline Form form_of(const SmallKey& key, std::size_t size, std::int64_t value,
                                  const Geometry& geometry) {
    if (size == 0 || size > geometry.max_slot_key() || value != static_cast<std::int32_t>(value) ||
        key.has_zero_byte(size)) {
        return Form::kLong;
    }
    return size <= ASK_KPART_BYTES && geometry.short_slots > 0 ? Form::kShort : Form::kMedium;
}

// Decodes the key of a slot: `slot` points at its AAs' ask_slots (1 for short, m for medium).
// Returns the key's length; writes at most 4 x aas bytes to `out`. The inverse of the
// encoding; a slot no sender writes (zero first byte, gap in the padding) gives nullopt.
std::optional<std::size_t> decode_slot_key(std::span<const std::byte> slot, std::span<char> out);

struct PackerConfig {
    Geometry geometry;
    Op op = Op::kSum;  // for the packets to say
    // Tuples held back at most: more of them fill packets better.
    std::uint32_t hold = 4096;
    // Longest UDP payload, bytes: over IPv4 MTU - 28; at least one row, one LONG record of 16 bytes, and one
    // of VAR.
    std::uint32_t payload_limit = 1472;
    // Which slot a key takes; null: by its hash alone. Must fit the geometry.
    std::shared_ptr<const SlotMap> slot_map{};
    bool whole_keys = false;  // the flow has agreed to VAR
};

struct PackerStats {
    std::uint64_t tuples_in = 0;
    std::uint64_t slots_filled = 0;
    std::uint64_t slots_offered = 0;  // slots x geometry.rows of every DATA body
    std::uint64_t tuples_long = 0;
    std::uint64_t tuples_var = 0;
    std::array<std::uint64_t, ASK_MAX_TUPLES + 1> bodies{};  // DATA bodies by how many tuples they carry
};

// kUnsupported: not a row, not a piece of a key, or not a record of VAR fits the payload; kUsage: more held
// than anybody needs; or what is wrong with the geometry.
Result<> check(const PackerConfig& config);

// One task on one channel. Bounded: at most `hold` tuples and 4 MiB of key bytes wait. The
// configuration must be valid: check(), with at least one row that fits.
class Packer final : public PacketSource {
 public:
    explicit Packer(const PackerConfig& config);

    // Whether add() may be called: false while the held tuples fill the window.
    [[nodiscard]] bool has_room() const {
        return held() < hold_ && long_.has_room() && whole_.bytes() < std::size_t{kHeldVarBodies} * room_;
    }
    // How many tuples there is room for, if they all fit slots.
    [[nodiscard]] std::size_t room() const { return hold_ - held(); }
    // Takes a tuple. Needs has_room(); key.size() <= ASK_MAX_KEY.
    void add(std::string_view key, std::int64_t value);
    // Takes as many as there is room for, the first ones; returns how many.
    std::size_t add(std::span<const Tuple> tuples);
    [[nodiscard]] const PackerStats& stats() const { return stats_; }

    [[nodiscard]] BodyTerms terms() const override {
        return {.format = format_of(config_.geometry, config_.op), .rows = config_.geometry.rows};
    }
    void finish() override { finished_ = true; }
    [[nodiscard]] bool has_body() const override {
        return finished_ ? held() > 0 : !has_room() || whole_.fill(room_) || long_due();
    }
    [[nodiscard]] bool empty() const override { return finished_ && held() == 0; }
    [[nodiscard]] std::uint64_t items() const override { return stats_.tuples_in; }
    // A body is rows, or the header and records of VAR or LONG. A key longer than a packet comes as
    // consecutive bodies, which must get consecutive seqs.
    std::optional<PacketBody> next(std::span<std::byte> out) override;
    void answered(std::uint64_t, std::span<const std::byte>) override {}  // answers bring no tuples

 private:
    // Records of VAR wait for one body to be full. While none can leave, so many may.
    static constexpr std::uint32_t kHeldVarBodies = 4;

    [[nodiscard]] std::uint32_t held() const { return slots_.size() + long_.size() + whole_.records(); }
    [[nodiscard]] unsigned slot_of(Form form, std::uint64_t hash) const;
    bool add_to_slot(const SmallKey& small, const Tuple& tuple);
    void add_one(const Tuple& tuple);
    void add_beside(const Tuple& tuple);
    [[nodiscard]] bool long_fills() const { return long_bytes_ >= long_room_; }
    [[nodiscard]] bool long_due() const;
    [[nodiscard]] bool long_next(std::uint32_t data_tuples) const;
    [[nodiscard]] bool var_next(std::uint32_t data_tuples) const;
    [[nodiscard]] std::uint32_t sendable_data() const;
    std::optional<PacketBody> next_data(std::span<std::byte> out);
    std::optional<PacketBody> next_long(std::span<std::byte> out);
    std::optional<PacketBody> next_var(std::span<std::byte> out);
    PacketBody write_records(std::span<std::byte> out);
    PacketBody write_piece(std::span<std::byte> out);

    PackerConfig config_;
    std::uint32_t rows_;       // of a packet: the geometry's, or fewer if the payload is short
    std::uint32_t room_;       // bytes of a packet behind its header
    std::uint32_t long_room_;  // bytes of records in a LONG packet
    std::uint32_t hold_;       // tuples at most
    HeldSlots slots_;
    HeldLong long_;
    HeldRecords whole_;
    std::uint64_t long_bytes_ = 0;  // of records waiting
    std::uint32_t pieces_ = 0;      // of the first LONG key while it is cut; 0: none is
    std::uint32_t piece_ = 0;       // the next one
    bool finished_ = false;
    PackerStats stats_;
};

}  // namespace ask
