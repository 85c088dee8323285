// SPDX-License-Identifier: Apache-2.0
#include "tests/bpf/switch/family.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace ask::test {

namespace {

constexpr std::size_t kFour = 20;
constexpr std::size_t kSix = 40;

std::uint16_t read16(const Bytes& bytes, std::size_t at) {
    return static_cast<std::uint16_t>(bytes[at] << 8 | bytes[at + 1]);
}

std::uint32_t read32(const Bytes& bytes, std::size_t at) {
    return std::uint32_t{read16(bytes, at)} << 16 | read16(bytes, at + 2);
}

void write16(Bytes& bytes, std::size_t at, std::size_t value) {
    bytes[at] = static_cast<std::uint8_t>(value >> 8);
    bytes[at + 1] = static_cast<std::uint8_t>(value);
}

void write32(Bytes& bytes, std::size_t at, std::uint32_t value) {
    write16(bytes, at, value >> 16);
    write16(bytes, at + 2, value & 0xffff);
}

// Behind the Ethernet header and its tag, if there is one.
std::size_t header_at(const Bytes& frame) {
    return frame.size() > 18 && read16(frame, 12) == 0x8100 ? 18 : 14;
}

bool is_four(const Bytes& frame) {
    const std::size_t at = header_at(frame);
    return frame.size() >= at + kFour + 8 && read16(frame, at - 2) == 0x0800 && frame[at] == 0x45 &&
           (read16(frame, at + 6) & 0x3fff) == 0;
}

SixAddress read_address(const Bytes& frame, std::size_t at) {
    SixAddress address{};
    std::copy_n(frame.begin() + static_cast<std::ptrdiff_t>(at), address.size(), address.begin());
    return address;
}

std::uint32_t number_of(const SixAddress& address) {
    return std::uint32_t{0xf6} << 24 | std::uint32_t{0x12} << 16 | std::uint32_t{address[7]} << 8 |
           address[15];
}

void put_header(Bytes& frame, std::size_t at, std::size_t old, const Bytes& header) {
    const auto first = frame.begin() + static_cast<std::ptrdiff_t>(at);
    frame.erase(first, first + static_cast<std::ptrdiff_t>(old));
    frame.insert(frame.begin() + static_cast<std::ptrdiff_t>(at), header.begin(), header.end());
}

// The frame's own datagram: what is behind it, is not.
Bytes datagram_at(const Bytes& frame, std::size_t at) {
    const std::size_t length = std::min<std::size_t>(read16(frame, at + 4), frame.size() - at);
    return {frame.begin() + static_cast<std::ptrdiff_t>(at),
            frame.begin() + static_cast<std::ptrdiff_t>(at + length)};
}

}  // namespace

bool is_six_run() {
    static const bool six = [] {
        const char* family = std::getenv("ASK_TEST_FAMILY");
        return family != nullptr && std::string_view(family) == "6";
    }();
    return six;
}

std::uint32_t host_number(std::uint32_t address) {
    return is_six_run() && address >> 17 == 0xc612 >> 1 ? address | ASK_HOST_NUMBERS : address;
}

SixAddress six_address(std::uint32_t address) {
    const std::uint32_t number = address | ASK_HOST_NUMBERS;
    SixAddress out{0x20, 0x01, 0x00, 0x02};
    out[7] = static_cast<std::uint8_t>(number >> 8);
    out[15] = static_cast<std::uint8_t>(number);
    if (number >> 16 != 0xf612) {
        out[12] = static_cast<std::uint8_t>(number >> 24);
        out[13] = static_cast<std::uint8_t>(number >> 16);
    }
    return out;
}

ask_ipv6 program_form(const SixAddress& address) {
    ask_ipv6 out{};
    std::memcpy(&out, address.data(), sizeof(out));
    return out;
}

std::uint16_t six_checksum(const SixAddress& source, const SixAddress& dest, const Bytes& datagram) {
    Bytes all(source.begin(), source.end());
    all.insert(all.end(), dest.begin(), dest.end());
    const auto length = static_cast<std::uint32_t>(datagram.size());
    all.resize(all.size() + 8);
    write32(all, 32, length);
    write32(all, 36, 17);
    all.insert(all.end(), datagram.begin(), datagram.end());
    all.resize((all.size() + 1) / 2 * 2);
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < all.size(); i += 2) {
        sum += read16(all, i);
    }
    while (sum > 0xffff) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return static_cast<std::uint16_t>(~sum);
}

Bytes in_six(Bytes frame) {
    if (!is_four(frame)) {
        return frame;
    }
    const std::size_t at = header_at(frame);
    const SixAddress source = six_address(read32(frame, at + 12));
    const SixAddress dest = six_address(read32(frame, at + 16));
    Bytes header(8);
    write32(header, 0, 6U << 28 | std::uint32_t{frame[at + 1]} << 20 | kLabel);
    write16(header, 4, std::size_t{read16(frame, at + 2)} - kFour);
    header[6] = frame[at + 9];
    header[7] = frame[at + 8];
    header.insert(header.end(), source.begin(), source.end());
    header.insert(header.end(), dest.begin(), dest.end());
    write16(frame, at - 2, 0x86dd);
    put_header(frame, at, kFour, header);
    write16(frame, at + kSix + 6, 0);
    const std::uint16_t check = six_checksum(source, dest, datagram_at(frame, at + kSix));
    write16(frame, at + kSix + 6, check == 0 ? 0xffff : check);
    return frame;
}

Bytes in_one_form(Bytes frame) {
    if (is_four(frame)) {
        frame = in_six(std::move(frame));
    }
    const std::size_t at = header_at(frame);
    if (frame.size() < at + kSix || read16(frame, at - 2) != 0x86dd) {
        return frame;
    }
    Bytes header(kFour);
    header[0] = 0x45;
    header[1] = static_cast<std::uint8_t>(read16(frame, at) >> 4);
    write16(header, 2, read16(frame, at + 4) + kFour);
    header[8] = frame[at + 7];
    header[9] = frame[at + 6];
    write32(header, 12, number_of(read_address(frame, at + 8)));
    write32(header, 16, number_of(read_address(frame, at + 24)));
    write16(frame, at - 2, 0x0800);
    put_header(frame, at, kSix, header);
    return frame;
}

Bytes in_four(Bytes frame) {
    frame = in_one_form(std::move(frame));
    const std::size_t at = header_at(frame);
    if (is_four(frame)) {
        write16(frame, at + kFour + 6, 0);
    }
    return frame;
}

}  // namespace ask::test
