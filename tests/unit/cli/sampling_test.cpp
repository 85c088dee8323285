// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/sampling.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

#include "tests/unit/cli/compressed.h"

namespace ask::cli {
namespace {

// None of these waits is meant to run off: what is waited for is there already.
constexpr std::chrono::milliseconds kPatience{60'000};

struct Pipe {
    Pipe() {
        std::array<int, 2> fds{};
        REQUIRE(::pipe2(fds.data(), O_CLOEXEC) == 0);
        read.reset(fds[0]);
        write.reset(fds[1]);
    }
    UniqueFd read;
    UniqueFd write;
};

struct Fixture {
    Fixture() {
        dir = std::filesystem::temp_directory_path() / "ask-sampling-XXXXXX";
        REQUIRE(::mkdtemp(dir.data()) != nullptr);
    }
    Fixture(const Fixture&) = delete;
    Fixture& operator=(const Fixture&) = delete;
    ~Fixture() { std::filesystem::remove_all(dir); }

    std::string file(const std::string& name, const std::string& text) const {
        std::ofstream(dir + "/" + name, std::ios::binary) << text;
        return dir + "/" + name;
    }
    // A named pipe that holds `text`, and whose writer is still there.
    std::string fifo(const std::string& text) {
        const std::string path = dir + "/fifo";
        REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
        writer.reset(::open(path.c_str(), O_RDWR | O_CLOEXEC));
        REQUIRE(writer);
        REQUIRE(::write(writer.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
        return path;
    }
    Result<Sampled> sample(const std::vector<std::string>& files, LineForm form = LineForm::kKey,
                           std::chrono::milliseconds patience = kPatience) const {
        return sample_inputs(files, {.content = {}, .lines = form}, stop.read.get(), patience);
    }

    std::string dir;
    Pipe stop;
    UniqueFd writer;
};

std::string lines(const std::string& key, unsigned count) {
    std::string text;
    for (unsigned i = 0; i < count; ++i) {
        text += key + "\n";
    }
    return text;
}

TEST_CASE("a small file is sampled whole, a last line without its newline too") {
    const Fixture fixture;
    const auto sampled = fixture.sample({fixture.file("a", "x\nabcde\nx\ny")});
    REQUIRE(sampled.ok());
    REQUIRE(sampled->sample);
    CHECK(sampled->sample->tuples() == 4);
    CHECK(sampled->sample->groups[0].distinct() == 2);
    CHECK(sampled->sample->groups[1].distinct() == 1);
    CHECK(sampled->sample->expected == 4);
    CHECK_FALSE(sampled->first);
}

TEST_CASE("values and escapes are read as the send will read them, and bad lines passed over") {
    const Fixture fixture;
    const std::string text = "a\t1\nbroken\n\\x41\t99999999999\nb\\tc\t-2\n";
    const auto sampled = fixture.sample({fixture.file("a", text)}, LineForm::kKeyValue);
    REQUIRE(sampled.ok());
    REQUIRE(sampled->sample);
    CHECK(sampled->sample->tuples() == 3);
    CHECK(sampled->sample->loose[0].tuples == 1);  // its value takes more than 32 bits
    CHECK(sampled->sample->groups[0].distinct() == 2);
}

TEST_CASE("large files are looked into in many places, and their length is foreseen") {
    const Fixture fixture;
    // A megabyte of short keys, then as much of longer ones.
    const auto sampled = fixture.sample({fixture.file("a", lines("abc", 250'000)), fixture.file("empty", ""),
                                         fixture.file("b", lines("abcdefg", 125'000))});
    REQUIRE(sampled.ok());
    REQUIRE(sampled->sample);
    const KeySample& sample = *sampled->sample;
    CHECK(sample.tuples() > 10'000);
    CHECK(sample.tuples() <= KeySampler::kMaxTuples);
    CHECK(sample.groups[0].all_tuples() > 0.3 * static_cast<double>(sample.tuples()));
    CHECK(sample.groups[1].all_tuples() > 0.3 * static_cast<double>(sample.tuples()));
    CHECK(sample.expected > 300'000);
    CHECK(sample.expected < 450'000);
}

TEST_CASE("compressed files are sampled at their start, and the length of their text is foreseen") {
    const Fixture fixture;
    const auto whole = fixture.sample({fixture.file("a.gz", gzipped("x\nabcde\nx\ny"))});
    REQUIRE(whole.ok());
    REQUIRE(whole->sample);
    CHECK(whole->sample->tuples() == 4);
    CHECK(whole->sample->groups[1].distinct() == 1);
    CHECK(whole->sample->expected == 4);
    std::string text;
    for (unsigned i = 0; i < 1'000'000; ++i) {
        text += std::to_string(i * 2'654'435'761U) + "\n";
    }
    const auto large =
        fixture.sample({fixture.file("b.gz", gzipped(text)), fixture.file("c", lines("abc", 250'000))});
    REQUIRE(large.ok());
    REQUIRE(large->sample);
    CHECK(large->sample->groups[0].all_tuples() > 1000);
    CHECK(large->sample->expected > 900'000);
    CHECK(large->sample->expected < 1'800'000);
}

TEST_CASE("what came through a pipe compressed is sampled as text, and kept as it came") {
    Fixture fixture;
    const std::string bytes = gzipped(lines("word", 100));
    const auto sampled = fixture.sample({fixture.fifo(bytes)}, LineForm::kKey, std::chrono::milliseconds(0));
    REQUIRE(sampled.ok());
    REQUIRE(sampled->sample);
    CHECK(sampled->sample->tuples() == 100);
    CHECK(sampled->first->head == bytes);
}

TEST_CASE("what came through a pipe is kept for the send") {
    Fixture fixture;
    const std::string text = lines("word", 100) + "half a li";
    const std::string path = fixture.fifo(text);
    const auto sampled = fixture.sample({path}, LineForm::kKey, std::chrono::milliseconds(0));
    REQUIRE(sampled.ok());
    REQUIRE(sampled->sample);
    CHECK(sampled->sample->tuples() == 100);
    CHECK(sampled->sample->expected == 0);
    REQUIRE(sampled->first);
    CHECK(sampled->first->name == path);
    CHECK(sampled->first->head == text);
    CHECK_FALSE(sampled->first->ended);
}

TEST_CASE("a pipe that has ended is sampled at once, with its last line") {
    const Fixture fixture;
    Pipe input;
    REQUIRE(::write(input.write.get(), "a\nb", 3) == 3);
    input.write.reset();
    const UniqueFd own_stdin(::dup(STDIN_FILENO));
    REQUIRE(::dup2(input.read.get(), STDIN_FILENO) == STDIN_FILENO);
    const auto sampled = fixture.sample({"-"});
    if (own_stdin) {
        REQUIRE(::dup2(own_stdin.get(), STDIN_FILENO) == STDIN_FILENO);
    } else {
        ::close(STDIN_FILENO);
    }
    REQUIRE(sampled.ok());
    REQUIRE(sampled->sample);
    CHECK(sampled->sample->tuples() == 2);
    REQUIRE(sampled->first);
    CHECK(sampled->first->ended);
    CHECK(sampled->sample->expected == 2);
    CHECK(sampled->first->head == "a\nb");
}

TEST_CASE("a pipe that says nothing in time gives no sample, and a later one is left alone") {
    Fixture fixture;
    const std::string path = fixture.fifo("");
    const auto silent = fixture.sample({path}, LineForm::kKey, std::chrono::milliseconds(0));
    REQUIRE(silent.ok());
    CHECK_FALSE(silent->sample);
    REQUIRE(silent->first);
    CHECK(silent->first->head.empty());
    const auto later = fixture.sample({fixture.file("a", "x\n"), path});
    REQUIRE(later.ok());
    REQUIRE(later->sample);
    CHECK(later->sample->tuples() == 1);
    CHECK(later->sample->expected == 0);
    CHECK_FALSE(later->first);
}

TEST_CASE("no lines, no sample; no file, an error; a stop ends the look") {
    Fixture fixture;
    const auto empty = fixture.sample({fixture.file("a", "")});
    REQUIRE(empty.ok());
    CHECK_FALSE(empty->sample);
    CHECK(fixture.sample({fixture.dir + "/none"}).error().code() == Errc::kInput);
    REQUIRE(::write(fixture.stop.write.get(), "x", 1) == 1);
    CHECK(fixture.sample({fixture.fifo("")}).error().code() == Errc::kAborted);
}

}  // namespace
}  // namespace ask::cli
