// SPDX-License-Identifier: Apache-2.0
//
// Frames as they come from a network, and frames that were built and then changed: what is read lies within
// the frame, is of one family, and comes out of a frame that is built of it; a built one is read as it was
// built, and over IPv6 its checksum is right.
#include "lib/net/frame.h"

#include <cstring>
#include <vector>

#include "tests/fuzz/fuzz.h"

namespace ask::fuzz {
namespace {

// What whoever receives the packet would come to, summing as RFC 8200 has it.
bool checksum_is_right(std::span<const std::byte> frame) {
    const auto ip = frame.subspan(kEthernetBytes);
    const auto udp = ip.subspan(kIpv6Bytes);
    std::uint64_t sum = 17 + udp.size();
    const auto add = [&sum](std::span<const std::byte> bytes) {
        for (std::size_t at = 0; at < bytes.size(); ++at) {
            sum += std::to_integer<std::uint64_t>(bytes[at]) << (at % 2 == 0 ? 8U : 0U);
        }
    };
    add(ip.subspan(8, 2 * sizeof(Ipv6Address)));
    add(udp);
    while (sum >> 16U != 0) {
        sum = (sum & 0xffffU) + (sum >> 16U);
    }
    return sum == 0xffff;
}

std::vector<std::byte> build(const UdpAddresses& addresses, std::span<const std::byte> payload) {
    std::vector<std::byte> frame(addresses.header_bytes() + payload.size());
    if (!payload.empty()) {
        std::memcpy(&frame[addresses.header_bytes()], payload.data(), payload.size());
    }
    require(write_frame_header(frame, addresses, payload.size()) == frame.size(),
            "a frame is as long as it says");
    require(!addresses.ipv6() || checksum_is_right(frame), "a frame over IPv6 has a right checksum");
    return frame;
}

void read(std::span<const std::byte> frame) {
    const auto parsed = parse_frame(frame);
    if (!parsed) {
        return;
    }
    const UdpAddresses& addresses = parsed->addresses;
    require(is_ipv6_number(addresses.source) == is_ipv6_number(addresses.dest),
            "both hosts are of one family");
    require(parsed->payload.data() == frame.data() + addresses.header_bytes(),
            "the payload follows the headers");
    require(addresses.header_bytes() + parsed->payload.size() <= frame.size(), "the payload is in the frame");
    const auto again = build(addresses, parsed->payload);
    const auto same = parse_frame(again);
    require(same && same->addresses == addresses && same->payload.size() == parsed->payload.size(),
            "a frame built of what was read is read as that");
}

UdpAddresses drawn(Input& input) {
    UdpAddresses addresses;
    const auto fill = [&input](auto& bytes) {
        const auto taken = input.bytes(bytes.size());
        std::copy(taken.begin(), taken.end(), bytes.begin());
    };
    fill(addresses.source_mac);
    fill(addresses.dest_mac);
    addresses.source_port = input.take<std::uint16_t>();
    addresses.dest_port = input.take<std::uint16_t>();
    if (input.flag()) {
        fill(addresses.source6);
        fill(addresses.dest6);
        addresses.source = number_of(addresses.source6);
        addresses.dest = number_of(addresses.dest6);
    } else {
        addresses.source = input.take<std::uint32_t>();
        addresses.dest = input.take<std::uint32_t>();
    }
    return addresses;
}

void built(Input& input) {
    const UdpAddresses addresses = drawn(input);
    const bool numbers_of_ipv6 = is_ipv6_number(addresses.source) || is_ipv6_number(addresses.dest);
    if (addresses.source6 == Ipv6Address{} && numbers_of_ipv6) {
        return;
    }
    const std::size_t change = input.take<std::uint16_t>();
    const auto by = static_cast<std::byte>(input.take<std::uint8_t>());
    auto frame = build(addresses, std::as_bytes(input.bytes(2048)));
    const auto parsed = parse_frame(frame);
    require(parsed && parsed->addresses == addresses, "a built frame is read as it was built");
    frame[change % frame.size()] ^= by;
    read(frame);
}

}  // namespace
}  // namespace ask::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace ask::fuzz;
    Input input(data, size);
    if (input.flag()) {
        built(input);
    } else {
        // A buffer of its own, so that AddressSanitizer sees a read past the end.
        const auto rest = std::as_bytes(input.bytes(size));
        const std::vector<std::byte> frame(rest.begin(), rest.end());
        read(frame);
    }
    return 0;
}
