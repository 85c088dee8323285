// SPDX-License-Identifier: Apache-2.0
//
// Threads of simulated processes: sequential code that waits, on fibers and the simulated clock. One of them
// runs at a time, until it waits; who is woken first goes on first, so that a history repeats.
//
// A process that is killed ends where its threads wait: Killed is thrown out of each wait, the threads made
// last first, since they may use what is on the stacks of those that made them. Until a stack is unwound its
// waits return at once, and whoever acts for the process on the world outside (its store, its calls) looks at
// unwinding() and does nothing. A process that is stopped keeps its threads where they are until it goes on.
#pragma once

#include <coroutine>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/sim/frame/clock.h"
#include "tests/sim/frame/fiber.h"
#include "tests/sim/tuples/job.h"

namespace ask::sim {

struct World;

// No std::exception: nothing but the end of a thread catches it.
struct Killed {};

class Threads;

class SimThread {
 public:
    SimThread(Threads& process, std::function<void()> body);
    ~SimThread();
    SimThread(const SimThread&) = delete;
    SimThread& operator=(const SimThread&) = delete;
    [[nodiscard]] bool ended() const { return ended_; }

 private:
    friend class Threads;
    friend void park(Signal* signal, Nanos until);
    friend Threads* current_process();
    friend bool unwinding();
    friend bool thrown();
    friend bool park_or_die(Signal* signal, Nanos until);
    friend void join(SimThread& thread);
    // A sleeper of the clock that resumes the fiber.
    struct Waker {
        struct promise_type {  // NOLINT(readability-identifier-naming): the language's name
            Waker get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
            std::suspend_never initial_suspend() noexcept { return {}; }
            std::suspend_always final_suspend() noexcept { return {}; }
            void return_void() {}
            void unhandled_exception() { std::terminate(); }
        };
        std::coroutine_handle<promise_type> handle;
    };
    static Waker make_waker(SimThread& thread);

    void begin();
    // Lets it run until it waits again or ends.
    void go_on();

    Threads& process_;
    std::function<void()> body_;
    std::unique_ptr<Fiber> fiber_;
    Waker waker_;
    std::optional<Clock::Token> token_;  // while it waits
    Signal end_;
    bool ended_ = false;
    bool unwinding_ = false;  // Killed has been thrown
    bool dying_ = false;      // it is thrown by the next wait
    bool woken_while_stopped_ = false;
};

// The threads of one process.
class Threads {
 public:
    explicit Threads(World& world) : world_(world) {}
    ~Threads() { kill(); }
    Threads(const Threads&) = delete;
    Threads& operator=(const Threads&) = delete;

    // Runs `body` at once, until it waits.
    std::shared_ptr<SimThread> spawn(std::function<void()> body);
    // From outside, not by a thread of any process. Others may be spawned afterwards.
    void kill();
    void stop() { stopped_ = true; }
    void go_on();
    [[nodiscard]] bool stopped() const { return stopped_; }

 private:
    friend class SimThread;
    friend bool park_or_die(Signal* signal, Nanos until);
    friend void join(SimThread& thread);
    static void finish(SimThread& thread);

    World& world_;
    std::vector<std::shared_ptr<SimThread>> threads_;
    bool killed_ = false;
    bool stopped_ = false;
};

// Of the history that runs; null between two.
void set_world(World* world);
[[nodiscard]] Nanos sim_now();
// What nobody guesses: instances, incarnations, secrets. Never 0.
[[nodiscard]] std::uint64_t draw_identity();

// The calling thread's process; null outside of threads.
[[nodiscard]] Threads* current_process();
// Whether the calling thread belongs to a process that has been killed.
[[nodiscard]] bool unwinding();
// The same, once it has been told so: its waits return at once.
[[nodiscard]] bool thrown();
// The calling thread waits for `signal` (null: for nothing), or until then.
void park(Signal* signal, Nanos until);
// Wakes all that wait for it.
void wake(Signal& signal);
void join(SimThread& thread);
// The calling thread waits for a coroutine to end.
template <typename T>
T await(Job<T> job) {
    Signal ended;
    std::optional<T> value;
    struct Run {
        static Job<> run(Job<T>& of, std::optional<T>& into, Signal& signal) {
            into.emplace(co_await of);
            wake(signal);
            co_return Done{};
        }
    };
    Job<> run = Run::run(job, value, ended);
    run.start();
    while (!value) {
        park(&ended, kNever);
    }
    return std::move(*value);
}

}  // namespace ask::sim
