// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/tail_input.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "tools/cli/member_state.h"

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

TEST_CASE("a member's state says which lines are in which window") {
    const Log log;
    const std::string path = log.folder + "/state";
    const auto at = [](std::uint64_t offset) { return FilePlace{.device = 1, .inode = 2, .offset = offset}; };
    std::uint64_t member = 0;
    {
        auto state = MemberState::open(path, "web at h4", "log");
        REQUIRE(state.ok());
        CHECK(state->is_new());
        member = state->member();
        CHECK(member != 0);
        CHECK(state->begin(at(0)).ok());
        CHECK(state->step({.ended = 0, .entered = 7, .committed = 0, .nonce = 9}, at(0)).ok());
        CHECK(state->step({.ended = 7, .entered = 8, .committed = 6, .nonce = 9}, at(100)).ok());
        CHECK(state->step({.ended = 8, .entered = 9, .committed = 7, .nonce = 9}, at(150)).ok());
        CHECK(MemberState::open(path, "web at h4", "log").error().code() == Errc::kExists);
    }
    {
        auto state = MemberState::open(path, "web at h4", "log");
        REQUIRE(state.ok());
        CHECK_FALSE(state->is_new());
        CHECK(state->member() == member);
        CHECK(state->nonce() == 9);
        CHECK(state->committed() == 7);
        CHECK(state->inside() == 9);
        CHECK(state->place() == at(150));
        REQUIRE(state->windows().size() == 1);
        CHECK(state->windows().front().number == 8);
        CHECK(state->windows().front().from == at(100));
        CHECK(state->windows().front().to == at(150));
        CHECK(state->leave(at(170)).ok());
    }
    {
        auto state = MemberState::open(path, "web at h4", "log");
        REQUIRE(state.ok());
        CHECK_FALSE(state->is_new());
        CHECK(state->member() != member);
        CHECK(state->windows().empty());
        CHECK(state->inside() == 0);
        CHECK(state->place() == at(170));
    }
    CHECK(MemberState::open(path, "web at h5", "log").error().code() == Errc::kUsage);
    CHECK(MemberState::open(path, "web at h4", "other").error().code() == Errc::kUsage);
    std::ofstream(path) << "{";
    CHECK(MemberState::open(path, "web at h4", "log").error().code() == Errc::kInput);
}

}  // namespace
}  // namespace ask::cli
