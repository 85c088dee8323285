// SPDX-License-Identifier: Apache-2.0
//
// Addresses of hosts, with ports and as ranges, as people write them: what is read is of one family and is
// written so that it is read again; a host has a number of its family; and a range holds exactly the hosts
// that begin like it, compared bit by bit.
#include <bitset>
#include <string>

#include "lib/net/address.h"
#include "lib/net/address_range.h"
#include "lib/net/host_book.h"
#include "tests/fuzz/fuzz.h"

namespace ask::fuzz {
namespace {

void check_host(const NamedHost& host, std::string_view text) {
    require(host.ipv6.has_value() == is_ipv6_number(host.number), "a number is of its host's family");
    if (!host.ipv6) {
        require(parse_ipv4(text) == host.number || parse_ipv6(text).has_value(), "IPv4 is its own number");
        return;
    }
    require(parse_ipv6(text) == host.ipv6 && number_of(*host.ipv6) == host.number,
            "a host is what was written");
    require(check_ipv6_host(*host.ipv6).ok(), "a host's address is one that hosts have");
}

void check_written(const NamedHost& host) {
    const std::string text = host.ipv6 ? format_ipv6(*host.ipv6) : format_ipv4(host.number);
    const auto again = read_host(text);
    require(again.ok() && again->number == host.number && again->ipv6 == host.ipv6,
            "a host that is written is read as itself");
    const std::string control = (host.ipv6 ? "[" + text + "]" : text) + ":4791";
    const auto at = read_host_of_control(control);
    require(at.ok() && at->number == host.number && at->ipv6 == host.ipv6, "and so with a port");
    require(check_host_port(control).ok() && canonical_host_port(control) == control,
            "what is written with a port is as it is to be");
}

// The bits of an address, from the left.
std::string bits_of(const NamedHost& host) {
    if (!host.ipv6) {
        return std::bitset<32>(host.number).to_string();
    }
    std::string bits;
    for (const std::uint8_t byte : *host.ipv6) {
        bits += std::bitset<8>(byte).to_string();
    }
    return bits;
}

NamedHost host_of(const std::string& bits) {
    if (bits.size() == 32) {
        return {.number = static_cast<std::uint32_t>(std::bitset<32>(bits).to_ulong())};
    }
    Ipv6Address address{};
    for (std::size_t i = 0; i < address.size(); ++i) {
        address[i] = static_cast<std::uint8_t>(std::bitset<8>(bits.substr(8 * i, 8)).to_ulong());
    }
    return {.number = number_of(address), .ipv6 = address};
}

bool is_of_a_host(const NamedHost& host) {
    return host.ipv6 || !is_ipv6_number(host.number);
}

void check_range(const AddressRange& range, std::string_view text, Input& input) {
    const NamedHost first{.number = range.first6 ? 0 : range.first, .ipv6 = range.first6};
    const std::string begin = bits_of(first);
    require(range.bits <= begin.size(), "a range has no more bits than addresses have");
    require(begin.find('1', range.bits) == std::string::npos, "a range begins at its lowest address");
    const auto last_slash = text.find('/');
    require(range.first6 ? parse_ipv6(text.substr(0, last_slash)) == range.first6
                         : parse_ipv4(text.substr(0, last_slash)) == range.first,
            "a range begins where it was written to");
    std::string inside = begin;
    for (std::size_t i = range.bits; i < inside.size(); ++i) {
        inside[i] = input.flag() ? '1' : '0';
    }
    require(!is_of_a_host(host_of(inside)) || range.contains(host_of(inside)),
            "what begins like it is in a range");
    if (range.bits > 0) {
        char& bit = inside[input.take<std::uint8_t>() % range.bits];
        bit = bit == '0' ? '1' : '0';
        require(!range.contains(host_of(inside)), "what begins otherwise is in no such range");
    }
    const NamedHost other =
        range.first6 ? NamedHost{.number = 0xc6120102} : host_of(begin + std::string(96, '0'));
    require(!range.contains(other), "a range is of one family");
}

void read(std::string_view text, Input& input) {
    const auto ipv4 = parse_ipv4(text);
    const auto ipv6 = parse_ipv6(text);
    require(!ipv4 || !ipv6, "an address is of one family");
    require(!ipv4 || parse_ipv4(format_ipv4(*ipv4)) == ipv4, "IPv4 is written as it is read");
    require(!ipv6 || parse_ipv6(format_ipv6(*ipv6)) == ipv6, "IPv6 is written as it is read");
    if (const auto host = read_host(text); host.ok()) {
        check_host(*host, text);
        check_written(*host);
    }
    if (const auto host = read_host_of_control(text); host.ok()) {
        require(check_host_port(text).ok(), "a control address is one with a port");
        std::string_view name = text.substr(0, text.rfind(':'));
        name = name.front() == '[' ? name.substr(1, name.size() - 2) : name;
        check_host(*host, name);
        check_written(*host);
    }
    if (check_host_port(text).ok()) {
        require(canonical_host_port(canonical_host_port(std::string(text))) ==
                    canonical_host_port(std::string(text)),
                "what is in its form stays so");
    }
    const auto range = parse_address_range(text);
    require(range.ok() == check_address_range(text).ok(), "a range is checked as it is read");
    if (range.ok()) {
        check_range(*range, text, input);
    }
}

// An address of either family, of whatever bits, and a range that begins at it or near it.
void made(Input& input) {
    NamedHost host;
    if (input.flag()) {
        Ipv6Address address{};
        const auto bytes = input.bytes(address.size());
        std::copy(bytes.begin(), bytes.end(), address.begin());
        host = {.number = number_of(address), .ipv6 = address};
    } else {
        host.number = input.take<std::uint32_t>();
    }
    std::string bits = bits_of(host);
    const std::size_t length = input.take<std::uint8_t>() % (bits.size() + 1);
    if (input.flag()) {
        std::fill(bits.begin() + static_cast<std::ptrdiff_t>(length), bits.end(), '0');
    }
    const NamedHost first = host_of(bits);
    const std::string text =
        (first.ipv6 ? format_ipv6(*first.ipv6) : format_ipv4(first.number)) + "/" + std::to_string(length);
    if (bits.find('1', length) != std::string::npos) {
        require(!parse_address_range(text).ok(), "a range that does not begin at its lowest address is none");
    }
    read(text, input);
    read(text.substr(0, text.find('/')), input);
}

}  // namespace
}  // namespace ask::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace ask::fuzz;
    Input input(data, size);
    if (input.flag()) {
        made(input);
    } else {
        const std::string text(input.text(input.take<std::uint8_t>()));
        read(text, input);
    }
    return 0;
}
