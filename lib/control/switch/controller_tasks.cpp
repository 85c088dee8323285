// SPDX-License-Identifier: Apache-2.0
//
// Tasks of the controller: regions, leases, fetching.
#include <arpa/inet.h>
#include <endian.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include <spdlog/spdlog.h>

#include "lib/base/log_fields.h"
#include "lib/base/probe.h"
#include "lib/base/random.h"
#include "lib/base/task_id.h"
#include "lib/control/switch/controller.h"
#include "lib/net/host_book.h"

namespace ask {
namespace {

Result<> check_text(const TaskRequest& request) {
    static_assert(sizeof(ask_task_meta::id) == ASK_MAX_TASK_ID + 1);
    ASK_PASS(check_task_id(request.id));
    const auto printable = [](char c) { return c > ' ' && c <= '~'; };
    if (request.receiver.size() >= sizeof(ask_task_meta::receiver) ||
        !std::ranges::all_of(request.receiver, printable)) {
        return Error(Errc::kInput,
                     "task " + request.id + ": the receiver's address must be up to 63 printable bytes");
    }
    return {};
}

Result<> check_request(const TaskRequest& request) {
    ASK_PASS(check_text(request));
    if (request.instance == 0) {
        return Error(Errc::kInput, "task " + request.id + ": instance 0 is none");
    }
    if (!is_host_number(request.receiver_address)) {
        return Error(Errc::kInput, "task " + request.id + ": its receiver's address " +
                                       format_host(request.receiver_address) + " is no host's");
    }
    if (request.values) {
        return {};
    }
    if (const auto valid = validate(request.geometry); !valid.ok()) {
        return Error(Errc::kInput, "task " + request.id + ": " + valid.error().text());
    }
    if (request.copies > 2) {
        return Error(Errc::kInput, "task " + request.id + ": a region has 1 or 2 copies, not " +
                                       std::to_string(request.copies));
    }
    if (request.copies > 0 && request.aggregators != 0 &&
        (request.aggregators < request.copies || request.aggregators > ASK_MAX_AGGREGATORS)) {
        return Error(Errc::kInput, "task " + request.id + ": aggregators must be from " +
                                       std::to_string(request.copies) + " to " +
                                       std::to_string(ASK_MAX_AGGREGATORS));
    }
    return {};
}

// Packets of its flows go there past the box's firewall: nobody aims them at others.
Result<> check_own_receiver(const Caller& caller, const TaskRequest& request) {
    if (acts_for(caller, request.receiver_address)) {
        return {};
    }
    return Error(Errc::kDenied, "task " + request.id + ": packets would go to " +
                                    format_host(request.receiver_address) + ", and " + describe(caller) +
                                    " may not act for that host");
}

// Aggregators of the whole region's map, a few more than it has: a copy that is one short of a power of two
// only because its AAs do not divide it is rounded up, so that such regions share a program whatever their
// geometry.
std::uint32_t words_of(const ask_task& entry) {
    const Geometry geometry{entry.short_slots, entry.groups, entry.m, entry.rows};
    const std::uint32_t copy = entry.aggregators * geometry.aas();
    const std::uint32_t rounded = std::bit_ceil(copy);
    return entry.sets * entry.copies * (rounded - copy < geometry.aas() ? rounded : copy);
}

bool same_request(const ask_task& entry, const TaskRequest& request) {
    if (request.values || entry.service == ASK_SERVICE_VALUES) {
        return request.values && entry.service == ASK_SERVICE_VALUES &&
               entry.receiver == htonl(request.receiver_address);
    }
    const Geometry geometry{entry.short_slots, entry.groups, entry.m, entry.rows};
    return geometry == request.geometry && entry.op == static_cast<std::uint8_t>(request.op) &&
           entry.receiver == htonl(request.receiver_address);
}

std::uint64_t heats_of(const TaskRequest& request, std::uint32_t aggregators, ask_policy policy) {
    return policy == ASK_POLICY_REPLACE ? heat_bytes(request.geometry, aggregators / request.copies) : 0;
}

std::string describe_back(std::uint64_t bytes, const std::string& none) {
    if (bytes == 0) {
        return none.empty() ? "" : ", no back level (" + none + ")";
    }
    return ", a back level of " + std::to_string(bytes / 1024) + " KiB";
}

template <std::size_t N>
void copy_text(const std::string& text, char (&field)[N]) {
    text.copy(static_cast<char*>(field), N - 1);
}

}  // namespace

// Replacing wins where plain updates do it (docs/decisions/0004-replacement.md).
ask_policy Controller::choose_policy(const TaskRequest& request) const {
    if (request.policy) {
        return *request.policy;
    }
    return store_.meta().memory == ASK_MEMORY_PIPELINES ? ASK_POLICY_REPLACE : ASK_POLICY_FIRST_COME;
}

// What a task takes of a pipeline's SRAM, but for its flows.
std::uint64_t Controller::sram_of(const ask_task& entry) {
    const Geometry geometry{entry.short_slots, entry.groups, entry.m, entry.rows};
    return region_bytes(geometry, entry.aggregators * entry.copies) +
           (entry.policy == ASK_POLICY_REPLACE ? heat_bytes(geometry, entry.aggregators) : 0);
}

TaskGrant Controller::grant_of(const Task& task) {
    return {.aggregators = task.entry.aggregators * task.entry.copies,
            .copies = task.entry.copies,
            .no_region_reason = task.no_region_reason,
            .policy = static_cast<ask_policy>(task.entry.policy),
            .nonce = task.nonce,
            .back_bytes = task.back_bytes,
            .no_back_reason = task.no_back_reason,
            .value_slots = task.group ? task.group->pool_slots : 0,
            .window = task.group ? task.group->window : 0,
            .fan = task.group && task.group->has_fan != 0,
            .direct = task.group && task.group->direct != 0,
            .no_direct_reason = task.no_direct_reason};
}

Result<> Controller::check_region(const Owner& owner, const TaskRequest& request, const Plan& plan) const {
    const std::uint32_t sets = store_.meta().memory == ASK_MEMORY_PIPELINES ? store_.meta().possible_cpus : 1;
    constexpr Wide kMaxWords = Wide{1} << 31;  // indices into a region are 32-bit numbers
    if (Wide{sets} * request.geometry.aas() * plan.aggregators > kMaxWords) {
        return Error(Errc::kLimit, "the region has more than 2^31 aggregators");
    }
    if (limits_.allow_over_budget) {
        return {};
    }
    const std::uint64_t heats = heats_of(request, plan.aggregators, plan.policy);
    ASK_PASS(sram_.check(request.geometry, plan.aggregators, heats));
    return quotas_.check(owner, {.sram_bytes = region_bytes(request.geometry, plan.aggregators) + heats});
}

// Bytes of SRAM that the owner's next region may have a part of: what is free, but for what flows take that
// are still to join open tasks. Whoever says that he has many senders keeps no more from others than he may
// have.
std::uint64_t Controller::sram_to_share(const Owner& owner) const {
    std::map<std::string, std::uint64_t> due;
    std::uint64_t of_all = 0;
    for (const auto& [instance, task] : tasks_) {
        std::uint64_t& of_holder = due[holder_of(task.owner)];
        const std::uint64_t most = quotas_.sram_left(task.owner);
        const std::uint64_t more = std::min(task.flows_due * sram_of_flow(task.entry), most - of_holder);
        of_holder += more;
        of_all += more;
    }
    const std::uint64_t left = sram_.left() - std::min(sram_.left(), of_all);
    return std::min(left, quotas_.sram_left(owner) - due[holder_of(owner)]);
}

// As many as the task insists on. Else at most its wish, or the default, halved until it is no more than its
// part of what is free: somebody else will come. If nothing is small enough for that, the least there is.
std::uint32_t Controller::choose_aggregators(const Owner& owner, const TaskRequest& request,
                                             ask_policy policy) const {
    const Geometry& geometry = request.geometry;
    const auto whole_copies = [&](std::uint32_t aggregators) {
        return std::max(aggregators - aggregators % request.copies, request.copies);
    };
    const bool by_default = request.aggregators == 0;
    const std::uint32_t wish = whole_copies(by_default ? limits_.aggregators : request.aggregators);
    if ((!by_default && !request.may_shrink) || limits_.allow_over_budget) {
        return wish;
    }
    const std::uint64_t part = sram_to_share(owner) / (by_default ? kDefaultPart : kPlannedPart);
    const auto small_enough = [&](std::uint32_t aggregators) {
        const std::uint64_t heats = heats_of(request, aggregators, policy);
        return region_bytes(geometry, aggregators) + heats <= part &&
               sram_.check(geometry, aggregators, heats).ok();
    };
    std::uint32_t aggregators = wish;
    std::uint64_t words = std::bit_floor(std::uint64_t{wish} * geometry.aas());
    for (; !small_enough(aggregators) && words >= kLeastRegionWords; words /= 2) {
        aggregators = whole_copies(aggregators_within(geometry, request.copies, words));
    }
    return aggregators;
}

// Whether what the packets of all its flows carry fits beside the region: else the last ones could not join.
// A part stays free, as whoever comes later gets the least region there is.
bool Controller::has_room_to_replace(const Owner& owner, const TaskRequest& request, const Plan& plan) const {
    constexpr std::uint64_t kSpareParts = 8;
    const std::uint64_t flows = std::max<std::uint64_t>(request.senders, 1);
    const std::uint64_t wanted = region_bytes(request.geometry, plan.aggregators) +
                                 heats_of(request, plan.aggregators, plan.policy) +
                                 flows * (carried_bytes(request.geometry) + channel_bytes());
    const std::uint64_t share = sram_to_share(owner);
    return limits_.allow_over_budget || wanted <= share - share / kSpareParts;
}

Result<Controller::Plan> Controller::plan_region(const Owner& owner, const TaskRequest& request) const {
    Plan plan;
    if (request.copies == 0) {
        if (request.require_region) {
            return Error(Errc::kInput,
                         "task " + request.id + ": requires a region and asks for 0 copies of it");
        }
        return plan;
    }
    plan.policy = choose_policy(request);
    plan.aggregators = choose_aggregators(owner, request, plan.policy);
    plan.copies = request.copies;
    if (!request.policy && plan.policy == ASK_POLICY_REPLACE && !has_room_to_replace(owner, request, plan)) {
        plan.policy = ASK_POLICY_FIRST_COME;
        plan.aggregators = choose_aggregators(owner, request, plan.policy);
    }
    auto fits = check_region(owner, request, plan);
    if (fits.ok()) {
        return plan;
    }
    if (request.require_region) {
        return std::move(fits).error().with_context("task " + request.id);
    }
    return Plan{.no_region_reason = fits.error().text()};
}

// Null also if it is another's: who asks is to learn nothing of it.
const Controller::Task* Controller::find_own(const Caller& caller, std::uint64_t instance) const {
    const auto it = tasks_.find(instance);
    return it == tasks_.end() || !owns(caller, it->second.owner) ? nullptr : &it->second;
}

// The grant, if the instance is open. Nothing: neither instance nor id is in use. Waits for tasks on their
// way in or out.
Result<std::optional<TaskGrant>> Controller::find_open(Lock& lock, const Caller& caller,
                                                       const TaskRequest& request) {
    const auto conflicts = [&](const auto& item) {
        return item.first == request.instance ||
               (item.second.id == request.id && item.second.owner.tenant == caller.tenant);
    };
    const auto find = [&] { return std::ranges::find_if(tasks_, conflicts); };
    const auto is_settled = [&] {
        return find() == tasks_.end() || find()->second.state == Task::State::kOpen;
    };
    const auto is_same_opening = [&] {
        const auto at = tasks_.find(request.instance);
        return at != tasks_.end() && at->second.state == Task::State::kOpening &&
               owns(caller, at->second.owner);
    };
    if (!settled_.wait_for(lock, kOpeningPatience, is_settled) && is_same_opening()) {
        TaskGrant not_yet;
        not_yet.opening = true;
        return std::optional(std::move(not_yet));
    }
    if (!settled_.wait_for(lock, kPatience - kOpeningPatience, is_settled)) {
        return Error(Errc::kUnavailable,
                     "task " + request.id + " is still being opened or closed: try again");
    }
    const auto it = find();
    if (it == tasks_.end()) {
        return std::optional<TaskGrant>();
    }
    const auto& [instance, task] = *it;
    if (instance == request.instance && !owns(caller, task.owner)) {
        return Error(Errc::kExists, "task " + request.id + ": instance " + std::to_string(instance) +
                                        " cannot be had: draw another");
    }
    if (instance != request.instance) {
        return Error(Errc::kExists, "task id " + request.id + " is in use on this switch by receiver " +
                                        task.receiver + " (instance " + std::to_string(instance) +
                                        "): choose another id, or wait until that task ends");
    }
    if (task.id != request.id || !same_request(task.entry, request) || !same_levels(task.group, request)) {
        return Error(Errc::kExists, "instance " + std::to_string(instance) +
                                        " is open on this switch as task " + task.id +
                                        " with other properties");
    }
    tasks_.at(instance).expires = lease_now() + limits_.lease;
    return std::optional<TaskGrant>(grant_of(task));
}

Result<TaskGrant> Controller::open_task(const Caller& caller, const TaskRequest& request) {
    const LogAbout about = LogAbout::task(request.id);
    ASK_PASS(check_request(request));
    if (request.values) {
        ASK_TRY(check_group(request), "task " + request.id);
    }
    auto owner = owner_for(caller, request.receiver);
    ASK_TRY(owner, "task " + request.id);
    ASK_PASS(check_own_receiver(caller, request));
    // Its neighbours may have to be asked.
    const FanPlan fan = request.values ? plan_fan(*request.values) : FanPlan();
    Lock lock(mutex_);
    auto open = find_open(lock, caller, request);
    ASK_PASS(open);
    if (*open) {
        return **open;
    }
    ASK_TRY(quotas_.check(*owner, {.tasks = 1}), "task " + request.id);
    // Before anything that lets go of the lock: a second request for the same id or instance finds this one.
    Task& task = tasks_[request.instance];
    task.id = request.id;
    task.pins = pins_of(request.instance);
    task.receiver = request.receiver;
    task.nonce = random_u64();
    task.owner = *std::move(owner);
    take_task(task);
    const auto undo = [&](Error error) {
        drop_task(request.instance);
        settled_.notify_all();
        return error;
    };
    const auto index = take(lock, task_pool_);
    if (!index) {
        return undo(Error(Errc::kLimit, "all " + std::to_string(task_pool_.size()) +
                                            " tasks of the switch are in use: raise its max_tasks"));
    }
    task.index = *index;
    if (auto entered = enter_host(request.receiver_address); !entered.ok()) {
        task_pool_.put_back(*index);
        return undo(std::move(entered).error().with_context("task " + request.id));
    }
    task.host = request.receiver_address;
    if (request.values) {
        return open_group(lock, request, fan, task);
    }
    auto plan = plan_region(task.owner, request);
    if (!plan.ok()) {
        task_pool_.put_back(*index);
        return undo(std::move(plan).error());
    }
    task.no_region_reason = plan->no_region_reason;
    task.entry.instance = htobe64(request.instance);
    task.entry.copies = plan->copies;
    task.entry.aggregators = plan->copies == 0 ? 0 : plan->aggregators / plan->copies;
    task.entry.sets = store_.meta().memory == ASK_MEMORY_PIPELINES ? store_.meta().possible_cpus : 1;
    task.entry.short_slots = request.geometry.short_slots;
    task.entry.groups = request.geometry.groups;
    task.entry.m = request.geometry.m;
    task.entry.rows = request.geometry.rows;
    task.entry.op = static_cast<std::uint8_t>(request.op);
    task.entry.receiver = htonl(request.receiver_address);
    task.entry.policy = static_cast<std::uint8_t>(plan->policy);
    set_sram(task, sram_of(task.entry));
    task.flows_due = request.senders;
    if (plan->copies > 0) {
        BackPlan back = plan_back(task.owner, request);
        task.back = back.buckets;
        task.no_back_reason = std::move(back.no_back_reason);
        set_back_bytes(task, back_bytes(task.back));
        take_pooled(task);
    }

    lock.unlock();
    auto built = build_task(request.instance, task);
    lock.lock();
    if (!built.ok() || (request.require_region && task.entry.copies == 0)) {
        retire_task(request.instance, task);
        return built.ok() ? Error(Errc::kLimit, "task " + request.id + ": " + task.no_region_reason)
                          : std::move(built).error().with_context("task " + request.id);
    }
    set_sram(task, sram_of(task.entry));
    set_back_bytes(task, back_bytes(task.back));
    task.expires = lease_now() + limits_.lease;
    task.state = Task::State::kOpen;
    limit_rate(task);
    ++tasks_opened_;
    settled_.notify_all();
    if (request.copies != 0 && task.entry.copies == 0) {
        ++tasks_without_region_;
        ASK_PROBE(region_refused, request.id.c_str(), request.instance, task.no_region_reason.c_str());
        spdlog::warn("task {} of {} gets no region, its receiver adds up everything: {}", request.id,
                     request.receiver, task.no_region_reason);
    }
    ASK_PROBE(task_opened, request.id.c_str(), request.instance, task.entry.aggregators, task.back_bytes);
    spdlog::info("task {} opened for {}: geometry {}, {}", request.id, request.receiver,
                 to_string(request.geometry),
                 task.entry.copies == 0
                     ? "no region" + (task.no_region_reason.empty() ? "" : " (" + task.no_region_reason + ")")
                     : fmt::format("{} aggregators an AA, {} KiB{}{}",
                                   task.entry.aggregators * task.entry.copies, task.sram / 1024,
                                   task.entry.policy == ASK_POLICY_REPLACE ? ", cold keys are replaced" : "",
                                   describe_back(task.back_bytes, task.no_back_reason)));
    return grant_of(task);
}

void Controller::set_sram(Task& task, std::uint64_t bytes) {
    sram_.give_back(task.sram);
    quotas_.give_back(task.owner, {.sram_bytes = task.sram});
    task.sram = bytes;
    sram_.take(bytes);
    quotas_.take(task.owner, {.sram_bytes = bytes});
}

void Controller::take_task(Task& task) {
    quotas_.take(task.owner, {.tasks = 1});
    task.bucket = buckets_.take(holder_of(task.owner));
}

void Controller::drop_task(std::uint64_t instance) {
    Task& task = tasks_.at(instance);
    set_sram(task, 0);
    set_back_bytes(task, 0);
    quotas_.give_back(task.owner, {.tasks = 1});
    buckets_.give_back(task.bucket);
    leave_host(task.host);
    tasks_.erase(instance);
    charge_pool();
}

// Packets may be on their way through: each is taken from the one bucket or the other.
void Controller::limit_rate(Task& task) const {
    const std::uint32_t bucket = limits_.packet_rate == 0 ? 0 : task.bucket;
    if (task.entry.bucket != bucket) {
        store_.store_bucket(task.index, bucket);
        task.entry.bucket = bucket;
    }
}

// Buckets are all alike, so it does not matter whose they were under other limits, or at a predecessor.
Result<> Controller::limit_rates() {
    if (limits_.packet_rate != 0) {
        const ask_bucket bucket = Buckets::bucket_of(limits_.packet_rate);
        for (std::uint32_t number = 1; number <= buckets_.count(); ++number) {
            ASK_PASS(store_.buckets().set(number, bucket));
        }
    }
    for (auto& [instance, task] : tasks_) {
        if (task.state == Task::State::kOpen) {
            limit_rate(task);
        }
    }
    return {};
}

// The region's map, pinned. Without memory for it the task goes without.
Result<> Controller::build_region(Task& task) const {
    auto region = store_.create_region(task.entry.program, words_of(task.entry));
    if (!region.ok() && region.error().code() == Errc::kLimit) {
        task.no_region_reason = region.error().text();
        task.entry.copies = 0;
        task.entry.aggregators = 0;
        task.entry.policy = ASK_POLICY_FIRST_COME;
        task.back = {};
        return {};
    }
    ASK_PASS(region);
    task.region = std::move(*region);
    return store_.pin(task.pins, TaskPin::kRegion, *task.region);
}

// The heats' map, pinned. Without memory for it first come keeps the aggregators.
Result<> Controller::build_heats(Task& task) const {
    const ask_task& entry = task.entry;
    const Geometry geometry{entry.short_slots, entry.groups, entry.m, entry.rows};
    auto heats = store_.create_heats(entry.sets * geometry.aas() * entry.aggregators);
    if (!heats.ok() && heats.error().code() == Errc::kLimit) {
        spdlog::warn("task {}: {}; cold keys are not replaced", task.id, heats.error().text());
        task.entry.policy = ASK_POLICY_FIRST_COME;
        return {};
    }
    ASK_PASS(heats);
    task.heats = std::move(*heats);
    return store_.pin(task.pins, TaskPin::kHeats, *task.heats);
}

// Its maps, all at once: each waits for a grace period, and several wait for the same one.
Result<> Controller::put_in_place(const Task& task) const {
    std::vector<std::pair<const MapPlaces*, const OwnMap*>> maps;
    const auto add = [&maps](const MapPlaces& places, const OwnMapPtr& map) {
        if (map) {
            maps.emplace_back(&places, map.get());
        }
    };
    add(store_.heats(), task.heats);
    for (unsigned group = 0; group < task.back_maps.size(); ++group) {
        add(store_.back(group), task.back_maps[group]);
    }
    if (task.region) {
        add(*store_.regions(task.entry.program), task.region);
    }
    std::vector<Result<>> done(maps.size());
    const auto put = [&](std::size_t i) { done[i] = maps[i].first->put(task.index, *maps[i].second); };
    std::vector<Thread> threads;
    for (std::size_t i = 1; i < maps.size(); ++i) {
        try {
            threads.emplace_back(put, i);
        } catch (const std::system_error&) {
            put(i);
        }
    }
    if (!maps.empty()) {
        put(0);
    }
    for (Thread& thread : threads) {
        thread.join();
    }
    const auto failed = std::ranges::find_if(done, [](const Result<>& one) { return !one.ok(); });
    return failed == done.end() ? Result<>() : *std::move(failed);
}

// Everything of the task in kernel and pins, meta last. Without the lock: inserting a region
// waits for a grace period, and nobody else touches a task in kOpening.
Result<> Controller::build_task(std::uint64_t instance, Task& task) {
    ASK_PASS(store_.make_pins(task.pins));
    if (task.entry.copies > 0) {
        task.entry.program = store_.take_program(words_of(task.entry));
    }
    // Before anything is put in under this index (erase_task), and again with what became of it.
    ASK_PASS(store_.tasks().set(task.index, task.entry));
    if (task.entry.copies > 0) {
        ASK_PASS(build_region(task));
    }
    if (task.entry.policy == ASK_POLICY_REPLACE) {
        ASK_PASS(build_heats(task));
    }
    ASK_PASS(build_back(task));
    ASK_PASS(store_.tasks().set(task.index, task.entry));
    ASK_TRY(put_in_place(task), "task " + task.id);
    return pin_meta(instance, task);
}

// The last of what is made of a task.
Result<> Controller::pin_meta(std::uint64_t instance, const Task& task) const {
    ask_task_meta meta{};
    meta.instance = htobe64(instance);
    meta.index = task.index;
    meta.region_aggregators = task.entry.aggregators * task.entry.copies;
    copy_text(task.id, meta.id);
    copy_text(task.receiver, meta.receiver);
    meta.owner = htonl(task.owner.host);
    copy_text(task.owner.tenant, meta.tenant);
    meta.nonce = task.nonce;
    const auto map = store_.create_meta(meta);
    ASK_PASS(map);
    ASK_PASS(store_.name_pins(task.owner.tenant, task.id, task.pins));
    return store_.pin(task.pins, TaskPin::kMeta, **map);
}

std::vector<std::uint64_t> Controller::renew(const Caller& caller, std::span<const std::uint64_t> instances) {
    const Guard lock(mutex_);
    std::vector<std::uint64_t> unknown;
    for (const std::uint64_t instance : instances) {
        const Task* const task = find_own(caller, instance);
        if (task == nullptr || task->state != Task::State::kOpen) {
            unknown.push_back(instance);
        } else {
            tasks_.at(instance).expires = lease_now() + limits_.lease;
        }
    }
    return unknown;
}

// Under the lock. Afterwards nothing leads to the task; the reclaimer does the rest, or a successor.
Result<> Controller::begin_close(std::uint64_t instance, Task& task) {
    // First, or a successor could find the task without some of its flows, and with what they have counted.
    ASK_TRY(store_.unpin(task.pins, TaskPin::kMeta), "task " + task.id);
    ASK_TRY(end_group(task), "task " + task.id);
    ASK_TRY(drop_flows_of_task(instance), "task " + task.id);
    retire_task(instance, task);
    return {};
}

void Controller::retire_task(std::uint64_t instance, Task& task) {
    task.state = Task::State::kClosing;
    task_pool_.retire(task.index);
    garbage_.tasks.push_back(instance);
    work_.notify_all();
}

Result<> Controller::close_task(const Caller& caller, std::uint64_t instance) {
    Lock lock(mutex_);
    const auto find = [&] {
        const bool may = caller.role_operator || find_own(caller, instance) != nullptr;
        return may ? tasks_.find(instance) : tasks_.end();
    };
    wait_settled(lock,
                 [&] { return find() == tasks_.end() || find()->second.state != Task::State::kOpening; });
    if (find() == tasks_.end()) {
        return {};
    }
    const std::string id = find()->second.id;
    if (find()->second.state == Task::State::kOpening) {
        return Error(Errc::kUnavailable, "task " + id + " is still being opened: try again");
    }
    // Its words in the maps are not touched after this.
    if (!wait_settled(lock, [&] { return find() == tasks_.end() || !find()->second.swapping; })) {
        return Error(Errc::kUnavailable, "task " + id + " is in the middle of a swap: try again");
    }
    if (find() != tasks_.end() && find()->second.state == Task::State::kOpen) {
        ASK_PASS(begin_close(instance, find()->second));
        const LogAbout about = LogAbout::task(id);
        ASK_PROBE(task_closed, id.c_str(), instance);
        spdlog::info("task {} closed", id);
    }
    if (!wait_settled(lock, [&] { return find() == tasks_.end(); })) {
        return Error(Errc::kUnavailable,
                     "task " + id + " is closed, but its memory is not yet free: try again");
    }
    return {};
}

void Controller::change_limits(const ControllerLimits& limits) {
    const Guard lock(mutex_);
    limits_.allow_over_budget = limits.allow_over_budget;
    limits_.aggregators = limits.aggregators;
    limits_.lease = limits.lease;
    limits_.flush_values = limits.flush_values;
    limits_.quota = limits.quota;
    quotas_.set_limits(limits.quota);
    const bool same_rate = limits_.packet_rate == limits.packet_rate;
    limits_.packet_rate = limits.packet_rate;
    if (const auto set = same_rate ? Result<>() : limit_rates(); !set.ok()) {
        spdlog::error("quota_packets: {}", set.error().text());
    }
}

void Controller::expire_leases() {
    const Guard lock(mutex_);
    lease_clock_.tick(Clock::now());
    const auto now = lease_now();
    for (auto& [instance, task] : tasks_) {
        if (task.state != Task::State::kOpen || task.expires > now || task.swapping) {
            continue;
        }
        const LogAbout about = LogAbout::task(task.id);
        spdlog::warn("task {}: its receiver {} has not renewed it for {} s; taken back", task.id,
                     task.receiver, limits_.lease.count());
        if (const auto closed = begin_close(instance, task); !closed.ok()) {
            spdlog::error("{}", closed.error().text());
        } else {
            ++tasks_expired_;
            ASK_PROBE(task_expired, task.id.c_str(), instance);
        }
    }
    drop_idle_channels();
}

}  // namespace ask
