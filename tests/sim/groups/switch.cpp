// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/groups/switch.h"

#include <linux/bpf.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

namespace ask::sim::groups {

namespace {

constexpr Nanos kRun = 1 * kMicrosecond;
constexpr std::size_t kRing = 256;  // as a veth's

// The program calls back with nothing but its CPU.
struct Running {
    Fiber* fiber = nullptr;
    World* world = nullptr;
    const Network* network = nullptr;
    std::uint32_t number = 0;
};
Running running;

constexpr std::string_view kCounterNames[] = {
#define ASK_COUNTER(name, class, text) #name,
#include "lib/abi/counters.def"
#undef ASK_COUNTER
};
constexpr std::string_view kCounterClasses[] = {
#define ASK_COUNTER(name, class_, text) #class_,
#include "lib/abi/counters.def"
#undef ASK_COUNTER
};

const char* action_name(int action) {
    constexpr const char* kNames[] = {"abort", "drop", "pass", "reflect", "redirect"};
    return action >= 0 && action < 5 ? kNames[action] : "?";
}

int find_route(const Network& network, std::uint32_t number, std::uint32_t daddr_be, sim_hop& hop) {
    const std::uint32_t host = host_of(__builtin_bswap32(daddr_be));
    if (host >= network.hosts()) {
        return 0;
    }
    hop.ifindex = network.port_to(number, host);
    const auto dmac = mac_of(host + 1);
    const auto smac = mac_of(1'000'000 + number);
    std::ranges::copy(dmac, std::begin(hop.dmac));
    std::ranges::copy(smac, std::begin(hop.smac));
    return 1;
}

}  // namespace

}  // namespace ask::sim::groups

extern "C" void sim_suspend(sim_cpu* cpu, const char* what) {
    using ask::sim::groups::running;
    running.world->note("switch %u cpu %u: suspended before %s", running.number, cpu->number, what);
    running.fiber->suspend();
}

extern "C" __u64 sim_clock() {
    return static_cast<__u64>(ask::sim::groups::running.world->clock.now());
}

extern "C" int sim_route(const sim_plane* plane, __u32 daddr_be, sim_hop* hop) {
    using ask::sim::groups::running;
    (void)plane;
    return ask::sim::groups::find_route(*running.network, running.number, daddr_be, *hop);
}

namespace ask::sim::groups {

Switch::Switch(World& world, Network& network, std::uint32_t number)
    : world_(world),
      network_(network),
      number_(number),
      cpus_(world.plan.cpus),
      maps_(make_maps()),
      fans_(world.plan.tasks) {
    use_maps();
}

Switch::~Switch() {
    for (Cpu& cpu : cpus_) {
        if (cpu.fiber) {
            if (!cpu.fiber->done()) {
                cpu.state.countdown = 0;
                sim_switch_to(&cpu.state);
                running = {cpu.fiber.get(), &world_, &network_, number_};
                cpu.fiber->resume();
            }
            Fiber::give_back(std::move(cpu.fiber));
        }
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

void Switch::use_maps() {
    for (std::uint32_t i = 0; i < cpus_.size(); ++i) {
        cpus_[i].state.plane = &maps_->plane;
        cpus_[i].state.number = i;
        cpus_[i].back_vector.resize(sim_back_vector_bytes() / sizeof(__u64));
        cpus_[i].state.back_vector = cpus_[i].back_vector.data();
    }
    ++lives_;
}

void Switch::replace_maps() {
    world_.note("switch %u: its maps are replaced", number_);
    for (Cpu& cpu : cpus_) {
        if (cpu.frame && cpu.fiber && !cpu.fiber->done()) {
            cpu.state.countdown = 0;
            sim_switch_to(&cpu.state);
            running = {cpu.fiber.get(), &world_, &network_, number_};
            cpu.fiber->resume();
            finish(cpu);
        }
    }
    for (unsigned which = 0; which < ASK_CNT_COUNT; ++which) {
        counted_[which] = counter(which);
    }
    maps_ = make_maps();
    use_maps();
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
    const auto mac = mac_of(host + 1);
    const auto port_mac = mac_of(1'000'000 + number_);
    std::ranges::copy(mac, std::begin(member.mac));
    std::ranges::copy(port_mac, std::begin(member.port_mac));
    member.address = __builtin_bswap32(address_of(host));
}

std::uint32_t Switch::pick_cpu(const Frame& frame) {
    if (world_.plan.steering != 0) {
        return static_cast<std::uint32_t>(world_.chance.below(cpus_.size()));
    }
    // By source address and port, which name the channel.
    std::uint32_t host = 0;
    std::uint16_t port = 0;
    if (frame.size >= kFrameHeaderBytes) {
        std::memcpy(&host, &frame.bytes[kEthernetBytes + 12], sizeof(host));
        std::memcpy(&port, &frame.bytes[kEthernetBytes + kIpv4Bytes], sizeof(port));
    }
    return static_cast<std::uint32_t>(mix(std::uint64_t{host} << 16U | port) % cpus_.size());
}

void Switch::receive(FramePtr frame, std::uint32_t port) {
    Cpu& cpu = cpus_[pick_cpu(*frame)];
    if (cpu.queue.size() >= kRing) {
        network_.recycle(std::move(frame));
        return;
    }
    cpu.queue.emplace_back(std::move(frame), port);
    if (!cpu.busy) {
        cpu.busy = true;
        world_.clock.in(kRun, this, lives_ << 32U | cpu.state.number);
    }
}

// How many accesses a run makes until it is suspended: geometric, drawn at once.
std::uint32_t Switch::draw_countdown() {
    const std::uint32_t rate = world_.plan.pause;
    std::uint32_t n = 1;
    while (n < 200 && !world_.chance.ppm(rate)) {
        ++n;
    }
    return rate == 0 || n == 200 ? 0 : n;
}

void Switch::fire(std::uint64_t argument) {
    Cpu& cpu = cpus_[argument & 0xffffffffU];
    if (cpu.frame) {
        // Of a run that ended with its maps, and before the next one's turn: nothing is to be done.
        if (argument >> 32U == lives_) {
            go_on(cpu);
        }
    } else if (!cpu.queue.empty()) {
        start(cpu);
    }
}

void Switch::start(Cpu& cpu) {
    cpu.frame = std::move(cpu.queue.front().first);
    cpu.port = cpu.queue.front().second;
    cpu.queue.pop_front();
    cpu.size = cpu.frame->size;
    cpu.state.redirected = 0;
    cpu.state.countdown = draw_countdown();
    ++cpu.runs;
    if (world_.tracing) {
        std::copy_n(&maps_->counters[cpu.state.number * ASK_CNT_COUNT], ASK_CNT_COUNT, cpu.counted.begin());
    }
    if (cpu.state.countdown == 0) {
        // Nothing will suspend it: no stack of its own. It asks for the time all the same.
        running = {nullptr, &world_, &network_, number_};
        cpu.action = sim_run(&cpu.state, cpu.frame->bytes.data(), &cpu.size, cpu.port);
        finish(cpu);
        return;
    }
    if (!cpu.fiber) {
        cpu.fiber = Fiber::take_idle();
    }
    running = {cpu.fiber.get(), &world_, &network_, number_};
    cpu.fiber->start(
        [&cpu] { cpu.action = sim_run(&cpu.state, cpu.frame->bytes.data(), &cpu.size, cpu.port); });
    suspended(cpu);
}

void Switch::go_on(Cpu& cpu) {
    cpu.state.countdown = draw_countdown();
    sim_switch_to(&cpu.state);
    running = {cpu.fiber.get(), &world_, &network_, number_};
    cpu.fiber->resume();
    suspended(cpu);
}

void Switch::suspended(Cpu& cpu) {
    if (cpu.fiber->done()) {
        finish(cpu);
        return;
    }
    const std::uint64_t most = world_.chance.below(8) == 0 ? world_.plan.stall : 2;
    world_.clock.in(static_cast<Nanos>(1 + world_.chance.below(most * kMicrosecond)), this,
                    lives_ << 32U | cpu.state.number);
}

void Switch::finish(Cpu& cpu) {
    FramePtr frame = std::move(cpu.frame);
    frame->size = cpu.size;
    if (world_.tracing) {
        world_.note("switch %u cpu %u: %s as %s: %s", number_, cpu.state.number, action_name(cpu.action),
                    reason_of(cpu).c_str(), text_of(*frame).c_str());
    }
    look_at_slot(*frame);
    leave(cpu, std::move(frame));
    if (world_.chance.ppm(world_.plan.wipe)) {
        disturb();
    }
    cpu.busy = !cpu.queue.empty();
    if (cpu.busy) {
        world_.clock.in(kRun, this, lives_ << 32U | cpu.state.number);
    }
}

std::string Switch::reason_of(const Cpu& cpu) const {
    std::string names;
    for (unsigned which = 0; which < ASK_CNT_COUNT; ++which) {
        if (maps_->counters[cpu.state.number * ASK_CNT_COUNT + which] != cpu.counted[which]) {
            names += (names.empty() ? "" : " and ") + std::string(kCounterNames[which]);
        }
    }
    return names;
}

void Switch::leave(Cpu& cpu, FramePtr frame) {
    switch (cpu.action) {
        case XDP_TX:
            network_.send_from_switch(number_, cpu.port, std::move(frame));
            break;
        case XDP_REDIRECT:
            if (cpu.state.redirected == SIM_FAN_OUT) {
                fan_out(cpu, std::move(frame));
            } else {
                network_.send_from_switch(number_, cpu.state.redirected, std::move(frame));
            }
            break;
        case XDP_PASS:
            route_up(std::move(frame));
            break;
        default:
            network_.recycle(std::move(frame));
            break;
    }
}

// As the kernel's broadcast to a device map, with the program that stands behind each of its ports.
void Switch::fan_out(Cpu& cpu, FramePtr frame) {
    for (const std::uint32_t port : fans_[cpu.state.fan]) {
        if (cpu.state.but_ingress != 0 && port == cpu.port) {
            continue;
        }
        FramePtr copy = network_.copy(*frame);
        if (sim_run_copy(&cpu.state, copy->bytes.data(), &copy->size, port) == XDP_PASS) {
            network_.send_from_switch(number_, port, std::move(copy));
        } else {
            network_.recycle(std::move(copy));
        }
    }
    network_.recycle(std::move(frame));
}

// The stack of a box that routes and filters nothing.
void Switch::route_up(FramePtr frame) {
    std::uint32_t dest = 0;
    sim_hop hop{};
    if (frame->size >= kFrameHeaderBytes) {
        std::memcpy(&dest, &frame->bytes[kEthernetBytes + 16], sizeof(dest));
    }
    if (dest == 0 || find_route(network_, number_, dest, hop) == 0) {
        network_.recycle(std::move(frame));
        return;
    }
    network_.send_from_switch(number_, hop.ifindex, std::move(frame));
}

// That of the frame's chunk, as far as its header says: another's is as good.
void Switch::look_at_slot(const Frame& frame) {
    ask_hdr hdr;
    if (world_.plan.pool == 0 || frame.size < kFrameHeaderBytes + sizeof(hdr)) {
        return;
    }
    std::memcpy(&hdr, &frame.bytes[kFrameHeaderBytes], sizeof(hdr));
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
                 [this, life = lives_, at = &slot] {
                     if (life == lives_) {
                         at->phase = ASK_SLOT_EMPTY;
                         at->own = ASK_SLOT_FREE;
                     }
                 });
}

void Switch::when_quiet(std::function<void()> then) {
    std::vector<std::uint64_t> runs;
    runs.reserve(cpus_.size());
    for (const Cpu& cpu : cpus_) {
        runs.push_back(cpu.frame ? cpu.runs : 0);
    }
    const auto look = [this, runs, then = std::move(then)](const auto& again) -> void {
        for (std::size_t i = 0; i < cpus_.size(); ++i) {
            if (runs[i] != 0 && cpus_[i].frame && cpus_[i].runs == runs[i]) {
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
    for (std::size_t cpu = 0; cpu < cpus_.size(); ++cpu) {
        sum += maps_->counters[cpu * ASK_CNT_COUNT + which];
    }
    return sum;
}

void Switch::check_counters() {
    std::uint64_t runs = 0;
    std::uint64_t counted = 0;
    for (const Cpu& cpu : cpus_) {
        runs += cpu.runs - (cpu.frame ? 1 : 0);
    }
    for (unsigned which = 0; which < ASK_CNT_COUNT; ++which) {
        const std::uint64_t value = counter(which);
        counted += value;
        if (value > 0 && kCounterClasses[which] == "never") {
            world_.fail(Promise::kCount, "switch " + std::to_string(number_) + ": counter " +
                                             std::string(kCounterNames[which]) + " must be zero");
        }
    }
    // A run that is suspended may have been counted already.
    if (counted < runs || counted > runs + cpus_.size()) {
        world_.fail(Promise::kCount, "switch " + std::to_string(number_) + ": " + std::to_string(runs) +
                                         " packets, " + std::to_string(counted) + " counted");
    }
}

}  // namespace ask::sim::groups
