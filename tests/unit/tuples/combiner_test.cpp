// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/combiner.h"

#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/combined.h"

namespace ask {
namespace {

using Tuples = std::vector<std::pair<std::string, std::int64_t>>;

constexpr std::int64_t kMost = INT64_MAX;
constexpr std::int64_t kLeast = INT64_MIN;

// What has to travel, out of a combiner that is fed one tuple at a time.
struct Sender {
    explicit Sender(Op op, std::uint32_t window) : combiner(op, window, public_seed(window)) {}

    void add(const std::string& key, std::int64_t value) {
        const Tuple tuple(key, value);
        REQUIRE(combiner.add(std::span(&tuple, 1), out).ok());
    }
    void drain() { REQUIRE(combiner.drain(out).ok()); }

    Combiner combiner;
    Tuples sent;
    std::function<Result<>(const Tuple&)> out = [this](const Tuple& tuple) {
        CHECK(tuple.head == Tuple(tuple.key, 0).head);
        sent.emplace_back(tuple.key, tuple.value);
        return Result<>();
    };
};

std::map<std::string, Wide> answer(const Tuples& tuples, Op op) {
    std::map<std::string, Wide> got;
    for (const auto& [key, value] : tuples) {
        const auto [at, fresh] = got.try_emplace(key, value);
        at->second = fresh ? at->second : apply(op, at->second, value);
    }
    return got;
}

// Of any length around the limits, with bytes that padding could be taken for.
std::string random_key(std::mt19937_64& random, std::uint32_t distinct) {
    constexpr std::size_t kLengths[] = {0, 1, 2, 6, 7, 8, 9, 15, 16, 17, 31, 33, 255, 256, 257, 1000};
    std::mt19937_64 key_random(random() % distinct);
    std::string key(kLengths[key_random() % std::size(kLengths)], '\0');
    for (char& c : key) {
        c = key_random() % 4 == 0 ? '\0' : static_cast<char>(key_random() % 2 == 0 ? 'a' : 0xff);
    }
    return key;
}

TEST_CASE("whatever is merged, the answer stays") {
    for (const Op op : {Op::kSum, Op::kMin, Op::kMax}) {
        for (const std::uint32_t window : {1U, 4U, 64U, 4096U}) {
            std::mt19937_64 random(window);
            Tuples tuples;
            for (int i = 0; i < 20'000; ++i) {
                const int shift = static_cast<int>(random() % 64);
                tuples.emplace_back(random_key(random, 2000), static_cast<std::int64_t>(random()) >> shift);
            }
            const Tuples sent = test::combined(tuples, op, window);
            CHECK((answer(sent, op) == answer(tuples, op)));
            CHECK(sent.size() < tuples.size());
        }
    }
}

TEST_CASE("a tuple is merged or travels, and which is counted") {
    Sender sender(Op::kSum, 64);
    std::mt19937_64 random(3);
    for (std::uint64_t i = 1; i <= 5000; ++i) {
        sender.add(random_key(random, 300), 1);
    }
    const std::uint64_t merged = sender.combiner.merged();
    CHECK(merged > 0);
    CHECK(sender.sent.size() + merged <= 5000);
    CHECK(5000 - sender.sent.size() - merged <= 64);
    sender.drain();
    CHECK(sender.sent.size() + merged == 5000);
    const std::size_t all = sender.sent.size();
    sender.drain();
    CHECK(sender.sent.size() == all);
}

TEST_CASE("nothing is merged past int64: what is held travels, and the new tuple stays") {
    Sender sender(Op::kSum, 64);
    sender.add("a", kMost);
    sender.add("a", 1);
    sender.add("a", 2);
    sender.add("longer than a tag", kLeast);
    sender.add("longer than a tag", -1);
    CHECK((sender.sent == Tuples{{"a", kMost}, {"longer than a tag", kLeast}}));
    CHECK(sender.combiner.merged() == 1);
    sender.sent.clear();
    sender.drain();
    CHECK(
        (answer(sender.sent, Op::kSum) == std::map<std::string, Wide>{{"a", 3}, {"longer than a tag", -1}}));
}

TEST_CASE("a key too long to be held passes at once") {
    Sender sender(Op::kSum, 64);
    const std::string longest(Combiner::kMaxKey, 'k');
    const std::string longer(Combiner::kMaxKey + 1, 'k');
    for (int i = 0; i < 3; ++i) {
        sender.add(longest, 1);
        sender.add(longer, 1);
    }
    CHECK((sender.sent == Tuples{{longer, 1}, {longer, 1}, {longer, 1}}));
    sender.drain();
    CHECK((sender.sent.back() == Tuples::value_type{longest, 3}));
}

TEST_CASE("keys that come often stay, whatever else passes by") {
    Sender sender(Op::kSum, 1024);
    constexpr int kRounds = 20'000;
    for (int i = 0; i < kRounds; ++i) {
        sender.add("hot" + std::to_string(i % 50), 1);
        sender.add("once" + std::to_string(i), 1);
    }
    sender.drain();
    int hot = 0;
    for (const auto& [key, value] : sender.sent) {
        hot += key.starts_with("hot") ? 1 : 0;
    }
    CHECK(hot < kRounds / 50);
}

TEST_CASE("keys that have become rare make room for those that have become frequent") {
    Sender sender(Op::kSum, 256);
    for (int phase = 0; phase < 20; ++phase) {
        for (int i = 0; i < 20'000; ++i) {
            sender.add(std::to_string(phase) + "/" + std::to_string(i % 200), 1);
        }
    }
    CHECK(sender.sent.size() < 20U * 20'000U / 4U);
}

TEST_CASE("where no key comes again tuples pass, and merging begins again when keys do") {
    Sender sender(Op::kSum, 256);
    for (int i = 0; i < 2'500'000; ++i) {
        sender.add(std::to_string(i), 1);
    }
    const std::size_t before = sender.sent.size();
    CHECK(before + 256 >= 2'500'000);
    CHECK(sender.combiner.merged() == 0);
    for (int i = 0; i < 2'500'000; ++i) {
        sender.add("again", 1);
    }
    // At most what a pause takes.
    CHECK(sender.sent.size() - before <= std::size_t{1} << 20U);
    CHECK(sender.combiner.merged() > 1'000'000);
    sender.drain();
    std::int64_t again = 0;
    for (const auto& [key, value] : sender.sent) {
        again += key == "again" ? value : 0;
    }
    CHECK(again == 2'500'000);
}

TEST_CASE("an error of what takes the tuples ends it") {
    Combiner combiner(Op::kSum, 4, public_seed(1));
    Tuples tuples;
    for (int i = 0; i < 100; ++i) {
        tuples.emplace_back(std::to_string(i), 1);
    }
    int taken = 0;
    const auto out = [&taken](const Tuple&) {
        return ++taken == 3 ? Result<>(Error(Errc::kAborted, "no more")) : Result<>();
    };
    Result<> added;
    for (std::size_t i = 0; i < tuples.size() && added; ++i) {
        const Tuple tuple(tuples[i].first, 1);
        added = combiner.add(std::span(&tuple, 1), out);
    }
    REQUIRE_FALSE(added.ok());
    CHECK(added.error().text() == "no more");
    CHECK(taken == 3);
}

TEST_CASE("a key's head is its first bytes, with whatever stands behind it") {
    std::string buffer = "abcdefghijklmnop";
    for (std::size_t at = 0; at <= buffer.size(); ++at) {
        for (std::size_t size = 0; at + size <= buffer.size(); ++size) {
            const std::string_view key = std::string_view(buffer).substr(at, size);
            const Tuple alone(key, 1);
            const Tuple within(key, 1, buffer.data() + buffer.size());
            CHECK(alone.head == within.head);
            CHECK(alone.head == SmallKey::of(key.substr(0, 8)).low);
        }
    }
}

TEST_CASE("no more of a window is had than an input can fill") {
    CHECK(Combiner::useful(65536, 0) == 65536);
    CHECK(Combiner::useful(65536, 1) == 2);
    CHECK(Combiner::useful(65536, 40000) == 65536);
    CHECK(Combiner::useful(65536, std::uint64_t{1} << 40) == 65536);
    CHECK(Combiner::useful(~std::uint32_t{0}, 0) == Combiner::kMaxWindow);
    CHECK(Combiner::useful(0, 7) == 0);
}

}  // namespace
}  // namespace ask
