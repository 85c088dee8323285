// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/groups/switch.h"

#include <linux/bpf.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace ask::sim::groups {

namespace {

constexpr std::uint32_t kMostAccesses = 200;  // of a run

}  // namespace

Switch::Switch(World& world, Network& network, std::uint32_t number)
    : Processors(world, network, number, CpuPlan::of(world.plan, kMostAccesses)),
      world_(world),
      maps_(make_maps()),
      fans_(world.plan.tasks) {
    use(maps_->plane);
}

Switch::~Switch() {
    for (Cpu& cpu : cpus()) {
        run_out(cpu);
    }
}

std::unique_ptr<Switch::Maps> Switch::make_maps() const {
    const Plan& plan = world_.plan;
    auto maps = std::make_unique<Maps>();
    const std::uint32_t channels = plan.jobs * plan.hosts;
    const std::uint32_t flows = plan.tasks * (ASK_MAX_MEMBERS + 1);
    maps->channel_ids.resize(std::bit_ceil(4 * channels));
    maps->flow_ids.resize(std::bit_ceil(4 * plan.jobs * (plan.members + 1)));
    maps->channels.resize(channels);
    maps->flows.resize(flows);
    maps->flow_stats.resize(std::size_t{flows} * plan.cpus);
    maps->tasks.resize(plan.tasks);
    maps->buckets.resize(plan.tasks + 1);
    maps->presence.resize(plan.cpus);
    maps->counters.resize(std::size_t{ASK_CNT_COUNT} * plan.cpus);
    maps->none.resize(std::max(flows, plan.tasks));
    maps->groups.resize(plan.tasks);
    maps->slots.resize(std::max(1U, plan.pool));
    maps->fan_members.resize(kPorts);
    sim_plane& plane = maps->plane;
    plane.memory = ASK_MEMORY_SHARED;
    plane.dedupe_way = ASK_DEDUPE_TAGGED;
    plane.switch_id = number_ + 1;
    plane.mark_incarnation = 1;
    plane.cpus = plan.cpus;
    plane.max_channels = channels;
    plane.max_flows = flows;
    plane.max_tasks = plan.tasks;
    plane.channel_ids = {maps->channel_ids.data(), static_cast<std::uint32_t>(maps->channel_ids.size() - 1)};
    plane.flow_ids = {maps->flow_ids.data(), static_cast<std::uint32_t>(maps->flow_ids.size() - 1)};
    maps->hosts.resize(std::bit_ceil(4 * plan.hosts));
    plane.hosts = {maps->hosts.data(), static_cast<std::uint32_t>(maps->hosts.size() - 1)};
    for (std::uint32_t host = 0; host < plan.hosts && is_six(); ++host) {
        sim_ids_set(&plane.hosts, six_address(host).data(), sizeof(Ipv6Address),
                    __builtin_bswap32(address_of(host)));
    }
    plane.channels = maps->channels.data();
    plane.flows = maps->flows.data();
    plane.flow_stats = maps->flow_stats.data();
    plane.tasks = maps->tasks.data();
    plane.buckets = maps->buckets.data();
    plane.presence = maps->presence.data();
    plane.counters = maps->counters.data();
    plane.regions = plane.heats = plane.carried = maps->none.data();
    plane.groups = maps->groups.data();
    plane.value_slots = maps->slots.data();
    plane.fan_members = maps->fan_members.data();
    plane.max_value_slots = static_cast<std::uint32_t>(maps->slots.size());
    plane.max_fan_members = kPorts;
    return maps;
}

void Switch::replace_maps() {
    world_.note("switch %u: its maps are replaced", number_);
    for (Cpu& cpu : cpus()) {
        if (run_out(cpu)) {
            finish(cpu);
        }
    }
    for (unsigned which = 0; which < ASK_CNT_COUNT; ++which) {
        counted_[which] = counter(which);
    }
    maps_ = make_maps();
    use(maps_->plane);
}

void Switch::set_channel(std::uint32_t at, const ask_channel& channel) {
    maps_->channels[at] = channel;
    const ask_channel_id id{.host = channel.host, .port = channel.port, .pad = 0};
    sim_ids_set(&maps_->plane.channel_ids, &id, sizeof(id), at);
}

void Switch::set_flow(std::uint32_t at, const ask_flow_id& id, const ask_flow& flow) {
    maps_->flows[at] = flow;
    sim_ids_set(&maps_->plane.flow_ids, &id, sizeof(id), at);
}

void Switch::erase_flow(const ask_flow_id& id) {
    sim_ids_erase(&maps_->plane.flow_ids, &id, sizeof(id));
}

void Switch::set_fan_member(std::uint32_t port, std::uint32_t host) {
    ask_fan_member& member = maps_->fan_members[port];
    std::ranges::copy(mac_of_host(host), std::begin(member.mac));
    std::ranges::copy(mac_of_switch(number_), std::begin(member.port_mac));
    member.address = __builtin_bswap32(address_of(host));
    if (is_six()) {
        const Ipv6Address address = six_address(host);
        std::memcpy(&member.six, address.data(), sizeof(member.six));
    }
}

void Switch::fire(std::uint64_t event) {
    Cpu& cpu = cpu_of(event);
    if (cpu.frame) {
        // Of a run that ended with its maps, and before the next one's turn: nothing is to be done.
        if (is_current(event)) {
            go_on(cpu);
        }
    } else if (!cpu.queue.empty()) {
        start(cpu);
    }
}

std::string Switch::text_of(const Frame& frame) const {
    return groups::text_of(frame);
}

void Switch::ended() {
    if (world_.chance.ppm(world_.plan.wipe)) {
        disturb();
    }
}

void Switch::leave(Cpu& cpu, FramePtr frame) {
    if (cpu.action == XDP_REDIRECT && cpu.state.redirected == SIM_FAN_OUT) {
        fan_out(cpu, std::move(frame));
    } else {
        Processors::leave(cpu, std::move(frame));
    }
}

// As the kernel's broadcast to a device map, with the program that stands behind each of its ports.
void Switch::fan_out(Cpu& cpu, FramePtr frame) {
    for (const std::uint32_t port : fans_[cpu.state.fan]) {
        if (cpu.state.but_ingress != 0 && port == cpu.port) {
            continue;
        }
        FramePtr copy = links_.copy(*frame);
        if (sim_run_copy(&cpu.state, copy->bytes.data(), &copy->size, port) == XDP_PASS) {
            links_.send_from_switch(number_, port, std::move(copy));
        } else {
            links_.recycle(std::move(copy));
        }
    }
    links_.recycle(std::move(frame));
}

// That of the frame's chunk, as far as its header says: another's is as good.
void Switch::left(const Frame& frame) {
    ask_hdr hdr;
    if (world_.plan.pool == 0 || frame.size < header_bytes() + sizeof(hdr)) {
        return;
    }
    std::memcpy(&hdr, &frame.bytes[header_bytes()], sizeof(hdr));
    const ask_value_slot& slot = maps_->slots[ask_value_place(hdr.task, ask_values_stream(&hdr),
                                                              __builtin_bswap64(hdr.seq), world_.plan.pool)];
    if (slot.own == ASK_SLOT_FREE && slot.phase != ASK_SLOT_EMPTY) {
        if (const std::string what = judge(slot); !what.empty()) {
            world_.fail(Promise::kFold, "a slot of switch " + std::to_string(number_) + ": " + what);
        }
    }
}

// What a daemon may do to slots at any time: as their owner it empties one, some or all, or holds one for a
// while.
void Switch::disturb() {
    auto& slots = maps_->slots;
    const std::uint64_t how = world_.chance.below(4);
    const std::uint64_t first = world_.chance.below(slots.size());
    const std::uint64_t count = how < 2 ? 1 : world_.chance.between(1, slots.size());
    for (std::uint64_t i = 0; i < count; ++i) {
        ask_value_slot& slot = slots[(first + i) % slots.size()];
        if (slot.own != ASK_SLOT_FREE) {
            continue;
        }
        if (how == 0) {
            hold(slot);
        } else {
            slot.phase = ASK_SLOT_EMPTY;
        }
    }
    world_.note("switch %u: %s %llu slots from %llu on", number_, how == 0 ? "a daemon holds" : "emptied",
                static_cast<unsigned long long>(count), static_cast<unsigned long long>(first));
}

void Switch::hold(ask_value_slot& slot) {
    slot.own = ASK_SLOT_DAEMON;
    world_.later(static_cast<Nanos>(1 + world_.chance.below(500)) * kMicrosecond,
                 [this, life = this->life(), at = &slot] {
                     if (life == this->life()) {
                         at->phase = ASK_SLOT_EMPTY;
                         at->own = ASK_SLOT_FREE;
                     }
                 });
}

void Switch::when_quiet(std::function<void()> then) {
    const auto look = [this, runs = under_way(), then = std::move(then)](const auto& again) -> void {
        for (std::size_t i = 0; i < runs.size(); ++i) {
            if (still_runs(runs, i)) {
                world_.later(50 * kMicrosecond, [again] { again(again); });
                return;
            }
        }
        then();
    };
    look(look);
}

std::uint64_t Switch::counter(unsigned which) const {
    std::uint64_t sum = counted_[which];
    for (std::size_t cpu = 0; cpu < world_.plan.cpus; ++cpu) {
        sum += maps_->counters[cpu * ASK_CNT_COUNT + which];
    }
    return sum;
}

void Switch::check_counters() {
    std::array<std::uint64_t, ASK_CNT_COUNT> counted{};
    for (unsigned which = 0; which < ASK_CNT_COUNT; ++which) {
        counted[which] = counter(which);
    }
    if (std::string what = judge_counters(counted); !what.empty()) {
        world_.fail(Promise::kCount, std::move(what));
    }
}

}  // namespace ask::sim::groups
