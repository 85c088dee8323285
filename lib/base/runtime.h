// SPDX-License-Identifier: Apache-2.0
//
// Threads, locks, time and chance, as the control plane sees them: it names none of the standard library's.
// The simulator compiles the same sources against a header of this name that puts fibers and its own clock
// in their place (tests/sim/shadow).
#pragma once

#include <chrono>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <thread>

namespace ask {

using Clock = std::chrono::steady_clock;
using Mutex = std::mutex;
using Lock = std::unique_lock<Mutex>;
using Guard = std::lock_guard<Mutex>;
using CondVar = std::condition_variable;
using Thread = std::thread;

// The time of day, for people.
inline std::time_t time_of_day() {
    return std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
}

// Lets others run, for somebody who waits for a thing that takes microseconds.
inline void yield_thread() {
    std::this_thread::yield();
}

}  // namespace ask
