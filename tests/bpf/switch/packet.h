// SPDX-License-Identifier: Apache-2.0
//
// Frames for the tests of the switch program, built field by field and byte by byte. It shares nothing with
// the code that it tests but the numbers of lib/abi/consts.h: offsets, key encoding and the keyed check are
// written a second time here, slowly, from docs and headers.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/abi/consts.h"

namespace ask::test {

using Bytes = std::vector<std::uint8_t>;
using Mac = std::array<std::uint8_t, 6>;
using Secret = std::array<std::uint64_t, 2>;

// SipHash-2-4 of any message (Aumasson and Bernstein, 2012).
std::uint64_t siphash24(const Secret& key, std::span<const std::uint8_t> message);

// The keyed check of lib/abi/check.h, by its definition. `payload` is header, bitmaps and words.
std::uint64_t slow_check(const Secret& secret, std::uint16_t source_port, std::uint16_t dest_port,
                         std::span<const std::uint8_t> payload, unsigned bitmaps, unsigned row_words);

// A key as kParts: `words` of 4 bytes.
Bytes encode_key(std::string_view key, unsigned words);

// A tuple of a VAR packet.
struct Record {
    std::string key;
    std::int64_t value = 0;
};

// Words of a key as VAR and the back level spell it, by its length alone.
Bytes encode_whole_key(std::string_view key);

// One frame. Fields are in host order and as a sender would set them, unless a test changes them; optional
// ones are computed when the frame is built.
struct Packet {
    Mac dest_mac{2, 0, 0, 0, 0, 1};
    Mac source_mac{2, 0, 0, 0, 1, 2};
    std::uint16_t ether_type = 0x0800;

    std::uint8_t version_ihl = 0x45;
    std::uint8_t tos = 0;
    std::optional<std::uint16_t> total_length;
    std::uint16_t id = 0x1234;
    std::uint16_t fragment = 0x4000;
    std::uint8_t ttl = 64;
    std::uint8_t protocol = 17;
    std::optional<std::uint16_t> ip_checksum;
    std::uint32_t source = 0;
    std::uint32_t dest = 0;

    std::uint16_t source_port = 0;
    std::uint16_t dest_port = ASK_UDP_PORT;
    std::optional<std::uint16_t> udp_length;
    std::uint16_t udp_checksum = 0;

    std::uint8_t version = 0xA5;
    std::uint8_t type = 1;
    std::uint8_t flags = 0;
    std::optional<std::uint8_t> rows_field;  // else the number of bitmaps
    std::uint8_t short_slots = 16;
    std::uint8_t groups = 8;
    std::uint8_t m = 2;
    std::uint8_t op = 1;
    std::uint64_t task = 0;
    std::uint32_t host = 0;
    std::uint16_t port = 0;
    std::uint16_t mark_switch = 0;
    std::uint32_t incarnation = 0;
    std::uint32_t mark_incarnation = 0;
    std::uint64_t seq_field = 1;
    std::optional<std::uint64_t> check;  // else computed
    std::vector<std::uint32_t> bitmaps;
    std::vector<Bytes> rows;
    Bytes body;         // of a VAR or LONG packet, or of a FIN that says more or less than how much there was
    bool bare = false;  // without it
    Bytes trailer;      // bytes of the frame behind the IP packet

    Secret secret{};

    [[nodiscard]] unsigned aas() const { return short_slots + unsigned{groups} * m; }

    Packet& seq(std::uint64_t value);
    // Makes sure that there are `count` rows, empty ones at first.
    Packet& row_count(unsigned count);
    // Puts a tuple into a slot as a sender does: short slots first, then groups.
    Packet& put(unsigned row, unsigned slot, std::string_view key, std::int32_t value);
    // Puts raw words into a slot, kParts as given; the value goes into the last word, `lead` into the others.
    Packet& put_raw(unsigned row, unsigned slot, const Bytes& kparts, std::int32_t value,
                    std::uint32_t lead = 0);
    // Makes it VAR, with these records in their groups' order.
    Packet& records(const std::vector<Record>& all);
    // Any other change, in the middle of a chain.
    template <typename F>
    Packet& with(F change) {
        change(*this);
        return *this;
    }

    // The frame; `check` covers ports, header and what follows it.
    [[nodiscard]] Bytes frame() const;
    // The UDP payload.
    [[nodiscard]] Bytes payload() const;

    // What the switch must send for this packet. Both leave `*this` as it is.
    // The ACK: turned round, marked, 90 bytes.
    [[nodiscard]] Packet ack(std::uint16_t switch_id, std::uint32_t mark_incarnation_value) const;
    // Routed on: a hop less to live, other MACs.
    [[nodiscard]] Packet routed(const Mac& from, const Mac& to) const;
    // DATA with what is left, which `bitmaps_left` says of the rows as they came: marked, moved up, without
    // trailing empty rows.
    [[nodiscard]] Packet left(std::uint16_t switch_id, std::uint32_t mark_incarnation_value,
                              std::vector<std::uint32_t> bitmaps_left) const;

 private:
    void gather();
};

std::string hex(std::span<const std::uint8_t> bytes);
// A command for scapy that shows the frame field by field.
std::string scapy(std::span<const std::uint8_t> frame);

// A VLAN of the tests.
inline constexpr std::uint16_t kVlan = 100;
// It, with a priority of 5 and the mark of what may be dropped first.
inline constexpr std::uint16_t kControl = 0xb000 | kVlan;

// The frame with a tag behind its addresses.
inline Bytes tagged(Bytes frame, std::uint16_t control = kControl, std::uint16_t type = 0x8100) {
    const Bytes tag{static_cast<std::uint8_t>(type >> 8), static_cast<std::uint8_t>(type),
                    static_cast<std::uint8_t>(control >> 8), static_cast<std::uint8_t>(control)};
    frame.insert(frame.begin() + 12, tag.begin(), tag.end());
    return frame;
}

}  // namespace ask::test
