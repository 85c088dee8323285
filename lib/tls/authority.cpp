// SPDX-License-Identifier: Apache-2.0
#include "lib/tls/authority.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include "lib/base/unique_fd.h"
#include "lib/tls/identity.h"
#include "lib/tls/openssl.h"

namespace ask {
namespace {

using namespace tls;
namespace fs = std::filesystem;

constexpr mode_t kSecret = 0600;
constexpr mode_t kPublic = 0644;
// Clocks of a rack differ.
constexpr long kBefore = -3600;

Error complaint(const std::string& what) {
    return {Errc::kInternal, what + ": " + last_complaint()};
}

Result<> write_file(const std::string& path, const std::string& text, mode_t mode) {
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
    if (!fd) {
        return Error::from_errno(errno, "make " + path);
    }
    // Whatever the umask takes away, the owner's daemons must be able to read.
    if (::fchmod(fd.get(), mode) != 0 ||
        ::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
        ::fsync(fd.get()) != 0) {
        return Error::from_errno(errno, "write " + path);
    }
    return {};
}

Result<> make_directory(const std::string& path, mode_t mode) {
    return ::mkdir(path.c_str(), mode) == 0 ? Result<>() : Error::from_errno(errno, "make directory " + path);
}

bool add_extension(X509* certificate, X509* issuer, int kind, const std::string& value) {
    X509V3_CTX context{};
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
    if (extension == nullptr) {
        return false;
    }
    const bool added = X509_add_ext(certificate, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return added;
}

bool set_serial(X509* certificate) {
    std::array<unsigned char, 16> bytes{};
    if (RAND_bytes(bytes.data(), bytes.size()) != 1) {
        return false;
    }
    bytes[0] &= 0x7fU;  // positive
    BIGNUM* const number = BN_bin2bn(bytes.data(), bytes.size(), nullptr);
    const bool set = BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != nullptr;
    BN_free(number);
    return set;
}

bool set_name(X509_NAME* entry, const std::string& name) {
    return X509_NAME_add_entry_by_txt(entry, "CN", MBSTRING_UTF8,
                                      reinterpret_cast<const unsigned char*>(name.data()),
                                      static_cast<int>(name.size()), -1, 0) == 1;
}

// All but the extensions, the issuer and the signature.
Certificate blank_certificate(const std::string& name, EVP_PKEY* key, unsigned days) {
    Certificate certificate(X509_new());
    X509* const raw = certificate.get();
    constexpr long kVersion3 = 2;
    const bool good =
        X509_set_version(raw, kVersion3) == 1 && set_serial(raw) &&
        X509_gmtime_adj(X509_getm_notBefore(raw), kBefore) != nullptr &&
        X509_time_adj_ex(X509_getm_notAfter(raw), static_cast<int>(days), 0, nullptr) != nullptr &&
        set_name(X509_get_subject_name(raw), name) && X509_set_pubkey(raw, key) == 1;
    return good ? std::move(certificate) : nullptr;
}

// The order as OpenSSL's configuration has it. Names are checked before: a comma would begin another one.
std::string alternative_names(const CertificateOrder& order) {
    std::string text = "DNS:" + order.name;
    for (const std::string& address : order.addresses) {
        text += ",IP:" + address;
    }
    text += order.tenant.empty() ? "" : ",URI:ask://tenant/" + order.tenant;
    text += order.role_operator ? ",URI:ask://role/operator" : "";
    text += order.role_switch ? ",URI:ask://role/switch" : "";
    return text;
}

bool is_name(const std::string& text, std::string_view also) {
    return !text.empty() && text.size() <= 63 && text.front() != '-' && text.front() != '.' &&
           std::ranges::all_of(text, [also](char c) {
               return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                      c == '-' || also.find(c) != std::string_view::npos;
           });
}

struct Authority {
    Certificate certificate;
    Key key;
};

Result<Authority> load_authority(const std::string& directory) {
    // The same checks as of any certificate and key: it is its own CA.
    const auto identity = TlsIdentity::load(
        {.ca = directory + "/ca.pem", .certificate = directory + "/ca.pem", .key = directory + "/ca.key"});
    if (!identity.ok()) {
        return identity.error().code() == Errc::kUnknown
                   ? Error(Errc::kUnknown, "there is no CA in " + directory + ": askctl ca make " + directory)
                   : identity.error();
    }
    return Authority{std::move(certificates_of(identity->certificate).front()), key_of(identity->key)};
}

// Takes the place of what was there, so that nobody finds a certificate beside another one's key.
Result<> replace_directory(const std::string& fresh, const std::string& path) {
    if (::renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) == 0) {
        return {};
    }
    if (errno != EEXIST ||
        ::renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) != 0) {
        return Error::from_errno(errno, "make " + path);
    }
    std::error_code error;
    fs::remove_all(fresh, error);
    return {};
}

Result<> write_folder(const std::string& directory, const CertificateOrder& order, X509* authority,
                      X509* certificate, EVP_PKEY* key) {
    const std::string fresh = directory + "/." + order.name + "." + std::to_string(::getpid());
    constexpr mode_t kOwner = 0700;
    ASK_PASS(make_directory(fresh, kOwner));
    const TlsFiles files = TlsFiles::in(fresh);
    ASK_PASS(write_file(files.ca, text_of(authority), kPublic));
    ASK_PASS(write_file(files.certificate, text_of(certificate), kPublic));
    ASK_PASS(write_file(files.key, text_of(key), kSecret));
    return replace_directory(fresh, directory + "/" + order.name);
}

}  // namespace

Result<> check_order(const CertificateOrder& order) {
    if (!is_name(order.name, "._")) {
        return Error(Errc::kUsage, "\"" + order.name + "\": a name is 1 to 63 of A-Z a-z 0-9 - . _");
    }
    if (!order.tenant.empty() && !is_name(order.tenant, "_")) {
        return Error(Errc::kUsage, "tenant \"" + order.tenant + "\": must be 1 to 63 of A-Z a-z 0-9 _ -");
    }
    for (const std::string& address : order.addresses) {
        std::array<unsigned char, sizeof(in6_addr)> parsed{};
        if (::inet_pton(AF_INET, address.c_str(), parsed.data()) != 1 &&
            ::inet_pton(AF_INET6, address.c_str(), parsed.data()) != 1) {
            return Error(Errc::kUsage, order.name + ": \"" + address + "\" is no IP address");
        }
    }
    return {};
}

Result<> make_authority(const std::string& directory, unsigned days) {
    std::error_code error;
    if (fs::exists(directory + "/ca.key", error) || fs::exists(directory + "/ca.pem", error)) {
        return Error(Errc::kExists,
                     directory +
                         ": there is a CA already, which certificates may hang on: take another "
                         "folder, or remove its ca.pem and ca.key first");
    }
    constexpr mode_t kOwner = 0700;
    if (!fs::exists(directory, error)) {
        ASK_PASS(make_directory(directory, kOwner));
    }
    const Key key(EVP_EC_gen("P-256"));
    const Certificate made = key ? blank_certificate("ASK CA", key.get(), days) : nullptr;
    X509* const raw = made.get();
    const bool good = raw != nullptr && X509_set_issuer_name(raw, X509_get_subject_name(raw)) == 1 &&
                      add_extension(raw, raw, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
                      add_extension(raw, raw, NID_key_usage, "critical,keyCertSign,cRLSign") &&
                      add_extension(raw, raw, NID_subject_key_identifier, "hash") &&
                      X509_sign(raw, key.get(), EVP_sha256()) != 0;
    if (!good) {
        return complaint("make a CA");
    }
    ASK_PASS(write_file(directory + "/ca.key", text_of(key.get()), kSecret));
    return write_file(directory + "/ca.pem", text_of(raw), kPublic);
}

Result<> issue_certificate(const std::string& directory, const CertificateOrder& order) {
    ASK_PASS(check_order(order));
    const auto authority = load_authority(directory);
    ASK_PASS(authority);
    X509* const issuer = authority->certificate.get();
    const Key key(EVP_EC_gen("P-256"));
    const Certificate made = key ? blank_certificate(order.name, key.get(), order.days) : nullptr;
    X509* const raw = made.get();
    const bool good = raw != nullptr && X509_set_issuer_name(raw, X509_get_subject_name(issuer)) == 1 &&
                      add_extension(raw, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
                      add_extension(raw, issuer, NID_key_usage, "critical,digitalSignature") &&
                      add_extension(raw, issuer, NID_ext_key_usage, "serverAuth,clientAuth") &&
                      add_extension(raw, issuer, NID_authority_key_identifier, "keyid") &&
                      add_extension(raw, issuer, NID_subject_alt_name, alternative_names(order)) &&
                      X509_sign(raw, authority->key.get(), EVP_sha256()) != 0;
    if (!good) {
        return complaint("issue a certificate for " + order.name);
    }
    return write_folder(directory, order, issuer, raw, key.get());
}

}  // namespace ask
