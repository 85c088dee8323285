// SPDX-License-Identifier: Apache-2.0
//
// ask-e2e-packet JSON: sends one ASK packet from a plain UDP socket, sealed, with whatever the caller likes
// in it.
//   from, to         "ADDRESS:PORT"; the packet's channel is `from`, unless `channel` says another
//   type             "data" (one tuple in slot 0 of one row), "fin"
//   instance, incarnation, seq, secret (hexadecimal, 16 bytes), mark ([switch, incarnation])
//   key, value       of the tuple; a key of up to 4 bytes
//   items            that a FIN says there were
#include "lib/engine/packet.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lib/base/bytes.h"
#include "lib/base/unique_fd.h"
#include "lib/tuples/types.h"

namespace {

using nlohmann::json;
using namespace ask;

constexpr Geometry kGeometry{16, 8, 2, 5};

std::optional<sockaddr_in> parse_address(const std::string& text) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    const auto colon = text.find(':');
    if (colon == std::string::npos ||
        ::inet_pton(AF_INET, text.substr(0, colon).c_str(), &address.sin_addr) != 1) {
        return std::nullopt;
    }
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoul(text.substr(colon + 1))));
    return address;
}

CheckSecret parse_secret(const std::string& hex) {
    CheckSecret secret{};
    for (std::size_t i = 0; i < 16 && 2 * i + 1 < hex.size(); ++i) {
        const std::uint64_t byte = std::stoul(hex.substr(2 * i, 2), nullptr, 16);
        secret.at(i / 8) |= byte << (8 * (i % 8));
    }
    return secret;
}

std::vector<std::byte> build(const json& order, const sockaddr_in& from, const sockaddr_in& to) {
    const bool data = order.at("type") == "data";
    const sockaddr_in channel =
        order.contains("channel") ? parse_address(order.at("channel")).value_or(from) : from;
    Header header;
    header.type = data ? ASK_DATA : ASK_FIN;
    header.rows = data ? 1 : 0;
    header.format = format_of(kGeometry, Op::kSum);
    header.instance = std::stoull(order.at("instance").get<std::string>());
    header.channel = {ntohl(channel.sin_addr.s_addr), ntohs(channel.sin_port)};
    header.incarnation = order.at("incarnation");
    header.mark = {order.at("mark").at(0), order.at("mark").at(1)};
    header.seq = order.at("seq");
    const std::array<std::uint32_t, 1> bitmap = {1};
    std::vector<std::byte> payload(data ? kGeometry.payload_bytes(1) : sizeof(ask_hdr) + sizeof(ask_fin));
    const std::size_t body = write_header(payload, header, std::span(bitmap).first(data ? 1 : 0));
    if (data) {
        const std::string key = order.at("key");
        ask_slot slot{};
        std::memcpy(&slot.kpart, key.data(), std::min(key.size(), sizeof(slot.kpart)));
        slot.vpart = htonl(static_cast<std::uint32_t>(order.at("value").get<std::int32_t>()));
        std::memcpy(&payload[body], &slot, sizeof(slot));
    } else {
        store_be(&payload[body], order.at("items").get<std::uint64_t>());
    }
    CheckKey(parse_secret(order.at("secret"))).seal(payload, {ntohs(from.sin_port), ntohs(to.sin_port)});
    return payload;
}

int complain(const char* what) {
    std::fprintf(stderr, "ask-e2e-packet: %s: %s\n", what, std::strerror(errno));
    return 1;
}

int run(const json& order) {
    const auto from = parse_address(order.at("from"));
    const auto to = parse_address(order.at("to"));
    if (!from || !to) {
        std::fprintf(stderr, "ask-e2e-packet: from and to are ADDRESS:PORT\n");
        return 2;
    }
    const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    // As the agents send: the keyed check covers more than UDP's checksum.
    if (::setsockopt(socket.get(), SOL_SOCKET, SO_NO_CHECK, &on, sizeof(on)) != 0 ||
        ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&*from), sizeof(*from)) != 0) {
        return complain("bind");
    }
    const std::vector<std::byte> payload = build(order, *from, *to);
    const auto sent = ::sendto(socket.get(), payload.data(), payload.size(), 0,
                               reinterpret_cast<const sockaddr*>(&*to), sizeof(*to));
    return sent == static_cast<ssize_t>(payload.size()) ? 0 : complain("send");
}

}  // namespace

int main(int argc, char** argv) {
    const json order = argc == 2 ? json::parse(argv[1], nullptr, false) : json();
    if (!order.is_object()) {
        std::fprintf(stderr, "usage: ask-e2e-packet JSON\n");
        return 2;
    }
    return run(order);
}
