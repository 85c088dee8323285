// SPDX-License-Identifier: Apache-2.0
//
// What all parts of a history share: plan, clock, chance, a trace of what happens, and what went wrong.
#pragma once

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/clock.h"
#include "tests/sim/job.h"
#include "tests/sim/plan.h"
#include "tests/sim/random.h"

namespace ask::sim {

// What a history can break (docs/simulator.md). The shrinker keeps to one.
enum class Promise : std::uint8_t {
    kNone,
    kAnswer,   // a result that is not what was sent
    kSuccess,  // told without a result
    kWait,     // somebody is told nothing
    kTask,     // a task fails though nothing died
    kCount,    // packets and counters do not agree
    kLeft,     // something is left over
};

struct World {
    World(const Plan& of, std::uint64_t seed, bool traced)
        : plan(of), chance(seed, 2), control(seed, 3), identities(seed, 4), tracing(traced) {}

    Plan plan;
    Clock clock;
    Random chance;      // of frames and CPUs
    Random control;     // of daemons, calls and deaths
    Random identities;  // instances, incarnations, secrets
    bool tracing;
    Promise broken = Promise::kNone;  // the first
    std::string failure;              // and how
    // When something last went on that can do so only so often: a session begins or ends, a packet is
    // acknowledged.
    Nanos moved = 0;
    std::uint64_t moved_at_event = 0;

    // One line of the history.
    [[gnu::format(printf, 2, 3)]] void note(const char* format, ...) const {
        if (!tracing) {
            return;
        }
        std::printf("%12.3f us  ", static_cast<double>(clock.now()) / kMicrosecond);
        va_list list;
        va_start(list, format);
        std::vprintf(format, list);
        va_end(list);
        std::printf("\n");
    }
    void fail(Promise promise, std::string what) {
        note("BROKEN: %s", what.c_str());
        if (broken == Promise::kNone) {
            broken = promise;
            failure = std::move(what);
        }
    }
    void moves() {
        moved = clock.now();
        moved_at_event = clock.events();
    }
    [[nodiscard]] Sleep sleep(Nanos delay) { return {clock, delay}; }
    // Up to `most` microseconds, at least one.
    [[nodiscard]] Nanos some_us(std::uint64_t most) {
        return static_cast<Nanos>(1 + control.below(most)) * kMicrosecond;
    }
    std::uint64_t draw_u64() { return identities.next() | 1U; }
    std::uint32_t draw_u32() { return static_cast<std::uint32_t>(identities.next()) | 1U; }

    // Runs `what` then, whoever dies meanwhile.
    void later(Nanos delay, std::function<void()> what) { posts_.add(clock, delay, std::move(what)); }

 private:
    class Posts final : public Handler {
     public:
        void add(Clock& on, Nanos delay, std::function<void()> what) {
            std::size_t slot = posts_.size();
            if (free_.empty()) {
                posts_.push_back(std::move(what));
            } else {
                slot = free_.back();
                free_.pop_back();
                posts_[slot] = std::move(what);
            }
            on.in(delay, this, slot);
        }
        void fire(std::uint64_t slot) override {
            const auto what = std::exchange(posts_[slot], nullptr);
            free_.push_back(slot);
            what();
        }

     private:
        std::vector<std::function<void()>> posts_;
        std::vector<std::size_t> free_;
    };
    Posts posts_;
};

}  // namespace ask::sim
