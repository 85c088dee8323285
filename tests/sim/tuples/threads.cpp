// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/tuples/threads.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tests/sim/tuples/descriptors.h"
#include "tests/sim/tuples/world.h"

namespace ask::sim {

namespace {

World* the_world = nullptr;
SimThread* running_thread = nullptr;

[[noreturn]] void give_up(const char* what) {
    std::fprintf(stderr, "ask-sim: %s\n", what);
    std::abort();
}

}  // namespace

SimThread::Waker SimThread::make_waker(SimThread& thread) {
    for (;;) {
        co_await std::suspend_always{};
        thread.go_on();
    }
}

SimThread::SimThread(Threads& process, std::function<void()> body)
    : process_(process), body_(std::move(body)), fiber_(Fiber::take_idle()), waker_(make_waker(*this)) {}

SimThread::~SimThread() {
    waker_.handle.destroy();
    Fiber::give_back(std::move(fiber_));
}

void SimThread::begin() {
    SimThread* const before = std::exchange(running_thread, this);
    fiber_->start([this] {
        try {
            body_();
        } catch (const Killed&) {
            // Its stack is unwound.
        }
        body_ = nullptr;
        ended_ = true;
        wake(end_);
    });
    running_thread = before;
}

void SimThread::go_on() {
    if (process_.stopped_ && !process_.killed_) {
        woken_while_stopped_ = true;
        return;
    }
    SimThread* const before = std::exchange(running_thread, this);
    fiber_->resume();
    running_thread = before;
}

std::shared_ptr<SimThread> Threads::spawn(std::function<void()> body) {
    std::erase_if(threads_, [](const auto& thread) { return thread->ended(); });
    threads_.push_back(std::make_shared<SimThread>(*this, std::move(body)));
    const std::shared_ptr<SimThread> thread = threads_.back();
    thread->begin();
    return thread;
}

void Threads::finish(SimThread& thread) {
    if (!thread.ended()) {
        thread.go_on();
    }
    if (!thread.ended()) {
        give_up("a thread of a process that was killed waits again");
    }
}

void Threads::kill() {
    killed_ = true;
    while (!threads_.empty()) {
        const std::shared_ptr<SimThread> last = std::move(threads_.back());
        threads_.pop_back();
        finish(*last);
    }
    killed_ = false;
    stopped_ = false;
}

void Threads::go_on() {
    stopped_ = false;
    for (const auto& thread : threads_) {
        if (std::exchange(thread->woken_while_stopped_, false) && thread->token_) {
            world_.clock.wake_at(world_.clock.now(), *thread->token_);
        }
    }
}

void set_world(World* world) {
    the_world = world;
}

Nanos sim_now() {
    return the_world == nullptr ? 0 : the_world->clock.now();
}

std::uint64_t draw_identity() {
    return the_world == nullptr ? 1 : the_world->draw_u64();
}

void say(const std::string& who, const std::string& what) {
    if (the_world != nullptr) {
        the_world->note("%s: %s", who.c_str(), what.c_str());
    }
}

Threads* current_process() {
    return running_thread == nullptr ? nullptr : &running_thread->process_;
}

bool unwinding() {
    return running_thread != nullptr && (running_thread->unwinding_ || running_thread->dying_);
}

bool thrown() {
    return running_thread != nullptr && running_thread->unwinding_;
}

// False: the process has been killed meanwhile.
bool park_or_die(Signal* signal, Nanos until) {
    SimThread* const thread = running_thread;
    sim::Clock& clock = the_world->clock;
    const Clock::Token token = clock.add_sleeper(thread->waker_.handle);
    thread->token_ = token;
    if (signal != nullptr) {
        signal->add(token);
    }
    if (until != kNever) {
        clock.wake_at(until, token);
    }
    thread->fiber_->suspend();
    thread->token_.reset();
    clock.remove_sleeper(token);
    if (signal != nullptr) {
        signal->remove(token);
    }
    return !thread->process_.killed_;
}

void park(Signal* signal, Nanos until) {
    SimThread* const thread = running_thread;
    if (thread == nullptr) {
        give_up("something waits that is no thread");
    }
    if (thread->unwinding_ || (!thread->dying_ && until <= the_world->clock.now())) {
        return;
    }
    if (thread->dying_ || !park_or_die(signal, until)) {
        thread->unwinding_ = true;
        throw Killed{};
    }
}

void wake(Signal& signal) {
    if (the_world != nullptr) {
        signal.notify(the_world->clock);
    }
}

// Destructors join, which must not throw.
void join(SimThread& thread) {
    while (!thread.ended()) {
        if (running_thread == nullptr || unwinding()) {
            Threads::finish(thread);
        } else if (!park_or_die(&thread.end_, kNever)) {
            running_thread->dying_ = true;
        }
    }
}

}  // namespace ask::sim
