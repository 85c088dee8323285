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
#include "tools/cli/output_file.h"

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
        auto file = OutputFile::create("statistics file", path);
        REQUIRE(file.ok());
        CHECK_FALSE(std::filesystem::exists(path));
    }
    CHECK(dir.files() == 0);
    const mode_t mask = ::umask(027);
    for (const std::string text : {"first", "second"}) {
        auto file = OutputFile::create("statistics file", path);
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
    auto none = OutputFile::create("statistics file", "");
    REQUIRE(none.ok());
    CHECK(none->write("x").ok());
    CHECK(OutputFile::create("statistics file", "/nonexistent/dir/stats.json").error().code() ==
          Errc::kUsage);
    CHECK(OutputFile::create("statistics file", "/dev/null")->write("x").ok());
    CHECK(std::filesystem::is_character_file("/dev/null"));
    CHECK(OutputFile::create("statistics file", "/dev/full")->write("x").error().code() == Errc::kLimit);
}

TEST_CASE("links are followed and stay") {
    const TempDir dir;
    REQUIRE(std::filesystem::create_directory(dir.path + "/data"));
    const std::string target = dir.path + "/data/target";
    const std::string link = dir.path + "/link";
    std::filesystem::create_symlink("data/second", link);
    std::filesystem::create_symlink(target, dir.path + "/data/second");
    {
        auto file = OutputFile::create("output file", link);
        REQUIRE(file.ok());
        CHECK(file->replaces());
        // Beside the target, so that a rename is all that is left to do.
        CHECK(dir.files() == 2);
        REQUIRE(file->write("through links").ok());
    }
    CHECK(content(target) == "through links");
    CHECK(std::filesystem::is_symlink(link));
    CHECK(std::filesystem::is_symlink(dir.path + "/data/second"));
    CHECK(std::filesystem::is_regular_file(std::filesystem::symlink_status(target)));
    auto again = OutputFile::create("output file", link);
    REQUIRE(again->write("and again").ok());
    CHECK(content(target) == "and again");
}

TEST_CASE("what is no regular file is written to, through links too, and never replaced") {
    const TempDir dir;
    const std::string link = dir.path + "/link";
    std::filesystem::create_symlink("/dev/null", link);
    CHECK(OutputFile::create("output file", link)->write("x").ok());
    CHECK(std::filesystem::is_symlink(link));
    CHECK(dir.files() == 1);
    std::filesystem::create_symlink("/dev/full", dir.path + "/full");
    CHECK(OutputFile::create("output file", dir.path + "/full")->write("x").error().code() == Errc::kLimit);
    CHECK(OutputFile::create("output file", dir.path).error().code() == Errc::kUsage);
    std::filesystem::create_symlink(dir.path + "/round", dir.path + "/round");
    CHECK(OutputFile::create("output file", dir.path + "/round").error().code() == Errc::kUsage);
    // A device that takes the file's place meanwhile.
    const std::string path = dir.path + "/file";
    auto file = OutputFile::create("output file", path);
    REQUIRE(file.ok());
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    CHECK(file->write("x").error().code() == Errc::kExists);
    CHECK(std::filesystem::is_fifo(path));
}

TEST_CASE("a descriptor's name is that descriptor's file, not one to replace") {
    const TempDir dir;
    const std::string path = dir.path + "/file";
    UniqueFd mine(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    REQUIRE(mine);
    REQUIRE(::write(mine.get(), "first ", 6) == 6);
    const std::string link = dir.path + "/stdout";
    std::filesystem::create_symlink("/proc/self/fd/" + std::to_string(mine.get()), link);
    auto file = OutputFile::create("statistics file", link);
    REQUIRE(file.ok());
    REQUIRE(file->write("second").ok());
    CHECK(content(path) == "first second");
    CHECK(std::filesystem::is_symlink(link));
    CHECK(dir.files() == 2);
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

TEST_CASE("values are printed with as many decimals as asked for") {
    std::array<int, 2> fds{-1, -1};
    REQUIRE(::pipe2(fds.data(), O_CLOEXEC) == 0);
    const UniqueFd read_end(fds[0]);
    const UniqueFd write_end(fds[1]);
    LineWriter writer(write_end.get(), 2);
    REQUIRE(writer.line("a", 1234).ok());
    REQUIRE(writer.line("b", -5).ok());
    REQUIRE(writer.flush().ok());
    std::array<char, 64> buffer{};
    const ssize_t count = ::read(read_end.get(), buffer.data(), buffer.size());
    CHECK(std::string(buffer.data(), static_cast<std::size_t>(count)) == "a\t12.34\nb\t-0.05\n");
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
