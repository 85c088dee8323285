// SPDX-License-Identifier: Apache-2.0
//
// python_test.py's cases, each with an agent of its own.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include <doctest/doctest.h>

#include "tests/unit/ask/group_agent.h"

namespace ask::test {
namespace {

void run_case(const char* name, const GroupAgent& agent) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        ::setenv("PYTHONPATH", PYTHON_PACKAGE, 1);
        ::setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
        ::setenv("ASK_LIBRARY", LIBASK, 1);
        ::execl("/usr/bin/python3", "python3", PYTHON_CASES, name, agent.socket().c_str(), nullptr);
        ::_exit(127);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

}  // namespace

TEST_CASE("Python: collectives of every kind and type, requests, memory of the arena") {
    run_case("collectives", GroupAgent(3));
}

TEST_CASE("Python: what is passed wrongly is refused, and memory comes back with its arrays") {
    run_case("usage", GroupAgent(1));
}

TEST_CASE("Python: a request that another thread's call has kept from its turn can be waited for again") {
    run_case("refused", GroupAgent(1, 0, true));
}

TEST_CASE("Python: a group that fails says who it was") {
    run_case("failed", GroupAgent(2, 2));
}

}  // namespace ask::test
