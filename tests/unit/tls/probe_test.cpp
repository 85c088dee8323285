// SPDX-License-Identifier: Apache-2.0
//
// Why nobody can be spoken to: one that dies while it is asked has refused nobody.
#include "lib/tls/probe.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <string>
#include <thread>

#include "lib/base/unique_fd.h"
#include "lib/tls/openssl.h"
#include "tests/unit/tls/folder.h"

using namespace ask;
using namespace ask::test;

namespace {

// How far it gets with each connection before that ends.
enum class Until { kHello, kHandshake };
// The end of a process closes its connections; with something in them unread the other side sees a reset.
enum class End { kClosed, kReset };

// Takes `connections` one after the other, and nobody listens any more by the end of the last.
class Server {
 public:
    Server(const TlsFiles& files, Until until, End end, int connections)
        : identity_(*TlsIdentity::load(files)),
          until_(until),
          end_(end),
          listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in own{};
        own.sin_family = AF_INET;
        own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof(own);
        auto* const address = reinterpret_cast<sockaddr*>(&own);
        REQUIRE(::bind(listener_.get(), address, size) == 0);
        REQUIRE(::listen(listener_.get(), 8) == 0);
        REQUIRE(::getsockname(listener_.get(), address, &size) == 0);
        address_ = "127.0.0.1:" + std::to_string(ntohs(own.sin_port));
        thread_ = std::thread([this, connections] { serve(connections); });
    }
    ~Server() {
        ::shutdown(listener_.get(), SHUT_RDWR);
        thread_.join();
    }
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    [[nodiscard]] const std::string& address() const { return address_; }

 private:
    void serve(int connections) {
        for (int i = 1; i <= connections; ++i) {
            UniqueFd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
            if (!connection) {
                return;
            }
            go_on(connection.get());
            if (i == connections) {
                ::shutdown(listener_.get(), SHUT_RDWR);
            }
            if (end_ == End::kReset) {
                const linger none{.l_onoff = 1, .l_linger = 0};
                ::setsockopt(connection.get(), SOL_SOCKET, SO_LINGER, &none, sizeof(none));
            }
        }
    }
    void go_on(int fd) const {
        if (until_ == Until::kHello) {
            std::array<char, 4096> hello{};
            static_cast<void>(::recv(fd, hello.data(), hello.size(), 0));
            return;
        }
        const tls::Context context(SSL_CTX_new(TLS_server_method()));
        const auto chain = tls::certificates_of(identity_.certificate);
        const tls::Key key = tls::key_of(identity_.key);
        SSL_CTX_use_certificate(context.get(), chain.front().get());
        SSL_CTX_use_PrivateKey(context.get(), key.get());
        const tls::Session session(SSL_new(context.get()));
        SSL_set_fd(session.get(), fd);
        CHECK(SSL_accept(session.get()) == 1);
    }

    const TlsIdentity identity_;
    const Until until_;
    const End end_;
    const UniqueFd listener_;
    std::string address_;
    std::thread thread_;
};

Error ask_one(const CertificateFolder& folder, Until until, End end, int connections) {
    const auto own = TlsIdentity::load(folder.issue("h1"));
    REQUIRE_MESSAGE(own.ok(), own.error().text());
    const Server server(folder.issue("sw"), until, end, connections);
    const auto asked = probe_rpc_port({.address = server.address(), .identity = &*own});
    REQUIRE_FALSE(asked.ok());
    CAPTURE(asked.error().text());
    return asked.error();
}

}  // namespace

TEST_CASE("one that dies while it is asked has refused nobody, however far it got") {
    const CertificateFolder folder;
    for (const Until until : {Until::kHello, Until::kHandshake}) {
        for (const End end : {End::kClosed, End::kReset}) {
            CAPTURE(static_cast<int>(until));
            CAPTURE(static_cast<int>(end));
            const Error why = ask_one(folder, until, end, 1);
            CHECK_MESSAGE(why.code() == Errc::kUnavailable, why.text());
        }
    }
}

TEST_CASE("one that ends connections again and again, with the handshake behind it, refuses") {
    const CertificateFolder folder;
    const Error why = ask_one(folder, Until::kHandshake, End::kClosed, 8);
    CHECK(why.code() == Errc::kDenied);
    CHECK_MESSAGE(why.text().find("refuses our certificate without a word") != std::string::npos, why.text());
}
