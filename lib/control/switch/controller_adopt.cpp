// SPDX-License-Identifier: Apache-2.0
//
// Rebuilding the controller from maps and pins alone. Whatever a predecessor left half done is undone here:
// tasks without meta, hash entries that lead to nothing. Traffic goes on meanwhile.
#include <arpa/inet.h>
#include <endian.h>

#include <cstring>

#include <spdlog/spdlog.h>

#include "lib/base/task_id.h"
#include "lib/control/switch/controller.h"
#include "lib/net/host_book.h"

namespace ask {
namespace {

template <std::size_t N>
std::string text_of(const char (&field)[N]) {
    return {static_cast<const char*>(field), ::strnlen(static_cast<const char*>(field), N)};
}

}  // namespace

Result<> Controller::rebuild() {
    const Guard lock(mutex_);
    ASK_TRY(adopt_hosts(), "hosts");
    ASK_TRY(adopt_tasks(), "tasks");
    ASK_TRY(limit_rates(), "buckets");
    ASK_TRY(adopt_channels(), "channels");
    ASK_TRY(adopt_flows(), "flows");
    adopt_flips();
    // Programs that looked up what has just been undone have ended after this; then all the rest is free.
    ASK_TRY(store_.grace_period(), "adopt");
    ASK_TRY(adopt_swaps(), "swaps");
    task_pool_.fill();
    channel_pool_.fill();
    flow_pool_.fill();
    fan_pool_.fill();
    ASK_TRY(clear_unused_hosts(), "hosts");
    ASK_TRY(clear_unused_regions(), "regions");
    ASK_TRY(clear_unused_carried(), "flows");
    ASK_TRY(clear_fan_members(), "fans");
    if (store_.adopted()) {
        spdlog::info("adopted {} tasks, {} channels, {} flows; {} of {} KiB SRAM in use", tasks_.size(),
                     channels_.size(), flows_.size(), sram_.used() / 1024, sram_.total() / 1024);
    }
    return {};
}

Result<> Controller::adopt_tasks() {
    const auto all = store_.pinned_tasks();
    ASK_PASS(all);
    for (const std::string& pins : *all) {
        const auto whole = adopt_task_meta(pins);
        ASK_TRY(whole, "task " + pins);
        if (!*whole) {
            spdlog::warn("task {}: half made, or half removed; what is left of it is removed", pins);
            ASK_TRY(store_.remove_pins(pins), "task " + pins);
        }
    }
    // Whatever a predecessor left of them.
    ASK_PASS(store_.unname_all());
    for (const auto& [instance, task] : tasks_) {
        ASK_TRY(store_.name_pins(task.owner.tenant, task.id, task.pins), "task " + task.id);
    }
    return {};
}

// False: there is no whole task of these pins.
Result<bool> Controller::adopt_task_meta(const std::string& pins) {
    auto map = store_.open_pin(pins, TaskPin::kMeta);
    if (!map.ok()) {
        return map.error().code() == Errc::kUnknown ? Result<bool>(false)
                                                    : Result<bool>(std::move(map).error());
    }
    const auto meta = store_.read_meta(**map);
    ASK_PASS(meta);
    if (!*meta || pins_of(be64toh((*meta)->instance)) != pins || (*meta)->index >= task_pool_.size()) {
        return false;
    }
    const std::string tenant = text_of((*meta)->tenant);
    if (!is_pin_name(text_of((*meta)->id)) || (!tenant.empty() && !is_pin_name(tenant))) {
        return false;
    }
    const auto entry = store_.tasks().find((*meta)->index);
    ASK_PASS(entry);
    if (!*entry || (*entry)->instance != (*meta)->instance) {
        return false;
    }
    Task task;
    task.state = Task::State::kOpen;
    task.id = text_of((*meta)->id);
    task.pins = pins;
    task.receiver = text_of((*meta)->receiver);
    task.owner = {tenant, ntohl((*meta)->owner)};
    task.index = (*meta)->index;
    task.nonce = (*meta)->nonce;
    task.entry = **entry;
    auto pinned = adopt_task_memory(task);
    if (!pinned.ok() || !*pinned) {
        return pinned;
    }
    auto back = adopt_back(task);
    if (!back.ok() || !*back) {
        return back;
    }
    auto group = adopt_group(task);
    if (!group.ok() || !*group) {
        return group;
    }
    if (is_ipv6_number(ntohl(task.entry.receiver)) && !ipv6_of(ntohl(task.entry.receiver))) {
        spdlog::warn("task {}: the address of its receiver is lost", task.id);
        return false;
    }
    if (!task_pool_.adopt(task.index) || !store_.adopt_program(task.entry.program)) {
        return false;
    }
    task.host = ntohl(task.entry.receiver);
    ASK_PASS(enter_host(task.host));
    take_task(task);
    set_sram(task, sram_of(task.entry));
    set_back_bytes(task, back_bytes(task.back));
    task.expires = lease_now() + limits_.lease;
    tasks_[be64toh((*meta)->instance)] = std::move(task);
    charge_pool();
    return true;
}

// False: the pin is missing, or is not that of the map that programs use for the task.
Result<bool> Controller::adopt_own_map(const Task& task, TaskPin pin, const MapPlaces& used,
                                       OwnMapPtr& map) const {
    auto opened = store_.open_pin(task.pins, pin);
    if (!opened.ok()) {
        return opened.error().code() == Errc::kUnknown ? Result<bool>(false)
                                                       : Result<bool>(std::move(opened).error());
    }
    const auto in_use = used.holds(task.index, **opened);
    ASK_TRY(in_use, pin_name(pin));
    if (!*in_use) {
        spdlog::warn("task {}: its {} is pinned, but is not the one in use", task.id, pin_name(pin));
        return false;
    }
    map = std::move(*opened);
    return true;
}

// False: some of it is lost. The kernel still has the memory, but nobody could fetch it; the receiver is told
// at its next renewal that the task is gone.
Result<bool> Controller::adopt_task_memory(Task& task) const {
    const auto* regions = store_.regions(task.entry.program);
    if (regions == nullptr) {
        spdlog::warn("task {}: the program that it is for is gone", task.id);
        return false;
    }
    if (task.entry.copies > 0) {
        auto region = adopt_own_map(task, TaskPin::kRegion, *regions, task.region);
        if (!region.ok() || !*region) {
            return region;
        }
    }
    return task.entry.policy == ASK_POLICY_REPLACE
               ? adopt_own_map(task, TaskPin::kHeats, store_.heats(), task.heats)
               : Result<bool>(true);
}

Result<> Controller::adopt_channels() {
    const auto keys = store_.channel_ids().keys();
    ASK_PASS(keys);
    for (const ask_channel_id& key : *keys) {
        const auto index = store_.channel_ids().find(key);
        ASK_PASS(index);
        const auto entry =
            *index ? store_.channels().find(**index) : Result<std::optional<ask_channel>>(std::nullopt);
        ASK_PASS(entry);
        const bool entered = *entry && (*entry)->host == key.host && (*entry)->port == key.port &&
                             !attached((*entry)->ports).empty() && enter_host(ntohl(key.host)).ok();
        const bool fits = entered && channel_pool_.adopt(**index);
        if (!fits) {
            if (entered) {
                leave_host(ntohl(key.host));
            }
            ASK_PASS(store_.channel_ids().erase(key));
            continue;
        }
        // Of which tenant is not pinned: until it is registered anew, it counts for its host alone.
        add_channel(
            {ntohl(key.host), ntohs(key.port)},
            {**index, ntohl((*entry)->incarnation), {{}, ntohl(key.host)}, (*entry)->ports, lease_now()});
    }
    return {};
}

Result<> Controller::adopt_flows() {
    const auto keys = store_.flow_ids().keys();
    ASK_PASS(keys);
    for (const ask_flow_id& key : *keys) {
        ASK_PASS(adopt_flow(key));
    }
    return adopt_cut_flows();
}

// One that a hash entry leads to. If its channel is gone, or was going, it is cut.
Result<> Controller::adopt_flow(const ask_flow_id& key) {
    const auto index = store_.flow_ids().find(key);
    ASK_PASS(index);
    const auto entry = *index ? store_.flows().find(**index) : Result<std::optional<ask_flow>>(std::nullopt);
    ASK_PASS(entry);
    if (*entry && (*entry)->channel == ASK_NO_CHANNEL) {
        const auto adopted = adopt_result_flow(key, **index);
        ASK_PASS(adopted);
        return *adopted ? Result<>() : store_.flow_ids().erase(key);
    }
    const ChannelId channel{ntohl(key.host), ntohs(key.port)};
    const auto task = tasks_.find(be64toh(key.task));
    const auto registered = channels_.find(channel);
    const bool known = *entry && task != tasks_.end() && (*entry)->task_instance == key.task &&
                       (*entry)->task == task->second.index;
    const bool fits = known && (*entry)->cut == 0 && registered != channels_.end() &&
                      (*entry)->channel == registered->second.index;
    if (!fits) {
        ASK_PASS(known ? set_cut(**index, true) : Result<>());
        return store_.flow_ids().erase(key);
    }
    if (!flow_pool_.adopt(**index)) {
        return store_.flow_ids().erase(key);
    }
    add_flow({be64toh(key.task), channel}, {.index = **index,
                                            .sram = sram_of_flow(task->second.entry),
                                            .incarnation = ntohl((*entry)->incarnation),
                                            .nonce = (*entry)->nonce});
    return {};
}

// What they have counted is their tasks' still.
Result<> Controller::adopt_cut_flows() {
    for (std::uint32_t index = 0; index < flow_pool_.size(); index++) {
        const auto entry = store_.flows().find(index);
        ASK_PASS(entry);
        if (!*entry || (*entry)->cut == 0) {
            continue;
        }
        const FlowKey key{be64toh((*entry)->task_instance), {ntohl((*entry)->host), ntohs((*entry)->port)}};
        const auto task = tasks_.find(key.first);
        if (task != tasks_.end() && task->second.index == (*entry)->task && !flows_.contains(key) &&
            flow_pool_.adopt(index)) {
            add_flow(key, {.index = index,
                           .sram = sram_of_flow(task->second.entry),
                           .incarnation = ntohl((*entry)->incarnation),
                           .nonce = (*entry)->nonce,
                           .cut = true});
        }
    }
    return {};
}

// A predecessor may have died after it put a region in and before the task was whole.
Result<> Controller::clear_unused_regions() {
    std::set<std::uint32_t> used;
    for (const auto& [instance, task] : tasks_) {
        used.insert(task.index);
    }
    for (std::uint32_t index = 0; index < task_pool_.size(); index++) {
        if (used.contains(index)) {
            continue;
        }
        const auto entry = store_.tasks().find(index);
        ASK_PASS(entry);
        if (*entry && (*entry)->instance != 0) {
            ASK_PASS(erase_task(index));
        }
    }
    return {};
}

// Likewise of flows.
Result<> Controller::clear_unused_carried() {
    std::set<std::uint32_t> used;
    for (const auto& [key, flow] : flows_) {
        used.insert(flow.index);
    }
    for (std::uint32_t index = 0; index < flow_pool_.size(); index++) {
        if (used.contains(index)) {
            continue;
        }
        const auto entry = store_.flows().find(index);
        ASK_PASS(entry);
        if (*entry && (*entry)->task_instance != 0) {
            ASK_PASS(erase_flow(index));
        }
    }
    return {};
}

}  // namespace ask
