// SPDX-License-Identifier: Apache-2.0
#include "lib/values/collector.h"

#include <algorithm>
#include <bit>
#include <map>
#include <string>

#include "lib/base/bytes.h"

namespace ask::values {

namespace {

constexpr Nanos kLongAgo = -kSecond;

std::string rank_text(std::uint64_t bits) {
    return "rank " + std::to_string(std::countr_zero(bits));
}

}  // namespace

// A chunk that has come. Its sum is in the stream's memory; of a raw one, what came ahead of its turn is
// beside it.
struct Collector::Place {
    std::uint64_t seq = 0;  // 0: none yet
    std::uint64_t bits = 0;
    std::uint64_t folded = 0;   // raw: what of `bits` is in the sum
    std::uint64_t waiting = 0;  // members that asked for it
    Front front;                // its shape, as the first had it
    bool done = false;
    bool asked = false;  // a NEED round is due
    Nanos needed_at = kLongAgo;
    std::uint8_t flags = 0;
    std::map<std::uint32_t, std::vector<std::byte>> ahead;  // by rank
};

struct Collector::Stream {
    explicit Stream(const GroupTerms& terms)
        : body_bytes(terms.blocks * kBlock),
          places(std::size_t{2} * terms.window),
          bodies(places.size() * body_bytes) {}

    std::size_t body_bytes;
    std::vector<Place> places;
    std::vector<std::byte> bodies;
};

Collector::Collector(const GroupTerms& terms, const CollectorConfig& config)
    : wire_(terms), config_(config), fan_out_(terms.fan_out) {}

Collector::~Collector() = default;

std::span<std::byte> Collector::body_of(const Place& place) const {
    Stream& stream = *streams_[place.front.stream];
    const auto at = static_cast<std::size_t>(&place - stream.places.data());
    return std::span(stream.bodies).subspan(at * stream.body_bytes, place.front.blocks * kBlock);
}

// The place of the packet's chunk. A newer one takes it over: who sends it has shown that all have the older,
// as members are no more than a window apart.
Collector::Place* Collector::place_for(const Packet& packet) {
    const Front& front = packet.front;
    auto& stream = streams_[front.stream];
    if (!stream) {
        stream = std::make_unique<Stream>(wire_.terms());
    }
    Place& place = stream->places[front.seq % stream->places.size()];
    if (place.seq > front.seq) {
        ++stats_.late;
        return nullptr;
    }
    if (place.seq < front.seq) {
        drop_ahead(place);
        place = Place{};
        place.seq = front.seq;
        place.front = front;
    }
    return &place;
}

void Collector::drop_ahead(Place& place) {
    for (const auto& [rank, body] : place.ahead) {
        raw_held_ -= body.size();
    }
    place.ahead.clear();
}

// Whether the packet is of what the chunk's others are of. If not, its members do different things.
bool Collector::fits(const Place& place, const Packet& packet) {
    const Front& a = place.front;
    const Front& b = packet.front;
    if (a.shape == b.shape && a.blocks == b.blocks && a.op == b.op) {
        return true;
    }
    ++stats_.mismatched;
    if (!failure_) {
        const auto of = [](const Front& front) {
            return rank_text(front.bits) + " runs " + front.shape.text();
        };
        const bool alike = a.shape.text() == b.shape.text();
        failure_ =
            Error(Errc::kInput, "members differ at chunk " + std::to_string(b.seq) + " of stream " +
                                    std::to_string(b.stream) + ": " + of(a) + ", and " + of(b) +
                                    (alike ? " of another length, root or width, or another in order" : "") +
                                    ": all must begin the same operations in one order");
    }
    return false;
}

void Collector::on_packet(const Packet& packet, Nanos now) {
    const std::uint8_t type = packet.front.type;
    if (failure_ || (type != ASK_VALUE && type != ASK_HAVE && type != ASK_RESULT)) {
        return;
    }
    Place* place = place_for(packet);
    if (place == nullptr || !fits(*place, packet)) {
        return;
    }
    if (type == ASK_VALUE) {
        take_value(*place, packet, now);
    } else {
        ++(type == ASK_HAVE ? stats_.haves : stats_.seen);
        take_result(*place, packet);
    }
}

// What somebody else has found. Nobody is told but who has asked.
void Collector::take_result(Place& place, const Packet& packet) {
    if (place.done) {
        return;
    }
    drop_ahead(place);
    copy_bytes(packet.body, body_of(place).data());
    place.flags = packet.front.flags & ASK_F_FOLDED;
    place.bits = packet.front.bits;
    place.done = true;
    for (std::uint32_t rank = 0; rank < wire_.terms().size(); ++rank) {
        if ((place.waiting >> rank & 1U) != 0) {
            push(ASK_RESULT, place, rank);
        }
    }
    place.waiting = 0;
}

void Collector::take_value(Place& place, const Packet& packet, Nanos now) {
    const bool wants = (packet.front.flags & ASK_F_RESEND) != 0;
    if (place.done) {
        if (wants) {
            ++stats_.answered;
            push(ASK_RESULT, place, packet.member);
        }
        return;
    }
    const bool met = packet.front.shape.raw() ? merge_raw(place, packet) : merge(place, packet);
    if (place.done) {
        return;
    }
    if (wants) {
        answer_open(place, packet, now);
    }
    const bool collided = (packet.front.flags & ASK_F_COLLIDED) != 0;
    stats_.collided += collided ? 1U : 0U;
    if ((collided || !met) && !place.asked) {
        // What collides with it is on its way, mostly.
        place.asked = true;
        asked_.push_back(
            {.stream = packet.front.stream, .seq = place.seq, .at = now + config_.need_after_collision});
    }
}

// False: it crosses what is there.
bool Collector::merge(Place& place, const Packet& packet) {
    const std::uint64_t bits = packet.front.bits;
    const std::uint64_t both = place.bits & bits;
    if (both == bits) {
        ++stats_.within;
        return true;
    }
    if (both != 0 && both != place.bits) {
        ++stats_.crossing;
        return false;
    }
    place.flags |= packet.front.flags & ASK_F_FOLDED;
    place.flags |= packet.congested ? ASK_F_ECE : 0;
    if (both != 0 || place.bits == 0) {
        ++(place.bits == 0 ? stats_.taken : stats_.replaced);
        copy_bytes(packet.body, body_of(place).data());
        place.bits = bits;
    } else {
        ++stats_.folded;
        fold(packet.front.op, body_of(place), packet.body);
        place.bits |= bits;
    }
    if (place.bits == wire_.terms().all()) {
        ++stats_.completed;
        complete(place);
    }
    return true;
}

// Raw values are folded in the order of ranks; who comes ahead of its turn waits, if there is room.
bool Collector::merge_raw(Place& place, const Packet& packet) {
    const std::uint64_t bits = packet.front.bits;
    if (std::popcount(bits) != 1) {
        ++stats_.raw_bad;
        return true;
    }
    if ((place.bits & bits) != 0) {
        ++stats_.within;
        return true;
    }
    const auto rank = static_cast<std::uint32_t>(std::countr_zero(bits));
    const bool turn = place.folded == bits - 1;
    if (!turn && raw_held_ + packet.body.size() > config_.raw_bytes) {
        ++stats_.raw_full;
        return true;
    }
    ++(place.bits == 0 ? stats_.taken : stats_.folded);
    place.bits |= bits;
    place.flags |= packet.front.flags & ASK_F_FOLDED;
    place.flags |= packet.congested ? ASK_F_ECE : 0;
    if (turn) {
        fold_next(place, rank, packet.body);
    } else {
        place.ahead.emplace(rank, std::vector<std::byte>(packet.body.begin(), packet.body.end()));
        raw_held_ += packet.body.size();
    }
    while (!place.ahead.empty() && place.folded == (std::uint64_t{1} << place.ahead.begin()->first) - 1) {
        const auto node = place.ahead.extract(place.ahead.begin());
        raw_held_ -= node.mapped().size();
        fold_next(place, node.key(), node.mapped());
    }
    if (place.folded == wire_.terms().all()) {
        ++stats_.completed_raw;
        complete(place);
    }
    return true;
}

void Collector::fold_next(Place& place, std::uint32_t rank, std::span<const std::byte> body) {
    const Shape shape = place.front.shape;
    if (rank == 0) {
        copy_bytes(body, body_of(place).data());
    } else if (!fold_raw(shape.dtype(), shape.op(), body_of(place), body)) {
        ++stats_.raw_bad;
    }
    place.folded |= std::uint64_t{1} << rank;
}

void Collector::complete(Place& place) {
    const GroupTerms& terms = wire_.terms();
    place.done = true;
    if (fan_out_) {
        push(ASK_RESULT, place, terms.size());
        // It leaves by all ports but its own.
        push(ASK_RESULT, place, terms.root);
        return;
    }
    for (std::uint32_t rank = 0; rank < terms.size(); ++rank) {
        push(ASK_RESULT, place, rank);
    }
}

// A member asks for what is not complete: it is told who is missing, and if it asks past the switches, those
// are asked.
void Collector::answer_open(Place& place, const Packet& packet, Nanos now) {
    place.waiting |= std::uint64_t{1} << packet.member;
    ++stats_.held;
    push(ASK_HELD, place, packet.member);
    if ((packet.front.flags & ASK_F_ALONE) != 0 && now - place.needed_at >= config_.need_every) {
        ask_missing(place, now);
    }
}

void Collector::ask_missing(Place& place, Nanos now) {
    place.needed_at = now;
    const bool orphaned = (dead_ & ~place.bits) != 0;
    for (std::uint32_t rank = 0; rank < wire_.terms().size(); ++rank) {
        const bool lacks = (place.bits >> rank & 1U) == 0;
        if ((lacks || orphaned) && (dead_ >> rank & 1U) == 0) {
            ++stats_.needs;
            push(ASK_NEED, place, rank);
        }
    }
}

// Chunks whose partials met nowhere.
void Collector::run_asked(Nanos now) {
    while (!asked_.empty() && asked_.front().at <= now) {
        const Asked asked = asked_.front();
        asked_.pop_front();
        auto& places = streams_[asked.stream]->places;
        Place& place = places[asked.seq % places.size()];
        if (place.seq == asked.seq) {
            place.asked = false;
            if (!place.done) {
                ask_missing(place, now);
            }
        }
    }
}

void Collector::push(std::uint8_t type, const Place& place, std::uint32_t member) {
    if (outputs_.size() >= config_.max_outputs) {
        ++stats_.outputs_full;
        return;
    }
    outputs_.push_back({.type = type, .stream = place.front.stream, .member = member, .seq = place.seq});
}

std::optional<Outgoing> Collector::write(const Output& output, std::span<std::byte> out) const {
    const auto& places = streams_[output.stream]->places;
    const Place& place = places[output.seq % places.size()];
    if (place.seq != output.seq) {
        return std::nullopt;
    }
    Front front = place.front;
    front.type = output.type;
    front.level = ASK_LEVEL_MEMBER;
    front.flags = congested_ && output.type == ASK_RESULT ? ASK_F_ECE : 0;
    if (output.type == ASK_RESULT) {
        front.flags |= place.flags;
        front.bits = wire_.terms().all();
        copy_bytes(body_of(place), out.data() + ASK_VALUES_FRONT);
        return wire_.seal(out, front, output.member);
    }
    front.blocks = 0;
    front.bits =
        output.type == ASK_NEED ? std::uint64_t{1} << output.member : wire_.terms().all() & ~place.bits;
    // Complete by now: its result is on its way.
    if (front.bits == 0 || place.done) {
        return std::nullopt;
    }
    return wire_.seal(out, front, output.member);
}

std::optional<Outgoing> Collector::next_packet(std::span<std::byte> out, Nanos now) {
    if (out.size() < ASK_VALUES_FRONT + wire_.terms().blocks * kBlock) {
        return std::nullopt;
    }
    run_asked(now);
    while (!outputs_.empty()) {
        const Output output = outputs_.front();
        outputs_.pop_front();
        if (auto packet = write(output, out)) {
            return packet;
        }
    }
    return std::nullopt;
}

Nanos Collector::next_deadline(Nanos now) const {
    if (!outputs_.empty()) {
        return now;
    }
    return asked_.empty() ? kNever : asked_.front().at;
}

}  // namespace ask::values
