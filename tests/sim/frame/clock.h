// SPDX-License-Identifier: Apache-2.0
//
// The simulated clock: events in the order of their times, those of one time in the order they were made.
#pragma once

#include <coroutine>
#include <cstdint>
#include <vector>

#include "lib/tuples/types.h"

namespace ask::sim {

// Whoever an event is for; outlives its events.
class Handler {
 public:
    Handler() = default;
    Handler(const Handler&) = delete;
    Handler& operator=(const Handler&) = delete;
    virtual ~Handler() = default;
    virtual void fire(std::uint64_t argument) = 0;
};

class Clock {
 public:
    [[nodiscard]] Nanos now() const { return now_; }
    void at(Nanos when, Handler* handler, std::uint64_t argument);
    void in(Nanos delay, Handler* handler, std::uint64_t argument) { at(now_ + delay, handler, argument); }
    // Runs the next event. False: there is none.
    bool step();
    [[nodiscard]] std::uint64_t events() const { return order_; }

    // Suspended coroutines, each woken at most once, whoever comes first.
    using Token = std::uint64_t;
    Token add_sleeper(std::coroutine_handle<> coroutine);
    void remove_sleeper(Token token);
    void wake_at(Nanos when, Token token) { at(when, &sleepers_, token); }

 private:
    struct Event {
        Nanos at;
        std::uint64_t order;
        Handler* handler;
        std::uint64_t argument;
        // For a heap whose first is the earliest.
        bool operator<(const Event& other) const {
            return at != other.at ? at > other.at : order > other.order;
        }
    };
    class Sleepers final : public Handler {
     public:
        struct Slot {
            std::coroutine_handle<> coroutine;
            std::uint32_t generation = 0;
        };
        void fire(std::uint64_t token) override;
        std::vector<Slot> slots;
        std::vector<std::uint32_t> free;
    };

    Nanos now_ = 0;
    std::uint64_t order_ = 0;
    std::vector<Event> heap_;
    Sleepers sleepers_;
};

}  // namespace ask::sim
