// SPDX-License-Identifier: Apache-2.0
//
// What must hold of the checksum of a frame over IPv6 that leaves the switch.
#pragma once

#include <algorithm>
#include <cstddef>

#include "tests/bpf/switch/family.h"
#include "tests/fuzz/fuzz.h"

namespace ask::fuzz {

// An IPv6 frame without a tag: its datagram, as UDP's length says, which nobody has looked at in what only
// passes.
inline test::Bytes datagram_of(const test::Bytes& frame) {
    constexpr std::size_t kUdpAt = 54;
    require(frame.size() >= kUdpAt + 8, "what leaves over IPv6 has its headers");
    const std::size_t said = std::size_t{frame[kUdpAt + 4]} << 8 | frame[kUdpAt + 5];
    const std::size_t length = std::min(said, frame.size() - kUdpAt);
    return {frame.begin() + kUdpAt, frame.begin() + static_cast<std::ptrdiff_t>(kUdpAt + length)};
}
inline bool is_whole(const test::Bytes& frame, const test::Bytes& datagram) {
    constexpr std::size_t kSourceAt = 22;
    constexpr std::size_t kDestAt = 38;
    const auto address = [&frame](std::size_t at) {
        test::SixAddress six{};
        std::copy_n(frame.begin() + static_cast<std::ptrdiff_t>(at), six.size(), six.begin());
        return six;
    };
    return datagram.size() >= 8 && (datagram[6] | datagram[7]) != 0 &&
           test::six_checksum(address(kSourceAt), address(kDestAt), datagram) == 0;
}

// `out` has become of `in`, both without tags; of another family than IPv6 nothing is asked.
inline void check_six_checksum(const test::Bytes& in, const test::Bytes& out) {
    constexpr std::size_t kTypeAt = 12;
    if (in[kTypeAt] != 0x86 || in[kTypeAt + 1] != 0xdd) {
        return;
    }
    const test::Bytes datagram = datagram_of(out);
    require(datagram == datagram_of(in) || is_whole(out, datagram),
            "over IPv6 a checksum is right, or its sender's");
}

}  // namespace ask::fuzz
