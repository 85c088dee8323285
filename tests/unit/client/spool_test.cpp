// SPDX-License-Identifier: Apache-2.0
#include "lib/client/spool.h"

#include <poll.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "lib/abi/consts.h"

namespace ask::client {
namespace {

constexpr int kWaitMs = 20'000;

std::string key_of(std::uint64_t number) {
    return "key-" + std::string(number % 300, 'x') + std::to_string(number);
}

// Everything to the end, as a session reads it.
std::vector<std::pair<std::string, std::int64_t>> read_to_end(Spool& spool) {
    std::vector<std::pair<std::string, std::int64_t>> all;
    Spool::Reader reader(spool);
    while (!reader.at_end()) {
        for (const Tuple& tuple : reader.next(100)) {
            all.emplace_back(tuple.key, tuple.value);
        }
        if (!reader.arm()) {
            pollfd polled{spool.event(), POLLIN, 0};
            REQUIRE(::poll(&polled, 1, kWaitMs) == 1);
        }
    }
    return all;
}

TEST_CASE("a spool gives what went in, in order, as often as it is read") {
    SpoolRoom room(std::size_t{64} << 20U);
    Spool spool(room);
    constexpr std::uint64_t kTuples = 10'000;
    for (std::uint64_t i = 0; i < kTuples; ++i) {
        spool.append(Tuple(key_of(i), static_cast<std::int64_t>(i) - 5000));
    }
    spool.close();
    CHECK(spool.tuples() == kTuples);
    for (int time = 0; time < 2; ++time) {
        const auto all = read_to_end(spool);
        REQUIRE(all.size() == kTuples);
        bool same = true;
        for (std::uint64_t i = 0; i < kTuples; ++i) {
            same = same && all[i].first == key_of(i) && all[i].second == static_cast<std::int64_t>(i) - 5000;
        }
        CHECK(same);
    }
}

TEST_CASE("a spool is read while it is written, by a reader that sleeps") {
    SpoolRoom room(std::size_t{64} << 20U);
    Spool spool(room);
    std::vector<std::pair<std::string, std::int64_t>> all;
    std::thread reader([&] { all = read_to_end(spool); });
    constexpr std::uint64_t kTuples = 50'000;
    for (std::uint64_t i = 0; i < kTuples; ++i) {
        spool.append(Tuple(key_of(i), 1));
        if (i % 97 == 0) {
            spool.wake();
        }
    }
    spool.close();
    reader.join();
    REQUIRE(all.size() == kTuples);
    CHECK(all.back().first == key_of(kTuples - 1));
}

TEST_CASE("a spool that nothing came into ends at once") {
    SpoolRoom room(1);
    Spool spool(room);
    Spool::Reader reader(spool);
    CHECK_FALSE(reader.at_end());
    CHECK(reader.next(10).empty());
    CHECK_FALSE(reader.arm());
    spool.close();
    CHECK(reader.arm());
    CHECK(reader.at_end());
    CHECK(room.used() == 0);
}

TEST_CASE("room is what all spools of a process take, and comes back with each") {
    SpoolRoom room(2 * Spool::kBlock);
    auto first = std::make_unique<Spool>(room);
    first->append(Tuple("a", 1));
    CHECK(room.used() == Spool::kBlock);
    CHECK_FALSE(room.full());
    Spool second(room);
    second.append(Tuple("b", 1));
    CHECK(room.full());
    // What has been read has its place all the same.
    const std::string longest(ASK_MAX_KEY, 'k');
    for (int i = 0; i < 5; ++i) {
        second.append(Tuple(longest, i));
    }
    CHECK(room.used() > room.limit());
    CHECK(second.tuples() == 6);
    first.reset();
    CHECK(room.used() == second.bytes());
}

}  // namespace
}  // namespace ask::client
