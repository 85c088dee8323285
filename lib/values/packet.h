// SPDX-License-Identifier: Apache-2.0
//
// Packets of value streams as UDP payloads: what is checked of them before anything believes them, and how
// they are written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "lib/engine/packet.h"
#include "lib/values/operation.h"
#include "lib/values/terms.h"

namespace ask::values {

// Its front, host byte order.
struct Front {
    std::uint8_t type = ASK_VALUE;
    std::uint8_t flags = 0;
    std::uint8_t blocks = 0;
    std::uint8_t stream = 0;
    std::uint8_t level = ASK_LEVEL_MEMBER;
    std::uint8_t op = ASK_VALUES_ADD64;
    std::uint64_t instance = 0;
    ChannelId channel{};
    std::uint32_t incarnation = 0;
    std::uint64_t seq = 0;
    std::uint64_t bits = 0;
    Shape shape{};
};

// A packet whose check, lengths, limits and set fit the group. Borrowed: lives as long as the payload.
struct Packet {
    Front front;
    std::span<const std::byte> body;  // blocks of 64 bytes
    std::uint32_t member = 0;         // rank by its channel; not of a RESULT
    bool congested = false;           // ECN CE of its IP header, which the caller sets
};

enum class Refusal : std::uint8_t {
    kNone,
    kMalformed,      // no such packet, or beyond a limit
    kOtherGroup,     // another instance
    kUnknownMember,  // a channel or incarnation that no member has
    kBadSet,         // its set is none that such a packet may have
    kBadPorts,
    kBadCheck,
};

// Where a packet goes.
struct Address {
    std::uint32_t host = 0;  // its number
    std::uint32_t from = 0;  // a number: a RESULT is from the collector's, whoever sends it
    Ports ports;
    // For the collector's own member: handed over without the network.
    bool own = false;
    // By its switch to all other members; `host` is the collector's own address.
    bool to_all = false;
};

struct Outgoing {
    std::size_t bytes = 0;  // of UDP payload
    Address to;
};

// Opens and writes packets of one group.
class Wire {
 public:
    explicit Wire(const GroupTerms& terms);

    // nullopt: refused, and `why` says for what.
    [[nodiscard]] std::optional<Packet> open(std::span<const std::byte> payload, Ports ports,
                                             Refusal& why) const;
    // Writes the front before a body that stands in `out` already (front.blocks x 64 bytes behind
    // ASK_VALUES_FRONT), fills in what the type and `member` (the sender's or, of HELD and NEED, the
    // addressee's rank) decide, and seals it. `member` of a RESULT is its addressee, or none of the group's:
    // all.
    Outgoing seal(std::span<std::byte> out, Front front, std::uint32_t member) const;

    [[nodiscard]] const GroupTerms& terms() const { return terms_; }

 private:
    [[nodiscard]] std::uint64_t check_of(std::span<const std::byte> payload, Ports ports) const;
    [[nodiscard]] Ports ports_of(const Front& front) const;
    [[nodiscard]] Refusal judge(const Front& front, std::uint32_t count, Packet& packet) const;

    GroupTerms terms_;
    CheckKey key_;
};

}  // namespace ask::values
