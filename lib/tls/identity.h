// SPDX-License-Identifier: Apache-2.0
//
// What a daemon or command shows of itself, and by which CA it knows others: three files, read with care.
#pragma once

#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

#include "lib/base/result.h"

namespace ask {

// Where the files are, in PEM.
struct TlsFiles {
    std::string ca;           // whose signature counts
    std::string certificate;  // one's own, and those between it and the CA, if any
    std::string key;

    // As `askctl ca issue` writes them: ca.pem, certificate.pem and key.pem.
    static TlsFiles in(const std::string& directory);
    bool operator==(const TlsFiles&) const = default;
};

// Their texts, once they are known to fit together.
struct TlsIdentity {
    std::string ca;
    std::string certificate;
    std::string key;
    std::time_t expires = 0;
    std::vector<std::string> uris{};  // in our own certificate: what it says of us (lib/rpc/caller.h)

    // Refuses what would fail later, and says by which file: one that is not there or cannot be read, a key
    // that others may read, a key of another certificate, a certificate that has expired or that the CA has
    // not signed.
    static Result<TlsIdentity> load(const TlsFiles& files);
    [[nodiscard]] std::string expires_text() const;
    bool operator==(const TlsIdentity&) const = default;
};

// When the first certificate of a PEM file begins and ends, whether it is any good or not.
struct CertificateTimes {
    std::time_t begins = 0;
    std::time_t ends = 0;
};
Result<CertificateTimes> certificate_times(const std::string& path);

// Tells whether the files may have changed: a number that does, as good as surely, when one of them does.
[[nodiscard]] std::uint64_t stamp_of(const TlsFiles& files);

}  // namespace ask
