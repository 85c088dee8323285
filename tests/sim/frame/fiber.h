// SPDX-License-Identifier: Apache-2.0
//
// A stack of its own for a function that may be suspended anywhere and resumed later: a CPU of a simulated
// switch. One thread.
#pragma once

#include <functional>
#include <memory>

namespace ask::sim {

class Fiber {
 public:
    Fiber();
    ~Fiber();
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;

    // Runs `job` until it suspends or ends. Only when done().
    void start(std::function<void()> job);
    // Goes on until it suspends again or ends. Only when not done().
    void resume();
    [[nodiscard]] bool done() const;
    // By the job: back to whoever started or resumed it.
    void suspend();

    // Fibers outlive histories: making one costs a system call.
    static std::unique_ptr<Fiber> take_idle();
    static void give_back(std::unique_ptr<Fiber> fiber);

 private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace ask::sim
