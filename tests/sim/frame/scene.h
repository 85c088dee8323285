// SPDX-License-Identifier: Apache-2.0
//
// What all parts of a history share, whatever it simulates: clock, chance, a trace of what happens, and what
// went wrong.
#pragma once

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/frame/clock.h"
#include "tests/sim/frame/random.h"

namespace ask::sim {

struct Scene {
    Scene(std::uint64_t seed, bool traced)
        : chance(seed, 2), control(seed, 3), identities(seed, 4), tracing(traced) {}

    Clock clock;
    Random chance;      // of frames and CPUs
    Random control;     // of daemons, calls, applications and deaths
    Random identities;  // instances, incarnations, secrets, values
    bool tracing;
    std::string failure;  // how the first promise was broken

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
    // Up to `most` microseconds, at least one.
    [[nodiscard]] Nanos some_us(std::uint64_t most) {
        return static_cast<Nanos>(1 + control.below(most)) * kMicrosecond;
    }
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

// With the plan of a simulator, and what its histories can break: an enum with kNone.
template <typename Plan, typename Promise>
struct SceneOf : Scene {
    SceneOf(const Plan& of, std::uint64_t seed, bool traced) : Scene(seed, traced), plan(of) {}

    Plan plan;
    Promise broken = Promise::kNone;  // the first

    void fail(Promise promise, std::string what) {
        note("BROKEN: %s", what.c_str());
        if (broken == Promise::kNone) {
            broken = promise;
            failure = std::move(what);
        }
    }
};

}  // namespace ask::sim
