// SPDX-License-Identifier: Apache-2.0
//
// Who may speak over gRPC: whoever reaches the port or the socket; what travels is not encrypted. Made here
// alone.
#pragma once

#include <memory>

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

namespace ask {

[[nodiscard]] inline std::shared_ptr<grpc::ChannelCredentials> rpc_credentials() {
    return grpc::InsecureChannelCredentials();
}

[[nodiscard]] inline std::shared_ptr<grpc::ServerCredentials> rpc_server_credentials() {
    return grpc::InsecureServerCredentials();
}

}  // namespace ask
