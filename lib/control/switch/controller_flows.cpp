// SPDX-License-Identifier: Apache-2.0
//
// Channels and flows of the controller. Order of every change: the array entry first, the hash entry that
// leads to it last; taking back the other way round.
#include <arpa/inet.h>
#include <endian.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>
#include <span>

#include <spdlog/spdlog.h>

#include "lib/base/log_fields.h"
#include "lib/base/random.h"
#include "lib/control/switch/controller.h"
#include "lib/net/frame.h"
#include "lib/net/host_book.h"
#include "lib/tuples/switch_counts.h"

namespace ask {
namespace {

std::string channel_name(const ChannelId& channel) {
    return "channel " + control_address(channel.host, channel.port);
}

ask_channel_id channel_key(const ChannelId& channel) {
    ask_channel_id key{};
    key.host = htonl(channel.host);
    key.port = htons(channel.port);
    return key;
}

ask_flow_id flow_key(std::uint64_t instance, const ChannelId& channel) {
    ask_flow_id key{};
    key.task = htobe64(instance);
    key.host = htonl(channel.host);
    key.port = htons(channel.port);
    return key;
}

Result<> check_channel(const ChannelId& channel, std::uint32_t incarnation) {
    if (!is_host_number(channel.host)) {
        return Error(Errc::kInput, channel_name(channel) + ": its address is no host's");
    }
    if (channel.port < ASK_CHANNEL_PORT_BASE ||
        channel.port >= ASK_CHANNEL_PORT_BASE + ASK_MAX_CHANNELS_PER_HOST) {
        return Error(Errc::kInput, channel_name(channel) + ": its port must be from " +
                                       std::to_string(ASK_CHANNEL_PORT_BASE) + " to " +
                                       std::to_string(ASK_CHANNEL_PORT_BASE + ASK_MAX_CHANNELS_PER_HOST - 1));
    }
    if (incarnation == 0) {
        return Error(Errc::kInput, channel_name(channel) + ": incarnation 0 is none");
    }
    return {};
}

Result<> check_own_channel(const Caller& caller, const ChannelId& channel) {
    if (acts_for(caller, channel.host)) {
        return {};
    }
    return Error(Errc::kDenied,
                 channel_name(channel) + " is for its own host to register, not for " + describe(caller));
}

std::string hex(std::uint32_t value) {
    return fmt::format("{:08x}", value);
}

bool has_port(const ask_ports& ports, std::uint32_t ifindex) {
    return std::ranges::find(ports.ifindex, ifindex) != std::end(ports.ifindex);
}

}  // namespace

Result<Controller::Ways> Controller::ways_of(const SwitchStore& store, std::uint32_t host) {
    const auto found = store.ways_to(host);
    ASK_PASS(found);
    if (found->size() > ASK_CHANNEL_PORTS) {
        return Error(Errc::kLimit, "the route to " + format_host(host) + " leads through " +
                                       std::to_string(found->size()) +
                                       " ports, of bonds the members too, and there may be at most " +
                                       std::to_string(ASK_CHANNEL_PORTS) + ": give it fewer next hops here");
    }
    Ways ways{.usual = found->front().name};
    std::ranges::transform(*found, std::begin(ways.ports.ifindex), &AttachedPort::ifindex);
    return ways;
}

// The paper's dedupe is exact only while a channel stays on one CPU, which several ports do not promise.
Result<> Controller::check_ports(const ask_ports& ports) const {
    if (store_.meta().dedupe != ASK_DEDUPE_COMPACT || ports.ifindex[1] == 0) {
        return {};
    }
    return Error(Errc::kUnsupported,
                 "its packets may come in by any of the ports " + port_names(attached(ports)) +
                     ", and dedupe = \"compact\" wants one: set it to \"tagged\" here, or give "
                     "the route to its host one next hop, by a port that is no bond");
}

std::string Controller::port_names(std::span<const AttachedPort> ports) {
    std::string names;
    for (const AttachedPort& port : ports) {
        names += (names.empty() ? "" : ", ") + port.name;
    }
    return names;
}

// Those of the set that are there.
std::vector<AttachedPort> Controller::attached(const ask_ports& ports) const {
    std::vector<AttachedPort> found;
    for (const std::uint32_t ifindex : ports.ifindex) {
        auto port = ifindex == 0 ? std::nullopt : store_.port(ifindex);
        // Of a bond's members each is the bond.
        if (port && std::ranges::find(found, port->ifindex, &AttachedPort::ifindex) == found.end()) {
            found.push_back(*std::move(port));
        }
    }
    return found;
}

Result<> Controller::write_channel(std::uint32_t index, const ChannelId& channel, std::uint32_t incarnation,
                                   const ask_ports& ports) const {
    static constexpr ask_dedupe_state kNothingSeen{};
    static constexpr ask_pkt_state kNothingLeft{};
    ask_channel entry{};
    entry.host = htonl(channel.host);
    entry.port = htons(channel.port);
    entry.incarnation = htonl(incarnation);
    entry.ports = ports;
    ASK_TRY(store_.dedupe().set(index, kNothingSeen), channel_name(channel));
    ASK_TRY(store_.pkt_state().set(index, kNothingLeft), channel_name(channel));
    ASK_TRY(store_.channels().set(index, entry), channel_name(channel));
    return {};
}

// In place of the one of that name that there may be.
Result<> Controller::replace_channel(std::uint32_t index, const ChannelId& channel, std::uint32_t incarnation,
                                     const ask_ports& ports) {
    ASK_PASS(write_channel(index, channel, incarnation, ports));
    ASK_TRY(enter_host(channel.host), channel_name(channel));
    auto replaced = drop_channel(channel);
    if (replaced.ok()) {
        replaced = store_.channel_ids().set(channel_key(channel), index);
    }
    if (!replaced.ok()) {
        leave_host(channel.host);
    }
    return replaced;
}

Result<Controller::Registration> Controller::register_channel(const Caller& caller, const ChannelId& channel,
                                                              std::uint32_t incarnation,
                                                              std::uint32_t replaces) {
    ASK_PASS(check_channel(channel, incarnation));
    ASK_PASS(check_own_channel(caller, channel));
    const auto ways = ways_of(store_, channel.host);
    ASK_TRY(ways, "register " + channel_name(channel));
    ASK_TRY(check_ports(ways->ports), "register " + channel_name(channel));

    Lock lock(mutex_);
    // Nothing: it may be done.
    const auto settled = [&]() -> Result<std::optional<Registration>> {
        const auto it = channels_.find(channel);
        const std::uint32_t current = it == channels_.end() ? 0 : it->second.incarnation;
        if (current != incarnation) {
            return current == replaces ? std::optional<Registration>() : Registration{ways->usual, current};
        }
        if (!has_port(it->second.ports, ways->ports.ifindex[0])) {
            return Error(Errc::kUnsupported, channel_name(channel) + " is now behind port " + ways->usual +
                                                 ", where it is not registered: take a new incarnation");
        }
        it->second.used = lease_now();
        return std::optional(Registration{ways->usual, current});
    };
    auto registered = settled();
    ASK_PASS(registered);
    if (*registered) {
        return **registered;
    }
    const Owner owner{caller.tenant, channel.host};
    const auto room = [&] {
        return channels_.contains(channel) ? Result<>() : check_room_for_channel(owner);
    };
    ASK_TRY(room(), "register " + channel_name(channel));
    if (!channel_pool_.has_free() && !channel_pool_.has_retired()) {
        evict_idle_channel();
    }
    const auto index = take(lock, channel_pool_);
    if (!index) {
        return Error(Errc::kLimit, "all " + std::to_string(channel_pool_.size()) +
                                       " channels of the switch are in use: raise its max_channels");
    }
    // take() may have let another request in.
    registered = settled();
    auto written = !registered.ok() || *registered ? Result<>() : room();
    if (written.ok() && registered.ok() && !*registered) {
        written = replace_channel(*index, channel, incarnation, ways->ports);
    }
    if (!registered.ok() || *registered || !written.ok()) {
        channel_pool_.put_back(*index);
        if (!written.ok()) {
            return std::move(written).error();
        }
        ASK_PASS(registered);
        return **registered;
    }
    add_channel(channel, {*index, incarnation, owner, ways->ports, lease_now()});
    spdlog::info("{} registered: incarnation {}, port {}", channel_name(channel), hex(incarnation),
                 ways->usual);
    return Registration{ways->usual, incarnation};
}

Result<> Controller::unregister_channel(const Caller& caller, const ChannelId& channel,
                                        std::uint32_t incarnation) {
    ASK_PASS(check_own_channel(caller, channel));
    const Guard lock(mutex_);
    const auto it = channels_.find(channel);
    if (it == channels_.end() || it->second.incarnation != incarnation) {
        return {};
    }
    ASK_PASS(drop_channel(channel));
    spdlog::info("{} unregistered", channel_name(channel));
    return {};
}

void Controller::follow_routes() {
    follow_channels();
    follow_fans();
}

// And groups' collectors.
void Controller::follow_channels() {
    std::map<std::uint32_t, std::optional<Ways>> hosts;
    {
        const Guard lock(mutex_);
        for (const auto& [id, channel] : channels_) {
            hosts.emplace(id.host, std::nullopt);
        }
        for (const auto& [instance, task] : tasks_) {
            if (task.group) {
                hosts.emplace(ntohl(task.group->collector), std::nullopt);
            }
        }
    }
    for (auto& [host, ways] : hosts) {
        // One that has lost its route stays behind the ports it was.
        if (auto found = ways_of(store_, host); found.ok()) {
            ways = *std::move(found);
        }
    }
    const Guard lock(mutex_);
    for (auto& [id, channel] : channels_) {
        const auto host = hosts.find(id.host);
        if (host == hosts.end() || !host->second || !check_ports(host->second->ports).ok()) {
            continue;
        }
        if (const auto moved = move_channel(id, channel, host->second->ports); !moved.ok()) {
            spdlog::error("{}", moved.error().text());
        }
    }
    for (auto& [instance, task] : tasks_) {
        const auto host = task.group ? hosts.find(ntohl(task.group->collector)) : hosts.end();
        if (host == hosts.end() || !host->second || task.state != Task::State::kOpen) {
            continue;
        }
        if (const auto moved = move_group(task, host->second->ports); !moved.ok()) {
            spdlog::error("{}", moved.error().text());
        }
    }
}

// A program that reads the entry meanwhile finds each port as it was or as it is: nothing else of it changes.
Result<> Controller::move_channel(const ChannelId& id, Channel& channel, const ask_ports& ports) const {
    if (std::ranges::equal(channel.ports.ifindex, ports.ifindex)) {
        return {};
    }
    auto entry = store_.channels().find(channel.index);
    ASK_TRY(entry, channel_name(id));
    if (!*entry) {
        return Error(Errc::kInternal, channel_name(id) + ": its entry is gone");
    }
    (*entry)->ports = ports;
    ASK_TRY(store_.channels().set(channel.index, **entry), channel_name(id));
    channel.ports = ports;
    spdlog::info("{}: its route has changed; now by {}", channel_name(id), port_names(attached(ports)));
    return {};
}

void Controller::add_channel(const ChannelId& id, Channel channel) {
    sram_.take(channel_bytes());
    quotas_.take(channel.owner, {.channels = 1, .sram_bytes = channel_bytes()});
    channels_[id] = std::move(channel);
}

// Of the SRAM that is free, and of what its owner may have.
Result<> Controller::check_room_for_channel(const Owner& owner) {
    if (limits_.allow_over_budget) {
        return quotas_.check(owner, {.channels = 1});
    }
    ASK_PASS(quotas_.check(owner, {.channels = 1, .sram_bytes = channel_bytes()}));
    if (sram_.left() < channel_bytes()) {
        evict_idle_channel();
    }
    return sram_.check_bytes("a channel", channel_bytes());
}

// The same of a flow of the task.
Result<> Controller::check_room_for_flow(const Task& task) {
    const std::uint64_t bytes = sram_of_flow(task.entry);
    if (limits_.allow_over_budget) {
        return quotas_.check(task.owner, {.flows = 1});
    }
    ASK_PASS(quotas_.check(task.owner, {.flows = 1, .sram_bytes = bytes}));
    return sram_.check_bytes("what packets of a flow carry", bytes);
}

void Controller::add_flow(const FlowKey& key, const Flow& flow) {
    Task& task = tasks_.at(key.first);
    sram_.take(flow.sram);
    quotas_.take(task.owner, {.flows = 1, .sram_bytes = flow.sram});
    task.flows_due -= std::min<std::uint64_t>(task.flows_due, 1);
    flows_[key] = flow;
}

// Nothing leads to the channel afterwards. Fine if it is not registered.
Result<> Controller::drop_channel(const ChannelId& channel) {
    const auto it = channels_.find(channel);
    if (it == channels_.end()) {
        return {};
    }
    ASK_TRY(cut_flows_of_channel(channel), channel_name(channel));
    ASK_TRY(store_.channel_ids().erase(channel_key(channel)), channel_name(channel));
    channel_pool_.retire(it->second.index);
    sram_.give_back(channel_bytes());
    quotas_.give_back(it->second.owner, {.channels = 1, .sram_bytes = channel_bytes()});
    garbage_.channels.push_back(it->second.index);
    leave_host(it->first.host);
    channels_.erase(it);
    work_.notify_all();
    return {};
}

Result<> Controller::drop_flow(const FlowKey& key) {
    const auto it = flows_.find(key);
    if (it->second.cut) {
        ASK_TRY(set_cut(it->second.index, false), channel_name(key.second));
    }
    ASK_TRY(store_.flow_ids().erase(flow_key(key.first, key.second)), channel_name(key.second));
    // Totals outlive their tasks. What a program that is under way still counts is lost to them.
    if (const auto counted = flow_stats(it->second.index); counted.ok()) {
        add(ended_, *counted);
    }
    flow_pool_.retire(it->second.index);
    sram_.give_back(it->second.sram);
    quotas_.give_back(tasks_.at(key.first).owner, {.flows = 1, .sram_bytes = it->second.sram});
    garbage_.flows.push_back(it->second.index);
    flows_.erase(it);
    if (const auto channel = channels_.find(key.second); channel != channels_.end()) {
        channel->second.used = lease_now();
    }
    work_.notify_all();
    return {};
}

// A sender gives its channel back once its FIN is acknowledged, and the channel may go, or be registered
// anew, while the task still runs: nothing leads to its flow any more, but what that counted is the task's,
// whose receiver asks for it before it commits.
Result<> Controller::cut_flows_of_channel(const ChannelId& channel) {
    for (auto& [key, flow] : flows_) {
        if (key.second == channel && !flow.cut) {
            ASK_PASS(set_cut(flow.index, true));
            ASK_PASS(store_.flow_ids().erase(flow_key(key.first, key.second)));
            flow.cut = true;
        }
    }
    return {};
}

// First, so that a successor tells it from one that was never joined.
Result<> Controller::set_cut(std::uint32_t index, bool cut) const {
    const auto entry = store_.flows().find(index);
    ASK_PASS(entry);
    if (!*entry) {
        return {};
    }
    ask_flow changed = **entry;
    changed.cut = cut ? 1 : 0;
    return store_.flows().set(index, changed);
}

// What a flow has counted is in its task's region, so it cannot be forgotten for another of the channel's.
Result<> Controller::check_has_not_sent(const FlowKey& key) const {
    const auto stats = flow_stats(flows_.at(key).index);
    ASK_PASS(stats);
    if (stats->packets_new == 0 && stats->packets_seen == 0 && stats->long_packets == 0) {
        return {};
    }
    return Error(Errc::kExists, channel_name(key.second) + " has sent in task " + tasks_.at(key.first).id +
                                    " under another incarnation: join with another channel");
}

Result<> Controller::drop_flows_of_task(std::uint64_t instance) {
    for (auto it = flows_.lower_bound({instance, {}}); it != flows_.end() && it->first.first == instance;
         it = flows_.lower_bound({instance, {}})) {
        ASK_PASS(drop_flow(FlowKey(it->first)));
    }
    return {};
}

std::set<ChannelId> Controller::busy_channels() const {
    std::set<ChannelId> busy;
    for (const auto& [key, flow] : flows_) {
        if (!flow.cut) {
            busy.insert(key.second);
        }
    }
    return busy;
}

// An agent that was killed has its channels under other incarnations when it begins again, and what they send
// for tasks that only pass this switch would be dropped here. One that lives is told at its next join and
// registers again. A group's are registered long before it is open: their agents register them over and over.
void Controller::drop_idle_channels() {
    const auto last = lease_now() - limits_.lease;
    std::vector<ChannelId> idle;
    for (const auto& [id, channel] : channels_) {
        if (channel.used <= last) {
            idle.push_back(id);
        }
    }
    const auto busy = idle.empty() ? std::set<ChannelId>() : busy_channels();
    for (const ChannelId& id : idle) {
        if (busy.contains(id)) {
            continue;
        }
        if (const auto dropped = drop_channel(id); !dropped.ok()) {
            spdlog::error("{}: cannot be given up: {}", channel_name(id), dropped.error().text());
        } else {
            spdlog::info("{} has had no task for {} s and is given up", channel_name(id),
                         limits_.lease.count());
        }
    }
}

// Hosts that went away for good leave channels behind; the one that no flow has used for longest makes room.
// Its host, should it still live, is told at its next join and registers again.
void Controller::evict_idle_channel() {
    const auto busy = busy_channels();
    const ChannelId* oldest = nullptr;
    LeaseClock::Time since = lease_now() - limits_.lease;
    for (const auto& [id, channel] : channels_) {
        if (channel.used < since && !busy.contains(id)) {
            oldest = &id;
            since = channel.used;
        }
    }
    if (oldest == nullptr) {
        return;
    }
    const ChannelId id = *oldest;
    if (const auto dropped = drop_channel(id); !dropped.ok()) {
        spdlog::error("{}: cannot make room: {}", channel_name(id), dropped.error().text());
    } else {
        spdlog::warn("{} had been idle for longest and made room for another: all {} were in use",
                     channel_name(id), channel_pool_.size());
    }
}

// Its nonce if it has joined under this key already; nothing: it may join. An error says why it may not.
Result<std::optional<std::uint64_t>> Controller::find_joined(const Caller& caller, std::uint64_t instance,
                                                             const ChannelId& channel,
                                                             std::uint32_t incarnation,
                                                             const ask_flow& wanted) const {
    const Task* const task = find_own(caller, instance);
    if (task == nullptr || task->state != Task::State::kOpen) {
        return Error(Errc::kUnknown,
                     "no task with instance " + std::to_string(instance) + " is open on this switch");
    }
    ASK_TRY(check_member(*task, wanted), "task " + task->id);
    const auto registered = channels_.find(channel);
    if (registered == channels_.end()) {
        return Error(Errc::kUnknown, channel_name(channel) + " is not registered on this switch");
    }
    if (registered->second.incarnation != incarnation) {
        return Error(Errc::kUnsupported, channel_name(channel) + " is registered with incarnation " +
                                             hex(registered->second.incarnation) + ", not " +
                                             hex(incarnation));
    }
    const auto flow = flows_.find({instance, channel});
    if (flow == flows_.end() || flow->second.cut) {
        return std::optional<std::uint64_t>();
    }
    const auto entry = store_.flows().find(flow->second.index);
    ASK_TRY(entry, channel_name(channel));
    if (*entry && (*entry)->member != wanted.member) {
        return Error(Errc::kExists, channel_name(channel) + " has joined task " + task->id + " as member " +
                                        std::to_string((*entry)->member));
    }
    if (!*entry || std::memcmp(&(*entry)->key, &wanted.key, sizeof(wanted.key)) != 0) {
        return Error(Errc::kExists,
                     channel_name(channel) + " has joined task " + task->id + " under another secret");
    }
    return std::optional(flow->second.nonce);
}

// What a flow of the task takes of a pipeline's SRAM.
std::uint64_t Controller::sram_of_flow(const ask_task& entry) {
    const Geometry geometry{entry.short_slots, entry.groups, entry.m, entry.rows};
    return entry.policy == ASK_POLICY_REPLACE ? carried_bytes(geometry) : 0;
}

// Room for the evicted tuples that a flow's packets carry, if its task replaces; returns its SRAM. Without
// the lock: the insertion waits for a grace period, and nobody else has this index.
Result<std::uint64_t> Controller::make_room_to_carry(Lock& lock, std::uint64_t instance, std::uint32_t flow) {
    const auto task = tasks_.find(instance);
    if (task == tasks_.end() || task->second.entry.policy != ASK_POLICY_REPLACE) {
        return std::uint64_t{0};
    }
    const ask_task entry = task->second.entry;
    lock.unlock();
    const auto make = [&]() -> Result<> {
        const auto map = store_.create_carried({entry.short_slots, entry.groups, entry.m, entry.rows});
        ASK_PASS(map);
        ask_flow taken{};
        taken.task_instance = entry.instance;
        ASK_PASS(store_.flows().set(flow, taken));
        return store_.carried().put(flow, **map);
    };
    auto made = make();
    lock.lock();
    ASK_TRY(made, "join");
    return sram_of_flow(entry);
}

// The flow of a channel and task that are there, in the maps and here.
Result<> Controller::write_flow(const FlowKey& key, const Flow& flow, ask_flow entry) {
    const Channel& registered = channels_.at(key.second);
    const auto ports = attached(registered.ports);
    const auto port = std::ranges::min_element(ports, {}, &AttachedPort::mtu);
    const Task& task = tasks_.at(key.first);
    const Geometry geometry{task.entry.short_slots, task.entry.groups, task.entry.m, task.entry.rows};
    const std::size_t needed = geometry.payload_bytes(geometry.rows) + packet_header_bytes(key.second.host);
    if (port != ports.end() && needed > port->mtu) {
        return Error(Errc::kUnsupported, "task " + task.id + ": packets of geometry " + to_string(geometry) +
                                             " need MTU " + std::to_string(needed) + ", port " + port->name +
                                             " has " + std::to_string(port->mtu) +
                                             ": use fewer rows, or raise it");
    }
    if (flows_.contains(key)) {
        // Cut: its sender tries again under another incarnation.
        ASK_PASS(task.group ? Result<>() : check_has_not_sent(key));
        ASK_PASS(drop_flow(key));
    }
    entry.task_instance = htobe64(key.first);
    entry.channel = registered.index;
    entry.task = task.index;
    entry.host = htonl(key.second.host);
    entry.port = htons(key.second.port);
    entry.incarnation = htonl(flow.incarnation);
    entry.nonce = flow.nonce;
    ASK_TRY(store_.flows().set(flow.index, entry), "join");
    ASK_TRY(store_.flow_stats().zero(flow.index), "join");
    ASK_TRY(store_.flow_ids().set(flow_key(key.first, key.second), flow.index), "join");
    add_flow(key, flow);
    return {};
}

Result<std::uint64_t> Controller::join_flow(const Caller& caller, std::uint64_t instance,
                                            const ChannelId& channel, std::uint32_t incarnation,
                                            const CheckSecret& secret, std::uint32_t member) {
    ask_flow entry{};
    entry.member = member;
    const __u64 words[] = {secret[0], secret[1]};
    ask_check_expand(static_cast<const __u64*>(words), &entry.key);
    Lock lock(mutex_);
    const auto joined = find_joined(caller, instance, channel, incarnation, entry);
    ASK_PASS(joined);
    if (*joined) {
        return **joined;
    }
    const auto room = [&] {
        return flows_.contains({instance, channel}) ? Result<>() : check_room_for_flow(tasks_.at(instance));
    };
    ASK_TRY(room(), "join task " + tasks_.at(instance).id);
    const auto index = take(lock, flow_pool_);
    if (!index) {
        return Error(Errc::kLimit, "all " + std::to_string(flow_pool_.size()) +
                                       " flows of the switch are in use: raise its max_flows");
    }
    const std::uint64_t nonce = random_u64();
    const auto join = [&]() -> Result<std::uint64_t> {
        const auto carried = make_room_to_carry(lock, instance, *index);
        ASK_PASS(carried);
        // take() and the line above may have let another request in.
        const auto again = find_joined(caller, instance, channel, incarnation, entry);
        ASK_TRY(again, "join");
        if (*again) {
            return **again;
        }
        ASK_TRY(room(), "join");
        ASK_PASS(write_flow({instance, channel},
                            {.index = *index, .sram = *carried, .incarnation = incarnation, .nonce = nonce},
                            entry));
        return nonce;
    };
    auto fresh = join();
    if (!fresh.ok() || *fresh != nonce) {
        // Through the reclaimer, which takes back the room as well.
        flow_pool_.retire(*index);
        garbage_.flows.push_back(*index);
        work_.notify_all();
        return fresh;
    }
    tasks_.at(instance).expires = lease_now() + limits_.lease;
    channels_.at(channel).used = lease_now();
    const LogAbout about = LogAbout::task(tasks_.at(instance).id);
    spdlog::info("task {}: {} joined", tasks_.at(instance).id, channel_name(channel));
    return nonce;
}

}  // namespace ask
