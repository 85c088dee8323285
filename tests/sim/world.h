// SPDX-License-Identifier: Apache-2.0
//
// What all parts of a history share: plan, clock, chance, a trace of what happens, and what went wrong.
#pragma once

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

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

    // Calls on their way: they go on whoever dies meanwhile.
    Process wire;
};

// One call of the control interface. Either of both ways may take its time or lose it; a request that the
// caller has given up may still be carried out.
template <typename T>
struct Call {
    std::optional<Result<T>> reply;
    bool refused = false;
    Signal arrived;
};

// A server that dies with a call in hand: its caller sees the connection end.
template <typename T>
struct Connection {
    World& world;
    std::shared_ptr<Call<T>> call;
    bool open = true;
    Connection(World& in, std::shared_ptr<Call<T>> of) : world(in), call(std::move(of)) {}
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    ~Connection() {
        if (open) {
            call->refused = true;
            call->arrived.notify(world.clock);
        }
    }
};

template <typename T>
Job<> serve(World& world, std::shared_ptr<Call<T>> call, std::function<Job<Result<T>>()> body, bool lost) {
    Connection<T> connection(world, call);
    Job<Result<T>> work = body();
    Result<T> result = co_await work;
    if (lost) {
        connection.open = false;
        co_return Done{};
    }
    co_await world.sleep(world.some_us(world.plan.call_delay));
    connection.open = false;
    call->reply.emplace(std::move(result));
    call->arrived.notify(world.clock);
    co_return Done{};
}

template <typename T>
Job<> deliver(World& world, Process& server, std::shared_ptr<Call<T>> call,
              std::function<Job<Result<T>>()> body) {
    const bool lost = world.control.ppm(world.plan.call_loss / 2);
    const bool answer_lost = world.control.ppm(world.plan.call_loss / 2);
    co_await world.sleep(world.some_us(world.plan.call_delay));
    if (lost) {
        co_return Done{};
    }
    if (server.up()) {
        server.spawn(serve<T>(world, std::move(call), std::move(body), answer_lost));
    } else {
        co_await world.sleep(world.some_us(world.plan.call_delay));
        call->refused = true;
        call->arrived.notify(world.clock);
    }
    co_return Done{};
}

template <typename T>
Job<Result<T>> call(World& world, Process& server, Nanos patience, std::function<Job<Result<T>>()> body) {
    auto state = std::make_shared<Call<T>>();
    world.wire.spawn(deliver<T>(world, server, state, std::move(body)));
    const Nanos deadline = world.clock.now() + patience;
    while (!state->reply && !state->refused && world.clock.now() < deadline) {
        co_await state->arrived.wait_until(world.clock, deadline);
    }
    if (state->reply) {
        co_return std::move(*state->reply);
    }
    if (state->refused) {
        co_return Result<T>(Error(Errc::kUnavailable, "connection refused"));
    }
    co_return Result<T>(Error(Errc::kDeadline, "no answer in time"));
}

}  // namespace ask::sim
