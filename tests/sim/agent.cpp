// SPDX-License-Identifier: Apache-2.0
//
// Life of the agent, its frames and its channels.
#include "tests/sim/agent.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "lib/net/frame.h"

namespace ask::sim {

namespace {

constexpr Nanos kKeep = 200 * kMillisecond;
constexpr Nanos kKeepWait = 150 * kMillisecond;
constexpr std::size_t kBurst = 8;

SenderConfig sender_config(const Plan& plan) {
    SenderConfig config;
    const Geometry geometry = plan.geometry();
    config.rto_initial = 2 * kMillisecond;
    config.rto_floor = 300 * kMicrosecond;
    config.rto_ceiling = 20 * kMillisecond;
    config.hold = plan.hold;
    config.payload_limit = std::max(geometry.payload_bytes(geometry.rows), 180U);
    return config;
}

std::uint64_t acknowledged(const SenderChannel& channel) {
    return channel.stats().packets_acked_by_switch + channel.stats().packets_acked_by_receiver;
}

}  // namespace

Agent::Agent(const Parts& parts, std::uint32_t host)
    : parts_(parts), world_(parts.world), network_(parts.network), host_(host) {}

void Agent::start() {
    ++life_;
    world_.note("agent %u: starts", host_);
    receiver_ = std::make_unique<Receiver>();
    for (std::uint32_t i = 0; i < world_.plan.channels; ++i) {
        const ChannelId id{address_of(host_), static_cast<std::uint16_t>(ASK_CHANNEL_PORT_BASE + i)};
        channels_.push_back(std::make_unique<Channel>(id, world_.draw_u32(), sender_config(world_.plan)));
    }
    process.boot();
    process.spawn(keeper());
}

void Agent::kill() {
    world_.note("agent %u: is killed", host_);
    process.kill();
    ++life_;
    channels_.clear();
    tasks_.clear();
    receiver_.reset();
    sessions.notify(world_.clock);
}

void Agent::send_payload(std::uint32_t to, Ports ports, std::span<const std::byte> payload) {
    FramePtr frame = network_.new_frame();
    const UdpAddresses addresses{.source_mac = mac_of(host_),
                                 .dest_mac = mac_of(1'000'000 + own_switch()),
                                 .source = address_of(host_),
                                 .dest = address_of(to),
                                 .source_port = ports.source,
                                 .dest_port = ports.dest};
    const auto room = std::as_writable_bytes(std::span(frame->bytes));
    std::memcpy(&room[kFrameHeaderBytes], payload.data(), payload.size());
    frame->size = write_frame_header(room, addresses, payload.size());
    if (world_.tracing) {
        world_.note("host %u: sends %s", host_, frame_text(*frame).c_str());
    }
    network_.send_from_host(host_, std::move(frame));
}

void Agent::receive(FramePtr frame) {
    const auto parsed = parse_frame(frame->view());
    if (process.up() && parsed && parsed->addresses.dest == address_of(host_)) {
        const Ports ports{parsed->addresses.source_port, parsed->addresses.dest_port};
        if (ports.dest == ASK_UDP_PORT) {
            std::array<std::byte, sizeof(ask_hdr)> ack;
            const RxVerdict verdict = receiver_->on_packet(parsed->payload, ports, parsed->ecn_ce, ack);
            if (world_.tracing) {
                constexpr const char* kNames[] = {
#define ASK_X(name, class_, text) #name,
                    ASK_RECEIVER_COUNTERS(ASK_X)
#undef ASK_X
                };
                world_.note("host %u: receives %s: %s", host_, frame_text(*frame).c_str(),
                            kNames[static_cast<std::size_t>(verdict.counter)]);
            }
            if (verdict.ack_bytes > 0 && host_of(parsed->addresses.source) < world_.plan.hosts) {
                send_payload(host_of(parsed->addresses.source), {ports.dest, ports.source},
                             std::span(ack).first(verdict.ack_bytes));
            }
            note(verdict);
        } else if (const std::size_t i = ports.dest - std::size_t{ASK_CHANNEL_PORT_BASE};
                   i < channels_.size()) {
            test::TupleChannel& data = channels_[i]->data;
            const std::uint64_t acked = acknowledged(data);
            data.on_packet(world_.clock.now(), parsed->payload, ports);
            if (acknowledged(data) > acked) {
                world_.moves();
            }
            pump(i);
        }
    }
    network_.recycle(std::move(frame));
}

void Agent::fire(std::uint64_t argument) {
    const std::size_t channel = argument & 0xffffU;
    // Only the timer set last counts.
    if (argument >> 16U != life_ || channel >= channels_.size() ||
        channels_[channel]->armed != world_.clock.now()) {
        return;
    }
    channels_[channel]->armed = kNever;
    pump(channel);
}

// Tuples of the application, in bursts if it has a pace.
void Agent::feed(Channel& channel) {
    if (channel.finished || world_.clock.now() < channel.next_burst) {
        return;
    }
    std::size_t n = 0;
    while (channel.offered < channel.tuples->size() && channel.data.has_room()) {
        const auto& [key, value] = (*channel.tuples)[channel.offered++];
        channel.data.offer(key, value);
        if (world_.plan.pace > 0 && ++n == kBurst) {
            channel.next_burst = world_.clock.now() + Nanos{world_.plan.pace} * kMicrosecond;
            break;
        }
    }
    if (channel.offered == channel.tuples->size()) {
        channel.finished = true;
        channel.data.finish();
    }
}

void Agent::pump(std::size_t i) {
    Channel& channel = *channels_[i];
    if (!channel.tuples) {
        return;
    }
    std::array<std::byte, kFrameRoom> packet;
    for (;;) {
        feed(channel);
        const std::size_t bytes = channel.data.next_packet(world_.clock.now(), packet);
        if (bytes == 0) {
            break;
        }
        send_payload(channel.receiver, channel.data.ports(), std::span(packet).first(bytes));
    }
    if (channel.data.fin_acked() && !channel.fin_reported) {
        channel.fin_reported = true;
        sessions.notify(world_.clock);
    }
    arm(i);
}

void Agent::arm(std::size_t i) {
    Channel& channel = *channels_[i];
    Nanos due = channel.data.deadline();
    if (!channel.finished && channel.data.has_room()) {
        due = std::min(due, std::max(channel.next_burst, world_.clock.now() + kMicrosecond));
    }
    if (due != kNever) {
        due = std::max(due, world_.clock.now() + kMicrosecond);
    }
    if (due < channel.armed) {
        channel.armed = due;
        world_.clock.at(due, this, life_ << 16U | i);
    }
}

Job<> Agent::keeper() {
    bool clear = co_await clear_left_over();
    for (;;) {
        co_await world_.sleep(kKeep);
        if (!clear) {
            clear = co_await clear_left_over();
        }
        co_await renew_tasks();
    }
}

// Channels of a former life.
Job<bool> Agent::clear_left_over() {
    SwitchDaemon& server = switchd(own_switch());
    using List = std::vector<std::pair<ChannelId, std::uint32_t>>;
    const std::uint32_t address = address_of(host_);
    std::function<Job<Result<List>>()> list = [&server, address] { return server.channels_of(address); };
    const Result<List> channels = co_await call<List>(world_, server.process, kKeepWait, std::move(list));
    if (!channels.ok()) {
        co_return false;
    }
    for (const auto& [id, incarnation] : *channels) {
        const bool ours = std::ranges::any_of(channels_, [&](const auto& channel) {
            return channel->data.id() == id && channel->data.incarnation() == incarnation;
        });
        if (ours) {
            continue;
        }
        std::function<Job<Result<Done>>()> drop = [&server, of = id, as = incarnation] {
            return server.unregister_channel(of, as);
        };
        const Result<Done> gone = co_await call<Done>(world_, server.process, kKeepWait, std::move(drop));
        if (!gone.ok()) {
            co_return false;
        }
    }
    co_return true;
}

Job<> Agent::renew_tasks() {
    std::vector<TaskPtr> tasks;
    for (const auto& [instance, task] : tasks_) {
        if (task->outcome == Outcome::kRunning && task->mark != Mark{}) {
            tasks.push_back(task);
        }
    }
    for (const TaskPtr& task : tasks) {
        SwitchDaemon& server = switchd(own_switch());
        using Reply = std::pair<Mark, bool>;
        std::function<Job<Result<Reply>>()> renew = [&server, instance = task->instance] {
            return server.renew(instance);
        };
        const Result<Reply> reply = co_await call<Reply>(world_, server.process, kKeepWait, std::move(renew));
        if (reply.ok() && (!reply->second || reply->first != task->mark) &&
            task->outcome == Outcome::kRunning) {
            if (world_.plan.keeps_tasks() && tasks_.contains(task->instance)) {
                world_.fail(Promise::kTask,
                            "task " + task->id + ": its switch took it back, though it was renewed");
            }
            task->error.emplace(Errc::kAborted, "the switch was restarted and no longer has the task");
            task->changed.notify(world_.clock);
        }
    }
    co_return Done{};
}

void Agent::check_nothing_left() {
    for (const auto& channel : channels_) {
        if (channel->leased || channel->tuples) {
            world_.fail(Promise::kLeft, "agent " + std::to_string(host_) + ": a channel is still in use");
        }
    }
    for (const auto& [instance, task] : tasks_) {
        if (task->outcome == Outcome::kRunning || !task->swaps_ended) {
            world_.fail(Promise::kLeft,
                        "agent " + std::to_string(host_) + ": task " + task->id + " still runs");
        }
    }
}

}  // namespace ask::sim
