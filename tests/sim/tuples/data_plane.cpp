// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/tuples/data_plane.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "lib/abi/map_types.h"

namespace ask::sim {

namespace {

constexpr std::uint32_t kMostAccesses = 400;  // of a run

}  // namespace

DataPlane::DataPlane(World& world, Network& network, std::uint32_t number)
    : Processors(world, network, number, CpuPlan::of(world.plan, kMostAccesses)), world_(world) {
    load();
}

DataPlane::~DataPlane() {
    finish_runs_unseen();
}

void DataPlane::load() {
    const std::uint32_t channels = world_.plan.nodes() * world_.plan.channels + 2;
    const std::uint32_t flows = channels * 2;
    const std::uint32_t ids = std::bit_ceil(4 * flows);
    channel_id_memory_.assign(ids, {});
    flow_id_memory_.assign(ids, {});
    host_memory_.assign(ids, {});
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
              .hosts = {host_memory_.data(), ids - 1},
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
    for (Cpu& cpu : cpus()) {
        cpu.runs = 0;
    }
    use(plane_);
}

void DataPlane::finish_runs_unseen() {
    for (Cpu& cpu : cpus()) {
        run_out(cpu);
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

void DataPlane::fire(std::uint64_t event) {
    if (!is_current(event)) {
        return;  // of a kernel that is no more
    }
    Cpu& cpu = cpu_of(event);
    if (cpu.frame) {
        go_on(cpu);
    } else {
        start(cpu);
    }
}

std::string DataPlane::text_of(const Frame& frame) const {
    return frame_text(frame);
}

Job<> DataPlane::grace_period() {
    const std::vector<std::uint64_t> runs = under_way();
    const std::uint64_t boot = life();
    for (std::size_t i = 0; i < runs.size(); ++i) {
        while (life() == boot && still_runs(runs, i)) {
            co_await ended_.wait_until(world_.clock, kNever);
        }
    }
    co_await world_.sleep(world_.some_us(200));
    co_return Done{};
}

std::uint64_t DataPlane::counter(unsigned which) const {
    std::uint64_t sum = 0;
    for (std::size_t cpu = 0; cpu < world_.plan.cpus; ++cpu) {
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
    return std::ranges::all_of(host_memory_, [this](const sim_id& host) { return has_channel(host); })
               ? ""
               : "a host is left over of which there is no channel";
}

// Or is none.
bool DataPlane::has_channel(const sim_id& host) const {
    return host.state != SIM_ID_USED ||
           std::ranges::any_of(channel_id_memory_, [&host](const sim_id& channel) {
               ask_channel_id id;
               std::memcpy(&id, channel.key, sizeof(id));
               return channel.state == SIM_ID_USED && id.host == host.index;
           });
}

void DataPlane::check_counters() {
    std::array<std::uint64_t, ASK_CNT_COUNT> counted{};
    for (unsigned which = 0; which < ASK_CNT_COUNT; ++which) {
        counted[which] = counter(which);
    }
    if (std::string what = judge_counters(counted); !what.empty()) {
        world_.fail(Promise::kCount, std::move(what));
    }
}

}  // namespace ask::sim
