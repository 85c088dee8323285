// SPDX-License-Identifier: Apache-2.0
//
// Life of the controller, its reclaimer, and what it reports.
#include "lib/control/switch/controller.h"

#include <endian.h>

#include <numeric>

#include <spdlog/spdlog.h>

#include "lib/tuples/switch_counts.h"

namespace ask {
namespace {

// A host sees what is its own, and what is its tenant's.
bool may_see(const Caller& caller, const Owner& owner) {
    return owns(caller, owner) || (!owner.tenant.empty() && caller.tenant == owner.tenant);
}

}  // namespace

Controller::Controller(SwitchStore& store, const ControllerLimits& limits)
    : store_(store),
      limits_(limits),
      copy_barrier_(store, limits.rcu_only),
      channel_pool_(store.meta().max_channels),
      flow_pool_(store.meta().max_flows),
      task_pool_(store.meta().max_tasks),
      sram_(limits.sram_bytes),
      quotas_(limits.quota, {.tasks = store.meta().max_tasks,
                             .channels = store.meta().max_channels,
                             .flows = store.meta().max_flows,
                             .sram_bytes = limits.sram_bytes,
                             .back_bytes = limits.back_bytes}),
      buckets_(store.meta().max_tasks) {}

Result<std::unique_ptr<Controller>> Controller::create(SwitchStore& store, const ControllerLimits& limits) {
    std::unique_ptr<Controller> controller(new Controller(store, limits));
    ASK_PASS(controller->rebuild());
    controller->reclaimer_ = Thread(&Controller::reclaim_loop, controller.get());
    controller->blanker_ = Thread(&Controller::blank_loop, controller.get());
    return controller;
}

Controller::~Controller() {
    {
        const Guard lock(mutex_);
        stopping_ = true;
    }
    work_.notify_all();
    blank_work_.notify_all();
    for (Thread* thread : {&reclaimer_, &blanker_}) {
        if (thread->joinable()) {
            thread->join();
        }
    }
}

Mark Controller::mark() const {
    return {static_cast<std::uint16_t>(store_.meta().switch_id), store_.meta().incarnation};
}

std::optional<std::uint32_t> Controller::take(Lock& lock, IndexPool& pool) {
    wait_settled(lock, [&pool] { return pool.has_free() || !pool.has_retired(); });
    return pool.take();
}

void Controller::reclaim_loop() {
    constexpr std::chrono::seconds kRetry{1};
    Lock lock(mutex_);
    bool failed = false;
    while (true) {
        if (failed) {
            work_.wait_for(lock, kRetry, [this] { return stopping_; });
        } else {
            work_.wait(lock, [this] { return stopping_ || !garbage_.empty(); });
        }
        if (stopping_) {
            // A successor finds closing tasks without meta and indices without hash entries, and takes them
            // back.
            return;
        }
        Garbage batch = std::exchange(garbage_, {});
        std::vector<Remains> tasks;
        tasks.reserve(batch.tasks.size());
        for (const std::uint64_t instance : batch.tasks) {
            const Task& task = tasks_.at(instance);
            tasks.push_back({task.owner.tenant, task.id, task.pins, task.index});
        }
        lock.unlock();
        const auto done = reclaim(batch, tasks);
        lock.lock();
        failed = !done.ok();
        if (done.ok()) {
            finish_reclaim(batch);
        } else {
            spdlog::error("reclaim: {}; will be tried again", done.error().text());
            garbage_.channels.insert(garbage_.channels.end(), batch.channels.begin(), batch.channels.end());
            garbage_.flows.insert(garbage_.flows.end(), batch.flows.begin(), batch.flows.end());
            garbage_.tasks.insert(garbage_.tasks.end(), batch.tasks.begin(), batch.tasks.end());
        }
    }
}

// Maps of maps are costly to ask: up to Linux 6.6 each look-up, update and deletion waits for a grace period,
// whatever comes of it. So what may be in them is read off plain arrays: an entry of `flows` or `tasks` is
// written before what belongs to it is put in, and blank again once that is out.
Result<> Controller::erase_flow(std::uint32_t index) const {
    ASK_PASS(store_.carried().erase(index));
    return store_.flows().set(index, {});
}

Result<> Controller::erase_task(std::uint32_t index) const {
    const auto entry = store_.tasks().find(index);
    ASK_PASS(entry);
    if (*entry && (*entry)->service == ASK_SERVICE_VALUES) {
        ASK_PASS(erase_group(index));
    }
    if (const auto* regions = store_.regions(*entry ? (*entry)->program : 0)) {
        ASK_PASS(regions->erase(index));
    }
    ASK_PASS(store_.heats().erase(index));
    ASK_PASS(erase_back(index));
    return store_.tasks().set(index, {});
}

// No hash entry leads to any of these any more; after the barrier no program has one in hand either. May be
// repeated.
Result<> Controller::reclaim(const Garbage& batch, const std::vector<Remains>& tasks) const {
    ASK_TRY(store_.grace_period(), std::to_string(batch.channels.size()) + " channels, " +
                                       std::to_string(batch.flows.size()) + " flows");
    for (const std::uint32_t index : batch.flows) {
        ASK_TRY(erase_flow(index), "flow " + std::to_string(index));
    }
    for (const Remains& task : tasks) {
        ASK_TRY(erase_task(task.index), "task " + task.id);
        ASK_TRY(store_.unname_pins(task.tenant, task.id), "task " + task.id);
        ASK_TRY(store_.remove_pins(task.pins), "task " + task.id);
    }
    return {};
}

void Controller::finish_reclaim(const Garbage& batch) {
    for (const std::uint32_t index : batch.channels) {
        channel_pool_.reclaim(index);
    }
    for (const std::uint32_t index : batch.flows) {
        flow_pool_.reclaim(index);
    }
    for (const std::uint64_t instance : batch.tasks) {
        const auto it = tasks_.find(instance);
        task_pool_.reclaim(it->second.index);
        give_back_fan(it->second);
        store_.give_back_program(it->second.entry.program);
        keep_back(it->second);
        drop_task(instance);
    }
    trim_pool();
    settled_.notify_all();
}

Result<ask_flow_stats> Controller::flow_stats(std::uint32_t index) const {
    const auto parts = store_.flow_stats().read(index);
    ASK_TRY(parts, "flow " + std::to_string(index));
    ask_flow_stats sum{};
    for (const ask_flow_stats& part : *parts) {
        add(sum, part);
    }
    return sum;
}

Result<std::vector<FlowReport>> Controller::flow_reports(std::uint64_t instance) const {
    const Guard lock(mutex_);
    std::vector<FlowReport> reports;
    for (auto it = flows_.lower_bound({instance, {}}); it != flows_.end() && it->first.first == instance;
         ++it) {
        const auto stats = flow_stats(it->second.index);
        ASK_PASS(stats);
        reports.push_back({it->first.second, it->second.incarnation, it->second.nonce, *stats});
    }
    return reports;
}

SramBudget Controller::sram() const {
    const Guard lock(mutex_);
    return sram_;
}

Result<ControllerReport> Controller::report() const {
    return report_seen(nullptr);
}

Result<ControllerReport> Controller::report(const Caller& caller) const {
    return report_seen(may_operate(caller) ? nullptr : &caller);
}

// Null: by who sees everything.
Result<ControllerReport> Controller::report_seen(const Caller* caller) const {
    const Guard lock(mutex_);
    ControllerReport report{.swaps = swaps_,
                            .swap_grace_periods = copy_barrier_.grace_periods(),
                            .tasks_without_region = tasks_without_region_,
                            .sram_total_bytes = sram_.total(),
                            .sram_used_bytes = sram_.used(),
                            .back_total_bytes = limits_.back_bytes,
                            .back_used_bytes = back_used_,
                            .back_kept_bytes = back_pool_.bytes(),
                            .back_tables_kept = back_pool_.count(),
                            .back_tables_made = back_made_,
                            .back_tables_reused = back_reused_,
                            .value_slots = store_.value_slots(),
                            .value_used_bytes = value_bytes_,
                            .channels_max = channel_pool_.size(),
                            .task_indices = {task_pool_.used(), task_pool_.retired()},
                            .flow_indices = {flow_pool_.used(), flow_pool_.retired()},
                            .tasks_opened = tasks_opened_,
                            .tasks_expired = tasks_expired_,
                            .ended = ended_,
                            .channels = {},
                            .tasks = {}};
    for (const auto& [id, channel] : channels_) {
        if (caller != nullptr && !acts_for(*caller, id.host)) {
            continue;
        }
        const auto ports = attached(channel.ports);
        report.channels.push_back({id, channel.incarnation, ports.empty() ? "" : ports.front().name});
    }
    for (const auto& [instance, task] : tasks_) {
        if (task.state == Task::State::kOpen && (caller == nullptr || may_see(*caller, task.owner))) {
            auto part = report_task(instance, task);
            ASK_PASS(part);
            report.tasks.push_back(std::move(*part));
        }
    }
    return report;
}

Result<std::vector<TaskReport>> Controller::report_tasks(const Caller& caller,
                                                         std::span<const std::uint64_t> instances) const {
    const Guard lock(mutex_);
    std::vector<TaskReport> reports;
    for (const std::uint64_t instance : instances) {
        const Task* const task = find_own(caller, instance);
        if (task != nullptr && task->state == Task::State::kOpen) {
            auto part = report_task(instance, *task);
            ASK_PASS(part);
            part->back_has = least_back_of(*task);
            reports.push_back(std::move(*part));
        }
    }
    return reports;
}

Result<TaskReport> Controller::report_task(std::uint64_t instance, const Task& task) const {
    const ask_task& entry = task.entry;
    const std::uint64_t swap = load_swap(task);
    TaskReport out;
    out.id = task.id;
    out.instance = instance;
    out.nonce = task.nonce;
    out.geometry = {entry.short_slots, entry.groups, entry.m, entry.rows};
    out.op = static_cast<Op>(entry.op);
    out.aggregators = entry.aggregators * entry.copies;
    out.copies = entry.copies;
    out.policy = static_cast<ask_policy>(entry.policy);
    out.epoch = ASK_SWAP_EPOCH(swap);
    out.phase = ASK_SWAP_PHASE(swap);
    out.receiver = task.receiver;
    out.region_bytes = task.sram;
    out.back_bytes = task.back_bytes;
    out.lease_left_seconds = std::chrono::duration<double>(task.expires - lease_now()).count();
    for (auto it = flows_.lower_bound({instance, {}}); it != flows_.end() && it->first.first == instance;
         ++it) {
        const auto stats = flow_stats(it->second.index);
        ASK_PASS(stats);
        out.flows++;
        add(out.stats, *stats);
    }
    ASK_PASS(report_group(task, out));
    return out;
}

Result<std::vector<std::uint64_t>> Controller::counters() const {
    std::vector<std::uint64_t> values;
    for (std::uint32_t counter = 0; counter < ASK_CNT_COUNT; counter++) {
        const auto parts = store_.counters().read(counter);
        ASK_PASS(parts);
        values.push_back(std::accumulate(parts->begin(), parts->end(), std::uint64_t{0}));
    }
    return values;
}

}  // namespace ask
