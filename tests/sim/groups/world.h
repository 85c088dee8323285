// SPDX-License-Identifier: Apache-2.0
//
// What all parts of a history of groups share: plan, clock, chance, a trace of what happens, and what went
// wrong.
#pragma once

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/clock.h"
#include "tests/sim/groups/plan.h"
#include "tests/sim/random.h"

namespace ask::sim::groups {

// What a history can break (docs/simulator.md). The shrinker keeps to one.
enum class Promise : std::uint8_t {
    kNone,
    kFold,    // a slot, packet or result is not the fold of its set
    kAnswer,  // an application's result is not what its members gave
    kWait,    // somebody is told nothing, or a group that nothing befell does not end
    kName,    // a group ends without naming who is missing, or for no reason
    kRound,   // all have sent their values alone, and the chunk is not complete
    kCount,   // packets and counters do not agree, or something is not bounded
};

struct World {
    World(const Plan& of, std::uint64_t seed, bool traced)
        : plan(of), chance(seed, 2), control(seed, 3), identities(seed, 4), tracing(traced) {}

    Plan plan;
    Clock clock;
    Random chance;      // of frames and CPUs
    Random control;     // of daemons, applications and deaths
    Random identities;  // instances, secrets, values
    bool tracing;
    Promise broken = Promise::kNone;  // the first
    std::string failure;              // and how
    Nanos moved = 0;                  // when a member last had a result

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
    // Up to `most` microseconds, at least one.
    [[nodiscard]] Nanos some_us(std::uint64_t most) {
        return static_cast<Nanos>(1 + control.below(most)) * kMicrosecond;
    }
    // Any time up to `most`, as likely a short one as a long one.
    [[nodiscard]] Nanos any_time(Nanos most) { return most >> control.below(12); }
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

}  // namespace ask::sim::groups
