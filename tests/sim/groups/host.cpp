// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/groups/host.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace ask::sim::groups {

namespace {

constexpr std::size_t kInbox = 256;  // frames that may lie unread
constexpr std::size_t kTxBatch = 8;  // of a group, before the next one's turn
constexpr Nanos kRound = 2 * kMicrosecond;
// An oldest chunk has an answer after this much. A RESULT, or a HELD within the probes of a second or so;
// what is more is for lost frames.
constexpr Nanos kAnswer = 20 * kSecond;

std::size_t room_of(const values::GroupTerms& terms) {
    return ASK_VALUES_FRONT + terms.blocks * values::kBlock;
}

}  // namespace

struct Host::Seat {
    Seat(Group& of, std::uint32_t as) : group(of), rank(as), wire(of.terms), member(of.terms, as) {
        if (rank == of.terms.root) {
            collector = std::make_unique<values::Collector>(of.terms);
        }
    }
    Group& group;
    std::uint32_t rank;
    values::Wire wire;
    values::Member member;
    std::unique_ptr<values::Collector> collector;  // null: another's
    std::size_t begun = 0;                         // of its works
    std::size_t ended = 0;
    Nanos ready_at = 0;  // for the next one
    bool over = false;
    bool deaf = false;  // broken on purpose: never answers again
    // The oldest chunk and when something was last heard of it.
    std::uint32_t stream = 0;
    std::uint64_t seq = 0;
    Nanos heard = 0;
};

Host::Host(World& world, Network& network, std::uint32_t number)
    : world_(world), network_(network), number_(number) {}
Host::~Host() = default;

Host::Seat* Host::seat_of(const Group& group) {
    const auto at = std::ranges::find_if(seats_, [&](const auto& seat) { return &seat->group == &group; });
    return at == seats_.end() ? nullptr : at->get();
}

void Host::join(Group& group, std::uint32_t rank) {
    if (dead_) {
        return;
    }
    auto seat = std::make_unique<Seat>(group, rank);
    seat->ready_at = world_.clock.now() + world_.any_time(world_.plan.skew * kMillisecond);
    seats_.push_back(std::move(seat));
    wake(0);
}

void Host::set_fan_out(const Group& group, bool fan_out) {
    if (Seat* seat = seat_of(group); seat != nullptr && seat->collector) {
        seat->collector->set_fan_out(fan_out);
    }
}

void Host::leave(const Group& group, const std::optional<Error>& error) {
    Seat* seat = seat_of(group);
    if (seat == nullptr || seat->over) {
        return;
    }
    if (error) {
        seat->member.fail(*error);
        end_operations(*seat);
    }
    seat->over = true;
}

void Host::receive(FramePtr frame) {
    if (dead_ || ring_.size() >= kInbox) {
        network_.recycle(std::move(frame));
        return;
    }
    ring_.push_back(std::move(frame));
    wake(kRound);
}

void Host::stop(Nanos time) {
    world_.note("host %u stands still", number_);
    stopped_until_ = world_.clock.now() + time;
    wake(time);
}

void Host::die() {
    if (dead_) {
        return;
    }
    world_.note("host %u dies", number_);
    dead_ = true;
    for (const auto& seat : seats_) {
        if (!seat->over) {
            seat->over = true;
            member_ended(seat->group);
        }
    }
}

// An earlier one that is set already does as well.
void Host::wake(Nanos delay) {
    const Nanos at = std::max(world_.clock.now() + delay, stopped_until_);
    if (!dead_ && at < wakes_at_) {
        wakes_at_ = at;
        world_.clock.at(at, this, ++turn_);
    }
}

void Host::fire(std::uint64_t turn) {
    const Nanos now = world_.clock.now();
    if (turn != turn_ || dead_) {
        return;
    }
    wakes_at_ = kNever;
    if (now < stopped_until_) {
        wake(stopped_until_ - now);
        return;
    }
    for (; !ring_.empty(); ring_.pop_front()) {
        if (const auto frame = parse_frame(ring_.front()->view())) {
            for (const auto& seat : seats_) {
                take(*seat, frame->payload, {frame->addresses.source_port, frame->addresses.dest_port},
                     frame->ecn_ce);
            }
        }
        network_.recycle(std::move(ring_.front()));
    }
    for (const auto& seat : seats_) {
        if (!seat->over) {
            serve(*seat);
        }
    }
}

// A turn of the group: operations, packets, completions, and when the next one is.
void Host::serve(Seat& seat) {
    const Nanos now = world_.clock.now();
    begin_operations(seat);
    std::size_t sent = 0;
    bool any = true;
    while (any && sent < kTxBatch && !seat.over) {
        any = seat.collector && send_one(seat, *seat.collector);
        any = send_one(seat, seat.member) || any;
        sent += any ? 1 : 0;
    }
    end_operations(seat);
    if (seat.over) {
        return;
    }
    Nanos next = seat.member.next_deadline(now);
    next = seat.collector ? std::min(next, seat.collector->next_deadline(now)) : next;
    if (!any && next <= now) {
        world_.fail(Promise::kCount, seat.group.name() + ": member " + std::to_string(seat.rank) +
                                         " has something to send, and sends nothing");
        return;
    }
    if (seat.begun < seat.group.works.size() && seat.begun - seat.ended < world_.plan.depth) {
        next = std::min(next, seat.ready_at);
    }
    if (next != kNever) {
        wake(std::max(kRound, next - now));
    }
}

void Host::begin_operations(Seat& seat) {
    const Nanos now = world_.clock.now();
    while (!seat.over && seat.begun < seat.group.works.size() &&
           seat.begun - seat.ended < world_.plan.depth && seat.ready_at <= now) {
        const auto submitted = seat.member.submit(seat.group.works[seat.begun].of(seat.rank));
        if (!submitted.ok()) {
            world_.fail(Promise::kName, seat.group.name() + ": " + submitted.error().text());
            return;
        }
        ++seat.begun;
        seat.ready_at = now + world_.any_time(world_.plan.idle * kMillisecond);
    }
}

void Host::end_operations(Seat& seat) {
    Group& group = seat.group;
    while (const auto done = seat.member.next_completion()) {
        if (done->error) {
            if (!group.failed) {
                world_.fail(Promise::kName, group.name() + ": " + done->error->text());
            }
            continue;
        }
        const Work& work = group.works[seat.ended];
        if (done->number != work.operation.number) {
            world_.fail(Promise::kAnswer, group.name() + ": operation " + std::to_string(done->number) +
                                              " is complete out of turn");
            return;
        }
        world_.note("%s: member %u has operation %llu", group.name().c_str(), seat.rank,
                    static_cast<unsigned long long>(done->number));
        if (const std::string what = work.judge(seat.rank); !what.empty()) {
            world_.fail(Promise::kAnswer, group.name() + ": " + what);
        }
        ++seat.ended;
    }
    if (!seat.over && seat.ended == group.works.size() && (group.ended >> seat.rank & 1U) == 0) {
        // It stays to answer others until all are through.
        group.ended |= std::uint64_t{1} << seat.rank;
        member_ended(group);
    }
}

// What leaves is written down first: from then on it is this member's value.
void Host::note_outgoing(Seat& seat, std::span<const std::byte> payload) {
    Group& group = seat.group;
    ask_hdr hdr;
    ask_values_ext ext;
    std::memcpy(&hdr, payload.data(), sizeof(hdr));
    std::memcpy(&ext, payload.data() + sizeof(hdr), sizeof(ext));
    values::Front front;
    front.type = hdr.type;
    front.blocks = ask_values_blocks(&hdr);
    front.stream = ask_values_stream(&hdr);
    front.op = hdr.op;
    front.seq = __builtin_bswap64(hdr.seq);
    front.bits = __builtin_bswap64(ext.bits);
    front.shape = values::Shape(__builtin_bswap32(ext.shape));
    const auto body = payload.subspan(ASK_VALUES_FRONT);
    std::string what;
    if (front.type == ASK_VALUE) {
        what = group.ledger.add(seat.rank, front, body);
    } else if (front.type == ASK_NEED || front.type == ASK_HELD) {
        const auto to = std::ranges::find_if(group.terms.seats, [&hdr](const values::Seat& other) {
            return other.channel.host == __builtin_bswap32(hdr.host);
        });
        const auto member = static_cast<std::uint32_t>(to - group.terms.seats.begin());
        if (front.type == ASK_NEED &&
            group.too_many_needs(front.stream, front.seq, member, world_.clock.now())) {
            world_.fail(Promise::kCount, group.name() + ": member " + std::to_string(member) +
                                             " is asked again and again for chunk " +
                                             std::to_string(front.seq));
        }
        if (group.asked[{front.stream, front.seq}].alone == group.terms.all()) {
            world_.fail(Promise::kRound, group.name() + ": chunk " + std::to_string(front.seq) +
                                             " of stream " + std::to_string(front.stream) +
                                             " is not complete, and all have sent it alone");
        }
    }
    if (!what.empty()) {
        world_.fail(Promise::kFold, group.name() + ": " + what);
    }
    if (front.type == ASK_VALUE && seat.rank != group.terms.root && world_.chance.ppm(world_.plan.rogue)) {
        lie(seat, front);
    }
}

// A packet of a set that this member may not set, sealed as its own are.
void Host::lie(Seat& seat, const values::Front& front) {
    Random& chance = world_.chance;
    values::Front lie = front;
    lie.flags = static_cast<std::uint8_t>(chance.below(2) * ASK_F_RESEND + chance.below(2) * ASK_F_ALONE);
    const std::uint64_t own = front.bits;
    lie.bits = chance.next() & seat.group.terms.all();
    lie.level = chance.below(2) == 0 ? ASK_LEVEL_MEMBER : ASK_LEVEL_PARTIAL;
    if (lie.bits == 0 || (lie.bits == own && lie.level == ASK_LEVEL_MEMBER)) {
        return;
    }
    FramePtr frame = network_.new_frame();
    const auto bytes = std::as_writable_bytes(std::span(frame->bytes)).subspan(header_bytes());
    for (std::byte& byte : bytes.subspan(ASK_VALUES_FRONT, lie.blocks * values::kBlock)) {
        byte = static_cast<std::byte>(chance.next());
    }
    transmit(seat, std::move(frame), seat.wire.seal(bytes, lie, seat.rank));
}

void Host::transmit(Seat& seat, FramePtr frame, const values::Outgoing& outgoing) {
    UdpAddresses addresses = addresses_between(host_of(outgoing.to.from), host_of(outgoing.to.host));
    addresses.source_mac = mac_of_host(number_);
    addresses.dest_mac = mac_of_switch(network_.switch_of(number_));
    addresses.source_port = outgoing.to.ports.source;
    addresses.dest_port = outgoing.to.ports.dest;
    frame->size =
        write_frame_header(std::as_writable_bytes(std::span(frame->bytes)), addresses, outgoing.bytes);
    if (world_.tracing) {
        world_.note("%s member %u: %s", seat.group.name().c_str(), seat.rank, text_of(*frame).c_str());
    }
    network_.send_from_host(number_, std::move(frame));
}

// False: it has nothing to send.
template <typename End>
bool Host::send_one(Seat& seat, End& end) {
    FramePtr frame = network_.new_frame();
    const auto room =
        std::as_writable_bytes(std::span(frame->bytes)).subspan(header_bytes(), room_of(seat.group.terms));
    const auto outgoing = end.next_packet(room, world_.clock.now());
    if (!outgoing) {
        network_.recycle(std::move(frame));
        return false;
    }
    const auto payload = room.first(outgoing->bytes);
    const auto flags = static_cast<std::uint8_t>(payload[offsetof(ask_hdr, flags)]);
    const auto type = static_cast<std::uint8_t>(payload[offsetof(ask_hdr, type)]);
    seat.deaf = seat.deaf || (world_.plan.broken == 2 && type == ASK_VALUE && seat.rank == 1);
    if (world_.plan.broken == 1 && type == ASK_VALUE && (flags & ASK_F_RESEND) != 0 &&
        outgoing->bytes > ASK_VALUES_FRONT) {
        payload[ASK_VALUES_FRONT] ^= std::byte{1};
    }
    note_outgoing(seat, payload);
    const values::Address& to = outgoing->to;
    const bool for_itself = to.host == address_of(number_) && !to.to_all;
    // Its own values go out by the switch as everybody's do; without one the way is short.
    if (to.own || (for_itself && (!seat.group.through || (flags & ASK_F_ALONE) != 0))) {
        const std::vector<std::byte> copy(payload.begin(), payload.end());
        network_.recycle(std::move(frame));
        take(seat, copy, to.ports, false);
    } else {
        transmit(seat, std::move(frame), *outgoing);
    }
    return true;
}

void Host::take(Seat& seat, std::span<const std::byte> payload, Ports ports, bool congested) {
    values::Refusal why{};
    auto packet = seat.wire.open(payload, ports, why);
    if (!packet || seat.over || seat.deaf) {
        return;
    }
    packet->congested = congested;
    const std::uint8_t type = packet->front.type;
    if (type != ASK_NEED && type != ASK_HELD) {
        if (const std::string what = seat.group.ledger.check(packet->front, packet->body); !what.empty()) {
            world_.fail(Promise::kFold, seat.group.name() + ": what comes to member " +
                                            std::to_string(seat.rank) + ": " + what);
        }
    }
    if (seat.collector && (type == ASK_VALUE || type == ASK_HAVE || type == ASK_RESULT)) {
        take_at_collector(seat, *packet);
    }
    if (!seat.over && type != ASK_VALUE && type != ASK_HAVE &&
        (type == ASK_RESULT || packet->member == seat.rank)) {
        take_at_member(seat, *packet);
    }
}

void Host::take_at_collector(Seat& seat, const values::Packet& packet) {
    const values::Front& front = packet.front;
    std::uint64_t& alone = seat.group.asked[{front.stream, front.seq}].alone;
    if (front.type != ASK_VALUE) {
        alone = seat.group.terms.all();
    } else if (front.level == ASK_LEVEL_MEMBER) {
        alone |= front.bits;
    }
    seat.collector->on_packet(packet, world_.clock.now());
    if (seat.collector->failure()) {
        world_.fail(Promise::kName, seat.group.name() + ": " + seat.collector->failure()->text());
    }
}

void Host::take_at_member(Seat& seat, const values::Packet& packet) {
    const std::uint64_t before = seat.member.stats().results;
    seat.member.on_packet(packet, world_.clock.now());
    if (seat.member.stats().results != before) {
        world_.moved = world_.clock.now();
    }
    if (packet.front.stream == seat.stream && packet.front.seq == seat.seq) {
        seat.heard = world_.clock.now();
    }
}

void Host::look() {
    for (const auto& seat : seats_) {
        if (!seat->over && !dead_ && world_.clock.now() >= stopped_until_) {
            look_at(*seat);
        }
    }
}

void Host::look_at(Seat& seat) {
    const Nanos now = world_.clock.now();
    const auto waiting = seat.member.waiting();
    if (!waiting) {
        return;
    }
    Group& group = seat.group;
    if (seat.stream != waiting->stream || seat.seq != waiting->seq) {
        seat.stream = waiting->stream;
        seat.seq = waiting->seq;
        seat.heard = now;
    }
    const std::string chunk = group.name() + ": chunk " + std::to_string(waiting->seq) + " of stream " +
                              std::to_string(waiting->stream) + ", which member " +
                              std::to_string(seat.rank) + " waits for,";
    if (now - seat.heard > kAnswer && collector_lives(group)) {
        world_.fail(Promise::kWait, chunk + " has no answer");
    }
    // As lib/control/group/grouping.cpp: the deadline of the oldest.
    if (world_.plan.deadline == 0 || now - waiting->since < world_.plan.deadline * kMillisecond) {
        return;
    }
    if (group.dead == 0) {
        world_.fail(Promise::kName, chunk + " comes to its deadline, and nobody has died");
    } else if (collector_lives(group) && (waiting->missing & group.dead) == 0) {
        world_.fail(Promise::kName, chunk + " comes to its deadline, and no one that has died is named");
    }
    group.failed = Error(Errc::kDeadline, chunk + " has no result");
    world_.note("%s ends: %s", group.name().c_str(), group.failed->text().c_str());
    world_.moved = now;
    member_ended(group);
}

}  // namespace ask::sim::groups
