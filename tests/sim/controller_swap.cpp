// SPDX-License-Identifier: Apache-2.0
//
// The swap, as loader/controller_swap.cpp and loader/service.cpp do it.
#include <algorithm>
#include <cstring>

#include "tests/sim/controller.h"

namespace ask::sim {

namespace {

constexpr Nanos kBarrierPatience = 500 * kMicrosecond;

Error wrong_epoch(std::uint64_t epoch, std::uint64_t word) {
    return {Errc::kUnsupported, "the task is in epoch " + std::to_string(ASK_SWAP_EPOCH(word)) + ", phase " +
                                    std::to_string(ASK_SWAP_PHASE(word)) + ": epoch " +
                                    std::to_string(epoch) + " cannot be closed, fetched or confirmed now"};
}

}  // namespace

Job<Result<Controller::Task*>> Controller::find_settled(std::uint64_t instance, AsyncMutex::Lock& lock) {
    const Nanos until = world_.clock.now() + kPatience;
    const auto find = [&] { return memory_->tasks.find(instance); };
    while (find() != memory_->tasks.end() && find()->second.swapping && world_.clock.now() < until) {
        lock.unlock();
        co_await memory_->settled.wait_until(world_.clock, until);
        co_await lock_again(lock);
    }
    const auto it = find();
    if (it == memory_->tasks.end() || it->second.state != Task::State::kOpen) {
        co_return Error(Errc::kUnknown, "no such task is open on this switch");
    }
    if (it->second.swapping) {
        co_return Error(Errc::kUnavailable, "the task is in the middle of a swap");
    }
    it->second.expires = world_.clock.now() + kLease;
    co_return &it->second;
}

// As loader/copy_barrier.cpp: each CPU's word at rest or moved on, else a grace period.
Job<> Controller::copy_barrier() {
    const Nanos deadline = world_.clock.now() + kBarrierPatience;
    for (std::uint32_t cpu = 0; cpu < plane_.maps().cpus && world_.plan.rcu_only == 0; ++cpu) {
        const ask_presence& here = plane_.maps().presence[cpu];
        const std::uint64_t first = here.word;
        while ((here.word & ASK_PRESENCE_DEPTH) != 0 && here.word >> 32U == first >> 32U) {
            if (world_.clock.now() >= deadline) {
                co_await plane_.grace_period();
                co_return Done{};
            }
            co_await world_.sleep(2 * kMicrosecond);
        }
    }
    if (world_.plan.rcu_only != 0) {
        co_await plane_.grace_period();
    }
    co_return Done{};
}

Job<Result<Done>> Controller::close_epoch(std::uint64_t instance, std::uint64_t epoch) {
    AsyncMutex::Lock lock = co_await memory_->mutex.lock(world_.clock);
    const Result<Task*> found = co_await find_settled(instance, lock);
    if (!found.ok()) {
        co_return found.error();
    }
    Task& task = **found;
    if (task.entry.copies != 2) {
        co_return Error(Errc::kUnsupported, "the task has no shadow copy");
    }
    const std::uint64_t closed = ASK_SWAP_WORD(epoch + 1, ASK_SWAP_FLIPPED);
    const std::uint64_t passed = ASK_SWAP_WORD(epoch + 1, ASK_SWAP_PASSED);
    if (entry_of(task).swap == ASK_SWAP_WORD(epoch, ASK_SWAP_BLANK)) {
        entry_of(task).swap = closed;
        co_await step("stored that the epoch is closed");
        entry_of(task).copy = ASK_EPOCH_COPY(epoch + 1);
        co_await step("flipped the copy index");
    }
    if (entry_of(task).swap == closed) {
        task.swapping = true;
        lock.unlock();
        co_await copy_barrier();
        co_await lock_again(lock);
        entry_of(task).swap = passed;
        task.swapping = false;
        memory_->settled.notify(world_.clock);
        ++swaps_;
        co_await step("stored that the barrier is passed");
    }
    if (entry_of(task).swap != passed) {
        co_return wrong_epoch(epoch, entry_of(task).swap);
    }
    co_return Done{};
}

Job<Result<Copy>> Controller::fetch(std::uint64_t instance, std::uint64_t epoch, bool close) {
    co_await ready();
    if (close) {
        const Result<Done> closed = co_await close_epoch(instance, epoch);
        if (!closed.ok()) {
            co_return closed.error();
        }
        Result<Copy> copy = co_await stream(instance, epoch, ASK_SWAP_WORD(epoch + 1, ASK_SWAP_PASSED));
        co_return copy;
    }
    Result<Copy> copy = co_await stream(instance, epoch, ASK_SWAP_WORD(epoch, ASK_SWAP_BLANK));
    co_return copy;
}

// Reads the copy piece by piece; it is that copy only if the task's word was the same all the time.
Job<Result<Copy>> Controller::stream(std::uint64_t instance, std::uint64_t epoch, std::uint64_t word) {
    ask_task entry{};
    PinnedTask* pin = nullptr;
    std::string id;
    {
        AsyncMutex::Lock lock = co_await memory_->mutex.lock(world_.clock);
        const Result<Task*> found = co_await find_settled(instance, lock);
        if (!found.ok()) {
            co_return found.error();
        }
        entry = (*found)->entry;
        id = (*found)->id;
        if (entry_of(**found).swap != word) {
            co_return wrong_epoch(epoch, entry_of(**found).swap);
        }
        pin = pinned(id);
    }
    Copy copy{.entries = {}, .count = 0, .epoch = epoch, .aggregated = 0, .mark = plane_.mark()};
    if (entry.copies > 0) {
        const CopyLayout layout{.geometry = {entry.short_slots, entry.groups, entry.m, entry.rows},
                                .op = static_cast<Op>(entry.op),
                                .sets = entry.sets,
                                .copies = entry.copies,
                                .copy = entry.copies == 2 ? ASK_EPOCH_COPY(epoch) : 0,
                                .aggregators = entry.aggregators};
        CopyWalker walker({reinterpret_cast<const ask_aggregator*>(pin->region.data()), pin->region.size()},
                          layout);
        for (bool more = true; more;) {
            const Result<bool> filled = walker.fill(copy.entries, copy.entries.size() + 64);
            if (!filled.ok()) {
                co_return filled.error();
            }
            more = *filled;
            co_await step("streams a copy");
            // There the mapping keeps the memory; here what is read of it would be thrown away below.
            if (pinned(id) != pin) {
                co_return Error(Errc::kAborted, "the task ended while it was read");
            }
        }
        copy.count = walker.count();
    }
    const AsyncMutex::Lock lock = co_await memory_->mutex.lock(world_.clock);
    const auto it = memory_->tasks.find(instance);
    if (it == memory_->tasks.end() || it->second.state != Task::State::kOpen ||
        entry_of(it->second).swap != word) {
        co_return Error(Errc::kAborted, "the task went on while its copy was read");
    }
    for (const auto& [key, index] : memory_->flows) {
        for (std::uint32_t cpu = 0; key.first == instance && cpu < plane_.maps().cpus; ++cpu) {
            copy.aggregated += plane_.maps()
                                   .flow_stats[std::size_t{cpu} * plane_.maps().max_flows + index]
                                   .tuples_aggregated;
        }
    }
    co_return copy;
}

void Controller::blank(const Task& task, std::uint64_t epoch) {
    auto& region = pinned(task.id)->region;
    const std::size_t words = region.size() / task.entry.sets / task.entry.copies;
    for (std::size_t set = 0; set < task.entry.sets; ++set) {
        const std::size_t first = (set * task.entry.copies + ASK_EPOCH_COPY(epoch)) * words;
        std::fill_n(region.begin() + static_cast<std::ptrdiff_t>(first), words, 0);
    }
}

Job<Result<Done>> Controller::confirm(std::uint64_t instance, std::uint64_t epoch) {
    co_await ready();
    AsyncMutex::Lock lock = co_await memory_->mutex.lock(world_.clock);
    const Result<Task*> found = co_await find_settled(instance, lock);
    if (!found.ok()) {
        co_return found.error();
    }
    Task& task = **found;
    const std::uint64_t word = entry_of(task).swap;
    if (ASK_SWAP_EPOCH(word) > epoch + 1 || word == ASK_SWAP_WORD(epoch + 1, ASK_SWAP_BLANK)) {
        co_return Done{};
    }
    const std::uint64_t confirmed = ASK_SWAP_WORD(epoch + 1, ASK_SWAP_CONFIRMED);
    if (word != ASK_SWAP_WORD(epoch + 1, ASK_SWAP_PASSED) && word != confirmed) {
        co_return wrong_epoch(epoch, word);
    }
    entry_of(task).swap = confirmed;
    task.swapping = true;
    lock.unlock();
    co_await step("stored that the copy is confirmed");
    blank(task, epoch);
    co_await step("blanked the copy");
    co_await lock_again(lock);
    entry_of(task).swap = ASK_SWAP_WORD(epoch + 1, ASK_SWAP_BLANK);
    task.swapping = false;
    memory_->settled.notify(world_.clock);
    co_await step("stored that the copy is blank");
    co_return Done{};
}

}  // namespace ask::sim
