// SPDX-License-Identifier: Apache-2.0
//
// Whether packets sent back through a veth arrive.
#pragma once

#include <cstdint>

namespace ask {

// A veth drops what an XDP program sends back (XDP_TX) unless its peer has an XDP program too, silently if
// the peer has GRO on. False: the interface is a veth, and its peer has no program, or cannot be looked at
// from here. True in all other cases.
bool peer_has_program(std::uint32_t ifindex);

}  // namespace ask
