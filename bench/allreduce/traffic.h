// SPDX-License-Identifier: Apache-2.0
//
// What has gone over a member's link.
#pragma once

#include <cstdint>

#include <nlohmann/json.hpp>

namespace ask::bench {

struct Traffic {
    struct Counts {
        std::uint64_t bytes = 0;
        std::uint64_t packets = 0;
        Counts operator-(const Counts& other) const { return {bytes - other.bytes, packets - other.packets}; }
    };
    Counts received;
    Counts sent;
    Traffic operator-(const Traffic& other) const { return {received - other.received, sent - other.sent}; }
};

// Of eth0, as the kernel counts it, in this process's network namespace; zeros if there is none.
[[nodiscard]] Traffic traffic();

[[nodiscard]] nlohmann::ordered_json to_json(const Traffic& traffic);

}  // namespace ask::bench
