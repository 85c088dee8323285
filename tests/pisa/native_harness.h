// SPDX-License-Identifier: Apache-2.0
//
// The natively compiled switch program with the same channels, tasks and flows that tests/bpf/switch gives
// the real one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tests/bpf/switch/harness.h"
#include "tests/pisa/native_switch.h"

namespace ask::test {

// One at a time: the program's maps are global.
class NativeSwitch {
 public:
    // `cpu` is whose register set is used, of `cpus`.
    NativeSwitch(Way way, Ports ports, std::uint32_t cpu = 0, std::uint32_t cpus = 2);

    void add_channel(std::uint32_t index, const ChannelSpec& spec = {});
    void add_task(std::uint32_t index, const TaskSpec& spec = {});
    void add_flow(std::uint32_t flow, std::uint32_t channel, std::uint32_t task);
    void add_default(const TaskSpec& spec = {});
    // From here on port `side` is this VLAN of port `in`.
    void add_vlan(std::uint16_t id);
    // All that tests have packets of have IPv6 (tests/bpf/switch/family.h).
    void add_six_hosts();
    // Makes the kernel refuse to cut packets.
    void refuse_resize();

    [[nodiscard]] Packet packet(std::uint32_t flow = 0) const;
    Switch::Outcome run(const Bytes& frame);
    // What the program touched in the last run.
    [[nodiscard]] static std::span<const native_event> events();

    [[nodiscard]] std::span<const ask_aggregator> region(std::uint32_t task) const { return regions_[task]; }
    [[nodiscard]] std::span<const ask_heats> heats(std::uint32_t task) const { return heats_[task]; }
    [[nodiscard]] std::span<const std::uint64_t> carried(std::uint32_t flow) const { return carried_[flow]; }
    [[nodiscard]] std::span<const std::uint64_t> back(unsigned group, std::uint32_t task) const {
        return back_[group][task];
    }
    // The first `bytes` of a map's memory.
    [[nodiscard]] static Bytes memory(const char* map, std::size_t bytes);
    [[nodiscard]] static std::vector<std::uint64_t> counters();
    [[nodiscard]] static ask_flow_stats stats(std::uint32_t flow = 0);
    [[nodiscard]] const TaskSpec& task(std::uint32_t index) const { return tasks_[index]; }

 private:
    void add_back(std::uint32_t index, const BackBuckets& buckets);

    struct Flow {
        std::uint32_t channel;
        std::uint32_t task;
    };
    Way way_;
    native_config config_{};
    std::uint32_t cpus_;
    std::vector<ChannelSpec> channels_;
    std::vector<TaskSpec> tasks_;
    std::vector<Flow> flows_;
    std::vector<std::vector<ask_aggregator>> regions_;
    std::vector<std::vector<ask_heats>> heats_;
    std::vector<std::vector<std::uint64_t>> carried_;
    std::array<std::vector<std::vector<std::uint64_t>>, ASK_BACK_GROUPS> back_;  // [group][task]
};

}  // namespace ask::test
