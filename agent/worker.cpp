// SPDX-License-Identifier: Apache-2.0
#include "agent/worker.h"

#include <pthread.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <optional>

#include <spdlog/spdlog.h>

namespace ask {
namespace {

constexpr std::size_t kRxBatch = 64;
// Packets of a channel before the next one's turn, and a look at what came in (docs/decisions/0012).
constexpr std::size_t kTxBatch = 4;
constexpr std::size_t kTupleBatch = 4096;   // tuples of a ring before packets are looked at again
constexpr Nanos kRetrySend = kMillisecond;  // while the kernel takes no frames

Nanos now_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return Nanos{now.tv_sec} * kSecond + now.tv_nsec;
}

Ports ports_of(const UdpAddresses& addresses) {
    return {addresses.source_port, addresses.dest_port};
}

// The channel that a packet claims to be of; it may be cut or nonsense, which the receiver finds out.
std::optional<ChannelId> claimed_channel(std::span<const std::byte> payload) {
    if (payload.size() < sizeof(ask_hdr)) {
        return std::nullopt;
    }
    ask_hdr header{};
    std::memcpy(&header, payload.data(), sizeof(header));
    return ChannelId{__builtin_bswap32(header.host), __builtin_bswap16(header.port)};
}

}  // namespace

struct WorkerCore::Stream {
    Stream(ChannelId id, std::uint32_t incarnation, const SenderConfig& config)
        : channel(id, incarnation, config) {}

    SenderChannel channel;
    std::optional<Packer> packer;  // what the channel sends, while it has a task
    UdpAddresses addresses;
    bool local = false;
    bool counts = false;
    std::uint64_t merged = 0;    // by the application, once its ring is gone
    bool finish_wanted = false;  // the application has written its last tuple
    bool finish_called = false;
    bool fin_reported = false;
    std::shared_ptr<RingIntake> intake;  // null: it has no task, or the application has handed in everything
    std::shared_ptr<Mailbox> mailbox;

    [[nodiscard]] TupleRingConsumer* ring() const { return intake ? &intake->ring : nullptr; }
};

WorkerCore::WorkerCore(Options options, std::vector<XskSocket> sockets)
    : options_(std::move(options)),
      sockets_(std::move(sockets)),
      // Those that only receive come after the others: they have the device's highest queues.
      senders_(static_cast<std::size_t>(std::ranges::count_if(sockets_, &XskSocket::may_send))),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      receiver_(options_.limits),
      scratch_(options_.sender.payload_limit) {}

Result<> WorkerCore::watch(int fd, std::uint32_t events) const {
    epoll_event event{.events = events, .data = {.fd = fd}};
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
        return Error::from_errno(errno, "epoll_ctl");
    }
    return {};
}

Result<> WorkerCore::watch_sockets() const {
    for (const XskSocket& socket : sockets_) {
        ASK_TRY(watch(socket.fd(), EPOLLIN), "AF_XDP socket");
    }
    return {};
}

bool WorkerCore::hand_over(ChannelId channel, std::span<const std::byte> payload,
                           const UdpAddresses& addresses, bool ecn_ce, bool local) {
    const unsigned owner = owner_of(channel, options_.workers);
    if (owner == options_.index) {
        return false;
    }
    InboxPacket packet{{payload.begin(), payload.end()}, addresses, ecn_ce, local};
    count(options_.push(owner, std::move(packet)) ? AgentCounter::k_rx_handed_over
                                                  : AgentCounter::k_drop_inbox_full);
    return true;
}

// Also of what a packet claims: a port that is no channel's is nobody's.
WorkerCore::Stream* WorkerCore::find(std::uint16_t port) const {
    const std::size_t number = std::size_t{port} - ASK_CHANNEL_PORT_BASE;
    return number < streams_.size() ? streams_[number].get() : nullptr;
}

Result<> WorkerCore::add_channel(std::uint16_t port, std::uint32_t incarnation) {
    const std::size_t number = std::size_t{port} - ASK_CHANNEL_PORT_BASE;
    if (number >= ASK_MAX_CHANNELS_PER_HOST) {
        return Error(Errc::kInternal, "channel " + std::to_string(port) + ": no channel's port");
    }
    if (find(port) != nullptr) {
        return Error(Errc::kExists, "channel " + std::to_string(port));
    }
    streams_.resize(std::max(streams_.size(), number + 1));
    streams_[number] =
        std::make_unique<Stream>(ChannelId{options_.own_address, port}, incarnation, options_.sender);
    return {};
}

// In the loop from now on.
void WorkerCore::wake_stream(Stream& stream, std::shared_ptr<Mailbox> mailbox) {
    if (!stream.mailbox) {
        active_.push_back(&stream);
    }
    stream.mailbox = std::move(mailbox);
}

void WorkerCore::put_to_rest(Stream& stream) {
    drop_ring(stream);
    stream.mailbox.reset();
    std::erase(active_, &stream);
}

Result<> WorkerCore::begin_channel(Stream& stream, const FlowParams& flow) const {
    if (stream.packer) {
        return stream.channel.begin(flow, *stream.packer, now_ns());  // says which task it still serves
    }
    const PackerConfig packing = packer_config(flow, options_.sender);
    ASK_TRY(check(packing), "task instance " + std::to_string(flow.instance));
    stream.packer.emplace(packing);
    auto begun = stream.channel.begin(flow, *stream.packer, now_ns());
    if (!begun) {
        stream.packer.reset();
    }
    return begun;
}

Result<> WorkerCore::begin(StreamStart start) {
    Stream* const stream = find(start.flow.channel.port);
    if (stream == nullptr) {
        return Error(Errc::kInternal, "no channel " + std::to_string(start.flow.channel.port));
    }
    // Edge-triggered: while the channel has no room the event stays unread.
    // Every intake of this agent was made by its workers.
    auto intake = std::static_pointer_cast<RingIntake>(start.intake);
    ASK_TRY(watch(intake->ring.data_event(), EPOLLIN | EPOLLET), "tuple ring");
    stream->intake = std::move(intake);
    if (auto begun = begin_channel(*stream, start.flow); !begun) {
        drop_ring(*stream);
        return begun;
    }
    stream->addresses = start.addresses;
    stream->addresses.source_port = stream->channel.ports().source;
    stream->addresses.dest_port = stream->channel.ports().dest;
    stream->local = start.local;
    stream->counts = start.counts;
    stream->merged = 0;
    stream->finish_wanted = stream->finish_called = stream->fin_reported = false;
    wake_stream(*stream, std::move(start.mailbox));
    return {};
}

void WorkerCore::set_addresses(std::uint16_t port, const UdpAddresses& addresses) {
    if (Stream* const stream = find(port); stream != nullptr) {
        stream->addresses.source_mac = addresses.source_mac;
        stream->addresses.dest_mac = addresses.dest_mac;
    }
}

void WorkerCore::finish(std::uint16_t port) {
    if (Stream* const stream = find(port); stream != nullptr) {
        stream->finish_wanted = true;
    }
}

void WorkerCore::drop_ring(Stream& stream) const {
    if (const TupleRingConsumer* const ring = stream.ring(); ring != nullptr) {
        ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, ring->data_event(), nullptr);
        stream.merged = ring->merged();
        stream.intake.reset();
    }
}

SenderStats WorkerCore::stats_of(const Stream& stream) {
    return {stream.channel.stats(), stream.packer ? stream.packer->stats() : PackerStats{},
            stream.intake ? stream.intake->ring.merged() : stream.merged};
}

SenderStats WorkerCore::end(std::uint16_t port) {
    Stream* const stream = find(port);
    if (stream == nullptr) {
        return {};
    }
    put_to_rest(*stream);
    const SenderStats last = stats_of(*stream);
    stream->channel.end();
    stream->packer.reset();
    return last;
}

SenderStats WorkerCore::abandon(std::uint16_t port, std::uint32_t new_incarnation) {
    Stream* const stream = find(port);
    if (stream == nullptr) {
        return {};
    }
    put_to_rest(*stream);
    const SenderStats last = stats_of(*stream);
    stream->channel.abandon(new_incarnation);
    stream->packer.reset();
    return last;
}

StreamState WorkerCore::stream_state(std::uint16_t port) const {
    StreamState state;
    if (const Stream* const stream = find(port); stream != nullptr) {
        const SenderChannel& channel = stream->channel;
        state.stats = stats_of(*stream);
        state.next_seq = channel.next_seq();
        state.incarnation = channel.incarnation();
        state.in_flight = channel.in_flight();
        state.window = channel.window();
        state.srtt = channel.srtt();
        state.since_progress = channel.in_flight() > 0 ? now_ns() - channel.last_progress() : 0;
    }
    return state;
}

AckTimes WorkerCore::ack_times(std::uint16_t port) const {
    const Stream* const stream = find(port);
    return stream != nullptr ? stream->channel.ack_times() : AckTimes();
}

Result<> WorkerCore::open_task(std::uint64_t instance, ResultTable table, std::shared_ptr<Mailbox> mailbox,
                               std::shared_ptr<TaskArrivals> arrivals) {
    auto [at, fresh] = tasks_.try_emplace(instance);
    if (!fresh) {
        return Error(Errc::kExists, "task instance is open on this worker");
    }
    at->second =
        Task{std::make_unique<ResultTable>(std::move(table)), {}, std::move(mailbox), std::move(arrivals)};
    return {};
}

Result<> WorkerCore::join(const FlowParams& flow) {
    const auto task = tasks_.find(flow.instance);
    if (task == tasks_.end()) {
        return Error(Errc::kUnknown, "the task has ended");
    }
    ASK_PASS(validate(flow.geometry));
    std::optional<TableSink>& sink = task->second.sink;
    if (!sink) {
        sink.emplace(flow.geometry, flow.op, *task->second.table);
    }
    return receiver_.join(flow, &*sink);
}

std::unique_ptr<ResultTable> WorkerCore::close_task(std::uint64_t instance, bool failed) {
    receiver_.end_task(instance, failed);
    auto node = tasks_.extract(instance);
    return node.empty() || failed ? nullptr : std::move(node.mapped().table);
}

FlowRxStats WorkerCore::flow_stats(std::uint64_t instance, ChannelId channel) const {
    return receiver_.flow_stats(instance, channel);
}

WorkerTotals WorkerCore::totals() const {
    WorkerTotals totals;
    for (std::size_t i = 0; i < totals.receiver.size(); ++i) {
        totals.receiver[i] = receiver_.counter(static_cast<ReceiverCounter>(i));
    }
    for (const XskSocket& socket : sockets_) {
        const XskCounters counters = socket.counters();
        for (std::size_t i = 0; i < counters.size(); ++i) {
            totals.xsk[i] += counters[i];
        }
    }
    return totals;
}

bool WorkerCore::receive() {
    std::array<XskFrame, kRxBatch> batch;
    bool any = false;
    for (XskSocket& socket : sockets_) {
        const std::size_t n = socket.receive(batch);
        for (std::size_t i = 0; i < n; ++i) {
            handle_frame(socket, batch[i]);
        }
        any = any || n > 0;
    }
    return any;
}

// Ends with the frame sent or recycled.
void WorkerCore::handle_frame(XskSocket& socket, const XskFrame& frame) {
    const auto packet = parse_frame(frame.bytes);
    if (!packet) {
        count(AgentCounter::k_rx_bad_frame);
        socket.recycle(frame);
        return;
    }
    if (packet->addresses.dest_port == ASK_UDP_PORT) {
        handle_data(socket, frame, *packet);
        return;
    }
    count(AgentCounter::k_rx_acks);
    const ChannelId channel{options_.own_address, packet->addresses.dest_port};
    if (!hand_over(channel, packet->payload, packet->addresses, false, false)) {
        handle_ack(packet->payload, ports_of(packet->addresses));
    }
    socket.recycle(frame);
}

void WorkerCore::handle_data(XskSocket& socket, const XskFrame& frame, const UdpFrame& packet) {
    count(AgentCounter::k_rx_data);
    const auto channel = claimed_channel(packet.payload);
    // An ACK goes where the packet came from, so that must be the channel's host and nobody else.
    if (channel && channel->host != packet.addresses.source) {
        count(AgentCounter::k_rx_bad_source);
        socket.recycle(frame);
        return;
    }
    if (channel && hand_over(*channel, packet.payload, packet.addresses, packet.ecn_ce, false)) {
        socket.recycle(frame);
        return;
    }
    const std::size_t ack = accept(packet.payload, ports_of(packet.addresses), packet.ecn_ce);
    if (ack == 0) {
        socket.recycle(frame);
        return;
    }
    const UdpAddresses back = packet.addresses.reversed();
    if (!socket.may_send()) {
        socket.recycle(frame);
        answer_remote(back, ack);
        return;
    }
    // The answer goes out in the frame that the question came in.
    std::memcpy(frame.bytes.data() + kFrameHeaderBytes, ack_.data(), ack);
    count(socket.send(frame, write_frame_header(frame.bytes, back, ack)) ? AgentCounter::k_tx_acks
                                                                         : AgentCounter::k_drop_ack_no_room);
}

std::size_t WorkerCore::accept(std::span<const std::byte> payload, Ports ports, bool ecn_ce) {
    const RxVerdict verdict = receiver_.on_packet(payload, ports, ecn_ce, ack_);
    if (verdict.counter == ReceiverCounter::k_accepted_data) {
        note_arrival(verdict);
    }
    if (verdict.fin || verdict.counter == ReceiverCounter::k_table_full) {
        const auto task = tasks_.find(verdict.instance);
        if (task != tasks_.end() && verdict.fin) {
            task->second.mailbox->post(SessionEvent{SessionEvent::Kind::kFin, verdict.channel, {}});
        } else if (task != tasks_.end()) {
            task->second.mailbox->post(
                SessionEvent{SessionEvent::Kind::kTableFull, verdict.channel,
                             Error(Errc::kLimit,
                                   "the result does not fit the agent's memory for tables: raise "
                                   "table_limit_mib, or receive fewer distinct keys")});
        }
    }
    return verdict.ack_bytes;
}

void WorkerCore::note_arrival(const RxVerdict& verdict) {
    const auto task = tasks_.find(verdict.instance);
    if (task != tasks_.end() && task->second.arrivals) {
        task->second.arrivals->note(verdict);
    }
}

void WorkerCore::handle_ack(std::span<const std::byte> payload, Ports ports) {
    Stream* const stream = find(ports.dest);
    if (stream == nullptr) {
        count(AgentCounter::k_rx_no_channel);
        return;
    }
    stream->channel.on_packet(now_ns(), payload, ports);
}

bool WorkerCore::take_inbox(PacketInbox& inbox) {
    const auto packets = inbox.take();
    for (const InboxPacket& packet : packets) {
        handle_inbox_packet(packet);
    }
    return !packets.empty();
}

void WorkerCore::handle_inbox_packet(const InboxPacket& packet) {
    const Ports ports = ports_of(packet.addresses);
    if (ports.dest != ASK_UDP_PORT) {
        handle_ack(packet.payload, ports);
        return;
    }
    const std::size_t ack = accept(packet.payload, ports, packet.ecn_ce);
    if (ack == 0) {
        return;
    }
    if (packet.local) {
        const auto answer = ack_;
        deliver_local(std::span(answer).first(ack), {ports.dest, ports.source});
    } else {
        answer_remote(packet.addresses.reversed(), ack);
    }
}

void WorkerCore::answer_remote(const UdpAddresses& to, std::size_t ack_bytes) {
    XskSocket& socket = sockets_.front();
    const auto frame = socket.take();
    if (!frame) {
        count(AgentCounter::k_drop_ack_no_room);
        return;
    }
    std::memcpy(frame->bytes.data() + kFrameHeaderBytes, ack_.data(), ack_bytes);
    count(socket.send(*frame, write_frame_header(frame->bytes, to, ack_bytes))
              ? AgentCounter::k_tx_acks
              : AgentCounter::k_drop_ack_no_room);
}

void WorkerCore::deliver_local(std::span<const std::byte> payload, Ports ports) {
    count(AgentCounter::k_local_packets);
    const bool data = ports.dest == ASK_UDP_PORT;
    const ChannelId channel{options_.own_address, data ? ports.source : ports.dest};
    UdpAddresses addresses;
    addresses.source = addresses.dest = options_.own_address;
    addresses.source_port = ports.source;
    addresses.dest_port = ports.dest;
    if (hand_over(channel, payload, addresses, false, true)) {
        return;
    }
    if (!data) {
        handle_ack(payload, ports);
        return;
    }
    const std::size_t ack = accept(payload, ports, false);
    if (ack > 0) {
        const auto answer = ack_;
        deliver_local(std::span(answer).first(ack), {ports.dest, ports.source});
    }
}

bool WorkerCore::pump() {
    bool any = false;
    for (Stream* const stream : active_) {
        any = serve(*stream) || any;
        if (stream->channel.fin_acked() && !stream->fin_reported) {
            stream->fin_reported = true;
            stream->mailbox->post(SessionEvent::Kind::kFinAcked);
        }
    }
    return any;
}

// A full channel has one packet to give, and then room for as many tuples: without taking turns each packet
// would cost its own way into the kernel and through the switch.
bool WorkerCore::serve(Stream& stream) {
    std::size_t sent = 0;
    bool any = false;
    for (bool more = true; more && sent < kTxBatch;) {
        more = pull_tuples(stream);
        const std::size_t packets = send_packets(stream, kTxBatch - sent);
        sent += packets;
        more = more || packets > 0;
        any = any || more;
    }
    return any;
}

// Moves tuples from the application's ring into the channel, as many as have room.
bool WorkerCore::pull_tuples(Stream& stream) {
    TupleRingConsumer* const ring = stream.ring();
    if (ring == nullptr) {
        return false;
    }
    std::string_view key;
    std::int64_t value = 0;
    std::size_t n = 0;
    bool empty = false;
    while (n < kTupleBatch && stream.packer->has_room()) {
        auto more = ring->peek(key, value);
        if (more.ok() && *more && stream.counts && value < 1) {
            more =
                Error(Errc::kInput, "tuple ring: a count of " + std::to_string(value) + "; they start at 1");
        }
        if (!more) {
            stream.mailbox->post(SessionEvent{SessionEvent::Kind::kRingBroken, {}, more.error()});
            drop_ring(stream);
            return true;
        }
        if (!*more) {
            empty = true;
            break;
        }
        stream.packer->add(key, value);
        ring->pop();
        ++n;
    }
    if (n > 0) {
        ring->release();
    }
    if (empty && stream.finish_wanted && !stream.finish_called) {
        stream.finish_called = true;
        stream.channel.finish();
        drop_ring(stream);
        return true;
    }
    return n > 0;
}

std::size_t WorkerCore::send_packets(Stream& stream, std::size_t most) {
    const Nanos now = now_ns();
    std::size_t sent = 0;
    while (sent < most && (stream.local ? send_local(stream, now) : send_remote(stream, now))) {
        ++sent;
    }
    return sent;
}

bool WorkerCore::send_remote(Stream& stream, Nanos now) {
    XskSocket& socket = sockets_[stream.channel.id().port % senders_];
    const auto frame = socket.take();
    if (!frame) {
        return false;
    }
    const std::size_t bytes = stream.channel.next_packet(
        now, frame->bytes.subspan(kFrameHeaderBytes, options_.sender.payload_limit));
    if (bytes == 0) {
        socket.recycle(*frame);
        return false;
    }
    // A frame that is dropped here is one that got lost on the way: it is sent again.
    if (socket.send(*frame, write_frame_header(frame->bytes, stream.addresses, bytes))) {
        count(AgentCounter::k_tx_packets);
    }
    return true;
}

bool WorkerCore::send_local(Stream& stream, Nanos now) {
    const std::size_t bytes = stream.channel.next_packet(now, scratch_);
    if (bytes == 0) {
        return false;
    }
    deliver_local(std::span(scratch_).first(bytes), stream.channel.ports());
    return true;
}

bool WorkerCore::kick() {
    bool waiting = false;
    for (XskSocket& socket : sockets_) {
        if (socket.account().sending > 0) {
            waiting = socket.kick() > 0 || waiting;
        }
    }
    return waiting;
}

bool WorkerCore::arm() {
    for (Stream* const stream : active_) {
        if (stream->intake && stream->packer->has_room() && stream->intake->ring.arm()) {
            return false;
        }
    }
    return true;
}

Nanos WorkerCore::deadline() const {
    Nanos first = kNever;
    for (const Stream* const stream : active_) {
        first = std::min(first, stream->channel.deadline());
    }
    return first;
}

Worker::Worker(WorkerCore::Options options, std::vector<XskSocket> sockets)
    : index_(options.index), core_(std::move(options), std::move(sockets)), inbox_(kMaxInbox) {}

Worker::~Worker() {
    stop();
}

Result<> Worker::start() {
    if (core_.epoll_fd() < 0 || !wake_.ok()) {
        return Error(Errc::kLimit, "worker " + std::to_string(index_) + ": no file descriptors left");
    }
    ASK_TRY(core_.watch(wake_.fd(), EPOLLIN), "worker");
    ASK_TRY(core_.watch_sockets(), "worker");
    thread_ = std::thread([this] { loop(); });
    ::pthread_setname_np(thread_.native_handle(), ("ask-worker-" + std::to_string(index_)).c_str());
    return {};
}

void Worker::stop() {
    stop_.store(true, std::memory_order_release);
    wake_.notify();
    if (thread_.joinable()) {
        thread_.join();
    }
}

Result<> Worker::post(std::shared_ptr<Posted> posted) {
    {
        const std::lock_guard lock(mutex_);
        if (stop_.load(std::memory_order_acquire)) {
            return Error(Errc::kAborted, "worker " + std::to_string(index_) + " has been stopped");
        }
        if (commands_.size() >= kMaxCommands) {
            return Error(Errc::kLimit, "worker " + std::to_string(index_) + ": too many commands wait");
        }
        commands_.push_back(std::move(posted));
    }
    wake_.notify();
    return {};
}

bool Worker::push(InboxPacket packet) {
    if (!inbox_.push(std::move(packet))) {
        return false;
    }
    wake_.notify();
    return true;
}

bool Worker::run_commands() {
    std::deque<std::shared_ptr<Posted>> commands;
    {
        const std::lock_guard lock(mutex_);
        commands.swap(commands_);
    }
    for (const auto& posted : commands) {
        if (!posted->taken.exchange(true)) {
            posted->run(core_);
        }
    }
    return !commands.empty();
}

void Worker::loop() {
    while (!stop_.load(std::memory_order_acquire)) {
        bool busy = run_commands();
        busy = core_.receive() || busy;
        busy = core_.take_inbox(inbox_) || busy;
        busy = core_.pump() || busy;
        const bool frames_wait = core_.kick();
        if (!busy && core_.arm()) {
            sleep(frames_wait);
        }
    }
    // Callers that still wait get an answer.
    run_commands();
}

// Until a socket, a ring, a command or a timer has something to do.
void Worker::sleep(bool frames_wait) {
    Nanos wait = core_.deadline();
    if (wait != kNever) {
        wait = std::max<Nanos>(wait - now_ns(), 0);
    }
    if (frames_wait) {
        wait = std::min(wait, kRetrySend);
    }
    timespec limit{.tv_sec = static_cast<time_t>(wait / kSecond),
                   .tv_nsec = static_cast<long>(wait % kSecond)};
    std::array<epoll_event, 8> events;
    const int n = ::epoll_pwait2(core_.epoll_fd(), events.data(), static_cast<int>(events.size()),
                                 wait == kNever ? nullptr : &limit, nullptr);
    for (int i = 0; i < n; ++i) {
        if (events[static_cast<std::size_t>(i)].data.fd == wake_.fd()) {
            wake_.drain();
        }
    }
}

}  // namespace ask
