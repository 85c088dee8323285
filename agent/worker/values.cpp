// SPDX-License-Identifier: Apache-2.0
//
// A worker's groups: operations from the application's ring, packets in and out, results into its arena.
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "agent/worker.h"
#include "agent/worker/group.h"
#include "agent/worker/now.h"
#include "lib/base/bytes.h"
#include "lib/client/shared_memory.h"

namespace ask {
namespace {

constexpr std::size_t kValueTxBatch = 8;  // of a group, before the next one's turn

// A part of the arena, of values that the application says are there. Nothing: it is beyond it.
std::optional<std::span<std::byte>> part_of(std::span<std::byte> arena, std::uint64_t offset,
                                            std::uint64_t bytes) {
    if (offset % kGroupAlignment != 0 || offset > arena.size() || bytes > arena.size() - offset) {
        return std::nullopt;
    }
    return arena.subspan(offset, bytes);
}

Error bad(const GroupDescriptor& descriptor, const std::string& what, Errc code = Errc::kInput) {
    return {code, "operation " + std::to_string(descriptor.number) + ": " + what};
}

// Of an application that knows more than this agent.
Error strange(const GroupDescriptor& descriptor, const std::string& what) {
    return bad(descriptor, what, Errc::kUnsupported);
}

std::optional<values::Kind> kind_of(GroupKind kind) {
    switch (kind) {
        case GroupKind::kAllreduce:
            return values::Kind::kAllReduce;
        case GroupKind::kReduce:
            return values::Kind::kReduce;
        case GroupKind::kBroadcast:
            return values::Kind::kBroadcast;
        case GroupKind::kBarrier:
            return values::Kind::kBarrier;
    }
    return std::nullopt;
}

// A sum in fewer bits is one of another width.
void set_operator(values::Operation& operation, GroupOp op) {
    const bool narrow = op == GroupOp::kSum32 || op == GroupOp::kSum16;
    operation.op = narrow ? values::Operator::kSum : static_cast<values::Operator>(op);
    operation.width = op == GroupOp::kSum32   ? values::Width::kPair
                      : op == GroupOp::kSum16 ? values::Width::kQuarter
                                              : values::Width::kUsual;
}

// What the application has written, checked before anything is done with it.
Result<values::Operation> operation_of(const GroupDescriptor& descriptor, std::span<std::byte> arena,
                                       std::uint32_t rank) {
    const auto kind = kind_of(descriptor.kind);
    if (!kind || descriptor.flags != 0 || descriptor.zero != decltype(descriptor.zero){}) {
        return strange(descriptor, "no such kind of operation");
    }
    values::Operation operation;
    operation.number = descriptor.number;
    operation.kind = *kind;
    if (*kind == values::Kind::kBarrier) {
        return operation;
    }
    const std::uint32_t each = group_type_bytes(descriptor.type);
    if (each == 0) {
        return strange(descriptor, "no such type of values");
    }
    std::uint64_t bytes = 0;
    if (__builtin_mul_overflow(descriptor.count, each, &bytes)) {
        return bad(descriptor, std::to_string(descriptor.count) + " values are beyond any arena");
    }
    const auto in = part_of(arena, descriptor.in, bytes);
    const auto out = part_of(arena, descriptor.out, bytes);
    if (!in || !out) {
        return bad(descriptor, std::to_string(bytes) + " bytes at " + std::to_string(descriptor.in) +
                                   " and " + std::to_string(descriptor.out) +
                                   " are not within the arena of " + std::to_string(arena.size()) +
                                   " bytes, at multiples of " + std::to_string(kGroupAlignment));
    }
    operation.dtype = static_cast<values::Dtype>(descriptor.type);
    if (*kind != values::Kind::kBroadcast) {
        if (descriptor.op < GroupOp::kSum || descriptor.op > GroupOp::kSum16) {
            return strange(descriptor, "no such operator");
        }
        set_operator(operation, descriptor.op);
    }
    operation.root = descriptor.root;
    operation.count = descriptor.count;
    operation.in = *in;
    operation.out = *out;
    // Read until the end, it could only be written by way of a copy in the agent's own memory, which is no
    // application's to fill: libask copies such an input itself.
    const bool both =
        *kind == values::Kind::kAllReduce || (*kind == values::Kind::kReduce && operation.root == rank);
    if (both && bytes != 0 && descriptor.in == descriptor.out) {
        return bad(descriptor, "it would write where it reads: its output needs a place of its own");
    }
    return operation;
}

static_assert(static_cast<int>(GroupType::kInt32) == static_cast<int>(values::Dtype::kInt32));
static_assert(static_cast<int>(GroupType::kInt64) == static_cast<int>(values::Dtype::kInt64));
static_assert(static_cast<int>(GroupType::kFloat32) == static_cast<int>(values::Dtype::kFloat32));
static_assert(static_cast<int>(GroupType::kFloat64) == static_cast<int>(values::Dtype::kFloat64));
static_assert(static_cast<int>(GroupType::kBfloat16) == static_cast<int>(values::Dtype::kBfloat16));
static_assert(static_cast<int>(GroupType::kFloat16) == static_cast<int>(values::Dtype::kFloat16));
static_assert(static_cast<int>(GroupType::kInt8) == static_cast<int>(values::Dtype::kInt8));
static_assert(static_cast<int>(GroupType::kUint8) == static_cast<int>(values::Dtype::kUint8));
static_assert(static_cast<int>(GroupType::kInt16) == static_cast<int>(values::Dtype::kInt16));
static_assert(static_cast<int>(GroupType::kUint16) == static_cast<int>(values::Dtype::kUint16));
static_assert(static_cast<int>(GroupType::kUint32) == static_cast<int>(values::Dtype::kUint32));
static_assert(static_cast<int>(GroupType::kUint64) == static_cast<int>(values::Dtype::kUint64));
static_assert(static_cast<int>(GroupOp::kSum) == static_cast<int>(values::Operator::kSum));
static_assert(static_cast<int>(GroupOp::kProduct) == static_cast<int>(values::Operator::kProd));
static_assert(static_cast<int>(GroupOp::kMin) == static_cast<int>(values::Operator::kMin));
static_assert(static_cast<int>(GroupOp::kMax) == static_cast<int>(values::Operator::kMax));
static_assert(static_cast<int>(GroupOp::kAnd) == static_cast<int>(values::Operator::kAnd));
static_assert(static_cast<int>(GroupOp::kOr) == static_cast<int>(values::Operator::kOr));
static_assert(kSum16Members == values::kQuarterMembers);
static_assert(static_cast<int>(GroupOp::kXor) == static_cast<int>(values::Operator::kXor));

std::uint64_t instance_of(std::span<const std::byte> payload) {
    ask_hdr header{};
    std::memcpy(&header, payload.data(), sizeof(header));
    return __builtin_bswap64(header.task);
}

}  // namespace

Result<std::shared_ptr<GroupMemory>> SharedGroupMemory::make(std::size_t arena_bytes, ArenaBudget& budget,
                                                             std::uint32_t user) {
    if (arena_bytes == 0) {
        return Error(Errc::kInput, "an arena of 0 bytes");
    }
    auto share = budget.reserve(arena_bytes, user);
    ASK_PASS(share);
    const std::size_t bytes = (arena_bytes + page_bytes() - 1) / page_bytes() * page_bytes();
    auto fd = make_shared_memory("ask-arena", bytes);
    ASK_PASS(fd);
    auto arena = SharedMapping::map(*fd, bytes);
    ASK_PASS(arena);
    auto ring = GroupRing::create();
    ASK_PASS(ring);
    return std::shared_ptr<GroupMemory>(std::make_shared<SharedGroupMemory>(
        *std::move(share), *std::move(fd), *std::move(arena), *std::move(ring)));
}

std::vector<int> SharedGroupMemory::descriptors() const {
    const auto of_ring = ring.application_fds();
    std::vector<int> all{arena_fd_.get()};
    all.insert(all.end(), of_ring.begin(), of_ring.end());
    return all;
}

Result<> WorkerCore::begin_group(const GroupStart& start) {
    const std::uint64_t instance = start.terms.instance;
    if (groups_.contains(instance)) {
        return Error(Errc::kExists, "the group's instance runs here already");
    }
    ASK_PASS(values::check_terms(start.terms));
    auto memory = std::static_pointer_cast<SharedGroupMemory>(start.memory);
    ASK_PASS(watch(memory->ring.event(), EPOLLIN));
    groups_.emplace(instance, std::make_unique<Group>(start, std::move(memory)));
    group_workers_.erase(instance);
    return {};
}

void WorkerCore::route_group(std::uint64_t instance, std::optional<unsigned> worker) {
    if (worker && *worker != options_.index) {
        group_workers_[instance] = *worker;
    } else {
        group_workers_.erase(instance);
    }
}

GroupState WorkerCore::group_state(std::uint64_t instance) const {
    GroupState state;
    const auto at = groups_.find(instance);
    if (at == groups_.end()) {
        return state;
    }
    const values::Member& member = at->second->member;
    state.completed = at->second->completed;
    state.begun = member.submitted();
    state.idle = member.idle();
    state.member = member.stats();
    state.streams = member.streams();
    if (at->second->collector) {
        state.collector = at->second->collector->stats();
    }
    if (const auto waiting = member.waiting()) {
        state.operation = waiting->operation;
        state.stream = waiting->stream;
        state.seq = waiting->seq;
        state.missing = waiting->missing;
        state.waiting_ns = now_ns() - waiting->since;
    }
    return state;
}

void WorkerCore::set_fan_out(std::uint64_t instance, bool fan_out) {
    const auto at = groups_.find(instance);
    if (at != groups_.end() && at->second->collector) {
        at->second->collector->set_fan_out(fan_out);
    }
}

void WorkerCore::settle_group(std::uint64_t instance, std::uint64_t last, std::uint64_t dead) {
    const auto at = groups_.find(instance);
    if (at == groups_.end()) {
        return;
    }
    Group& group = *at->second;
    group.member.hold_beyond(last == 0 ? group.member.completed() : last);
    finish_operations(group);
    if (group.collector) {
        group.collector->set_dead(dead);
    }
}

void WorkerCore::end_group(std::uint64_t instance) {
    const auto at = groups_.find(instance);
    if (at != groups_.end()) {
        add_stats(*at->second, ended_members_, ended_collectors_);
        ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, at->second->memory->ring.event(), nullptr);
        groups_.erase(at);
    }
}

// By what it says of itself; whether it is that the group finds out. False: of no group here.
bool WorkerCore::take_values(std::span<const std::byte> payload, const UdpAddresses& addresses, bool ecn_ce) {
    const std::uint64_t instance = instance_of(payload);
    if (const auto at = groups_.find(instance); at != groups_.end()) {
        handle_values(*at->second, payload, {addresses.source_port, addresses.dest_port}, ecn_ce);
        return true;
    }
    if (const auto at = group_workers_.find(instance); at != group_workers_.end()) {
        InboxPacket packet{{payload.begin(), payload.end()}, addresses, ecn_ce, false};
        count(options_.push(at->second, std::move(packet)) ? AgentCounter::k_rx_handed_over
                                                           : AgentCounter::k_drop_inbox_full);
        return true;
    }
    count(AgentCounter::k_rx_no_group);
    return false;
}

void WorkerCore::handle_values(Group& group, std::span<const std::byte> payload, Ports ports, bool ecn_ce) {
    values::Refusal why{};
    auto packet = group.wire.open(payload, ports, why);
    if (!packet || group.failed) {
        count(AgentCounter::k_rx_bad_values);
        return;
    }
    count(AgentCounter::k_rx_values);
    packet->congested = ecn_ce;
    const Nanos now = now_ns();
    const std::uint8_t type = packet->front.type;
    if (group.collector && (type == ASK_VALUE || type == ASK_HAVE || type == ASK_RESULT)) {
        group.collector->on_packet(*packet, now);
        if (group.collector->failure()) {
            fail_group(group, *group.collector->failure());
            return;
        }
    }
    const bool is_own = type == ASK_RESULT || packet->member == group.rank;
    if (is_own && type != ASK_VALUE && type != ASK_HAVE) {
        group.member.on_packet(*packet, now);
    }
}

void WorkerCore::fail_group(Group& group, const Error& error) {
    if (group.failed) {
        return;
    }
    group.failed = true;
    group.member.fail(error);
    // Whatever its application writes from now on, nobody is woken by it.
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, group.memory->ring.event(), nullptr);
    group.mailbox->post(SessionEvent{SessionEvent::Kind::kGroupFailed, {}, error});
}

bool WorkerCore::serve(Group& group) {
    if (group.failed) {
        return false;
    }
    bool any = take_operations(group);
    any = send_values(group) || any;
    return finish_operations(group) || any;
}

// What the application has begun since the last time.
bool WorkerCore::take_operations(Group& group) {
    bool any = false;
    while (!group.failed) {
        const auto next = group.memory->ring.next();
        if (!next.ok()) {
            fail_group(group, next.error());
            return true;
        }
        if (!*next) {
            return any;
        }
        any = true;
        auto operation = operation_of(**next, group.memory->arena(), group.rank);
        const auto begun = operation ? group.member.submit(*operation) : Result<>(operation.error());
        if (begun.ok()) {
            continue;
        }
        if (begun.error().code() != Errc::kUnsupported) {
            fail_group(group, begun.error());
            continue;
        }
        group.member.skip((*next)->number);
        group.memory->ring.complete((*next)->number, static_cast<std::int32_t>(Errc::kUnsupported),
                                    begun.error().text());
    }
    return any;
}

bool WorkerCore::send_values(Group& group) {
    std::size_t sent = 0;
    bool any = true;
    while (any && sent < kValueTxBatch && !group.failed) {
        any = group.collector && send_one(group, *group.collector);
        any = send_one(group, group.member) || any;
        sent += any ? 1 : 0;
    }
    return sent > 0;
}

// A frame that is dropped here is one that got lost on the way: the core sends it again.
template <typename End>
bool WorkerCore::send_one(Group& group, End& end) {
    const values::GroupTerms& terms = group.wire.terms();
    const std::uint16_t port = terms.seats[group.rank].channel.port;
    XskSocket& socket = way_out(group.ways[group.rank].source_mac, port);
    const auto frame = socket.take();
    if (!frame) {
        return false;
    }
    const std::size_t header = group.ways[group.rank].header_bytes();
    const auto room = frame->bytes.subspan(header, options_.sender.payload_limit);
    const auto outgoing = end.next_packet(room, now_ns());
    if (!outgoing) {
        socket.recycle(*frame);
        return false;
    }
    const values::Address& to = outgoing->to;
    const auto payload = room.first(outgoing->bytes);
    const bool for_itself = to.host == options_.own_address && !to.to_all;
    const auto alone = [&] {
        return (static_cast<std::uint8_t>(payload[offsetof(ask_hdr, flags)]) & ASK_F_ALONE) != 0;
    };
    // Its own values go out by the switch as everybody's do; without one the way is short.
    if (to.own || (for_itself && (!group.through_switch || alone()))) {
        const auto copy = std::span(scratch_).first(payload.size());
        copy_bytes(payload, copy.data());
        socket.recycle(*frame);
        count(AgentCounter::k_local_packets);
        handle_values(group, copy, to.ports, false);
        return true;
    }
    std::uint32_t rank = group.rank;
    for (std::uint32_t other = 0; other < terms.size(); ++other) {
        rank = terms.seats[other].channel.host == to.host ? other : rank;
    }
    UdpAddresses addresses = group.ways[rank];
    addresses.source = to.from;
    addresses.dest = to.host;
    if (to.host == options_.own_address) {
        addresses.dest6 = addresses.source6;
    }
    addresses.source_port = to.ports.source;
    addresses.dest_port = to.ports.dest;
    send_frame(socket, *frame, addresses, outgoing->bytes, port);
    return true;
}

// What is in a frame of one interface's, by the one that its addresses name.
void WorkerCore::send_frame(XskSocket& socket, const XskFrame& frame, const UdpAddresses& addresses,
                            std::size_t bytes, std::uint16_t port) {
    XskSocket& leaving = way_out(addresses.source_mac, port);
    std::optional<XskFrame> other;
    if (&leaving != &socket) {
        other = leaving.take();
        if (other) {
            const std::size_t header = addresses.header_bytes();
            copy_bytes(frame.bytes.subspan(header, bytes), other->bytes.data() + header);
        }
        socket.recycle(frame);
    }
    const XskFrame& out = other ? *other : frame;
    if ((&leaving == &socket || other) &&
        leaving.send(out, write_frame_header(out.bytes, addresses, bytes))) {
        count(AgentCounter::k_tx_values);
    }
}

bool WorkerCore::finish_operations(Group& group) {
    bool any = false;
    while (const auto done = group.member.next_completion()) {
        any = true;
        if (done->error) {
            fail_group(group, *done->error);
            return true;
        }
        group.memory->ring.complete(done->number, 0);
        group.completed = done->number;
    }
    return any;
}

}  // namespace ask
