// SPDX-License-Identifier: Apache-2.0
#include "lib/daemon/log.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>

#include <doctest/doctest.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/wrappers.pb.h>
#include <spdlog/spdlog.h>

#include "lib/base/unique_fd.h"

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

}  // namespace

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
