// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <doctest/doctest.h>

#include "lib/base/unique_fd.h"
#include "tools/cli/output.h"
#include "tools/cli/stats_file.h"

namespace ask::cli {
namespace {

struct TempDir {
    TempDir() {
        path = std::filesystem::temp_directory_path() / "ask-cli-XXXXXX";
        REQUIRE(::mkdtemp(path.data()) != nullptr);
    }
    TempDir(const TempDir&) = delete;
    TempDir& operator=(const TempDir&) = delete;
    ~TempDir() { std::filesystem::remove_all(path); }
    [[nodiscard]] std::size_t files() const {
        const std::filesystem::directory_iterator all(path);
        return static_cast<std::size_t>(std::distance(begin(all), end(all)));
    }
    std::string path;
};

std::string content(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
}

TEST_CASE("statistics appear whole, under the umask, or leave nothing behind") {
    const TempDir dir;
    const std::string path = dir.path + "/stats.json";
    {
        auto file = StatsFile::create(path);
        REQUIRE(file.ok());
        CHECK_FALSE(std::filesystem::exists(path));
    }
    CHECK(dir.files() == 0);
    const mode_t mask = ::umask(027);
    for (const std::string text : {"first", "second"}) {
        auto file = StatsFile::create(path);
        REQUIRE(file.ok());
        REQUIRE(file->write(text).ok());
        CHECK(content(path) == text);
    }
    ::umask(mask);
    CHECK(dir.files() == 1);
    struct stat info{};
    REQUIRE(::stat(path.c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0640);
}

TEST_CASE("no statistics file is fine, one that cannot be is an error at once") {
    auto none = StatsFile::create("");
    REQUIRE(none.ok());
    CHECK(none->write("x").ok());
    CHECK(StatsFile::create("/nonexistent/dir/stats.json").error().code() == Errc::kUsage);
    CHECK(StatsFile::create("/dev/null")->write("x").ok());
    CHECK(std::filesystem::is_character_file("/dev/null"));
    CHECK(StatsFile::create("/dev/full")->write("x").error().code() == Errc::kLimit);
}

TEST_CASE("lines are escaped and written whole, more than a pipe holds") {
    std::array<int, 2> fds{-1, -1};
    REQUIRE(::pipe2(fds.data(), O_CLOEXEC | O_NONBLOCK) == 0);
    const UniqueFd read_end(fds[0]);
    UniqueFd write_end(fds[1]);
    REQUIRE(::fcntl(read_end.get(), F_SETFL, 0) == 0);
    std::string got;
    std::thread reader([&] {
        std::array<char, 4096> buffer{};
        for (ssize_t n = 1; n > 0;
             got.append(buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(n, 0)))) {
            n = ::read(read_end.get(), buffer.data(), buffer.size());
        }
    });
    std::string want;
    LineWriter writer(write_end.get());
    for (int i = 0; i < 200'000; ++i) {
        REQUIRE(writer.line("a\tkey", i - 100).ok());
        want += "a\\tkey\t" + std::to_string(i - 100) + "\n";
    }
    CHECK(writer.flush().ok());
    write_end.reset();
    reader.join();
    CHECK(got == want);
}

TEST_CASE("a full disk is an error") {
    const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
    REQUIRE(full);
    LineWriter writer(full.get());
    REQUIRE(writer.line("key", INT64_MIN).ok());
    auto flushed = writer.flush();
    REQUIRE_FALSE(flushed.ok());
    CHECK(flushed.error().code() == Errc::kLimit);
}

}  // namespace
}  // namespace ask::cli
