// SPDX-License-Identifier: Apache-2.0
//
// Groups of the controller: tasks of the service that folds value streams. They have no regions: all of them
// share one pool of slots, which is soft state, and is charged once, to nobody, for as long as a group uses
// it.
#include <arpa/inet.h>
#include <endian.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include <spdlog/spdlog.h>

#include "lib/abi/values.h"
#include "lib/base/random.h"
#include "lib/control/switch/controller.h"
#include "lib/net/address.h"

namespace ask {
namespace {

// With fewer a window's seqs meet each other's slots all the time.
constexpr std::uint32_t kLeastSlots = 64;
constexpr std::uint32_t kMaxWindow = 65536;

// RESULTs are of no channel: their header says host 0 and port 0.
constexpr ChannelId kResults{};

ask_flow_id results_key(std::uint64_t instance) {
    ask_flow_id key{};
    key.task = htobe64(instance);
    return key;
}

std::uint64_t members_mask(std::uint32_t size) {
    return size == ASK_MAX_MEMBERS ? ~std::uint64_t{0} : (std::uint64_t{1} << size) - 1;
}

std::uint64_t slot_bytes(std::uint64_t slots) {
    return slots * sizeof(ask_value_slot);
}

}  // namespace

Result<> Controller::check_group(const TaskRequest& request) const {
    const ValuesRequest& values = *request.values;
    if (store_.groups() == nullptr) {
        return Error(Errc::kUnsupported, "this switch folds no value streams");
    }
    if (values.size == 0 || values.size > ASK_MAX_MEMBERS) {
        return Error(Errc::kInput, "a group of " + std::to_string(values.size) +
                                       " members: must be from 1 to " + std::to_string(ASK_MAX_MEMBERS));
    }
    if (values.window == 0 || values.window > kMaxWindow) {
        return Error(Errc::kInput, "a window of " + std::to_string(values.window) + ": must be from 1 to " +
                                       std::to_string(kMaxWindow));
    }
    if (request.copies != 0 || request.require_region) {
        return Error(Errc::kInput, "a group has no region");
    }
    return {};
}

// A power of two: what is wanted, or what of the pool the budget has room for. What other groups use already
// costs nothing more.
std::uint32_t Controller::choose_slots(const ValuesRequest& request) const {
    const std::uint32_t all = store_.value_slots();
    std::uint32_t slots = std::bit_floor(request.slots == 0 ? all : std::min(request.slots, all));
    const auto fits = [&] {
        const std::uint64_t more = slot_bytes(slots) - std::min(slot_bytes(slots), value_bytes_);
        return limits_.allow_over_budget || more <= sram_.left();
    };
    while (slots >= kLeastSlots && !fits()) {
        slots /= 2;
    }
    return slots >= kLeastSlots ? slots : 0;
}

void Controller::charge_pool() {
    std::uint64_t bytes = 0;
    for (const auto& [instance, task] : tasks_) {
        bytes = std::max(bytes, task.group ? slot_bytes(task.group->pool_slots) : 0);
    }
    sram_.give_back(value_bytes_);
    value_bytes_ = bytes;
    sram_.take(bytes);
}

// A copy knows the port that it leaves by and nothing else, so each member has one of its own.
Controller::FanPlan Controller::plan_fan(const ValuesRequest& request) const {
    FanPlan plan;
    if (request.members.empty()) {
        plan.why_not = request.direct ? "it was not said where its members are" : "";
        return plan;
    }
    if (request.members.size() != request.size) {
        plan.why_not = "it has " + std::to_string(request.size) + " members, and it was said where " +
                       std::to_string(request.members.size()) + " are";
        return plan;
    }
    for (const std::uint32_t address : request.members) {
        auto port = store_.fan_port(address);
        if (!port.ok()) {
            plan.why_not = port.error().text();
            return plan;
        }
        const auto same = std::ranges::find(plan.ports, port->port.ifindex,
                                            [](const FanPort& other) { return other.port.ifindex; });
        if (same != plan.ports.end()) {
            plan.why_not = "members " + format_ipv4(ntohl(same->member.address)) + " and " +
                           format_ipv4(address) + " are both behind port " + port->port.name;
            return plan;
        }
        plan.ports.push_back(*std::move(port));
    }
    return plan;
}

// Of fans, too, whoever takes all that he may leaves others some.
Result<> Controller::check_fan_quota(const Task& task) const {
    constexpr std::uint32_t kParts = 8;
    const std::string holder = holder_of(task.owner);
    const auto is_its = [&holder](const auto& entry) {
        const Task& other = entry.second;
        return other.group && other.group->has_fan != 0 && holder_of(other.owner) == holder;
    };
    const auto has = std::ranges::count_if(tasks_, is_its);
    const std::uint32_t most = fan_pool_.size() - fan_pool_.size() / kParts;
    if (std::cmp_less(has, most)) {
        return {};
    }
    return Error(Errc::kLimit, holder + " has " + std::to_string(has) + " of the " + std::to_string(most) +
                                   " fans of the switch that one may have");
}

bool Controller::has_fans() const {
    return std::ranges::any_of(
        tasks_, [](const auto& entry) { return entry.second.group && entry.second.group->has_fan != 0; });
}

// All fans share what is behind a port. An error says why there is to be no fan.
Result<> Controller::write_fan_members(const FanPlan& plan, const Task& task) const {
    const bool shared = has_fans();
    for (const FanPort& to : plan.ports) {
        const auto there = store_.fan_members()->find(to.port.ifindex);
        ASK_PASS(there);
        if (shared && *there && (*there)->address != to.member.address) {
            return Error(Errc::kUnsupported, "copies that leave by port " + to.port.name + " are for " +
                                                 format_ipv4(ntohl((*there)->address)) +
                                                 " of another group, not " +
                                                 format_ipv4(ntohl(to.member.address)));
        }
    }
    for (const FanPort& to : plan.ports) {
        ASK_TRY(store_.fan_members()->set(to.port.ifindex, to.member), "task " + task.id);
    }
    return {};
}

// Which number its fan has, and who is behind its ports. An error says why there is none.
Result<> Controller::take_fan(const FanPlan& plan, Task& task) {
    if (!plan.why_not.empty() || plan.ports.empty()) {
        return Error(Errc::kUnsupported, plan.why_not);
    }
    ASK_PASS(check_fan_quota(task));
    ASK_PASS(write_fan_members(plan, task));
    const auto number = fan_pool_.take();
    if (!number) {
        return Error(Errc::kLimit,
                     "all " + std::to_string(fan_pool_.size()) + " fans of the switch are in use");
    }
    for (const FanPort& to : plan.ports) {
        task.fan_ports.push_back(to.port.ifindex);
    }
    task.group->fan = *number;
    task.group->has_fan = 1;
    return {};
}

// No program has the group any more, and nothing of its fan is left in the maps.
void Controller::give_back_fan(Task& task) {
    if (!task.group || task.group->has_fan == 0) {
        return;
    }
    fan_pool_.put_back(task.group->fan);
    task.group->has_fan = 0;
    if (const auto cleared = clear_fan_members(); !cleared.ok()) {
        spdlog::error("fans: {}", cleared.error().text());
    }
}

// With the last fan go those behind its ports.
Result<> Controller::clear_fan_members() const {
    if (store_.fan_members() == nullptr || has_fans()) {
        return {};
    }
    const auto ports = store_.fan_members()->keys();
    ASK_PASS(ports);
    for (const std::uint32_t port : *ports) {
        ASK_PASS(store_.fan_members()->erase(port));
    }
    return {};
}

// The task is in kOpening, and has its index. Without a slot all of its packets go through to the collector.
Result<TaskGrant> Controller::open_group(Lock& lock, const TaskRequest& request, const FanPlan& plan,
                                         Task& task) {
    const ValuesRequest& values = *request.values;
    const auto undo = [&](Error error) {
        task_pool_.put_back(task.index);
        drop_task(request.instance);
        settled_.notify_all();
        return std::move(error).with_context("task " + request.id);
    };
    const auto collector = store_.route_to(request.receiver_address);
    if (!collector.ok()) {
        return undo(collector.error());
    }
    if (auto room = quotas_.check(task.owner, {.flows = 1}); !room.ok()) {
        return undo(std::move(room).error());
    }
    const auto flow = take(lock, flow_pool_);
    if (!flow) {
        return undo(Error(Errc::kLimit, "all " + std::to_string(flow_pool_.size()) +
                                            " flows of the switch are in use: raise its max_flows"));
    }
    const Flow results{.index = *flow, .nonce = random_u64()};
    add_flow({request.instance, kResults}, results);
    task.entry.instance = htobe64(request.instance);
    task.entry.receiver = htonl(request.receiver_address);
    task.entry.service = ASK_SERVICE_VALUES;
    task.entry.sets = 1;
    ask_group group{};
    group.instance = task.entry.instance;
    group.all = group.want = group.local = members_mask(values.size);
    group.above.ifindex[0] = collector->ifindex;
    group.collector = task.entry.receiver;
    group.pool_slots = choose_slots(values);
    // So many seqs in a row have slots of their own; a wider window would collide with itself.
    group.window = group.pool_slots == 0 ? values.window : std::min(values.window, group.pool_slots);
    group.last_level = 1;
    group.flush = limits_.flush_values ? 1 : 0;
    task.group = group;
    const auto fan = take_fan(plan, task);
    task.no_direct_reason = fan.ok() ? "" : fan.error().text();
    task.group->direct = values.direct && fan.ok() ? 1 : 0;
    charge_pool();

    lock.unlock();
    auto built = build_group(task, results, values.secret);
    lock.lock();
    if (!built.ok()) {
        if (auto dropped = drop_flows_of_task(request.instance); !dropped.ok()) {
            spdlog::error("task {}: {}", request.id, dropped.error().text());
        }
        retire_task(request.instance, task);
        return std::move(built).error().with_context("task " + request.id);
    }
    task.expires = lease_now() + limits_.lease;
    task.state = Task::State::kOpen;
    limit_rate(task);
    settled_.notify_all();
    spdlog::info("task {} opened for {}: a group of {}, {} slots, {}", request.id, request.receiver,
                 values.size, group.pool_slots,
                 task.group->direct != 0
                     ? "results go to all from here"
                     : "results come from its collector" +
                           (task.no_direct_reason.empty() ? "" : ": " + task.no_direct_reason));
    return grant_of(task);
}

// All of it but the members' flows, in an order that a successor can tell by the meta, which is last. Without
// the lock, as build_task().
Result<> Controller::build_group(const Task& task, const Flow& results, const CheckSecret& secret) const {
    const std::uint64_t instance = be64toh(task.entry.instance);
    ASK_PASS(store_.make_pins(task.pins));
    ASK_PASS(store_.tasks().set(task.index, task.entry));
    ask_flow entry{};
    const __u64 words[] = {secret[0], secret[1]};
    ask_check_expand(static_cast<const __u64*>(words), &entry.key);
    entry.task_instance = task.entry.instance;
    entry.channel = ASK_NO_CHANNEL;
    entry.task = task.index;
    entry.nonce = results.nonce;
    ASK_PASS(store_.flows().set(results.index, entry));
    ASK_PASS(store_.flow_stats().zero(results.index));
    ASK_PASS(store_.flow_ids().set(results_key(instance), results.index));
    ask_group unnamed = *task.group;
    unnamed.instance = 0;
    // Before its fan: erase_group() finds the one by the other.
    ASK_PASS(store_.groups()->set(task.index, unnamed));
    if (task.group->has_fan != 0) {
        ASK_PASS(store_.put_fan(task.group->fan, task.fan_ports));
    }
    ASK_PASS(store_.groups()->set(task.index, *task.group));
    return pin_meta(instance, task);
}

// Whether a flow may be this member's. Every flow of a group has the group's key, which RESULTs have, too.
Result<> Controller::check_member(const Task& task, const ask_flow& wanted) const {
    if (!task.group) {
        return wanted.member == 0 ? Result<>()
                                  : Error(Errc::kInput, "its senders have no numbers: it is no group");
    }
    const auto size = static_cast<std::uint32_t>(std::popcount(task.group->all));
    if (wanted.member >= size) {
        return Error(Errc::kInput,
                     "member " + std::to_string(wanted.member) + " of a group of " + std::to_string(size));
    }
    const auto results = flows_.find({be64toh(task.entry.instance), kResults});
    if (results == flows_.end()) {
        return Error(Errc::kInternal, "it has no flow for its results");
    }
    const auto entry = store_.flows().find(results->second.index);
    ASK_PASS(entry);
    if (!*entry || std::memcmp(&(*entry)->key, &wanted.key, sizeof(wanted.key)) != 0) {
        return Error(Errc::kExists, "the group has another secret");
    }
    return {};
}

// Its slots are anybody's from then on, and its packets go through.
Result<> Controller::end_group(const Task& task) const {
    if (!task.group) {
        return {};
    }
    ask_group unnamed = *task.group;
    unnamed.instance = 0;
    return store_.groups()->set(task.index, unnamed);
}

// What end_group() or somebody who died has left.
Result<> Controller::erase_group(std::uint32_t index) const {
    if (store_.groups() == nullptr) {
        return {};
    }
    const auto group = store_.groups()->find(index);
    ASK_PASS(group);
    if (*group && (*group)->has_fan != 0) {
        ASK_PASS(store_.erase_fan((*group)->fan));
    }
    return store_.groups()->set(index, {});
}

// False: it is a group, and not whole.
Result<bool> Controller::adopt_group(Task& task) {
    if (task.entry.service != ASK_SERVICE_VALUES) {
        return true;
    }
    if (store_.groups() == nullptr) {
        return false;
    }
    const auto group = store_.groups()->find(task.index);
    ASK_PASS(group);
    if (!*group || (*group)->instance != task.entry.instance || (*group)->pool_slots > store_.value_slots()) {
        return false;
    }
    if ((*group)->has_fan != 0 && !fan_pool_.adopt((*group)->fan)) {
        return false;
    }
    task.group = **group;
    return true;
}

Result<bool> Controller::adopt_result_flow(const ask_flow_id& key, std::uint32_t index) {
    const auto task = tasks_.find(be64toh(key.task));
    const auto entry = store_.flows().find(index);
    ASK_PASS(entry);
    const bool fits = *entry && task != tasks_.end() && task->second.group && key.host == 0 &&
                      key.port == 0 && (*entry)->task_instance == key.task &&
                      (*entry)->task == task->second.index && flow_pool_.adopt(index);
    if (fits) {
        add_flow({be64toh(key.task), kResults}, {.index = index, .nonce = (*entry)->nonce});
    }
    return fits;
}

Result<> Controller::report_group(const Task& task, TaskReport& out) const {
    if (task.group) {
        const auto now = store_.groups()->find(task.index);
        ASK_PASS(now);
        if (*now) {
            std::ranges::copy((*now)->highest, out.highest.begin());
        }
        out.window = task.group->window;
        out.fan = task.group->has_fan != 0;
        out.no_direct_reason = task.no_direct_reason;
        out.members = static_cast<std::uint32_t>(std::popcount(task.group->all));
        out.value_slots = task.group->pool_slots;
        out.direct = task.group->direct != 0;
        out.flows -= 1;  // that of its results
    }
    return {};
}

}  // namespace ask
