// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/tuples/intruder.h"

#include <array>
#include <cstring>
#include <utility>

#include "lib/net/host_book.h"
#include "lib/rpc/types.h"
#include "tests/sim/tuples/apps.h"
#include "tests/sim/tuples/host.h"
#include "tests/support/tuple_channel.h"

namespace ask::sim {

namespace {

constexpr milliseconds kPatience{2000};
// No sender's: they have others (make_key() of the oracle).
constexpr const char* kForeignKey = "zz";
// No agent has so many channels here.
constexpr std::uint16_t kOwnPort = ASK_CHANNEL_PORT_BASE + ASK_MAX_CHANNELS_PER_HOST - 1;

}  // namespace

void Intruder::start() {
    threads_.spawn([this] {
        for (std::uint32_t i = 0; i < cast_.world.plan.intruder; ++i) {
            park(nullptr, cast_.world.clock.now() + some_time(random_, 5, 15));
            intrude();
        }
    });
}

int Intruder::some_of(int all) {
    return static_cast<int>(random_.below(static_cast<std::uint64_t>(all)));
}

SimSwitch Intruder::at(const Target& target, std::uint32_t as_host) {
    return {cast_, target.number, as_host};
}

void Intruder::intrude() {
    Target target;
    target.number = static_cast<std::uint32_t>(random_.below(cast_.switchds.size()));
    const auto seen = at(target, cast_.world.plan.nodes()).status(kPatience);
    if (!seen.ok() || seen->tasks_size() == 0) {
        return;
    }
    target.seen = *seen;
    target.task = seen->tasks(some_of(seen->tasks_size()));
    const auto receiver = host_of_control(target.task.receiver());
    if (!receiver.ok()) {
        return;
    }
    target.receiver = host_of(*receiver);
    cast_.world.note("intruder: at task %s", target.task.id().c_str());
    switch (random_.below(5)) {
        case 0:
            make_anew(target);
            break;
        case 1:
            make_anew(target);
            take_channels_away(target);
            break;
        case 2:
            take_channels_away(target);
            break;
        case 3:
            add_flow(target);
            break;
        default:
            take_flow_over(target);
    }
}

// The same instance once more, with a region that has nothing of what was aggregated.
void Intruder::make_anew(const Target& target) {
    SimSwitch as_receiver = at(target, target.receiver);
    const v1::SwitchTask& task = target.task;
    if (!as_receiver.close_task(task.instance(), kPatience).ok()) {
        return;
    }
    v1::OpenTaskRequest open;
    open.set_id(task.id());
    open.set_instance(task.instance());
    *open.mutable_geometry() = task.geometry();
    open.set_op(task.op());
    open.set_copies(task.copies());
    open.set_aggregators(task.aggregators());
    open.set_policy(task.policy());
    open.set_receiver(task.receiver());
    open.set_receiver_address(address_of(target.receiver));
    [[maybe_unused]] const auto opened = as_receiver.open_task(open, kPatience, nullptr);
}

// What their senders still have to send then passes the switch, as anybody's packets do.
void Intruder::take_channels_away(const Target& target) {
    for (const v1::SwitchChannel& channel : target.seen.channels()) {
        const auto id = channel_fields(channel.channel());
        [[maybe_unused]] const auto gone =
            at(target, host_of(id->host)).unregister_channel(*id, channel.incarnation(), kPatience, nullptr);
    }
}

void Intruder::add_flow(const Target& target) {
    const auto host = static_cast<std::uint32_t>(random_.below(cast_.world.plan.hosts));
    const ChannelId channel{address_of(host), kOwnPort};
    const auto incarnation = static_cast<std::uint32_t>(random_.next()) | 1U;
    SimSwitch as_host = at(target, host);
    if (as_host.register_channel(channel, incarnation, 0, kPatience).ok()) {
        send_tuple(target, channel, incarnation);
        if (random_.below(2) == 0) {
            [[maybe_unused]] const auto gone =
                as_host.unregister_channel(channel, incarnation, kPatience, nullptr);
        }
    }
}

// A sender's channel under a new incarnation, and its flow joined anew.
void Intruder::take_flow_over(const Target& target) {
    if (target.seen.channels_size() == 0) {
        return;
    }
    const v1::SwitchChannel& channel = target.seen.channels(some_of(target.seen.channels_size()));
    const auto id = channel_fields(channel.channel());
    const auto incarnation = static_cast<std::uint32_t>(random_.next()) | 1U;
    SimSwitch as_host = at(target, host_of(id->host));
    if (as_host.register_channel(*id, incarnation, channel.incarnation(), kPatience).ok()) {
        send_tuple(target, *id, incarnation);
    }
}

// Under a secret of its own, which the switch cannot tell from one that the receiver has drawn.
void Intruder::send_tuple(const Target& target, ChannelId channel, std::uint32_t incarnation) {
    FlowParams flow;
    flow.instance = target.task.instance();
    flow.channel = channel;
    flow.incarnation = incarnation;
    flow.secret = {random_.next(), random_.next()};
    flow.geometry = *geometry_fields(target.task.geometry());
    flow.op = *op_from_proto(target.task.op());
    v1::JoinFlowRequest join;
    join.set_instance(flow.instance);
    *join.mutable_channel() = channel_to_proto(channel);
    join.set_incarnation(incarnation);
    join.set_secret(secret_to_bytes(flow.secret));
    if (!at(target, target.receiver).join_flow(join, kPatience).ok()) {
        return;
    }
    test::TupleChannel sender(channel, incarnation, SimWorkers::sender_config(cast_.world.plan));
    if (!sender.begin(flow, 1, cast_.world.clock.now()).ok()) {
        return;
    }
    sender.offer(kForeignKey, 1);
    std::array<std::byte, kFrameRoom> payload;
    const std::size_t bytes = sender.next_packet(cast_.world.clock.now(), payload);
    const std::uint32_t host = host_of(channel.host);
    FramePtr frame = cast_.network.new_frame();
    const auto room = std::as_writable_bytes(std::span(frame->bytes));
    std::memcpy(&room[header_bytes()], payload.data(), bytes);
    UdpAddresses addresses = addresses_between(host, target.receiver);
    addresses.source_mac = mac_of_host(host);
    addresses.dest_mac = mac_of_switch(cast_.network.switch_of(host));
    addresses.source_port = channel.port;
    addresses.dest_port = ASK_UDP_PORT;
    frame->size = write_frame_header(room, addresses, bytes);
    cast_.network.send_from_host(host, std::move(frame));
}

}  // namespace ask::sim
