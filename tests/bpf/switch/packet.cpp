// SPDX-License-Identifier: Apache-2.0
#include "tests/bpf/switch/packet.h"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace ask::test {

namespace {

constexpr unsigned kHeadWords = 10;
constexpr unsigned kBitmapKey = 11;
constexpr unsigned kHeadKeys = 20;
constexpr unsigned kRowKeys = 32;

template <typename T>
void append_be(Bytes& to, T value) {
    for (std::size_t i = sizeof(T); i-- > 0;) {
        to.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
    }
}

void append(Bytes& to, std::span<const std::uint8_t> bytes) {
    to.insert(to.end(), bytes.begin(), bytes.end());
}

void poke_be16(Bytes& at, std::size_t offset, std::uint16_t value) {
    at[offset] = static_cast<std::uint8_t>(value >> 8);
    at[offset + 1] = static_cast<std::uint8_t>(value);
}

std::uint64_t little_endian(std::span<const std::uint8_t> bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        value |= std::uint64_t{bytes[i]} << (8 * i);
    }
    return value;
}

std::uint64_t word32(std::span<const std::uint8_t> bytes, std::size_t offset) {
    return little_endian(bytes.subspan(offset, 4));
}

std::uint64_t word_hash(const Secret& key, std::uint64_t word) {
    std::array<std::uint8_t, 8> message{};
    for (unsigned i = 0; i < 8; ++i) {
        message[i] = static_cast<std::uint8_t>(word >> (8 * i));
    }
    return siphash24(key, message);
}

struct SipState {
    std::array<std::uint64_t, 4> v;

    void rounds(unsigned count) {
        for (unsigned i = 0; i < count; ++i) {
            v[0] += v[1];
            v[2] += v[3];
            v[1] = std::rotl(v[1], 13) ^ v[0];
            v[3] = std::rotl(v[3], 16) ^ v[2];
            v[0] = std::rotl(v[0], 32);
            v[2] += v[1];
            v[0] += v[3];
            v[1] = std::rotl(v[1], 17) ^ v[2];
            v[3] = std::rotl(v[3], 21) ^ v[0];
            v[2] = std::rotl(v[2], 32);
        }
    }
    void compress(std::uint64_t word) {
        v[3] ^= word;
        rounds(2);
        v[0] ^= word;
    }
};

std::uint16_t internet_checksum(std::span<const std::uint8_t> header) {
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i + 1 < header.size(); i += 2) {
        sum += static_cast<std::uint32_t>(header[i] << 8 | header[i + 1]);
    }
    while (sum > 0xffff) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return static_cast<std::uint16_t>(~sum);
}

// Everything of the header before the check.
Bytes header_bytes(const Packet& packet) {
    Bytes out{
        packet.version,     packet.type,
        packet.flags,       packet.rows_field.value_or(static_cast<std::uint8_t>(packet.bitmaps.size())),
        packet.short_slots, packet.groups,
        packet.m,           packet.op};
    append_be(out, packet.task);
    append_be(out, packet.host);
    append_be(out, packet.port);
    append_be(out, packet.mark_switch);
    append_be(out, packet.incarnation);
    append_be(out, packet.mark_incarnation);
    append_be(out, packet.seq_field);
    return out;
}

}  // namespace

std::uint64_t siphash24(const Secret& key, std::span<const std::uint8_t> message) {
    SipState state{{key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d, key[0] ^ 0x6c7967656e657261,
                    key[1] ^ 0x7465646279746573}};
    std::size_t at = 0;
    for (; at + 8 <= message.size(); at += 8) {
        state.compress(little_endian(message.subspan(at, 8)));
    }
    state.compress(little_endian(message.subspan(at)) | std::uint64_t{message.size() & 0xff} << 56);
    state.v[2] ^= 0xff;
    state.rounds(4);
    return state.v[0] ^ state.v[1] ^ state.v[2] ^ state.v[3];
}

std::uint64_t slow_check(const Secret& secret, std::uint16_t source_port, std::uint16_t dest_port,
                         std::span<const std::uint8_t> payload, unsigned bitmaps, unsigned row_words) {
    // Keys are the SipHash of a counter under the flow's secret: 2 for the close, 20 for the head, 2 for each
    // of 16 rows, then one per word of a row.
    const auto key = [&secret](unsigned number) { return word_hash(secret, number); };
    const Secret close{key(0), key(1)};
    std::uint64_t sum = 0;
    for (unsigned i = 0; i < kHeadWords; ++i) {
        sum += key(2 + i) * word32(payload, std::size_t{4} * i);
    }
    Bytes ports;
    append_be(ports, source_port);
    append_be(ports, dest_port);
    sum += key(2 + kHeadWords) * word32(ports, 0);
    std::size_t at = 48;
    for (unsigned r = 0; r < bitmaps; ++r, at += 4) {
        sum += key(2 + kBitmapKey + r) * word32(payload, at);
    }
    std::vector<std::uint64_t> rows;
    for (unsigned word = 0; at + 8 <= payload.size(); ++word, at += 8) {
        const std::uint64_t pair = key(2 + kHeadKeys + kRowKeys + word % row_words);
        const std::uint64_t a = (word32(payload, at) + (pair & 0xffffffff)) & 0xffffffff;
        const std::uint64_t b = (word32(payload, at + 4) + (pair >> 32)) & 0xffffffff;
        rows.resize(word / row_words + 1);
        rows.back() += a * b + 1;
    }
    for (unsigned row = 0; row < rows.size(); ++row) {
        sum += key(2 + kHeadKeys + 2 * row) * (rows[row] & 0xffffffff);
        sum += key(2 + kHeadKeys + 2 * row + 1) * (rows[row] >> 32);
    }
    return word_hash(close, sum);
}

Bytes encode_key(std::string_view key, unsigned words) {
    Bytes out(std::size_t{4} * words);
    for (std::size_t i = 0; i < key.size() && i < out.size(); ++i) {
        out[i] = static_cast<std::uint8_t>(key[i]);
    }
    for (std::size_t word = (key.size() + 3) / 4; word < words; ++word) {
        out[4 * word + 3] = 1;
    }
    return out;
}

Bytes encode_whole_key(std::string_view key) {
    std::size_t bytes = 8;
    while (bytes < key.size()) {
        bytes *= 2;
    }
    Bytes out(key.begin(), key.end());
    out.resize((key.size() + 7) / 8 * 8);
    while (out.size() < bytes) {
        append_be(out, std::uint64_t{1});
    }
    return out;
}

Packet& Packet::seq(std::uint64_t value) {
    seq_field = value;
    return *this;
}

Packet& Packet::row_count(unsigned count) {
    while (bitmaps.size() < count) {
        bitmaps.push_back(0);
        rows.emplace_back(std::size_t{8} * aas());
    }
    return *this;
}

Packet& Packet::put(unsigned row, unsigned slot, std::string_view key, std::int32_t value) {
    return put_raw(row, slot, encode_key(key, slot < short_slots ? 1 : m), value);
}

Packet& Packet::put_raw(unsigned row, unsigned slot, const Bytes& kparts, std::int32_t value,
                        std::uint32_t lead) {
    row_count(row + 1);
    bitmaps[row] |= std::uint32_t{1} << slot;
    const unsigned words = slot < short_slots ? 1 : m;
    Bytes out;
    for (unsigned i = 0; i < words; ++i) {
        append(out, std::span(kparts).subspan(std::size_t{4} * i, 4));
        append_be(out, i + 1 < words ? lead : static_cast<std::uint32_t>(value));
    }
    const unsigned aa = slot < short_slots ? slot : short_slots + (slot - short_slots) * m;
    std::copy(out.begin(), out.end(), rows[row].begin() + std::ptrdiff_t{8} * aa);
    return *this;
}

Packet& Packet::records(const std::vector<Record>& all) {
    type = 5;
    rows.clear();
    bitmaps.assign((all.size() + 31) / 32, 0xffffffff);
    if (all.size() % 32 != 0) {
        bitmaps.back() = (std::uint32_t{1} << all.size() % 32) - 1;
    }
    body.assign(8, 0);
    for (std::size_t group = 0; group < 4; ++group) {
        for (const Record& record : all) {
            const Bytes key = encode_whole_key(record.key);
            if (key.size() == std::size_t{8} << group) {
                ++body[group];
                append_be(body, static_cast<std::uint64_t>(record.value));
                append(body, key);
            }
        }
    }
    return *this;
}

Bytes Packet::payload() const {
    Bytes out = header_bytes(*this);
    append_be(out, std::uint64_t{0});
    for (const std::uint32_t bitmap : bitmaps) {
        append_be(out, bitmap);
    }
    for (const Bytes& row : rows) {
        append(out, row);
    }
    append(out, type == 4 && body.empty() && !bare ? Bytes(8) : body);
    const bool is_values = type >= 16 && type <= 20;
    const unsigned row_words = is_values ? 64 : type == 2 || type == 4 || type == 5 ? 32 : aas();
    const std::uint64_t sealed =
        check.value_or(slow_check(secret, source_port, dest_port, out, static_cast<unsigned>(bitmaps.size()),
                                  row_words == 0 ? 1 : row_words));
    for (unsigned i = 0; i < 8; ++i) {
        out[40 + i] = static_cast<std::uint8_t>(sealed >> (8 * (7 - i)));
    }
    return out;
}

Bytes Packet::frame() const {
    const Bytes inner = payload();
    Bytes out(dest_mac.begin(), dest_mac.end());
    append(out, source_mac);
    append_be(out, ether_type);
    Bytes ip{version_ihl, tos};
    append_be(ip, total_length.value_or(static_cast<std::uint16_t>(28 + inner.size())));
    append_be(ip, id);
    append_be(ip, fragment);
    ip.push_back(ttl);
    ip.push_back(protocol);
    append_be(ip, std::uint16_t{0});
    append_be(ip, source);
    append_be(ip, dest);
    poke_be16(ip, 10, ip_checksum.value_or(internet_checksum(ip)));
    append(out, ip);
    append_be(out, source_port);
    append_be(out, dest_port);
    append_be(out, udp_length.value_or(static_cast<std::uint16_t>(8 + inner.size())));
    append_be(out, udp_checksum);
    append(out, inner);
    append(out, trailer);
    return out;
}

Packet Packet::ack(std::uint16_t switch_id, std::uint32_t mark_incarnation_value) const {
    Packet out = *this;
    std::swap(out.dest_mac, out.source_mac);
    std::swap(out.source, out.dest);
    std::swap(out.source_port, out.dest_port);
    out.ttl = 64;
    out.tos = 0;
    out.udp_checksum = 0;
    out.type = 3;
    out.flags = (tos & 3) == 3 ? 1 : 0;
    out.mark_switch = switch_id;
    out.mark_incarnation = mark_incarnation_value;
    out.rows_field.reset();
    out.bitmaps.clear();
    out.rows.clear();
    out.body.clear();
    out.trailer.clear();
    return out;
}

Packet Packet::routed(const Mac& from, const Mac& to) const {
    Packet out = *this;
    out.source_mac = from;
    out.dest_mac = to;
    --out.ttl;
    return out;
}

// Each slot's tuples take the first rows, in the order in which they are.
void Packet::gather() {
    for (unsigned slot = 0; slot < unsigned{short_slots} + groups; ++slot) {
        const unsigned aa = slot < short_slots ? slot : short_slots + (slot - short_slots) * m;
        const std::uint32_t bit = 1U << slot;
        std::size_t to = 0;
        for (std::size_t from = 0; from < bitmaps.size(); ++from) {
            if ((bitmaps[from] & bit) == 0) {
                continue;
            }
            const auto* const words = &rows[from][std::size_t{aa} * 8];
            std::copy_n(words, std::size_t{slot < short_slots ? 1U : m} * 8, &rows[to][std::size_t{aa} * 8]);
            bitmaps[from] &= ~bit;
            bitmaps[to++] |= bit;
        }
    }
}

Packet Packet::left(std::uint16_t switch_id, std::uint32_t mark_incarnation_value,
                    std::vector<std::uint32_t> bitmaps_left) const {
    Packet out = *this;
    out.udp_checksum = 0;
    out.mark_switch = switch_id;
    out.mark_incarnation = mark_incarnation_value;
    out.bitmaps = std::move(bitmaps_left);
    if (type == 5) {
        return out;  // records stay where they are
    }
    out.gather();
    out.trailer.clear();
    std::size_t present = out.bitmaps.size();
    while (present > 0 && out.bitmaps[present - 1] == 0) {
        --present;
    }
    out.rows.resize(present);
    return out;
}

std::string hex(std::span<const std::uint8_t> bytes) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string out;
    for (const std::uint8_t byte : bytes) {
        out += digits[byte >> 4];
        out += digits[byte & 15];
    }
    return out;
}

std::string scapy(std::span<const std::uint8_t> frame) {
    return "Ether(bytes.fromhex('" + hex(frame) + "')).show2()";
}

}  // namespace ask::test
