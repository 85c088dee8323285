// SPDX-License-Identifier: Apache-2.0
//
// A folder with a CA and what it has issued, gone when the test ends.
#pragma once

#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include "lib/tls/authority.h"
#include "lib/tls/identity.h"

namespace ask::test {

class CertificateFolder {
 public:
    CertificateFolder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "ask-tls.XXXXXX").string();
        REQUIRE(::mkdtemp(pattern.data()) != nullptr);
        path_ = pattern;
        make_ca("ca");
    }
    ~CertificateFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    CertificateFolder(const CertificateFolder&) = delete;
    CertificateFolder& operator=(const CertificateFolder&) = delete;

    [[nodiscard]] std::string at(const std::string& name) const { return path_ + "/" + name; }
    void make_ca(const std::string& ca) const {
        const auto made = make_authority(at(ca), 10);
        REQUIRE_MESSAGE(made.ok(), made.error().text());
    }
    TlsFiles issue(const CertificateOrder& order, const std::string& ca = "ca") const {
        const auto issued = issue_certificate(at(ca), order);
        REQUIRE_MESSAGE(issued.ok(), issued.error().text());
        return TlsFiles::in(at(ca) + "/" + order.name);
    }
    TlsFiles issue(const std::string& name, const std::string& ca = "ca") const {
        CertificateOrder order;
        order.name = name;
        order.addresses = {"127.0.0.1"};
        return issue(order, ca);
    }

 private:
    std::string path_;
};

}  // namespace ask::test
