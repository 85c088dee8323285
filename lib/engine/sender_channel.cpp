// SPDX-License-Identifier: Apache-2.0
#include "lib/engine/sender_channel.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/bytes.h"
#include "lib/engine/congestion.h"

namespace ask {

namespace {

constexpr std::uint32_t kMaxHold = std::uint32_t{1} << 22;
// Header, LONG header and the smallest piece of a key.
constexpr std::uint32_t kLeastPayload = sizeof(ask_hdr) + sizeof(ask_long_hdr) + ASK_LONG_RECORD_BYTES + 16;

// A place of the window: one packet, kept sealed until it is acknowledged.
struct Place {
    enum class State : std::uint8_t { kFree, kSent, kLost };
    State state = State::kFree;
    std::uint8_t type = 0;
    bool repeated = false;  // sent more than once: its ACK is no RTT sample (Karn)
    std::uint32_t bytes = 0;
    std::uint32_t next = 0;
    std::uint32_t prev = 0;
    std::uint64_t seq = 0;
    std::uint64_t sent_as = 0;  // number of its last transmission
    Nanos first_sent_at = 0;
    Nanos sent_at = 0;
    Nanos timeout = 0;  // in force when it was sent
};

// Places in the order they were put in; linked through Place::next and prev.
class PlaceList {
 public:
    static constexpr std::uint32_t kNone = ASK_WINDOW;
    using Places = std::array<Place, ASK_WINDOW>;

    void push(Places& places, std::uint32_t at) {
        places[at].next = kNone;
        places[at].prev = tail_;
        (tail_ == kNone ? head_ : places[tail_].next) = at;
        tail_ = at;
        ++count_;
    }
    void remove(Places& places, std::uint32_t at) {
        const Place& place = places[at];
        (place.prev == kNone ? head_ : places[place.prev].next) = place.next;
        (place.next == kNone ? tail_ : places[place.next].prev) = place.prev;
        --count_;
    }
    [[nodiscard]] bool empty() const { return head_ == kNone; }
    [[nodiscard]] std::uint32_t front() const { return head_; }
    [[nodiscard]] std::uint32_t count() const { return count_; }

 private:
    std::uint32_t head_ = kNone;
    std::uint32_t tail_ = kNone;
    std::uint32_t count_ = 0;
};

}  // namespace

// A packet is `sent` (thought to be under way) or, after its timeout, `lost` (waiting to be
// sent again); both count for the sliding window, only the former for the congestion window,
// which therefore bounds retransmissions too. seqs are used from base_ (the oldest not
// acknowledged) up to next_seq_; place seq % W keeps the packet.
class SenderChannel::Impl {
 public:
    Impl(ChannelId id, std::uint32_t incarnation, const SenderConfig& config);

    Result<> begin(const FlowParams& params, std::uint32_t hold, Nanos now);
    std::size_t next_packet(Nanos now, std::span<std::byte> out);
    void on_packet(Nanos now, std::span<const std::byte> payload, Ports ports);
    [[nodiscard]] Nanos deadline() const;
    void end_task();
    void renew(std::uint32_t incarnation);
    const SenderStats& stats();

    ChannelId id_;
    std::uint32_t incarnation_;
    SenderConfig config_;
    std::uint64_t base_ = 1;
    std::uint64_t next_seq_ = 1;
    std::optional<Packer> packer_;  // only while a task is on
    bool finished_ = false;
    bool fin_sent_ = false;
    bool fin_acked_ = false;
    AckTimes ack_times_;
    Nanos last_progress_ = 0;
    RetransmitTimer timer_;
    CongestionWindow window_;
    PlaceList sent_;
    PlaceList lost_;

 private:
    enum class AckVerdict : std::uint8_t { kBad, kIgnored, kAgain, kFits };

    [[nodiscard]] Ports own_ports() const { return {.source = id_.port, .dest = ASK_UDP_PORT}; }
    // Of a place in the store: a packet, and what its header may be shorter than the longest.
    [[nodiscard]] std::size_t stride() const {
        return std::size_t{config_.payload_limit} + std::size_t{4} * ASK_MAX_ROWS;
    }
    [[nodiscard]] std::span<std::byte> bytes_of(std::uint32_t at) {
        return std::span(store_).subspan(at * stride(), stride());
    }
    static std::uint32_t place_of_seq(std::uint64_t seq) {
        return static_cast<std::uint32_t>(seq % ASK_WINDOW);
    }
    [[nodiscard]] bool window_open() const {
        return next_seq_ - base_ < config_.window && sent_.count() < window_.whole();
    }
    [[nodiscard]] bool fin_due() const {
        return finished_ && !fin_sent_ && packer_ && packer_->empty() && base_ == next_seq_;
    }
    [[nodiscard]] Nanos due_at(const Place& place) const {
        return place.sent_at + std::min(place.timeout, timer_.timeout());
    }
    [[nodiscard]] Result<> check_task(const FlowParams& params, std::uint32_t hold) const;
    void expire(Nanos now);
    // Fills the place of next_seq_ with a new packet. False if there is none.
    bool build_packet();
    void seal_packet(Header header, std::size_t body_bytes, std::span<const std::uint32_t> bitmaps);
    std::size_t transmit(std::uint32_t at, Nanos now, std::span<std::byte> out);
    [[nodiscard]] AckVerdict judge(const PacketView& ack, Ports ports) const;
    void take_ack(Nanos now, const PacketView& ack);

    FlowParams params_;
    std::optional<CheckKey> key_;
    PlaceList::Places places_;
    std::vector<std::byte> store_;
    std::uint64_t transmissions_ = 0;
    Nanos now_ = 0;  // latest time heard of
    SenderStats stats_;
};

SenderChannel::Impl::Impl(ChannelId id, std::uint32_t incarnation, const SenderConfig& config)
    : id_(id),
      incarnation_(incarnation),
      config_(config),
      timer_(config.rto_initial, config.rto_floor, config.rto_ceiling),
      window_(config.initial_window, std::clamp(config.window, 1U, ASK_WINDOW)) {
    config_.window = std::clamp(config.window, 1U, ASK_WINDOW);
    config_.payload_limit = std::min(config.payload_limit, ASK_MAX_PAYLOAD);
}

Result<> SenderChannel::Impl::check_task(const FlowParams& params, std::uint32_t hold) const {
    const std::string who = "task instance " + std::to_string(params.instance);
    if (packer_) {
        return Error(Errc::kExists,
                     who + ": the channel still serves task instance " + std::to_string(params_.instance));
    }
    if (params.channel != id_ || params.incarnation != incarnation_ || params.first_seq != next_seq_) {
        return Error(Errc::kInternal,
                     who + ": joined for another channel, incarnation or seq than this one's");
    }
    if (auto valid = validate(params.geometry); !valid) {
        return std::move(valid).error().with_context(who);
    }
    const unsigned needed = std::max(params.geometry.payload_bytes(params.geometry.rows), kLeastPayload);
    if (needed > config_.payload_limit) {
        return Error(Errc::kUnsupported, who + ": packets of " + std::to_string(needed) +
                                             " bytes of UDP payload do not fit the limit of " +
                                             std::to_string(config_.payload_limit) +
                                             "; raise the MTU or take fewer rows");
    }
    if (hold > kMaxHold) {
        return Error(Errc::kUsage, who + ": hold " + std::to_string(hold) + ", the limit is " +
                                       std::to_string(kMaxHold) + " tuples");
    }
    return {};
}

Result<> SenderChannel::Impl::begin(const FlowParams& params, std::uint32_t hold, Nanos now) {
    const std::uint32_t held = hold > 0 ? hold : config_.hold;
    if (auto fits = check_task(params, held); !fits) {
        return fits;
    }
    params_ = params;
    key_.emplace(params.secret);
    store_.resize(ASK_WINDOW * stride());
    packer_.emplace(PackerConfig{.geometry = params.geometry,
                                 .hold = held,
                                 .payload_limit = config_.payload_limit,
                                 .slot_map = params.slot_map});
    stats_ = {};
    ack_times_.clear();
    finished_ = fin_sent_ = fin_acked_ = false;
    now_ = std::max(now_, now);
    last_progress_ = now;
    return {};
}

// Moves what has run off from sent to lost; the timeout doubles once for all of a flight.
void SenderChannel::Impl::expire(Nanos now) {
    bool shrank = false;
    while (!sent_.empty() && due_at(places_[sent_.front()]) <= now) {
        const std::uint32_t at = sent_.front();
        sent_.remove(places_, at);
        lost_.push(places_, at);
        places_[at].state = Place::State::kLost;
        shrank = window_.congested(places_[at].sent_as, transmissions_) || shrank;
    }
    if (shrank) {
        timer_.back_off();
    }
}

void SenderChannel::Impl::seal_packet(Header header, std::size_t body_bytes,
                                      std::span<const std::uint32_t> bitmaps) {
    header.op = params_.op;
    header.geometry = params_.geometry;
    header.instance = params_.instance;
    header.channel = id_;
    header.incarnation = incarnation_;
    header.seq = next_seq_;
    const std::uint32_t at = place_of_seq(next_seq_);
    const std::size_t bytes = write_header(bytes_of(at), header, bitmaps) + body_bytes;
    key_->seal(bytes_of(at).first(bytes), own_ports());
    Place& place = places_[at];
    place.type = header.type;
    place.repeated = false;
    place.bytes = static_cast<std::uint32_t>(bytes);
    place.seq = next_seq_++;
    ++stats_.packets_sent;
    stats_.packets_data += header.type == ASK_DATA ? 1 : 0;
    stats_.packets_long += header.type == ASK_LONG ? 1 : 0;
}

bool SenderChannel::Impl::build_packet() {
    if (fin_due()) {
        Header header;
        header.type = ASK_FIN;
        seal_packet(header, 0, {});
        fin_sent_ = true;
        return true;
    }
    if (!packer_ || !packer_->has_body()) {
        return false;
    }
    // How many rows there are shows only now, so the body is written behind the longest
    // header and moved if its own is shorter.
    const std::span<std::byte> bytes = bytes_of(place_of_seq(next_seq_));
    const std::size_t longest = sizeof(ask_hdr) + std::size_t{4} * params_.geometry.rows;
    const auto body = packer_->next(bytes.subspan(longest));
    if (!body) {
        return false;
    }
    const std::size_t own = sizeof(ask_hdr) + std::size_t{4} * body->rows;
    if (own != longest) {
        std::memmove(bytes.data() + own, bytes.data() + longest, body->bytes);
    }
    Header header;
    header.type = body->type;
    header.rows = body->rows;
    seal_packet(header, body->bytes, std::span(body->bitmap).first(body->rows));
    return true;
}

std::size_t SenderChannel::Impl::transmit(std::uint32_t at, Nanos now, std::span<std::byte> out) {
    Place& place = places_[at];
    std::memcpy(out.data(), bytes_of(at).data(), place.bytes);
    place.state = Place::State::kSent;
    place.sent_at = now;
    place.first_sent_at = place.repeated ? place.first_sent_at : now;
    place.sent_as = ++transmissions_;
    place.timeout = timer_.timeout();
    sent_.push(places_, at);
    return place.bytes;
}

std::size_t SenderChannel::Impl::next_packet(Nanos now, std::span<std::byte> out) {
    now_ = std::max(now_, now);
    if (out.size() < config_.payload_limit) {
        return 0;
    }
    expire(now_);
    if (!lost_.empty() && sent_.count() < window_.whole()) {
        const std::uint32_t at = lost_.front();
        lost_.remove(places_, at);
        places_[at].repeated = true;
        ++stats_.retransmissions;
        return transmit(at, now_, out);
    }
    const std::uint32_t at = place_of_seq(next_seq_);
    const bool nothing_in_flight = sent_.empty() && lost_.empty();
    if (window_open() && build_packet()) {
        // Time in which there was nothing to acknowledge is no standstill.
        last_progress_ = nothing_in_flight ? now_ : last_progress_;
        return transmit(at, now_, out);
    }
    return 0;
}

SenderChannel::Impl::AckVerdict SenderChannel::Impl::judge(const PacketView& ack, Ports ports) const {
    const Header& header = ack.header;
    if (header.type != ASK_ACK || ports.source != ASK_UDP_PORT || ports.dest != id_.port ||
        header.channel != id_) {
        return AckVerdict::kBad;
    }
    if (!packer_ || header.incarnation != incarnation_ || header.instance != params_.instance) {
        return AckVerdict::kIgnored;  // of a former task: its key is gone, so it cannot be judged
    }
    Geometry geometry = params_.geometry;
    geometry.rows = 0;
    if (header.geometry != geometry || header.op != params_.op ||
        (header.mark != Mark{} && header.mark != params_.mark) || !key_->verify(ack.payload, ports)) {
        return AckVerdict::kBad;
    }
    const Place& place = places_[place_of_seq(header.seq)];
    if (place.state == Place::State::kFree || place.seq != header.seq) {
        const bool lately = header.seq < next_seq_ && next_seq_ - header.seq <= ASK_WINDOW;
        return lately ? AckVerdict::kAgain : AckVerdict::kIgnored;
    }
    // A switch never answers for the receiver.
    if (place.type != ASK_DATA && header.mark != Mark{}) {
        return AckVerdict::kBad;
    }
    return AckVerdict::kFits;
}

void SenderChannel::Impl::take_ack(Nanos now, const PacketView& ack) {
    const std::uint32_t at = place_of_seq(ack.header.seq);
    Place& place = places_[at];
    (place.state == Place::State::kSent ? sent_ : lost_).remove(places_, at);
    place.state = Place::State::kFree;
    if (place.repeated) {
        timer_.progress();
    } else {
        timer_.sample(now - place.sent_at);
    }
    ack_times_.add(now - place.first_sent_at);
    if ((ack.header.flags & ASK_F_ECE) != 0) {
        ++stats_.ecn_echoes;
        window_.congested(place.sent_as, transmissions_);
    } else {
        window_.acked();
    }
    ++(ack.header.mark == Mark{} ? stats_.packets_acked_by_receiver : stats_.packets_acked_by_switch);
    last_progress_ = now;
    fin_acked_ = fin_acked_ || place.type == ASK_FIN;
    while (base_ < next_seq_ && places_[place_of_seq(base_)].state == Place::State::kFree) {
        ++base_;
    }
}

void SenderChannel::Impl::on_packet(Nanos now, std::span<const std::byte> payload, Ports ports) {
    now_ = std::max(now_, now);
    const auto ack = parse_packet(payload);
    switch (ack ? judge(*ack, ports) : AckVerdict::kBad) {
        case AckVerdict::kBad:
            ++stats_.acks_bad;
            break;
        case AckVerdict::kAgain:
            timer_.premature(now_);
            [[fallthrough]];
        case AckVerdict::kIgnored:
            ++stats_.acks_ignored;
            break;
        case AckVerdict::kFits:
            take_ack(now_, *ack);
            break;
    }
}

Nanos SenderChannel::Impl::deadline() const {
    const bool room = sent_.count() < window_.whole();
    if ((room && !lost_.empty()) || (window_open() && (fin_due() || (packer_ && packer_->has_body())))) {
        return now_;
    }
    return sent_.empty() ? kNever : due_at(places_[sent_.front()]);
}

const SenderStats& SenderChannel::Impl::stats() {
    if (packer_) {
        stats_.packer = packer_->stats();
    }
    return stats_;
}

void SenderChannel::Impl::end_task() {
    packer_.reset();
    key_.reset();
    // Of the hundreds of channels that a host may have, few have a task.
    store_ = {};
    finished_ = fin_sent_ = fin_acked_ = false;
}

void SenderChannel::Impl::renew(std::uint32_t incarnation) {
    end_task();
    incarnation_ = incarnation;
    base_ = next_seq_ = 1;
    places_ = {};
    sent_ = {};
    lost_ = {};
    window_ = CongestionWindow(config_.initial_window, config_.window);
}

SenderChannel::SenderChannel(ChannelId id, std::uint32_t incarnation, const SenderConfig& config)
    : impl_(std::make_unique<Impl>(id, incarnation, config)) {}
SenderChannel::~SenderChannel() = default;
SenderChannel::SenderChannel(SenderChannel&&) noexcept = default;
SenderChannel& SenderChannel::operator=(SenderChannel&&) noexcept = default;

ChannelId SenderChannel::id() const {
    return impl_->id_;
}
std::uint32_t SenderChannel::incarnation() const {
    return impl_->incarnation_;
}
std::uint64_t SenderChannel::next_seq() const {
    return impl_->next_seq_;
}
bool SenderChannel::idle() const {
    return !impl_->packer_;
}

Result<> SenderChannel::begin(const FlowParams& params, std::uint32_t hold, Nanos now) {
    return impl_->begin(params, hold, now);
}
bool SenderChannel::has_room() const {
    return impl_->packer_ && !impl_->finished_ && impl_->packer_->has_room();
}
void SenderChannel::offer(std::string_view key, std::int64_t value) {
    impl_->packer_->add(key, value);
}
void SenderChannel::finish() {
    if (impl_->packer_) {
        impl_->packer_->finish();
        impl_->finished_ = true;
    }
}

std::size_t SenderChannel::next_packet(Nanos now, std::span<std::byte> out) {
    return impl_->next_packet(now, out);
}
void SenderChannel::on_packet(Nanos now, std::span<const std::byte> payload, Ports ports) {
    impl_->on_packet(now, payload, ports);
}
Nanos SenderChannel::deadline() const {
    return impl_->deadline();
}

bool SenderChannel::fin_acked() const {
    return impl_->fin_acked_;
}
SenderStats SenderChannel::end() {
    SenderStats stats = impl_->stats();
    impl_->end_task();
    return stats;
}
SenderStats SenderChannel::abandon(std::uint32_t new_incarnation) {
    SenderStats stats = impl_->stats();
    impl_->renew(new_incarnation);
    return stats;
}

const SenderStats& SenderChannel::stats() const {
    return impl_->stats();
}
Nanos SenderChannel::last_progress() const {
    return impl_->last_progress_;
}
std::uint32_t SenderChannel::in_flight() const {
    return impl_->sent_.count() + impl_->lost_.count();
}
double SenderChannel::window() const {
    return impl_->window_.packets();
}
Nanos SenderChannel::srtt() const {
    return impl_->timer_.srtt();
}
const AckTimes& SenderChannel::ack_times() const {
    return impl_->ack_times_;
}
Ports SenderChannel::ports() const {
    return {.source = impl_->id_.port, .dest = ASK_UDP_PORT};
}

}  // namespace ask
