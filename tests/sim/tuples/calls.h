// SPDX-License-Identifier: Apache-2.0
//
// Calls of the control interfaces, between threads of two processes. Either of both ways may take its time or
// lose it; a request that its caller has given up may still be carried out; a server that dies with a call in
// hand ends it, and one that is stopped takes it up when it goes on.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "lib/base/result.h"
#include "lib/control/member/call_cancel.h"
#include "lib/control/member/patience.h"
#include "tests/sim/tuples/threads.h"
#include "tests/sim/tuples/world.h"

namespace ask::sim {

// Who answers calls: a process, as long as it runs.
class Server {
 public:
    explicit Server(World& world) : threads_(world) {}
    [[nodiscard]] bool up() const { return up_; }
    [[nodiscard]] Threads& threads() { return threads_; }

 protected:
    void boot() { up_ = true; }
    void die() {
        up_ = false;
        threads_.kill();
    }

 private:
    bool up_ = false;
    Threads threads_;
};

template <typename T>
struct Call {
    std::optional<Result<T>> reply;
    bool gone = false;  // its caller no longer waits
    Signal arrived;
    std::function<void()> on_reply;  // in place of a thread that waits; may be empty

    void end(Result<T> with) {
        if (!reply) {
            reply.emplace(std::move(with));
            wake(arrived);
            if (on_reply) {
                on_reply();
            }
        }
    }
};

// Whether who serves a call sees that nobody waits for it any more.
using CallerGone = std::function<bool()>;
template <typename T>
using CallBody = std::function<Result<T>(const CallerGone& caller_gone)>;

namespace detail {

template <typename T>
void serve(World& world, const std::shared_ptr<Call<T>>& call, const CallBody<T>& body, bool answer_lost) {
    // The connection ends with the process, wherever its threads are.
    struct Connection {
        Call<T>& call;
        bool open = true;
        ~Connection() {
            if (open) {
                call.end(Error(Errc::kUnavailable, "connection reset"));
            }
        }
    } connection{*call};
    while (current_process()->stopped()) {
        park(nullptr, world.clock.now() + kMicrosecond);
    }
    // That a caller has gone may be known here or not.
    const CallerGone caller_gone = [&world, call] { return call->gone && world.control.below(2) == 0; };
    auto result = std::make_shared<Result<T>>(body(caller_gone));
    if (unwinding()) {
        return;
    }
    connection.open = false;
    if (!answer_lost) {
        world.later(world.some_us(world.plan.call_delay), [call, result] { call->end(std::move(*result)); });
    }
}

}  // namespace detail

// On its way; `call` hears of its end.
template <typename T>
void send_call(World& world, Server& server, const std::shared_ptr<Call<T>>& call, CallBody<T> body) {
    const bool lost = world.control.ppm(world.plan.call_loss / 2);
    const bool answer_lost = world.control.ppm(world.plan.call_loss / 2);
    if (lost) {
        return;
    }
    world.later(
        world.some_us(world.plan.call_delay), [&world, &server, call, body = std::move(body), answer_lost] {
            if (server.up()) {
                server.threads().spawn(
                    [&world, call, body, answer_lost] { detail::serve(world, call, body, answer_lost); });
            } else {
                world.later(world.some_us(world.plan.call_delay),
                            [call] { call->end(Error(Errc::kUnavailable, "connection refused")); });
            }
        });
}

// The calling thread waits for the answer.
template <typename T>
Result<T> call(World& world, Server& server, milliseconds wait, CallCancel* cancel, CallBody<T> body) {
    if (unwinding()) {
        park(nullptr, kNever);
        return Error(Errc::kAborted, "its process has been killed");
    }
    auto state = std::make_shared<Call<T>>();
    struct Waiting {
        Call<T>& call;
        ~Waiting() { call.gone = true; }
    } const waiting{*state};
    bool cancelled = false;
    const CancelScope scope(cancel, [&cancelled, state] {
        cancelled = true;
        wake(state->arrived);
    });
    send_call(world, server, state, std::move(body));
    const Nanos deadline = world.clock.now() + wait.count() * kMillisecond;
    while (!state->reply && !cancelled && world.clock.now() < deadline) {
        park(&state->arrived, deadline);
    }
    if (state->reply) {
        return std::move(*state->reply);
    }
    return cancelled ? Error(Errc::kAborted, "cancelled") : Error(Errc::kDeadline, "no answer in time");
}

}  // namespace ask::sim
