// SPDX-License-Identifier: Apache-2.0
//
// A channel's packets, every slot or record full, keys drawn at random, each packet with a seq of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "bench/switch/case.h"
#include "lib/engine/packet.h"

namespace ask::bench {

inline constexpr std::uint32_t kHost = 0xC6120102;  // 198.18.1.2
inline constexpr std::uint32_t kReceiver = kHost + 1;
inline constexpr std::uint64_t kInstance = 0x1122334455667788;
inline constexpr std::uint32_t kIncarnation = 7;

[[nodiscard]] inline std::uint16_t port_of(unsigned channel) {
    return static_cast<std::uint16_t>(ASK_CHANNEL_PORT_BASE + channel);
}

class FrameMaker {
 public:
    FrameMaker(const Case& what, const CheckKey& key, unsigned channel);
    // The next frame; valid until the next call.
    std::span<const std::byte> next();

 private:
    void fill_rows(std::span<std::byte> rows);
    void fill_records(std::span<std::byte> body);
    // Number of a key, of so many.
    std::uint32_t draw(std::size_t keys);

    const Case& what_;
    const CheckKey& key_;
    std::uint16_t port_;
    std::uint64_t seq_ = 0;
    std::vector<std::byte> frame_;
    std::vector<std::uint32_t> short_keys_;
    std::vector<std::uint32_t> medium_keys_;
    std::uint32_t given_ =
        0;  // of the keys, those that have been in a packet; a back level gets each once first
    std::mt19937 random_;
};

}  // namespace ask::bench
