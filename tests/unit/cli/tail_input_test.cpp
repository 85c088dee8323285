// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/tail_input.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
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
    // log to log.1, that to log.2 ...
    void rotate() const {
        int last = 1;
        while (fs::exists(path + "." + std::to_string(last))) {
            ++last;
        }
        for (; last > 1; --last) {
            fs::rename(path + "." + std::to_string(last - 1), path + "." + std::to_string(last));
        }
        fs::rename(path, path + ".1");
    }
    void add(const std::string& text) const { std::ofstream(path, std::ios::app) << text; }
    [[nodiscard]] TailInput tail(std::optional<FilePlace> from = std::nullopt,
                                 std::chrono::milliseconds last_words = 50ms) {
        auto input = TailInput::open({.path = path,
                                      .from = from,
                                      .on_news = [this](const std::string& each) { news.push_back(each); },
                                      .last_words = last_words});
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

TEST_CASE("a file that lost its name is not left before nothing has come to it for a while") {
    Log log;
    log.add("a\n");
    auto input = log.tail(std::nullopt, 3000ms);  // longer than this test may stand still between two reads
    CHECK(read(input) == "a\n");
    std::ofstream old(log.path, std::ios::app);
    fs::rename(log.path, log.path + ".1");
    log.add("c\n");
    CHECK(read(input).empty());
    CHECK(read(input).empty());
    old << "b\n" << std::flush;
    CHECK(read(input, 4) == "b\nc\n");
}

TEST_CASE("half a line that has just come is not the last word of a file that lost its name") {
    Log log;
    log.add("a\n");
    auto input = log.tail(std::nullopt, 400ms);
    CHECK(read(input) == "a\n");
    std::ofstream old(log.path, std::ios::app);
    fs::rename(log.path, log.path + ".1");
    log.add("c\n");
    // Its reader is held up meanwhile.
    CHECK(read(input).empty());
    std::this_thread::sleep_for(500ms);  // longer than the last words
    old << "unfi" << std::flush;
    CHECK(read(input).empty());
    old << "nish" << std::flush;
    CHECK(read(input).empty());
    old << "ed\n" << std::flush;
    CHECK(read(input, 13) == "unfinished\nc\n");
}

TEST_CASE("a file's last words are not left behind, however short the wait for more of them is") {
    Log log;
    log.add("a\nunfinished");
    auto input = log.tail(std::nullopt, 0ms);
    fs::rename(log.path, log.path + ".1");
    log.add("c\n");
    CHECK(read(input, 15) == "a\nunfinished\nc\n");
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
        place.print = 0;
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

TEST_CASE("files that had the name in between are read, the oldest first, each once") {
    Log log;
    log.add("0\n");
    const auto from = TailInput::open({.path = log.path})->place();
    auto input = log.tail();
    CHECK(read(input) == "0\n");
    std::string expected;
    constexpr int kFiles = 20;
    for (int each = 1; each <= kFiles; ++each) {
        log.rotate();
        // The last one has no newline; one has nothing at all.
        const std::string text = each == 7 ? "" : std::to_string(each) + (each == 5 ? "" : "\n");
        log.add(text);
        expected += text + (each == 5 ? "\n" : "");
    }
    // What is another's, or the same under another name.
    fs::create_hard_link(log.path, log.path + ".old");
    fs::create_hard_link(log.path + ".3", log.path + "-20261128");
    std::ofstream(log.path + "-other") << "other\n";
    std::ofstream(log.folder + "/log2.1") << "other\n";
    CHECK(read(input, expected.size()) == expected);
    CHECK(read(input).empty());
    const auto left = input.take_left();
    REQUIRE(left.size() == kFiles);
    CHECK(left.front().inode == from.inode);
    CHECK(left.front().offset == 2);
    CHECK(log.news.empty());
    // As one that comes after it.
    auto again = log.tail(from);
    CHECK(read(again, expected.size() + 2) == "0\n" + expected);
    log.rotate();
    log.add("end\n");
    CHECK(read(input, 4) == "end\n");
    CHECK(read(again, 4) == "end\n");
}

TEST_CASE("of dates the later one is newer, and a file that was read is not read again") {
    Log log;
    log.add("a\n");
    auto input = log.tail();
    CHECK(read(input) == "a\n");
    fs::rename(log.path, log.path + "-20261126");
    log.add("b\n");
    fs::rename(log.path, log.path + "-20261127");
    log.add("c\n");
    fs::rename(log.path, log.path + "-20261128");
    CHECK(read(input).empty());
    // There is none for a while.
    std::this_thread::sleep_for(100ms);  // longer than the last words
    CHECK(read(input).empty());
    log.add("d\n");
    CHECK(read(input, 6) == "b\nc\nd\n");
    // The name back, with more in it.
    fs::rename(log.path, log.path + ".1");
    fs::rename(log.path + "-20261127", log.path);
    log.add("more\n");
    CHECK(read(input, 5) == "more\n");
    CHECK(log.news.empty());
}

TEST_CASE("a file in between that was compressed is named as lost, once") {
    Log log;
    log.add("a\n");
    auto input = log.tail();
    CHECK(read(input) == "a\n");
    log.rotate();
    log.add("b\n");
    log.rotate();
    log.add("c\n");
    log.rotate();
    log.add("d\n");
    // As gzip does it, with the time of the one that it was.
    const auto time = fs::last_write_time(log.path + ".3");
    std::ofstream(log.path + ".4.gz") << "older";
    fs::last_write_time(log.path + ".4.gz", time - 1h);
    fs::rename(log.path + ".2", log.path + ".2.gz");
    fs::last_write_time(log.path + ".2.gz", time + 1us);
    // One that is being compressed is read.
    std::ofstream(log.path + ".1.gz") << "half";
    CHECK(read(input, 4) == "c\nd\n");
    CHECK(input.lost() == 1);
    log.rotate();
    log.add("e\n");
    CHECK(read(input, 2) == "e\n");
    REQUIRE(log.news.size() == 1);
    CHECK(log.news.front() ==
          log.path + ": log.2.gz was rotated before its end was read: its lines are in no window");
}

TEST_CASE("a file that was cut off and has grown beyond what was read is read from its beginning") {
    Log log;
    log.add("first\nsecond\n");
    auto input = log.tail();
    CHECK(read(input) == "first\nsecond\n");
    const FilePlace place = input.place();
    fs::resize_file(log.path, 0);
    log.add("third\nfourth\nfifth\n");
    CHECK(read(input) == "third\nfourth\nfifth\n");
    REQUIRE(log.news.size() == 1);
    CHECK(log.news.front() == log.path + ": was cut off: read from its beginning");
    const auto left = input.take_left();
    REQUIRE(left.size() == 1);
    CHECK(left.front() == place);
    CHECK(input.take_left().empty());
    // Whoever has the place only is told so; nor can what was there be given again.
    CHECK(TailInput::open({.path = log.path, .from = place}).error().code() == Errc::kInput);
    FilePlace begin = place;
    begin.offset = 0;
    begin.print = 0;
    auto again = log.tail(begin);
    auto lines = again.next_before(place);
    while (lines.ok() && !lines->empty()) {
        lines = again.next_before(place);
    }
    CHECK_FALSE(lines.ok());
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
        CHECK(state->step({.ended = 0, .entered = 7, .committed = 0, .nonce = 9}, at(0), {}).ok());
        CHECK(state->step({.ended = 7, .entered = 8, .committed = 6, .nonce = 9}, at(100), {}).ok());
        CHECK(state->step({.ended = 8, .entered = 9, .committed = 7, .nonce = 9}, at(150), {at(120)}).ok());
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
        CHECK(state->windows().front().left == std::vector{at(120)});
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

std::string text_of(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

TEST_CASE("a member's state of which one byte is another is refused by name, or changes nothing") {
    const Log log;
    const std::string path = log.folder + "/state";
    const auto at = [](std::uint64_t offset) {
        return FilePlace{.device = 1, .inode = 2, .offset = offset, .print = 3};
    };
    std::uint64_t member = 0;
    {
        auto state = MemberState::open(path, "web at h4", "log");
        REQUIRE(state.ok());
        member = state->member();
        REQUIRE(state->begin(at(0)).ok());
        REQUIRE(state->step({.ended = 7, .entered = 8, .committed = 6, .nonce = 9}, at(100), {at(50)}).ok());
    }
    const std::string whole = text_of(path);
    for (std::size_t byte = 0; byte < whole.size(); ++byte) {
        for (const int bit : {0, 1, 2, 4, 5, 7}) {
            std::string damaged = whole;
            damaged[byte] = static_cast<char>(damaged[byte] ^ (1 << bit));
            std::ofstream(path, std::ios::trunc) << damaged;
            CAPTURE(damaged);
            const auto state = MemberState::open(path, "web at h4", "log");
            if (!state) {
                CHECK(state.error().text().starts_with("--state " + path));
                continue;
            }
            CHECK(state->member() == member);
            CHECK(state->nonce() == 9);
            CHECK(state->committed() == 6);
            CHECK(state->inside() == 8);
            CHECK(state->place() == at(100));
            REQUIRE(state->windows().size() == 1);
            CHECK(state->windows().front().number == 7);
            CHECK(state->windows().front().from == at(0));
            CHECK(state->windows().front().to == at(100));
            CHECK(state->windows().front().left == std::vector{at(50)});
        }
    }
}

}  // namespace
}  // namespace ask::cli
