// SPDX-License-Identifier: Apache-2.0
#include "lib/engine/receiver.h"

#include <algorithm>
#include <string>
#include <utility>

#include "lib/base/bytes.h"

namespace ask {

namespace {

bool same_agreement(const FlowTerms& a, const FlowTerms& b) {
    return a.incarnation == b.incarnation && a.secret == b.secret && a.mark == b.mark &&
           a.first_seq == b.first_seq && a.whole_keys == b.whole_keys;
}

bool same_body(const BodyTerms& a, const BodyTerms& b) {
    return same_format(a.format, b.format) && a.rows == b.rows;
}

bool is_accepted(ReceiverCounter counter) {
    using Counter = ReceiverCounter;
    return counter == Counter::k_accepted_data || counter == Counter::k_accepted_long ||
           counter == Counter::k_accepted_var || counter == Counter::k_accepted_fin;
}

bool is_acknowledged(ReceiverCounter counter) {
    return is_accepted(counter) || counter == ReceiverCounter::k_duplicate ||
           counter == ReceiverCounter::k_ended;
}

std::string flow_text(const FlowTerms& params) {
    const std::uint32_t host = params.channel.host;
    return "task instance " + std::to_string(params.instance) + " on channel " + std::to_string(host >> 24) +
           '.' + std::to_string(host >> 16 & 255) + '.' + std::to_string(host >> 8 & 255) + '.' +
           std::to_string(host & 255) + ':' + std::to_string(params.channel.port);
}

}  // namespace

Receiver::Age Receiver::age_of(const ChannelState& channel, std::uint64_t seq) {
    const std::uint64_t highest = channel.highest[seq % ASK_WINDOW];
    return seq > highest ? Age::kNew : (seq == highest ? Age::kSeen : Age::kStale);
}

// A channel's state whose flow is not open may go: no packet of a task that joins later can
// have come yet, and those of ended ones change nothing.
bool Receiver::forget_idle_channel() {
    for (auto it = channels_.begin(); it != channels_.end(); ++it) {
        const auto user = flows_.find(it->second->user);
        if (user == flows_.end() || user->second.phase != Phase::kOpen) {
            channels_.erase(it);
            return true;
        }
    }
    return false;
}

Result<std::shared_ptr<Receiver::ChannelState>> Receiver::channel_for(const FlowTerms& params) {
    auto found = channels_.find(params.channel);
    if (found != channels_.end()) {
        const auto user = flows_.find(found->second->user);
        const bool open = user != flows_.end() && user->second.phase == Phase::kOpen;
        if (found->second->incarnation == params.incarnation) {
            if (open) {
                return Error(Errc::kExists, flow_text(params) + ": the channel is still in task instance " +
                                                std::to_string(user->first.instance));
            }
            return found->second;
        }
        // The sender gave the channel's former life up; its flow can never end well now.
        if (open) {
            user->second.phase = Phase::kReplaced;
        }
        found->second = std::make_shared<ChannelState>();
        found->second->incarnation = params.incarnation;
        return found->second;
    }
    if (channels_.size() >= limits_.max_channels && !forget_idle_channel()) {
        return Error(Errc::kLimit, flow_text(params) + ": already " + std::to_string(channels_.size()) +
                                       " channels in use here, which is the limit");
    }
    auto state = std::make_shared<ChannelState>();
    state->incarnation = params.incarnation;
    channels_.emplace(params.channel, state);
    return state;
}

Result<> Receiver::join(const FlowTerms& params, PacketSink* sink) {
    if (params.first_seq == 0 || sink == nullptr) {
        return Error(Errc::kInternal, flow_text(params) + ": joined without a first seq or a sink");
    }
    const FlowName name{.instance = params.instance, .channel = params.channel};
    if (const auto known = flows_.find(name); known != flows_.end()) {
        if (!same_agreement(known->second.params, params) || !same_body(known->second.body, sink->terms())) {
            return Error(Errc::kExists, flow_text(params) + ": already joined on other terms");
        }
        return {};
    }
    if (flows_.size() - ended_count_ >= limits_.max_flows) {
        return Error(Errc::kLimit, flow_text(params) + ": already " + std::to_string(limits_.max_flows) +
                                       " flows joined here, which is the limit");
    }
    auto channel = channel_for(params);
    if (!channel) {
        return std::move(channel).error();
    }
    (*channel)->user = name;
    flows_.emplace(std::piecewise_construct, std::forward_as_tuple(name),
                   std::forward_as_tuple(params, sink, std::move(*channel)));
    return {};
}

void Receiver::forget_ended() {
    while (ended_.size() > limits_.max_flows) {
        ended_count_ -= flows_.erase(ended_.front());
        ended_.pop_front();
    }
}

void Receiver::end_task(std::uint64_t instance, bool failed) {
    for (auto it = flows_.begin(); it != flows_.end();) {
        Flow& flow = it->second;
        if (it->first.instance != instance || (flow.phase == Phase::kEnded && !failed)) {
            ++it;
            continue;
        }
        if (failed || flow.phase != Phase::kComplete) {
            ended_count_ -= flow.phase == Phase::kEnded ? 1 : 0;
            it = flows_.erase(it);
            continue;
        }
        flow.phase = Phase::kEnded;
        flow.sink = nullptr;
        ended_.push_back(it->first);
        ++ended_count_;
        ++it;
    }
    forget_ended();
}

Receiver::Flow* Receiver::find(const Header& header) {
    const auto found = flows_.find({.instance = header.instance, .channel = header.channel});
    if (found == flows_.end() || found->second.params.incarnation != header.incarnation ||
        found->second.phase == Phase::kReplaced) {
        return nullptr;
    }
    return &found->second;
}

std::optional<ReceiverCounter> Receiver::refuse(const Flow& flow, const PacketView& packet, Ports ports) {
    const Header& header = packet.header;
    const FlowTerms& agreed = flow.params;
    if (!flow.key.verify(packet.payload, ports)) {
        return Counter::k_bad_check;
    }
    if (ports.source != agreed.channel.port || ports.dest != ASK_UDP_PORT) {
        return Counter::k_bad_ports;
    }
    if (header.type == ASK_VAR && !agreed.whole_keys) {
        return Counter::k_bad_type;
    }
    // The switch passes LONG and FIN on unchanged.
    const bool aggregates = ask_type_aggregates(header.type) != 0;
    if (header.mark != (aggregates ? agreed.mark : Mark{})) {
        const bool by_other = aggregates && agreed.other_marks.has(header.mark);
        return by_other ? Counter::k_other_switch : Counter::k_bad_mark;
    }
    const bool rows_fit = header.type != ASK_DATA || header.rows <= flow.body.rows;
    if (!same_format(header.format, flow.body.format) || !rows_fit) {
        return Counter::k_bad_geometry;
    }
    // No upper bound but the FIN's: how far the switch has swallowed packets is not known here.
    if (header.seq < agreed.first_seq || (flow.stats.fin && header.seq > flow.stats.last_seq)) {
        return Counter::k_bad_seq;
    }
    return std::nullopt;
}

ReceiverCounter Receiver::take(Flow& flow, const PacketView& packet) {
    // The FIN left when all before it was acknowledged, by the switch or from here: nothing
    // that still comes is new.
    if (flow.phase != Phase::kOpen) {
        return flow.phase == Phase::kEnded ? Counter::k_ended : Counter::k_duplicate;
    }
    const std::uint64_t seq = packet.header.seq;
    switch (age_of(*flow.channel, seq)) {
        case Age::kStale:
            return Counter::k_stale;
        case Age::kSeen:
            return Counter::k_duplicate;
        case Age::kNew:
            break;
    }
    const Counter counter = packet.header.type == ASK_FIN ? take_fin(flow, packet) : take_body(flow, packet);
    if (is_accepted(counter)) {
        flow.channel->highest[seq % ASK_WINDOW] = seq;
        const std::uint64_t before = std::max(flow.highest, flow.params.first_seq - 1);
        flow.highest = std::max(before, seq);
        flow.last_rise = flow.highest - before;
    }
    return counter;
}

ReceiverCounter Receiver::take_fin(Flow& flow, const PacketView& packet) {
    if (packet.header.seq < flow.highest) {
        return Counter::k_bad_seq;
    }
    if (flow.sink->take(flow.params, packet).result != Intake::Result::kTaken) {
        return Counter::k_bad_record;
    }
    flow.phase = Phase::kComplete;
    flow.stats.fin = true;
    flow.stats.last_seq = packet.header.seq;
    flow.stats.items_sent = load_be<std::uint64_t>(packet.body.data() + offsetof(ask_fin, items));
    return Counter::k_accepted_fin;
}

ReceiverCounter Receiver::take_body(Flow& flow, const PacketView& packet) {
    const Intake intake = flow.sink->take(flow.params, packet);
    switch (intake.result) {
        case Intake::Result::kBad:
            return Counter::k_bad_record;
        case Intake::Result::kFull:
            return Counter::k_table_full;
        case Intake::Result::kTaken:
            break;
    }
    flow.last_items = intake.items;
    switch (packet.header.type) {
        case ASK_DATA:
            flow.stats.items_data += intake.items;
            return Counter::k_accepted_data;
        case ASK_VAR:
            flow.stats.items_var += intake.items;
            return Counter::k_accepted_var;
        default:
            flow.stats.items_long += intake.items;
            return Counter::k_accepted_long;
    }
}

ReceiverCounter Receiver::judge(const PacketView& packet, Ports ports, RxVerdict& verdict, Flow*& flow) {
    flow = find(packet.header);
    if (flow == nullptr) {
        return Counter::k_unknown_flow;
    }
    const auto refused = refuse(*flow, packet, ports);
    if (refused == Counter::k_bad_check) {
        return *refused;
    }
    verdict.instance = packet.header.instance;
    verdict.channel = packet.header.channel;
    if (refused) {
        flow->stats.packets_bad_mark += *refused == Counter::k_bad_mark ? 1U : 0U;
        flow->stats.packets_other_switch += *refused == Counter::k_other_switch ? 1U : 0U;
        return *refused;
    }
    return take(*flow, packet);
}

RxVerdict Receiver::on_packet(std::span<const std::byte> payload, Ports ports, bool ecn_ce,
                              std::span<std::byte> ack) {
    RxVerdict verdict;
    const auto packet = parse_packet(payload);
    if (packet && packet->header.type != ASK_ACK) {
        Flow* flow = nullptr;
        verdict.counter = judge(*packet, ports, verdict, flow);
        if (verdict.counter == Counter::k_accepted_data) {
            verdict.items = flow->last_items;
            verdict.advance = flow->last_rise;
        }
        if (is_acknowledged(verdict.counter) && ack.size() >= sizeof(ask_hdr)) {
            verdict.ack_bytes = write_ack(ack, packet->header, ports, Mark{}, ecn_ce, flow->key);
            const bool again = verdict.counter == Counter::k_duplicate || verdict.counter == Counter::k_ended;
            ++(again ? flow->stats.packets_duplicate : flow->stats.packets_accepted);
        }
        verdict.fin = verdict.counter == Counter::k_accepted_fin;
    }
    ++counters_[static_cast<std::size_t>(verdict.counter)];
    return verdict;
}

FlowRxStats Receiver::flow_stats(std::uint64_t instance, ChannelId channel) const {
    const auto found = flows_.find({.instance = instance, .channel = channel});
    return found == flows_.end() ? FlowRxStats{} : found->second.stats;
}

}  // namespace ask
