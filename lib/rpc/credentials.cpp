// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/credentials.h"

#include <arpa/inet.h>

#include <utility>

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include "lib/net/address.h"
#include "lib/rpc/unreachable.h"
#include "lib/tls/probe.h"

namespace ask {
namespace {

// What a handshake may take that is repeated to find out why it failed.
constexpr std::chrono::milliseconds kDiagnosisWait{1000};
constexpr std::chrono::milliseconds kDiagnosisGoodFor{1000};

// gRPC asks for certificates at each handshake. `user` is the RpcCredentials; a config that is no other than
// the last one is not made again.
class FreshCertificates final : public grpc::ServerCredentials {
 public:
    explicit FreshCertificates(RpcCredentials& credentials) : credentials_(credentials) {}

    void SetAuthMetadataProcessor(
        const std::shared_ptr<grpc::AuthMetadataProcessor>& /*processor*/) override {}

 private:
    static grpc_ssl_certificate_config_reload_status fetch(void* self,
                                                           grpc_ssl_server_certificate_config** config) {
        return static_cast<FreshCertificates*>(self)->fetch(config);
    }

    grpc_ssl_certificate_config_reload_status fetch(grpc_ssl_server_certificate_config** config) {
        const std::uint64_t now = credentials_.generation();
        const std::lock_guard lock(mutex_);
        if (now == given_) {
            return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
        }
        const auto identity = credentials_.identity();
        const grpc_ssl_pem_key_cert_pair pair{.private_key = identity->key.c_str(),
                                              .cert_chain = identity->certificate.c_str()};
        *config = grpc_ssl_server_certificate_config_create(identity->ca.c_str(), &pair, 1);
        given_ = now;
        return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
    }

    int AddPortToServer(const std::string& address, grpc_server* server) override {
        grpc_server_credentials* const credentials = grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(
                GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY, &FreshCertificates::fetch, this));
        const int port = grpc_server_add_http2_port(server, address.c_str(), credentials);
        grpc_server_credentials_release(credentials);
        return port;
    }

    RpcCredentials& credentials_;
    std::mutex mutex_;
    std::uint64_t given_ = 0;  // under mutex_
};

// What gRPC says where a TCP connection came about and then did not do.
bool may_be_handshake(std::string_view said) {
    for (const std::string_view part :
         {"andshake", "Socket closed", "Connection reset", "Broken pipe", "recvmsg", "GOAWAY", "SSL", "TLS",
          "peer", "Trying to connect an http1.x server", "failed to connect"}) {
        if (said.find(part) != std::string_view::npos) {
            return true;
        }
    }
    return false;
}

}  // namespace

PlainText plain_text_from(std::string_view name) {
    return name == "everywhere" ? PlainText::kEverywhere
           : name == "loopback" ? PlainText::kLoopback
                                : PlainText::kNowhere;
}

Result<std::shared_ptr<RpcCredentials>> RpcCredentials::create(const RpcSecurity& security) {
    std::shared_ptr<RpcCredentials> credentials(new RpcCredentials(security));
    if (credentials->encrypted()) {
        ASK_PASS(credentials->refresh());
    }
    return credentials;
}

Result<> RpcCredentials::check_address(const std::string& address) const {
    if (security_.plain_text != PlainText::kLoopback || is_loopback(address)) {
        return {};
    }
    return Error(Errc::kDenied, address +
                                    ": is not loopback, and plain text is allowed nowhere else: set a "
                                    "certificate (askctl ca), or `plain_text` to \"everywhere\" where nobody "
                                    "else is on the network");
}

std::shared_ptr<grpc::ChannelCredentials> RpcCredentials::of_channel() const {
    const auto shown = identity();
    return shown ? grpc::SslCredentials({.pem_root_certs = shown->ca,
                                         .pem_private_key = shown->key,
                                         .pem_cert_chain = shown->certificate})
                 : grpc::InsecureChannelCredentials();
}

std::shared_ptr<grpc::ServerCredentials> RpcCredentials::of_server() {
    return encrypted() ? std::make_shared<FreshCertificates>(*this) : grpc::InsecureServerCredentials();
}

std::uint64_t RpcCredentials::generation() const {
    const std::lock_guard lock(mutex_);
    return generation_;
}

std::shared_ptr<const TlsIdentity> RpcCredentials::identity() const {
    const std::lock_guard lock(mutex_);
    return identity_;
}

Result<bool> RpcCredentials::refresh() {
    if (!encrypted()) {
        return false;
    }
    // Before they are read: what changes meanwhile is looked at again.
    const std::uint64_t stamp = stamp_of(security_.files);
    {
        const std::lock_guard lock(mutex_);
        if (identity_ && stamp == stamp_) {
            return false;
        }
        stamp_ = stamp;
    }
    auto fresh = TlsIdentity::load(security_.files);
    ASK_PASS(fresh);
    const std::lock_guard lock(mutex_);
    if (identity_ && *identity_ == *fresh) {
        return false;
    }
    identity_ = std::make_shared<const TlsIdentity>(*std::move(fresh));
    ++generation_;
    return true;
}

std::optional<Error> RpcCredentials::diagnose(const std::string& address, std::string_view said) const {
    if (!may_be_handshake(said) || why_unreachable(address, said) != said) {
        return std::nullopt;
    }
    const auto now = std::chrono::steady_clock::now();
    {
        const std::lock_guard lock(mutex_);
        if (last_.address == address && now - last_.made < kDiagnosisGoodFor) {
            return last_.found;
        }
    }
    const auto shown = identity();
    const auto tried = probe_rpc_port({.address = address, .identity = shown.get(), .wait = kDiagnosisWait});
    std::optional<Error> found;
    if (!tried.ok() && tried.error().code() == Errc::kDenied) {
        found = tried.error();
    }
    const std::lock_guard lock(mutex_);
    last_ = {.address = address, .made = now, .found = found};
    return found;
}

std::shared_ptr<grpc::ChannelCredentials> local_credentials() {
    return grpc::InsecureChannelCredentials();
}

}  // namespace ask
