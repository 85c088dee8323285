// SPDX-License-Identifier: Apache-2.0
//
// Tasks by ask.hpp, as a program sees it, against an agent of the test's.
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include "lib/ask/ask.hpp"
#include "tests/unit/ask/fails.h"
#include "tests/unit/ask/task_agent.h"

namespace ask::test {
namespace {

static_assert(!std::is_copy_constructible_v<Sender> && std::is_nothrow_move_constructible_v<Sender>);
static_assert(!std::is_copy_constructible_v<Result> && std::is_nothrow_move_assignable_v<Result>);
static_assert(std::is_nothrow_move_constructible_v<Receiver>);

const std::vector<std::int32_t> kOffsets = {0, 3, 6, 10};
constexpr std::string_view kKeys = "figfigplum";
const std::vector<std::int64_t> kValues = {1, 2, 3};

TEST_CASE("C++: a sender of rows and of columns") {
    TaskAgent agent(TaskAct::kTakes);
    {
        Sender sender({.task = "t", .to = "h3", .agent = agent.socket(), .merge_window = 0});
        sender.push("fig", 4);
        sender.push("", -1);
        sender.push(columns(kOffsets, kKeys, kValues));
        sender.flush();
        CHECK(fails(Code::kUsage, [&] {
                  sender.push(columns(kOffsets, kKeys, {}));
              }).starts_with("task t: columns: the values are NULL"));
        CHECK(sender.finish().tuples_in == 7);
    }
    CHECK(agent.taken() == TaskTuples{{"fig", 7}, {"", -1}, {"plum", 3}});
    CHECK(fails(Code::kUsage, [] {
              static_cast<void>(columns(kOffsets, kKeys, std::vector<std::int64_t>{1}));
          }) == "columns: 3 rows have 1 values");
}

TEST_CASE("C++: all at once") {
    TaskAgent takes(TaskAct::kTakes);
    CHECK(send({.task = "t", .to = "h3", .agent = takes.socket()}, columns(kOffsets, kKeys, kValues)).runs ==
          1);
    CHECK(takes.taken() == TaskTuples{{"fig", 3}, {"plum", 3}});

    const TaskTuples given = {{"a", 1}, {"bc", -2}};
    const TaskAgent gives(TaskAct::kGives, given);
    const Result result = receive(
        {.task = "t", .agent = gives.socket(), .flags = ASK_RECEIVE_SORTED | ASK_RECEIVE_ALLOW_INCOMPLETE});
    CHECK(result.size() == 2);
    CHECK(result.key(1) == "bc");
    CHECK(result.values()[1] == -2);
    CHECK(result.offsets()[2] == 3);
    TaskTuples walked;
    for (const auto& [key, value] : result.rows()) {
        walked[std::string(key)] = value;
    }
    CHECK(walked == given);
    CHECK(result.stats().tuples_in == 11);
    CHECK(result.missing() == std::vector<std::string>{"an unknown subset of h2's tuples: it died"});
}

TEST_CASE("C++: means") {
    const TaskAgent gives(TaskAct::kGives, {{"a", 10}, {"a#", 4}, {"b", -1}, {"b#", 1}});
    const Result means = receive({.task = "t", .op = Op::kMean, .agent = gives.socket()});
    CHECK(means.size() == 2);
    CHECK(means.key(0) == "a");
    CHECK(means.value(0) == 10);
    CHECK(means.counts()[0] == 4);
    CHECK(means.mean(0) == 2.5);
    const TaskAgent sums(TaskAct::kGives, {{"a", 10}});
    CHECK(receive({.task = "t", .agent = sums.socket()}).counts().empty());
}

TEST_CASE("C++: what fails throws, with code and text") {
    const TaskAgent agent(TaskAct::kRefuses);
    CHECK(fails(Code::kUnknown, [&] { Sender sender({.task = "t", .to = "h3", .agent = agent.socket()}); }) ==
          "no task t at h3 within 1 s");
    CHECK(fails(Code::kUsage, [] { Receiver receiver({.task = "t", .op = Op::kXor}); }) ==
          "task t: operator 7 is none of tuples: ASK_SUM, ASK_COUNT, ASK_MIN, ASK_MAX or ASK_MEAN");
    CHECK(fails(Code::kUsage, [] {
              Receiver receiver({.task = "t", .deadline = std::chrono::seconds(-1)});
          }) == "task t: the deadline must be from 1 ms to 49 days");
    const TaskAgent late(TaskAct::kGivesUp);
    CHECK(fails(Code::kNotTaken, [&] {
              static_cast<void>(receive({.task = "t", .agent = late.socket()}));
          }) == "task t: its result was not taken in time");
}

}  // namespace
}  // namespace ask::test
