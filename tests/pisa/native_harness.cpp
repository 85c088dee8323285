// SPDX-License-Identifier: Apache-2.0
#include "tests/pisa/native_harness.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "lib/abi/hosts.h"
#include "lib/abi/vlan.h"
#include "tests/bpf/switch/family.h"

namespace ask::test {

namespace {

Ports routed_ports;

std::uint32_t to_be(std::uint32_t value) {
    return __builtin_bswap32(value);
}

// The routes of tests/bpf/switch: two ports with a host each, and a third that is not the switch's.
int route(std::uint32_t dest, native_hop* hop) {
    const auto take = [hop](std::uint32_t ifindex, const Mac& to, const Mac& from) {
        hop->ifindex = ifindex;
        std::copy(to.begin(), to.end(), std::begin(hop->dmac));
        std::copy(from.begin(), from.end(), std::begin(hop->smac));
        return 1;
    };
    const auto is = [dest](std::uint32_t host) {
        return dest == to_be(host) || dest == to_be(host | ASK_HOST_NUMBERS);
    };
    if (is(kReceiver)) {
        return take(routed_ports.out, kReceiverMac, kOutMac);
    }
    if (is(kSender)) {
        return take(routed_ports.in, kSenderMac, kInMac);
    }
    return is(kBehindSide) ? take(routed_ports.side, kBehindSideMac, kSideMac) : 0;
}

}  // namespace

NativeSwitch::NativeSwitch(Way way, Ports ports, std::uint32_t cpu, std::uint32_t cpus)
    : way_(way),
      cpus_(way.memory == ASK_MEMORY_SHARED ? 1 : cpus),
      channels_(NATIVE_TABLE_ENTRIES),
      tasks_(NATIVE_TABLE_ENTRIES),
      flows_(NATIVE_TABLE_ENTRIES),
      regions_(NATIVE_TABLE_ENTRIES),
      heats_(NATIVE_TABLE_ENTRIES),
      carried_(NATIVE_TABLE_ENTRIES) {
    back_.fill(std::vector<std::vector<std::uint64_t>>(NATIVE_TABLE_ENTRIES));
    routed_ports = ports;
    config_ = {.memory = way.memory,
               .dedupe = way.dedupe,
               .switch_id = kMarkSwitch,
               .mark_incarnation = kMarkIncarnation,
               .cpu = cpu,
               .ports = {ports.in, ports.out},
               .refuse_resize = 0};
    native_load(&config_, route);
}

void NativeSwitch::refuse_resize() {
    config_.refuse_resize = 1;
    native_load(&config_, route);
}

void NativeSwitch::add_vlan(std::uint16_t id) {
    const ask_vlan vlan{.ifindex = routed_ports.in, .id = id, .pad = 0};
    const std::uint32_t zero = 0;
    const std::uint32_t kinds = ASK_PORTS_ON_VLANS;
    native_set("port_kinds", &zero, &kinds);
    native_set("vlan_in", &vlan, &routed_ports.side);
    native_set("vlan_out", &routed_ports.side, &vlan);
}

void NativeSwitch::add_six_hosts() {
    for (const std::uint32_t host : {kSender, kReceiver, kBehindSide, kNarrow, kNowhere}) {
        const ask_ipv6 address = program_form(six_address(host));
        const std::uint32_t number = to_be(host | ASK_HOST_NUMBERS);
        native_set("hosts", &address, &number);
    }
}

void NativeSwitch::add_channel(std::uint32_t index, const ChannelSpec& spec) {
    channels_[index] = spec;
    const ask_channel value{.host = to_be(spec.host),
                            .port = __builtin_bswap16(spec.port),
                            .pad = 0,
                            .incarnation = to_be(spec.incarnation),
                            .ports = {{spec.ifindex == 0 ? routed_ports.in : spec.ifindex}}};
    native_set("channels", &index, &value);
    const ask_channel_id id{.host = value.host, .port = value.port, .pad = 0};
    native_set("channel_ids", &id, &index);
}

void NativeSwitch::add_task(std::uint32_t index, const TaskSpec& spec) {
    tasks_[index] = spec;
    ask_task value{};
    value.instance = __builtin_bswap64(spec.instance);
    value.copy = spec.copy;
    value.copies = spec.copies;
    value.aggregators = spec.aggregators;
    value.sets = cpus_;
    value.short_slots = spec.short_slots;
    value.groups = spec.groups;
    value.m = spec.m;
    value.rows = spec.rows;
    value.op = spec.op;
    value.policy = spec.policy;
    value.service = spec.service;
    value.receiver = to_be(spec.receiver);
    value.back = spec.back == BackBuckets{} ? 0 : 1;
    native_set("tasks", &index, &value);
    add_back(index, spec.back);
    regions_[index].assign(std::size_t{cpus_} * spec.copies * spec.aas() * spec.aggregators, {});
    if (spec.copies > 0) {
        native_set_inner("regions", index, regions_[index].data(), static_cast<__u32>(regions_[index].size()),
                         1);
    }
    if (spec.copies > 0 && spec.policy == ASK_POLICY_REPLACE) {
        heats_[index].assign((std::size_t{cpus_} * spec.aas() * spec.aggregators + 7) / 8, {});
        native_set_inner("heats", index, heats_[index].data(), static_cast<__u32>(heats_[index].size()), 1);
    }
}

void NativeSwitch::add_back(std::uint32_t index, const BackBuckets& buckets) {
    ask_back back{.seed = kBackSeed, .buckets = {}};
    std::copy(buckets.begin(), buckets.end(), std::begin(back.buckets));
    native_set("backs", &index, &back);
    for (unsigned group = 0; group < buckets.size(); ++group) {
        const std::uint32_t words = kBackBucketBytes[group] / sizeof(std::uint64_t);
        std::vector<std::uint64_t>& table = back_[group][index];
        table.assign(std::size_t{buckets[group]} * words, 0);
        if (buckets[group] != 0) {
            native_set_inner(kBackNames[group], index, table.data(), buckets[group], words);
        }
    }
}

void NativeSwitch::add_flow(std::uint32_t flow, std::uint32_t channel, std::uint32_t task) {
    flows_[flow] = {.channel = channel, .task = task};
    if (tasks_[task].policy == ASK_POLICY_REPLACE) {
        carried_[flow].assign(ask_carried_words(tasks_[task].rows, tasks_[task].aas()), 0);
        native_set_inner("carried", flow, carried_[flow].data(), static_cast<__u32>(carried_[flow].size()),
                         1);
    }
    ask_flow value{};
    value.task_instance = __builtin_bswap64(tasks_[task].instance);
    value.channel = channel;
    value.task = task;
    const Secret secret = flow_secret(flow);
    const __u64 words[2] = {secret[0], secret[1]};
    ask_check_expand(words, &value.key);
    native_set("flows", &flow, &value);
    const ask_flow_id id{.task = value.task_instance,
                         .host = to_be(channels_[channel].host),
                         .port = __builtin_bswap16(channels_[channel].port),
                         .pad = 0};
    native_set("flow_ids", &id, &flow);
}

void NativeSwitch::add_default(const TaskSpec& spec) {
    add_channel(0);
    add_task(0, spec);
    add_flow(0, 0, 0);
}

Packet NativeSwitch::packet(std::uint32_t flow) const {
    const ChannelSpec& channel = channels_[flows_[flow].channel];
    const TaskSpec& spec = tasks_[flows_[flow].task];
    Packet packet;
    packet.dest_mac = kInMac;
    packet.source_mac = kSenderMac;
    packet.source = packet.host = channel.host;
    packet.dest = spec.receiver;
    packet.source_port = packet.port = channel.port;
    packet.short_slots = spec.short_slots;
    packet.groups = spec.groups;
    packet.m = spec.m;
    packet.op = spec.op;
    packet.task = spec.instance;
    packet.incarnation = channel.incarnation;
    packet.secret = flow_secret(flow);
    return packet;
}

Switch::Outcome NativeSwitch::run(const Bytes& frame) {
    constexpr std::size_t kFront = 256;  // as XDP has in front of a frame
    Switch::Outcome outcome;
    outcome.frame.resize(kFront);
    outcome.frame.insert(outcome.frame.end(), frame.begin(), frame.end());
    std::size_t size = frame.size();
    outcome.action =
        static_cast<std::uint32_t>(native_run(outcome.frame.data(), kFront, &size, routed_ports.in));
    outcome.frame.resize(size);
    return outcome;
}

std::span<const native_event> NativeSwitch::events() {
    std::size_t count = 0;
    const native_event* first = native_events(&count);
    return {first, count};
}

Bytes NativeSwitch::memory(const char* map, std::size_t bytes) {
    std::size_t have = 0;
    const auto* data = static_cast<const std::uint8_t*>(native_memory(map, &have));
    if (bytes > have) {
        throw std::out_of_range(map);
    }
    return {data, data + bytes};
}

std::vector<std::uint64_t> NativeSwitch::counters() {
    std::vector<std::uint64_t> out(ASK_CNT_COUNT);
    const Bytes bytes = memory("counters", out.size() * sizeof(out[0]));
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
}

ask_flow_stats NativeSwitch::stats(std::uint32_t flow) {
    ask_flow_stats out{};
    const Bytes bytes = memory("flow_stats", (flow + 1) * sizeof(out));
    std::memcpy(&out, bytes.data() + flow * sizeof(out), sizeof(out));
    return out;
}

}  // namespace ask::test
