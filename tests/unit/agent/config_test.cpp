// SPDX-License-Identifier: Apache-2.0
#include "agent/config.h"

#include <cstdint>

#include <doctest/doctest.h>

#include "lib/abi/consts.h"
#include "lib/net/frame.h"
#include "lib/net/host_book.h"

using namespace ask;

namespace {

// Bytes of the longest frame of a host with an interface of that MTU.
std::size_t longest_frame(std::uint32_t mtu, std::uint32_t host) {
    return AgentConfig().sender_config(mtu, host).payload_limit + kEthernetBytes + packet_header_bytes(host);
}

}  // namespace

TEST_CASE("frames of both families are as long as the MTU, and as what is read in one piece") {
    const auto ipv6 = parse_host("2001:2:0:1::2");
    REQUIRE(ipv6.ok());
    for (const std::uint32_t host : {std::uint32_t{0xc6120102}, *ipv6}) {
        CAPTURE(host);
        for (const std::uint32_t mtu : {1280U, 1500U, 3505U, 3506U}) {
            CHECK(longest_frame(mtu, host) == mtu + kEthernetBytes);
        }
        // What drivers have in the first buffer of a frame that may have several.
        for (const std::uint32_t mtu : {3507U, 3526U, 3527U, 9000U}) {
            CHECK(longest_frame(mtu, host) == 3072U);
        }
    }
}
