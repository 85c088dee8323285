// SPDX-License-Identifier: Apache-2.0
//
// Which switches aggregate for a task, as proto/placement.proto has it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ask::client {

struct PlacedRelay {
    std::string name;       // of the switch that it is beside
    std::string address;    // control address of its ask-relayd, IPv4:PORT or [IPv6]:PORT
    std::string parent;     // name of the next such switch on the way; empty: the receiver
    std::string control{};  // control address of the switch; empty: not known
};

struct PlacedHost {
    std::string name;
    std::string address;
    std::uint32_t sends = 1;
    std::string entry;  // name of the switch whose relay it sends to; empty: the receiver
    std::string at{};   // name of the switch that it is at; empty: not known
};

// What is predicted of one that anything crosses.
struct PlacedLink {
    std::string from;
    std::string to;
    std::uint64_t messages = 0;  // flows
    double bytes = 0;            // 0: nothing is said of them
};

struct Placement {
    std::vector<PlacedRelay> relays;  // parents before their children
    std::vector<PlacedHost> hosts;    // all that send
    std::vector<PlacedLink> links{};

    // The same without that relay: who sends to it sends to its parent. Nothing is known of bytes on the
    // links between these two any more.
    [[nodiscard]] Placement without(const std::string& relay) const;
};

// What to ask a controller for.
struct PlaceWish {
    std::string objective;  // utilisation, bottleneck or bytes; empty: the controller's
    std::uint32_t k = 0;    // at most so many switches; 0: the controller's choice
    std::vector<std::string> excluded;
};

}  // namespace ask::client
