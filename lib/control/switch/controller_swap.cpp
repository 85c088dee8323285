// SPDX-License-Identifier: Apache-2.0
//
// The shadow-copy swap of the controller (ASK section 3.4, design section 8): flip, barrier, read, confirm,
// blank. A task's swap word holds epoch and phase, and each step is stored there before it is acted on, so
// that a successor repeats the step it finds. The copy in use follows from the epoch, so that repeating a
// flip changes nothing.
#include <endian.h>

#include <algorithm>

#include <spdlog/spdlog.h>

#include "lib/base/probe.h"
#include "lib/control/switch/controller.h"

namespace ask {
namespace {

Error wrong_epoch(const std::string& id, std::uint64_t epoch, std::uint64_t word) {
    return {Errc::kUnsupported, "task " + id + " is in epoch " + std::to_string(ASK_SWAP_EPOCH(word)) +
                                    ", phase " + std::to_string(ASK_SWAP_PHASE(word)) + ": epoch " +
                                    std::to_string(epoch) + " cannot be closed, fetched or confirmed now"};
}

bool has_back(const BackBuckets& buckets) {
    return std::ranges::any_of(buckets, [](std::uint32_t count) { return count != 0; });
}

}  // namespace

std::uint64_t Controller::load_swap(const Task& task) const {
    return store_.load_swap(task.index);
}

void Controller::store_swap(const Task& task, std::uint64_t word) const {
    store_.store_swap(task.index, word);
}

void Controller::flip(const Task& task, std::uint64_t epoch) const {
    store_.store_copy(task.index, ASK_EPOCH_COPY(epoch));
}

// The open task of the instance, once no other thread is in the middle of a step of its swap. The caller
// holds the lock again when this returns, and sets `swapping` if it is going to let go of it.
Result<Controller::Task*> Controller::find_settled(Lock& lock, const Caller& caller, const RegionId& region,
                                                   Whose whose) {
    const std::uint64_t instance = region.instance;
    const bool any = whose == Whose::kAnybodysForOperators && caller.role_operator;
    // Nobody waits for what is not his.
    const auto find = [&] {
        return any || find_own(caller, instance) != nullptr ? tasks_.find(instance) : tasks_.end();
    };
    const bool settled =
        wait_settled(lock, [&] { return find() == tasks_.end() || !find()->second.swapping; });
    const auto it = find();
    if (it == tasks_.end() || it->second.state != Task::State::kOpen) {
        return Error(Errc::kUnknown,
                     "no task with instance " + std::to_string(instance) + " is open on this switch");
    }
    if (it->second.nonce != region.nonce) {
        return Error(Errc::kUnknown, "the region of task " + it->second.id +
                                         " is not the one that is meant: it was made anew");
    }
    if (!settled) {
        return Error(Errc::kUnavailable, "task " + it->second.id + " is in the middle of a swap: try again");
    }
    if (owns(caller, it->second.owner)) {
        it->second.expires = lease_now() + limits_.lease;
    }
    return &it->second;
}

void Controller::end_step(Task& task) {
    task.swapping = false;
    settled_.notify_all();
}

Result<> Controller::map_region(Task& task) const {
    if (task.view || task.entry.copies == 0) {
        return {};
    }
    const std::size_t words = std::size_t{task.entry.sets} * task.entry.copies * task.entry.aggregators *
                              (task.entry.short_slots + std::size_t{task.entry.groups} * task.entry.m);
    auto view = store_.view(*task.region, words);
    ASK_TRY(view, "task " + task.id);
    task.view = std::move(*view);
    return {};
}

Result<FetchSource> Controller::source_of(Task& task, std::uint64_t epoch) const {
    FetchSource source;
    source.of = {be64toh(task.entry.instance), task.nonce};
    source.epoch = epoch;
    source.swap_word = load_swap(task);
    if (task.entry.copies == 0) {
        return source;
    }
    ASK_PASS(map_region(task));
    source.layout = {.geometry = {task.entry.short_slots, task.entry.groups, task.entry.m, task.entry.rows},
                     .op = static_cast<Op>(task.entry.op),
                     .sets = task.entry.sets,
                     .copies = task.entry.copies,
                     .copy = task.entry.copies == 2 ? ASK_EPOCH_COPY(epoch) : 0,
                     .aggregators = task.entry.aggregators};
    source.region = task.view;
    ASK_PASS(view_back(task, source));
    return source;
}

Result<FetchSource> Controller::begin_fetch(const Caller& caller, const RegionId& region,
                                            std::uint64_t epoch) {
    Lock lock(mutex_);
    const auto task = find_settled(lock, caller, region, Whose::kAnybodysForOperators);
    ASK_PASS(task);
    const std::uint64_t word = load_swap(**task);
    if (word != ASK_SWAP_WORD(epoch, ASK_SWAP_BLANK)) {
        return wrong_epoch((*task)->id, epoch, word);
    }
    return source_of(**task, epoch);
}

Result<FetchSource> Controller::close_epoch(const Caller& caller, const RegionId& region,
                                            std::uint64_t epoch) {
    Lock lock(mutex_);
    const auto found = find_settled(lock, caller, region);
    ASK_PASS(found);
    Task& task = **found;
    if (task.entry.copies != 2) {
        return Error(Errc::kUnsupported, "task " + task.id + " has no shadow copy: it cannot swap");
    }
    const std::uint64_t closed = ASK_SWAP_WORD(epoch + 1, ASK_SWAP_FLIPPED);
    const std::uint64_t passed = ASK_SWAP_WORD(epoch + 1, ASK_SWAP_PASSED);
    std::uint64_t word = load_swap(task);
    if (word == ASK_SWAP_WORD(epoch, ASK_SWAP_BLANK)) {
        if (task.entry.back != 0) {
            store_.store_back(task.index, task.entry.back = 0);
        }
        store_swap(task, word = closed);
        flip(task, epoch + 1);
    }
    if (word == closed) {
        // Without the lock: others swap, join and leave meanwhile. The task cannot go: see begin_close().
        task.swapping = true;
        lock.unlock();
        // Of a back level the copies' words say nothing.
        const auto waited = has_back(task.back) ? store_.grace_period() : copy_barrier_.wait();
        lock.lock();
        if (waited.ok()) {
            store_swap(task, word = passed);
        }
        end_step(task);
        ASK_TRY(waited, "task " + task.id);
        swaps_++;
        ASK_PROBE(region_swapped, task.id.c_str(), region.instance, epoch);
    }
    if (word != passed) {
        return wrong_epoch(task.id, epoch, word);
    }
    return source_of(task, epoch);
}

// What was read is that copy only if nobody has gone on with the task's swap meanwhile, or made it anew.
Result<> Controller::end_fetch(const FetchSource& source) const {
    const Guard lock(mutex_);
    const auto it = tasks_.find(source.of.instance);
    if (it == tasks_.end() || it->second.state != Task::State::kOpen || it->second.nonce != source.of.nonce ||
        load_swap(it->second) != source.swap_word) {
        return Error(Errc::kAborted, "the task went on while its copy of epoch " +
                                         std::to_string(source.epoch) + " was being read");
    }
    return {};
}

// All register sets of the copy. Nobody writes to it: it was closed, and its epoch is over.
void Controller::blank(const Task& task, std::uint64_t epoch) const {
    const std::size_t copy_words = task.view->span().size() / task.entry.sets / task.entry.copies;
    for (std::size_t set = 0; set < task.entry.sets; set++) {
        store_.blank(*task.view, (set * task.entry.copies + ASK_EPOCH_COPY(epoch)) * copy_words, copy_words);
    }
}

Result<> Controller::settle() const {
    return store_.grace_period();
}

Result<> Controller::confirm(const Caller& caller, const RegionId& region, std::uint64_t epoch) {
    Lock lock(mutex_);
    const auto found = find_settled(lock, caller, region);
    ASK_PASS(found);
    Task& task = **found;
    const std::uint64_t word = load_swap(task);
    if (ASK_SWAP_EPOCH(word) > epoch + 1 || word == ASK_SWAP_WORD(epoch + 1, ASK_SWAP_BLANK)) {
        return {};
    }
    const std::uint64_t confirmed = ASK_SWAP_WORD(epoch + 1, ASK_SWAP_CONFIRMED);
    if (word != ASK_SWAP_WORD(epoch + 1, ASK_SWAP_PASSED) && word != confirmed) {
        return wrong_epoch(task.id, epoch, word);
    }
    ASK_PASS(map_region(task));
    store_swap(task, confirmed);
    task.swapping = true;
    lock.unlock();
    blank(task, epoch);
    lock.lock();
    store_swap(task, ASK_SWAP_WORD(epoch + 1, ASK_SWAP_BLANK));
    end_step(task);
    return {};
}

// A predecessor may have stored a flip that it had not yet done; the caller's barrier follows.
void Controller::adopt_flips() {
    for (const auto& [instance, task] : tasks_) {
        const std::uint64_t word = load_swap(task);
        if (ASK_SWAP_PHASE(word) == ASK_SWAP_FLIPPED) {
            flip(task, ASK_SWAP_EPOCH(word));
        }
    }
}

// After the barrier: what was flipped has passed, what was confirmed is blanked.
Result<> Controller::adopt_swaps() {
    for (auto& [instance, task] : tasks_) {
        const std::uint64_t word = load_swap(task);
        const std::uint64_t epoch = ASK_SWAP_EPOCH(word);
        if (ASK_SWAP_PHASE(word) == ASK_SWAP_FLIPPED) {
            store_swap(task, ASK_SWAP_WORD(epoch, ASK_SWAP_PASSED));
        } else if (ASK_SWAP_PHASE(word) == ASK_SWAP_CONFIRMED) {
            ASK_PASS(map_region(task));
            blank(task, epoch - 1);
            store_swap(task, ASK_SWAP_WORD(epoch, ASK_SWAP_BLANK));
        }
    }
    return {};
}

}  // namespace ask
