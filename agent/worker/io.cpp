// SPDX-License-Identifier: Apache-2.0
//
// What a worker's packets go through: its sockets, its inbox and the tasks of its own host.
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "agent/worker.h"
#include "agent/worker/group.h"
#include "agent/worker/now.h"
#include "agent/worker/stream.h"

namespace ask {
namespace {

constexpr std::size_t kRxBatch = 64;

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

WorkerCore::WorkerCore(Options options, std::vector<XskSocket> sockets)
    : options_(std::move(options)),
      sockets_(std::move(sockets)),
      ways_(find_ways()),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      receiver_(options_.limits),
      scratch_(options_.sender.payload_limit) {}

WorkerCore::~WorkerCore() = default;

// Where none is left that sends, packets leave by one that does not, and are lost on the way.
std::vector<WorkerCore::Way> WorkerCore::find_ways() const {
    std::vector<Way> ways;
    for (const bool all : {false, true}) {
        for (std::size_t i = 0; i < sockets_.size(); ++i) {
            const XskSocket& socket = sockets_[i];
            if (!socket.may_send() || (!all && rests(socket))) {
                continue;
            }
            const auto known = std::ranges::find(ways, socket.mac(), &Way::mac);
            if (known == ways.end()) {
                ways.push_back({.mac = socket.mac(), .senders = {i}});
            } else if (!all) {
                known->senders.push_back(i);
            }
        }
    }
    return ways;
}

bool WorkerCore::rests(const XskSocket& socket) const {
    const auto bond = resting_.empty() ? resting_.end() : resting_.find(socket.mac());
    return bond != resting_.end() &&
           std::ranges::find(bond->second, socket.interface()) != bond->second.end();
}

Result<> WorkerCore::change_link(const LinkChange& change, std::vector<XskSocket> fresh) {
    for (const XskSocket& socket : fresh) {
        ASK_TRY(watch(socket.fd(), EPOLLIN), "AF_XDP socket");
    }
    close_sockets(change, fresh);
    std::ranges::move(fresh, std::back_inserter(sockets_));
    if (change.resting.empty()) {
        resting_.erase(change.mac);
    } else {
        resting_.insert_or_assign(change.mac, change.resting);
    }
    ways_ = find_ways();
    return {};
}

// Those on members that have gone, or have come again as others. The last that there are stay, as packets
// have to leave by some, but nobody waits for what comes in by them.
void WorkerCore::close_sockets(const LinkChange& change, std::span<const XskSocket> fresh) {
    const auto is_gone = [&](const XskSocket& socket) {
        const bool again = std::ranges::find(fresh, socket.interface(), &XskSocket::interface) != fresh.end();
        return socket.mac() == change.mac &&
               (again || std::ranges::find(change.members, socket.interface()) == change.members.end());
    };
    const bool any_left = !fresh.empty() || std::ranges::any_of(sockets_, [&](const XskSocket& socket) {
        return socket.mac() == change.mac && !is_gone(socket);
    });
    if (any_left) {
        std::erase_if(sockets_, is_gone);
        return;
    }
    for (const XskSocket& socket : sockets_) {
        if (is_gone(socket)) {
            // It may have been so before.
            ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket.fd(), nullptr);
        }
    }
}

XskSocket& WorkerCore::way_out(const MacAddress& from, std::uint16_t port) {
    const auto found = std::ranges::find(ways_, from, &Way::mac);
    const Way& way = found == ways_.end() ? ways_.front() : *found;
    return sockets_[way.senders[port % way.senders.size()]];
}

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
        totals.frames_sending += socket.account().sending;
    }
    totals.senders = ended_senders_;
    totals.ack_times = ended_ack_times_;
    for (const Stream* const stream : active_) {
        add(totals.senders, stats_of(*stream));
        totals.ack_times.add(stream->channel.ack_times());
        totals.in_flight += stream->channel.in_flight();
    }
    totals.streams = active_.size();
    totals.members = ended_members_;
    totals.collectors = ended_collectors_;
    for (const auto& [instance, group] : groups_) {
        add_stats(*group, totals.members, totals.collectors);
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
    if (is_values(packet->payload)) {
        take_values(packet->payload, packet->addresses, packet->ecn_ce);
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
    if (!socket.may_send() || rests(socket)) {
        socket.recycle(frame);
        answer_remote(back, ack);
        return;
    }
    // The answer goes out in the frame that the question came in.
    std::memcpy(frame.bytes.data() + back.header_bytes(), ack_.data(), ack);
    count(socket.send(frame, write_frame_header(frame.bytes, back, ack)) ? AgentCounter::k_tx_acks
                                                                         : AgentCounter::k_drop_ack_no_room);
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
    if (is_values(packet.payload)) {
        take_values(packet.payload, packet.addresses, packet.ecn_ce);
        return;
    }
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

void WorkerCore::answer_remote(const UdpAddresses& to, std::size_t ack_bytes) {
    XskSocket& socket = way_out(to.source_mac, 0);
    const auto frame = socket.take();
    if (!frame) {
        count(AgentCounter::k_drop_ack_no_room);
        return;
    }
    std::memcpy(frame->bytes.data() + to.header_bytes(), ack_.data(), ack_bytes);
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

bool WorkerCore::kick() {
    bool waiting = false;
    for (XskSocket& socket : sockets_) {
        if (socket.account().sending > 0) {
            waiting = socket.kick() > 0 || waiting;
        }
    }
    return waiting;
}

}  // namespace ask
