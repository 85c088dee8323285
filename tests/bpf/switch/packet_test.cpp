// SPDX-License-Identifier: Apache-2.0
//
// The tests' own packets against what they stand in for: SipHash's published value, and lib/engine.
#include "lib/engine/packet.h"

#include <random>
#include <span>

#include <doctest/doctest.h>

#include "tests/bpf/switch/packet.h"

using namespace ask;
using namespace ask::test;

namespace {

Packet random_packet(std::mt19937_64& random) {
    const auto below = [&random](unsigned n) { return static_cast<unsigned>(random() % n); };
    Packet packet;
    packet.secret = {random(), random()};
    packet.source_port = static_cast<std::uint16_t>(random());
    packet.short_slots = static_cast<std::uint8_t>(1 + below(16));
    packet.groups = static_cast<std::uint8_t>(1 + below(8));
    packet.m = static_cast<std::uint8_t>(2 + below(3));
    packet.op = static_cast<std::uint8_t>(1 + below(3));
    packet.task = random();
    packet.host = static_cast<std::uint32_t>(random());
    packet.port = packet.source_port;
    packet.incarnation = static_cast<std::uint32_t>(random());
    packet.seq_field = random();
    if (below(4) == 0) {
        packet.type = ASK_LONG;
        const unsigned words = 1 + below(400);
        for (unsigned i = 0; i < 8 * words; ++i) {
            packet.body.push_back(static_cast<std::uint8_t>(random()));
        }
        return packet;
    }
    const unsigned rows = 1 + below(5);
    packet.row_count(rows);
    for (unsigned row = 0; row < rows; ++row) {
        for (auto& byte : packet.rows[row]) {
            byte = static_cast<std::uint8_t>(random());
        }
        packet.bitmaps[row] =
            1 | (static_cast<std::uint32_t>(random()) & ((1U << (packet.short_slots + packet.groups)) - 1));
    }
    return packet;
}

}  // namespace

TEST_CASE("SipHash-2-4 gives the values of its authors' test vectors") {
    const Secret key{0x0706050403020100, 0x0f0e0d0c0b0a0908};
    Bytes message;
    CHECK(siphash24(key, message) == 0x726fdb47dd0e0e31);
    for (std::uint8_t i = 0; i < 8; ++i) {
        message.push_back(i);
    }
    CHECK(siphash24(key, message) == 0x93f5f5799a932462);
    for (std::uint8_t i = 8; i < 15; ++i) {
        message.push_back(i);
    }
    CHECK(siphash24(key, message) == 0xa129ca6149be45e5);
    CHECK(ask_siphash_u64(key[0], key[1], 0x0706050403020100) == 0x93f5f5799a932462);
}

TEST_CASE("the core seals as the slow computation does, and verifies what it sealed") {
    std::mt19937_64 random(20260101);
    for (unsigned i = 0; i < 500; ++i) {
        const Packet packet = random_packet(random);
        const Bytes sealed = packet.payload();
        const CheckKey key(packet.secret);
        const ask::Ports ports{.source = packet.source_port, .dest = packet.dest_port};
        INFO(i, ": ", hex(sealed));
        CHECK(key.verify(std::as_bytes(std::span(sealed)), ports));
        Packet open = packet;
        open.check = 0;
        Bytes by_core = open.payload();
        key.seal(std::as_writable_bytes(std::span(by_core)), ports);
        CHECK((by_core == sealed));
    }
}
