// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/frame/clock.h"

#include <algorithm>

namespace ask::sim {

void Clock::at(Nanos when, Handler* handler, std::uint64_t argument) {
    heap_.push_back({std::max(when, now_), order_++, handler, argument});
    std::push_heap(heap_.begin(), heap_.end());
}

bool Clock::step() {
    if (heap_.empty()) {
        return false;
    }
    std::pop_heap(heap_.begin(), heap_.end());
    const Event event = heap_.back();
    heap_.pop_back();
    now_ = event.at;
    event.handler->fire(event.argument);
    return true;
}

Clock::Token Clock::add_sleeper(std::coroutine_handle<> coroutine) {
    std::uint32_t index = 0;
    if (sleepers_.free.empty()) {
        index = static_cast<std::uint32_t>(sleepers_.slots.size());
        sleepers_.slots.emplace_back();
    } else {
        index = sleepers_.free.back();
        sleepers_.free.pop_back();
    }
    sleepers_.slots[index].coroutine = coroutine;
    return std::uint64_t{sleepers_.slots[index].generation} << 32U | index;
}

void Clock::remove_sleeper(Token token) {
    auto& slot = sleepers_.slots[token & 0xffffffffU];
    if (slot.generation != token >> 32U) {
        return;
    }
    slot.coroutine = nullptr;
    ++slot.generation;
    sleepers_.free.push_back(static_cast<std::uint32_t>(token & 0xffffffffU));
}

void Clock::Sleepers::fire(std::uint64_t token) {
    auto& slot = slots[token & 0xffffffffU];
    if (slot.generation != token >> 32U || !slot.coroutine) {
        return;
    }
    // Its awaiter removes the slot when it goes on.
    slot.coroutine.resume();
}

}  // namespace ask::sim
