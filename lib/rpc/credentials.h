// SPDX-License-Identifier: Apache-2.0
//
// Who may speak over gRPC: whoever shows a certificate of our CA; on a Unix socket, whoever its file lets in;
// and whoever comes, where plain text was asked for. Credentials are made here alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include "lib/base/result.h"
#include "lib/tls/identity.h"

namespace ask {

// Where gRPC may do without certificates and encryption.
enum class PlainText : std::uint8_t { kNowhere, kLoopback, kEverywhere };
// By the names that configurations have for them: "never", "loopback", "everywhere". kNowhere for any other.
[[nodiscard]] PlainText plain_text_from(std::string_view name);

struct RpcSecurity {
    PlainText plain_text = PlainText::kNowhere;
    TlsFiles files;
};

// Thread-safe.
class RpcCredentials {
 public:
    // With plain text the files are not looked at.
    static Result<std::shared_ptr<RpcCredentials>> create(const RpcSecurity& security);

    [[nodiscard]] bool encrypted() const { return security_.plain_text == PlainText::kNowhere; }
    // Whether what listens at, or is called at, HOST:PORT may be without TLS, if it is. kDenied: it must not.
    [[nodiscard]] Result<> check_address(const std::string& address) const;

    // For connections from now on; of a later generation others.
    [[nodiscard]] std::shared_ptr<grpc::ChannelCredentials> of_channel() const;
    // To be kept for the server's life: each new connection is judged by the newest files.
    [[nodiscard]] std::shared_ptr<grpc::ServerCredentials> of_server();
    [[nodiscard]] std::uint64_t generation() const;
    // Reads the files again if they have changed. True: they are in force now. With an error, which names the
    // file, everything stays as it was.
    Result<bool> refresh();
    // When our own certificate ends; 0: there is none.
    [[nodiscard]] std::shared_ptr<const TlsIdentity> identity() const;

    // What is wrong between HOST:PORT and us, if a call there ended as unavailable, which gRPC put as `said`,
    // and a handshake of our own fails for a reason that will not go away by itself: kDenied.
    [[nodiscard]] std::optional<Error> diagnose(const std::string& address, std::string_view said) const;

 private:
    explicit RpcCredentials(const RpcSecurity& security) : security_(security) {}

    const RpcSecurity security_;
    mutable std::mutex mutex_;
    std::shared_ptr<const TlsIdentity> identity_;  // under mutex_, as what follows
    std::uint64_t stamp_ = 0;
    std::uint64_t generation_ = 0;
    struct Diagnosis {
        std::string address;
        std::chrono::steady_clock::time_point made;
        std::optional<Error> found;
    };
    mutable Diagnosis last_;  // whoever tries again at once is told the same
};

// On Unix sockets, whose files say who may connect.
[[nodiscard]] std::shared_ptr<grpc::ChannelCredentials> local_credentials();

}  // namespace ask
