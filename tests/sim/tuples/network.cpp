// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/tuples/network.h"

#include <cstdio>
#include <cstring>
#include <utility>

#include "lib/abi/wire.h"
#include "lib/net/host_book.h"

namespace ask::sim {

namespace {

const char* type_name(std::uint8_t type) {
    constexpr const char* kNames[] = {"?", "DATA", "LONG", "ACK", "FIN", "VAR"};
    return type <= ASK_VAR ? kNames[type] : "?";
}

}  // namespace

std::string frame_text(const Frame& frame) {
    if (frame.size < header_bytes() + sizeof(ask_hdr)) {
        return std::to_string(frame.size) + " bytes";
    }
    ask_hdr header;
    std::memcpy(&header, &frame.bytes[header_bytes()], sizeof(header));
    std::string text =
        std::string(type_name(header.type)) + " " + std::to_string(__builtin_bswap64(header.seq)) + " of " +
        format_host(__builtin_bswap32(header.host)) + ":" + std::to_string(__builtin_bswap16(header.port)) +
        " task " + std::to_string(__builtin_bswap64(header.task) & 0xffffU) + " mark " +
        std::to_string(__builtin_bswap16(header.mark_switch));
    for (unsigned row = 0; row < header.rows && row < ASK_MAX_ROWS; ++row) {
        std::uint32_t bits = 0;
        const std::size_t at = header_bytes() + sizeof(header) + row * sizeof(bits);
        if (at + sizeof(bits) <= frame.size) {
            std::memcpy(&bits, &frame.bytes[at], sizeof(bits));
            char hex[12];
            std::snprintf(hex, sizeof(hex), " %x", __builtin_bswap32(bits));
            text += static_cast<const char*>(hex);
        }
    }
    return text;
}

bool Network::forge(Frame& frame, Random& chance) {
    const std::size_t at = header_bytes();
    if (frame.size < at + sizeof(ask_hdr)) {
        return false;
    }
    ask_hdr header;
    std::memcpy(&header, &frame.bytes[at], sizeof(header));
    switch (chance.below(7)) {
        case 0:
            header.seq = __builtin_bswap64(__builtin_bswap64(header.seq) + chance.between(1, 2 * ASK_WINDOW));
            break;
        case 1:
            header.type = static_cast<std::uint8_t>(chance.between(ASK_DATA, ASK_VAR));
            break;
        case 2:
            header.incarnation ^= 1U;
            break;
        case 3:
            header.task ^= 1U;
            break;
        case 4:
            header.mark_switch = static_cast<std::uint16_t>(chance.next());
            break;
        case 5:
            // An ACK of it, which only the check tells from a true one.
            if (header.type != ASK_ACK) {
                header.type = ASK_ACK;
                header.rows = 0;
                frame.size = at + sizeof(header);
            }
            break;
        default:
            frame.bytes[frame.size - 1] ^= static_cast<unsigned char>(1U + chance.below(255));
            break;
    }
    if (chance.below(2) == 0) {
        header.check = chance.next();
    }
    std::memcpy(&frame.bytes[at], &header, sizeof(header));
    return true;
}

}  // namespace ask::sim
