// SPDX-License-Identifier: Apache-2.0
//
// Life of the daemon, channels, flows and tasks. Order of every change as in loader/: the array entry first,
// the hash entry that leads to it last; taking back the other way round.
#include "tests/sim/controller.h"

#include <algorithm>
#include <cstring>

#include "lib/abi/check.h"

namespace ask::sim {

namespace {

constexpr std::uint64_t kStepUs = 20;

std::uint32_t be32(std::uint32_t value) {
    return __builtin_bswap32(value);
}
std::uint16_t be16(std::uint16_t value) {
    return __builtin_bswap16(value);
}
std::uint64_t be64(std::uint64_t value) {
    return __builtin_bswap64(value);
}

ask_channel_id channel_key(const ChannelId& channel) {
    return {.host = be32(channel.host), .port = be16(channel.port), .pad = 0};
}

ask_flow_id flow_key(std::uint64_t instance, const ChannelId& channel) {
    return {.task = be64(instance), .host = be32(channel.host), .port = be16(channel.port), .pad = 0};
}

Error not_open(std::uint64_t instance) {
    return {Errc::kUnknown, "no task with instance " + std::to_string(instance) + " is open on this switch"};
}

}  // namespace

Controller::Controller(World& world, DataPlane& plane, Network& network, std::uint32_t number,
                       std::function<bool()> die)
    : world_(world), plane_(plane), network_(network), number_(number), die_(std::move(die)) {}

void Controller::start() {
    world_.note("switchd %u: starts", number_);
    memory_ = std::make_unique<Memory>(plane_.maps());
    process.boot();
    process.spawn(life());
}

void Controller::kill() {
    world_.note("switchd %u: is killed", number_);
    process.kill();
    memory_.reset();
}

Job<> Controller::step(const char* what) {
    if (die_()) {
        world_.note("switchd %u: dies before: %s", number_, what);
        co_await world_.sleep(kNever);  // until it is killed
    }
    co_await world_.sleep(world_.some_us(kStepUs));
    world_.note("switchd %u: %s", number_, what);
    co_return Done{};
}

Job<> Controller::life() {
    co_await adopt();
    memory_->serving = true;
    memory_->settled.notify(world_.clock);
    process.spawn(reclaim_loop());
    process.spawn(lease_loop());
    co_return Done{};
}

// Calls that come while it adopts wait at its door.
Job<> Controller::ready() {
    while (!memory_->serving) {
        co_await memory_->settled.wait_until(world_.clock, kNever);
    }
    co_return Done{};
}

Job<> Controller::adopt() {
    adopt_tasks();
    co_await step("adopts tasks");
    adopt_channels();
    co_await step("adopts channels");
    adopt_flows();
    for (auto& [instance, task] : memory_->tasks) {
        const std::uint64_t word = entry_of(task).swap;
        if (ASK_SWAP_PHASE(word) == ASK_SWAP_FLIPPED) {
            entry_of(task).copy = ASK_EPOCH_COPY(ASK_SWAP_EPOCH(word));
        }
    }
    co_await step("sets the copy index of flips again");
    co_await plane_.grace_period();
    for (auto& [instance, task] : memory_->tasks) {
        const std::uint64_t word = entry_of(task).swap;
        const std::uint64_t epoch = ASK_SWAP_EPOCH(word);
        if (ASK_SWAP_PHASE(word) == ASK_SWAP_FLIPPED) {
            entry_of(task).swap = ASK_SWAP_WORD(epoch, ASK_SWAP_PASSED);
        } else if (ASK_SWAP_PHASE(word) == ASK_SWAP_CONFIRMED) {
            blank(task, epoch - 1);
            co_await step("has blanked what was confirmed");
            entry_of(task).swap = ASK_SWAP_WORD(epoch, ASK_SWAP_BLANK);
        }
    }
    memory_->task_pool.fill();
    memory_->channel_pool.fill();
    memory_->flow_pool.fill();
    std::set<std::uint32_t> tasks;
    for (const auto& [instance, task] : memory_->tasks) {
        tasks.insert(task.index);
    }
    for (std::uint32_t i = 0; i < plane_.maps().max_tasks; ++i) {
        if (!tasks.contains(i)) {
            plane_.maps().regions[i] = plane_.maps().heats[i] = {};
        }
    }
    std::set<std::uint32_t> flows;
    for (const auto& [key, index] : memory_->flows) {
        flows.insert(index);
    }
    for (std::uint32_t i = 0; i < plane_.maps().max_flows; ++i) {
        if (!flows.contains(i)) {
            plane_.maps().carried[i] = {};
        }
    }
    std::erase_if(plane_.pins, [](const auto& pin) { return !pin->whole; });
    co_return Done{};
}

void Controller::adopt_tasks() {
    // Half made or half removed by a predecessor: no task any more. Its memory stays until the grace period
    // that follows is over.
    for (auto& pin : plane_.pins) {
        const auto& entry = plane_.maps().tasks[pin->index];
        if (!pin->whole || entry.instance != be64(pin->instance) || !memory_->task_pool.adopt(pin->index)) {
            pin->whole = false;
            pin->id.clear();
            continue;
        }
        Task task;
        task.state = Task::State::kOpen;
        task.id = pin->id;
        task.index = pin->index;
        task.entry = entry;
        task.expires = world_.clock.now() + kLease;
        memory_->tasks[pin->instance] = task;
    }
}

void Controller::adopt_channels() {
    sim_plane& maps = plane_.maps();
    for (std::uint32_t i = 0; i <= maps.channel_ids.mask; ++i) {
        sim_id& id = maps.channel_ids.entries[i];
        if (id.state != SIM_ID_USED) {
            continue;
        }
        ask_channel_id key;
        std::memcpy(&key, id.key, sizeof(key));
        const ask_channel& entry = maps.channels[id.index];
        if (entry.host != key.host || entry.port != key.port || !memory_->channel_pool.adopt(id.index)) {
            id.state = SIM_ID_ERASED;
            continue;
        }
        memory_->channels[{be32(key.host), be16(key.port)}] = {id.index, be32(entry.incarnation)};
    }
}

void Controller::adopt_flows() {
    sim_plane& maps = plane_.maps();
    for (std::uint32_t i = 0; i <= maps.flow_ids.mask; ++i) {
        sim_id& id = maps.flow_ids.entries[i];
        if (id.state != SIM_ID_USED) {
            continue;
        }
        ask_flow_id key;
        std::memcpy(&key, id.key, sizeof(key));
        const ask_flow& entry = maps.flows[id.index];
        const ChannelId channel{be32(key.host), be16(key.port)};
        const auto task = memory_->tasks.find(be64(key.task));
        const auto registered = memory_->channels.find(channel);
        if (task == memory_->tasks.end() || registered == memory_->channels.end() ||
            entry.task_instance != key.task || entry.task != task->second.index ||
            entry.channel != registered->second.index || !memory_->flow_pool.adopt(id.index)) {
            id.state = SIM_ID_ERASED;
            continue;
        }
        memory_->flows[{be64(key.task), channel}] = id.index;
    }
}

// An index, waiting for the reclaimer if all that could be had are on their way back.
Job<std::optional<std::uint32_t>> Controller::take(IndexPool& pool, AsyncMutex::Lock& lock) {
    const Nanos until = world_.clock.now() + kPatience;
    while (!pool.has_free() && pool.has_retired() && world_.clock.now() < until) {
        lock.unlock();
        co_await memory_->settled.wait_until(world_.clock, until);
        co_await lock_again(lock);
    }
    co_return pool.take();
}

Job<> Controller::lock_again(AsyncMutex::Lock& lock) {
    AsyncMutex::Lock held = co_await memory_->mutex.lock(world_.clock);
    lock = std::move(held);
    co_return Done{};
}

Job<> Controller::reclaim_loop() {
    Memory& m = *memory_;
    for (;;) {
        while (m.dead_channels.empty() && m.dead_flows.empty() && m.dead_tasks.empty()) {
            co_await m.work.wait_until(world_.clock, kNever);
        }
        const auto channels = std::exchange(m.dead_channels, {});
        const auto flows = std::exchange(m.dead_flows, {});
        const auto tasks = std::exchange(m.dead_tasks, {});
        co_await plane_.grace_period();
        for (const std::uint32_t index : flows) {
            plane_.maps().carried[index] = {};
        }
        for (const std::uint64_t instance : tasks) {
            Task& task = m.tasks.at(instance);
            plane_.maps().regions[task.index] = {};
            plane_.maps().heats[task.index] = {};
            co_await plane_.grace_period();
            co_await step("unpins a task's region");
            std::erase_if(plane_.pins, [&](const auto& pin) { return pin->instance == instance; });
        }
        const AsyncMutex::Lock lock = co_await m.mutex.lock(world_.clock);
        for (const std::uint32_t index : channels) {
            m.channel_pool.reclaim(index);
        }
        for (const std::uint32_t index : flows) {
            m.flow_pool.reclaim(index);
        }
        for (const std::uint64_t instance : tasks) {
            m.task_pool.reclaim(m.tasks.at(instance).index);
            m.tasks.erase(instance);
        }
        m.settled.notify(world_.clock);
    }
}

Job<> Controller::lease_loop() {
    for (;;) {
        co_await world_.sleep(kSecond);
        const AsyncMutex::Lock lock = co_await memory_->mutex.lock(world_.clock);
        std::vector<std::uint64_t> over;
        for (const auto& [instance, task] : memory_->tasks) {
            if (task.state == Task::State::kOpen && task.expires <= world_.clock.now() && !task.swapping) {
                over.push_back(instance);
            }
        }
        for (const std::uint64_t instance : over) {
            co_await begin_close(instance);
        }
    }
}

Job<> Controller::drop_flow(FlowKey key) {
    const ask_flow_id id = flow_key(key.first, key.second);
    sim_ids_erase(&plane_.maps().flow_ids, &id, sizeof(id));
    const std::uint32_t index = memory_->flows.at(key);
    memory_->flow_pool.retire(index);
    memory_->dead_flows.push_back(index);
    memory_->flows.erase(key);
    co_await step("erased a flow");
    co_return Done{};
}

Job<> Controller::drop_flows(std::optional<std::uint64_t> instance, std::optional<ChannelId> channel) {
    std::vector<FlowKey> keys;
    for (const auto& [key, index] : memory_->flows) {
        if ((!instance || key.first == *instance) && (!channel || key.second == *channel)) {
            keys.push_back(key);
        }
    }
    for (const FlowKey& key : keys) {
        co_await drop_flow(key);
    }
    co_return Done{};
}

Job<> Controller::drop_channel(ChannelId channel) {
    const auto it = memory_->channels.find(channel);
    if (it == memory_->channels.end()) {
        co_return Done{};
    }
    const std::uint32_t index = it->second.index;
    co_await drop_flows(std::nullopt, channel);
    const ask_channel_id id = channel_key(channel);
    sim_ids_erase(&plane_.maps().channel_ids, &id, sizeof(id));
    memory_->channel_pool.retire(index);
    memory_->dead_channels.push_back(index);
    memory_->channels.erase(channel);
    memory_->work.notify(world_.clock);
    co_await step("erased a channel");
    co_return Done{};
}

Job<Result<Controller::Registration>> Controller::register_channel(ChannelId channel,
                                                                   std::uint32_t incarnation,
                                                                   std::uint32_t replaces) {
    co_await ready();
    AsyncMutex::Lock lock = co_await memory_->mutex.lock(world_.clock);
    const auto registered = [&] {
        const auto it = memory_->channels.find(channel);
        return it == memory_->channels.end() ? 0U : it->second.incarnation;
    };
    const auto settled = [&] { return registered() == incarnation || registered() != replaces; };
    if (settled()) {
        co_return Registration{plane_.mark(), registered()};
    }
    const std::optional<std::uint32_t> index = co_await take(memory_->channel_pool, lock);
    if (!index) {
        co_return Error(Errc::kLimit, "all channels of the switch are in use");
    }
    if (settled()) {
        memory_->channel_pool.put_back(*index);
        co_return Registration{plane_.mark(), registered()};
    }
    sim_plane& maps = plane_.maps();
    const std::uint32_t at = network_.switch_of(host_of(channel.host));
    maps.dedupe[*index] = {};
    maps.pkt_state[*index] = {};
    maps.channels[*index] = {
        .host = be32(channel.host),
        .port = be16(channel.port),
        .pad = 0,
        .incarnation = be32(incarnation),
        .ifindex = at == number_ ? port_to_host(host_of(channel.host)) : port_to_switch(at)};
    co_await step("wrote a channel");
    co_await drop_channel(channel);
    const ask_channel_id id = channel_key(channel);
    sim_ids_set(&maps.channel_ids, &id, sizeof(id), *index);
    memory_->channels[channel] = {*index, incarnation};
    co_await step("registered a channel");
    co_return Registration{plane_.mark(), incarnation};
}

Job<Result<Done>> Controller::unregister_channel(ChannelId channel, std::uint32_t incarnation) {
    co_await ready();
    const AsyncMutex::Lock lock = co_await memory_->mutex.lock(world_.clock);
    const auto it = memory_->channels.find(channel);
    if (it != memory_->channels.end() && it->second.incarnation == incarnation) {
        co_await drop_channel(channel);
    }
    co_return Done{};
}

Result<bool> Controller::is_joined(std::uint64_t instance, ChannelId channel, std::uint32_t incarnation,
                                   const ask_check_key& key) {
    const auto task = memory_->tasks.find(instance);
    if (task == memory_->tasks.end() || task->second.state != Task::State::kOpen) {
        return not_open(instance);
    }
    const auto registered = memory_->channels.find(channel);
    if (registered == memory_->channels.end()) {
        return Error(Errc::kUnknown, "the channel is not registered on this switch");
    }
    if (registered->second.incarnation != incarnation) {
        return Error(Errc::kUnsupported, "the channel is registered with another incarnation");
    }
    const auto flow = memory_->flows.find({instance, channel});
    if (flow == memory_->flows.end()) {
        return false;
    }
    if (std::memcmp(&plane_.maps().flows[flow->second].key, &key, sizeof(key)) != 0) {
        return Error(Errc::kExists, "the channel has joined under another secret");
    }
    return true;
}

Job<Result<Mark>> Controller::join_flow(std::uint64_t instance, ChannelId channel, std::uint32_t incarnation,
                                        CheckSecret secret) {
    co_await ready();
    ask_flow entry{};
    const __u64 words[] = {secret[0], secret[1]};
    ask_check_expand(static_cast<const __u64*>(words), &entry.key);
    AsyncMutex::Lock lock = co_await memory_->mutex.lock(world_.clock);
    Result<bool> joined = is_joined(instance, channel, incarnation, entry.key);
    if (!joined.ok()) {
        co_return joined.error();
    }
    if (*joined) {
        co_return plane_.mark();
    }
    const std::optional<std::uint32_t> index = co_await take(memory_->flow_pool, lock);
    if (!index) {
        co_return Error(Errc::kLimit, "all flows of the switch are in use");
    }
    const auto give_back = [&] {
        memory_->flow_pool.retire(*index);
        memory_->dead_flows.push_back(*index);
        memory_->work.notify(world_.clock);
    };
    const auto task = memory_->tasks.find(instance);
    if (task != memory_->tasks.end() && task->second.entry.policy == ASK_POLICY_REPLACE) {
        const ask_task of = task->second.entry;
        lock.unlock();
        const Geometry geometry{of.short_slots, of.groups, of.m, of.rows};
        auto& room = plane_.carried[*index];
        room.assign(ask_carried_words(geometry.rows, geometry.aas()), 0);
        plane_.maps().carried[*index] = {room.data(), static_cast<std::uint32_t>(room.size())};
        co_await plane_.grace_period();
        co_await lock_again(lock);
    }
    joined = is_joined(instance, channel, incarnation, entry.key);
    if (!joined.ok() || *joined) {
        give_back();
        co_return joined.ok() ? Result<Mark>(plane_.mark()) : Result<Mark>(joined.error());
    }
    entry.task_instance = be64(instance);
    entry.channel = memory_->channels.at(channel).index;
    entry.task = memory_->tasks.at(instance).index;
    plane_.maps().flows[*index] = entry;
    for (std::uint32_t cpu = 0; cpu < plane_.maps().cpus; ++cpu) {
        plane_.maps().flow_stats[std::size_t{cpu} * plane_.maps().max_flows + *index] = {};
    }
    co_await step("wrote a flow");
    const ask_flow_id id = flow_key(instance, channel);
    sim_ids_set(&plane_.maps().flow_ids, &id, sizeof(id), *index);
    memory_->flows[{instance, channel}] = *index;
    memory_->tasks.at(instance).expires = world_.clock.now() + kLease;
    co_await step("joined a flow");
    co_return plane_.mark();
}

Job<Result<Grant>> Controller::open_task(OpenRequest request) {
    co_await ready();
    AsyncMutex::Lock lock = co_await memory_->mutex.lock(world_.clock);
    const auto conflict = [&] {
        return std::ranges::find_if(memory_->tasks, [&](const auto& item) {
            return item.first == request.instance || item.second.id == request.id;
        });
    };
    const Nanos until = world_.clock.now() + kPatience;
    while (conflict() != memory_->tasks.end() && conflict()->second.state != Task::State::kOpen &&
           world_.clock.now() < until) {
        lock.unlock();
        co_await memory_->settled.wait_until(world_.clock, until);
        co_await lock_again(lock);
    }
    if (const auto it = conflict(); it != memory_->tasks.end()) {
        if (it->second.state != Task::State::kOpen) {
            co_return Error(Errc::kUnavailable, "task is still being opened or closed");
        }
        if (it->first != request.instance) {
            co_return Error(Errc::kExists, "task id is in use on this switch");
        }
        it->second.expires = world_.clock.now() + kLease;
        co_return Grant{plane_.mark(), it->second.entry.aggregators, it->second.entry.copies};
    }
    Task& task = memory_->tasks[request.instance];
    task.id = request.id;
    const std::optional<std::uint32_t> index = co_await take(memory_->task_pool, lock);
    if (!index) {
        memory_->tasks.erase(request.instance);
        memory_->settled.notify(world_.clock);
        co_return Error(Errc::kLimit, "all tasks of the switch are in use");
    }
    task.index = *index;
    task.entry.instance = be64(request.instance);
    task.entry.copies = request.aggregators == 0 ? 0 : request.copies;
    task.entry.aggregators = request.aggregators;
    task.entry.sets = plane_.maps().memory == ASK_MEMORY_PIPELINES ? plane_.maps().cpus : 1;
    task.entry.short_slots = request.geometry.short_slots;
    task.entry.groups = request.geometry.groups;
    task.entry.m = request.geometry.m;
    task.entry.rows = request.geometry.rows;
    task.entry.op = static_cast<std::uint8_t>(request.op);
    task.entry.policy = static_cast<std::uint8_t>(task.entry.copies == 0 ? 0 : request.policy);
    lock.unlock();
    co_await build_task(request.instance);
    co_await lock_again(lock);
    task.expires = world_.clock.now() + kLease;
    task.state = Task::State::kOpen;
    memory_->settled.notify(world_.clock);
    co_return Grant{plane_.mark(), task.entry.aggregators, task.entry.copies};
}

// Everything of the task in kernel and pins, meta last.
Job<> Controller::build_task(std::uint64_t instance) {
    Task& task = memory_->tasks.at(instance);
    const Geometry geometry{task.entry.short_slots, task.entry.groups, task.entry.m, task.entry.rows};
    auto pin = std::make_unique<PinnedTask>();
    pin->id = task.id;
    pin->instance = instance;
    pin->index = task.index;
    pin->region.assign(
        std::size_t{task.entry.sets} * task.entry.copies * geometry.aas() * task.entry.aggregators, 0);
    PinnedTask& pinned = *pin;
    plane_.pins.push_back(std::move(pin));
    co_await step("pinned a region");
    if (task.entry.policy == ASK_POLICY_REPLACE) {
        pinned.heats.assign((std::size_t{task.entry.sets} * geometry.aas() * task.entry.aggregators + 7) / 8,
                            0);
        plane_.maps().heats[task.index] = {pinned.heats.data(),
                                           static_cast<std::uint32_t>(pinned.heats.size())};
        co_await plane_.grace_period();
    }
    plane_.maps().tasks[task.index] = task.entry;
    co_await step("wrote a task");
    if (task.entry.copies > 0) {
        plane_.maps().regions[task.index] = {pinned.region.data(),
                                             static_cast<std::uint32_t>(pinned.region.size())};
        co_await plane_.grace_period();
    }
    pinned.whole = true;
    co_await step("pinned a task's meta");
    co_return Done{};
}

PinnedTask* Controller::pinned(const std::string& id) {
    const auto it = std::ranges::find_if(plane_.pins, [&](const auto& pin) { return pin->id == id; });
    return it == plane_.pins.end() ? nullptr : it->get();
}

// Under the lock. Afterwards nothing leads to the task; the reclaimer does the rest, or a successor.
Job<> Controller::begin_close(std::uint64_t instance) {
    co_await drop_flows(instance, std::nullopt);
    Task& task = memory_->tasks.at(instance);
    if (PinnedTask* pin = pinned(task.id)) {
        pin->whole = false;
    }
    task.state = Task::State::kClosing;
    memory_->task_pool.retire(task.index);
    memory_->dead_tasks.push_back(instance);
    memory_->work.notify(world_.clock);
    co_await step("unpinned a task's meta");
    co_return Done{};
}

Job<Result<Done>> Controller::close_task(std::uint64_t instance) {
    co_await ready();
    AsyncMutex::Lock lock = co_await memory_->mutex.lock(world_.clock);
    const auto find = [&] { return memory_->tasks.find(instance); };
    const Nanos until = world_.clock.now() + kPatience;
    const auto busy = [&] {
        const auto it = find();
        return it != memory_->tasks.end() &&
               (it->second.state == Task::State::kOpening || it->second.swapping);
    };
    while (busy() && world_.clock.now() < until) {
        lock.unlock();
        co_await memory_->settled.wait_until(world_.clock, until);
        co_await lock_again(lock);
    }
    if (busy()) {
        co_return Error(Errc::kUnavailable, "task is being opened, or in the middle of a swap");
    }
    if (find() != memory_->tasks.end() && find()->second.state == Task::State::kOpen) {
        co_await begin_close(instance);
    }
    while (find() != memory_->tasks.end() && world_.clock.now() < until) {
        lock.unlock();
        co_await memory_->settled.wait_until(world_.clock, until);
        co_await lock_again(lock);
    }
    co_return Done{};
}

Job<Result<std::pair<Mark, bool>>> Controller::renew(std::uint64_t instance) {
    co_await ready();
    const AsyncMutex::Lock lock = co_await memory_->mutex.lock(world_.clock);
    const auto it = memory_->tasks.find(instance);
    const bool open = it != memory_->tasks.end() && it->second.state == Task::State::kOpen;
    if (open) {
        it->second.expires = world_.clock.now() + kLease;
    }
    co_return std::pair(plane_.mark(), open);
}

Job<Result<std::vector<std::pair<ChannelId, std::uint32_t>>>> Controller::channels_of(std::uint32_t host) {
    co_await ready();
    const AsyncMutex::Lock lock = co_await memory_->mutex.lock(world_.clock);
    std::vector<std::pair<ChannelId, std::uint32_t>> list;
    for (const auto& [id, channel] : memory_->channels) {
        if (id.host == host) {
            list.emplace_back(id, channel.incarnation);
        }
    }
    co_return list;
}

void Controller::check_nothing_left() {
    const std::string who = "switch " + std::to_string(number_) + ": ";
    if (!memory_ || !memory_->serving) {
        world_.fail(Promise::kLeft, who + "its daemon does not serve");
        return;
    }
    if (!memory_->tasks.empty() || !memory_->flows.empty() || !plane_.pins.empty()) {
        world_.fail(Promise::kLeft, who + std::to_string(memory_->tasks.size()) + " tasks, " +
                                        std::to_string(memory_->flows.size()) + " flows and " +
                                        std::to_string(plane_.pins.size()) + " pinned regions are left over");
    }
    if (memory_->task_pool.used() != 0 || memory_->flow_pool.used() != 0 ||
        memory_->task_pool.has_retired() || memory_->flow_pool.has_retired()) {
        world_.fail(Promise::kLeft, who + "indices of tasks or flows are left over");
    }
}

}  // namespace ask::sim
