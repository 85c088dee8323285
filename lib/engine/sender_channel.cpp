// SPDX-License-Identifier: Apache-2.0
#include "lib/engine/sender_channel.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "lib/abi/var.h"
#include "lib/base/bytes.h"
#include "lib/base/probe.h"

namespace ask {

SenderChannel::SenderChannel(ChannelId id, std::uint32_t incarnation, const ChannelConfig& config)
    : id_(id),
      incarnation_(incarnation),
      config_(config),
      timer_(config.rto_initial, config.rto_floor, config.rto_ceiling),
      window_(config.initial_window, std::clamp(config.window, 1U, ASK_WINDOW)) {
    config_.window = std::clamp(config.window, 1U, ASK_WINDOW);
    config_.payload_limit = std::min(config.payload_limit, ASK_MAX_PAYLOAD);
}

Result<> SenderChannel::begin(const FlowTerms& flow, PacketSource& source, Nanos now) {
    const std::string who = "task instance " + std::to_string(flow.instance);
    if (source_ != nullptr) {
        return Error(Errc::kExists,
                     who + ": the channel still serves task instance " + std::to_string(flow_.instance));
    }
    if (flow.channel != id_ || flow.incarnation != incarnation_ || flow.first_seq != next_seq_) {
        return Error(Errc::kInternal,
                     who + ": joined for another channel, incarnation or seq than this one's");
    }
    flow_ = flow;
    source_ = &source;
    body_ = source.terms();
    most_bitmaps_ = std::max<std::uint32_t>(body_.rows, flow.whole_keys ? ASK_VAR_MAX_ROWS : 0);
    key_.emplace(flow.secret);
    store_.resize(ASK_WINDOW * stride());
    stats_ = {};
    ack_times_.clear();
    pace_ = Pace();
    finished_ = fin_sent_ = fin_acked_ = false;
    now_ = std::max(now_, now);
    last_progress_ = now;
    return {};
}

void SenderChannel::finish() {
    if (source_ != nullptr) {
        source_->finish();
        finished_ = true;
    }
}

// Moves what has run off from sent to lost; the timeout doubles once for all of a flight.
void SenderChannel::expire(Nanos now) {
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

void SenderChannel::seal_packet(Header header, std::size_t body_bytes,
                                std::span<const std::uint32_t> bitmaps) {
    header.format = body_.format;
    header.instance = flow_.instance;
    header.channel = id_;
    header.incarnation = incarnation_;
    header.seq = next_seq_;
    const std::uint32_t at = place_of_seq(next_seq_);
    const std::size_t bytes = write_header(bytes_of(at), header, bitmaps) + body_bytes;
    key_->seal(bytes_of(at).first(bytes), ports());
    Place& place = places_[at];
    place.type = header.type;
    place.repeated = false;
    place.bytes = static_cast<std::uint32_t>(bytes);
    place.seq = next_seq_++;
    ++stats_.packets_sent;
    stats_.packets_data += header.type == ASK_DATA ? 1 : 0;
    stats_.packets_long += header.type == ASK_LONG ? 1 : 0;
    stats_.packets_var += header.type == ASK_VAR ? 1 : 0;
    stats_.payload_bytes += bytes;
}

bool SenderChannel::build_packet() {
    if (fin_due()) {
        Header header;
        header.type = ASK_FIN;
        store_be(bytes_of(place_of_seq(next_seq_)).data() + sizeof(ask_hdr) + offsetof(ask_fin, items),
                 source_->items());
        seal_packet(header, sizeof(ask_fin), {});
        fin_sent_ = true;
        return true;
    }
    if (source_ == nullptr || !source_->has_body()) {
        return false;
    }
    // How many bitmaps there are shows only now, so the body is written behind the longest
    // header and moved if its own is shorter.
    const std::span<std::byte> bytes = bytes_of(place_of_seq(next_seq_));
    const std::size_t longest = sizeof(ask_hdr) + std::size_t{4} * most_bitmaps_;
    const auto body = source_->next(bytes.subspan(longest));
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

std::size_t SenderChannel::transmit(std::uint32_t at, Nanos now, std::span<std::byte> out) {
    Place& place = places_[at];
    std::memcpy(out.data(), bytes_of(at).data(), place.bytes);
    place.state = Place::State::kSent;
    place.sent_at = now;
    place.first_sent_at = place.repeated ? place.first_sent_at : now;
    place.sent_as = ++transmissions_;
    place.timeout = timer_.timeout();
    pace_.sent(now, place.bytes);
    sent_.push(places_, at);
    return place.bytes;
}

std::size_t SenderChannel::next_packet(Nanos now, std::span<std::byte> out) {
    now_ = std::max(now_, now);
    if (out.size() < config_.payload_limit) {
        return 0;
    }
    expire(now_);
    if (pace_.free_at() > now_) {
        return 0;
    }
    if (!lost_.empty() && sent_.count() < window_.whole()) {
        const std::uint32_t at = lost_.front();
        lost_.remove(places_, at);
        places_[at].repeated = true;
        ++stats_.retransmissions;
        ASK_PROBE(packet_sent_again, id_.port, places_[at].seq);
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

SenderChannel::AckVerdict SenderChannel::judge(const PacketView& ack, Ports ports) const {
    const Header& header = ack.header;
    if (header.type != ASK_ACK || ports.source != ASK_UDP_PORT || ports.dest != id_.port ||
        header.channel != id_) {
        return AckVerdict::kBad;
    }
    if (source_ == nullptr || header.incarnation != incarnation_ || header.instance != flow_.instance) {
        return AckVerdict::kIgnored;  // of a former task: its key is gone, so it cannot be judged
    }
    if (!same_format(header.format, body_.format) || (header.mark != Mark{} && header.mark != flow_.mark) ||
        !key_->verify(ack.payload, ports)) {
        return AckVerdict::kBad;
    }
    const Place& place = places_[place_of_seq(header.seq)];
    if (place.state == Place::State::kFree || place.seq != header.seq) {
        const bool lately = header.seq < next_seq_ && next_seq_ - header.seq <= ASK_WINDOW;
        return lately ? AckVerdict::kAgain : AckVerdict::kIgnored;
    }
    // A switch never answers for the receiver.
    if (ask_type_aggregates(place.type) == 0 && header.mark != Mark{}) {
        return AckVerdict::kBad;
    }
    return AckVerdict::kFits;
}

void SenderChannel::take_ack(Nanos now, const PacketView& ack) {
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
    source_->answered(ack.header.seq, ack.body);
}

void SenderChannel::on_packet(Nanos now, std::span<const std::byte> payload, Ports ports) {
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

bool SenderChannel::fin_due() const {
    return finished_ && !fin_sent_ && source_ != nullptr && source_->empty() && base_ == next_seq_;
}

Nanos SenderChannel::deadline() const {
    const bool room = sent_.count() < window_.whole();
    const Nanos timeout = sent_.empty() ? kNever : due_at(places_[sent_.front()]);
    if ((room && !lost_.empty()) ||
        (window_open() && (fin_due() || (source_ != nullptr && source_->has_body())))) {
        return std::min(std::max(now_, timeout), std::max(now_, pace_.free_at()));
    }
    return timeout;
}

void SenderChannel::end() {
    source_ = nullptr;
    key_.reset();
    // Of the hundreds of channels that a host may have, few have a task.
    store_ = {};
    finished_ = fin_sent_ = fin_acked_ = false;
}

void SenderChannel::abandon(std::uint32_t new_incarnation) {
    end();
    incarnation_ = new_incarnation;
    base_ = next_seq_ = 1;
    places_ = {};
    sent_ = {};
    lost_ = {};
    window_ = CongestionWindow(config_.initial_window, config_.window);
}

}  // namespace ask
