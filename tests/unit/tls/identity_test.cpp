// SPDX-License-Identifier: Apache-2.0
//
// Certificates as they are made and read: what would fail later is refused by the name of its file.
#include "lib/tls/identity.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

#include "lib/tls/openssl.h"
#include "tests/unit/tls/folder.h"

using namespace ask;
using namespace ask::test;

namespace {

std::string read_all(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

void write_all(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
}

void refused(const TlsFiles& files, Errc code, const std::string& part) {
    const auto read = TlsIdentity::load(files);
    REQUIRE_FALSE(read.ok());
    CAPTURE(read.error().text());
    CHECK(read.error().code() == code);
    CHECK(read.error().text().find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("what the CA issues can be read, and its key is for its owner alone") {
    const CertificateFolder folder;
    const TlsFiles files = folder.issue("h1");
    const auto identity = TlsIdentity::load(files);
    REQUIRE_MESSAGE(identity.ok(), identity.error().text());
    CHECK(identity->expires > ::time(nullptr) + 364L * 24 * 3600);
    for (const std::string& key : {files.key, folder.at("ca/ca.key")}) {
        struct stat info{};
        REQUIRE(::stat(key.c_str(), &info) == 0);
        CHECK((info.st_mode & 07777U) == 0600U);
    }
    CHECK(make_authority(folder.at("ca"), 10).error().code() == Errc::kExists);
    // Another one for the same name: all three files at once.
    const std::uint64_t before = stamp_of(files);
    folder.issue("h1");
    CHECK(stamp_of(files) != before);
    CHECK(TlsIdentity::load(files).ok());
}

TEST_CASE("a key that others may read or change is refused by name") {
    const CertificateFolder folder;
    const TlsFiles files = folder.issue("h1");
    for (const mode_t mode : {0644U, 0604U, 0602U, 0660U, 0666U, 0601U}) {
        CAPTURE(mode);
        REQUIRE(::chmod(files.key.c_str(), mode) == 0);
        refused(files, Errc::kDenied, files.key + ": others may read or change this key");
        refused(files, Errc::kDenied, "chmod 600 " + files.key);
    }
    // Nor by a link to it: what counts is what is read.
    TlsFiles linked = files;
    linked.key = folder.at("link");
    REQUIRE(::symlink(files.key.c_str(), linked.key.c_str()) == 0);
    refused(linked, Errc::kDenied, linked.key + ": others may read or change this key");
    REQUIRE(::chmod(files.key.c_str(), 0640) == 0);
    CHECK(TlsIdentity::load(files).ok());
    CHECK(TlsIdentity::load(linked).ok());
    // So is the CA's own.
    REQUIRE(::chmod(folder.at("ca/ca.key").c_str(), 0644) == 0);
    CertificateOrder order;
    order.name = "h2";
    CHECK(issue_certificate(folder.at("ca"), order).error().text().find("ca.key: others may read") !=
          std::string::npos);
}

TEST_CASE("a file that is missing, empty or of another kind is named, with what to do") {
    const CertificateFolder folder;
    const TlsFiles good = folder.issue("h1");
    refused(TlsFiles::in(folder.at("none")), Errc::kUnknown, folder.at("none/ca.pem") + ": No such file");
    refused(TlsFiles::in(folder.at("none")), Errc::kUnknown, "askctl ca");
    for (auto member : {&TlsFiles::ca, &TlsFiles::certificate, &TlsFiles::key}) {
        TlsFiles files = good;
        files.*member = folder.at("text");
        write_all(folder.at("text"), "hello\n");
        REQUIRE(::chmod(folder.at("text").c_str(), 0600) == 0);
        refused(files, Errc::kInput, folder.at("text") + ": holds no ");
        files.*member = folder.at("ca");
        refused(files, Errc::kInput, folder.at("ca") + ": is not a file");
        // Which nobody writes into: it is not waited for.
        files.*member = folder.at("pipe");
        REQUIRE((::mkfifo(folder.at("pipe").c_str(), 0600) == 0 || errno == EEXIST));
        refused(files, Errc::kInput, folder.at("pipe") + ": is not a file");
    }
}

TEST_CASE("a certificate of another CA, or another's key, is refused") {
    const CertificateFolder folder;
    folder.make_ca("other");
    const TlsFiles ours = folder.issue("h1");
    const TlsFiles second = folder.issue("h2");
    const TlsFiles theirs = folder.issue("h1", "other");
    refused({.ca = ours.ca, .certificate = theirs.certificate, .key = theirs.key}, Errc::kDenied,
            theirs.certificate + ": the certificate is not signed by our CA");
    refused({.ca = ours.ca, .certificate = ours.certificate, .key = second.key}, Errc::kDenied,
            second.key + ": is not the key of " + ours.certificate);
}

TEST_CASE("a certificate that has expired, or is not good yet, says when") {
    const CertificateFolder folder;
    const TlsFiles files = folder.issue("h1");
    const tls::Key authority = tls::key_of(read_all(folder.at("ca/ca.key")));
    const auto move = [&](long from, long to) {
        const auto chain = tls::certificates_of(read_all(files.certificate));
        X509_gmtime_adj(X509_getm_notBefore(chain.front().get()), from);
        X509_gmtime_adj(X509_getm_notAfter(chain.front().get()), to);
        REQUIRE(X509_sign(chain.front().get(), authority.get(), EVP_sha256()) != 0);
        write_all(files.certificate, tls::text_of(chain.front().get()));
    };
    move(-7200, -3600);
    refused(files, Errc::kDenied, files.certificate + ": the certificate expired on 20");
    move(3600, 7200);
    refused(files, Errc::kDenied, files.certificate + ": the certificate is not valid before 20");
    move(-3600, 3600);
    CHECK(TlsIdentity::load(files).ok());
}

TEST_CASE("names that would be more than a name are refused") {
    const CertificateFolder folder;
    const auto code = [&](const CertificateOrder& order) {
        const auto issued = issue_certificate(folder.at("ca"), order);
        return issued.ok() ? Errc{} : issued.error().code();
    };
    for (const char* const name : {"", ".", "..", "a/b", "a,URI:ask://role/operator", "-x", "a b", "../h1"}) {
        CAPTURE(name);
        CertificateOrder order;
        order.name = name;
        CHECK(code(order) == Errc::kUsage);
    }
    CertificateOrder order;
    order.name = "h1";
    order.tenant = "t,URI:ask://role/operator";
    CHECK(code(order) == Errc::kUsage);
    order.tenant = "t";
    order.addresses = {"127.0.0.1,URI:ask://role/operator"};
    CHECK(code(order) == Errc::kUsage);
    order.addresses = {"2001:db8::1"};
    CHECK(code(order) == Errc{});
}
