// SPDX-License-Identifier: Apache-2.0
//
// IPv6, beside what all tests of packets show of it where they run with it (family.h).
#include <linux/bpf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <bpf/bpf.h>
#include <doctest/doctest.h>

#include "tests/bpf/switch/family.h"
#include "tests/bpf/switch/harness.h"
#include "tests/bpf/switch/vlan.h"

using namespace ask::test;

namespace {

constexpr std::size_t kIpAt = 14;
constexpr std::size_t kDatagramAt = kIpAt + 40;
constexpr std::size_t kCheckAt = kDatagramAt + 6;

// Of IPv4 there is nothing to check in these: switch_six_test runs them.
const auto kOnlySix = doctest::skip(!is_six_run());

Packet six_fin(const Switch& sw, std::uint64_t seq) {
    Packet packet = sw.packet().seq(seq);
    packet.type = ASK_FIN;
    return packet;
}

std::uint16_t check_of(const Bytes& frame) {
    return static_cast<std::uint16_t>(frame[kCheckAt] << 8 | frame[kCheckAt + 1]);
}

// Whether whoever gets it takes it for whole.
bool is_whole(const Bytes& frame) {
    SixAddress source{};
    SixAddress dest{};
    std::copy_n(frame.begin() + kIpAt + 8, source.size(), source.begin());
    std::copy_n(frame.begin() + kIpAt + 24, dest.size(), dest.begin());
    const std::size_t length = frame[kDatagramAt + 4] << 8 | frame[kDatagramAt + 5];
    return check_of(frame) != 0 && kDatagramAt + length <= frame.size() &&
           six_checksum(source, dest,
                        {frame.begin() + kDatagramAt,
                         frame.begin() + static_cast<std::ptrdiff_t>(kDatagramAt + length)}) == 0;
}

// Moves the host's address so far that the frame's checksum, 0xffff as it stands, comes out as 0.
void check_zero(Switch& sw, const Packet& packet, const Bytes& ack) {
    ask_ipv6 address = program_form(six_address(kSender));
    REQUIRE(bpf_map_delete_elem(sw.map("hosts"), &address) == 0);
    Bytes frame = in_six(packet.frame());
    // Words 12 and 13 of the address are 0: what is missing to all ones.
    const std::uint16_t missing = check_of(ack);
    frame[kIpAt + 8 + 12] = static_cast<std::uint8_t>(missing >> 8);
    frame[kIpAt + 8 + 13] = static_cast<std::uint8_t>(missing);
    frame[kCheckAt] ^= 1;  // any but 0, which nobody asks for
    std::memcpy(&address, &frame[kIpAt + 8], sizeof(address));
    const std::uint32_t number = __builtin_bswap32(host_number(kSender));
    REQUIRE(bpf_map_update_elem(sw.map("hosts"), &address, &number, BPF_ANY) == 0);
    const Switch::Outcome outcome = sw.run_as_is(frame);
    CHECK(outcome.action == XDP_TX);
    CHECK(check_of(outcome.frame) == 0xffff);
    CHECK(is_whole(outcome.frame));
    REQUIRE(bpf_map_delete_elem(sw.map("hosts"), &address) == 0);
    address = program_form(six_address(kSender));
    REQUIRE(bpf_map_update_elem(sw.map("hosts"), &address, &number, BPF_ANY) == 0);
}

}  // namespace

TEST_CASE("a checksum that comes out as 0 is written as all ones" * kOnlySix) {
    Switch& sw = Switch::get({});
    sw.add_default();
    const Packet packet = sw.packet().seq(1).put(0, 0, "k", 1);
    const Switch::Outcome first = sw.run_as_is(in_six(packet.frame()));
    REQUIRE(first.action == XDP_TX);
    check_zero(sw, packet, first.frame);
}

TEST_CASE("every datagram that leaves is whole, whatever its length, and so is what only passes" * kOnlySix) {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        sw.add_default({.rows = 8, .aggregators = 1});
        std::mt19937_64 random(way.memory * 2 + way.dedupe);
        for (std::uint64_t seq = 1; seq <= 200; ++seq) {
            Packet packet = sw.packet().seq(seq).row_count(static_cast<unsigned>(1 + random() % 8));
            const auto tuples = static_cast<unsigned>(1 + random() % 40);
            for (unsigned i = 0; i < tuples; ++i) {
                packet.put(static_cast<unsigned>(random() % packet.bitmaps.size()),
                           static_cast<unsigned>(random() % 16), std::to_string(random() % 999),
                           static_cast<std::int32_t>(random()));
            }
            packet.tos = static_cast<std::uint8_t>(random());
            if (packet.bitmaps.back() == 0) {
                packet.put(static_cast<unsigned>(packet.bitmaps.size()) - 1, 0, "last", 1);
            }
            const Switch::Outcome outcome = sw.run_as_is(in_six(packet.frame()));
            CAPTURE(seq);
            CHECK((outcome.action == XDP_TX || outcome.action == XDP_REDIRECT));
            CHECK(is_whole(outcome.frame));
        }
        const Bytes fin = in_six(six_fin(sw, 201).frame());
        CHECK(is_whole(sw.run_as_is(fin).frame));
    }
}

TEST_CASE("what the switch does not change keeps its sender's checksum, right or wrong" * kOnlySix) {
    Switch& sw = Switch::get({});
    sw.add_default();
    Bytes frame = in_six(six_fin(sw, 1).frame());
    frame[kCheckAt] ^= 0x55;
    Bytes out = in_six(six_fin(sw, 1).routed(kOutMac, kReceiverMac).frame());
    out[kCheckAt] ^= 0x55;
    sw.expect_as_is("FIN", frame, XDP_REDIRECT, ASK_CNT_fin_new, out);
}

TEST_CASE("the last hop of IPv6 goes up, as it came" * kOnlySix) {
    Switch& sw = Switch::get({});
    sw.add_default();
    for (const std::uint8_t hops : {std::uint8_t{0}, std::uint8_t{1}}) {
        const Bytes frame = in_six(six_fin(sw, 1).with([hops](Packet& p) { p.ttl = hops; }).frame());
        sw.expect_as_is("hop limit " + std::to_string(hops), frame, XDP_PASS, ASK_CNT_up_no_route, frame);
    }
}

TEST_CASE("hosts that the switch has no number of are the stack's" * kOnlySix) {
    Switch& sw = Switch::get({});
    sw.add_default();
    const auto pass = [&sw](const std::string& what, const std::function<void(Bytes&)>& change,
                            ask_counter counter) {
        Bytes frame = in_six(sw.packet().seq(1).put(0, 0, "k", 1).frame());
        change(frame);
        sw.expect_as_is(what, frame, XDP_PASS, counter, frame);
    };
    pass("the sender", [](Bytes& frame) { frame[kIpAt + 8 + 9] ^= 1; }, ASK_CNT_pass_channel);
    pass("the receiver", [](Bytes& frame) { frame[kIpAt + 24 + 9] ^= 1; }, ASK_CNT_pass_channel);
    Packet ack = sw.packet();
    ack.type = ASK_ACK;
    std::swap(ack.source_port, ack.dest_port);
    std::swap(ack.source, ack.dest);
    Bytes frame = in_six(ack.frame());
    frame[kIpAt + 8] ^= 1;
    sw.expect_as_is("who gives an ACK", frame, XDP_PASS, ASK_CNT_pass_ack, frame);
}

TEST_CASE("IPv6 that is not ASK's, or not as ASK writes it, is the stack's" * kOnlySix) {
    Switch& sw = Switch::get({});
    sw.add_default();
    const Bytes whole = in_six(sw.packet().seq(1).put(0, 0, "k", 1).frame());
    const auto pass = [&sw](const std::string& what, const Bytes& frame) {
        sw.expect_as_is(what, frame, XDP_PASS, ASK_CNT_pass_foreign, frame);
    };
    const auto changed = [&](const std::string& what, const std::function<void(Bytes&)>& change) {
        Bytes frame = whole;
        change(frame);
        pass(what, frame);
        pass(what + ", tagged", tagged(frame));
    };
    changed("TCP", [](Bytes& frame) { frame[kIpAt + 6] = 6; });
    changed("an extension header", [](Bytes& frame) { frame[kIpAt + 6] = 0; });
    changed("a fragment", [](Bytes& frame) { frame[kIpAt + 6] = 44; });
    changed("another port", [](Bytes& frame) { frame[kDatagramAt + 2] ^= 1; });
    changed("no checksum", [](Bytes& frame) { frame[kCheckAt] = frame[kCheckAt + 1] = 0; });
    changed("version 4", [](Bytes& frame) { frame[kIpAt] = 0x40; });
    for (std::size_t size = 14; size < kDatagramAt + 8; ++size) {
        pass("cut to " + std::to_string(size),
             Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)));
    }
    // From there on it is a datagram that is too short for an ASK header.
    for (std::size_t size = kDatagramAt + 8; size < kDatagramAt + 8 + 48; ++size) {
        pass("cut to " + std::to_string(size),
             Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)));
    }
}

TEST_CASE("a number in an IPv4 packet is no host, whatever came before it" * kOnlySix) {
    Switch& sw = Switch::get({});
    const Vlan vlan(sw, network().in);
    sw.add_default();
    sw.add_channel(1, {.host = 0x0a000002});
    sw.add_flow(1, 1, 0);
    sw.expect("IPv6", six_fin(sw, 1).frame(), XDP_REDIRECT, ASK_CNT_fin_new,
              six_fin(sw, 1).routed(kOutMac, kReceiverMac).frame());
    const Bytes forged = six_fin(sw, 2).frame();
    sw.expect_as_is("from it", forged, XDP_PASS, ASK_CNT_pass_foreign, forged);
    sw.expect_as_is("from it, tagged", tagged(forged), XDP_PASS, ASK_CNT_pass_foreign, tagged(forged));
    Packet mixed = sw.packet(1).seq(2);
    mixed.type = ASK_FIN;
    sw.expect_as_is("to it", mixed.frame(), XDP_PASS, ASK_CNT_up_no_route, mixed.frame());
}

TEST_CASE("hosts of both families, one after the other, in any order" * kOnlySix) {
    Switch& sw = Switch::get({});
    const Vlan vlan(sw, network().in);
    sw.add_default({.aggregators = 1});
    sw.add_channel(1, {.host = kBehindSide, .ifindex = network().side});
    sw.add_flow(1, 1, 0);
    for (std::uint64_t seq = 1; seq < 60; ++seq) {
        const std::uint32_t kind = seq * 2654435761U >> 7 & 3;
        const Packet packet = sw.packet(kind & 1).seq(seq).put(0, 0, seq % 3 == 0 ? "own" : "other", 1);
        const Bytes six = in_six((kind & 1) == 0 ? packet.frame() : tagged(packet.frame(), kVlan));
        CAPTURE(seq);
        if ((kind & 2) != 0) {
            // The same in an IPv4 header is nobody's that has a route.
            Packet four = six_fin(sw, seq).with([](Packet& p) { p.port += 9; });
            CHECK(sw.run_as_is(four.frame()).action == XDP_PASS);
        }
        const Switch::Outcome outcome = sw.run_as_is(six);
        CHECK((outcome.action == XDP_TX || outcome.action == XDP_REDIRECT));
        CHECK((outcome.frame[12] == 0x81) == (outcome.action == XDP_TX && (kind & 1) == 1));
    }
}

// Not a check: what docs/gateways.md has of the price. ASK_TEST_FAMILY=6 (or without) switch_test --no-skip
// --test-case='price*'.
TEST_CASE("price of a packet" * doctest::skip()) {  // it measures, and checks nothing
    Switch& sw = Switch::get({});
    sw.add_default({.aggregators = 1});
    const auto price = [&sw](const Bytes& frame, std::uint32_t repeat, unsigned turns) {
        const Bytes in = is_six_run() ? in_six(frame) : frame;
        std::vector<std::uint32_t> took;
        for (unsigned turn = 0; turn < turns; ++turn) {
            xdp_md context{};
            context.data_end = static_cast<__u32>(in.size());
            context.ingress_ifindex = network().in;
            LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = in.data(),
                        .data_size_in = static_cast<__u32>(in.size()), .ctx_in = &context,
                        .ctx_size_in = sizeof(context), .repeat = static_cast<int>(repeat));
            REQUIRE(bpf_prog_test_run_opts(sw.program(), &options) == 0);
            took.push_back(options.duration);
        }
        std::ranges::sort(took);
        return std::to_string(took[took.size() / 10]) + " ns, median " +
               std::to_string(took[took.size() / 2]) + " ns";
    };
    // As many hops as a packet may have, one a run.
    MESSAGE("FIN, forwarded: ",
            price(six_fin(sw, 1).with([](Packet& p) { p.ttl = 255; }).frame(), 250, 4001));
    Packet all = sw.packet().seq(2).row_count(4);
    for (unsigned row = 0; row < 4; ++row) {
        for (unsigned slot = 0; slot < 16; ++slot) {
            all.put(row, slot, "k", 1);
        }
    }
    MESSAGE("DATA, acknowledged: ", price(all.frame(), 1, 20001));
    Packet left = sw.packet().seq(3).row_count(4);
    for (unsigned row = 0; row < 4; ++row) {
        for (unsigned slot = 0; slot < 16; ++slot) {
            left.put(row, slot, "l", 1);
        }
    }
    MESSAGE("DATA, left and forwarded, ", std::to_string(left.frame().size()),
            " bytes: ", price(left.frame(), 1, 20001));
}
