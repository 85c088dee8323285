// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/stream_dir.h"

#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

#include "tools/cli/duration_flag.h"
#include "tools/cli/output.h"

namespace ask::cli {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

struct Place {
    Place() {
        path = fs::temp_directory_path() / "ask-stream-XXXXXX";
        REQUIRE(::mkdtemp(path.data()) != nullptr);
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() { fs::remove_all(path); }
    [[nodiscard]] std::string read(const std::string& name) const {
        std::ifstream in(path + "/" + name, std::ios::binary);
        std::ostringstream out;
        out << in.rdbuf();
        return out.str();
    }
    // Without what begins with a dot.
    [[nodiscard]] std::set<std::string> tables() const {
        std::set<std::string> all;
        for (const auto& entry : fs::directory_iterator(path)) {
            const std::string name = entry.path().filename();
            if (!name.starts_with('.') && name != "windows.tsv") {
                all.insert(name);
            }
        }
        return all;
    }
    std::string path;
};

StreamDir::Options options_of(const Place& place) {
    return {
        .path = place.path, .is = {"web", 10s, client::TaskOp::kSum}, .suffix = ".tsv", .before_step = {}};
}

WindowRow row_of(std::uint64_t number) {
    WindowRow row;
    row.number = number;
    row.begins_ms = number * 10'000;
    row.ends_ms = row.begins_ms + 10'000;
    row.state = "whole";
    row.keys = 1;
    row.tuples = number;
    return row;
}

std::string table_of(std::uint64_t number) {
    return "key\t" + std::to_string(number) + "\n";
}

Result<> put(StreamDir& dir, std::uint64_t number) {
    auto table = dir.begin(number);
    ASK_PASS(table);
    ASK_PASS(write_all(table->get(), table_of(number)));
    ASK_PASS(dir.prepare(row_of(number), table->get()));
    return dir.commit(row_of(number), true);
}

std::string name_of(std::uint64_t number) {
    return window_name(number * 10'000) + ".tsv";
}

TEST_CASE("windows are named by when they begin") {
    CHECK(window_name(1'795'843'800'000) == "20261128T053000Z");
    CHECK(window_time(1'795'843'800'000) == "2026-11-28T05:30:00Z");
}

TEST_CASE("lengths of windows are read") {
    CHECK(*parse_every("1s") == 1s);
    CHECK(*parse_every("5m") == 300s);
    CHECK(*parse_every("24h") == 86'400s);
    CHECK(*parse_every("1d") == 86'400s);
    for (const char* const bad : {"", "10", "s", "0s", "25h", "2d", "1 s", "1.5s", "-1s", "99999999999s"}) {
        CHECK_FALSE(parse_every(bad).ok());
    }
}

TEST_CASE("a directory has what was committed, and says so to its next process") {
    const Place place;
    std::uint64_t nonce = 0;
    const client::StreamMember stays{
        .member = 0xfedcba9876543210, .name = "h1", .first = 7, .last = 0, .lost = false};
    const client::StreamMember leaves{.member = 2, .name = "h2", .first = 7, .last = 8, .lost = true};
    {
        auto dir = StreamDir::open(options_of(place));
        REQUIRE(dir.ok());
        CHECK(dir->committed() == 0);
        nonce = dir->nonce();
        CHECK(nonce != 0);
        CHECK(dir->note(stays).ok());
        CHECK(dir->note(leaves).ok());
        CHECK(put(*dir, 7).ok());
        CHECK(dir->members().size() == 2);
    }
    {
        auto dir = StreamDir::open(options_of(place));
        REQUIRE(dir.ok());
        CHECK(dir->nonce() == nonce);
        CHECK(dir->committed() == 7);
        CHECK(dir->members() == std::vector<client::StreamMember>{stays, leaves});
        // Who is in no window that is left is forgotten.
        CHECK(put(*dir, 8).ok());
        CHECK(dir->members() == std::vector<client::StreamMember>{stays});
    }
    CHECK(place.tables() == std::set<std::string>{name_of(7), name_of(8)});
    CHECK(place.read(name_of(8)) == table_of(8));
    CHECK(place.read("windows.tsv") ==
          "#number\tbegin\tcovered_until\tstate\tlate_ms\tkeys\ttuples\tmissing\n"
          "7\t1970-01-01T00:01:10Z\t1970-01-01T00:01:20Z\twhole\t0\t1\t7\t\n"
          "8\t1970-01-01T00:01:20Z\t1970-01-01T00:01:30Z\twhole\t0\t1\t8\t\n");
}

TEST_CASE("members are on disk when they have been noted") {
    const Place place;
    client::StreamMember member{.member = 2, .name = "h2", .first = 7, .last = 0, .lost = false};
    for (const std::uint64_t last : {std::uint64_t{0}, std::uint64_t{8}}) {
        member.last = last;
        {
            auto dir = StreamDir::open(options_of(place));
            REQUIRE(dir.ok());
            CHECK(dir->note(member).ok());
        }
        CHECK(StreamDir::open(options_of(place))->members() == std::vector{member});
    }
}

TEST_CASE("a table that was taken away stays away") {
    const Place place;
    {
        auto dir = StreamDir::open(options_of(place));
        REQUIRE(dir.ok());
        CHECK(put(*dir, 7).ok());
    }
    fs::remove(place.path + "/" + name_of(7));
    auto dir = StreamDir::open(options_of(place));
    REQUIRE(dir.ok());
    CHECK(dir->committed() == 7);
    CHECK(place.tables().empty());
}

// What there is after a process has ended before step `die`, and another one has come; whether there are more
// steps.
bool dies_at(unsigned die, bool& committed) {
    const Place place;
    unsigned steps = 0;
    bool counting = false;
    bool died = false;
    {
        auto options = options_of(place);
        options.before_step = [&]() -> Result<> {
            died = died || (counting && steps++ == die);
            return died ? Result<>(Error(Errc::kInternal, "killed")) : Result<>();
        };
        auto dir = StreamDir::open(options);
        REQUIRE(dir.ok());
        REQUIRE(put(*dir, 7).ok());
        counting = true;
        const auto done = put(*dir, 8);
        CHECK(done.ok() != died);
    }
    auto dir = StreamDir::open(options_of(place));
    REQUIRE(dir.ok());
    committed = dir->committed() == 8;
    const bool has_row = place.read("windows.tsv").find("\n8\t") != std::string::npos;
    CHECK(has_row == committed);
    CHECK((place.tables().contains(name_of(8)) == committed));
    if (committed) {
        CHECK(place.read(name_of(8)) == table_of(8));
    } else {
        // It comes again, and is there once.
        CHECK(dir->committed() == 7);
        CHECK(put(*dir, 8).ok());
    }
    CHECK(put(*dir, 9).ok());
    CHECK(place.tables() == std::set<std::string>{name_of(7), name_of(8), name_of(9)});
    const std::string rows = place.read("windows.tsv");
    CHECK(std::count(rows.begin(), rows.end(), '\n') == 4);
    // No temporary files are left.
    const auto hidden = std::distance(fs::directory_iterator(place.path), fs::directory_iterator());
    CHECK(hidden == 3 + 1 + 2);
    return died;
}

TEST_CASE("a process that ends between any two steps leaves a window whole or none of it") {
    bool before = false;
    unsigned dead = 0;
    bool seen_committed = false;
    for (; dies_at(dead, before); ++dead) {
        // Once it is committed it stays so.
        CHECK((before || !seen_committed));
        seen_committed = before;
    }
    CHECK(seen_committed);
    CHECK(dead >= 9);
}

TEST_CASE("half a line of a window that was not committed is taken away") {
    const Place place;
    {
        auto dir = StreamDir::open(options_of(place));
        REQUIRE(dir.ok());
        CHECK(put(*dir, 7).ok());
    }
    const std::string before = place.read("windows.tsv");
    std::ofstream(place.path + "/windows.tsv", std::ios::app) << "8\t1970-01-01T";
    CHECK(StreamDir::open(options_of(place)).ok());
    CHECK(place.read("windows.tsv") == before);
}

TEST_CASE("the last line of windows.tsv is as it was written, or is mended and that is said") {
    const Place place;
    {
        auto dir = StreamDir::open(options_of(place));
        REQUIRE(dir.ok());
        for (std::uint64_t number = 98; number <= 100; ++number) {
            REQUIRE(put(*dir, number).ok());
        }
        CHECK(dir->take_mended().empty());
    }
    const std::string whole = place.read("windows.tsv");
    const std::size_t last = whole.rfind("\n100\t") + 1;
    for (std::size_t at = last; at < whole.size(); ++at) {
        for (const int bit : {0, 1, 2, 4, 5, 7}) {
            std::string damaged = whole;
            damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
            std::ofstream(place.path + "/windows.tsv", std::ios::trunc) << damaged;
            CAPTURE(damaged);
            auto dir = StreamDir::open(options_of(place));
            REQUIRE(dir.ok());
            const std::string mended = dir->take_mended();
            CHECK(mended.starts_with(place.path + "/windows.tsv: its last line was not as it was written"));
            CHECK(dir->take_mended().empty());
            const std::string rows = place.read("windows.tsv");
            CHECK(rows.starts_with(whole.substr(0, last)));
            CHECK(rows.ends_with(whole.substr(last)));
            // It may have been taken for the line of a window before.
            CHECK(std::count(rows.begin(), rows.end(), '\n') <= 5);
        }
    }
}

TEST_CASE("lines of windows.tsv that somebody has taken away stay away") {
    const Place place;
    {
        auto dir = StreamDir::open(options_of(place));
        REQUIRE(dir.ok());
        REQUIRE(put(*dir, 7).ok());
    }
    const std::string header = "#number\tbegin\tcovered_until\tstate\tlate_ms\tkeys\ttuples\tmissing\n";
    fs::remove(place.path + "/windows.tsv");
    for (int i = 0; i < 2; ++i) {
        auto dir = StreamDir::open(options_of(place));
        REQUIRE(dir.ok());
        CHECK(dir->take_mended().empty());
        CHECK(place.read("windows.tsv") == header);
    }
}

TEST_CASE("one process at a time writes to a directory, and for one stream") {
    const Place place;
    {
        const auto dir = StreamDir::open(options_of(place));
        REQUIRE(dir.ok());
        const auto second = StreamDir::open(options_of(place));
        REQUIRE_FALSE(second.ok());
        CHECK(second.error().code() == Errc::kExists);
        CHECK(second.error().text().find("pid " + std::to_string(::getpid())) != std::string::npos);
    }
    auto other = options_of(place);
    other.is.every = 20s;
    const auto refused = StreamDir::open(other);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code() == Errc::kUsage);
    CHECK(refused.error().text().find("stream web, --every 10s, --op sum, not stream web, --every 20s") !=
          std::string::npos);
}

TEST_CASE("a directory whose state is damaged says so in words of ours, and what to do") {
    const Place place;
    REQUIRE(StreamDir::open(options_of(place)).ok());
    const std::string whole = place.read(".ask-stream");
    const auto says = [&](const std::string& text) {
        std::ofstream(place.path + "/.ask-stream", std::ios::trunc) << text;
        const auto damaged = StreamDir::open(options_of(place));
        REQUIRE_FALSE(damaged.ok());
        CHECK(damaged.error().code() == Errc::kInput);
        CHECK(damaged.error().text().starts_with(place.path + "/.ask-stream is damaged: it "));
        CHECK(damaged.error().text().find("in another directory") != std::string::npos);
        CHECK(damaged.error().text().find("json") == std::string::npos);
        return damaged.error().text();
    };
    CHECK(says("").find("it is empty. ") != std::string::npos);
    CHECK(says(whole.substr(0, whole.size() / 2)).find("it ends in the middle") != std::string::npos);
    CHECK(says("[1, 2]").find("it lacks something") != std::string::npos);
    CHECK(says("{\"version\": \"one\"}").find("it lacks something") != std::string::npos);
    std::ofstream(place.path + "/.ask-stream", std::ios::trunc) << whole;
    CHECK(StreamDir::open(options_of(place)).ok());
}

TEST_CASE("a directory whose state has one byte that is another is refused by name, or changes nothing") {
    const Place place;
    const client::StreamMember member{
        .member = 0xfedcba9876543210, .name = "h1", .first = 7, .last = 0, .lost = false};
    std::uint64_t nonce = 0;
    {
        auto dir = StreamDir::open(options_of(place));
        REQUIRE(dir.ok());
        REQUIRE(dir->note(member).ok());
        REQUIRE(put(*dir, 7).ok());
        nonce = dir->nonce();
    }
    const std::string whole = place.read(".ask-stream");
    for (std::size_t at = 0; at < whole.size(); ++at) {
        for (const int bit : {0, 1, 2, 4, 5, 7}) {
            std::string damaged = whole;
            damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
            std::ofstream(place.path + "/.ask-stream", std::ios::trunc) << damaged;
            CAPTURE(damaged);
            const auto dir = StreamDir::open(options_of(place));
            if (!dir) {
                CHECK(dir.error().text().starts_with(place.path));
                CHECK(dir.error().text().find(".ask-stream is") != std::string::npos);
                continue;
            }
            CHECK(dir->nonce() == nonce);
            CHECK(dir->committed() == 7);
            CHECK(dir->members() == std::vector{member});
        }
    }
    CHECK(place.tables() == std::set<std::string>{name_of(7)});
}

TEST_CASE("old tables go, and nothing else") {
    const Place place;
    auto dir = StreamDir::open(options_of(place));
    REQUIRE(dir.ok());
    for (std::uint64_t number = 7; number < 12; ++number) {
        CHECK(put(*dir, number).ok());
    }
    for (const char* const other : {"notes.tsv", "20261128.tsv", "20261128T053000Z.csv"}) {
        std::ofstream(place.path + "/" + other) << "mine";
    }
    CHECK(dir->keep(2).ok());
    CHECK(place.tables() == std::set<std::string>{name_of(10), name_of(11), "notes.tsv", "20261128.tsv",
                                                  "20261128T053000Z.csv"});
}

TEST_CASE("an empty window may have no table") {
    const Place place;
    {
        auto dir = StreamDir::open(options_of(place));
        REQUIRE(dir.ok());
        CHECK(dir->prepare(row_of(7), -1).ok());
        CHECK(dir->commit(row_of(7), false).ok());
    }
    auto dir = StreamDir::open(options_of(place));
    REQUIRE(dir.ok());
    CHECK(dir->committed() == 7);
    CHECK(place.tables().empty());
}

}  // namespace
}  // namespace ask::cli
