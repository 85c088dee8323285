// SPDX-License-Identifier: Apache-2.0
//
// The header of this name, for the simulator: fibers for threads, and its clock (tests/sim/tuples/threads.h).
#pragma once

#include <chrono>
#include <ctime>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "lib/tuples/types.h"
#include "tests/sim/tuples/threads.h"

namespace ask {

class Clock {
 public:
    using duration = std::chrono::nanoseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::steady_clock::time_point;
    static constexpr bool is_steady = true;
    static time_point now() { return time_point(duration(sim::sim_now())); }
};

class Mutex {
 public:
    void lock() {
        while (held_ && !sim::unwinding()) {
            sim::park(&free_, kNever);
        }
        held_ = true;
    }
    bool try_lock() { return !std::exchange(held_, true); }
    void unlock() {
        held_ = false;
        sim::wake(free_);
    }

 private:
    sim::Signal free_;
    bool held_ = false;
};

using Lock = std::unique_lock<Mutex>;
using Guard = std::lock_guard<Mutex>;

class CondVar {
 public:
    void notify_one() { sim::wake(changed_); }
    void notify_all() { sim::wake(changed_); }
    void wait(Lock& lock) { wait_parked(lock, kNever); }
    template <typename Predicate>
    void wait(Lock& lock, Predicate done) {
        while (!done() && !sim::thrown()) {
            wait(lock);
        }
    }
    template <typename Predicate>
    bool wait_until(Lock& lock, Clock::time_point when, Predicate done) {
        while (!done() && !sim::thrown()) {
            if (Clock::now() >= when) {
                return false;
            }
            wait_parked(lock, nanos_of(when));
        }
        return done();
    }
    template <typename Rep, typename Period, typename Predicate>
    bool wait_for(Lock& lock, const std::chrono::duration<Rep, Period>& wait, Predicate done) {
        return wait_until(lock, Clock::now() + wait, std::move(done));
    }

 private:
    static std::int64_t nanos_of(Clock::time_point when) {
        return std::chrono::duration_cast<std::chrono::nanoseconds>(when.time_since_epoch()).count();
    }
    void wait_parked(Lock& lock, std::int64_t until) {
        lock.unlock();
        // Before another can notify: threads run until they wait.
        sim::park(&changed_, until);
        lock.lock();
    }

    sim::Signal changed_;
};

class Thread {
 public:
    Thread() = default;
    template <typename F, typename... Args>
    explicit Thread(F&& body, Args&&... args)
        : thread_(sim::current_process()->spawn(
              [body = std::forward<F>(body), ... args = std::forward<Args>(args)]() mutable {
                  std::invoke(body, args...);
              })) {}
    Thread(Thread&&) noexcept = default;
    Thread& operator=(Thread&&) noexcept = default;
    [[nodiscard]] bool joinable() const { return thread_ != nullptr; }
    void join() {
        sim::join(*thread_);
        thread_.reset();
    }

 private:
    std::shared_ptr<sim::SimThread> thread_;
};

inline std::time_t time_of_day() {
    return sim::sim_now() / kSecond;
}

inline void yield_thread() {
    sim::park(nullptr, sim::sim_now() + 2'000);
}

}  // namespace ask
