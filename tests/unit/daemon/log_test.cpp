// SPDX-License-Identifier: Apache-2.0
#include "lib/daemon/log.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>

#include <doctest/doctest.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/wrappers.pb.h>
#include <spdlog/spdlog.h>

#include "lib/base/log_fields.h"
#include "lib/base/unique_fd.h"
#include "lib/daemon/journal.h"

using namespace ask;

namespace {

// Everything that is written to standard error meanwhile.
class StderrCapture {
 public:
    StderrCapture() : file_(::memfd_create("ask-stderr", MFD_CLOEXEC)), saved_(::dup(STDERR_FILENO)) {
        REQUIRE(::dup2(file_.get(), STDERR_FILENO) == STDERR_FILENO);
    }
    ~StderrCapture() { ::dup2(saved_.get(), STDERR_FILENO); }
    StderrCapture(const StderrCapture&) = delete;
    StderrCapture& operator=(const StderrCapture&) = delete;

    [[nodiscard]] std::string text() const {
        std::array<char, 4096> bytes{};
        const ssize_t size = ::pread(file_.get(), bytes.data(), bytes.size(), 0);
        return size < 0 ? "" : std::string(bytes.data(), static_cast<std::size_t>(size));
    }

 private:
    UniqueFd file_;
    UniqueFd saved_;
};

// What a log of this level says when a message comes whose string is not UTF-8, as anybody can send one.
std::string said_about_bad_text(std::string_view level) {
    const StderrCapture captured;
    const auto logger = spdlog::default_logger();
    REQUIRE(set_up_log("unit", level).ok());
    google::protobuf::StringValue message;
    REQUIRE_FALSE(message.ParseFromString("\x0a\x01\xff"));
    spdlog::set_default_logger(logger);
    return captured.text();
}

// What systemd's journal is to a daemon: a socket, and JOURNAL_STREAM of what standard error is.
class Journal {
 public:
    Journal() : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
        REQUIRE(::mkdtemp(folder_.data()) != nullptr);
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::memcpy(address.sun_path, path().c_str(), path().size() + 1);
        REQUIRE(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
        struct stat about{};
        REQUIRE(::fstat(STDERR_FILENO, &about) == 0);
        const std::string stream = std::to_string(about.st_dev) + ":" + std::to_string(about.st_ino);
        ::setenv("JOURNAL_STREAM", stream.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
        REQUIRE(set_up_log({.program = "unit", .level = "info", .host = "h1", .journal = path()}).ok());
    }
    ~Journal() {
        spdlog::set_default_logger(logger_);
        ::unsetenv("JOURNAL_STREAM");  // NOLINT(concurrency-mt-unsafe): one thread
        std::filesystem::remove_all(folder_.data());
    }
    Journal(const Journal&) = delete;
    Journal& operator=(const Journal&) = delete;

    [[nodiscard]] std::string path() const { return std::string(folder_.data()) + "/socket"; }
    // The next message; empty: there is none.
    [[nodiscard]] std::string take() const {
        std::array<char, 4096> bytes{};
        const ssize_t size = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
        return size < 0 ? "" : std::string(bytes.data(), static_cast<std::size_t>(size));
    }

 private:
    std::string folder_ = "/tmp/ask-journal.XXXXXX";
    std::shared_ptr<spdlog::logger> logger_ = spdlog::default_logger();
    UniqueFd socket_;
};

}  // namespace

TEST_CASE("under systemd a line has fields: who logs, what it is about, how it has ended") {
    const StderrCapture captured;
    const Journal journal;
    spdlog::info("ready");
    CHECK(journal.take() == "MESSAGE=ready\nPRIORITY=6\nSYSLOG_IDENTIFIER=unit\nHOST=h1\n");
    {
        const LogAbout about = LogAbout::task("words");
        {
            const LogAbout how = LogAbout::code(10);
            spdlog::warn("too late");
        }
        spdlog::error("going on");
    }
    CHECK(journal.take() ==
          "MESSAGE=too late\nPRIORITY=4\nSYSLOG_IDENTIFIER=unit\nHOST=h1\nTASK=words\nCODE=10\n");
    CHECK(journal.take() == "MESSAGE=going on\nPRIORITY=3\nSYSLOG_IDENTIFIER=unit\nHOST=h1\nTASK=words\n");
    const LogAbout about = LogAbout::group("a\nCODE=0");
    spdlog::info("b\nTASK=forged");
    const std::string two_lines("\x0f\0\0\0\0\0\0\0b\n  TASK=forged\n", 8 + 15 + 1);
    CHECK(journal.take() ==
          "MESSAGE\n" + two_lines + "PRIORITY=6\nSYSLOG_IDENTIFIER=unit\nHOST=h1\nGROUP=a\\x0aCODE=0\n");
    CHECK(captured.text().empty());
}

TEST_CASE("what the journal's socket does not take goes to standard error, with its priority") {
    const StderrCapture captured;
    const Journal journal;
    spdlog::warn("{}", std::string(std::size_t{1} << 20U, 'x'));
    CHECK(journal.take().empty());
    CHECK(captured.text().starts_with("<4>xxxx"));
}

TEST_CASE("standard error is the journal's only where JOURNAL_STREAM names it") {
    const StderrCapture captured;
    struct stat about{};
    REQUIRE(::fstat(STDERR_FILENO, &about) == 0);
    const std::string stream = std::to_string(about.st_dev) + ":" + std::to_string(about.st_ino);
    CHECK(is_journal_stream(stream.c_str(), STDERR_FILENO));
    CHECK_FALSE(is_journal_stream((stream + "0").c_str(), STDERR_FILENO));
    CHECK_FALSE(is_journal_stream(nullptr, STDERR_FILENO));
}

TEST_CASE("a message in the log begins no line of its own, and moves no cursor") {
    const StderrCapture captured;
    const auto logger = spdlog::default_logger();
    REQUIRE(set_up_log("unit", "info").ok());
    spdlog::info("task {}: ended",
                 "a\n<2>2026-01-01 unit critical: \x1b[2Jforged\xc2\x9b"
                 "2J");
    spdlog::set_default_logger(logger);
    const std::string text = captured.text();
    CHECK_MESSAGE(text.find("task a\n  <2>2026-01-01 unit critical: \\x1b[2Jforged\\xc2\\x9b2J: ended\n") !=
                      std::string::npos,
                  text);
}

TEST_CASE("what protobuf says about others' messages is logged at debug level only") {
    CHECK(said_about_bad_text("info").empty());
    CHECK(said_about_bad_text("debug").find("UTF-8") != std::string::npos);
}
