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
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "lib/base/unique_fd.h"
#include "lib/text/escape.h"
#include "tools/cli/input.h"
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
    ResultWriter writer(write_end.get(), {});
    for (int i = 0; i < 200'000; ++i) {
        REQUIRE(writer.add("a\tkey", i - 100).ok());
        want += "a\\tkey\t" + std::to_string(i - 100) + "\n";
    }
    CHECK(writer.finish().ok());
    write_end.reset();
    reader.join();
    CHECK(got == want);
}

TEST_CASE("values are printed with as many decimals as asked for") {
    std::array<int, 2> fds{-1, -1};
    REQUIRE(::pipe2(fds.data(), O_CLOEXEC) == 0);
    const UniqueFd read_end(fds[0]);
    const UniqueFd write_end(fds[1]);
    ResultWriter writer(write_end.get(), {.scale = 2});
    REQUIRE(writer.add("a", 1234).ok());
    REQUIRE(writer.add("b", -5).ok());
    REQUIRE(writer.finish().ok());
    std::array<char, 64> buffer{};
    const ssize_t count = ::read(read_end.get(), buffer.data(), buffer.size());
    CHECK(std::string(buffer.data(), static_cast<std::size_t>(count)) == "a\t12.34\nb\t-0.05\n");
}

using Entries = std::vector<std::pair<std::string, std::int64_t>>;

std::string written(const ResultWriter::Style& style, const Entries& entries) {
    const TempDir dir;
    const std::string path = dir.path + "/result";
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    ResultWriter writer(file.get(), style);
    for (const auto& [key, value] : entries) {
        REQUIRE(writer.add(key, value).ok());
    }
    REQUIRE(writer.finish().ok());
    return content(path);
}

TEST_CASE("CSV has a header and quotes what needs it, as RFC 4180 says") {
    const ResultWriter::Style csv{ResultFormat::kCsv, 0};
    CHECK(written(csv, {}) == "key,value\r\n");
    CHECK(written(csv, {{"plain", -1}, {"", 0}, {"a,b", 1}, {"say \"x\"", 2}, {"a\r\nb\\", 3}}) ==
          "key,value\r\nplain,-1\r\n,0\r\n\"a,b\",1\r\n\"say \"\"x\"\"\",2\r\na\\r\\nb\\\\,3\r\n");
    CHECK(written(csv, {{"\xc3\xa9", 1}, {"\xe9,", 2}}) == "key,value\r\n\xc3\xa9,1\r\n\"\\xe9,\",2\r\n");
    CHECK(written({ResultFormat::kCsv, 2}, {{"a", 1234}}) == "key,value\r\na,12.34\r\n");
}

TEST_CASE("JSON is one document, and every key comes back") {
    const ResultWriter::Style style{ResultFormat::kJson, 0};
    CHECK(written(style, {}) == "[]\n");
    CHECK(written(style, {{"a", 1}, {"b\"\\", -2}}) ==
          "[\n{\"key\":\"a\",\"value\":1},\n{\"key\":\"b\\\"\\\\\\\\\",\"value\":-2}\n]\n");
    Entries entries{
        {"a\nb\t\x01\x7f\xc2\x9b", INT64_MAX}, {std::string("\0", 1), INT64_MIN}, {"\xff\xc3\xa9\"", 1}};
    for (int byte = 0; byte < 256; ++byte) {
        entries.emplace_back("x" + std::string(1, static_cast<char>(byte)) + "\xa9", byte);
    }
    const auto json = nlohmann::json::parse(written(style, entries));
    REQUIRE(json.size() == entries.size());
    for (std::size_t i = 0; i < entries.size(); ++i) {
        std::string key;
        REQUIRE_FALSE(append_unescaped(key, json[i]["key"].get<std::string>()));
        CHECK(key == entries[i].first);
        CHECK(json[i]["value"] == entries[i].second);
    }
    CHECK(written({ResultFormat::kJson, 3}, {{"a", -5}}) == "[\n{\"key\":\"a\",\"value\":-0.005}\n]\n");
}

TEST_CASE("a full disk is an error") {
    const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
    REQUIRE(full);
    ResultWriter writer(full.get(), {});
    REQUIRE(writer.add("key", INT64_MIN).ok());
    auto flushed = writer.finish();
    REQUIRE_FALSE(flushed.ok());
    CHECK(flushed.error().code() == Errc::kLimit);
}

TEST_CASE("a pipe is one process's, which reads it without blocking") {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    const UniqueFd reads(ends[0]);
    const UniqueFd writes(ends[1]);
    // As two processes have it that were started with it.
    const auto inherited = [&reads] {
        Input input;
        input.name = "(standard input)";
        input.fd = reads.get();
        return input;
    };
    Input first = inherited();
    REQUIRE(take_pipe(first).ok());
    Input second = inherited();
    const auto refused = take_pipe(second);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code() == Errc::kExists);
    CHECK(refused.error().text().starts_with("(standard input): another ask-send follows this pipe"));
    std::array<char, 8> bytes{};
    CHECK(::read(first.fd, bytes.data(), bytes.size()) < 0);
    CHECK(errno == EAGAIN);
    CHECK(::write(writes.get(), "a\n", 2) == 2);
    CHECK(::read(first.fd, bytes.data(), bytes.size()) == 2);
    // Whoever else has it blocks as before.
    CHECK((::fcntl(reads.get(), F_GETFL) & O_NONBLOCK) == 0);
    leave_pipe(first);
    Input third = inherited();
    CHECK(take_pipe(third).ok());
    Input file;
    file.fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    file.owned.reset(file.fd);
    CHECK(take_pipe(file).ok());
}

}  // namespace
}  // namespace ask::cli
