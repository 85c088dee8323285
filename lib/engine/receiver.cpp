// SPDX-License-Identifier: Apache-2.0
#include "lib/engine/receiver.h"

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>

#include "lib/base/bytes.h"
#include "lib/tuples/key_hash.h"
#include "lib/tuples/reassembly.h"
#include "lib/tuples/slot_codec.h"

namespace ask {

namespace {

struct FlowName {
    std::uint64_t instance = 0;
    ChannelId channel;
    auto operator<=>(const FlowName&) const = default;
};

struct FlowNameHash {
    std::size_t operator()(const FlowName& name) const {
        return ChannelIdHash{}(name.channel) ^ (name.instance * 0x9e3779b97f4a7c15ULL);
    }
};

// What came of a channel's packets, whatever the task: of each place of the window the
// highest seq.
struct ChannelState {
    std::uint32_t incarnation = 0;
    FlowName user;  // the flow that uses it now, or used it last
    std::array<std::uint64_t, ASK_WINDOW> highest{};
};

enum class Age : std::uint8_t { kNew, kSeen, kStale };

Age age_of(const ChannelState& channel, std::uint64_t seq) {
    const std::uint64_t highest = channel.highest[seq % ASK_WINDOW];
    return seq > highest ? Age::kNew : (seq == highest ? Age::kSeen : Age::kStale);
}

enum class Phase : std::uint8_t {
    kOpen,      // tuples may come
    kComplete,  // its FIN is in: everything before was acknowledged, nothing is new any more
    kEnded,     // its task has ended well
    kReplaced,  // its channel took another incarnation before its FIN
};

struct Flow {
    Flow(const FlowParams& agreed, ResultTable* to, std::shared_ptr<ChannelState> by)
        : params(agreed), key(agreed.secret), table(to), channel(std::move(by)) {}

    FlowParams params;
    CheckKey key;
    ResultTable* table;  // null once ended
    std::shared_ptr<ChannelState> channel;
    Phase phase = Phase::kOpen;
    Reassembly pieces;
    std::uint64_t highest = 0;    // seq taken
    std::uint64_t last_rise = 0;  // of it, by the packet taken last
    FlowRxStats stats;
};

// Tuples of a DATA packet, read out before any is applied.
struct DataTuple {
    std::uint64_t hash = 0;
    std::int32_t value = 0;
    std::uint8_t key_len = 0;
    std::array<char, kMaxSlotKey> key{};
    [[nodiscard]] std::string_view text() const { return {key.data(), key_len}; }
};

using Counter = ReceiverCounter;

std::string_view key_of(const DataTuple& tuple) {
    return tuple.text();
}
std::string_view key_of(const LongTuple& tuple) {
    return tuple.key;
}

// Makes the table ready for all tuples of a packet, so that it takes all or none.
template <typename Tuple>
bool make_room(ResultTable& table, std::span<const Tuple> tuples, std::size_t key_bytes) {
    if (table.reserve(tuples.size(), key_bytes)) {
        return true;
    }
    // Near its limit: only for those that are new.
    std::uint64_t keys = 0;
    std::size_t bytes = 0;
    for (const Tuple& tuple : tuples) {
        const std::string_view key = key_of(tuple);
        if (!table.contains(key_hash(key), key)) {
            ++keys;
            bytes += key.size();
        }
    }
    return table.reserve(keys, bytes).ok();
}

bool same_agreement(const FlowParams& a, const FlowParams& b) {
    return a.incarnation == b.incarnation && a.secret == b.secret && a.mark == b.mark && a.op == b.op &&
           a.geometry == b.geometry && a.first_seq == b.first_seq;
}

std::string flow_text(const FlowParams& params) {
    const std::uint32_t host = params.channel.host;
    return "task instance " + std::to_string(params.instance) + " on channel " + std::to_string(host >> 24) +
           '.' + std::to_string(host >> 16 & 255) + '.' + std::to_string(host >> 8 & 255) + '.' +
           std::to_string(host & 255) + ':' + std::to_string(params.channel.port);
}

}  // namespace

class Receiver::Impl {
 public:
    explicit Impl(const Limits& limits) : limits_(limits) {}

    Result<> join(const FlowParams& params, ResultTable* table);
    void end_task(std::uint64_t instance, bool failed);
    RxVerdict on_packet(std::span<const std::byte> payload, Ports ports, bool ecn_ce,
                        std::span<std::byte> ack);
    [[nodiscard]] FlowRxStats flow_stats(const FlowName& name) const {
        const auto found = flows_.find(name);
        return found == flows_.end() ? FlowRxStats{} : found->second.stats;
    }
    [[nodiscard]] std::uint64_t counter(Counter counter) const {
        return counters_[static_cast<std::size_t>(counter)];
    }

 private:
    using Flows = std::unordered_map<FlowName, Flow, FlowNameHash>;

    Result<std::shared_ptr<ChannelState>> channel_for(const FlowParams& params);
    bool forget_idle_channel();
    void forget_ended();
    [[nodiscard]] Flow* find(const Header& header);
    // The checks that need nothing but the packet and what was agreed.
    [[nodiscard]] static std::optional<Counter> refuse(const Flow& flow, const PacketView& packet,
                                                       Ports ports);
    Counter take(Flow& flow, const PacketView& packet);
    Counter take_data(Flow& flow, const PacketView& packet);
    Counter take_long(Flow& flow, const PacketView& packet);
    Counter take_records(Flow& flow, const PacketView& packet);
    Counter take_piece(Flow& flow, const PacketView& packet);
    static Counter take_fin(Flow& flow, const PacketView& packet);
    // Appends the tuples of one row to tuples_; false if a slot is not as a sender writes it.
    bool read_row(const Geometry& geometry, const std::byte* row, std::uint32_t bitmap);
    Counter judge(const PacketView& packet, Ports ports, RxVerdict& verdict, Flow*& flow);

    Limits limits_;
    Flows flows_;
    std::size_t ended_count_ = 0;
    std::deque<FlowName> ended_;  // oldest first
    std::unordered_map<ChannelId, std::shared_ptr<ChannelState>, ChannelIdHash> channels_;
    std::array<std::uint64_t, static_cast<std::size_t>(Counter::kCount)> counters_{};
    std::array<DataTuple, ASK_MAX_TUPLES> tuples_;  // of the packet at hand
    std::size_t tuple_count_ = 0;
    std::vector<LongTuple> records_;
};

// A channel's state whose flow is not open may go: no packet of a task that joins later can
// have come yet, and those of ended ones change nothing.
bool Receiver::Impl::forget_idle_channel() {
    for (auto it = channels_.begin(); it != channels_.end(); ++it) {
        const auto user = flows_.find(it->second->user);
        if (user == flows_.end() || user->second.phase != Phase::kOpen) {
            channels_.erase(it);
            return true;
        }
    }
    return false;
}

Result<std::shared_ptr<ChannelState>> Receiver::Impl::channel_for(const FlowParams& params) {
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

Result<> Receiver::Impl::join(const FlowParams& params, ResultTable* table) {
    const FlowName name{.instance = params.instance, .channel = params.channel};
    if (const auto known = flows_.find(name); known != flows_.end()) {
        if (!same_agreement(known->second.params, params)) {
            return Error(Errc::kExists, flow_text(params) + ": already joined on other terms");
        }
        return {};
    }
    if (auto valid = validate(params.geometry); !valid) {
        return std::move(valid).error().with_context(flow_text(params));
    }
    if (params.first_seq == 0 || table == nullptr) {
        return Error(Errc::kInternal, flow_text(params) + ": joined without a first seq or a table");
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
                   std::forward_as_tuple(params, table, std::move(*channel)));
    return {};
}

void Receiver::Impl::forget_ended() {
    while (ended_.size() > limits_.max_flows) {
        ended_count_ -= flows_.erase(ended_.front());
        ended_.pop_front();
    }
}

void Receiver::Impl::end_task(std::uint64_t instance, bool failed) {
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
        flow.table = nullptr;
        ended_.push_back(it->first);
        ++ended_count_;
        ++it;
    }
    forget_ended();
}

Flow* Receiver::Impl::find(const Header& header) {
    const auto found = flows_.find({.instance = header.instance, .channel = header.channel});
    if (found == flows_.end() || found->second.params.incarnation != header.incarnation ||
        found->second.phase == Phase::kReplaced) {
        return nullptr;
    }
    return &found->second;
}

std::optional<Counter> Receiver::Impl::refuse(const Flow& flow, const PacketView& packet, Ports ports) {
    const Header& header = packet.header;
    const FlowParams& agreed = flow.params;
    if (!flow.key.verify(packet.payload, ports)) {
        return Counter::k_bad_check;
    }
    if (ports.source != agreed.channel.port || ports.dest != ASK_UDP_PORT) {
        return Counter::k_bad_ports;
    }
    // The switch passes LONG and FIN on unchanged.
    if (header.mark != (header.type == ASK_DATA ? agreed.mark : Mark{})) {
        return Counter::k_bad_mark;
    }
    Geometry geometry = agreed.geometry;
    geometry.rows = 0;
    if (header.geometry != geometry || header.op != agreed.op || header.rows > agreed.geometry.rows) {
        return Counter::k_bad_geometry;
    }
    // No upper bound but the FIN's: how far the switch has swallowed packets is not known here.
    if (header.seq < agreed.first_seq || (flow.stats.fin && header.seq > flow.stats.last_seq)) {
        return Counter::k_bad_seq;
    }
    return std::nullopt;
}

Counter Receiver::Impl::take(Flow& flow, const PacketView& packet) {
    // The FIN left when all before it was acknowledged, by the switch or from here: nothing
    // that still comes has tuples to add.
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
    Counter counter = Counter::k_malformed;
    switch (packet.header.type) {
        case ASK_DATA:
            counter = take_data(flow, packet);
            break;
        case ASK_LONG:
            counter = take_long(flow, packet);
            break;
        default:
            counter = take_fin(flow, packet);
            break;
    }
    if (counter == Counter::k_accepted_data || counter == Counter::k_accepted_long ||
        counter == Counter::k_accepted_fin) {
        flow.channel->highest[seq % ASK_WINDOW] = seq;
        const std::uint64_t before = std::max(flow.highest, flow.params.first_seq - 1);
        flow.highest = std::max(before, seq);
        flow.last_rise = flow.highest - before;
    }
    return counter;
}

Counter Receiver::Impl::take_fin(Flow& flow, const PacketView& packet) {
    if (packet.header.seq < flow.highest) {
        return Counter::k_bad_seq;
    }
    if (!flow.pieces.empty()) {
        return Counter::k_bad_record;
    }
    flow.phase = Phase::kComplete;
    flow.stats.fin = true;
    flow.stats.last_seq = packet.header.seq;
    return Counter::k_accepted_fin;
}

bool Receiver::Impl::read_row(const Geometry& geometry, const std::byte* row, std::uint32_t bitmap) {
    for (; bitmap != 0; bitmap &= bitmap - 1) {
        const auto slot = static_cast<std::uint32_t>(std::countr_zero(bitmap));
        const unsigned aas = slot_aas(slot, geometry);
        const std::byte* const words = row + std::size_t{slot_first_aa(slot, geometry)} * ASK_SLOT_BYTES;
        DataTuple& tuple = tuples_[tuple_count_];
        const std::size_t size = decode_kparts(words, aas, tuple.key.data());
        if (size == 0) {
            return false;
        }
        tuple.key_len = static_cast<std::uint8_t>(size);
        tuple.value =
            static_cast<std::int32_t>(load_be<std::uint32_t>(words + std::size_t{aas} * ASK_SLOT_BYTES - 4));
        tuple.hash = key_hash(tuple.text());
        ++tuple_count_;
    }
    return true;
}

Counter Receiver::Impl::take_data(Flow& flow, const PacketView& packet) {
    const Geometry& geometry = flow.params.geometry;
    tuple_count_ = 0;
    for (unsigned row = 0; row < packet.header.rows; ++row) {
        // Rows that the switch emptied at the end are not there, and their bitmaps are 0.
        if (packet.bitmap[row] == 0) {
            continue;
        }
        const std::byte* const words = packet.body.data() + std::size_t{row} * geometry.row_bytes();
        if (!read_row(geometry, words, packet.bitmap[row])) {
            return Counter::k_bad_record;
        }
    }
    const std::span<const DataTuple> tuples = std::span(tuples_).first(tuple_count_);
    std::size_t key_bytes = 0;
    for (const DataTuple& tuple : tuples) {
        flow.table->prefetch(tuple.hash);
        key_bytes += tuple.key_len;
    }
    for (const DataTuple& tuple : tuples) {
        flow.table->prefetch_key(tuple.hash);
    }
    if (!make_room(*flow.table, tuples, key_bytes)) {
        return Counter::k_table_full;
    }
    for (const DataTuple& tuple : tuples) {
        flow.table->add_reserved(tuple.hash, tuple.text(), tuple.value);
    }
    flow.stats.tuples_data += tuples.size();
    return Counter::k_accepted_data;
}

Counter Receiver::Impl::take_long(Flow& flow, const PacketView& packet) {
    return is_piece(packet.body) ? take_piece(flow, packet) : take_records(flow, packet);
}

Counter Receiver::Impl::take_records(Flow& flow, const PacketView& packet) {
    if (!read_records(packet.body, records_)) {
        return Counter::k_bad_record;
    }
    if (!make_room(*flow.table, std::span<const LongTuple>(records_), packet.body.size())) {
        return Counter::k_table_full;
    }
    for (const LongTuple& tuple : records_) {
        flow.table->add_reserved(key_hash(tuple.key), tuple.key, tuple.value);
    }
    flow.stats.tuples_long += records_.size();
    return Counter::k_accepted_long;
}

Counter Receiver::Impl::take_piece(Flow& flow, const PacketView& packet) {
    const auto piece = read_piece(packet.body);
    if (!piece || packet.header.seq - flow.params.first_seq < piece->piece) {
        return Counter::k_bad_record;
    }
    const std::uint64_t first_seq = packet.header.seq - piece->piece;
    Reassembly::Key* const key = flow.pieces.stage(first_seq, *piece);
    if (key == nullptr) {
        return Counter::k_bad_record;
    }
    if (key->missing > 1) {
        flow.pieces.commit(first_seq);
        return Counter::k_accepted_long;
    }
    // The last piece to come is taken only together with its key.
    if (!flow.table->add(key->bytes, key->value)) {
        return Counter::k_table_full;
    }
    flow.pieces.drop(first_seq);
    ++flow.stats.tuples_long;
    return Counter::k_accepted_long;
}

namespace {

bool is_acknowledged(Counter counter) {
    return counter == Counter::k_accepted_data || counter == Counter::k_accepted_long ||
           counter == Counter::k_accepted_fin || counter == Counter::k_duplicate ||
           counter == Counter::k_ended;
}

}  // namespace

Counter Receiver::Impl::judge(const PacketView& packet, Ports ports, RxVerdict& verdict, Flow*& flow) {
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
        return *refused;
    }
    return take(*flow, packet);
}

RxVerdict Receiver::Impl::on_packet(std::span<const std::byte> payload, Ports ports, bool ecn_ce,
                                    std::span<std::byte> ack) {
    RxVerdict verdict;
    const auto packet = parse_packet(payload);
    if (packet && packet->header.type != ASK_ACK) {
        Flow* flow = nullptr;
        verdict.counter = judge(*packet, ports, verdict, flow);
        if (verdict.counter == Counter::k_accepted_data) {
            verdict.tuples = static_cast<std::uint32_t>(tuple_count_);
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

Receiver::Receiver() : Receiver(Limits{}) {}
Receiver::Receiver(const Limits& limits) : impl_(std::make_unique<Impl>(limits)) {}
Receiver::~Receiver() = default;

Result<> Receiver::join(const FlowParams& params, ResultTable* table) {
    return impl_->join(params, table);
}
void Receiver::end_task(std::uint64_t instance, bool failed) {
    impl_->end_task(instance, failed);
}
RxVerdict Receiver::on_packet(std::span<const std::byte> payload, Ports ports, bool ecn_ce,
                              std::span<std::byte> ack) {
    return impl_->on_packet(payload, ports, ecn_ce, ack);
}
FlowRxStats Receiver::flow_stats(std::uint64_t instance, ChannelId channel) const {
    return impl_->flow_stats({.instance = instance, .channel = channel});
}
std::uint64_t Receiver::counter(ReceiverCounter counter) const {
    return impl_->counter(counter);
}

}  // namespace ask
