// SPDX-License-Identifier: Apache-2.0
//
// ask.hpp, as a program sees it, against an agent of the test's.
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "lib/ask/ask.hpp"
#include "tests/unit/ask/fails.h"
#include "tests/unit/ask/group_agent.h"

namespace ask::test {
namespace {

// What cannot be reduced, and what would be written after it is gone, does not compile.
template <typename... Arguments>
concept Reduces = requires(Group& group, Arguments&&... arguments) {
    group.iallreduce(std::forward<Arguments>(arguments)...);
};
using Floats = std::vector<float>;
using Doubles = std::vector<double>;
static_assert(Reduces<Floats&> && Reduces<std::span<float>> && Reduces<const Floats&, Floats&>);
static_assert(Reduces<Array<int>&> && Reduces<const Array<int>&, std::array<int, 3>&>);
static_assert(!Reduces<Floats> && !Reduces<const Floats&> && !Reduces<std::span<const float>>);
static_assert(!Reduces<Floats, Floats&> && !Reduces<Floats&, Doubles&> && !Reduces<std::vector<bool>&>);
static_assert(!Value<bool> && !Value<char> && !Value<long double> && !Value<const char*>);
static_assert(detail::dtype_of<long>() == ASK_INT64 && detail::dtype_of<unsigned long long>() == ASK_UINT64);
static_assert(detail::dtype_of<signed char>() == ASK_INT8 && detail::dtype_of<std::uint16_t>() == ASK_UINT16);
static_assert(detail::dtype_of<Float16>() == ASK_FLOAT16 && detail::dtype_of<Bfloat16>() == ASK_BFLOAT16);
static_assert(!std::is_copy_constructible_v<Request> && !std::is_copy_constructible_v<Array<int>>);
static_assert(std::is_nothrow_move_assignable_v<Request> && std::is_nothrow_move_assignable_v<Array<int>>);

Options options_for(const GroupAgent& agent, std::uint32_t rank, std::uint32_t size) {
    return {.group = "g",
            .root = "h1",
            .rank = rank,
            .size = size,
            .deadline = std::chrono::seconds(10),
            .agent = agent.socket(),
            .arena_bytes = 1U << 20U};
}

// Every member on a thread of its own.
template <typename Body>
void members(const GroupAgent& agent, std::uint32_t size, const Body& body) {
    std::vector<std::thread> threads;
    threads.reserve(size);
    for (std::uint32_t rank = 0; rank < size; ++rank) {
        threads.emplace_back([&agent, &body, rank, size] {
            Group group(options_for(agent, rank, size));
            CHECK(group.rank() == rank);
            CHECK(group.size() == size);
            body(group, rank);
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
}

TEST_CASE("C++: collectives of every kind") {
    const GroupAgent agent(3);
    members(agent, 3, [](Group& group, std::uint32_t rank) {
        const auto mine = static_cast<std::int32_t>(rank);
        const std::vector<std::int32_t> in(1000, mine + 1);
        std::vector<std::int32_t> out(1000, -1);
        group.allreduce(in, out);
        CHECK(out == std::vector<std::int32_t>(1000, 6));
        group.allreduce(out, Op::kMax);
        CHECK(out.front() == 6);
        group.allreduce(std::vector<std::int32_t>(3, mine), std::span(out).first(3), Op::kMax);
        CHECK(std::vector(out.begin(), out.begin() + 4) == std::vector<std::int32_t>{2, 2, 2, 6});

        auto shared = group.array<double>(100);
        std::ranges::fill(shared, 0.5);
        group.allreduce(shared);
        CHECK(shared.size() == 100);
        CHECK(shared[99] == 1.5);

        std::vector<std::uint8_t> at_root(rank == 1 ? 5 : 0);
        group.reduce(std::array<std::uint8_t, 5>{100, 0, 0, 0, 2}, at_root, 1);
        CHECK(at_root ==
              (rank == 1 ? std::vector<std::uint8_t>{44, 0, 0, 0, 6} : std::vector<std::uint8_t>()));
        std::array<std::int64_t, 2> pair{mine, 1};
        group.reduce(pair, 2);
        CHECK(pair == (rank == 2 ? std::array<std::int64_t, 2>{3, 3} : std::array<std::int64_t, 2>{mine, 1}));
        group.bcast(pair, 2);
        CHECK(pair[1] == 3);
        group.barrier();

        CHECK(group.allreduce(2.5F + static_cast<float>(rank)) == 10.5F);
        CHECK(group.bcast(rank == 1 ? 9 : 0, 1) == 9);
        const auto total = group.reduce(std::uint16_t{7}, 0);
        CHECK(total.has_value() == (rank == 0));
        CHECK(total.value_or(21) == 21);
        group.allreduce(std::span<std::int64_t>());
        CHECK(!group.failure());
    });
}

TEST_CASE("C++: requests move, and are waited for in any order") {
    const GroupAgent agent(2);
    members(agent, 2, [](Group& group, std::uint32_t rank) {
        std::vector<std::vector<std::int64_t>> vectors(20, std::vector<std::int64_t>(64, rank));
        std::vector<Request> requests;
        for (auto& vector : vectors) {
            // NOLINTNEXTLINE(performance-inefficient-vector-operation): growing moves them
            requests.push_back(group.iallreduce(vector));
        }
        std::array<std::int32_t, 3> said{static_cast<std::int32_t>(rank), 5, 5};
        requests.push_back(group.ibcast(said, 1));
        std::array<float, 1> reduced{1};
        requests.push_back(group.ireduce(reduced, 0));
        requests.push_back(group.ibarrier());
        while (!requests.back().test()) {
        }
        CHECK(!requests.back());
        CHECK(requests.back().test());
        requests.back().wait();
        for (Request& request : std::ranges::reverse_view(requests)) {
            request.wait();
        }
        CHECK(vectors == std::vector(20, std::vector<std::int64_t>(64, 1)));
        CHECK(said[0] == 1);
        CHECK(reduced[0] == (rank == 0 ? 2 : 1));
    });
}

TEST_CASE("C++: what is passed wrongly is refused, and the group goes on") {
    const GroupAgent agent(1);
    members(agent, 1, [](Group& group, std::uint32_t) {
        std::vector<float> some(64, 1);
        std::vector<float> fewer(63);
        CHECK(fails(Code::kUsage, [&] { group.allreduce(some, fewer); }) ==
              "the input has 64 values and the output 63");
        fails(Code::kUsage, [&] { group.allreduce(some, std::span(some).subspan(1), Op::kSum); });
        fails(Code::kUsage,
              [&] { group.allreduce(std::span(some).first(32), std::span(some).subspan(1, 32)); });
        fails(Code::kUnsupported, [&] { group.allreduce(some, Op::kXor); });
        fails(Code::kUsage, [&] { group.bcast(some, 1); });
        CHECK(fails(Code::kLimit, [&] { (void)group.array<double>(1U << 20U); }).find("1048576") !=
              std::string::npos);
        fails(Code::kLimit, [&] { (void)group.array<double>(std::size_t{1} << 62U); });
        // An array's memory comes back with it, and moves with it.
        {
            auto all = group.array<std::uint8_t>(1U << 20U);
            const auto moved = std::move(all);
            CHECK(moved.size() == 1U << 20U);
            fails(Code::kLimit, [&] { (void)group.array<std::uint8_t>(1); });
        }
        auto again = group.array<std::uint8_t>(1U << 19U);
        again = group.array<std::uint8_t>(0);
        // Behind it is less.
        const auto same = group.array<std::uint8_t>(1U << 19U);
        CHECK(again.size() == 0);
        CHECK(!group.failure());
    });
    fails(Code::kLimit, [] { const Group group({.group = "g", .root = "h1", .rank = 0, .size = 65}); });
    fails(Code::kUsage, [] {
        const Group group({.group = "g", .root = "h1", .size = 1, .deadline = std::chrono::milliseconds(-1)});
    });
    CHECK(fails(Code::kUnavailable, [] {
              const Group group({.group = "g", .root = "h1", .size = 1, .agent = "/nonexistent/agent.sock"});
          }).find("start ask-agentd") != std::string::npos);
}

TEST_CASE("C++: a group that fails says so, and a request of it is at its end") {
    const GroupAgent agent(2, 2);
    members(agent, 2, [](Group& group, std::uint32_t) {
        group.barrier();
        std::vector<std::int32_t> out(16, 7);
        Request request = group.iallreduce(std::span(out));
        CHECK(fails(Code::kAborted, [&] { request.wait(); }).find("h2") != std::string::npos);
        CHECK(!request);
        request.wait();
        CHECK(out == std::vector<std::int32_t>(16, 7));
        fails(Code::kAborted, [&] { group.barrier(); });
        REQUIRE(group.failure());
        CHECK(group.failure()->code() == Code::kAborted);
        CHECK(std::string(group.failure()->what()).find("h2") != std::string::npos);
    });
}

TEST_CASE("C++: arrays hold their group open, and a request that is given up writes nothing") {
    auto agent = std::make_unique<GroupAgent>(1, 0, true);
    std::vector<std::int32_t> out(16, 7);
    auto group = std::make_unique<Group>(options_for(*agent, 0, 1));
    auto array = std::make_unique<Array<std::int32_t>>(group->array<std::int32_t>(16));
    {
        const Request given_up = group->iallreduce(out);
    }
    group.reset();
    (*array)[15] = 3;
    array.reset();
    agent.reset();  // returns once it has seen the member go
    CHECK(out == std::vector<std::int32_t>(16, 7));
}

TEST_CASE("C++: a request that another thread's call has kept from its turn can be waited for again") {
    const GroupAgent agent(1, 0, true);
    const int cancel = ::eventfd(0, EFD_CLOEXEC);
    Options options = options_for(agent, 0, 1);
    options.cancel_fd = cancel;
    Group group(options);
    Request first = group.ibarrier();
    Request second = group.ibarrier();
    std::thread waiter([&] {
        Code code = Code::kUsage;
        // It too is turned away, if it comes while the other one is in its call.
        while (code == Code::kUsage) {
            try {
                first.wait();
                FAIL("should have failed");
            } catch (const Error& error) {
                code = error.code();
            }
        }
        CHECK(code == Code::kAborted);
    });
    // Until the other is in.
    while (ask_free(group.handle(), nullptr) == ASK_OK) {
        std::this_thread::yield();
    }
    fails(Code::kUsage, [&] { second.wait(); });
    CHECK(second);
    fails(Code::kUsage, [&] { (void)second.test(); });
    CHECK(second);
    REQUIRE(::eventfd_write(cancel, 1) == 0);
    waiter.join();
    fails(Code::kAborted, [&] { second.wait(); });
    CHECK(!second);
    ::close(cancel);
}

}  // namespace
}  // namespace ask::test
