// SPDX-License-Identifier: Apache-2.0
//
// A network under a scripted clock: packets are lost, doubled, delayed, reordered and damaged
// by a seeded generator. The same seed gives the same run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "lib/engine/packet.h"

namespace ask::test {

struct Faults {
    double loss = 0;
    double duplicate = 0;
    double damage = 0;
    Nanos least_delay = 10 * kMicrosecond;
    Nanos most_delay = 10 * kMicrosecond;  // evenly between the two: the more, the more disorder
};

// One direction of a link.
class LossyLink {
 public:
    struct Packet {
        std::vector<std::byte> payload;
        Ports ports;
    };

    LossyLink(std::uint64_t seed, const Faults& faults) : random_(seed), faults_(faults) {}

    void send(Nanos now, Packet packet) {
        if (chance(faults_.loss)) {
            return;
        }
        if (chance(faults_.duplicate)) {
            under_way_.emplace(now + delay(), packet);
        }
        if (chance(faults_.damage) && !packet.payload.empty()) {
            packet.payload[random_() % packet.payload.size()] ^= static_cast<std::byte>(1 + random_() % 255);
        }
        under_way_.emplace(now + delay(), std::move(packet));
    }
    // Time of the next arrival, kNever if nothing is under way.
    [[nodiscard]] Nanos next_arrival() const {
        return under_way_.empty() ? kNever : under_way_.begin()->first;
    }
    std::optional<Packet> receive(Nanos now) {
        if (next_arrival() > now) {
            return std::nullopt;
        }
        return std::move(under_way_.extract(under_way_.begin()).mapped());
    }

 private:
    bool chance(double probability) {
        return std::uniform_real_distribution<double>(0, 1)(random_) < probability;
    }
    Nanos delay() {
        return std::uniform_int_distribution<Nanos>(faults_.least_delay, faults_.most_delay)(random_);
    }

    std::mt19937_64 random_;
    Faults faults_;
    std::multimap<Nanos, Packet> under_way_;
};

}  // namespace ask::test
