// SPDX-License-Identifier: Apache-2.0
//
// The same tests with IPv6: where ASK_TEST_FAMILY is 6, hosts have the numbers of IPv6 hosts, frames go in
// with an IPv6 header in place of theirs, and have to come out so. Tests write IPv4 addresses and frames all
// the same.
#pragma once

#include <array>
#include <cstdint>

#include "lib/abi/hosts.h"
#include "tests/bpf/switch/packet.h"

namespace ask::test {

using SixAddress = std::array<std::uint8_t, 16>;

// Whether the tests run so.
bool is_six_run();
// The number that the host with an address of 198.18.0.0/15 has then; the address itself otherwise.
std::uint32_t host_number(std::uint32_t address);
// 2001:2:0:3::2 of the host that has 198.18.3.2, or its number.
SixAddress six_address(std::uint32_t address);
ask_ipv6 program_form(const SixAddress& address);

// A flow label, which no program changes.
inline constexpr std::uint32_t kLabel = 0xabcde;

// The frame with IPv6, checksum and all, tagged or not; one that is not of IPv4 as the program reads it stays
// as it is.
Bytes in_six(Bytes frame);
// What such a frame looks like to services, from an IPv4 frame and back from an IPv6 one.
Bytes in_one_form(Bytes frame);
// The frame with IPv4 that in_six() makes this of, but for what IPv6 has not.
Bytes in_four(Bytes frame);
// Sum over a datagram in IPv6 and its addresses, as RFC 8200 has it; 0 where it is right.
std::uint16_t six_checksum(const SixAddress& source, const SixAddress& dest, const Bytes& datagram);

}  // namespace ask::test
