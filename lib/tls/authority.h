// SPDX-License-Identifier: Apache-2.0
//
// A small CA for a lab or a rack: a folder with its certificate and key, and a folder for each that it has
// issued a certificate to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/result.h"

namespace ask {

// What a certificate is to say of its owner.
struct CertificateOrder {
    std::string name;                    // DNS name, and that of its folder
    std::vector<std::string> addresses;  // IPv4 or IPv6, that others reach it at
    std::string tenant;                  // empty: none
    bool role_operator = false;
    bool role_switch = false;
    unsigned days = 365;
};

// kUsage: no certificate could say that.
Result<> check_order(const CertificateOrder& order);

// Makes `directory` with ca.pem and ca.key. kExists: there is one already.
Result<> make_authority(const std::string& directory, unsigned days);

// Makes `directory`/NAME with ca.pem, certificate.pem and key.pem, all at once: the folder's old content, if
// there is any, is replaced.
Result<> issue_certificate(const std::string& directory, const CertificateOrder& order);

}  // namespace ask
