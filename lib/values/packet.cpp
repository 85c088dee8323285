// SPDX-License-Identifier: Apache-2.0
#include "lib/values/packet.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "lib/base/bytes.h"

namespace ask::values {

namespace {

constexpr std::size_t kFront = ASK_VALUES_FRONT;

Front read_front(std::span<const std::byte> payload, std::uint32_t& count) {
    ask_hdr hdr;
    ask_values_ext ext;
    std::memcpy(&hdr, payload.data(), sizeof(hdr));
    std::memcpy(&ext, payload.data() + sizeof(hdr), sizeof(ext));
    count = swap_bytes(std::uint32_t{ext.count});
    return {
        .type = hdr.type,
        .flags = hdr.flags,
        .blocks = ask_values_blocks(&hdr),
        .stream = ask_values_stream(&hdr),
        .level = ask_values_level(&hdr),
        .op = hdr.op,
        .instance = swap_bytes(std::uint64_t{hdr.task}),
        .channel = {.host = swap_bytes(std::uint32_t{hdr.host}), .port = swap_bytes(std::uint16_t{hdr.port})},
        .incarnation = swap_bytes(std::uint32_t{hdr.incarnation}),
        .seq = swap_bytes(std::uint64_t{hdr.seq}),
        .bits = swap_bytes(std::uint64_t{ext.bits}),
        .shape = Shape(swap_bytes(std::uint32_t{ext.shape}))};
}

void write_front(std::span<std::byte> out, const Front& front) {
    ask_hdr hdr{};
    hdr.version = ASK_WIRE_VERSION;
    hdr.type = front.type;
    hdr.flags = front.flags;
    ask_values_set(&hdr, front.blocks, front.stream, front.level);
    hdr.op = front.op;
    hdr.task = swap_bytes(front.instance);
    hdr.host = swap_bytes(front.channel.host);
    hdr.port = swap_bytes(front.channel.port);
    hdr.incarnation = swap_bytes(front.incarnation);
    hdr.seq = swap_bytes(front.seq);
    const ask_values_ext ext{.bits = swap_bytes(front.bits),
                             .shape = swap_bytes(front.shape.word()),
                             .count = swap_bytes(static_cast<std::uint32_t>(std::popcount(front.bits)))};
    std::memcpy(out.data(), &hdr, sizeof(hdr));
    std::memcpy(out.data() + sizeof(hdr), &ext, sizeof(ext));
}

// Flags that a type may have.
std::uint8_t flags_of(std::uint8_t type) {
    switch (type) {
        case ASK_RESULT:
            return ASK_F_FOLDED | ASK_F_GROUP;
        case ASK_NEED:
        case ASK_HELD:
            return ASK_F_ECE;
        default:
            return ASK_F_OF_VALUE;
    }
}

// Whether it is one at all, and what its fields say is how long it is.
bool is_well_formed(std::span<const std::byte> payload, const Front& front) {
    ask_hdr hdr;
    std::memcpy(&hdr, payload.data(), sizeof(hdr));
    const bool asks = front.type == ASK_NEED || front.type == ASK_HELD;
    return hdr.version == ASK_WIRE_VERSION && ask_type_is_values(front.type) != 0 &&
           hdr.rows == ASK_VALUES_EXTENSION && front.blocks <= ASK_VALUES_MAX_BLOCKS &&
           front.op < ASK_VALUES_OPS && (front.flags & ~flags_of(front.type)) == 0 && hdr.mark_switch == 0 &&
           hdr.mark_incarnation == 0 && front.seq != 0 && (!asks || front.blocks == 0) &&
           payload.size() == kFront + std::size_t{front.blocks} * ASK_VALUES_BLOCK_BYTES;
}

}  // namespace

Wire::Wire(const GroupTerms& terms) : terms_(terms), key_(terms.secret) {}

std::uint64_t Wire::check_of(std::span<const std::byte> payload, Ports ports) const {
    const CheckedParts parts{.extension = payload.subspan(sizeof(ask_hdr), sizeof(ask_values_ext)),
                             .body = payload.subspan(kFront),
                             .line_words = ASK_VALUES_LINE_WORDS};
    return key_.check_of(payload.first(sizeof(ask_hdr)), parts, ports);
}

Ports Wire::ports_of(const Front& front) const {
    switch (front.type) {
        case ASK_RESULT:
            return {.source = static_cast<std::uint16_t>(ASK_RESULT_PORT + front.stream),
                    .dest = ASK_UDP_PORT};
        case ASK_NEED:
        case ASK_HELD:
            return {.source = ASK_UDP_PORT, .dest = front.channel.port};
        default:
            return {.source = front.channel.port, .dest = ASK_UDP_PORT};
    }
}

Refusal Wire::judge(const Front& front, std::uint32_t count, Packet& packet) const {
    if (front.instance != terms_.instance) {
        return Refusal::kOtherGroup;
    }
    if (!terms_.has_stream(front.stream) || front.blocks > terms_.blocks) {
        return Refusal::kMalformed;
    }
    if (front.bits == 0 || (front.bits & ~terms_.all()) != 0 ||
        static_cast<std::uint32_t>(std::popcount(front.bits)) != count) {
        return Refusal::kBadSet;
    }
    if (front.type == ASK_RESULT) {
        packet.member = terms_.size();
        if (front.channel != ChannelId{} || front.incarnation != 0) {
            return Refusal::kUnknownMember;
        }
        return front.bits == terms_.all() && front.level == ASK_LEVEL_RESULT ? Refusal::kNone
                                                                             : Refusal::kBadSet;
    }
    const auto is_its = [&front](const Seat& seat) {
        return seat.channel == front.channel && seat.incarnation == front.incarnation;
    };
    const auto seat = std::ranges::find_if(terms_.seats, is_its);
    if (seat == terms_.seats.end()) {
        return Refusal::kUnknownMember;
    }
    packet.member = static_cast<std::uint32_t>(seat - terms_.seats.begin());
    const std::uint64_t own = std::uint64_t{1} << packet.member;
    switch (front.type) {
        case ASK_VALUE:
            return front.level == ASK_LEVEL_PARTIAL || (front.level == ASK_LEVEL_MEMBER && front.bits == own)
                       ? Refusal::kNone
                       : Refusal::kBadSet;
        case ASK_HAVE:
            return front.level == ASK_LEVEL_MEMBER && front.bits == terms_.all() ? Refusal::kNone
                                                                                 : Refusal::kBadSet;
        default:
            return front.level == ASK_LEVEL_MEMBER ? Refusal::kNone : Refusal::kBadSet;
    }
}

std::optional<Packet> Wire::open(std::span<const std::byte> payload, Ports ports, Refusal& why) const {
    why = Refusal::kMalformed;
    if (payload.size() < kFront) {
        return std::nullopt;
    }
    Packet packet;
    std::uint32_t count = 0;
    packet.front = read_front(payload, count);
    if (!is_well_formed(payload, packet.front)) {
        return std::nullopt;
    }
    why = judge(packet.front, count, packet);
    const Ports expected = ports_of(packet.front);
    if (why == Refusal::kNone && (ports.source != expected.source || ports.dest != expected.dest)) {
        why = Refusal::kBadPorts;
    }
    if (why == Refusal::kNone &&
        check_of(payload, ports) != load_be<std::uint64_t>(payload.data() + offsetof(ask_hdr, check))) {
        why = Refusal::kBadCheck;
    }
    if (why != Refusal::kNone) {
        return std::nullopt;
    }
    packet.body = payload.subspan(kFront);
    return packet;
}

Outgoing Wire::seal(std::span<std::byte> out, Front front, std::uint32_t member) const {
    const bool result = front.type == ASK_RESULT;
    const bool to_all = result && member >= terms_.size();
    front.instance = terms_.instance;
    front.level = result ? ASK_LEVEL_RESULT : front.level;
    if (to_all) {
        front.flags |= ASK_F_GROUP;
    }
    const Seat none{};
    const Seat& seat = result ? none : terms_.seats[member];
    front.channel = seat.channel;
    front.incarnation = seat.incarnation;
    const std::span<std::byte> payload =
        out.first(kFront + std::size_t{front.blocks} * ASK_VALUES_BLOCK_BYTES);
    write_front(payload, front);
    const Ports ports = ports_of(front);
    store_be(payload.data() + offsetof(ask_hdr, check), check_of(payload, ports));

    Outgoing outgoing{.bytes = payload.size(), .to = {.ports = ports}};
    const bool up = front.type == ASK_VALUE || front.type == ASK_HAVE;
    outgoing.to.host = up || to_all ? terms_.collector() : terms_.seats[member].channel.host;
    outgoing.to.from = up ? seat.channel.host : terms_.collector();
    outgoing.to.to_all = to_all;
    outgoing.to.own = !up && !to_all && member == terms_.root;
    return outgoing;
}

}  // namespace ask::values
