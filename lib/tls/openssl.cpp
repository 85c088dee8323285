// SPDX-License-Identifier: Apache-2.0
#include "lib/tls/openssl.h"

#include <array>
#include <cstdio>
#include <ctime>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

namespace ask::tls {
namespace {

Bio reader_of(const std::string& text) {
    return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::string text_in(BIO* bio) {
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio, &data);
    return {data, static_cast<std::size_t>(size)};
}

// A key with a passphrase cannot be used by a daemon: nobody is there to type it.
int no_passphrase(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*unused*/) {
    return -1;
}

}  // namespace

std::string last_complaint() {
    const char* const text = ERR_reason_error_string(ERR_peek_last_error());
    ERR_clear_error();
    return text == nullptr ? "no reason given" : text;
}

std::vector<Certificate> certificates_of(const std::string& pem) {
    std::vector<Certificate> all;
    const Bio bio = reader_of(pem);
    while (X509* const next = PEM_read_bio_X509(bio.get(), nullptr, no_passphrase, nullptr)) {
        all.emplace_back(next);
    }
    const auto error = ERR_peek_last_error();
    ERR_clear_error();
    // The end of the text is an error, too.
    if (ERR_GET_REASON(error) != PEM_R_NO_START_LINE) {
        all.clear();
    }
    return all;
}

Key key_of(const std::string& pem) {
    const Bio bio = reader_of(pem);
    Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr));
    ERR_clear_error();
    return key;
}

std::vector<std::string> uris_of(X509* certificate) {
    using Names = std::unique_ptr<GENERAL_NAMES, FreeWith<GENERAL_NAMES_free>>;
    const Names names(
        static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
    std::vector<std::string> uris;
    for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
        const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
        if (name->type == GEN_URI) {
            const ASN1_IA5STRING* const uri = name->d.uniformResourceIdentifier;
            uris.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                              static_cast<std::size_t>(ASN1_STRING_length(uri)));
        }
    }
    return uris;
}

std::string text_of(X509* certificate) {
    const Bio bio(BIO_new(BIO_s_mem()));
    PEM_write_bio_X509(bio.get(), certificate);
    return text_in(bio.get());
}

std::string text_of(EVP_PKEY* key) {
    const Bio bio(BIO_new(BIO_s_mem()));
    PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
    return text_in(bio.get());
}

std::string date_text(const ASN1_TIME* time) {
    std::tm parts{};
    std::array<char, 32> text{};
    if (ASN1_TIME_to_tm(time, &parts) != 1 ||
        std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts) == 0) {
        return "an unknown date";
    }
    return text.data();
}

std::string explain_chain(long code, X509* certificate) {
    switch (code) {
        case X509_V_ERR_CERT_HAS_EXPIRED:
            return "expired on " +
                   (certificate == nullptr ? "an unknown date" : date_text(X509_get0_notAfter(certificate))) +
                   ": issue a new one (askctl ca issue)";
        case X509_V_ERR_CERT_NOT_YET_VALID:
            return "is not valid before " +
                   (certificate == nullptr ? "an unknown date"
                                           : date_text(X509_get0_notBefore(certificate))) +
                   ": set the clock of this machine, or of the one that issued it";
        case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
        case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
        case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
        case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
        case X509_V_ERR_CERT_SIGNATURE_FAILURE:
            return "is not signed by our CA: all hosts and switches need certificates of one CA (askctl ca "
                   "issue), "
                   "and its ca.pem";
        default:
            return std::string("is not accepted: ") + X509_verify_cert_error_string(code);
    }
}

}  // namespace ask::tls
