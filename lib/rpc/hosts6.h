// SPDX-License-Identifier: Apache-2.0
//
// What travels beside the numbers of hosts in a message: the addresses of those that have IPv6
// (proto/common.proto).
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <google/protobuf/message.h>

#include "lib/base/result.h"
#include "lib/net/host_book.h"
#include "lib/rpc/caller.h"

namespace ask {

// Whether messages of this kind have room for them.
template <typename Message>
concept HasHosts6 = requires(const Message& message) {
    { message.hosts6_size() } -> std::convertible_to<int>;
};

// Puts the address of every IPv6 host whose number is in the message into its `hosts6`, once each, as far as
// the book (lib/net/host_book.h) knows it.
void explain_hosts(google::protobuf::Message& message);

// Of an answer: enters what its `hosts6` has into the book, and then every number in it is one of an IPv4
// host, or one that the book knows. kInput: an entry is no host's address, or of a host whose number is not
// in the message: nobody may fill another's book with more than he has to say. kUnknown: a number that
// nothing explains. Else as enter_ipv6().
[[nodiscard]] Result<> take_hosts(const google::protobuf::Message& message);

// Of a request: the same, but of hosts that the book does not know only those are entered that the caller
// acts for. If `about` is one of these, what he asks for is his to ask, and its other hosts are introduced.
// kDenied: it names another.
[[nodiscard]] Result<> take_hosts(const google::protobuf::Message& message, const Caller& caller,
                                  std::optional<std::uint32_t> about = std::nullopt);

// The most hosts that are not his own, and that the process has not heard of, that a caller may make known to
// it.
inline constexpr std::size_t kMostIntroduced = 8192;
// The number of a host that a request is about which its caller may make. kLimit: he has made too many known.
[[nodiscard]] Result<std::uint32_t> introduce(const NamedHost& host, const Caller& caller);
// That of a host that a user of this machine names. The same, but that root may name any number.
[[nodiscard]] Result<std::uint32_t> introduce(const NamedHost& host, std::uint32_t user);

}  // namespace ask
