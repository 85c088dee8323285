// SPDX-License-Identifier: Apache-2.0
//
// Certificates that our own tools do not make.
#pragma once

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <openssl/x509v3.h>

#include "lib/tls/openssl.h"
#include "tests/unit/tls/folder.h"

namespace ask::test {

// One of a subject alternative name: GEN_DNS, GEN_URI or GEN_IPADD, and its bytes, whatever they are.
struct OddName {
    int type = GEN_DNS;
    std::string bytes;
};

// As the files have it, unless something is changed in it and it is signed again.
class OddCertificate {
 public:
    explicit OddCertificate(const TlsFiles& files)
        : made_(std::move(tls::certificates_of(read(files.certificate)).front())) {}

    OddCertificate& names(const std::vector<OddName>& all) {
        drop(NID_subject_alt_name);
        GENERAL_NAMES* const names = sk_GENERAL_NAME_new_null();
        for (const OddName& name : all) {
            ASN1_STRING* const bytes =
                name.type == GEN_IPADD ? ASN1_OCTET_STRING_new() : ASN1_IA5STRING_new();
            ASN1_STRING_set(bytes, name.bytes.data(), static_cast<int>(name.bytes.size()));
            GENERAL_NAME* const entry = GENERAL_NAME_new();
            GENERAL_NAME_set0_value(entry, name.type, bytes);
            sk_GENERAL_NAME_push(names, entry);
        }
        if (!all.empty()) {
            REQUIRE(X509_add1_ext_i2d(made_.get(), NID_subject_alt_name, names, 0, X509V3_ADD_DEFAULT) == 1);
        }
        GENERAL_NAMES_free(names);
        return *this;
    }
    OddCertificate& valid(long from, long to) {
        X509_gmtime_adj(X509_getm_notBefore(made_.get()), from);
        X509_gmtime_adj(X509_getm_notAfter(made_.get()), to);
        return *this;
    }
    OddCertificate& common_name(const std::string& name) {
        X509_NAME* const subject = X509_NAME_new();
        X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                                   reinterpret_cast<const unsigned char*>(name.data()),
                                   static_cast<int>(name.size()), -1, 0);
        X509_set_subject_name(made_.get(), subject);
        X509_NAME_free(subject);
        return *this;
    }
    // By the CA whose key that is; in PEM.
    std::string sign(const std::string& ca_key) {
        const tls::Key authority = tls::key_of(read(ca_key));
        REQUIRE(X509_sign(made_.get(), authority.get(), EVP_sha256()) != 0);
        return tls::text_of(made_.get());
    }
    // By another host, which is no CA, with its certificate behind.
    std::string sign_as(const TlsFiles& host) {
        const auto issuer = tls::certificates_of(read(host.certificate));
        drop(NID_authority_key_identifier);
        X509_set_issuer_name(made_.get(), X509_get_subject_name(issuer.front().get()));
        return sign(host.key) + read(host.certificate);
    }
    static std::string read(const std::string& path) {
        std::ifstream file(path);
        return {std::istreambuf_iterator<char>(file), {}};
    }

 private:
    void drop(int kind) {
        const int at = X509_get_ext_by_NID(made_.get(), kind, -1);
        if (at >= 0) {
            X509_EXTENSION_free(X509_delete_ext(made_.get(), at));
        }
    }

    tls::Certificate made_;
};

}  // namespace ask::test
