// SPDX-License-Identifier: Apache-2.0
//
// Control logic as coroutines over the simulated clock, so that it reads in the order in which the daemons do
// it. A Process owns its running jobs: killing it destroys them wherever they wait, as kill -9 does.
#pragma once

#include <coroutine>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lib/base/result.h"
#include "tests/sim/frame/clock.h"

namespace ask::sim {

struct Done {};

// A coroutine that yields a T to whoever awaits it. Starts when awaited; dies with this object.
template <typename T = Done>
class [[nodiscard]] Job {
 public:
    struct promise_type {  // NOLINT(readability-identifier-naming): the language's name
        std::optional<T> value;
        std::coroutine_handle<> waiter;

        Job get_return_object() { return Job(Handle::from_promise(*this)); }
        std::suspend_always initial_suspend() noexcept { return {}; }
        auto final_suspend() noexcept {
            struct Back {
                bool await_ready() noexcept { return false; }
                std::coroutine_handle<> await_suspend(Handle job) noexcept {
                    const std::coroutine_handle<> to = job.promise().waiter;
                    return to ? to : std::noop_coroutine();
                }
                void await_resume() noexcept {}
            };
            return Back{};
        }
        void return_value(T result) { value.emplace(std::move(result)); }
        void unhandled_exception() { std::terminate(); }
    };
    using Handle = std::coroutine_handle<promise_type>;

    Job(Job&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Job& operator=(Job&&) = delete;
    ~Job() {
        if (handle_) {
            handle_.destroy();
        }
    }

    // Awaiting.
    bool await_ready() const noexcept { return false; }
    Handle await_suspend(std::coroutine_handle<> waiter) noexcept {
        handle_.promise().waiter = waiter;
        return handle_;
    }
    T await_resume() { return std::move(*handle_.promise().value); }

    // By a Process, for one that nobody awaits.
    void start() { handle_.resume(); }
    [[nodiscard]] bool ended() const { return handle_.done(); }

 private:
    explicit Job(Handle handle) : handle_(handle) {}
    Handle handle_;
};

// co_await Sleep(clock, delay).
class Sleep {
 public:
    Sleep(Clock& clock, Nanos delay) : clock_(clock), delay_(delay) {}
    Sleep(const Sleep&) = delete;
    Sleep& operator=(const Sleep&) = delete;
    ~Sleep() { forget(); }
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> coroutine) {
        token_ = clock_.add_sleeper(coroutine);
        if (delay_ != kNever) {
            clock_.wake_at(clock_.now() + delay_, *token_);
        }
    }
    void await_resume() { forget(); }

 private:
    void forget() {
        if (token_) {
            clock_.remove_sleeper(*std::exchange(token_, std::nullopt));
        }
    }
    Clock& clock_;
    Nanos delay_;
    std::optional<Clock::Token> token_;
};

// Something that may have changed: co_await signal.wait_until(clock, when). Waiters look again themselves.
class Signal {
 public:
    void notify(Clock& clock) {
        for (const Clock::Token token : std::exchange(waiters_, {})) {
            clock.wake_at(clock.now(), token);
        }
    }

    class Wait {
     public:
        Wait(Signal& signal, Clock& clock, Nanos until) : signal_(signal), clock_(clock), until_(until) {}
        Wait(const Wait&) = delete;
        Wait& operator=(const Wait&) = delete;
        ~Wait() { forget(); }
        bool await_ready() const noexcept { return clock_.now() >= until_; }
        void await_suspend(std::coroutine_handle<> coroutine) {
            token_ = clock_.add_sleeper(coroutine);
            signal_.waiters_.push_back(*token_);
            if (until_ != kNever) {
                clock_.wake_at(until_, *token_);
            }
        }
        void await_resume() { forget(); }

     private:
        void forget() {
            if (token_) {
                clock_.remove_sleeper(*token_);
                std::erase(signal_.waiters_, *token_);
                token_.reset();
            }
        }
        Signal& signal_;
        Clock& clock_;
        Nanos until_;
        std::optional<Clock::Token> token_;
    };
    [[nodiscard]] Wait wait_until(Clock& clock, Nanos until) { return {*this, clock, until}; }
    // By whoever waits otherwise.
    void add(Clock::Token token) { waiters_.push_back(token); }
    void remove(Clock::Token token) { std::erase(waiters_, token); }

 private:
    std::vector<Clock::Token> waiters_;
};

// A daemon or an application. Not to be killed by one of its own jobs: see World::kill_later().
class Process {
 public:
    [[nodiscard]] bool up() const { return up_; }
    void boot() { up_ = true; }
    void kill() {
        up_ = false;
        // Destroying a job may destroy what others wait for, but starts none.
        jobs_.clear();
    }
    void spawn(Job<> job) {
        std::erase_if(jobs_, [](const Job<>& old) { return old.ended(); });
        jobs_.push_back(std::move(job));
        jobs_.back().start();
    }

 private:
    bool up_ = true;
    std::list<Job<>> jobs_;
};

// A mutex that coroutines of one process wait for in order.
class AsyncMutex {
 public:
    class Lock {
     public:
        explicit Lock(AsyncMutex& mutex) : mutex_(&mutex) {}
        Lock(Lock&& other) noexcept : mutex_(std::exchange(other.mutex_, nullptr)) {}
        Lock& operator=(Lock&& other) noexcept {
            unlock();
            mutex_ = std::exchange(other.mutex_, nullptr);
            return *this;
        }
        ~Lock() { unlock(); }
        void unlock() {
            if (mutex_ != nullptr) {
                std::exchange(mutex_, nullptr)->held_ = false;
            }
        }
        [[nodiscard]] bool held() const { return mutex_ != nullptr; }

     private:
        AsyncMutex* mutex_;
    };

    // Looks again every now and then: there is never much of a crowd.
    Job<Lock> lock(Clock& clock) {
        while (held_) {
            co_await Sleep(clock, kMicrosecond);
        }
        held_ = true;
        co_return Lock(*this);
    }

 private:
    bool held_ = false;
};

}  // namespace ask::sim
