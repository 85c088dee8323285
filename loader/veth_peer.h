// SPDX-License-Identifier: Apache-2.0
//
// Whether packets sent back through a veth arrive.
#pragma once

#include <cstdint>

namespace ask {

// A veth drops what an XDP program sends back (XDP_TX) unless its peer has a program in its driver too, or
// has GRO on, which cannot be seen from here.
enum class PeerAnswers {
    kTaken,      // or the interface is no veth
    kNoProgram,  // the peer has none, or cannot be looked at from here
    kGeneric,    // it has one that is not in the driver
};
PeerAnswers peer_takes_answers(std::uint32_t ifindex);

}  // namespace ask
