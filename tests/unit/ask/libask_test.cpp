// SPDX-License-Identifier: Apache-2.0
//
// The shared library, as a program uses it, against an agent of the test's.
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "lib/ask/ask.h"
#include "tests/unit/ask/group_agent.h"

namespace ask::test {
namespace {

ask_group_options options_for(const GroupAgent& agent, std::uint32_t rank, std::uint32_t size) {
    ask_group_options options = ASK_GROUP_OPTIONS_INIT;
    options.agent = agent.socket().c_str();
    options.group = "g";
    options.root = "h1";
    options.rank = rank;
    options.size = size;
    options.arena_bytes = 1U << 20U;
    options.deadline_ms = 10'000;
    return options;
}

// Every member on a thread of its own.
template <typename Body>
void members(const GroupAgent& agent, unsigned size, const Body& body) {
    std::vector<std::thread> threads;
    threads.reserve(size);
    for (unsigned rank = 0; rank < size; ++rank) {
        threads.emplace_back([&agent, &body, rank, size] {
            const ask_group_options options = options_for(agent, rank, size);
            ask_group* group = nullptr;
            REQUIRE(ask_group_open(&options, &group) == ASK_OK);
            CHECK(ask_group_rank(group) == rank);
            CHECK(ask_group_size(group) == size);
            body(group, rank);
            ask_group_close(group);
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
}

TEST_CASE("collectives of every kind, in place and not, of the arena's memory and of others'") {
    constexpr unsigned kSize = 3;
    const GroupAgent agent(kSize);
    members(agent, kSize, [](ask_group* group, std::uint32_t rank) {
        const auto mine = static_cast<std::int32_t>(rank + 1);
        std::vector<std::int32_t> in(1000, mine);
        std::vector<std::int32_t> out(1000, -1);
        CHECK(ask_allreduce(group, in.data(), out.data(), in.size(), ASK_INT32, ASK_SUM) == ASK_OK);
        CHECK(out == std::vector<std::int32_t>(1000, 6));
        CHECK(in == std::vector<std::int32_t>(1000, mine));
        CHECK(ask_allreduce(group, in.data(), in.data(), in.size(), ASK_INT32, ASK_MAX) == ASK_OK);
        CHECK(in == std::vector<std::int32_t>(1000, 3));

        auto* const shared = static_cast<double*>(ask_alloc(group, 100 * sizeof(double)));
        REQUIRE(shared != nullptr);
        std::fill_n(shared, 100, 0.5);
        CHECK(ask_allreduce(group, shared, shared, 100, ASK_FLOAT64, ASK_SUM) == ASK_OK);
        CHECK(shared[99] == 1.5);
        CHECK(ask_free(group, shared) == ASK_OK);

        std::int64_t value = rank;
        CHECK(ask_reduce(group, &value, rank == 1 ? &value : nullptr, 1, ASK_INT64, ASK_SUM, 1) == ASK_OK);
        CHECK(value == (rank == 1 ? 3 : static_cast<std::int64_t>(rank)));
        std::vector<std::uint8_t> bytes(100, static_cast<std::uint8_t>(100 + rank));
        CHECK(ask_allreduce(group, bytes.data(), bytes.data(), bytes.size(), ASK_UINT8, ASK_SUM) == ASK_OK);
        CHECK(bytes == std::vector<std::uint8_t>(100, 303 - 256));
        float said = rank == 2 ? 2.5F : 0;
        CHECK(ask_bcast(group, &said, 1, ASK_FLOAT32, 2) == ASK_OK);
        CHECK(said == 2.5F);
        CHECK(ask_barrier(group) == ASK_OK);
        CHECK(ask_allreduce(group, nullptr, nullptr, 0, ASK_INT32, ASK_SUM) == ASK_OK);
        CHECK(ask_group_error(group, nullptr) == ASK_OK);
    });
}

TEST_CASE("what a member only reads or only writes is not copied") {
    constexpr std::size_t kArena = 1U << 20U;
    const GroupAgent agent(2);
    members(agent, 2, [](ask_group* group, std::uint32_t rank) {
        auto* const all = static_cast<std::uint8_t*>(ask_alloc(group, kArena));
        REQUIRE(all != nullptr);
        std::fill_n(all, kArena, rank == 1 ? 7 : 0);
        CHECK(ask_bcast(group, all, kArena, ASK_UINT8, 1) == ASK_OK);
        CHECK(all[kArena - 1] == 7);
        CHECK(ask_free(group, all) == ASK_OK);
        std::vector<std::uint8_t> others(kArena, rank == 0 ? 9 : 0);
        CHECK(ask_bcast(group, others.data(), kArena, ASK_UINT8, 0) == ASK_OK);
        CHECK(others[kArena - 1] == 9);

        auto* const in = static_cast<std::uint8_t*>(ask_alloc(group, kArena / 2));
        auto* const out = static_cast<std::uint8_t*>(ask_alloc(group, kArena / 2));
        REQUIRE(out != nullptr);
        std::fill_n(in, kArena / 2, 2);
        std::fill_n(out, kArena / 2, 1);
        CHECK(ask_reduce(group, in, rank == 1 ? out : nullptr, kArena / 2, ASK_UINT8, ASK_SUM, 1) == ASK_OK);
        CHECK(out[0] == (rank == 1 ? 4 : 1));
        CHECK(in[0] == 2);
    });
}

TEST_CASE("requests are waited for in any order") {
    const GroupAgent agent(2);
    members(agent, 2, [](ask_group* group, std::uint32_t rank) {
        std::vector<std::vector<std::int64_t>> vectors(20, std::vector<std::int64_t>(64, rank));
        std::vector<ask_request*> requests(vectors.size());
        for (std::size_t i = 0; i < vectors.size(); ++i) {
            REQUIRE(ask_iallreduce(group, vectors[i].data(), vectors[i].data(), 64, ASK_INT64, ASK_SUM,
                                   &requests[i]) == ASK_OK);
        }
        int done = 0;
        while (done == 0) {
            REQUIRE(ask_test(requests.back(), &done) == ASK_OK);
        }
        for (std::size_t i = requests.size() - 1; i-- > 0;) {
            CHECK(ask_wait(requests[i]) == ASK_OK);
        }
        for (const auto& vector : vectors) {
            CHECK(vector == std::vector<std::int64_t>(64, 1));
        }
    });
}

TEST_CASE("a wait with a limit ends by it, and the request is as it was") {
    const GroupAgent agent(2);
    std::atomic<bool> waited = false;
    members(agent, 2, [&](ask_group* group, std::uint32_t rank) {
        if (rank == 1) {
            waited.wait(false);
            CHECK(ask_barrier(group) == ASK_OK);
            return;
        }
        ask_request* request = nullptr;
        REQUIRE(ask_ibarrier(group, &request) == ASK_OK);
        int done = 1;
        CHECK(ask_wait_for(request, 2000, &done) == ASK_OK);
        CHECK(done == 0);
        CHECK(ask_wait_for(request, 0, &done) == ASK_OK);
        CHECK(done == 0);
        waited = true;
        waited.notify_one();
        CHECK(ask_wait_for(request, UINT64_MAX, &done) == ASK_OK);
        CHECK(done == 1);
    });
}

TEST_CASE("sums of 16 bits are refused where there are too many members for them") {
    const GroupAgent agent(17);
    members(agent, 17, [](ask_group* group, std::uint32_t) {
        float one = 1;
        CHECK(ask_allreduce(group, &one, &one, 1, ASK_FLOAT32, ASK_SUM_16) == ASK_E_LIMIT);
        CHECK(std::string(ask_error()).find("up to 16 members, here are 17") != std::string::npos);
    });
}

TEST_CASE("what a caller passes wrongly is refused, and the group goes on") {
    const GroupAgent agent(1);
    members(agent, 1, [](ask_group* group, std::uint32_t) {
        std::vector<std::int32_t> some(64, 1);
        CHECK(ask_allreduce(group, some.data(), some.data() + 1, 32, ASK_INT32, ASK_SUM) == ASK_E_USAGE);
        CHECK(std::string(ask_error()).find("overlap") != std::string::npos);
        CHECK(ask_allreduce(group, some.data(), some.data(), 64, 13, ASK_SUM) == ASK_E_USAGE);
        CHECK(ask_allreduce(group, some.data(), some.data(), 64, ASK_INT32, 0) == ASK_E_USAGE);
        CHECK(ask_allreduce(group, some.data(), some.data(), 16, ASK_FLOAT32, ASK_BXOR) == ASK_E_UNSUPPORTED);
        CHECK(ask_allreduce(group, some.data(), some.data(), 16, ASK_FLOAT16, ASK_BOR) == ASK_E_UNSUPPORTED);
        CHECK(ask_allreduce(group, some.data(), some.data(), 16, ASK_FLOAT64, ASK_SUM_32) ==
              ASK_E_UNSUPPORTED);
        CHECK(ask_allreduce(group, some.data(), some.data(), 16, ASK_INT32, ASK_SUM_16) == ASK_E_UNSUPPORTED);
        CHECK(ask_allreduce(group, some.data(), some.data(), 16, ASK_FLOAT32, ASK_SUM_16 + 1) == ASK_E_USAGE);
        CHECK(ask_allreduce(group, some.data(), nullptr, 64, ASK_INT32, ASK_SUM) == ASK_E_USAGE);
        CHECK(ask_allreduce(group, some.data(), some.data(), SIZE_MAX / 2, ASK_INT32, ASK_SUM) ==
              ASK_E_LIMIT);
        CHECK(ask_allreduce(group, some.data(), some.data(), std::size_t{1} << 22U, ASK_INT32, ASK_SUM) ==
              ASK_E_LIMIT);
        CHECK(ask_bcast(group, some.data(), 64, ASK_INT32, 1) == ASK_E_USAGE);
        CHECK(ask_allreduce(nullptr, some.data(), some.data(), 64, ASK_INT32, ASK_SUM) == ASK_E_USAGE);
        CHECK(ask_alloc(group, (1U << 20U) + 1) == nullptr);
        CHECK(ask_free(group, some.data()) == ASK_E_USAGE);
        // Nothing of the arena was lost on the way.
        void* const all = ask_alloc(group, 1U << 20U);
        CHECK(all != nullptr);
        CHECK(ask_free(group, all) == ASK_OK);
        CHECK(ask_allreduce(group, some.data(), some.data(), 64, ASK_INT32, ASK_SUM) == ASK_OK);
    });
    ask_group_options options = ASK_GROUP_OPTIONS_INIT;
    ask_group* group = nullptr;
    options.group = "g";
    options.root = "h1";
    options.size = 65;
    CHECK(ask_group_open(&options, &group) == ASK_E_LIMIT);
    CHECK(std::string(ask_error()).find("64") != std::string::npos);
    options.struct_size = 8;
    CHECK(ask_group_open(&options, &group) == ASK_E_USAGE);
    CHECK(group == nullptr);
}

TEST_CASE("what the agent cannot do fails alone, and the group goes on") {
    const GroupAgent agent(2);
    members(agent, 2, [](ask_group* group, std::uint32_t) {
        std::vector<std::int32_t> some(64, 1);
        for (int again = 0; again < 3; ++again) {
            CHECK(ask_allreduce(group, some.data(), some.data(), 64, ASK_INT32, ASK_PROD) ==
                  ASK_E_UNSUPPORTED);
            CHECK(std::string(ask_error()).find("g: this agent knows no products") != std::string::npos);
        }
        CHECK(ask_group_error(group, nullptr) == ASK_OK);
        CHECK(some == std::vector<std::int32_t>(64, 1));
        ask_request* request = nullptr;
        CHECK(ask_iallreduce(group, some.data(), some.data(), 64, ASK_INT32, ASK_PROD, &request) == ASK_OK);
        int done = 0;
        int code = ASK_OK;
        while (code == ASK_OK && done == 0) {
            code = ask_test(request, &done);
        }
        CHECK(code == ASK_E_UNSUPPORTED);
        CHECK(done == 1);
        CHECK(ask_allreduce(group, some.data(), some.data(), 64, ASK_INT32, ASK_SUM) == ASK_OK);
        CHECK(some == std::vector<std::int32_t>(64, 2));
        // Nothing of the arena was lost on the way.
        void* const all = ask_alloc(group, 1U << 20U);
        CHECK(all != nullptr);
        CHECK(ask_free(group, all) == ASK_OK);
    });
}

TEST_CASE("a group that fails says why at every call, and writes nothing") {
    const GroupAgent agent(2, 2);
    members(agent, 2, [](ask_group* group, std::uint32_t) {
        std::vector<std::int32_t> out(16, 7);
        const std::vector<std::int32_t> in(16, 1);
        CHECK(ask_barrier(group) == ASK_OK);
        CHECK(ask_allreduce(group, in.data(), out.data(), 16, ASK_INT32, ASK_SUM) == ASK_E_ABORTED);
        CHECK(out == std::vector<std::int32_t>(16, 7));
        CHECK(std::string(ask_error()).find("h2") != std::string::npos);
        CHECK(ask_barrier(group) == ASK_E_ABORTED);
        const char* text = nullptr;
        CHECK(ask_group_error(group, &text) == ASK_E_ABORTED);
        CHECK(std::string(text).find("h2") != std::string::npos);
    });
}

TEST_CASE("why a group fails is heard by who waits for what has ended before it, too") {
    // The agent ends the first operation and fails the group in one go: both are there when the wait looks.
    for (int again = 0; again < 50; ++again) {
        const GroupAgent agent(1, 2);
        members(agent, 1, [](ask_group* group, std::uint32_t) {
            ask_request* first = nullptr;
            ask_request* second = nullptr;
            REQUIRE(ask_ibarrier(group, &first) == ASK_OK);
            REQUIRE(ask_ibarrier(group, &second) == ASK_OK);
            const int ended = ask_wait(first);
            CHECK((ended == ASK_OK || ended == ASK_E_ABORTED));
            CHECK(ask_wait(second) == ASK_E_ABORTED);
            CHECK(std::string(ask_error()).find("h2") != std::string::npos);
        });
    }
}

TEST_CASE("a group shrinks once it has failed, by what it was and has; one that runs grows") {
    const GroupAgent agent(2, 3);
    members(agent, 2, [](ask_group* group, std::uint32_t rank) {
        ask_group* next = nullptr;
        CHECK(ask_barrier(group) == ASK_OK);
        CHECK(ask_group_shrink(group, &next) == ASK_E_USAGE);
        CHECK(std::string(ask_error()).find("has not failed") != std::string::npos);
        CHECK(ask_group_shrink(group, nullptr) == ASK_E_USAGE);
        CHECK(ask_group_shrink(nullptr, &next) == ASK_E_USAGE);
        CHECK(ask_group_grow(group, 1, &next) == ASK_E_USAGE);
        CHECK(ask_group_grow(group, ASK_GROUP_MAX_SIZE + 1, &next) == ASK_E_LIMIT);
        // It goes on meanwhile.
        CHECK(ask_barrier(group) == ASK_OK);
        CHECK(ask_barrier(group) == ASK_E_ABORTED);
        CHECK(ask_group_shrink(group, &next) == ASK_E_ABORTED);
        CHECK(std::string(ask_error())
                  .find("rank " + std::to_string(rank) + " of 2, shrink of 7 with 2 operations") !=
              std::string::npos);
        CHECK(next == nullptr);
    });
}

TEST_CASE("a group that grows is over, and opens the larger one with its rank") {
    const GroupAgent agent(2);
    members(agent, 2, [](ask_group* group, std::uint32_t rank) {
        ask_group* next = nullptr;
        ask_request* request = nullptr;
        REQUIRE(ask_ibarrier(group, &request) == ASK_OK);
        CHECK(ask_group_grow(group, 3, &next) == ASK_E_USAGE);
        CHECK(ask_wait(request) == ASK_OK);
        CHECK(ask_group_grow(group, 3, &next) == ASK_E_ABORTED);
        CHECK(std::string(ask_error()).find("rank " + std::to_string(rank) + " of 3, shrink of 0") !=
              std::string::npos);
        CHECK(ask_barrier(group) == ASK_E_USAGE);
        CHECK(next == nullptr);
    });
}

TEST_CASE("a descriptor ends a wait, and a second thread is refused meanwhile") {
    const GroupAgent agent(1, 0, true);
    const int cancel = ::eventfd(0, EFD_CLOEXEC);
    ask_group_options options = options_for(agent, 0, 1);
    options.cancel_fd = cancel;
    ask_group* group = nullptr;
    REQUIRE(ask_group_open(&options, &group) == ASK_OK);
    ask_request* request = nullptr;
    REQUIRE(ask_ibarrier(group, &request) == ASK_OK);
    std::thread waiter([&] {
        int code = ASK_E_USAGE;
        // It too is turned away, if it comes while the other one is in its call.
        while (code == ASK_E_USAGE) {
            code = ask_wait(request);
        }
        CHECK(code == ASK_E_ABORTED);
        CHECK(std::string(ask_error()) == "group g: cancelled: its cancel_fd is readable");
    });
    // Until the other is in.
    int done = 0;
    while (ask_free(group, nullptr) == ASK_OK) {
        std::this_thread::yield();
    }
    CHECK(ask_barrier(group) == ASK_E_USAGE);
    CHECK(std::string(ask_error()).find("another thread") != std::string::npos);
    CHECK(done == 0);
    REQUIRE(::eventfd_write(cancel, 1) == 0);
    waiter.join();
    ask_group_close(group);
    ::close(cancel);
}

TEST_CASE("a fork's child has nothing of the group, and holds nothing open") {
    auto agent = std::make_unique<GroupAgent>(1);
    const ask_group_options options = options_for(*agent, 0, 1);
    ask_group* group = nullptr;
    REQUIRE(ask_group_open(&options, &group) == ASK_OK);
    int hold[2];
    REQUIRE(::pipe(hold) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        ::close(hold[1]);
        const int code = ask_barrier(group);
        ask_group_close(group);
        char byte = 0;
        // Until the parent's agent has seen its end.
        const bool ended = ::read(hold[0], &byte, 1) == 0;
        ::_exit(code == ASK_E_USAGE && ended ? 0 : 1);
    }
    CHECK(ask_barrier(group) == ASK_OK);
    ask_group_close(group);
    agent.reset();  // returns once it has seen the member go, while the child lives
    ::close(hold[1]);
    ::close(hold[0]);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

TEST_CASE("names, sizes, version") {
    CHECK(ask_version() == ASK_API_VERSION);
    CHECK(std::string(ask_code_name(ASK_E_DEADLINE)) == "deadline");
    CHECK(std::string(ask_code_name(99)) == "unknown code");
    CHECK(ask_dtype_size(ASK_FLOAT64) == 8);
    CHECK(ask_dtype_size(ASK_UINT8) == 1);
    CHECK(ask_dtype_size(ASK_BFLOAT16) == 2);
    CHECK(ask_dtype_size(ASK_UINT64) == 8);
    CHECK(ask_dtype_size(13) == 0);
    CHECK(ask_wait(nullptr) == ASK_OK);
    ask_group_close(nullptr);
    const char* text = nullptr;
    CHECK(ask_group_error(nullptr, &text) == ASK_E_USAGE);
    CHECK(std::string(text) == "the group is NULL");
    CHECK(ask_group_rank(nullptr) == 0);
    CHECK(ask_group_size(nullptr) == 0);
}

}  // namespace
}  // namespace ask::test
