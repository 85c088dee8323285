// SPDX-License-Identifier: Apache-2.0
#include "tests/netns/switchd/packet.h"

#include <arpa/inet.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include "lib/bpf/object.h"
#include "lib/engine/packet.h"
#include "lib/net/frame.h"
#include "tests/netns/switchd/environment.h"

namespace ask::test {
namespace {

constexpr Geometry kGeometry{16, 8, 2, 4};

std::vector<std::byte> make_frame(const OneTuple& tuple) {
    const Header header{.type = ASK_DATA,
                        .flags = 0,
                        .rows = 1,
                        .format = format_of(kGeometry, Op::kSum),
                        .instance = tuple.instance,
                        .channel = tuple.channel,
                        .incarnation = tuple.incarnation,
                        .mark = {},
                        .seq = tuple.seq};
    const std::array<std::uint32_t, 1> bitmaps = {1};
    const std::size_t payload_bytes = kGeometry.payload_bytes(1);
    std::vector<std::byte> frame(kFrameHeaderBytes + payload_bytes);
    const std::span<std::byte> payload = std::span(frame).subspan(kFrameHeaderBytes);
    const std::size_t body = write_header(payload, header, bitmaps);
    ask_slot slot{};
    std::memcpy(&slot.kpart, tuple.key.data(), std::min(tuple.key.size(), sizeof(slot.kpart)));
    slot.vpart = htonl(static_cast<std::uint32_t>(tuple.value));
    std::memcpy(payload.data() + body, &slot, sizeof(slot));
    CheckKey(tuple.secret).seal(payload, {tuple.channel.port, ASK_UDP_PORT});
    write_frame_header(frame,
                       {.source_mac = {2, 0, 0, 0, 0, 1},
                        .dest_mac = {2, 0, 0, 0, 0, 9},
                        .source = tuple.channel.host,
                        .dest = kHost2,
                        .source_port = tuple.channel.port,
                        .dest_port = ASK_UDP_PORT},
                       payload_bytes);
    return frame;
}

}  // namespace

SwitchFeed::SwitchFeed(const std::string& port) : ifindex_(::if_nametoindex(port.c_str())) {
    auto program = bpf::open_pinned(std::string(kPins) + "/progs/switch");
    REQUIRE(program.ok());
    REQUIRE(ifindex_ != 0);
    program_ = std::move(*program);
}

int SwitchFeed::send(const OneTuple& tuple) const {
    std::vector<std::byte> frame = make_frame(tuple);
    xdp_md context{};
    context.data_end = static_cast<__u32>(frame.size());
    context.ingress_ifindex = ifindex_;
    LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame.data(),
                .data_size_in = static_cast<__u32>(frame.size()), .ctx_in = &context,
                .ctx_size_in = sizeof(context), .repeat = 1);
    if (bpf_prog_test_run_opts(program_.get(), &options) != 0) {
        return -errno;
    }
    return static_cast<int>(options.retval);
}

std::uint32_t send_through_switch(const OneTuple& tuple, const std::string& port) {
    const int verdict = SwitchFeed(port).send(tuple);
    REQUIRE_MESSAGE(verdict >= 0, std::strerror(-verdict));
    return static_cast<std::uint32_t>(verdict);
}

}  // namespace ask::test
