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
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <spdlog/spdlog.h>

#include "lib/abi/values.h"
#include "lib/base/random.h"
#include "lib/control/switch/controller.h"
#include "lib/control/switch/host_address.h"
#include "lib/net/host_book.h"

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

std::uint64_t wanted_of(const ValuesRequest& values) {
    return values.want == 0 ? members_mask(values.size) : values.want;
}

// Who is wanted here, and who gets copies.
Result<> check_levels(const ValuesRequest& values) {
    const std::uint64_t all = members_mask(values.size);
    if ((values.want & ~all) != 0 || (values.below & ~wanted_of(values)) != 0) {
        return Error(Errc::kInput, "it wants members that a group of " + std::to_string(values.size) +
                                       " has not, or partials of some that it does not want");
    }
    if (std::ranges::any_of(values.racks, &std::vector<std::uint32_t>::empty)) {
        return Error(Errc::kInput, "a rack that copies go to has no members");
    }
    return {};
}

// A port of its own for each target. Who comes late may have what another can do without: by augmenting
// paths, since racks behind the same uplinks would take each other's last one.
class PortChoice {
 public:
    explicit PortChoice(std::size_t targets) : ways_(targets) {}

    void allow(std::size_t target, std::uint32_t ifindex) { ways_[target].push_back(ifindex); }
    // False: there is none for it.
    bool give(std::size_t target) {
        std::vector<std::uint32_t> tried;
        return give(target, tried);
    }
    // By ifindex, the target.
    [[nodiscard]] const std::map<std::uint32_t, std::size_t>& holders() const { return holders_; }

 private:
    // NOLINTNEXTLINE(misc-no-recursion): as deep as there are targets, 64 at most
    bool give(std::size_t target, std::vector<std::uint32_t>& tried) {
        for (const std::uint32_t port : ways_[target]) {
            if (std::ranges::find(tried, port) != tried.end()) {
                continue;
            }
            tried.push_back(port);
            const auto holder = holders_.find(port);
            if (holder == holders_.end() || give(holder->second, tried)) {
                holders_[port] = target;
                return true;
            }
        }
        return false;
    }

    std::vector<std::vector<std::uint32_t>> ways_;
    std::map<std::uint32_t, std::size_t> holders_;
};

// As programs are to find it, but for its fan.
ask_group group_entry(const ask_task& task, const ValuesRequest& values, const ask_ports& above,
                      std::uint32_t slots) {
    ask_group group{};
    group.instance = task.instance;
    group.all = members_mask(values.size);
    group.want = wanted_of(values);
    group.local = group.all & ~values.below;
    group.above = above;
    group.collector = task.receiver;
    group.pool_slots = slots;
    // So many seqs in a row have slots of their own; a wider window would collide with itself.
    group.window = slots == 0 ? values.window : std::min(values.window, slots);
    group.last_level = group.want == group.all ? 1 : 0;
    return group;
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
    return check_levels(values);
}

// Whether a group that is open is what is asked for: it waits for the same members, and sends results to all
// only if it is to.
bool Controller::same_levels(const std::optional<ask_group>& group, const TaskRequest& request) {
    if (!request.values || !group) {
        return true;
    }
    const ValuesRequest& values = *request.values;
    return group->want == wanted_of(values) && group->local == (group->all & ~values.below) &&
           (group->direct == 0 || values.direct);
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

// A copy knows the port that it leaves by and nothing else, so each member has one of its own, and so has
// each rack whose switch copies on.
Controller::FanPlan Controller::plan_fan(const ValuesRequest& request) const {
    FanPlan plan;
    if (request.members.empty() && request.racks.empty()) {
        plan.why_not = request.direct ? "it was not said where its members are" : "";
        return plan;
    }
    std::size_t named = request.members.size();
    for (const std::uint32_t member : request.members) {
        plan.targets.push_back({.members = {member}, .ways = {}});
    }
    for (const auto& rack : request.racks) {
        named += rack.size();
        plan.targets.push_back({.members = rack, .ways = {}});
    }
    if (const auto wanted = static_cast<std::size_t>(std::popcount(wanted_of(request))); named != wanted) {
        plan.why_not = "it has " + std::to_string(wanted) + " members, and it was said where " +
                       std::to_string(named) + " are";
        return plan;
    }
    const bool six = is_ipv6_number(plan.targets.front().members.front());
    for (FanTarget& target : plan.targets) {
        if (std::ranges::any_of(target.members,
                                [six](auto member) { return is_ipv6_number(member) != six; })) {
            plan.why_not = "some of its members have IPv4, some IPv6";
            return plan;
        }
        auto ways = store_.fan_ports(target.members.front());
        if (!ways.ok()) {
            plan.why_not = ways.error().text();
            return plan;
        }
        target.ways = *std::move(ways);
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

// All fans share what is behind a port: leaves the target those where copies are for nobody yet, or for one
// of its members. An error says that there is none.
Result<> Controller::keep_to_others(FanTarget& target) const {
    std::optional<Error> taken;
    std::vector<FanPort> left;
    for (FanPort& way : target.ways) {
        const auto there = store_.fan_members()->find(way.port.ifindex);
        ASK_PASS(there);
        const std::uint32_t whose = *there ? ntohl((*there)->address) : target.members.front();
        if (std::ranges::find(target.members, whose) == target.members.end()) {
            taken = Error(Errc::kUnsupported, "copies that leave by port " + way.port.name + " are for " +
                                                  format_host(whose) + " of another group, not " +
                                                  format_host(target.members.front()));
            continue;
        }
        set_address(way.member, whose);
        left.push_back(way);
    }
    target.ways = std::move(left);
    return target.ways.empty() && taken ? Result<>(*std::move(taken)) : Result<>();
}

// An error says why there is to be no fan.
Result<std::vector<FanPort>> Controller::choose_fan_ports(const FanPlan& plan) const {
    const bool shared = has_fans();
    std::vector<FanTarget> targets = plan.targets;
    PortChoice choice(targets.size());
    for (std::size_t at = 0; at < targets.size(); ++at) {
        ASK_PASS(shared ? keep_to_others(targets[at]) : Result<>());
        for (const FanPort& way : targets[at].ways) {
            choice.allow(at, way.port.ifindex);
        }
        if (!choice.give(at)) {
            const AttachedPort& port = targets[at].ways.front().port;
            const FanTarget& holder = targets[choice.holders().at(port.ifindex)];
            return Error(Errc::kUnsupported, "members " + format_host(holder.members.front()) + " and " +
                                                 format_host(targets[at].members.front()) +
                                                 " are both behind port " + port.name);
        }
    }
    std::vector<FanPort> ports(targets.size());
    for (const auto& [ifindex, target] : choice.holders()) {
        const auto& ways = targets[target].ways;
        ports[target] =
            *std::ranges::find(ways, ifindex, [](const FanPort& way) { return way.port.ifindex; });
    }
    return ports;
}

Result<> Controller::write_fan_members(const std::vector<FanPort>& ports, const Task& task) const {
    for (const FanPort& to : ports) {
        ASK_TRY(store_.fan_members()->set(to.port.ifindex, to.member), "task " + task.id);
    }
    return {};
}

void Controller::settle_fan(FanPlan plan, const std::vector<FanPort>& ports, Task& task) {
    task.fan = std::move(plan.targets);
    for (std::size_t at = 0; at < task.fan.size(); ++at) {
        task.fan[at].ways = {ports[at]};
    }
}

std::vector<std::uint32_t> Controller::fan_ports_of(const Task& task) {
    std::vector<std::uint32_t> ports;
    ports.reserve(task.fan.size());
    for (const FanTarget& target : task.fan) {
        ports.push_back(target.ways.front().port.ifindex);
    }
    return ports;
}

// Whether no route to it leads through the port that its copies leave by.
bool Controller::leads_elsewhere(const FanTarget& target) const {
    const auto ways = store_.ways_to(target.members.front());
    const std::uint32_t now = target.ways.front().port.ifindex;
    return ways.ok() && std::ranges::find(*ways, now, &AttachedPort::ifindex) == ways->end();
}

// Copies leave by ports that routes lead through. A fan of which another stands in the way stays as it is,
// and so does one that a predecessor has made: who gets no copy asks, and is answered.
void Controller::follow_fans() {
    std::map<std::uint64_t, FanPlan> fans;
    {
        const Guard lock(mutex_);
        for (const auto& [instance, task] : tasks_) {
            if (task.state == Task::State::kOpen && task.group && task.group->has_fan != 0) {
                fans[instance].targets = task.fan;
            }
        }
    }
    for (auto& [instance, plan] : fans) {
        if (std::ranges::none_of(plan.targets,
                                 [this](const FanTarget& one) { return leads_elsewhere(one); })) {
            continue;
        }
        for (FanTarget& target : plan.targets) {
            auto ways = store_.fan_ports(target.members.front());
            target.ways = ways.ok() ? *std::move(ways) : std::move(target.ways);
        }
        if (const auto moved = move_fan(instance, std::move(plan)); !moved.ok()) {
            spdlog::warn("its fan stays as it was: {}", moved.error().text());
        }
    }
}

// With the lock all along: of a task that is open nobody else touches the fan.
Result<> Controller::move_fan(std::uint64_t instance, FanPlan plan) {
    const Guard lock(mutex_);
    const auto found = tasks_.find(instance);
    if (found == tasks_.end() || found->second.state != Task::State::kOpen) {
        return {};
    }
    Task& task = found->second;
    const auto ports = choose_fan_ports(plan);
    ASK_TRY(ports, "task " + task.id);
    ASK_PASS(write_fan_members(*ports, task));
    settle_fan(std::move(plan), *ports, task);
    ASK_TRY(store_.put_fan(task.group->fan, fan_ports_of(task)), "task " + task.id);
    spdlog::info("task {}: routes have changed, and its copies leave by other ports", task.id);
    return {};
}

// Which number its fan has, and who is behind its ports. An error says why there is none.
Result<> Controller::take_fan(const FanPlan& plan, Task& task) {
    if (!plan.why_not.empty() || plan.targets.empty()) {
        return Error(Errc::kUnsupported, plan.why_not);
    }
    ASK_PASS(check_fan_quota(task));
    const auto ports = choose_fan_ports(plan);
    ASK_PASS(ports);
    ASK_PASS(write_fan_members(*ports, task));
    const auto number = fan_pool_.take();
    if (!number) {
        return Error(Errc::kLimit,
                     "all " + std::to_string(fan_pool_.size()) + " fans of the switch are in use");
    }
    settle_fan(plan, *ports, task);
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
    const auto collector = ways_of(store_, request.receiver_address);
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
    task.group = group_entry(task.entry, values, collector->ports, choose_slots(values));
    task.group->flush = limits_.flush_values ? 1 : 0;
    const auto fan = take_fan(plan, task);
    task.no_direct_reason = fan.ok() ? "" : fan.error().text();
    task.group->direct = values.direct && fan.ok() && task.group->last_level != 0 ? 1 : 0;
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
    ++tasks_opened_;
    settled_.notify_all();
    spdlog::info("task {} opened for {}: {} members of a group of {}, {} slots, {}", request.id,
                 request.receiver, std::popcount(task.group->want), values.size, task.group->pool_slots,
                 task.group->direct != 0
                     ? "results go to all from here"
                     : "results come from its collector or a switch on the way there" +
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
        ASK_PASS(store_.put_fan(task.group->fan, fan_ports_of(task)));
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

// The whole entry is written, since that is what the map's interface has. A program may raise `highest`
// meanwhile and find it where it was: the next packet raises it again, and until then some are taken for less
// late than they are, which costs a slot at most.
Result<> Controller::move_group(Task& task, const ask_ports& above) const {
    if (std::ranges::equal(task.group->above.ifindex, above.ifindex)) {
        return {};
    }
    auto entry = store_.groups()->find(task.index);
    ASK_TRY(entry, "task " + task.id);
    if (!*entry || (*entry)->instance != task.entry.instance) {
        return Error(Errc::kInternal, "task " + task.id + ": its entry as a group is gone");
    }
    (*entry)->above = above;
    ASK_TRY(store_.groups()->set(task.index, **entry), "task " + task.id);
    task.group->above = above;
    spdlog::info("task {}: the route to its collector has changed; results may come by {}", task.id,
                 port_names(attached(above)));
    return {};
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
        out.wanted = static_cast<std::uint32_t>(std::popcount(task.group->want));
        out.value_slots = task.group->pool_slots;
        out.direct = task.group->direct != 0;
        out.flows -= 1;  // that of its results
    }
    return {};
}

}  // namespace ask
