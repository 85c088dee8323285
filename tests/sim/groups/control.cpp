// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/groups/control.h"

#include <algorithm>
#include <bit>

#include "lib/abi/check.h"

namespace ask::sim::groups {

namespace {

ask_flow_id flow_id(const Group& group, std::uint32_t rank) {
    ask_flow_id id{};
    id.task = __builtin_bswap64(group.terms.instance);
    if (rank < group.terms.size()) {
        const ChannelId& channel = group.terms.seats[rank].channel;
        id.host = __builtin_bswap32(channel.host);
        id.port = __builtin_bswap16(channel.port);
    }
    return id;
}

}  // namespace

Control::Control(World& world, Network& network, std::vector<std::unique_ptr<Switch>>& switches)
    : world_(world),
      network_(network),
      switches_(switches),
      tasks_(world.plan.jobs, kNone),
      groups_(world.plan.jobs, nullptr),
      taken_(world.plan.tasks, false) {}

std::uint32_t Control::last_switch(const Group& group) const {
    return network_.switch_of(group.root_host());
}

// The last level's first.
std::vector<std::uint32_t> Control::switches_of(const Group& group) const {
    std::vector<std::uint32_t> all{last_switch(group)};
    for (std::uint32_t number = 0; number < switches_.size() && world_.plan.levels == 2; ++number) {
        if (number != all[0] && below(group, number) != 0) {
            all.push_back(number);
        }
    }
    return all;
}

// Members behind this switch's own ports.
std::uint64_t Control::below(const Group& group, std::uint32_t number) const {
    std::uint64_t bits = 0;
    for (std::uint32_t rank = 0; rank < group.hosts.size(); ++rank) {
        bits |= std::uint64_t{network_.switch_of(group.hosts[rank]) == number} << rank;
    }
    return bits;
}

// A copy knows the port that it leaves by and nothing else: each member has one of its own, or a switch of
// its own has the group.
bool Control::has_fan(const Group& group) const {
    return world_.plan.fan > 0 &&
           (world_.plan.levels == 2 || below(group, last_switch(group)) == group.terms.all());
}

std::vector<std::uint32_t> Control::fan_of(const Group& group, std::uint32_t number) const {
    std::vector<std::uint32_t> ports;
    for (std::uint32_t rank = 0; rank < group.hosts.size(); ++rank) {
        if (network_.switch_of(group.hosts[rank]) == number) {
            ports.push_back(port_to_host(group.hosts[rank]));
        }
    }
    for (const std::uint32_t other : switches_of(group)) {
        if (number == last_switch(group) && other != number) {
            ports.push_back(port_to_switch(other));
        }
    }
    return ports;
}

void Control::write_channels(const Group& group, std::uint32_t number) {
    for (std::uint32_t rank = 0; rank < group.hosts.size(); ++rank) {
        const values::Seat& seat = group.terms.seats[rank];
        ask_channel channel{};
        channel.host = __builtin_bswap32(seat.channel.host);
        channel.port = __builtin_bswap16(seat.channel.port);
        channel.incarnation = __builtin_bswap32(seat.incarnation);
        channel.ports.ifindex[0] = network_.port_to(number, group.hosts[rank]);
        switches_[number]->set_channel(group.number * world_.plan.hosts + group.hosts[rank], channel);
    }
}

// Of a member, or behind them the one of results.
void Control::write_flow(const Group& group, std::uint32_t number, std::uint32_t rank) {
    const std::uint32_t task = tasks_[group.number];
    const bool results = rank == group.terms.size();
    ask_flow flow{};
    flow.task_instance = __builtin_bswap64(group.terms.instance);
    flow.channel = results ? ASK_NO_CHANNEL : group.number * world_.plan.hosts + group.hosts[rank];
    flow.task = task;
    flow.member = results ? 0 : rank;
    const __u64 words[2] = {group.terms.secret[0], group.terms.secret[1]};
    ask_check_expand(static_cast<const __u64*>(words), &flow.key);
    switches_[number]->set_flow(task * (ASK_MAX_MEMBERS + 1) + rank, flow_id(group, rank), flow);
}

void Control::write_group(const Group& group, std::uint32_t number) {
    Switch& at = *switches_[number];
    const std::uint32_t task = tasks_[group.number];
    const bool last = number == last_switch(group);
    ask_group entry{};
    entry.instance = __builtin_bswap64(group.terms.instance);
    entry.all = group.terms.all();
    entry.want = last ? entry.all : below(group, number);
    entry.local = world_.plan.levels == 1 ? entry.all : below(group, number);
    entry.above.ifindex[0] = network_.port_to(number, group.root_host());
    entry.collector = __builtin_bswap32(group.terms.collector());
    entry.fan = task;
    entry.window = group.terms.window;
    entry.pool_slots = world_.plan.pool;
    entry.has_fan = has_fan(group) ? 1 : 0;
    entry.last_level = last ? 1 : 0;
    entry.direct = entry.has_fan != 0 && world_.plan.fan == 2 ? 1 : 0;
    at.set_fan(task, fan_of(group, number));
    for (const std::uint32_t host : group.hosts) {
        at.set_fan_member(port_to_host(host), host);
    }
    for (std::uint32_t other = 0; other < std::min(world_.plan.switches, world_.plan.hosts); ++other) {
        at.set_fan_member(port_to_switch(other), other);  // any host behind it
    }
    ask_task entry_of_task{};
    entry_of_task.instance = entry.instance;
    entry_of_task.sets = 1;
    entry_of_task.service = ASK_SERVICE_VALUES;
    entry_of_task.receiver = entry.collector;
    at.set_task(task, entry_of_task);
    at.group(task) = entry;
    write_flow(group, number, group.terms.size());
}

void Control::open(Group& group) {
    const auto free = std::ranges::find(taken_, false);
    if (free == taken_.end()) {
        world_.later(200 * kMicrosecond, [this, &group] { open(group); });
        return;
    }
    *free = true;
    groups_[group.number] = &group;
    tasks_[group.number] = static_cast<std::uint32_t>(free - taken_.begin());
    group.terms.fan_out = has_fan(group);
    world_.note("%s is opened: task %u, members of %u, root %u", group.name().c_str(), tasks_[group.number],
                group.terms.size(), group.terms.root);
    // Channels may be registered where their group is not open.
    for (std::uint32_t number = 0; number < switches_.size(); ++number) {
        if (world_.control.below(2) == 0) {
            write_channels(group, number);
        }
    }
    for (const std::uint32_t number : switches_of(group)) {
        write_channels(group, number);
        write_group(group, number);
        for (std::uint32_t rank = 0; rank < group.terms.size(); ++rank) {
            write_flow(group, number, rank);
        }
    }
    opened(group);
}

// Nothing leads to it any more, and its task is another's once no run may still know it.
void Control::close(Group& group) {
    const std::uint32_t task = tasks_[group.number];
    world_.note("%s is closed", group.name().c_str());
    tasks_[group.number] = kNone;
    const auto at = switches_of(group);
    auto left = std::make_shared<std::size_t>(at.size());
    for (const std::uint32_t number : at) {
        switches_[number]->group(task).instance = 0;
        for (std::uint32_t rank = 0; rank <= group.terms.size(); ++rank) {
            switches_[number]->erase_flow(flow_id(group, rank));
        }
        switches_[number]->when_quiet([this, left, number, task] {
            switches_[number]->group(task) = {};
            switches_[number]->set_task(task, {});
            if (--*left == 0) {
                taken_[task] = false;
            }
        });
    }
}

// Somebody notices, and then each group is opened again under its instance: channels, group, members' flows.
void Control::replace_maps(std::uint32_t number) {
    switches_[number]->replace_maps();
    for (Group* group : groups_) {
        const auto at = group == nullptr ? std::vector<std::uint32_t>{} : switches_of(*group);
        if (group == nullptr || !is_open(*group) || std::ranges::find(at, number) == at.end()) {
            continue;
        }
        world_.later(world_.any_time(20 * kMillisecond), [this, group, number] {
            if (is_open(*group)) {
                if (number == last_switch(*group)) {
                    set_fan_out(*group, false);
                }
                world_.later(world_.any_time(20 * kMillisecond),
                             [this, group, number] { open_again(*group, number); });
            }
        });
    }
}

void Control::open_again(Group& group, std::uint32_t number) {
    if (!is_open(group) || has_group(group, number)) {
        return;
    }
    world_.note("%s is opened again at switch %u", group.name().c_str(), number);
    write_channels(group, number);
    write_group(group, number);
    for (std::uint32_t rank = 0; rank < group.terms.size(); ++rank) {
        world_.later(world_.any_time(2 * kMillisecond), [this, &group, number, rank] {
            // Gone again: who opens it then adds the flows, too.
            if (is_open(group) && has_group(group, number)) {
                write_flow(group, number, rank);
            }
        });
    }
    if (number == last_switch(group)) {
        set_fan_out(group, has_fan(group));
    }
}

bool Control::has_group(const Group& group, std::uint32_t number) const {
    return switches_[number]->group(tasks_[group.number]).instance == __builtin_bswap64(group.terms.instance);
}

}  // namespace ask::sim::groups
