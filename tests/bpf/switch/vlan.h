// SPDX-License-Identifier: Apache-2.0
//
// A VLAN in the namespace of the switch's tests. It is `side`, which has addresses, routes and neighbours as
// one of its own; the program asks no more of it.
#pragma once

#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>

#include <bpf/bpf.h>
#include <doctest/doctest.h>

#include "lib/abi/vlan.h"
#include "lib/base/unique_fd.h"
#include "tests/bpf/switch/harness.h"

namespace ask::test {

// For as long as this lives, `side` is that VLAN of a port.
class Vlan {
 public:
    Vlan(const Switch& sw, std::uint32_t carrier, std::uint32_t kinds = ASK_PORTS_ON_VLANS)
        : sw_(sw), vlan_{.ifindex = carrier, .id = kVlan, .pad = 0} {
        const std::uint32_t zero = 0;
        REQUIRE(bpf_map_update_elem(sw_.map("port_kinds"), &zero, &kinds, BPF_ANY) == 0);
        REQUIRE(bpf_map_update_elem(sw_.map("vlan_in"), &vlan_, &network().side, BPF_ANY) == 0);
        REQUIRE(bpf_map_update_elem(sw_.map("vlan_out"), &network().side, &vlan_, BPF_ANY) == 0);
    }
    ~Vlan() {
        const std::uint32_t none = 0;
        CHECK(bpf_map_update_elem(sw_.map("port_kinds"), &none, &none, BPF_ANY) == 0);
        CHECK(bpf_map_delete_elem(sw_.map("vlan_in"), &vlan_) == 0);
        CHECK(bpf_map_delete_elem(sw_.map("vlan_out"), &network().side) == 0);
    }
    Vlan(const Vlan&) = delete;
    Vlan& operator=(const Vlan&) = delete;

 private:
    const Switch& sw_;
    const ask_vlan vlan_;
};

// A host's end of a link, which sends and receives frames with their tags.
class TaggedHost {
 public:
    explicit TaggedHost(const char* interface)
        : socket_(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL))) {
        sockaddr_ll address{};
        address.sll_family = AF_PACKET;
        address.sll_protocol = htons(ETH_P_ALL);
        address.sll_ifindex = static_cast<int>(::if_nametoindex(interface));
        REQUIRE(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
        const int on = 1;
        // The kernel keeps a tag beside the frame, and hands it out so.
        REQUIRE(::setsockopt(socket_.get(), SOL_PACKET, PACKET_AUXDATA, &on, sizeof(on)) == 0);
        REQUIRE(::setsockopt(socket_.get(), SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on)) == 0);
    }
    void send(const Bytes& frame) const {
        REQUIRE(::send(socket_.get(), frame.data(), frame.size(), 0) == static_cast<ssize_t>(frame.size()));
    }
    // The next frame; none within a while: empty.
    [[nodiscard]] Bytes receive(std::chrono::seconds patience) const {
        const timeval limit{.tv_sec = patience.count(), .tv_usec = 0};
        REQUIRE(::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0);
        Bytes frame(4096);
        alignas(cmsghdr) std::array<std::uint8_t, 128> control{};
        iovec piece{.iov_base = frame.data(), .iov_len = frame.size()};
        msghdr message{};
        message.msg_iov = &piece;
        message.msg_iovlen = 1;
        message.msg_control = control.data();
        message.msg_controllen = control.size();
        const ssize_t size = ::recvmsg(socket_.get(), &message, 0);
        frame.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
        const cmsghdr* const beside = CMSG_FIRSTHDR(&message);
        tpacket_auxdata aux{};
        if (size < 0 || beside == nullptr || beside->cmsg_type != PACKET_AUXDATA) {
            return frame;
        }
        std::memcpy(&aux, CMSG_DATA(beside), sizeof(aux));
        return (aux.tp_status & TP_STATUS_VLAN_VALID) == 0 ? frame
                                                           : tagged(frame, aux.tp_vlan_tci, aux.tp_vlan_tpid);
    }

 private:
    UniqueFd socket_;
};

}  // namespace ask::test
