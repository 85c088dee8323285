// SPDX-License-Identifier: Apache-2.0
//
// Fan-out in the namespace of the switch's tests: who is behind its three ports, and real links with the
// program on them.
#pragma once

#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <doctest/doctest.h>

#include "lib/abi/values.h"
#include "lib/base/unique_fd.h"
#include "tests/bpf/switch/family.h"
#include "tests/bpf/switch/harness.h"

namespace ask::test {

struct FanMember {
    std::uint32_t ifindex;
    std::string host_interface;
    Mac port_mac;
    Mac mac;
    std::uint32_t address;
};

inline std::array<FanMember, 3> members() {
    return {{{network().in, "in_host", kInMac, kSenderMac, kSender},
             {network().out, "out_host", kOutMac, kReceiverMac, kReceiver},
             {network().side, "side_host", Mac{2, 0, 0, 0, 0, 3}, Mac{2, 0, 0, 0, 3, 2}, kBehindSide}}};
}

// All three ports are those of this fan.
inline UniqueFd make_fan(const Switch& sw, std::uint32_t number) {
    UniqueFd fan(bpf_map_create(BPF_MAP_TYPE_DEVMAP, "fan", sizeof(std::uint32_t), sizeof(bpf_devmap_val), 64,
                                nullptr));
    REQUIRE(fan);
    std::uint32_t place = 0;
    for (const FanMember& member : members()) {
        const bpf_devmap_val port = sw.device(member.ifindex);
        REQUIRE(bpf_map_update_elem(fan.get(), &place, &port, BPF_ANY) == 0);
        ++place;
        ask_fan_member value{};
        std::ranges::copy(member.mac, value.mac);
        std::ranges::copy(member.port_mac, value.port_mac);
        value.address = htonl(host_number(member.address));
        value.six = program_form(six_address(member.address));
        REQUIRE(bpf_map_update_elem(sw.map("fan_members"), &member.ifindex, &value, BPF_ANY) == 0);
    }
    const int inner = fan.get();
    REQUIRE(bpf_map_update_elem(sw.map("fans"), &number, &inner, BPF_ANY) == 0);
    return fan;
}

// The switch's program on all ports, native; and behind them one that lets everything pass, without which
// veth drops what it is sent by XDP.
class Attached {
 public:
    explicit Attached(int program) {
        const std::array<bpf_insn, 2> pass{
            {{.code = BPF_ALU64 | BPF_MOV | BPF_K,
              .dst_reg = BPF_REG_0,
              .src_reg = 0,
              .off = 0,
              .imm = XDP_PASS},
             {.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0}}};
        pass_ = UniqueFd(bpf_prog_load(BPF_PROG_TYPE_XDP, "pass", "GPL", pass.data(), pass.size(), nullptr));
        REQUIRE(pass_);
        for (const FanMember& member : members()) {
            attach(::if_nametoindex(member.host_interface.c_str()), pass_.get());
            attach(member.ifindex, program);
        }
    }
    ~Attached() {
        for (const std::uint32_t port : ports_) {
            (void)bpf_xdp_detach(static_cast<int>(port), XDP_FLAGS_DRV_MODE, nullptr);
        }
    }
    Attached(const Attached&) = delete;
    Attached& operator=(const Attached&) = delete;

 private:
    void attach(std::uint32_t port, int program) {
        REQUIRE(bpf_xdp_attach(static_cast<int>(port), program, XDP_FLAGS_DRV_MODE, nullptr) == 0);
        ports_.push_back(port);
    }

    UniqueFd pass_;
    std::vector<std::uint32_t> ports_;
};

// A host's end of its link: sends frames, and has those that came in.
class Host {
 public:
    explicit Host(const std::string& interface)
        : socket_(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_IP))) {
        REQUIRE(socket_);
        sockaddr_ll address{};
        address.sll_family = AF_PACKET;
        address.sll_protocol = htons(ETH_P_IP);
        address.sll_ifindex = static_cast<int>(::if_nametoindex(interface.c_str()));
        REQUIRE(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
        const int on = 1;
        REQUIRE(::setsockopt(socket_.get(), SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on)) == 0);
    }
    void send(const Bytes& frame) const {
        REQUIRE(::send(socket_.get(), frame.data(), frame.size(), 0) == static_cast<ssize_t>(frame.size()));
    }
    // The next frame; none within a while: empty.
    [[nodiscard]] Bytes receive(std::chrono::milliseconds patience) const {
        timeval limit{};
        limit.tv_sec = patience.count() / 1000;
        limit.tv_usec = patience.count() % 1000 * 1000;
        REQUIRE(::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0);
        Bytes frame(4096);
        const ssize_t size = ::recv(socket_.get(), frame.data(), frame.size(), 0);
        frame.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
        return frame;
    }

 private:
    UniqueFd socket_;
};

}  // namespace ask::test
