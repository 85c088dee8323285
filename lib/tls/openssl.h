// SPDX-License-Identifier: Apache-2.0
//
// OpenSSL's objects with one owner, and its errors in words.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "lib/base/result.h"

namespace ask::tls {

template <auto Free>
struct FreeWith {
    template <typename T>
    void operator()(T* object) const {
        Free(object);
    }
};

using Certificate = std::unique_ptr<X509, FreeWith<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, FreeWith<EVP_PKEY_free>>;
using Store = std::unique_ptr<X509_STORE, FreeWith<X509_STORE_free>>;
using StoreContext = std::unique_ptr<X509_STORE_CTX, FreeWith<X509_STORE_CTX_free>>;
using Context = std::unique_ptr<SSL_CTX, FreeWith<SSL_CTX_free>>;
using Session = std::unique_ptr<SSL, FreeWith<SSL_free>>;
using Bio = std::unique_ptr<BIO, FreeWith<BIO_free_all>>;

// What OpenSSL has just complained of; nothing of it is left behind.
std::string last_complaint();

// All certificates of a PEM text, in their order. Empty: there is none, or one cannot be read.
[[nodiscard]] std::vector<Certificate> certificates_of(const std::string& pem);
// Null: there is none, or it needs a passphrase.
[[nodiscard]] Key key_of(const std::string& pem);
[[nodiscard]] std::string text_of(X509* certificate);
// Of its subject alternative name.
[[nodiscard]] std::vector<std::string> uris_of(X509* certificate);
[[nodiscard]] std::string text_of(EVP_PKEY* key);

// "2027-11-23 11:26:11 UTC".
[[nodiscard]] std::string date_text(const ASN1_TIME* time);
// Why a chain was not accepted, by X509_V_ERR_..., and which certificate of it is meant; what to do about it.
[[nodiscard]] std::string explain_chain(long code, X509* certificate);

}  // namespace ask::tls
