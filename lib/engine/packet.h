// SPDX-License-Identifier: Apache-2.0
//
// Reading, sealing and verifying ASK packets as UDP payloads (lib/abi/wire.h). Both ends of
// a check live here, so that switch (bpf/), sender and receiver cannot disagree by accident:
// tests/bpf compares this file with the BPF program byte by byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "lib/abi/check.h"
#include "lib/engine/types.h"

namespace ask {

// UDP ports of a packet, host byte order.
struct Ports {
    std::uint16_t source = 0;
    std::uint16_t dest = 0;
};

// The header in host byte order. `check` is left out: see verify() and seal().
struct Header {
    std::uint8_t type = 0;
    std::uint8_t flags = 0;
    std::uint8_t rows = 0;  // bitmaps that follow
    Format format{};        // the service's own
    std::uint64_t instance = 0;
    ChannelId channel;
    std::uint32_t incarnation = 0;
    Mark mark;
    std::uint64_t seq = 0;
};

// Why a payload is not a well-formed ASK packet.
enum class ParseError : std::uint8_t { kTooShort, kVersion, kType, kFormat, kLength };

// A well-formed packet within a UDP payload: lengths, type, version and the limits of
// lib/abi/format.h are checked, nothing else (not the check). A DATA packet has header.rows bitmaps but
// carries only the rows up to the last one whose bitmap is not 0 (lib/abi/wire.h, "present"): the switch cuts
// trailing rows that became empty. At least one row is present. A VAR has as many bitmaps and bytes as its
// counts say, and a bit at least. Borrowed: lives as long as the payload.
struct PacketView {
    Header header;
    std::span<const std::byte> payload;  // whole UDP payload
    std::span<const std::byte>
        body;  // rows (DATA), ask_long_hdr or ask_var_hdr and records, ask_fin (FIN), else empty
    std::array<std::uint32_t, ASK_MAX_ROWS> bitmap{};  // host byte order
};

// Parses a UDP payload. `error`, if given, says why not.
std::optional<PacketView> parse_packet(std::span<const std::byte> payload, ParseError* error = nullptr);

// Writes header (and bitmaps of a DATA or VAR packet) into `out`; the check is left 0.
// Returns the bytes written: 48 + 4 x rows. `out` must be long enough.
std::size_t write_header(std::span<std::byte> out, const Header& header,
                         std::span<const std::uint32_t> bitmaps);

// What is checked behind ports and head, whatever the service: extension words, and a body of 8-byte words in
// lines. Within the limits of lib/abi/check.h.
struct CheckedParts {
    std::span<const std::byte> extension{};
    std::span<const std::byte> body{};
    std::size_t line_words = 1;
};

// A flow's expanded check key. Expand once per flow; 0.8 KB.
class CheckKey {
 public:
    explicit CheckKey(const CheckSecret& secret);
    // Computes the check over ports, header, bitmaps and body, and writes it into the packet,
    // which must be a well-formed one.
    void seal(std::span<std::byte> payload, Ports ports) const;
    // Whether the packet carries the check that belongs to it. Any bytes will do.
    [[nodiscard]] bool verify(std::span<const std::byte> payload, Ports ports) const;
    // The check of a packet whose service knows its parts. `head` is the whole header.
    [[nodiscard]] std::uint64_t check_of(std::span<const std::byte> head, const CheckedParts& parts,
                                         Ports ports) const;
    [[nodiscard]] const ask_check_key& raw() const { return key_; }

 private:
    // nullopt if the payload's length does not fit its own fields.
    [[nodiscard]] std::optional<std::uint64_t> compute(std::span<const std::byte> payload, Ports ports) const;
    ask_check_key key_;
};

// Builds the ACK of `header` (48 bytes) into `out`, sealed for the way back (ports swapped).
// `mark` says who acknowledges: the switch, or nobody (the receiver).
std::size_t write_ack(std::span<std::byte> out, const Header& header, Ports ports, Mark mark, bool ecn_echo,
                      const CheckKey& key);

}  // namespace ask
