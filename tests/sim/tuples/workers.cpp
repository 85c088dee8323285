// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/tuples/workers.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "lib/net/frame.h"
#include "tests/sim/tuples/threads.h"

namespace ask::sim {

namespace {

constexpr std::uint64_t kCommandUs = 20;

std::uint64_t acknowledged(const SenderChannel& channel) {
    return channel.stats().packets_acked_by_switch + channel.stats().packets_acked_by_receiver;
}

Error stopped_error() {
    return {Errc::kAborted, "the workers have been stopped"};
}

}  // namespace

SenderConfig SimWorkers::sender_config(const Plan& plan) {
    SenderConfig config;
    const Geometry geometry = plan.geometry();
    config.rto_initial = 2 * kMillisecond;
    config.rto_floor = 300 * kMicrosecond;
    config.rto_ceiling = 20 * kMillisecond;
    config.hold = plan.hold;
    // Room for the default geometry, which a task may get.
    constexpr unsigned kLeast = 180;
    constexpr unsigned kLeastOfDefault = 400;
    config.payload_limit =
        std::max(geometry.payload_bytes(geometry.rows), plan.fit > 0 ? kLeastOfDefault : kLeast);
    return config;
}

SimWorkers::SimWorkers(World& world, Network& network, std::uint32_t host)
    : world_(world), network_(network), host_(host) {
    for (std::uint32_t i = 0; i < std::max(world.plan.workers, 1U); ++i) {
        parts_.push_back(std::make_unique<Part>());
    }
}

bool SimWorkers::get_through() {
    park(nullptr, world_.clock.now() + world_.some_us(kCommandUs));
    return !unwinding() && !dead_;
}

SimWorkers::Stream* SimWorkers::find(ChannelId channel) {
    const std::size_t number = std::size_t{channel.port} - ASK_CHANNEL_PORT_BASE;
    return number < streams_.size() ? streams_[number].get() : nullptr;
}

Result<> SimWorkers::add_channel(ChannelId channel, std::uint32_t incarnation) {
    if (!get_through()) {
        return stopped_error();
    }
    streams_.push_back(std::make_unique<Stream>(channel, incarnation, sender_config(world_.plan)));
    return {};
}

Result<std::shared_ptr<TupleIntake>> SimWorkers::make_intake(std::size_t /*bytes*/) {
    return std::shared_ptr<TupleIntake>(std::make_shared<SimIntake>());
}

Result<> SimWorkers::begin(StreamStart start) {
    if (!get_through()) {
        return stopped_error();
    }
    Stream& stream = *find(start.flow.channel);
    ASK_PASS(stream.data.begin(start.flow, world_.plan.hold, world_.clock.now()));
    stream.intake = std::static_pointer_cast<SimIntake>(start.intake);
    stream.intake->instance = start.flow.instance;
    stream.intake->has_more = [this, &stream, intake = stream.intake.get()] {
        if (stream.intake.get() == intake) {
            arm(stream);
        }
    };
    stream.mailbox = std::move(start.mailbox);
    stream.receiver = start.addresses.dest;
    stream.local = start.local;
    stream.finish_wanted = stream.finished = stream.fin_reported = false;
    arm(stream);
    return {};
}

Result<> SimWorkers::set_addresses(ChannelId channel, const UdpAddresses& addresses) {
    if (!get_through()) {
        return stopped_error();
    }
    find(channel)->receiver = addresses.dest;
    return {};
}

Result<> SimWorkers::finish(ChannelId channel) {
    if (!get_through()) {
        return stopped_error();
    }
    Stream& stream = *find(channel);
    stream.finish_wanted = true;
    arm(stream);
    return {};
}

void SimWorkers::rest(Stream& stream) {
    if (stream.intake) {
        stream.intake->has_more = nullptr;
        stream.intake.reset();
    }
    stream.mailbox.reset();
}

Result<SenderStats> SimWorkers::end(ChannelId channel) {
    if (!get_through()) {
        return stopped_error();
    }
    Stream& stream = *find(channel);
    rest(stream);
    return stream.data.end();
}

Result<SenderStats> SimWorkers::abandon(ChannelId channel, std::uint32_t new_incarnation) {
    if (!get_through()) {
        return stopped_error();
    }
    Stream& stream = *find(channel);
    rest(stream);
    return stream.data.abandon(new_incarnation);
}

Result<StreamState> SimWorkers::stream_state(ChannelId channel) {
    if (!get_through()) {
        return stopped_error();
    }
    const test::TupleChannel& data = find(channel)->data;
    StreamState state;
    state.stats = data.stats();
    state.next_seq = data.next_seq();
    state.incarnation = data.incarnation();
    state.in_flight = data.in_flight();
    state.since_progress = data.in_flight() > 0 ? world_.clock.now() - data.last_progress() : 0;
    return state;
}

Result<> SimWorkers::open_task(unsigned worker, std::uint64_t instance, ResultTable table,
                               std::shared_ptr<Mailbox> mailbox, bool in_parts) {
    if (!get_through()) {
        return stopped_error();
    }
    Task& task = parts_[worker]->tasks[instance];
    task.table = std::make_unique<ResultTable>(std::move(table));
    task.mailbox = std::move(mailbox);
    task.in_parts = in_parts;
    return {};
}

Result<ResultTable> SimWorkers::exchange_table(std::uint64_t instance, ChannelId channel, ResultTable fresh) {
    if (!get_through()) {
        return stopped_error();
    }
    Part& part = owner(channel);
    const auto task = part.tasks.find(instance);
    if (task == part.tasks.end()) {
        return Error(Errc::kUnknown, "the task has ended");
    }
    task->second.full = false;
    std::swap(*task->second.table, fresh);
    return fresh;
}

Result<> SimWorkers::join(const FlowParams& flow, std::shared_ptr<TaskArrivals> arrivals) {
    if (!get_through()) {
        return stopped_error();
    }
    Part& part = owner(flow.channel);
    const auto task = part.tasks.find(flow.instance);
    if (task == part.tasks.end()) {
        return Error(Errc::kUnknown, "the task has ended");
    }
    if (!task->second.sink) {
        task->second.sink.emplace(flow.geometry, flow.op, *task->second.table);
    }
    ASK_PASS(part.receiver.join(flow, &*task->second.sink));
    if (arrivals) {
        task->second.arrivals[flow.channel] = std::move(arrivals);
    }
    return {};
}

Result<std::unique_ptr<ResultTable>> SimWorkers::close_task(unsigned worker, std::uint64_t instance,
                                                            bool failed) {
    if (!get_through()) {
        return stopped_error();
    }
    Part& part = *parts_[worker];
    part.receiver.end_task(instance, failed);
    auto node = part.tasks.extract(instance);
    return node.empty() || failed ? nullptr : std::move(node.mapped().table);
}

Result<FlowRxStats> SimWorkers::flow_stats(std::uint64_t instance, ChannelId channel) {
    if (!get_through()) {
        return stopped_error();
    }
    return owner(channel).receiver.flow_stats(instance, channel);
}

void SimWorkers::send(std::uint32_t to, Ports ports, std::span<const std::byte> payload) {
    FramePtr frame = network_.new_frame();
    UdpAddresses addresses = addresses_between(host_, host_of(to));
    addresses.source_mac = mac_of_host(host_);
    addresses.dest_mac = mac_of_switch(network_.switch_of(host_));
    addresses.source_port = ports.source;
    addresses.dest_port = ports.dest;
    const auto room = std::as_writable_bytes(std::span(frame->bytes));
    std::memcpy(&room[header_bytes()], payload.data(), payload.size());
    frame->size = write_frame_header(room, addresses, payload.size());
    if (world_.tracing) {
        world_.note("host %u: sends %s", host_, frame_text(*frame).c_str());
    }
    network_.send_from_host(host_, std::move(frame));
}

void SimWorkers::take(const Frame& frame) {
    const auto parsed = parse_frame(frame.view());
    if (dead_ || paused_ || !parsed || parsed->addresses.dest != address_of(host_)) {
        return;
    }
    const Ports ports{parsed->addresses.source_port, parsed->addresses.dest_port};
    deliver(parsed->addresses.source, ports, parsed->payload, parsed->ecn_ce);
}

void SimWorkers::deliver(std::uint32_t from, Ports ports, std::span<const std::byte> payload, bool ecn_ce) {
    if (ports.dest == ASK_UDP_PORT) {
        take_data(from, ports, payload, ecn_ce);
    } else {
        take_ack(ports, payload);
    }
}

void SimWorkers::take_data(std::uint32_t from, Ports ports, std::span<const std::byte> payload, bool ecn_ce) {
    std::array<std::byte, sizeof(ask_hdr)> ack;
    // By whoever's channel it says it is; what it says is checked there.
    ChannelId channel{from, ports.source};
    Part& part = owner(channel);
    const RxVerdict verdict = part.receiver.on_packet(payload, ports, ecn_ce, ack);
    if (world_.tracing) {
        constexpr const char* kNames[] = {
#define ASK_X(name, class_, text) #name,
            ASK_RECEIVER_COUNTERS(ASK_X)
#undef ASK_X
        };
        world_.note("host %u: receives of port %u: %s", host_, ports.source,
                    kNames[static_cast<std::size_t>(verdict.counter)]);
    }
    if (verdict.ack_bytes > 0) {
        const auto answer = std::span(ack).first(verdict.ack_bytes);
        if (from == address_of(host_)) {
            take_ack({ports.dest, ports.source}, answer);
        } else if (host_of(from) < world_.plan.nodes()) {
            send(from, {ports.dest, ports.source}, answer);
        }
    }
    note(part, verdict, world_.plan);
}

void SimWorkers::take_ack(Ports ports, std::span<const std::byte> payload) {
    Stream* const stream = find({address_of(host_), ports.dest});
    if (stream == nullptr) {
        return;
    }
    const std::uint64_t acked = acknowledged(stream->data);
    stream->data.on_packet(world_.clock.now(), payload, ports);
    if (acknowledged(stream->data) > acked) {
        world_.moves();
    }
    // A channel to this host goes on by itself.
    if (!stream->pumping) {
        turn(*stream);
    }
}

void SimWorkers::note(Part& part, const RxVerdict& verdict, const Plan& plan) {
    const auto task = part.tasks.find(verdict.instance);
    if (task == part.tasks.end()) {
        return;
    }
    const auto arrivals = task->second.arrivals.find(verdict.channel);
    if (verdict.counter == ReceiverCounter::k_accepted_data && arrivals != task->second.arrivals.end()) {
        arrivals->second->note(verdict);
    }
    if (verdict.fin && !plan.waits_for_ever()) {
        task->second.mailbox->post(SessionEvent{SessionEvent::Kind::kFin, verdict.channel, {}});
    }
    if (verdict.counter == ReceiverCounter::k_table_full && task->second.in_parts) {
        if (!std::exchange(task->second.full, true)) {
            task->second.mailbox->post(SessionEvent{SessionEvent::Kind::kPartFull, verdict.channel, {}});
        }
    } else if (verdict.counter == ReceiverCounter::k_table_full) {
        task->second.mailbox->post(SessionEvent{SessionEvent::Kind::kTableFull, verdict.channel,
                                                Error(Errc::kLimit, "the result does not fit")});
    }
}

void SimWorkers::feed(Stream& stream) {
    if (!stream.intake || stream.finished) {
        return;
    }
    SimIntake& intake = *stream.intake;
    while (intake.taken < intake.handed_in && stream.data.has_room()) {
        const auto& [key, value] = (*intake.tuples)[intake.taken++];
        stream.data.offer(key, value);
    }
    if (intake.taken == intake.handed_in && stream.finish_wanted) {
        stream.finished = true;
        stream.data.finish();
    }
}

void SimWorkers::pump(Stream& stream) {
    if (!stream.mailbox) {
        return;
    }
    std::array<std::byte, kFrameRoom> packet;
    for (;;) {
        feed(stream);
        const std::size_t bytes = stream.data.next_packet(world_.clock.now(), packet);
        if (bytes == 0) {
            break;
        }
        const auto payload = std::span(packet).first(bytes);
        if (stream.local) {
            take_data(address_of(host_), stream.data.ports(), payload, false);
        } else {
            send(stream.receiver, stream.data.ports(), payload);
        }
    }
    if (stream.data.fin_acked() && !stream.fin_reported) {
        stream.fin_reported = true;
        stream.mailbox->post(SessionEvent::Kind::kFinAcked);
    }
}

// Soon.
void SimWorkers::arm(Stream& stream) {
    arm_at(stream, world_.clock.now() + kMicrosecond);
}

void SimWorkers::arm_at(Stream& stream, Nanos when) {
    if (when < stream.armed) {
        stream.armed = when;
        world_.clock.at(when, this, stream.data.id().port - std::uint64_t{ASK_CHANNEL_PORT_BASE});
    }
}

void SimWorkers::turn(Stream& stream) {
    stream.pumping = true;
    pump(stream);
    stream.pumping = false;
    if (stream.mailbox && stream.data.deadline() != kNever) {
        arm_at(stream, std::max(stream.data.deadline(), world_.clock.now() + kMicrosecond));
    }
}

void SimWorkers::fire(std::uint64_t argument) {
    Stream& stream = *streams_[argument];
    // Only the timer set last counts.
    if (!dead_ && stream.armed == world_.clock.now()) {
        stream.armed = kNever;
        if (!paused_) {
            turn(stream);
        }
    }
}

void SimWorkers::go_on() {
    paused_ = false;
    for (const auto& stream : streams_) {
        arm(*stream);
    }
}

std::string SimWorkers::left_over() const {
    for (const auto& part : parts_) {
        if (!part->tasks.empty()) {
            return std::to_string(part->tasks.size()) + " tasks are left on its workers";
        }
    }
    for (const auto& stream : streams_) {
        if (stream->mailbox || !stream->data.idle()) {
            return "channel " + std::to_string(stream->data.id().port) + " still has a task";
        }
    }
    return {};
}

}  // namespace ask::sim
