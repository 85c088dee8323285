// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/data_plane.h"

#include <linux/bpf.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "lib/abi/map_types.h"

namespace ask::sim {

namespace {

constexpr Nanos kRun = 1 * kMicrosecond;
constexpr std::size_t kRing = 256;  // as a veth's

// The program calls back with nothing but its CPU.
struct Running {
    Fiber* fiber = nullptr;
    World* world = nullptr;
    Network* network = nullptr;
    std::uint32_t number = 0;
};
std::unordered_map<const sim_plane*, std::pair<const Network*, std::uint32_t>>& routers() {
    static std::unordered_map<const sim_plane*, std::pair<const Network*, std::uint32_t>> all;
    return all;
}
Running running;

const char* action_name(int action) {
    constexpr const char* kNames[] = {"abort", "drop", "pass", "reflect", "redirect"};
    return action >= 0 && action < 5 ? kNames[action] : "?";
}

const char* counter_name(unsigned counter) {
    constexpr const char* kNames[] = {
#define ASK_COUNTER(name, class, text) #name,
#include "lib/abi/counters.def"
#undef ASK_COUNTER
    };
    return kNames[counter];
}

}  // namespace

}  // namespace ask::sim

extern "C" void sim_suspend(sim_cpu* cpu, const char* what) {
    using namespace ask::sim;
    if (running.world->tracing) {
        running.world->note("switch %u cpu %u: suspended before %s", running.number, cpu->number, what);
    }
    running.fiber->suspend();
}

extern "C" __u64 sim_clock() {
    return static_cast<__u64>(ask::sim::running.world->clock.now());
}

extern "C" int sim_route(const sim_plane* plane, __u32 daddr_be, sim_hop* hop) {
    using namespace ask::sim;
    const auto& [network, number] = routers().at(plane);
    const std::uint32_t host = host_of(__builtin_bswap32(daddr_be));
    if (host >= network->hosts()) {
        return 0;
    }
    const std::uint32_t at = network->switch_of(host);
    hop->ifindex = at == number ? port_to_host(host) : port_to_switch(at);
    const auto dmac = mac_of(host);
    const auto smac = mac_of(1'000'000 + number);
    std::ranges::copy(dmac, std::begin(hop->dmac));
    std::ranges::copy(smac, std::begin(hop->smac));
    return 1;
}

namespace ask::sim {

DataPlane::DataPlane(World& world, Network& network, std::uint32_t number)
    : world_(world), network_(network), number_(number), cpus_(world.plan.cpus) {
    routers()[&plane_] = {&network_, number_};
    load();
}

DataPlane::~DataPlane() {
    finish_runs_unseen();
    routers().erase(&plane_);
    for (Cpu& cpu : cpus_) {
        if (cpu.fiber) {
            Fiber::give_back(std::move(cpu.fiber));
        }
    }
}

void DataPlane::load() {
    const std::uint32_t channels = world_.plan.hosts * world_.plan.channels + 2;
    const std::uint32_t flows = channels * 2;
    const std::uint32_t ids = std::bit_ceil(4 * flows);
    channel_id_memory_.assign(ids, {});
    flow_id_memory_.assign(ids, {});
    channels_.assign(channels, {});
    dedupe_.assign(channels, {});
    pkt_state_.assign(channels, {});
    flows_.assign(flows, {});
    flow_stats_.assign(std::size_t{flows} * world_.plan.cpus, {});
    tasks_.assign(kTasks, {});
    buckets_.assign(kTasks + 1, {});
    presence_.assign(world_.plan.cpus, {});
    counters_.assign(std::size_t{ASK_CNT_COUNT} * world_.plan.cpus, 0);
    regions_.assign(kTasks, {});
    heats_.assign(kTasks, {});
    carried_.assign(flows, {});
    backs_.assign(kTasks, {});
    for (unsigned group = 0; group < ASK_BACK_GROUPS; ++group) {
        back_[group].assign(kTasks, {});
        back[group].assign(kTasks, nullptr);
    }
    regions.assign(kTasks, nullptr);
    heats.assign(kTasks, nullptr);
    carried.assign(flows, nullptr);
    dying.clear();
    pins.clear();
    plane_ = {.memory = world_.plan.memory,
              .dedupe_way = world_.plan.dedupe,
              .switch_id = number_ + 1,
              .mark_incarnation = world_.draw_u32(),
              .cpus = world_.plan.cpus,
              .max_channels = channels,
              .max_flows = flows,
              .max_tasks = kTasks,
              .channel_ids = {channel_id_memory_.data(), ids - 1},
              .flow_ids = {flow_id_memory_.data(), ids - 1},
              .channels = channels_.data(),
              .dedupe = dedupe_.data(),
              .pkt_state = pkt_state_.data(),
              .flows = flows_.data(),
              .flow_stats = flow_stats_.data(),
              .tasks = tasks_.data(),
              .buckets = buckets_.data(),
              .presence = presence_.data(),
              .counters = counters_.data(),
              .regions = regions_.data(),
              .heats = heats_.data(),
              .carried = carried_.data(),
              .backs = backs_.data(),
              .back = {back_[ASK_BACK_8].data(), back_[ASK_BACK_16].data(), back_[ASK_BACK_32].data(),
                       back_[ASK_BACK_64].data()},
              .groups = nullptr,
              .value_slots = nullptr,
              .fan_members = nullptr,
              .max_value_slots = 0,
              .max_fan_members = 0};
    for (std::uint32_t i = 0; i < cpus_.size(); ++i) {
        cpus_[i].state.plane = &plane_;
        cpus_[i].state.number = i;
        cpus_[i].back_vector.assign(sim_back_vector_bytes() / sizeof(__u64), 0);
        cpus_[i].state.back_vector = cpus_[i].back_vector.data();
        cpus_[i].runs = 0;
    }
    ++boots_;
}

void DataPlane::finish_runs_unseen() {
    for (Cpu& cpu : cpus_) {
        if (cpu.busy && cpu.fiber && !cpu.fiber->done()) {
            cpu.state.countdown = 0;
            sim_switch_to(&cpu.state);
            cpu.fiber->resume();
        }
        cpu.busy = false;
        cpu.frame.reset();
        cpu.queue.clear();
    }
}

void DataPlane::reboot() {
    world_.note("switch %u: reboots, its maps are gone", number_);
    check_counters();
    finish_runs_unseen();
    load();
    ended_.notify(world_.clock);
}

std::uint32_t DataPlane::pick_cpu(const Frame& frame) {
    if (world_.plan.steering == 0) {
        // By source address and port, which name the channel.
        std::uint32_t host = 0;
        std::uint16_t port = 0;
        if (frame.size >= kFrameHeaderBytes) {
            std::memcpy(&host, &frame.bytes[kEthernetBytes + 12], sizeof(host));
            std::memcpy(&port, &frame.bytes[kEthernetBytes + kIpv4Bytes], sizeof(port));
        }
        return static_cast<std::uint32_t>(mix(std::uint64_t{host} << 16U | port) % cpus_.size());
    }
    return static_cast<std::uint32_t>(world_.chance.below(cpus_.size()));
}

void DataPlane::receive(FramePtr frame, std::uint32_t port) {
    Cpu& cpu = cpus_[pick_cpu(*frame)];
    if (cpu.queue.size() >= kRing) {
        network_.recycle(std::move(frame));
        return;
    }
    cpu.queue.emplace_back(std::move(frame), port);
    if (!cpu.busy) {
        cpu.busy = true;
        cpu.frame.reset();
        world_.clock.in(kRun, this, boots_ << 32U | cpu.state.number);
    }
}

// How many accesses a run makes until it is suspended: geometric, drawn at once.
std::uint32_t DataPlane::draw_countdown() {
    const std::uint32_t rate = world_.plan.pause;
    if (rate == 0 || cpus_.empty()) {
        return 0;
    }
    std::uint32_t n = 1;
    while (n < 400 && !world_.chance.ppm(rate)) {
        ++n;
    }
    return n == 400 ? 0 : n;
}

void DataPlane::fire(std::uint64_t argument) {
    if (argument >> 32U != boots_) {
        return;  // of a kernel that is no more
    }
    Cpu& cpu = cpus_[argument & 0xffffffffU];
    if (cpu.frame) {
        go_on(cpu);
    } else {
        start(cpu);
    }
}

void DataPlane::start(Cpu& cpu) {
    cpu.frame = std::move(cpu.queue.front().first);
    cpu.port = cpu.queue.front().second;
    cpu.queue.pop_front();
    cpu.size = cpu.frame->size;
    cpu.state.redirected = 0;
    cpu.state.countdown = draw_countdown();
    ++cpu.runs;
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
    if (cpu.fiber->done()) {
        finish(cpu);
        return;
    }
    const std::uint64_t most = world_.chance.below(8) == 0 ? world_.plan.stall : 2;
    world_.clock.in(static_cast<Nanos>(1 + world_.chance.below(most * kMicrosecond)), this,
                    boots_ << 32U | cpu.state.number);
}

void DataPlane::go_on(Cpu& cpu) {
    cpu.state.countdown = draw_countdown();
    sim_switch_to(&cpu.state);
    running = {cpu.fiber.get(), &world_, &network_, number_};
    cpu.fiber->resume();
    if (cpu.fiber->done()) {
        finish(cpu);
        return;
    }
    const std::uint64_t most = world_.chance.below(8) == 0 ? world_.plan.stall : 2;
    world_.clock.in(static_cast<Nanos>(1 + world_.chance.below(most * kMicrosecond)), this,
                    boots_ << 32U | cpu.state.number);
}

// The stack of a box that routes and filters nothing.
void DataPlane::route_up(FramePtr frame) {
    std::uint32_t dest = 0;
    sim_hop hop{};
    if (frame->size >= kFrameHeaderBytes) {
        std::memcpy(&dest, &frame->bytes[kEthernetBytes + 16], sizeof(dest));
    }
    if (dest == 0 || sim_route(&plane_, dest, &hop) == 0) {
        network_.recycle(std::move(frame));
        return;
    }
    network_.send_from_switch(number_, hop.ifindex, std::move(frame));
}

void DataPlane::finish(Cpu& cpu) {
    FramePtr frame = std::move(cpu.frame);
    frame->size = cpu.size;
    if (world_.tracing) {
        world_.note("switch %u cpu %u: %s %s", number_, cpu.state.number, action_name(cpu.action),
                    frame_text(*frame).c_str());
    }
    switch (cpu.action) {
        case XDP_TX:
            network_.send_from_switch(number_, cpu.port, std::move(frame));
            break;
        case XDP_REDIRECT:
            network_.send_from_switch(number_, cpu.state.redirected, std::move(frame));
            break;
        case XDP_PASS:
            route_up(std::move(frame));
            break;
        default:
            network_.recycle(std::move(frame));
            break;
    }
    ended_.notify(world_.clock);
    cpu.busy = !cpu.queue.empty();
    if (cpu.busy) {
        world_.clock.in(kRun, this, boots_ << 32U | cpu.state.number);
    }
}

Job<> DataPlane::grace_period() {
    std::vector<std::uint64_t> runs;
    runs.reserve(cpus_.size());
    for (const Cpu& cpu : cpus_) {
        runs.push_back(cpu.frame ? cpu.runs : 0);
    }
    const std::uint64_t boot = boots_;
    for (std::size_t i = 0; i < cpus_.size(); ++i) {
        while (boots_ == boot && runs[i] != 0 && cpus_[i].frame && cpus_[i].runs == runs[i]) {
            co_await ended_.wait_until(world_.clock, kNever);
        }
    }
    co_await world_.sleep(world_.some_us(200));
    co_return Done{};
}

std::uint64_t DataPlane::counter(unsigned which) const {
    std::uint64_t sum = 0;
    for (std::size_t cpu = 0; cpu < cpus_.size(); ++cpu) {
        sum += counters_[cpu * ASK_CNT_COUNT + which];
    }
    return sum;
}

std::string DataPlane::left_over() const {
    const auto held = [](const OwnMapPtr& map) { return map != nullptr; };
    if (std::ranges::any_of(regions, held) || std::ranges::any_of(heats, held) ||
        std::ranges::any_of(carried, held) ||
        std::ranges::any_of(back, [&held](const auto& maps) { return std::ranges::any_of(maps, held); })) {
        return "a region, heats, what a flow carried or a back level are left over";
    }
    if (std::ranges::any_of(tasks_, [](const ask_task& task) { return task.instance != 0; }) ||
        std::ranges::any_of(flows_, [](const ask_flow& flow) { return flow.task_instance != 0; }) ||
        std::ranges::any_of(flow_id_memory_, [](const sim_id& id) { return id.state == SIM_ID_USED; })) {
        return "entries of tasks or flows are left over";
    }
    return "";
}

void DataPlane::check_counters() {
    std::uint64_t runs = 0;
    std::uint64_t counted = 0;
    for (const Cpu& cpu : cpus_) {
        runs += cpu.runs - (cpu.frame ? 1 : 0);
    }
    for (unsigned which = 0; which < ASK_CNT_COUNT; ++which) {
        counted += counter(which);
    }
    // A run that is suspended may have been counted already.
    if (counted < runs || counted > runs + cpus_.size()) {
        world_.fail(Promise::kCount, "switch " + std::to_string(number_) + ": " + std::to_string(runs) +
                                         " packets, " + std::to_string(counted) + " counted");
    }
    for (const unsigned which : {unsigned{ASK_CNT_abort_state}, unsigned{ASK_CNT_abort_resize}}) {
        if (counter(which) > 0) {
            world_.fail(Promise::kCount, "switch " + std::to_string(number_) + ": counter " +
                                             counter_name(which) + " must be zero");
        }
    }
}

}  // namespace ask::sim
