// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "tools/cli/tail_input.h"

namespace ask::cli {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

struct Log {
    Log() {
        folder = fs::temp_directory_path() / "ask-tail-XXXXXX";
        REQUIRE(::mkdtemp(folder.data()) != nullptr);
        path = folder + "/log";
    }
    Log(const Log&) = delete;
    Log& operator=(const Log&) = delete;
    ~Log() { fs::remove_all(folder); }
    void add(const std::string& text) const { std::ofstream(path, std::ios::app) << text; }
    [[nodiscard]] TailInput tail(std::optional<FilePlace> from = std::nullopt) {
        auto input = TailInput::open({.path = path,
                                      .from = from,
                                      .on_news = [this](const std::string& each) { news.push_back(each); },
                                      .last_words = 50ms});
        REQUIRE(input.ok());
        return *std::move(input);
    }
    std::string folder;
    std::string path;
    std::vector<std::string> news;
};

// All that has come by now.
std::string read(TailInput& input) {
    std::string all;
    for (;;) {
        const auto lines = input.next();
        REQUIRE(lines.ok());
        if (lines->empty()) {
            return all;
        }
        all += *lines;
    }
}

// Until so much has come.
std::string read(TailInput& input, std::size_t bytes) {
    std::string all;
    for (const auto end = std::chrono::steady_clock::now() + 20s;
         all.size() < bytes && std::chrono::steady_clock::now() < end;) {
        all += read(input);
    }
    return all;
}

TEST_CASE("a file is read as it grows, whole lines at a time") {
    Log log;
    log.add("a\nb\nhal");
    auto input = log.tail();
    CHECK(read(input) == "a\nb\n");
    CHECK(input.place().offset == 4);
    CHECK(read(input).empty());
    log.add("f\n");
    CHECK(read(input) == "half\n");
    // More than a piece, and a line that is longer than one.
    const std::string line = std::string(100'000, 'x') + "\n";
    log.add(line + "y\n" + line);
    CHECK(read(input) == line + "y\n" + line);
    CHECK(log.news.empty());
}

TEST_CASE("a file that is renamed is read to its end, then the new one") {
    Log log;
    log.add("a\n");
    auto input = log.tail();
    CHECK(read(input) == "a\n");
    std::ofstream old(log.path, std::ios::app);
    fs::rename(log.path, log.path + ".1");
    CHECK(read(input).empty());
    log.add("c\n");
    // Whoever writes has it open still.
    old << "b\nunfinished" << std::flush;
    CHECK(read(input, 15) == "b\nunfinished\nc\n");
    log.add("d\n");
    CHECK(read(input) == "d\n");
    CHECK(log.news.empty());
}

TEST_CASE("a file that is cut off is read from its beginning, which is said") {
    Log log;
    log.add("a\nb\n");
    auto input = log.tail();
    CHECK(read(input) == "a\nb\n");
    fs::resize_file(log.path, 0);
    CHECK(read(input).empty());
    log.add("c\n");
    CHECK(read(input) == "c\n");
    REQUIRE(log.news.size() == 1);
    CHECK(log.news.front() == log.path + ": was cut off: read from its beginning");
}

TEST_CASE("a place is found again, also in a file that was renamed meanwhile") {
    Log log;
    log.add("a\nb\n");
    FilePlace place;
    {
        auto input = log.tail();
        const auto first = input.next();
        CHECK(first.ok());
        place = input.place();
        place.offset = 2;
    }
    CHECK(read(*std::make_unique<TailInput>(log.tail(place))) == "b\n");
    fs::rename(log.path, log.path + ".1");
    log.add("c\n");
    auto input = log.tail(place);
    CHECK(read(input, 4) == "b\nc\n");
    // And what lies between two places.
    const FilePlace end = input.place();
    auto again = log.tail(place);
    std::string between;
    for (;;) {
        const auto lines = again.next_before(end);
        REQUIRE(lines.ok());
        if (lines->empty()) {
            break;
        }
        between += *lines;
    }
    CHECK(between == "b\nc\n");
    fs::remove(log.path + ".1");
    const auto gone = TailInput::open({.path = log.path, .from = place});
    REQUIRE_FALSE(gone.ok());
    CHECK(gone.error().code() == Errc::kInput);
    FilePlace beyond = end;
    beyond.offset = 100;
    CHECK_FALSE(TailInput::open({.path = log.path, .from = beyond}).ok());
}

}  // namespace
}  // namespace ask::cli
