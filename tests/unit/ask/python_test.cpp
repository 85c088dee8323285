// SPDX-License-Identifier: Apache-2.0
//
// Cases of python_test.py and python_tuples_test.py, each with an agent of its own.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include <doctest/doctest.h>

#include "tests/unit/ask/group_agent.h"
#include "tests/unit/ask/task_agent.h"

namespace ask::test {
namespace {

void run_case(const char* cases, const char* name, const std::string& socket) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        ::setenv("PYTHONPATH", PYTHON_PACKAGE, 1);
        ::setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
        ::setenv("ASK_LIBRARY", LIBASK, 1);
        ::execl("/usr/bin/python3", "python3", cases, name, socket.c_str(), nullptr);
        ::_exit(127);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

void run_case(const char* name, const GroupAgent& agent) {
    run_case(PYTHON_CASES, name, agent.socket());
}

// With an agent for its task.
void run_task_case(const char* name, const TaskAgent& agent) {
    CAPTURE(std::string(name));
    run_case(PYTHON_TUPLES_CASES, name, agent.socket());
}

const TaskTuples kPythonGiven = {{"", 1}, {"fig", INT64_MIN}, {"apple", INT64_MAX}, {"t\xc3\xbcr", -1}};

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

TEST_CASE("Python: keys and values in every form, and what is wrong with some") {
    TaskAgent agent(TaskAct::kTakes);
    run_task_case("forms", agent);
    // 7 forms of numpy's, 8 of Arrow's, and one by one.
    CHECK(agent.taken() ==
          TaskTuples{{"fig", 16 * 4}, {"plum", 16 * 2}, {"", 1}, {"\xc3\xbc", 1}, {"a\nb", 1}});
}

TEST_CASE("Python: results as arrays, as a dict and as Arrow's") {
    run_task_case("given", TaskAgent(TaskAct::kGives, kPythonGiven));
    run_task_case("by_steps", TaskAgent(TaskAct::kGives, kPythonGiven));
    run_task_case("means", TaskAgent(TaskAct::kGives, {{"a", 10}, {"a#", 4}, {"b", INT64_MAX}, {"b#", 2}}));
    run_task_case("given_up", TaskAgent(TaskAct::kGivesUp, kPythonGiven));
}

TEST_CASE("Python: what cannot be is said before anybody is asked") {
    run_task_case("wrong", TaskAgent(TaskAct::kRefuses));
}

TEST_CASE("Python: waits end by Ctrl-C, asyncio's end, and a block's") {
    run_task_case("interrupted", TaskAgent(TaskAct::kStays));
    run_task_case("cancelled", TaskAgent(TaskAct::kStays));
    run_task_case("awaited", TaskAgent(TaskAct::kGives, kPythonGiven));
    run_task_case("abandoned", TaskAgent(TaskAct::kTakes));
}

}  // namespace ask::test
