// SPDX-License-Identifier: Apache-2.0
//
// A channel's packets of a task, sealed and in frames, as the agent of its host would make them; and what
// the switch lets pass of them, to a receiver's core.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "lib/engine/packet.h"
#include "lib/engine/receiver.h"
#include "lib/tuples/packer.h"

namespace ask::bench {

inline constexpr std::uint32_t kMostPayload = 1472;  // of a packet, bytes

class FrameSource {
 public:
    // What all channels of a task have in common.
    struct Task {
        Geometry geometry;
        std::uint64_t instance = 0;
        std::uint32_t incarnation = 0;
        const CheckKey* key = nullptr;
        bool whole_keys = false;  // VAR is agreed
    };
    FrameSource(const Task& task, ChannelId channel);

    [[nodiscard]] bool has_room() const { return packer_.has_room(); }
    void add(std::string_view key, std::int64_t value) { packer_.add(key, value); }
    void finish() { packer_.finish(); }
    [[nodiscard]] bool empty() const { return packer_.empty(); }
    [[nodiscard]] bool has_frame() const { return packer_.has_body(); }
    // Until the next call.
    std::span<const std::byte> frame();
    [[nodiscard]] std::uint64_t packets() const { return seq_; }
    // In its frames so far, but what went LONG.
    [[nodiscard]] std::uint64_t tuples() const {
        return packer_.stats().slots_filled + packer_.stats().tuples_var;
    }

 private:
    Task task_;
    ChannelId channel_;
    Packer packer_;
    std::vector<std::byte> frame_;
    std::uint64_t seq_ = 0;
};

// kInternal: what the switch has let pass is refused.
Result<RxVerdict> receive(Receiver& receiver, std::span<const std::byte> frame);

}  // namespace ask::bench
