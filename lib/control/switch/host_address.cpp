// SPDX-License-Identifier: Apache-2.0
#include "lib/control/switch/host_address.h"

#include <arpa/inet.h>

#include <cstring>

#include "lib/net/host_book.h"

namespace ask {

ask_ipv6 program_address(const Ipv6Address& address) {
    ask_ipv6 out{};
    static_assert(sizeof(out) == sizeof(address));
    std::memcpy(&out, address.data(), sizeof(out));
    return out;
}

Ipv6Address address_of(const ask_ipv6& address) {
    Ipv6Address out{};
    std::memcpy(out.data(), &address, sizeof(address));
    return out;
}

void set_address(ask_fan_member& member, std::uint32_t number) {
    member.address = htonl(number);
    const auto address = ipv6_of(number);
    member.six = address ? program_address(*address) : ask_ipv6{};
}

}  // namespace ask
