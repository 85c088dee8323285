// SPDX-License-Identifier: Apache-2.0
#include "lib/daemon/inflow.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>

#include <doctest/doctest.h>

#include "lib/base/unique_fd.h"

using namespace ask;

namespace {

constexpr std::size_t kBound = std::size_t{1} << 20U;

// Two ends of a TCP connection.
struct Connection {
    Connection() {
        const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof(at);
        auto* const generic = reinterpret_cast<sockaddr*>(&at);
        REQUIRE(::bind(listener.get(), generic, size) == 0);
        REQUIRE(::listen(listener.get(), 1) == 0);
        REQUIRE(::getsockname(listener.get(), generic, &size) == 0);
        ours.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        REQUIRE(::connect(ours.get(), generic, size) == 0);
        theirs.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
        REQUIRE(theirs);
        REQUIRE(::getpeername(theirs.get(), generic, &size) == 0);
        name = "ipv4:127.0.0.1:" + std::to_string(ntohs(at.sin_port));
    }
    // So many bytes come, and are read at once, as gRPC does.
    void pass(std::size_t bytes) const {
        std::string chunk(16384, 'x');
        for (std::size_t sent = 0; sent < bytes; sent += chunk.size()) {
            REQUIRE(::send(ours.get(), chunk.data(), chunk.size(), 0) == static_cast<ssize_t>(chunk.size()));
            REQUIRE(::recv(theirs.get(), chunk.data(), chunk.size(), MSG_WAITALL) ==
                    static_cast<ssize_t>(chunk.size()));
        }
    }

    UniqueFd ours;
    UniqueFd theirs;
    std::string name;
};

bool readable(const Inflow& inflow) {
    pollfd entry{.fd = inflow.fd(), .events = POLLIN, .revents = 0};
    return ::poll(&entry, 1, 0) == 1;
}

}  // namespace

TEST_CASE("what was read before anybody looked is held all the same") {
    const Connection connection;
    Inflow inflow(kBound);
    REQUIRE(inflow.watch(connection.theirs.get(), "198.18.1.2"));
    CHECK(inflow.look().empty());
    connection.pass(kBound / 2);
    CHECK(readable(inflow));
    CHECK(inflow.look().empty());
    connection.pass(kBound);
    CHECK(readable(inflow));
    const auto lines = inflow.look();
    REQUIRE(lines.size() == 1);
    CHECK(lines.front().find("a connection of 198.18.1.2 is ended: 1536 KiB") == 0);
    CHECK_FALSE(inflow.watches());
}

TEST_CASE("requests that were handled are not held, and nothing is looked at where nothing comes") {
    const Connection connection;
    Inflow inflow(kBound);
    REQUIRE(inflow.watch(connection.theirs.get(), "198.18.1.2"));
    for (int i = 0; i < 8; ++i) {
        connection.pass(kBound / 2);
        inflow.handled(connection.name, kBound / 2);
        CHECK(inflow.look().empty());
        CHECK_FALSE(readable(inflow));
    }
    CHECK(inflow.watches());
}

TEST_CASE("a connection that has been closed is forgotten") {
    Connection connection;
    Inflow inflow(kBound);
    REQUIRE(inflow.watch(connection.theirs.get(), "198.18.1.2"));
    connection.pass(kBound / 2);
    connection.theirs.reset();
    // It makes no event: the sweep finds it.
    for (int i = 0; i < 100 && inflow.watches(); ++i) {
        ::poll(nullptr, 0, Inflow::kSweepMs / 10);
        CHECK(inflow.look().empty());
    }
    CHECK_FALSE(inflow.watches());
}
