// SPDX-License-Identifier: Apache-2.0
#include "lib/tls/probe.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <memory>

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "lib/base/unique_fd.h"
#include "lib/net/address.h"
#include "lib/tls/openssl.h"

namespace ask {
namespace {

using namespace tls;
using Clock = std::chrono::steady_clock;

// What a client of HTTP/2 says first: the preface of HTTP/2 and an empty SETTINGS frame.
constexpr std::array<unsigned char, 33> kHello = {
    'P',  'R', 'I', ' ',  '*',  ' ',  'H',  'T', 'T', 'P', '/', '2', '.', '0', '\r', '\n', '\r',
    '\n', 'S', 'M', '\r', '\n', '\r', '\n', 0,   0,   0,   4,   0,   0,   0,   0,    0};

// Whether the connection has ended, by the code that SSL_get_error() gave for it.
bool is_end(int code) {
    return ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING ||
           (code == SSL_ERROR_SYSCALL && ERR_peek_last_error() == 0);
}

Error silent(const std::string& address) {
    return {Errc::kDeadline, address + " takes a connection and says nothing"};
}

// Of a socket that is to be connected to `other`. 0: none is free.
std::uint16_t own_port(int fd, const addrinfo& other) {
    sockaddr_storage own{};
    own.ss_family = static_cast<sa_family_t>(other.ai_family);
    auto* const address = reinterpret_cast<sockaddr*>(&own);
    socklen_t size = other.ai_addrlen;
    if (::bind(fd, address, size) != 0 || ::getsockname(fd, address, &size) != 0) {
        return 0;
    }
    return ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&own)->sin6_port
                                           : reinterpret_cast<const sockaddr_in*>(&own)->sin_port);
}

// OpenSSL writes to a connection that the other side has closed as if SIGPIPE were nothing.
class NoBrokenPipe {
 public:
    NoBrokenPipe() {
        sigemptyset(&only_);
        sigaddset(&only_, SIGPIPE);
        pthread_sigmask(SIG_BLOCK, &only_, &before_);
    }
    ~NoBrokenPipe() {
        const timespec now{};
        while (!sigismember(&before_, SIGPIPE) && sigtimedwait(&only_, nullptr, &now) > 0) {
        }
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    NoBrokenPipe(const NoBrokenPipe&) = delete;
    NoBrokenPipe& operator=(const NoBrokenPipe&) = delete;

 private:
    sigset_t only_{};
    sigset_t before_{};
};

class Dialogue {
 public:
    Dialogue(const Probe& probe, Clock::time_point end) : probe_(probe), end_(end) {}

    Result<> run() {
        ASK_PASS(connect());
        return probe_.identity == nullptr ? plain() : encrypted();
    }
    // Whether the other side ended it where it may have something against us, and did not say what.
    [[nodiscard]] bool ended_in_silence() const { return ended_in_silence_; }

 private:
    Result<> connect();
    Result<> plain();
    Result<> encrypted();
    Result<> prepare();
    Result<> shake_hands();
    Result<> hear();
    Error explain_handshake(int code) const;
    Error explain_end(int code);
    // False: no time is left.
    bool await(int fd, short events) const;
    bool await_session(int code) const {
        return await(fd_.get(), code == SSL_ERROR_WANT_WRITE ? POLLOUT : POLLIN);
    }

    const Probe& probe_;
    const Clock::time_point end_;
    std::string host_;
    UniqueFd fd_;
    Context context_;
    Session session_;
    bool ended_in_silence_ = false;
};

bool Dialogue::await(int fd, short events) const {
    for (;;) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(end_ - Clock::now()).count();
        pollfd entry{.fd = fd, .events = events, .revents = 0};
        const int ready = ::poll(&entry, 1, static_cast<int>(std::max<decltype(left)>(left, 0)));
        if (ready >= 0 || errno != EINTR) {
            return ready > 0;
        }
    }
}

Result<> Dialogue::connect() {
    const auto parts = split_host_port(probe_.address);
    ASK_TRY(parts, probe_.address);
    host_ = parts->host;
    if (host_.starts_with('[') && host_.ends_with(']')) {
        host_ = host_.substr(1, host_.size() - 2);
    }
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV;
    addrinfo* found = nullptr;
    if (const int error = ::getaddrinfo(host_.c_str(), std::to_string(parts->port).c_str(), &hints, &found);
        error != 0) {
        return Error(Errc::kUnavailable,
                     "the name \"" + host_ + "\" does not resolve: " + ::gai_strerror(error));
    }
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, &::freeaddrinfo);
    fd_.reset(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd_) {
        return Error::from_errno(errno, "a socket to " + probe_.address);
    }
    if (probe_.bound) {
        probe_.bound(own_port(fd_.get(), *found));
    }
    int err = ::connect(fd_.get(), found->ai_addr, found->ai_addrlen) == 0 ? 0 : errno;
    if (err == EINPROGRESS) {
        if (!await(fd_.get(), POLLOUT)) {
            return Error(Errc::kDeadline, probe_.address + " does not answer");
        }
        socklen_t size = sizeof(err);
        ::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &err, &size);
    }
    return err == 0
               ? Result<>()
               : Error(Errc::kUnavailable, Error::from_errno(err, "connect to " + probe_.address).text());
}

Result<> Dialogue::plain() {
    std::array<char, 64> room{};
    if (::send(fd_.get(), kHello.data(), kHello.size(), MSG_NOSIGNAL) < 0 || !await(fd_.get(), POLLIN)) {
        return silent(probe_.address);
    }
    // A server of HTTP/2 begins with SETTINGS, type 4; one of TLS with an alert, or the end.
    const ssize_t size = ::recv(fd_.get(), room.data(), room.size(), 0);
    constexpr std::size_t kTypeAt = 3;
    if (size > static_cast<ssize_t>(kTypeAt) && room[0] == 0 && room[kTypeAt] == 4) {
        return {};
    }
    ended_in_silence_ = size <= 0;
    return Error(Errc::kDenied,
                 probe_.address +
                     " does not speak plain text: take `plain_text` out of the configuration here, or "
                     "put it in there");
}

Result<> Dialogue::prepare() {
    const TlsIdentity& identity = *probe_.identity;
    context_.reset(SSL_CTX_new(TLS_client_method()));
    SSL_CTX_set_min_proto_version(context_.get(), TLS1_2_VERSION);
    for (const Certificate& authority : certificates_of(identity.ca)) {
        X509_STORE_add_cert(SSL_CTX_get_cert_store(context_.get()), authority.get());
    }
    const auto chain = certificates_of(identity.certificate);
    const Key key = key_of(identity.key);
    if (chain.empty() || !key || SSL_CTX_use_certificate(context_.get(), chain.front().get()) != 1 ||
        SSL_CTX_use_PrivateKey(context_.get(), key.get()) != 1) {
        return Error(Errc::kInternal, "own certificate: " + last_complaint());
    }
    for (std::size_t i = 1; i < chain.size(); ++i) {
        SSL_CTX_add1_chain_cert(context_.get(), chain[i].get());
    }
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    static constexpr std::array<unsigned char, 3> kHttp2 = {2, 'h', '2'};
    SSL_CTX_set_alpn_protos(context_.get(), kHttp2.data(), kHttp2.size());
    session_.reset(SSL_new(context_.get()));
    X509_VERIFY_PARAM* const wanted = SSL_get0_param(session_.get());
    // An address is no name to OpenSSL, nor a name an address.
    if (probe_.check_name && X509_VERIFY_PARAM_set1_ip_asc(wanted, host_.c_str()) != 1) {
        X509_VERIFY_PARAM_set1_host(wanted, host_.c_str(), host_.size());
    }
    ERR_clear_error();
    SSL_set_fd(session_.get(), fd_.get());
    return {};
}

Error Dialogue::explain_handshake(int code) const {
    const std::string there = probe_.address;
    const long verdict = SSL_get_verify_result(session_.get());
    if (verdict == X509_V_ERR_HOSTNAME_MISMATCH || verdict == X509_V_ERR_IP_ADDRESS_MISMATCH) {
        last_complaint();
        return {Errc::kDenied, "the certificate of " + there + " is not for " + host_ +
                                   ": name a host or address that it is for, or issue one that has this one "
                                   "(askctl ca issue NAME=" +
                                   host_ + ")"};
    }
    if (verdict != X509_V_OK) {
        last_complaint();
        X509* const shown = SSL_get0_peer_certificate(session_.get());
        return {Errc::kDenied, "the certificate of " + there + " " + explain_chain(verdict, shown)};
    }
    if (is_end(code)) {
        ERR_clear_error();
        return {Errc::kUnavailable, there + " ends the connection instead of speaking TLS"};
    }
    const int reason = ERR_GET_REASON(ERR_peek_last_error());
    if (code == SSL_ERROR_SSL && (reason == SSL_R_WRONG_VERSION_NUMBER ||
                                  reason == SSL_R_PACKET_LENGTH_TOO_LONG || reason == SSL_R_HTTP_REQUEST)) {
        last_complaint();
        return {Errc::kDenied,
                there +
                    " speaks plain text, and TLS is wanted here: give it a certificate, or set "
                    "`plain_text` here"};
    }
    // From here on it is the other side that does not want us.
    const std::string refuses = there + " refuses our certificate: ";
    switch (reason) {
        case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
            last_complaint();
            return {Errc::kDenied,
                    refuses +
                        "it is not signed by the CA that is trusted there: all hosts and switches "
                        "need certificates of one CA (askctl ca issue), and its ca.pem"};
        case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
            last_complaint();
            return {Errc::kDenied,
                    refuses +
                        "it has expired by the clock there: issue a new one (askctl ca issue), or "
                        "set that clock"};
        case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
        case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
        case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
        case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
            return {Errc::kDenied, refuses + last_complaint()};
        default:
            break;
    }
    return {Errc::kDenied, there + " cannot be spoken to by TLS: " + last_complaint()};
}

Result<> Dialogue::shake_hands() {
    for (;;) {
        const int done = SSL_connect(session_.get());
        if (done == 1) {
            return {};
        }
        const int code = SSL_get_error(session_.get(), done);
        if (code != SSL_ERROR_WANT_READ && code != SSL_ERROR_WANT_WRITE) {
            return explain_handshake(code);
        }
        if (!await_session(code)) {
            return silent(probe_.address);
        }
    }
}

// Some servers, gRPC's among them, say nothing when a certificate that comes last in the handshake is none.
Error Dialogue::explain_end(int code) {
    if (!is_end(code)) {
        return explain_handshake(code);
    }
    ended_in_silence_ = true;
    ERR_clear_error();
    return {Errc::kDenied,
            probe_.address +
                " refuses our certificate without a word: it is not signed by the CA that is "
                "trusted there, or has expired by the clock there: all hosts and switches need "
                "certificates of one CA (askctl ca issue), and its ca.pem"};
}

// By TLS 1.3 a server judges the client's certificate only when the client has its handshake behind it.
// Nothing is said before that: a server that closes with something unread takes its reason along.
Result<> Dialogue::hear() {
    for (;;) {
        char byte = 0;
        const int read = SSL_read(session_.get(), &byte, 1);
        if (read == 1) {
            return {};
        }
        const int code = SSL_get_error(session_.get(), read);
        if (code != SSL_ERROR_WANT_READ && code != SSL_ERROR_WANT_WRITE) {
            return explain_end(code);
        }
        if (!await_session(code)) {
            return silent(probe_.address);
        }
    }
}

Result<> Dialogue::encrypted() {
    ERR_clear_error();
    ASK_PASS(prepare());
    ASK_PASS(shake_hands());
    return hear();
}

}  // namespace

Result<> probe_rpc_port(const Probe& probe) {
    const NoBrokenPipe quiet;
    const auto end = Clock::now() + probe.wait;
    Dialogue first(probe, end);
    auto answered = first.run();
    if (!first.ended_in_silence()) {
        return answered;
    }
    // So does one that dies, and it has nothing against us: but it takes no other connection.
    return Dialogue(probe, end).run();
}

}  // namespace ask
