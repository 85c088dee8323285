// SPDX-License-Identifier: Apache-2.0
#include "lib/tls/identity.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include <openssl/x509_vfy.h>

#include "lib/base/unique_fd.h"
#include "lib/tls/openssl.h"

namespace ask {
namespace {

using namespace tls;

constexpr off_t kLongestFile = 1 << 20;
constexpr const char* kMakeOne = ": make one with askctl ca, or name another";

std::string mode_text(mode_t mode) {
    std::array<char, 8> text{};
    std::snprintf(text.data(), text.size(), "%04o", static_cast<unsigned>(mode & 07777U));
    return text.data();
}

// Whoever can read the key is the host to everybody else.
Result<> check_key_mode(const struct stat& info, const std::string& path) {
    if ((info.st_mode & S_IRWXO) != 0 || (info.st_mode & S_IWGRP) != 0) {
        return Error(Errc::kDenied, path + ": others may read or change this key (mode " +
                                        mode_text(info.st_mode) + "): chmod 600 " + path +
                                        ", and issue a new one if somebody has");
    }
    if (info.st_uid != 0 && info.st_uid != ::geteuid()) {
        return Error(Errc::kDenied, path + ": this key belongs to user " + std::to_string(info.st_uid) +
                                        ", not to root or to user " + std::to_string(::geteuid()) +
                                        " who is to use it: chown it");
    }
    return {};
}

enum class FileKind : std::uint8_t { kCertificate, kKey };

Result<std::string> text_of_file(const std::string& path, FileKind kind) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!fd) {
        const int err = errno;
        Error error = Error::from_errno(err, path);
        return err == ENOENT ? Error(Errc::kUnknown, error.text() + kMakeOne) : std::move(error);
    }
    struct stat info{};
    if (::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_size > kLongestFile) {
        return Error(Errc::kInput,
                     path + ": is not a file of at most " + std::to_string(kLongestFile) + " bytes");
    }
    if (kind == FileKind::kKey) {
        ASK_PASS(check_key_mode(info, path));
    }
    std::string text(static_cast<std::size_t>(info.st_size), '\0');
    const ssize_t size = ::read(fd.get(), text.data(), text.size());
    if (size < 0) {
        return Error::from_errno(errno, "read " + path);
    }
    text.resize(static_cast<std::size_t>(size));
    return text;
}

Result<std::vector<Certificate>> certificates_in(const std::string& text, const std::string& path) {
    auto all = certificates_of(text);
    if (all.empty()) {
        return Error(Errc::kInput, path + ": holds no certificate in PEM" + kMakeOne);
    }
    return all;
}

Result<> check_chain(const TlsFiles& files, const std::vector<Certificate>& authorities,
                     const std::vector<Certificate>& chain) {
    const Store store(X509_STORE_new());
    for (const Certificate& authority : authorities) {
        X509_STORE_add_cert(store.get(), authority.get());
    }
    STACK_OF(X509)* const between = sk_X509_new_null();
    for (const Certificate& certificate : chain) {
        sk_X509_push(between, certificate.get());
    }
    const StoreContext context(X509_STORE_CTX_new());
    X509_STORE_CTX_init(context.get(), store.get(), chain.front().get(), between);
    const bool good = X509_verify_cert(context.get()) == 1;
    sk_X509_free(between);
    if (good) {
        return {};
    }
    const int code = X509_STORE_CTX_get_error(context.get());
    X509* const meant = X509_STORE_CTX_get_current_cert(context.get());
    const bool own = X509_STORE_CTX_get_error_depth(context.get()) < static_cast<int>(chain.size());
    return Error(Errc::kDenied, (own ? files.certificate + ": the certificate " : files.ca + ": the CA ") +
                                    explain_chain(code, meant));
}

std::time_t time_of(const ASN1_TIME* time) {
    std::tm parts{};
    ASN1_TIME_to_tm(time, &parts);
    return ::timegm(&parts);
}

}  // namespace

Result<CertificateTimes> certificate_times(const std::string& path) {
    const auto text = text_of_file(path, FileKind::kCertificate);
    ASK_PASS(text);
    const auto certificates = certificates_in(*text, path);
    ASK_PASS(certificates);
    X509* const first = certificates->front().get();
    return CertificateTimes{time_of(X509_get0_notBefore(first)), time_of(X509_get0_notAfter(first))};
}

TlsFiles TlsFiles::in(const std::string& directory) {
    return {.ca = directory + "/ca.pem",
            .certificate = directory + "/certificate.pem",
            .key = directory + "/key.pem"};
}

Result<TlsIdentity> TlsIdentity::load(const TlsFiles& files) {
    auto ca = text_of_file(files.ca, FileKind::kCertificate);
    ASK_PASS(ca);
    auto certificate = text_of_file(files.certificate, FileKind::kCertificate);
    ASK_PASS(certificate);
    auto key = text_of_file(files.key, FileKind::kKey);
    ASK_PASS(key);
    const auto authorities = certificates_in(*ca, files.ca);
    ASK_PASS(authorities);
    const auto chain = certificates_in(*certificate, files.certificate);
    ASK_PASS(chain);
    const Key secret = key_of(*key);
    if (!secret) {
        return Error(Errc::kInput, files.key + ": holds no key in PEM, or one with a passphrase" + kMakeOne);
    }
    if (X509_check_private_key(chain->front().get(), secret.get()) != 1) {
        last_complaint();
        return Error(Errc::kDenied, files.key + ": is not the key of " + files.certificate +
                                        ": take both from one folder that askctl ca issue has made");
    }
    ASK_PASS(check_chain(files, *authorities, *chain));
    TlsIdentity identity{
        .ca = *std::move(ca), .certificate = *std::move(certificate), .key = *std::move(key)};
    identity.expires = time_of(X509_get0_notAfter(chain->front().get()));
    identity.uris = uris_of(chain->front().get());
    return identity;
}

std::string TlsIdentity::expires_text() const {
    std::tm parts{};
    std::array<char, 32> text{};
    ::gmtime_r(&expires, &parts);
    std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
    return text.data();
}

std::uint64_t stamp_of(const TlsFiles& files) {
    constexpr std::uint64_t kMix = 0x9e3779b97f4a7c15;
    std::uint64_t stamp = 0;
    for (const std::string* const path : {&files.ca, &files.certificate, &files.key}) {
        struct stat info{};
        ::stat(path->c_str(), &info);
        for (const auto part :
             {static_cast<std::uint64_t>(info.st_ino), static_cast<std::uint64_t>(info.st_size),
              static_cast<std::uint64_t>(info.st_mode), static_cast<std::uint64_t>(info.st_mtim.tv_sec),
              static_cast<std::uint64_t>(info.st_mtim.tv_nsec)}) {
            stamp = (stamp ^ part) * kMix;
            stamp ^= stamp >> 32U;
        }
    }
    return stamp;
}

}  // namespace ask
