// SPDX-License-Identifier: Apache-2.0
#include "loader/veth_peer.h"

#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string_view>

#include "lib/base/unique_fd.h"

namespace ask {
namespace {

constexpr std::size_t kAnswerBytes = 32768;

struct LinkRequest {
    nlmsghdr header;
    ifinfomsg link;
    rtattr attribute;
    std::int32_t value;
};

// What an RTM_GETLINK answer says that matters here.
struct LinkAnswer {
    bool veth = false;
    bool program = false;
    bool native = false;
    std::uint32_t peer = 0;
    std::uint32_t master = 0;
    std::optional<std::int32_t> peer_namespace;
};

// Calls `visit(type, payload)` for each attribute.
template <typename F>
void for_each_attribute(const std::byte* data, std::size_t size, F visit) {
    while (size >= sizeof(rtattr)) {
        rtattr attribute{};
        std::memcpy(&attribute, data, sizeof(attribute));
        if (attribute.rta_len < sizeof(attribute) || attribute.rta_len > size) {
            return;
        }
        visit(static_cast<std::uint16_t>(attribute.rta_type & NLA_TYPE_MASK),
              std::string_view(reinterpret_cast<const char*>(data) + RTA_LENGTH(0),
                               attribute.rta_len - RTA_LENGTH(0)));
        const std::size_t step = std::min<std::size_t>(RTA_ALIGN(attribute.rta_len), size);
        data += step;
        size -= step;
    }
}

template <typename T>
T value_of(std::string_view payload) {
    T value{};
    std::memcpy(&value, payload.data(), std::min(payload.size(), sizeof(value)));
    return value;
}

void read_attribute(std::uint16_t type, std::string_view payload, LinkAnswer& answer) {
    const auto nested = [&payload](auto visit) {
        for_each_attribute(reinterpret_cast<const std::byte*>(payload.data()), payload.size(), visit);
    };
    if (type == IFLA_LINK) {
        answer.peer = value_of<std::uint32_t>(payload);
    } else if (type == IFLA_MASTER) {
        answer.master = value_of<std::uint32_t>(payload);
    } else if (type == IFLA_LINK_NETNSID) {
        answer.peer_namespace = value_of<std::int32_t>(payload);
    } else if (type == IFLA_LINKINFO) {
        nested([&answer](std::uint16_t inner, std::string_view text) {
            answer.veth = answer.veth || (inner == IFLA_INFO_KIND && text.starts_with("veth"));
        });
    } else if (type == IFLA_XDP) {
        nested([&answer](std::uint16_t inner, std::string_view payload_of) {
            if (inner == IFLA_XDP_ATTACHED) {
                const auto mode = value_of<std::uint8_t>(payload_of);
                answer.program = mode != XDP_ATTACHED_NONE;
                answer.native = mode == XDP_ATTACHED_DRV || mode == XDP_ATTACHED_MULTI;
            }
        });
    }
}

// Asks about one interface, in another network namespace if an id is given.
std::optional<LinkAnswer> ask_link(std::uint32_t ifindex, std::optional<std::int32_t> name_space) {
    const UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    LinkRequest request{};
    request.header.nlmsg_len =
        name_space ? sizeof(request) : static_cast<std::uint32_t>(offsetof(LinkRequest, attribute));
    request.header.nlmsg_type = RTM_GETLINK;
    request.header.nlmsg_flags = NLM_F_REQUEST;
    request.link.ifi_index = static_cast<int>(ifindex);
    request.attribute = {RTA_LENGTH(sizeof(request.value)), IFLA_TARGET_NETNSID};
    request.value = name_space.value_or(0);
    const timeval timeout{.tv_sec = 1, .tv_usec = 0};
    if (!socket || ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) != 0 ||
        ::send(socket.get(), &request, request.header.nlmsg_len, 0) < 0) {
        return std::nullopt;
    }
    std::array<std::byte, kAnswerBytes> buffer{};
    const ssize_t size = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
    nlmsghdr header{};
    constexpr std::size_t kFixed = NLMSG_LENGTH(NLMSG_ALIGN(sizeof(ifinfomsg)));
    if (size < static_cast<ssize_t>(kFixed)) {
        return std::nullopt;
    }
    std::memcpy(&header, buffer.data(), sizeof(header));
    if (header.nlmsg_type != RTM_NEWLINK || header.nlmsg_len < kFixed ||
        header.nlmsg_len > static_cast<std::size_t>(size)) {
        return std::nullopt;
    }
    LinkAnswer answer;
    for_each_attribute(
        buffer.data() + kFixed, header.nlmsg_len - kFixed,
        [&answer](std::uint16_t type, std::string_view payload) { read_attribute(type, payload, answer); });
    return answer;
}

}  // namespace

PeerAnswers peer_takes_answers(std::uint32_t ifindex) {
    const auto own = ask_link(ifindex, std::nullopt);
    if (!own || !own->veth) {
        return PeerAnswers::kTaken;
    }
    auto peer = ask_link(own->peer, own->peer_namespace);
    // The kernel says of a bond's members nothing of the program that it has put on them.
    if (peer && !peer->program && peer->master != 0) {
        peer = ask_link(peer->master, own->peer_namespace);
    }
    if (!peer || !peer->program) {
        return PeerAnswers::kNoProgram;
    }
    return peer->native ? PeerAnswers::kTaken : PeerAnswers::kGeneric;
}

}  // namespace ask
