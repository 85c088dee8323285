// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/groups/network.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "lib/abi/values.h"

namespace ask::sim::groups {

namespace {

constexpr Nanos kLeastDelay = 5 * kMicrosecond;
// A few windows of round trips, and long after a chunk's end.
constexpr std::uint64_t kStraggleUs = 5'000;
constexpr std::uint64_t kReplayUs = 3'000'000;
constexpr std::size_t kEcnAt = kEthernetBytes + 1;
constexpr std::size_t kChecksumAt = kEthernetBytes + 10;
constexpr std::size_t kHeaderAt = kFrameHeaderBytes;

void fix_ip_checksum(Frame& frame) {
    std::memset(&frame.bytes[kChecksumAt], 0, 2);
    const auto header = frame.view().subspan<kEthernetBytes, kIpv4Bytes>();
    const std::uint16_t sum = ipv4_checksum(header);
    frame.bytes[kChecksumAt] = static_cast<unsigned char>(sum >> 8U);
    frame.bytes[kChecksumAt + 1] = static_cast<unsigned char>(sum);
}

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
    if (frame.size < kHeaderAt + ASK_VALUES_FRONT) {
        return "a short frame";
    }
    ask_hdr hdr;
    ask_values_ext ext;
    std::memcpy(&hdr, &frame.bytes[kHeaderAt], sizeof(hdr));
    std::memcpy(&ext, &frame.bytes[kHeaderAt + sizeof(hdr)], sizeof(ext));
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

Network::Network(World& world) : world_(world), around_(world.plan.hosts, false) {}

FramePtr Network::new_frame() {
    if (spare_.empty()) {
        return std::make_unique<Frame>();
    }
    FramePtr frame = std::move(spare_.back());
    spare_.pop_back();
    return frame;
}

FramePtr Network::copy(const Frame& frame) {
    FramePtr other = new_frame();
    other->size = frame.size;
    std::memcpy(other->bytes.data(), frame.bytes.data(), frame.size);
    return other;
}

Nanos Network::delay() {
    Nanos delay =
        kLeastDelay +
        static_cast<Nanos>(world_.chance.below(1 + std::uint64_t{world_.plan.jitter} * kMicrosecond));
    if (world_.chance.ppm(world_.plan.straggle)) {
        delay += static_cast<Nanos>(world_.chance.below(kStraggleUs * kMicrosecond));
    }
    return delay;
}

void Network::fly(FramePtr frame, const Place& to, Nanos delay) {
    std::uint32_t slot = 0;
    if (free_.empty()) {
        slot = static_cast<std::uint32_t>(flights_.size());
        flights_.emplace_back();
    } else {
        slot = free_.back();
        free_.pop_back();
    }
    flights_[slot] = {std::move(frame), to};
    world_.clock.in(delay, this, slot);
}

void Network::fire(std::uint64_t slot) {
    Flight flight = std::move(flights_[slot]);
    free_.push_back(static_cast<std::uint32_t>(slot));
    if (flight.to.is_switch) {
        to_switch(flight.to.number, std::move(flight.frame), flight.to.port);
    } else {
        to_host(flight.to.number, std::move(flight.frame));
    }
}

// Anywhere in the frame, headers of all layers included; or its end is missing.
void Network::damage(Frame& frame) {
    Random& chance = world_.chance;
    if (chance.below(8) == 0) {
        frame.size = 1 + chance.below(frame.size);
        return;
    }
    for (std::uint64_t n = chance.between(1, 3); n > 0; --n) {
        frame.bytes[chance.below(frame.size)] ^= static_cast<unsigned char>(1U << chance.below(8));
    }
    if (chance.below(2) == 0 && frame.size >= kFrameHeaderBytes) {
        fix_ip_checksum(frame);  // as a switch on the way would
    }
}

// What somebody without the secret makes of a packet that he has seen.
void Network::forge(const Frame& seen, const Place& to) {
    if (seen.size < kHeaderAt + ASK_VALUES_FRONT) {
        return;
    }
    Random& chance = world_.chance;
    FramePtr frame = copy(seen);
    ask_hdr hdr;
    ask_values_ext ext;
    std::memcpy(&hdr, &frame->bytes[kHeaderAt], sizeof(hdr));
    std::memcpy(&ext, &frame->bytes[kHeaderAt + sizeof(hdr)], sizeof(ext));
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
            frame->bytes[frame->size - 1] ^= static_cast<unsigned char>(1U + chance.below(255));
            break;
    }
    if (chance.below(2) == 0) {
        hdr.check = chance.next();
    }
    std::memcpy(&frame->bytes[kHeaderAt], &hdr, sizeof(hdr));
    std::memcpy(&frame->bytes[kHeaderAt + sizeof(hdr)], &ext, sizeof(ext));
    fly(std::move(frame), to, delay());
}

void Network::transmit(FramePtr frame, const Place& to) {
    Random& chance = world_.chance;
    const Plan& plan = world_.plan;
    ++frames_;
    if (chance.ppm(plan.forge)) {
        forge(*frame, to);
    }
    if (chance.ppm(plan.replay)) {
        fly(copy(*frame), to, static_cast<Nanos>(chance.below(kReplayUs * kMicrosecond)));
    }
    if (chance.ppm(plan.duplicate)) {
        fly(copy(*frame), to, delay());
    }
    if (chance.ppm(plan.loss)) {
        recycle(std::move(frame));
        return;
    }
    if (chance.ppm(plan.damage)) {
        damage(*frame);
    } else if (chance.ppm(plan.congestion) && frame->size >= kFrameHeaderBytes) {
        frame->bytes[kEcnAt] |= 3U;
        fix_ip_checksum(*frame);
    }
    fly(std::move(frame), to, delay());
}

void Network::send_from_host(std::uint32_t host, FramePtr frame) {
    if (around_[host] || world_.chance.ppm(world_.plan.bypass)) {
        const auto parsed = parse_frame(frame->view());
        if (parsed && host_of(parsed->addresses.dest) < hosts()) {
            transmit(std::move(frame), {.is_switch = false, .number = host_of(parsed->addresses.dest)});
            return;
        }
    }
    transmit(std::move(frame), {.is_switch = true, .number = switch_of(host), .port = port_to_host(host)});
}

void Network::send_from_switch(std::uint32_t number, std::uint32_t port, FramePtr frame) {
    if (port >= port_of_switch(0)) {
        transmit(std::move(frame),
                 {.is_switch = true, .number = port - port_of_switch(0), .port = port_of_switch(number)});
    } else if (port >= port_to_host(0) && port - port_to_host(0) < hosts() &&
               switch_of(port - port_to_host(0)) == number) {
        transmit(std::move(frame), {.is_switch = false, .number = port - port_to_host(0)});
    } else {
        world_.fail(Promise::kCount, "switch " + std::to_string(number) + " sends to port " +
                                         std::to_string(port) + ", which it has not");
    }
}

}  // namespace ask::sim::groups
