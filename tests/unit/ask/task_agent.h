// SPDX-License-Identifier: Apache-2.0
//
// An agent that lets one application send or receive a task as a test wants. Nothing of the library's insides
// is seen here: ask.hpp has names of its own for some of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace ask::test {

using TaskTuples = std::map<std::string, std::int64_t>;

enum class TaskAct : std::uint8_t {
    kTakes,    // a sender's tuples, whose sums are in taken() at the end
    kDies,     // once there is something of a sender, or a receiver has opened its task
    kFails,    // says then that a deadline has passed
    kStays,    // does nothing more until the application goes
    kGives,    // a receiver's result, and the senders are told once it is confirmed
    kGivesUp,  // the same, but it is too late for that
    kRefuses,  // there is no such task
    kSilent,   // never answers
};

class TaskAgent {
 public:
    // `op`: "sum", "count", ...; what a sender, or the receiver of a kept result, hears that its task's is.
    explicit TaskAgent(TaskAct act, TaskTuples gives = {}, const std::string& op = "sum");
    TaskAgent(const TaskAgent&) = delete;
    TaskAgent& operator=(const TaskAgent&) = delete;
    // Returns once the application has gone.
    ~TaskAgent();
    [[nodiscard]] const std::string& socket() const;
    // Waits for the application to go.
    [[nodiscard]] const TaskTuples& taken();

 private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace ask::test
