// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/frame/links.h"

#include <cstring>
#include <utility>

namespace ask::sim {

namespace {

constexpr Nanos kLeastDelay = 5 * kMicrosecond;
// A few windows of round trips; and long after a task, or a chunk's end.
constexpr std::uint64_t kStraggleUs = 5'000;
constexpr std::uint64_t kReplayUs = 3'000'000;
constexpr std::size_t kEcnAt = kEthernetBytes + 1;
constexpr unsigned char kCe = 3;
constexpr unsigned char kCeOfSix = 0x30;
constexpr std::size_t kChecksumAt = kEthernetBytes + 10;

void fix_ip_checksum(Frame& frame) {
    std::memset(&frame.bytes[kChecksumAt], 0, 2);
    const auto header = frame.view().subspan<kEthernetBytes, kIpv4Bytes>();
    const std::uint16_t sum = ipv4_checksum(header);
    frame.bytes[kChecksumAt] = static_cast<unsigned char>(sum >> 8U);
    frame.bytes[kChecksumAt + 1] = static_cast<unsigned char>(sum);
}

}  // namespace

Links::Links(Scene& scene, const LinkPlan& plan)
    : scene_(scene), plan_(plan), down_(plan.hosts, false), around_(plan.hosts, false) {}

FramePtr Links::new_frame() {
    if (spare_.empty()) {
        return std::make_unique<Frame>();
    }
    FramePtr frame = std::move(spare_.back());
    spare_.pop_back();
    frame->damaged = false;
    return frame;
}

FramePtr Links::copy(const Frame& frame) {
    FramePtr other = new_frame();
    other->size = frame.size;
    other->damaged = frame.damaged;
    std::memcpy(other->bytes.data(), frame.bytes.data(), frame.size);
    return other;
}

Nanos Links::delay() {
    Nanos delay =
        kLeastDelay + static_cast<Nanos>(scene_.chance.below(1 + std::uint64_t{plan_.jitter} * kMicrosecond));
    if (scene_.chance.ppm(plan_.straggle)) {
        delay += static_cast<Nanos>(scene_.chance.below(kStraggleUs * kMicrosecond));
    }
    return delay;
}

void Links::fly(FramePtr frame, const Place& to, Nanos delay) {
    std::uint32_t slot = 0;
    if (free_.empty()) {
        slot = static_cast<std::uint32_t>(flights_.size());
        flights_.emplace_back();
    } else {
        slot = free_.back();
        free_.pop_back();
    }
    flights_[slot] = {std::move(frame), to};
    scene_.clock.in(delay, this, slot);
}

void Links::fire(std::uint64_t slot) {
    Flight flight = std::move(flights_[slot]);
    free_.push_back(static_cast<std::uint32_t>(slot));
    if (flight.to.is_switch) {
        to_switch(flight.to.number, std::move(flight.frame), flight.to.port);
    } else if (down_[flight.to.number]) {
        recycle(std::move(flight.frame));
    } else {
        to_host(flight.to.number, std::move(flight.frame));
    }
}

// Anywhere in the frame, headers of all layers included; or its end is missing.
void Links::damage(Frame& frame) {
    Random& chance = scene_.chance;
    frame.damaged = true;
    if (chance.below(8) == 0) {
        frame.size = 1 + chance.below(frame.size);
        return;
    }
    for (std::uint64_t n = chance.between(1, 3); n > 0; --n) {
        frame.bytes[chance.below(frame.size)] ^= static_cast<unsigned char>(1U << chance.below(8));
    }
    if (chance.below(2) == 0 && frame.size >= kFrameHeaderBytes && !is_six()) {
        fix_ip_checksum(frame);  // as a switch on the way would
    }
}

void Links::mark(Frame& frame) {
    if (is_six()) {
        frame.bytes[kEcnAt] |= kCeOfSix;
    } else {
        frame.bytes[kEcnAt] |= kCe;
        fix_ip_checksum(frame);
    }
}

void Links::transmit(FramePtr frame, const Place& to) {
    Random& chance = scene_.chance;
    ++frames_;
    if (is_six() && !frame->damaged && !(is_six_frame(*frame) && is_whole_six(*frame))) {
        wrong("a frame over IPv6 whose checksum is wrong");
    }
    if (chance.ppm(plan_.forge)) {
        FramePtr forged = copy(*frame);
        forged->damaged = true;
        if (forge(*forged, chance)) {
            fly(std::move(forged), to, delay());
        } else {
            recycle(std::move(forged));
        }
    }
    if (chance.ppm(plan_.replay)) {
        fly(copy(*frame), to, static_cast<Nanos>(chance.below(kReplayUs * kMicrosecond)));
    }
    if (chance.ppm(plan_.duplicate)) {
        fly(copy(*frame), to, delay());
    }
    if (chance.ppm(plan_.loss)) {
        recycle(std::move(frame));
        return;
    }
    if (chance.ppm(plan_.damage)) {
        damage(*frame);
    } else if (chance.ppm(plan_.congestion) && frame->size >= kFrameHeaderBytes) {
        mark(*frame);
    }
    fly(std::move(frame), to, delay());
}

void Links::send_from_host(std::uint32_t host, FramePtr frame) {
    if (down_[host]) {
        recycle(std::move(frame));
        return;
    }
    if (around_[host] || scene_.chance.ppm(plan_.bypass)) {
        const auto parsed = parse_frame(frame->view());
        if (parsed && host_of(parsed->addresses.dest) < plan_.hosts) {
            transmit(std::move(frame), {.is_switch = false, .number = host_of(parsed->addresses.dest)});
            return;
        }
    }
    transmit(std::move(frame), {.is_switch = true, .number = switch_of(host), .port = port_to_host(host)});
}

void Links::send_from_switch(std::uint32_t number, std::uint32_t port, FramePtr frame) {
    if (port >= port_to_switch(0)) {
        transmit(std::move(frame),
                 {.is_switch = true, .number = port - port_to_switch(0), .port = port_to_switch(number)});
    } else if (port >= port_to_host(0) && port - port_to_host(0) < plan_.hosts &&
               switch_of(port - port_to_host(0)) == number) {
        transmit(std::move(frame), {.is_switch = false, .number = port - port_to_host(0)});
    } else {
        wrong("switch " + std::to_string(number) + " sends to port " + std::to_string(port) +
              ", which it has not");
    }
}

}  // namespace ask::sim
