// SPDX-License-Identifier: Apache-2.0
//
// From a call to its caller.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <grpcpp/security/auth_context.h>
#include <grpcpp/server_context.h>

#include "lib/rpc/caller.h"

namespace ask {

// Of a call that is being handled: its connection, and with it what is asked here, lasts as long as the call.
[[nodiscard]] Caller caller_of(const grpc::ServerContext& context);

// Whether the certificate that was shown over a connection has this URI among its names.
[[nodiscard]] bool shows_uri(const grpc::AuthContext* auth, std::string_view uri);

// And the addresses among them.
[[nodiscard]] std::vector<std::string> shown_addresses(const grpc::AuthContext* auth);

// The part of it that follows from gRPC's name for the other end: "ipv4:198.18.1.2:40000",
// "ipv6:%5B::1%5D:40000", and "fd:7" of a connection that was accepted on a Unix socket.
[[nodiscard]] Caller caller_from_peer(std::string_view peer);

}  // namespace ask
