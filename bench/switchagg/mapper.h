// SPDX-License-Identifier: Apache-2.0
//
// One of the machines that send: a channel's packets, sealed, as the agent of its host would make them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "lib/engine/packet.h"
#include "lib/tuples/packer.h"

namespace ask::bench {

inline constexpr std::uint32_t kMostPayload = 1472;  // of a packet, bytes

class Mapper {
 public:
    // What all mappers of a task have in common.
    struct Task {
        Geometry geometry;
        std::uint64_t instance = 0;
        std::uint32_t incarnation = 0;
        const CheckKey* key = nullptr;
    };
    Mapper(const Task& task, ChannelId channel);

    [[nodiscard]] bool has_room() const { return packer_.has_room(); }
    void add(std::string_view key, std::int64_t value) { packer_.add(key, value); }
    void finish() { packer_.finish(); }
    [[nodiscard]] bool has_frame() const { return packer_.has_body(); }
    // Until the next call.
    std::span<const std::byte> frame();
    [[nodiscard]] std::uint64_t packets() const { return seq_; }
    // In its frames so far.
    [[nodiscard]] std::uint64_t tuples() const { return packer_.stats().slots_filled; }
    [[nodiscard]] Ports ports() const { return {.source = channel_.port, .dest = ASK_UDP_PORT}; }

 private:
    Task task_;
    ChannelId channel_;
    Packer packer_;
    std::vector<std::byte> frame_;
    std::uint64_t seq_ = 0;
};

}  // namespace ask::bench
