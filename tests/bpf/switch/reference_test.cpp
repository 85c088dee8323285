// SPDX-License-Identifier: Apache-2.0
//
// The program in the kernel against the rules written a second time, as plain C++ (tests/support): the same
// packets, new, seen and stale, must leave alike, byte by byte, under both policies.
#include <algorithm>
#include <random>
#include <span>

#include <doctest/doctest.h>

#include "tests/bpf/switch/harness.h"
#include "tests/support/reference_switch.h"

using namespace ask;
using namespace ask::test;

namespace {

constexpr unsigned kPackets = 3000;
constexpr std::size_t kPayloadAt = 42;

FlowParams params_of(const Switch& sw, std::uint32_t flow, std::uint16_t port, std::uint32_t incarnation) {
    const TaskSpec& spec = sw.task(0);
    FlowParams params;
    params.instance = spec.instance;
    params.channel = {.host = kSender, .port = port};
    params.incarnation = incarnation;
    params.secret = {flow_secret(flow)[0], flow_secret(flow)[1]};
    params.op = static_cast<Op>(spec.op);
    params.geometry = {spec.short_slots, spec.groups, spec.m, spec.rows};
    return params;
}

// Few keys, of which the first ones come most.
Packet random_packet(const Switch& sw, std::uint32_t flow, std::uint64_t seq) {
    std::mt19937_64 random(seq * 2 + flow);  // the same again for a retransmission
    const TaskSpec& spec = sw.task(0);
    Packet packet = sw.packet(flow).seq(seq);
    packet.row_count(1 + static_cast<unsigned>(random() % spec.rows));
    for (unsigned row = 0; row < packet.bitmaps.size(); ++row) {
        for (unsigned slot = 0; slot < unsigned{spec.short_slots} + spec.groups; ++slot) {
            const std::uint64_t key = random() % (1 + random() % 12);
            if (random() % 4 != 0) {
                const auto value = static_cast<std::int32_t>(random() % 8 == 0 ? random() : random() % 100);
                packet.put(row, slot, (slot < spec.short_slots ? "k" : "med") + std::to_string(key), value);
            }
        }
    }
    if (packet.bitmaps.back() == 0) {
        packet.put(static_cast<unsigned>(packet.bitmaps.size()) - 1, 0, "k", 1);
    }
    return packet;
}

void check_alike(const Switch& sw, ReferenceSwitch& reference, const Packet& packet) {
    const Bytes frame = packet.frame();
    INFO(to_string(sw.way()), "\n", scapy(frame));
    const Switch::Outcome one = sw.run(frame);
    const ReferenceSwitch::Outcome two =
        reference.on_packet(std::as_bytes(std::span(frame)).subspan(kPayloadAt),
                            ask::Ports{.source = packet.source_port, .dest = packet.dest_port});
    const std::uint32_t action = two.way == ReferenceSwitch::Way::kDrop       ? XDP_DROP
                                 : two.way == ReferenceSwitch::Way::kToSender ? XDP_TX
                                                                              : XDP_REDIRECT;
    REQUIRE(one.action == action);
    if (action != XDP_DROP) {
        const auto payload = std::as_bytes(std::span(one.frame)).subspan(kPayloadAt);
        REQUIRE(std::ranges::equal(payload, two.payload));
    }
}

void run_both(const Way& way, const TaskSpec& spec) {
    Switch& sw = Switch::get(way);
    ReferenceSwitch reference({.switch_id = kMarkSwitch, .incarnation = kMarkIncarnation});
    sw.add_task(0, spec);
    for (std::uint32_t flow = 0; flow < 2; ++flow) {
        const auto port = static_cast<std::uint16_t>(ASK_CHANNEL_PORT_BASE + flow);
        sw.add_channel(flow, {.port = port, .incarnation = 7 + flow});
        sw.add_flow(flow, flow, 0);
        reference.add_flow(params_of(sw, flow, port, 7 + flow), spec.aggregators,
                           static_cast<ask_policy>(spec.policy));
    }
    std::mt19937_64 random(spec.short_slots);
    std::uint64_t newest[2] = {0, 0};
    for (unsigned i = 0; i < kPackets; ++i) {
        const auto flow = static_cast<std::uint32_t>(random() % 2);
        std::uint64_t seq = newest[flow];
        if (random() % 3 != 0 || seq == 0) {
            seq = ++newest[flow];
        } else {
            seq -= std::min<std::uint64_t>(seq - 1, random() % (random() % 8 == 0 ? 600 : 20));
        }
        check_alike(sw, reference, random_packet(sw, flow, seq));
    }
    CHECK(sw.stats(0).tuples_evicted + sw.stats(1).tuples_evicted == reference.tuples_evicted());
    CHECK((reference.tuples_evicted() > 0) == (spec.policy == ASK_POLICY_REPLACE));
}

}  // namespace

TEST_CASE("the kernel's switch does what the rules say, whichever the policy") {
    const TaskSpec specs[] = {
        {.aggregators = 2},
        {.short_slots = 0, .groups = 8, .m = 4, .rows = 5, .op = ASK_OP_MAX, .aggregators = 3}};
    for (TaskSpec spec : specs) {
        for (const ask_policy policy : {ASK_POLICY_FIRST_COME, ASK_POLICY_REPLACE}) {
            spec.policy = static_cast<std::uint8_t>(policy);
            run_both({ASK_MEMORY_PIPELINES, ASK_DEDUPE_TAGGED}, spec);
        }
    }
    // shared never replaces a group, which the reference does.
    TaskSpec shorts{.short_slots = 32, .groups = 0, .m = 0, .rows = 4, .op = ASK_OP_MIN, .aggregators = 2};
    for (const ask_policy policy : {ASK_POLICY_FIRST_COME, ASK_POLICY_REPLACE}) {
        shorts.policy = static_cast<std::uint8_t>(policy);
        run_both({ASK_MEMORY_SHARED, ASK_DEDUPE_TAGGED}, shorts);
        run_both({ASK_MEMORY_PIPELINES, ASK_DEDUPE_TAGGED}, shorts);
    }
}
