// SPDX-License-Identifier: Apache-2.0
//
// Turns tuples into packet bodies (ASK sections 3.2.1-3.2.3): chooses each tuple's form
// (short, medium, LONG), its slot by key-space partition, and fills packets well: a packet leaves
// only when the window of waiting tuples is full, or at the end. Equal keys are merged before they
// come here (lib/tuples/combiner.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "lib/tuples/slot_map.h"
#include "lib/tuples/types.h"

namespace ask {

// Which form a tuple takes; decided by the sender alone and unambiguous (design section 4).
enum class Form : std::uint8_t { kShort, kMedium, kLong };
// An empty key, a key with a zero byte, a key longer than the geometry's slots, or a value
// outside int32 is LONG. Without short slots, short keys travel as medium ones.
[[nodiscard]] Form form_of(std::string_view key, std::int64_t value, const Geometry& geometry);

// Decodes the key of a slot: `slot` points at its AAs' ask_slots (1 for short, m for medium).
// Returns the key's length; writes at most 4 x aas bytes to `out`. The inverse of the
// encoding; a slot no sender writes (zero first byte, gap in the padding) gives nullopt.
std::optional<std::size_t> decode_slot_key(std::span<const std::byte> slot, std::span<char> out);

struct PackerConfig {
    Geometry geometry;
    // Tuples held back at most: more of them fill packets better.
    std::uint32_t hold = 4096;
    // Longest UDP payload, bytes: MTU - 28, at least one row or one LONG record of 16 bytes.
    std::uint32_t payload_limit = 1472;
    // Which slot a key takes; null: by its hash alone. Must fit the geometry.
    std::shared_ptr<const SlotMap> slot_map{};
};

struct PackerStats {
    std::uint64_t tuples_in = 0;
    std::uint64_t slots_filled = 0;
    std::uint64_t slots_offered = 0;  // slots x geometry.rows of every DATA body
    std::uint64_t tuples_long = 0;
    std::array<std::uint64_t, ASK_MAX_TUPLES + 1> bodies{};  // DATA bodies by how many tuples they carry
};

// One body, ready for a header.
struct PacketBody {
    std::uint8_t type = ASK_DATA;  // or ASK_LONG
    std::uint8_t rows = 0;
    std::array<std::uint32_t, ASK_MAX_ROWS> bitmap{};
    std::size_t bytes = 0;  // written to the caller's buffer
};

// One task on one channel. Bounded: at most `hold` tuples and 4 MiB of key bytes wait. The
// configuration must be valid: a geometry of which at least one row fits, hold at least 1.
class Packer {
 public:
    explicit Packer(const PackerConfig& config);
    ~Packer();
    Packer(Packer&&) noexcept;
    Packer& operator=(Packer&&) noexcept;

    // Whether add() may be called: false while the held tuples fill the window.
    [[nodiscard]] bool has_room() const;
    // Takes a tuple. Needs has_room(); key.size() <= ASK_MAX_KEY.
    void add(std::string_view key, std::int64_t value);
    // No more tuples: what is held goes out as fast as packets are asked for.
    void finish();
    [[nodiscard]] bool has_body() const;  // whether next() would return a body
    [[nodiscard]] bool empty() const;     // finished and nothing held
    // Writes the next body (rows, or LONG header and records) into `out`, which has room for
    // payload_limit - 48 - 4 x rows bytes. A key longer than a packet comes as consecutive
    // bodies, which must get consecutive seqs.
    std::optional<PacketBody> next(std::span<std::byte> out);
    [[nodiscard]] const PackerStats& stats() const;

 private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace ask
