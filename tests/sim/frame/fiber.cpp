// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/frame/fiber.h"

#include <ucontext.h>

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

// Sanitizers must be told of a change of stacks, and do not understand a jump between them.
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace ask::sim {

namespace {

constexpr std::size_t kStackBytes = std::size_t{256} << 10;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kJumps = false;
#else
// A jump makes no system call, swapcontext() makes two for the signal mask.
constexpr bool kJumps = true;
#endif

}  // namespace

struct Fiber::State {
    std::vector<std::byte> stack = std::vector<std::byte>(kStackBytes);
    std::function<void()> job;
    bool done = true;
    bool made = false;
    ucontext_t outside{};
    ucontext_t inside{};
    jmp_buf jump_outside{};
    jmp_buf jump_inside{};
#if defined(__SANITIZE_ADDRESS__)
    void* fake_outside = nullptr;
    void* fake_inside = nullptr;
    const void* outside_stack = nullptr;
    std::size_t outside_bytes = 0;
#endif
#if defined(__SANITIZE_THREAD__)
    void* tsan_inside = nullptr;
    void* tsan_outside = nullptr;
#endif

    void enter();
    void leave();
    [[noreturn]] void loop();
    static void entry(unsigned low, unsigned high);
};

// makecontext() passes ints only.
void Fiber::State::entry(unsigned low, unsigned high) {
    const auto address = (static_cast<std::uintptr_t>(high) << 32U) | low;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): it was a pointer
    reinterpret_cast<State*>(address)->loop();
}

void Fiber::State::loop() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(nullptr, &outside_stack, &outside_bytes);
#endif
    for (;;) {
        job();
        done = true;
        leave();
    }
}

void Fiber::State::enter() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&fake_outside, stack.data(), stack.size());
#endif
#if defined(__SANITIZE_THREAD__)
    tsan_outside = __tsan_get_current_fiber();
    if (tsan_inside == nullptr) {
        tsan_inside = __tsan_create_fiber(0);
    }
    __tsan_switch_to_fiber(tsan_inside, 0);
#endif
    if (!made || !kJumps) {
        if (!made) {
            made = true;
            ::getcontext(&inside);
            inside.uc_stack.ss_sp = stack.data();
            inside.uc_stack.ss_size = stack.size();
            inside.uc_link = nullptr;
            const auto address = reinterpret_cast<std::uintptr_t>(this);
            ::makecontext(&inside, reinterpret_cast<void (*)()>(&State::entry), 2,
                          static_cast<unsigned>(address), static_cast<unsigned>(address >> 32U));
        }
        if (!kJumps || _setjmp(jump_outside) == 0) {
            ::swapcontext(&outside, &inside);
        }
    } else if (_setjmp(jump_outside) == 0) {
        _longjmp(jump_inside, 1);
    }
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake_outside, nullptr, nullptr);
#endif
}

void Fiber::State::leave() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&fake_inside, outside_stack, outside_bytes);
#endif
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(tsan_outside, 0);
#endif
    if (!kJumps) {
        ::swapcontext(&inside, &outside);
    } else if (_setjmp(jump_inside) == 0) {
        _longjmp(jump_outside, 1);
    }
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake_inside, &outside_stack, &outside_bytes);
#endif
}

Fiber::Fiber() : state_(std::make_unique<State>()) {}
Fiber::~Fiber() {
#if defined(__SANITIZE_THREAD__)
    if (state_->tsan_inside != nullptr) {
        __tsan_destroy_fiber(state_->tsan_inside);
    }
#endif
}

void Fiber::start(std::function<void()> job) {
    state_->job = std::move(job);
    state_->done = false;
    state_->enter();
}

void Fiber::resume() {
    state_->enter();
}

bool Fiber::done() const {
    return state_->done;
}

void Fiber::suspend() {
    state_->leave();
}

namespace {

std::vector<std::unique_ptr<Fiber>>& idle_fibers() {
    static std::vector<std::unique_ptr<Fiber>> fibers;
    return fibers;
}

}  // namespace

std::unique_ptr<Fiber> Fiber::take_idle() {
    auto& idle = idle_fibers();
    if (idle.empty()) {
        return std::make_unique<Fiber>();
    }
    auto fiber = std::move(idle.back());
    idle.pop_back();
    return fiber;
}

void Fiber::give_back(std::unique_ptr<Fiber> fiber) {
    idle_fibers().push_back(std::move(fiber));
}

}  // namespace ask::sim
