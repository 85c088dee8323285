// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/frame/processors.h"

#include <linux/bpf.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "loader/counter_names.h"

namespace ask::sim {

namespace {

constexpr Nanos kRun = 1 * kMicrosecond;
constexpr std::size_t kRing = 256;  // as a veth's
constexpr std::uint32_t kNoHost = 0xffffffff;

// Whose run is under way: the program calls back with nothing but its CPU.
Processors* running = nullptr;

// No host has both.
std::uint32_t host_of_ipv4(std::uint32_t address_be) {
    return is_six() ? kNoHost : host_of(__builtin_bswap32(address_be));
}

const char* action_name(int action) {
    constexpr const char* kNames[] = {"abort", "drop", "pass", "reflect", "redirect"};
    return action >= 0 && action < 5 ? kNames[action] : "?";
}

}  // namespace

}  // namespace ask::sim

extern "C" void sim_suspend(sim_cpu* cpu, const char* what) {
    ask::sim::running->suspend_run(*cpu, what);
}

extern "C" __u64 sim_clock() {
    return static_cast<__u64>(ask::sim::running->now());
}

extern "C" int sim_route(const sim_plane* plane, __u32 daddr_be, sim_hop* hop) {
    (void)plane;
    return ask::sim::running->find_route(ask::sim::host_of_ipv4(daddr_be), *hop);
}

extern "C" int sim_route_six(const sim_plane* plane, const void* daddr, sim_hop* hop) {
    (void)plane;
    ask::Ipv6Address address;
    std::memcpy(address.data(), daddr, address.size());
    return ask::sim::running->find_route(ask::sim::host_of(address), *hop);
}

namespace ask::sim {

Processors::Processors(Scene& scene, Links& links, std::uint32_t number, const CpuPlan& plan)
    : scene_(scene), links_(links), number_(number), plan_(plan), cpus_(plan.cpus) {}

Processors::~Processors() {
    for (Cpu& cpu : cpus_) {
        if (cpu.fiber) {
            Fiber::give_back(std::move(cpu.fiber));
        }
    }
}

void Processors::use(sim_plane& plane) {
    for (std::uint32_t i = 0; i < cpus_.size(); ++i) {
        cpus_[i].state.plane = &plane;
        cpus_[i].state.number = i;
        cpus_[i].back_vector.resize(sim_back_vector_bytes() / sizeof(__u64));
        cpus_[i].state.back_vector = cpus_[i].back_vector.data();
    }
    ++lives_;
}

int Processors::find_route(std::uint32_t host, sim_hop& hop) const {
    if (host >= links_.hosts()) {
        return 0;
    }
    hop.ifindex = links_.port_to(number_, host);
    std::ranges::copy(mac_of_host(host), std::begin(hop.dmac));
    std::ranges::copy(mac_of_switch(number_), std::begin(hop.smac));
    return 1;
}

void Processors::suspend_run(const sim_cpu& cpu, const char* what) {
    scene_.note("switch %u cpu %u: suspended before %s", number_, cpu.number, what);
    cpus_[cpu.number].fiber->suspend();
}

std::uint32_t Processors::pick_cpu(const Frame& frame) {
    if (plan_.steering != 0) {
        return static_cast<std::uint32_t>(scene_.chance.below(cpus_.size()));
    }
    // By source address and port, which name the channel.
    std::uint32_t host = 0;
    std::uint16_t port = 0;
    if (is_six() && is_six_frame(frame)) {
        host = number_of(six_source(frame));
        std::memcpy(&port, &frame.bytes[kEthernetBytes + kIpv6Bytes], sizeof(port));
    } else if (frame.size >= kFrameHeaderBytes) {
        std::memcpy(&host, &frame.bytes[kEthernetBytes + 12], sizeof(host));
        std::memcpy(&port, &frame.bytes[kEthernetBytes + kIpv4Bytes], sizeof(port));
    }
    return static_cast<std::uint32_t>(mix(std::uint64_t{host} << 16U | port) % cpus_.size());
}

void Processors::due(const Cpu& cpu, Nanos delay) {
    scene_.clock.in(delay, this, lives_ << 32U | cpu.state.number);
}

void Processors::receive(FramePtr frame, std::uint32_t port) {
    Cpu& cpu = cpus_[pick_cpu(*frame)];
    if (cpu.queue.size() >= kRing) {
        links_.recycle(std::move(frame));
        return;
    }
    cpu.queue.emplace_back(std::move(frame), port);
    if (!cpu.busy) {
        cpu.busy = true;
        due(cpu, kRun);
    }
}

// How many accesses a run makes until it is suspended: geometric, drawn at once. 0: it is not.
std::uint32_t Processors::draw_countdown() {
    if (plan_.pause == 0) {
        return 0;
    }
    std::uint32_t n = 1;
    while (n < plan_.most_accesses && !scene_.chance.ppm(plan_.pause)) {
        ++n;
    }
    return n == plan_.most_accesses ? 0 : n;
}

void Processors::start(Cpu& cpu) {
    cpu.frame = std::move(cpu.queue.front().first);
    cpu.port = cpu.queue.front().second;
    cpu.queue.pop_front();
    cpu.size = cpu.frame->size;
    cpu.state.redirected = 0;
    cpu.state.countdown = draw_countdown();
    ++cpu.runs;
    if (scene_.tracing) {
        std::copy_n(&cpu.state.plane->counters[cpu.state.number * ASK_CNT_COUNT], ASK_CNT_COUNT,
                    cpu.counted.begin());
    }
    running = this;
    if (cpu.state.countdown == 0) {
        // Nothing will suspend it: no stack of its own.
        cpu.action = sim_run(&cpu.state, cpu.frame->bytes.data(), &cpu.size, cpu.port);
        finish(cpu);
        return;
    }
    if (!cpu.fiber) {
        cpu.fiber = Fiber::take_idle();
    }
    cpu.fiber->start(
        [&cpu] { cpu.action = sim_run(&cpu.state, cpu.frame->bytes.data(), &cpu.size, cpu.port); });
    suspended(cpu);
}

void Processors::resume(Cpu& cpu) {
    sim_switch_to(&cpu.state);
    running = this;
    cpu.fiber->resume();
}

void Processors::go_on(Cpu& cpu) {
    cpu.state.countdown = draw_countdown();
    resume(cpu);
    suspended(cpu);
}

bool Processors::run_out(Cpu& cpu) {
    if (!cpu.frame || !cpu.fiber || cpu.fiber->done()) {
        return false;
    }
    cpu.state.countdown = 0;
    resume(cpu);
    return true;
}

void Processors::suspended(Cpu& cpu) {
    if (cpu.fiber->done()) {
        finish(cpu);
        return;
    }
    const std::uint64_t most = scene_.chance.below(8) == 0 ? plan_.stall : 2;
    due(cpu, static_cast<Nanos>(1 + scene_.chance.below(most * kMicrosecond)));
}

void Processors::finish(Cpu& cpu) {
    FramePtr frame = std::move(cpu.frame);
    frame->size = cpu.size;
    if (scene_.tracing) {
        scene_.note("switch %u cpu %u: %s as %s: %s", number_, cpu.state.number, action_name(cpu.action),
                    reason_of(cpu).c_str(), text_of(*frame).c_str());
    }
    left(*frame);
    leave(cpu, std::move(frame));
    ended();
    cpu.busy = !cpu.queue.empty();
    if (cpu.busy) {
        due(cpu, kRun);
    }
}

std::string Processors::reason_of(const Cpu& cpu) const {
    std::string names;
    for (unsigned which = 0; which < ASK_CNT_COUNT; ++which) {
        if (cpu.state.plane->counters[cpu.state.number * ASK_CNT_COUNT + which] != cpu.counted[which]) {
            names += (names.empty() ? "" : " and ") + std::string(kSwitchCounters[which].name);
        }
    }
    return names;
}

void Processors::leave(Cpu& cpu, FramePtr frame) {
    switch (cpu.action) {
        case XDP_TX:
            links_.send_from_switch(number_, cpu.port, std::move(frame));
            break;
        case XDP_REDIRECT:
            links_.send_from_switch(number_, cpu.state.redirected, std::move(frame));
            break;
        case XDP_PASS:
            route_up(std::move(frame));
            break;
        default:
            links_.recycle(std::move(frame));
            break;
    }
}

// The stack of a box that routes and filters nothing.
void Processors::route_up(FramePtr frame) {
    std::uint32_t host = kNoHost;
    sim_hop hop{};
    if (is_six() && is_six_frame(*frame)) {
        host = host_of(six_dest(*frame));
    } else if (frame->size >= kFrameHeaderBytes) {
        std::uint32_t dest = 0;
        std::memcpy(&dest, &frame->bytes[kEthernetBytes + 16], sizeof(dest));
        host = host_of_ipv4(dest);
    }
    if (find_route(host, hop) == 0) {
        links_.recycle(std::move(frame));
        return;
    }
    links_.send_from_switch(number_, hop.ifindex, std::move(frame));
}

std::vector<std::uint64_t> Processors::under_way() const {
    std::vector<std::uint64_t> runs;
    runs.reserve(cpus_.size());
    for (const Cpu& cpu : cpus_) {
        runs.push_back(cpu.frame ? cpu.runs : 0);
    }
    return runs;
}

bool Processors::still_runs(const std::vector<std::uint64_t>& runs, std::size_t cpu) const {
    return runs[cpu] != 0 && cpus_[cpu].frame && cpus_[cpu].runs == runs[cpu];
}

std::string Processors::judge_counters(const std::array<std::uint64_t, ASK_CNT_COUNT>& counted) const {
    const std::string who = "switch " + std::to_string(number_) + ": ";
    std::uint64_t runs = 0;
    std::uint64_t sum = 0;
    for (const Cpu& cpu : cpus_) {
        runs += cpu.runs - (cpu.frame ? 1 : 0);
    }
    for (unsigned which = 0; which < ASK_CNT_COUNT; ++which) {
        sum += counted[which];
        if (counted[which] > 0 && kSwitchCounters[which].kind == "never") {
            return who + "counter " + std::string(kSwitchCounters[which].name) + " must be zero";
        }
    }
    // A run that is suspended may have been counted already.
    if (sum < runs || sum > runs + cpus_.size()) {
        return who + std::to_string(runs) + " packets, " + std::to_string(sum) + " counted";
    }
    return "";
}

}  // namespace ask::sim
