// SPDX-License-Identifier: Apache-2.0
#include "lib/engine/packet.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "lib/abi/var.h"
#include "lib/base/bytes.h"
#include "lib/tuples/types.h"

namespace ask {
namespace {

constexpr Ports kPorts{.source = 49153, .dest = ASK_UDP_PORT};

Header some_header(std::uint8_t type, std::uint8_t rows = 0) {
    Header header;
    header.type = type;
    header.rows = rows;
    header.format = {.short_slots = 3, .groups = 2, .m = 3, .op = ASK_OP_MAX};
    header.instance = 0x1122334455667788;
    header.channel = {.host = 0xc6120003, .port = 49153};
    header.incarnation = 0xa1b2c3d4;
    header.mark = {.switch_id = 0x0102, .incarnation = 0x03040506};
    header.seq = 0x0908070605040302;
    return header;
}

// A DATA packet of random rows; the bitmaps decide how many of them it carries.
std::vector<std::byte> data_packet(std::vector<std::uint32_t> bitmaps, std::size_t present, unsigned seed) {
    const Header header = some_header(ASK_DATA, static_cast<std::uint8_t>(bitmaps.size()));
    const Geometry geometry = geometry_of(header.format);
    std::vector<std::byte> payload(geometry.payload_bytes(header.rows));
    const std::size_t head = write_header(payload, header, bitmaps);
    std::mt19937 random(seed);
    std::generate(payload.begin() + static_cast<std::ptrdiff_t>(head), payload.end(),
                  [&] { return static_cast<std::byte>(random()); });
    payload.resize(head + present * geometry.row_bytes());
    return payload;
}

// A VAR packet of random records, so many of each group.
std::vector<std::byte> var_packet(const std::array<std::uint8_t, ASK_VAR_GROUPS>& counts,
                                  const std::vector<std::uint32_t>& bitmaps, unsigned seed) {
    ask_var_hdr header{};
    std::ranges::copy(counts, header.count);
    const std::size_t head = 48 + 4 * bitmaps.size();
    std::vector<std::byte> payload(head + ask_var_body_bytes(&header));
    std::mt19937 random(seed);
    std::ranges::generate(payload, [&] { return static_cast<std::byte>(random()); });
    write_header(payload, some_header(ASK_VAR, static_cast<std::uint8_t>(bitmaps.size())), bitmaps);
    std::memcpy(payload.data() + head, &header, sizeof(header));
    return payload;
}

ParseError error_of(const std::vector<std::byte>& payload) {
    ParseError error{};
    REQUIRE_FALSE(parse_packet(payload, &error));
    return error;
}

TEST_CASE("a header reads back as written") {
    const auto payload = data_packet({0x1f, 0, 5}, 3, 1);
    const auto view = parse_packet(payload);
    REQUIRE(view);
    const Header wrote = some_header(ASK_DATA, 3);
    CHECK(view->header.type == wrote.type);
    CHECK(view->header.rows == 3);
    CHECK(same_format(view->header.format, wrote.format));
    CHECK(view->header.instance == wrote.instance);
    CHECK(view->header.channel == wrote.channel);
    CHECK(view->header.incarnation == wrote.incarnation);
    CHECK(view->header.mark == wrote.mark);
    CHECK(view->header.seq == wrote.seq);
    CHECK(view->bitmap[0] == 0x1f);
    CHECK(view->bitmap[1] == 0);
    CHECK(view->bitmap[2] == 5);
    CHECK(view->body.size() == std::size_t{3} * 72);
    CHECK(view->body.data() == payload.data() + 48 + 12);
}

TEST_CASE("fields stand in network order at the offsets of the wire") {
    const auto payload = data_packet({0x10203}, 1, 1);
    CHECK(std::to_integer<unsigned>(payload[0]) == ASK_WIRE_VERSION);
    CHECK(std::to_integer<unsigned>(payload[8]) == 0x11);
    CHECK(std::to_integer<unsigned>(payload[15]) == 0x88);
    CHECK(std::to_integer<unsigned>(payload[16]) == 0xc6);
    CHECK(std::to_integer<unsigned>(payload[24]) == 0xa1);
    CHECK(std::to_integer<unsigned>(payload[32]) == 0x09);
    CHECK(std::to_integer<unsigned>(payload[48]) == 0x00);
    CHECK(std::to_integer<unsigned>(payload[51]) == 0x03);
}

TEST_CASE("a DATA packet carries the rows up to the last that is not empty") {
    CHECK(parse_packet(data_packet({1, 0, 0}, 1, 1)));
    CHECK(error_of(data_packet({1, 0, 0}, 2, 1)) == ParseError::kLength);
    CHECK(error_of(data_packet({1, 0, 0}, 3, 1)) == ParseError::kLength);
    CHECK(error_of(data_packet({0, 0, 1}, 1, 1)) == ParseError::kLength);
    CHECK(parse_packet(data_packet({0, 0, 1}, 3, 1)));
    CHECK(error_of(data_packet({0, 0, 0}, 0, 1)) == ParseError::kLength);
    CHECK(error_of(data_packet({0, 0, 0}, 3, 1)) == ParseError::kLength);
}

TEST_CASE("what is not well-formed is refused with its reason") {
    const auto good = data_packet({0x1f, 0x1f}, 2, 1);
    const auto with = [&](std::size_t offset, unsigned value) {
        auto bad = good;
        bad[offset] = static_cast<std::byte>(value);
        return error_of(bad);
    };
    CHECK(with(0, 0xA0) == ParseError::kVersion);
    CHECK(with(1, 0) == ParseError::kType);
    CHECK(with(1, 6) == ParseError::kType);
    CHECK(with(7, 0) == ParseError::kFormat);
    CHECK(with(7, 4) == ParseError::kFormat);
    CHECK(with(3, 0) == ParseError::kFormat);
    CHECK(with(3, 9) == ParseError::kFormat);
    CHECK(with(4, 33) == ParseError::kFormat);
    CHECK(with(6, 5) == ParseError::kFormat);
    CHECK(with(6, 1) == ParseError::kFormat);
    CHECK(with(5, 0) == ParseError::kFormat);
    CHECK(with(6, 2) == ParseError::kLength);
    // A bit of a slot that the geometry does not have.
    CHECK(with(51, 0x20) == ParseError::kFormat);
    for (std::size_t size = 0; size < good.size(); ++size) {
        const auto error = error_of({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)});
        CHECK(error == (size < 48 ? ParseError::kTooShort : ParseError::kLength));
    }
    auto longer = good;
    longer.push_back(std::byte{0});
    CHECK(error_of(longer) == ParseError::kLength);
}

TEST_CASE("ACK, FIN and LONG have their own lengths") {
    std::vector<std::byte> payload(48 + 8 + 16);
    write_header(payload, some_header(ASK_FIN), {});
    CHECK(error_of(payload) == ParseError::kLength);
    payload.resize(48);
    CHECK(error_of(payload) == ParseError::kLength);
    payload.resize(48 + 8);
    CHECK(parse_packet(payload)->body.size() == sizeof(ask_fin));
    write_header(payload, some_header(ASK_ACK), {});
    CHECK(error_of(payload) == ParseError::kLength);
    payload.resize(48);
    CHECK(parse_packet(payload)->body.empty());
    payload.resize(48 + 8 + 16);
    write_header(payload, some_header(ASK_LONG), {});
    CHECK(parse_packet(payload)->body.size() == 24);
    payload.resize(48 + 8 + 15);
    CHECK(error_of(payload) == ParseError::kLength);
    payload.resize(48);
    CHECK(error_of(payload) == ParseError::kLength);
    payload.resize(3480);
    CHECK(error_of(payload) == ParseError::kLength);
}

TEST_CASE("a VAR packet has the bitmaps and the bytes that its counts say, and a bit at least") {
    const auto good = var_packet({1, 2, 30, 1}, {0xffffffff, 3}, 1);
    const auto view = parse_packet(good);
    REQUIRE(view);
    CHECK(view->header.rows == 2);
    CHECK(view->bitmap[0] == 0xffffffff);
    CHECK(view->bitmap[1] == 3);
    CHECK(view->body.size() == std::size_t{8} + 16 + 2 * 24 + 30 * 40 + 72);
    CHECK(view->body.data() == good.data() + 48 + 8);
    // What the switch has taken is not cut.
    CHECK(parse_packet(var_packet({1, 2, 30, 1}, {0, 2}, 1)));
    CHECK(error_of(var_packet({1, 2, 30, 1}, {0, 0}, 1)) == ParseError::kFormat);
    CHECK(error_of(var_packet({1, 2, 30, 1}, {0xffffffff, 4}, 1)) == ParseError::kFormat);
    CHECK(error_of(var_packet({1, 2, 30, 1}, {1}, 1)) == ParseError::kLength);
    CHECK(error_of(var_packet({1, 2, 30, 1}, {1, 1, 0}, 1)) == ParseError::kLength);
    CHECK(error_of(var_packet({0, 0, 0, 0}, {1}, 1)) == ParseError::kLength);
    CHECK(error_of(var_packet({0, 0, 0, 0}, {}, 1)) == ParseError::kFormat);
    CHECK(parse_packet(var_packet({128, 0, 0, 0}, {1, 0, 0, 0}, 1)));
    CHECK(error_of(var_packet({128, 1, 0, 0}, {1, 0, 0, 0}, 1)) == ParseError::kLength);
    CHECK(error_of(var_packet({128, 1, 0, 0}, {1, 0, 0, 0, 0}, 1)) == ParseError::kFormat);
    CHECK(error_of(var_packet({0, 0, 0, 48}, {1, 0}, 1)) == ParseError::kLength);  // longer than a packet
    for (std::size_t size = 0; size < good.size(); ++size) {
        const auto error = error_of({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)});
        CHECK(error == (size < 48 ? ParseError::kTooShort : ParseError::kLength));
    }
    auto longer = good;
    longer.resize(good.size() + 8);
    CHECK(error_of(longer) == ParseError::kLength);
    for (unsigned group = 0; group < ASK_VAR_GROUPS; ++group) {
        auto more = good;
        more[56 + group] = static_cast<std::byte>(std::to_integer<unsigned>(more[56 + group]) + 1);
        CHECK(error_of(more) == ParseError::kLength);
    }
}

// The check as lib/abi/check.h words it, one term after another.
std::uint64_t plain_check(const ask_check_key& key, const std::vector<std::byte>& payload, Ports ports) {
    const auto u32 = [&](std::size_t at) {
        return std::uint64_t{load_raw<std::uint32_t>(payload.data() + at)};
    };
    std::uint64_t sum = key.head[10] * ask_check_ports(swap_bytes(ports.source), swap_bytes(ports.dest));
    for (std::size_t i = 0; i < 10; ++i) {
        sum += key.head[i] * u32(4 * i);
    }
    const bool data = std::to_integer<unsigned>(payload[1]) == ASK_DATA;
    const std::size_t rows = std::to_integer<std::size_t>(payload[3]);
    for (std::size_t row = 0; row < rows; ++row) {
        sum += key.head[11 + row] * u32(48 + 4 * row);
    }
    const std::size_t first = 48 + 4 * rows;
    const std::size_t row_words = data ? std::size_t{9} : std::size_t{32};
    std::vector<std::uint64_t> lines(ASK_MAX_CHECK_LINES);
    for (std::size_t word = 0; first + 8 * word < payload.size(); ++word) {
        const std::size_t at = word % row_words;
        const auto a = static_cast<std::uint32_t>(u32(first + 8 * word)) + key.nh[2 * at];
        const auto b = static_cast<std::uint32_t>(u32(first + 8 * word + 4)) + key.nh[2 * at + 1];
        lines[word / row_words] += 1 + std::uint64_t{a} * b;
    }
    for (std::size_t i = 0; i < lines.size(); ++i) {
        sum += key.line[2 * i] * (lines[i] & 0xffffffff) + key.line[2 * i + 1] * (lines[i] >> 32U);
    }
    return ask_siphash_u64(key.sip[0], key.sip[1], sum);
}

TEST_CASE("seal computes the check of lib/abi/check.h") {
    const CheckKey key({1, 2});
    for (unsigned seed = 0; seed < 20; ++seed) {
        auto data = data_packet({7, 0, 31, 0}, 3, seed);
        key.seal(data, kPorts);
        CHECK(load_be<std::uint64_t>(data.data() + 40) == plain_check(key.raw(), data, kPorts));
        const auto records = static_cast<std::uint8_t>(1 + seed);
        auto var = var_packet({records, records, records, static_cast<std::uint8_t>(20 - seed)},
                              std::vector<std::uint32_t>((52U + 2U * records) / 32U, 1), seed);
        REQUIRE(parse_packet(var));
        key.seal(var, kPorts);
        CHECK(load_be<std::uint64_t>(var.data() + 40) == plain_check(key.raw(), var, kPorts));
        std::vector<std::byte> wide(48 + std::size_t{8} * (1 + 11 * seed));
        std::mt19937 random(seed);
        std::generate(wide.begin(), wide.end(), [&] { return static_cast<std::byte>(random()); });
        write_header(wide, some_header(ASK_LONG), {});
        key.seal(wide, kPorts);
        CHECK(load_be<std::uint64_t>(wide.data() + 40) == plain_check(key.raw(), wide, kPorts));
    }
}

TEST_CASE("no changed bit passes the check") {
    const CheckKey key({3, 4});
    for (auto packet : {data_packet({7, 31}, 2, 9), var_packet({9, 9, 9, 9}, {~0U, 15}, 9)}) {
        key.seal(packet, kPorts);
        CHECK(key.verify(packet, kPorts));
        for (std::size_t bit = 0; bit < packet.size() * 8; ++bit) {
            auto changed = packet;
            changed[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
            CAPTURE(bit);
            CHECK_FALSE(key.verify(changed, kPorts));
        }
        CHECK_FALSE(key.verify(packet, {.source = 49154, .dest = ASK_UDP_PORT}));
        CHECK_FALSE(key.verify(packet, {.source = 49153, .dest = ASK_UDP_PORT + 1}));
        CHECK_FALSE(CheckKey({3, 5}).verify(packet, kPorts));
    }
}

// What nobody can do who has not the secret: the second half of the key word makes its factor of NH 2^zeros.
// The top bit of the first half then moves NH by 2^(31 + zeros) in each of the two rows.
bool flips_pass(const CheckKey& key, unsigned zeros) {
    constexpr std::size_t kFirst = 48 + 2 * 4;
    constexpr std::size_t kSecond = kFirst + 72;
    auto packet = data_packet({31, 31}, 2, zeros);
    const std::uint32_t half = (1U << zeros) - key.raw().nh[1];
    for (const std::size_t row : {kFirst, kSecond}) {
        std::memcpy(packet.data() + row + 4, &half, sizeof(half));
    }
    key.seal(packet, kPorts);
    for (const std::size_t row : {kFirst, kSecond}) {
        packet[row + 3] ^= std::byte{0x80};
    }
    return key.verify(packet, kPorts);
}

TEST_CASE("the top bit of one key word flipped in two rows does not pass, whatever NH makes of it") {
    for (std::uint64_t secret = 0; secret < 100; ++secret) {
        const CheckKey key({secret, 99});
        for (unsigned zeros = 0; zeros < 32; ++zeros) {
            CAPTURE(secret);
            CAPTURE(zeros);
            CHECK_FALSE(flips_pass(key, zeros));
        }
    }
}

// A LONG packet's length is in no field of its header.
TEST_CASE("words that NH makes nothing of do not pass at the end of a packet") {
    for (std::uint64_t secret = 0; secret < 100; ++secret) {
        const CheckKey key({secret, 98});
        for (const std::size_t words : {std::size_t{1}, std::size_t{3}, std::size_t{32}, std::size_t{40}}) {
            std::vector<std::byte> longer(48 + 8 * (words + 1));
            write_header(longer, some_header(ASK_LONG), {});
            const std::uint32_t nothing = -key.raw().nh[2 * (words % ASK_LONG_ROW_WORDS)];
            std::memcpy(longer.data() + 48 + 8 * words, &nothing, sizeof(nothing));
            std::vector<std::byte> shorter(longer.begin(), longer.end() - 8);
            key.seal(shorter, kPorts);
            std::ranges::copy_n(shorter.begin(), 48, longer.begin());
            CAPTURE(secret);
            CAPTURE(words);
            CHECK(key.verify(shorter, kPorts));
            CHECK_FALSE(key.verify(longer, kPorts));
        }
    }
}

TEST_CASE("verify takes bytes of any length") {
    const CheckKey key({5, 6});
    std::mt19937 random(1);
    for (std::size_t size = 0; size < 400; ++size) {
        std::vector<std::byte> bytes(size);
        std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::byte>(random() % 40); });
        CHECK_FALSE(key.verify(bytes, kPorts));
        key.seal(bytes, kPorts);
    }
}

TEST_CASE("rows swapped with each other do not pass") {
    const CheckKey key({7, 8});
    auto packet = data_packet({31, 31}, 2, 4);
    key.seal(packet, kPorts);
    std::swap_ranges(packet.begin() + 56, packet.begin() + 56 + 72, packet.begin() + 56 + 72);
    CHECK_FALSE(key.verify(packet, kPorts));
}

TEST_CASE("an ACK repeats what it answers and verifies on the way back") {
    const CheckKey key({9, 10});
    const Header header = some_header(ASK_DATA, 2);
    std::vector<std::byte> ack(48);
    CHECK(write_ack(ack, header, kPorts, {.switch_id = 9, .incarnation = 8}, true, key) == 48);
    const auto view = parse_packet(ack);
    REQUIRE(view);
    CHECK(view->header.type == ASK_ACK);
    CHECK(view->header.flags == ASK_F_ECE);
    CHECK(view->header.rows == 0);
    CHECK(view->header.seq == header.seq);
    CHECK(view->header.instance == header.instance);
    CHECK(view->header.mark == Mark{.switch_id = 9, .incarnation = 8});
    CHECK(key.verify(ack, {.source = kPorts.dest, .dest = kPorts.source}));
    CHECK_FALSE(key.verify(ack, kPorts));
}

}  // namespace
}  // namespace ask
