// SPDX-License-Identifier: Apache-2.0
//
// A TCP port of the loopback that nobody listens at: tests of several trees may run at once. It is kept to
// the process's end, as the kernel would give it to the next who asks for any: whoever shares addresses
// (SO_REUSEADDR), as servers do, can listen there beside that, and nobody gets it by chance.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/unique_fd.h"

namespace ask::test {

inline std::uint16_t free_port() {
    static std::vector<UniqueFd> kept;
    const int on = 1;
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    REQUIRE(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    kept.push_back(std::move(fd));
    return ntohs(address.sin_port);
}

}  // namespace ask::test
