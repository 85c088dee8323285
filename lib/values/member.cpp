// SPDX-License-Identifier: Apache-2.0
#include "lib/values/member.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "lib/base/bytes.h"

namespace ask::values {

namespace {

constexpr std::uint32_t kNowhere = ~std::uint32_t{0};
constexpr std::uint32_t kLevels = 6;  // a timeout doubles five times at most
constexpr std::uint32_t kMostAsked = 64;

bool reads(const Operation& operation, std::uint32_t rank) {
    return operation.kind != Kind::kBarrier && (operation.kind != Kind::kBroadcast || rank == operation.root);
}

bool writes(const Operation& operation, std::uint32_t rank) {
    switch (operation.kind) {
        case Kind::kAllReduce:
            return true;
        case Kind::kReduce:
            return rank == operation.root;
        case Kind::kBroadcast:
            return rank != operation.root;
        default:
            return false;
    }
}

}  // namespace

struct Member::Run {
    Operation operation;
    Layout layout;
    Shape shape;
    std::array<std::uint64_t, ASK_VALUES_STREAMS> first{};   // seq of its first chunk
    std::array<std::uint64_t, ASK_VALUES_STREAMS> chunks{};  // how many of its chunks the stream has
    std::vector<Scale> scales;                               // by chunk
    std::vector<bool> agreed;                                // by chunk of exponents
    std::uint64_t left = 0;                                  // chunks without a result
    std::vector<std::byte> staged;                           // what becomes `out` if that is `in`, too
    std::span<std::byte> to;                                 // where results go; empty: nowhere
    bool out_of_range = false;
};

struct Member::Chunk {
    Run* run = nullptr;
    std::uint64_t number = 0;  // in the operation
    bool exponents = false;
};

struct Member::Place {
    // kFree: its seq has a result, or is not sent yet. kDue, kAsks: it is to be sent again, as one that was
    // overtaken, and as one of the oldest.
    enum class State : std::uint8_t { kFree, kSent, kDue, kAsks, kHeld };
    State state = State::kFree;
    bool was_held = false;
    bool was_needed = false;  // sent for a NEED
    bool need = false;        // is to be
    std::uint32_t repeats = 0;
    std::uint32_t next = kNowhere;
    std::uint32_t prev = kNowhere;
    std::uint64_t seq = 0;
    std::uint64_t sent_as = 0;  // number of the transmission
    std::uint64_t first_as = 0;
    Nanos first_sent_at = 0;
    Nanos sent_at = 0;
    Nanos timeout = 0;
    Nanos probe_at = 0;
    Nanos probe_gap = 0;
    std::uint64_t missing = 0;

    [[nodiscard]] std::uint32_t level() const { return std::min(repeats, kLevels - 1); }
};

struct Member::Kept {
    std::uint64_t seq = 0;  // 0: none
    Front front;
    bool have = false;  // is to be sent
};

// Places of one stream, and what is to be done with them.
class Member::Stream {
 public:
    Stream(std::uint32_t number, const GroupTerms& terms, const MemberConfig& config)
        : number_(number),
          body_bytes_(terms.blocks * kBlock),
          config_(config),
          timer(config.rto_initial, config.rto_floor, config.rto_ceiling),
          window(config.initial_window, terms.window),
          places_(terms.window),
          kept_(terms.window),
          bodies_(terms.window * body_bytes_) {}

    [[nodiscard]] std::uint32_t number() const { return number_; }
    [[nodiscard]] Place& at(std::uint64_t seq) { return places_[seq % places_.size()]; }
    [[nodiscard]] const Place& at(std::uint64_t seq) const { return places_[seq % places_.size()]; }
    // Sent, and without a result.
    [[nodiscard]] bool is_open(std::uint64_t seq) const {
        return seq >= base && seq < next && at(seq).state != Place::State::kFree;
    }
    [[nodiscard]] bool window_open() const { return next < end && next - base < places_.size(); }
    [[nodiscard]] std::uint32_t in_flight() const { return in_flight_; }
    [[nodiscard]] bool has_room() const { return in_flight_ < window.whole(); }

    void begin(std::uint64_t seq, Nanos now) {
        at(seq) = Place{.seq = seq, .first_sent_at = now};
        next = seq + 1;
    }
    void sent(Place& place, Nanos now) {
        place.state = Place::State::kSent;
        place.sent_at = now;
        place.sent_as = ++transmissions;
        place.first_as = place.repeats == 0 ? place.sent_as : place.first_as;
        place.timeout = std::min(config_.rto_ceiling, timer.timeout() << place.level());
        push(sent_[place.level()], place);
        ++in_flight_;
    }
    // Off the list that it is on.
    void take_off(Place& place) {
        if (place.state == Place::State::kSent) {
            remove(sent_[place.level()], place);
            --in_flight_;
        } else if (place.state == Place::State::kDue) {
            remove(due_, place);
        } else if (place.state == Place::State::kAsks) {
            remove(asking_, place);
        }
    }
    // What of those under way is to be sent again. A chunk without a result is one that somebody has lost, or
    // one that somebody has not sent yet. Members send in order: results of what was sent later tell which.
    // Where none has come, the oldest alone asks.
    void expire(Nanos now) {
        for (List& list : sent_) {
            while (list.head != kNowhere && overtaken(places_[list.head]) &&
                   due_at(places_[list.head]) <= now) {
                make_due(places_[list.head], Place::State::kDue);
            }
        }
        for (std::uint64_t seq = base; seq < asked_end(); ++seq) {
            if (asks_at(at(seq)) <= now) {
                make_due(at(seq), Place::State::kAsks);
            }
        }
    }
    // The place's chunk has its result.
    void answered(const Place& place, Nanos now) {
        overtaken_ = std::max(overtaken_, place.first_as);
        if (place.repeats == 0 || place.was_held) {
            heard_at_ = now;
        } else {
            asked_ = std::min(kMostAsked, asked_ + 1);
        }
    }
    // One that asked is held: who has not sent yet is waited for.
    void held_back(Nanos now) {
        heard_at_ = now;
        asked_ = std::max(1U, asked_ / 2);
    }
    // What is to be sent again now. Those that ask need no room: nothing may be under way any more but what
    // was lost.
    [[nodiscard]] Place* due() {
        const std::uint32_t at = asking_.head == kNowhere && has_room() ? due_.head : asking_.head;
        return at == kNowhere ? nullptr : &places_[at];
    }
    [[nodiscard]] bool has_due() const {
        return asking_.head != kNowhere || (due_.head != kNowhere && has_room());
    }
    [[nodiscard]] Nanos next_timeout() const {
        Nanos at = kNever;
        for (const List& list : sent_) {
            if (list.head != kNowhere && overtaken(places_[list.head])) {
                at = std::min(at, due_at(places_[list.head]));
            }
        }
        for (std::uint64_t seq = base; seq < asked_end(); ++seq) {
            at = std::min(at, asks_at(places_[seq % places_.size()]));
        }
        return at;
    }
    // The oldest, if it is held.
    [[nodiscard]] const Place* held() const {
        const Place& place = at(base);
        return base < next && place.state == Place::State::kHeld ? &place : nullptr;
    }
    void advance() {
        while (base < next && at(base).state == Place::State::kFree) {
            ++base;
        }
    }

    void keep(const Packet& packet) {
        Kept& kept = kept_[packet.front.seq % kept_.size()];
        kept = {.seq = packet.front.seq, .front = packet.front};
        copy_bytes(packet.body, body_of(kept).data());
    }
    [[nodiscard]] Kept* kept(std::uint64_t seq) {
        Kept& kept = kept_[seq % kept_.size()];
        return kept.seq == seq ? &kept : nullptr;
    }
    [[nodiscard]] std::span<std::byte> body_of(const Kept& kept) {
        return std::span(bodies_).subspan(static_cast<std::size_t>(&kept - kept_.data()) * body_bytes_,
                                          kept.front.blocks * kBlock);
    }

 private:
    struct List {
        std::uint32_t head = kNowhere;
        std::uint32_t tail = kNowhere;
    };

    static Nanos due_at(const Place& place) { return place.sent_at + place.timeout; }
    // When one of the oldest is to be made one that asks.
    [[nodiscard]] Nanos asks_at(const Place& place) const {
        if (place.state == Place::State::kSent) {
            return std::max(place.sent_at, heard_at_) + place.timeout;
        }
        return place.state == Place::State::kDue ? place.sent_at : kNever;
    }
    [[nodiscard]] bool overtaken(const Place& place) const { return place.sent_as < overtaken_; }
    // Behind those that ask without having been overtaken. None does while the oldest waits for a member.
    [[nodiscard]] std::uint64_t asked_end() const {
        return held() != nullptr ? base : std::min(next, base + asked_);
    }
    void make_due(Place& place, Place::State state) {
        take_off(place);
        place.state = state;
        push(state == Place::State::kAsks ? asking_ : due_, place);
    }
    void push(List& list, Place& place) {
        const auto at = static_cast<std::uint32_t>(&place - places_.data());
        place.next = kNowhere;
        place.prev = list.tail;
        (list.tail == kNowhere ? list.head : places_[list.tail].next) = at;
        list.tail = at;
    }
    void remove(List& list, const Place& place) {
        (place.prev == kNowhere ? list.head : places_[place.prev].next) = place.next;
        (place.next == kNowhere ? list.tail : places_[place.next].prev) = place.prev;
    }

    std::uint32_t number_;
    std::size_t body_bytes_;
    MemberConfig config_;
    std::array<List, kLevels> sent_;  // by level, so that the oldest of each is the first to run off
    List due_;
    List asking_;
    std::uint32_t in_flight_ = 0;
    std::uint64_t overtaken_ = 0;  // results have come of transmissions up to this one
    std::uint32_t asked_ =
        1;  // of the oldest, how many ask at a time; one more for each that was lost, half for each held
    Nanos heard_at_ = 0;  // when the last came of what was not lost

 public:
    std::uint64_t base = 1;  // the oldest without a result
    std::uint64_t next = 1;  // the first that was not sent yet
    std::uint64_t end = 1;   // behind the last of all operations
    std::uint64_t transmissions = 0;
    RetransmitTimer timer;
    CongestionWindow window;
    std::deque<std::uint64_t> needs;
    std::deque<std::uint64_t> haves;

 private:
    std::vector<Place> places_;
    std::vector<Kept> kept_;
    std::vector<std::byte> bodies_;
};

Member::Member(const GroupTerms& terms, std::uint32_t rank, const MemberConfig& config)
    : wire_(terms), rank_(rank), config_(config), streams_(ASK_VALUES_STREAMS) {
    for (std::uint32_t number = 0; number < ASK_VALUES_STREAMS; ++number) {
        if (terms.has_stream(number)) {
            streams_[number] = std::make_unique<Stream>(number, terms, config);
        }
    }
}

Member::~Member() = default;

Member::Stream* Member::stream_at(std::uint32_t stream) const {
    return stream < streams_.size() ? streams_[stream].get() : nullptr;
}

double Member::window(std::uint32_t stream) const {
    const Stream* at = stream_at(stream);
    return at == nullptr ? 0 : at->window.packets();
}

std::vector<StreamLook> Member::streams() const {
    std::vector<StreamLook> all;
    for (const auto& stream : streams_) {
        if (stream && stream->end > 1) {
            all.push_back({.stream = stream->number(),
                           .window = stream->window.packets(),
                           .in_flight = stream->in_flight(),
                           .srtt = stream->timer.srtt()});
        }
    }
    return all;
}

Result<> Member::check_submission(const Operation& operation) const {
    if (failed_) {
        return Error(*failed_);
    }
    ASK_PASS(check_operation(operation, terms()));
    const std::string who = describe(operation);
    if (last_number_ != 0 && operation.number != last_number_ + 1) {
        return Error(Errc::kInternal, who + ": the one before was number " + std::to_string(last_number_));
    }
    if (operations_.size() >= config_.max_operations) {
        return Error(Errc::kLimit, who + ": " + std::to_string(config_.max_operations) +
                                       " operations are under way, the most at a time");
    }
    const std::size_t bytes = operation.count * dtype_bytes(operation.dtype);
    if ((reads(operation, rank_) && operation.in.size() != bytes) ||
        (writes(operation, rank_) && operation.out.size() != bytes)) {
        return Error(Errc::kUsage, who + ": needs memory of " + std::to_string(bytes) + " bytes");
    }
    return {};
}

Result<> Member::submit(const Operation& operation) {
    ASK_PASS(check_submission(operation));
    auto run = std::make_unique<Run>();
    run->operation = operation;
    run->layout = lay_out(operation, terms());
    run->shape = Shape(operation, terms().size());
    run->left = run->layout.chunks + run->layout.exponent_chunks;
    run->agreed.resize(run->layout.exponent_chunks);
    run->scales.resize(run->layout.exponent_chunks == 0 ? 0 : run->layout.chunks);
    if (writes(operation, rank_)) {
        const bool in_place = reads(operation, rank_) && operation.in.data() == operation.out.data();
        run->staged.resize(in_place ? operation.out.size() : 0);
        run->to = in_place ? std::span(run->staged) : operation.out;
    }
    for (const auto& stream : streams_) {
        if (!stream) {
            continue;
        }
        const std::uint32_t number = stream->number();
        run->first[number] = stream->end;
        run->chunks[number] = number == kExponentStream
                                  ? run->layout.exponent_chunks
                                  : (run->layout.chunks + terms().streams - 1 - number) / terms().streams;
        stream->end += run->chunks[number];
    }
    last_number_ = operation.number;
    operations_.push_back(std::move(run));
    finish_runs();
    return {};
}

void Member::skip(std::uint64_t number) {
    last_number_ = number;
}

std::optional<Member::Chunk> Member::chunk_of(std::uint32_t stream, std::uint64_t seq) const {
    const auto is_before = [stream, seq](const std::unique_ptr<Run>& run) {
        return run->first[stream] + run->chunks[stream] <= seq;
    };
    const auto found = std::ranges::partition_point(operations_, is_before);
    if (found == operations_.end() || (*found)->first[stream] > seq) {
        return std::nullopt;
    }
    const std::uint64_t index = seq - (*found)->first[stream];
    if (stream == kExponentStream) {
        return Chunk{.run = found->get(), .number = index, .exponents = true};
    }
    return Chunk{.run = found->get(), .number = index * terms().streams + stream};
}

// Whether its scale is agreed, if it needs one.
bool Member::ready(const Chunk& chunk) const {
    const Layout& layout = chunk.run->layout;
    return chunk.exponents || layout.exponent_chunks == 0 ||
           chunk.run->agreed[chunk.number / layout.chunks_an_exponent_chunk];
}

Scale Member::scale_of_chunk(const Chunk& chunk) const {
    return chunk.run->scales.empty() ? scale_of(chunk.run->layout, {}) : chunk.run->scales[chunk.number];
}

// All of the front that the chunk decides, equal at all members.
Front Member::front_of(const Chunk& chunk, std::uint32_t stream, std::uint64_t seq) const {
    const Layout& layout = chunk.run->layout;
    Front front;
    front.stream = static_cast<std::uint8_t>(stream);
    front.seq = seq;
    if (chunk.exponents) {
        front.op = ASK_VALUES_MAX32;
        front.blocks = layout.blocks_of_exponents(chunk.number);
        front.shape = chunk.run->shape.of(Shape::Part::kExponents);
    } else {
        const bool raw = scale_of_chunk(chunk).raw;
        front.op = layout.lane_op;
        front.blocks = layout.blocks_of(chunk.number, raw);
        front.shape = chunk.run->shape.of(raw ? Shape::Part::kRaw : Shape::Part::kValues);
    }
    return front;
}

void Member::write_exponents(const Chunk& chunk, std::span<std::byte> body) const {
    const Run& run = *chunk.run;
    const std::size_t each = dtype_bytes(run.operation.dtype);
    const std::uint64_t first = chunk.number * run.layout.chunks_an_exponent_chunk;
    const std::uint64_t last = std::min(run.layout.chunks, first + run.layout.chunks_an_exponent_chunk);
    clear_bytes(body);
    for (std::uint64_t number = first; number < last; ++number) {
        const Exponents found =
            exponents_of(run.layout, run.operation.in.subspan(run.layout.first_value(number) * each,
                                                              run.layout.values_of(number) * each));
        std::memcpy(body.data() + (number - first) * sizeof(found), &found, sizeof(found));
    }
}

// Writes the member's part of a chunk. False: a value is beyond what was agreed.
bool Member::write_body(const Chunk& chunk, std::span<std::byte> body) const {
    const Run& run = *chunk.run;
    if (!reads(run.operation, rank_)) {
        clear_bytes(body);
        return true;
    }
    if (chunk.exponents) {
        write_exponents(chunk, body);
        return true;
    }
    const std::size_t each = dtype_bytes(run.operation.dtype);
    return encode(run.layout, scale_of_chunk(chunk),
                  run.operation.in.subspan(run.layout.first_value(chunk.number) * each,
                                           run.layout.values_of(chunk.number) * each),
                  body);
}

Outgoing Member::send_value(const Chunk& chunk, std::uint32_t stream, std::uint64_t seq, std::uint8_t flags,
                            std::span<std::byte> out) {
    Front front = front_of(chunk, stream, seq);
    front.type = ASK_VALUE;
    front.bits = std::uint64_t{1} << rank_;
    front.flags = flags;
    if (front.shape.raw()) {
        front.flags |= ASK_F_ALONE;  // no switch folds it
    }
    if (!write_body(chunk, out.subspan(ASK_VALUES_FRONT, front.blocks * kBlock))) {
        front.flags |= ASK_F_RANGE;
        ++stats_.out_of_range;
    }
    stats_.alone += (front.flags & ASK_F_ALONE) != 0 ? 1U : 0U;
    return wire_.seal(out, front, rank_);
}

// What others asked for: a result, or the member's own value.
std::optional<Outgoing> Member::send_asked(Stream& stream, std::span<std::byte> out) {
    while (!stream.haves.empty()) {
        const std::uint64_t seq = stream.haves.front();
        stream.haves.pop_front();
        Kept* kept = stream.kept(seq);
        if (kept == nullptr || !kept->have) {
            continue;
        }
        kept->have = false;
        Front front = kept->front;
        front.type = ASK_HAVE;
        front.flags &= ASK_F_STICKY;
        front.level = ASK_LEVEL_MEMBER;
        copy_bytes(stream.body_of(*kept), out.data() + ASK_VALUES_FRONT);
        ++stats_.haves;
        return wire_.seal(out, front, rank_);
    }
    while (!stream.needs.empty()) {
        const std::uint64_t seq = stream.needs.front();
        stream.needs.pop_front();
        const auto chunk = chunk_of(stream.number(), seq);
        if (!stream.is_open(seq) || !chunk) {
            continue;
        }
        Place& place = stream.at(seq);
        place.need = false;
        place.was_needed = true;
        return send_value(*chunk, stream.number(), seq, ASK_F_ALONE, out);
    }
    return std::nullopt;
}

std::optional<Outgoing> Member::send_again(Stream& stream, std::span<std::byte> out, Nanos now) {
    if (Place* place = stream.due(); place != nullptr) {
        stream.take_off(*place);
        ++place->repeats;
        stream.sent(*place, now);
        ++stats_.resends;
        const std::uint8_t flags = ASK_F_RESEND | (place->repeats > 1 ? ASK_F_ALONE : 0);
        return send_value(*chunk_of(stream.number(), place->seq), stream.number(), place->seq, flags, out);
    }
    if (stream.held() != nullptr && stream.held()->probe_at <= now) {
        Place& place = stream.at(stream.base);
        place.probe_gap = std::min(config_.probe_most, 2 * place.probe_gap);
        place.probe_at = now + place.probe_gap;
        ++stats_.probes;
        return send_value(*chunk_of(stream.number(), place.seq), stream.number(), place.seq,
                          ASK_F_RESEND | ASK_F_ALONE, out);
    }
    return std::nullopt;
}

std::optional<Outgoing> Member::send_from(Stream& stream, std::span<std::byte> out, Nanos now) {
    if (auto asked = send_asked(stream, out)) {
        return asked;
    }
    stream.expire(now);
    if (auto again = send_again(stream, out, now)) {
        return again;
    }
    if (!can_begin(stream)) {
        return std::nullopt;
    }
    const std::uint64_t seq = stream.next;
    const Chunk chunk = *chunk_of(stream.number(), seq);
    stream.begin(seq, now);
    stream.sent(stream.at(seq), now);
    ++stats_.values_sent;
    stats_.raw += !chunk.exponents && scale_of_chunk(chunk).raw ? 1U : 0U;
    return send_value(chunk, stream.number(), seq, 0, out);
}

bool Member::can_begin(const Stream& stream) const {
    if (!stream.window_open() || !stream.has_room()) {
        return false;
    }
    const auto chunk = chunk_of(stream.number(), stream.next);
    return chunk && ready(*chunk);
}

std::optional<Outgoing> Member::next_packet(std::span<std::byte> out, Nanos now) {
    if (failed_ || out.size() < ASK_VALUES_FRONT + terms().blocks * kBlock) {
        return std::nullopt;
    }
    for (std::size_t tried = 0; tried < streams_.size(); ++tried) {
        turn_ = (turn_ + 1) % ASK_VALUES_STREAMS;
        if (Stream* stream = stream_at(turn_)) {
            if (auto packet = send_from(*stream, out, now)) {
                return packet;
            }
        }
    }
    return std::nullopt;
}

Nanos Member::deadline_of(const Stream& stream, Nanos now) const {
    if (!stream.needs.empty() || !stream.haves.empty() || stream.has_due() || can_begin(stream)) {
        return now;
    }
    const Place* held = stream.held();
    return std::min(stream.next_timeout(), held == nullptr ? kNever : held->probe_at);
}

Nanos Member::next_deadline(Nanos now) const {
    Nanos at = kNever;
    for (const auto& stream : streams_) {
        at = stream && !failed_ ? std::min(at, deadline_of(*stream, now)) : at;
    }
    return at;
}

void Member::on_packet(const Packet& packet, Nanos now) {
    Stream* stream = stream_at(packet.front.stream);
    if (failed_ || stream == nullptr) {
        return;
    }
    if (packet.front.type != ASK_RESULT && packet.member != rank_) {
        ++stats_.misdirected;
        return;
    }
    switch (packet.front.type) {
        case ASK_RESULT:
            take_result(*stream, packet, now);
            break;
        case ASK_NEED:
            take_need(*stream, packet);
            break;
        case ASK_HELD:
            take_held(*stream, packet, now);
            break;
        default:
            ++stats_.misdirected;
            break;
    }
}

// What the answer says of the way: marks, and a loss if it is proved. Who was held or asked has not lost.
void Member::judge_way(Stream& stream, const Place& place, const Packet& packet, Nanos now) {
    const bool once = place.repeats == 0 && !place.was_held && !place.was_needed;
    // What took longer waited for a member, or for its timeout: it tells nothing of the way.
    if (once && now - place.sent_at <= place.timeout) {
        stream.timer.sample(now - place.sent_at);
    } else {
        stream.timer.progress();
    }
    const bool marked = (packet.front.flags & ASK_F_ECE) != 0 || packet.congested;
    const bool lost = place.repeats > 0 && !place.was_held && (packet.front.flags & ASK_F_COLLIDED) == 0;
    stats_.marks += marked ? 1U : 0U;
    stats_.losses += lost ? 1U : 0U;
    if (marked || lost) {
        stats_.congested += stream.window.congested(place.sent_as, stream.transmissions) ? 1U : 0U;
    } else if (!place.was_held) {
        stream.window.acked();
    }
}

// A chunk that was sent again for want of an answer is answered twice: nothing was lost, the way is longer
// than the timeout. Marks count as they did.
void Member::learn(Stream& stream, const Packet& packet, Nanos now) {
    const Place& place = stream.at(packet.front.seq);
    if (packet.front.seq != place.seq || place.repeats == 0 || place.was_held || place.was_needed) {
        return;
    }
    stream.timer.premature(now);
    if ((packet.front.flags & ASK_F_ECE) == 0 && !packet.congested) {
        stream.window.undo();
    }
}

void Member::take_result(Stream& stream, const Packet& packet, Nanos now) {
    const std::uint64_t seq = packet.front.seq;
    if (!stream.is_open(seq)) {
        ++(seq < stream.next ? stats_.results_again : stats_.results_bad);
        learn(stream, packet, now);
        return;
    }
    const auto chunk = chunk_of(stream.number(), seq);
    const Front expected = front_of(*chunk, stream.number(), seq);
    if (packet.front.shape != expected.shape || packet.front.blocks != expected.blocks ||
        packet.front.op != expected.op) {
        ++stats_.results_bad;
        return;
    }
    ++stats_.results;
    Place& place = stream.at(seq);
    judge_way(stream, place, packet, now);
    stream.answered(place, now);
    stream.take_off(place);
    place.state = Place::State::kFree;
    stream.keep(packet);
    stream.advance();
    deliver(*chunk, packet);
    finish_runs();
}

void Member::deliver(const Chunk& chunk, const Packet& packet) {
    Run& run = *chunk.run;
    --run.left;
    run.out_of_range = run.out_of_range || (packet.front.flags & ASK_F_RANGE) != 0;
    if (chunk.exponents) {
        const std::uint64_t first = chunk.number * run.layout.chunks_an_exponent_chunk;
        const std::uint64_t last = std::min(run.layout.chunks, first + run.layout.chunks_an_exponent_chunk);
        for (std::uint64_t number = first; number < last; ++number) {
            Exponents agreed;
            std::memcpy(&agreed, packet.body.data() + (number - first) * sizeof(agreed), sizeof(agreed));
            run.scales[number] = scale_of(run.layout, agreed);
        }
        run.agreed[chunk.number] = true;
    } else if (!run.to.empty()) {
        const std::size_t each = dtype_bytes(run.operation.dtype);
        decode(run.layout, scale_of_chunk(chunk), packet.body,
               run.to.subspan(run.layout.first_value(chunk.number) * each,
                              run.layout.values_of(chunk.number) * each));
    }
}

void Member::finish_runs() {
    while (!operations_.empty() && operations_.front()->left == 0 &&
           operations_.front()->operation.number <= last_to_end_) {
        const Run& run = *operations_.front();
        Completion completion{.number = run.operation.number, .error = std::nullopt};
        if (run.out_of_range) {
            completion.error =
                Error(Errc::kInput,
                      describe(run.operation) + ": its values changed while it ran, at one member or more");
        } else {
            copy_bytes(run.staged, run.operation.out.data());
        }
        completed_ = run.operation.number;
        completions_.push_back(std::move(completion));
        operations_.pop_front();
    }
}

void Member::take_need(Stream& stream, const Packet& packet) {
    const std::uint64_t seq = packet.front.seq;
    ++stats_.needs;
    if (Kept* kept = stream.kept(seq)) {
        if (!kept->have) {
            kept->have = true;
            stream.haves.push_back(seq);
        }
    } else if (stream.is_open(seq)) {
        if (!stream.at(seq).need) {
            stream.at(seq).need = true;
            stream.needs.push_back(seq);
        }
    } else {
        ++(seq < stream.base ? stats_.needs_late : stats_.needs_early);
    }
}

void Member::take_held(Stream& stream, const Packet& packet, Nanos now) {
    const std::uint64_t seq = packet.front.seq;
    ++stats_.held;
    if (!stream.is_open(seq)) {
        return;
    }
    Place& place = stream.at(seq);
    place.missing = packet.front.bits;
    if ((packet.front.flags & ASK_F_ECE) != 0) {
        ++stats_.marks;
        stats_.congested += stream.window.congested(place.sent_as, stream.transmissions) ? 1U : 0U;
    }
    if (place.state == Place::State::kHeld) {
        return;
    }
    stream.held_back(now);
    stream.take_off(place);
    place.state = Place::State::kHeld;
    place.was_held = true;
    place.probe_gap = config_.probe_first;
    place.probe_at = now + place.probe_gap;
}

void Member::hold_beyond(std::uint64_t number) {
    last_to_end_ = number;
    finish_runs();
}

std::optional<Completion> Member::next_completion() {
    if (completions_.empty()) {
        return std::nullopt;
    }
    Completion completion = std::move(completions_.front());
    completions_.pop_front();
    return completion;
}

void Member::fail(const Error& error) {
    if (failed_) {
        return;
    }
    failed_ = error;
    for (const auto& run : operations_) {
        completions_.push_back({.number = run->operation.number, .error = error});
    }
    operations_.clear();
}

std::optional<Waiting> Member::waiting() const {
    std::optional<Waiting> oldest;
    for (const auto& stream : streams_) {
        if (!stream || failed_ || stream->base >= stream->next) {
            continue;
        }
        const Place& place = stream->at(stream->base);
        if (!oldest || place.first_sent_at < oldest->since) {
            oldest = {.operation = chunk_of(stream->number(), place.seq)->run->operation.number,
                      .stream = stream->number(),
                      .seq = place.seq,
                      .since = place.first_sent_at,
                      .missing = place.missing};
        }
    }
    return oldest;
}

}  // namespace ask::values
