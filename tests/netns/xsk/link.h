// SPDX-License-Identifier: Apache-2.0
//
// A veth pair within one fresh namespace, each end with sockets and the steering program of a host.
#pragma once

#include <poll.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "lib/net/netlink.h"
#include "lib/xsk/host_program.h"
#include "lib/xsk/xsk_socket.h"
#include "tests/support/netns.h"
#include "tests/support/patience.h"

namespace ask::test {

inline constexpr std::uint32_t kLeft = 0xC6120102;   // 198.18.1.2
inline constexpr std::uint32_t kRight = 0xC6120202;  // 198.18.2.2

inline const std::chrono::seconds kDeadline = patience(std::chrono::seconds(10));

inline void make_link(unsigned queues = 1, unsigned mtu = 1500) {
    need_root();
    enter_fresh_netns();
    const std::string n = std::to_string(queues);
    const std::string wide = " numrxqueues " + n + " numtxqueues " + n + " mtu " + std::to_string(mtu);
    run("ip link add left" + wide + " type veth peer name right" + wide);
    // Nothing but the test's own frames may come by.
    run("sysctl -qw net.ipv6.conf.left.disable_ipv6=1 net.ipv6.conf.right.disable_ipv6=1");
    run("ip link set left up && ip link set right up");
    // The kernel looks at carriers in the background, and tells whoever watches what it has found.
    run("timeout " + std::to_string(kDeadline.count()) +
        " sh -c 'for i in left right; do until ip link show $i | grep -q \"state UP\"; do sleep 0.01; done; "
        "done'");
}

inline InterfaceInfo interface_info(const std::string& name) {
    auto netlink = Netlink::open();
    REQUIRE(netlink.ok());
    auto info = netlink->interface(name);
    REQUIRE_MESSAGE(info.ok(), info.error().text());
    return *info;
}

// One end: program and a socket per queue.
struct End {
    InterfaceInfo info;
    std::vector<XskSocket> sockets;
    HostProgram program;

    static End make(const std::string& name, std::uint32_t own, unsigned queues = 1,
                    XskOptions options = {}) {
        const InterfaceInfo info = interface_info(name);
        auto program = HostProgram::load(
            {.interface = name, .interface_index = info.index, .own_address = own, .queues = queues});
        REQUIRE_MESSAGE(program.ok(), program.error().text());
        End end{info, {}, std::move(*program)};
        options.interface = name;
        for (unsigned queue = 0; queue < queues; ++queue) {
            options.queue = queue;
            auto socket = XskSocket::open(options);
            REQUIRE_MESSAGE(socket.ok(), socket.error().text());
            REQUIRE(end.program.add_socket(*socket).ok());
            end.sockets.push_back(std::move(*socket));
        }
        const auto attached = end.program.attach();
        REQUIRE_MESSAGE(attached.ok(), attached.error().text());
        return end;
    }
};

// Whether the socket has something to receive before `deadline`.
inline bool wait_readable(const XskSocket& socket, std::chrono::milliseconds deadline = kDeadline) {
    pollfd entry{.fd = socket.fd(), .events = POLLIN, .revents = 0};
    return ::poll(&entry, 1, static_cast<int>(deadline.count())) == 1;
}

inline void check_account(const XskSocket& socket) {
    const FrameAccount account = socket.account();
    CHECK(account.free + account.receiving + account.sending + account.held == account.total);
}

}  // namespace ask::test
