// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/groups/network.h"

#include <bit>
#include <cstdio>
#include <cstring>
#include <utility>

#include "lib/abi/values.h"

namespace ask::sim::groups {

namespace {

const char* type_name(std::uint8_t type) {
    switch (type) {
        case ASK_VALUE:
            return "VALUE";
        case ASK_RESULT:
            return "RESULT";
        case ASK_NEED:
            return "NEED";
        case ASK_HELD:
            return "HELD";
        case ASK_HAVE:
            return "HAVE";
        default:
            return "?";
    }
}

}  // namespace

std::string text_of(const Frame& frame) {
    const std::size_t at = header_bytes();
    if (frame.size < at + ASK_VALUES_FRONT) {
        return "a short frame";
    }
    ask_hdr hdr;
    ask_values_ext ext;
    std::memcpy(&hdr, &frame.bytes[at], sizeof(hdr));
    std::memcpy(&ext, &frame.bytes[at + sizeof(hdr)], sizeof(ext));
    char text[160];
    std::snprintf(
        text, sizeof(text), "%s %llx:%u/%llu set %llx level %u%s%s%s%s%s of %u:%u", type_name(hdr.type),
        static_cast<unsigned long long>(__builtin_bswap64(hdr.task) & 0xffffU), ask_values_stream(&hdr),
        static_cast<unsigned long long>(__builtin_bswap64(hdr.seq)),
        static_cast<unsigned long long>(__builtin_bswap64(ext.bits)), ask_values_level(&hdr),
        (hdr.flags & ASK_F_RESEND) != 0 ? " RESEND" : "", (hdr.flags & ASK_F_ALONE) != 0 ? " ALONE" : "",
        (hdr.flags & ASK_F_GROUP) != 0 ? " GROUP" : "", (hdr.flags & ASK_F_COLLIDED) != 0 ? " COLLIDED" : "",
        (hdr.flags & ASK_F_ECE) != 0 ? " ECE" : "", host_of(__builtin_bswap32(hdr.host)),
        __builtin_bswap16(hdr.port) - ASK_CHANNEL_PORT_BASE);
    return text;
}

bool Network::forge(Frame& frame, Random& chance) {
    const std::size_t at = header_bytes();
    if (frame.size < at + ASK_VALUES_FRONT) {
        return false;
    }
    ask_hdr hdr;
    ask_values_ext ext;
    std::memcpy(&hdr, &frame.bytes[at], sizeof(hdr));
    std::memcpy(&ext, &frame.bytes[at + sizeof(hdr)], sizeof(ext));
    switch (chance.below(8)) {
        case 0:
            hdr.seq = __builtin_bswap64(__builtin_bswap64(hdr.seq) + chance.between(1, 600));
            break;
        case 1:
            hdr.type = static_cast<std::uint8_t>(chance.between(ASK_VALUE, ASK_HAVE));
            break;
        case 2:
            hdr.incarnation ^= 1U;
            break;
        case 3:
            hdr.task ^= 1U;
            break;
        case 4:
            ext.bits = __builtin_bswap64(chance.below(16));
            ext.count = __builtin_bswap32(static_cast<std::uint32_t>(std::popcount(ext.bits)));
            break;
        case 5:
            hdr.flags ^= static_cast<std::uint8_t>(1U << chance.below(6));
            break;
        case 6:
            hdr.m = static_cast<std::uint8_t>(chance.below(3));
            break;
        default:
            frame.bytes[frame.size - 1] ^= static_cast<unsigned char>(1U + chance.below(255));
            break;
    }
    if (chance.below(2) == 0) {
        hdr.check = chance.next();
    }
    std::memcpy(&frame.bytes[at], &hdr, sizeof(hdr));
    std::memcpy(&frame.bytes[at + sizeof(hdr)], &ext, sizeof(ext));
    return true;
}

}  // namespace ask::sim::groups
