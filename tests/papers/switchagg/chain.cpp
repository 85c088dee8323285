// SPDX-License-Identifier: Apache-2.0
#include "tests/papers/switchagg/chain.h"

#include <linux/bpf.h>

#include <algorithm>
#include <cstring>

#include <doctest/doctest.h>

#include "lib/base/bytes.h"
#include "lib/net/frame.h"
#include "lib/tuples/back.h"
#include "lib/tuples/fetch_codec.h"
#include "lib/tuples/slot_codec.h"

namespace ask::test {
namespace {

constexpr ask::test::Ports kSwitchPorts{.in = 11, .out = 12, .side = 13};
constexpr std::uint32_t kCpus = 2;
constexpr std::uint32_t kIncarnation = 7;

Geometry geometry_of(const TaskSpec& spec) {
    return {.short_slots = spec.short_slots, .groups = spec.groups, .m = spec.m, .rows = spec.rows};
}

SenderConfig config() {
    SenderConfig config;
    config.hold = 4096;
    config.rto_initial = 2 * kMillisecond;
    return config;
}

}  // namespace

class Chain::Kept final : public TableMemory {
 public:
    explicit Kept(Chain& chain) : chain_(chain), heap_(make_heap_memory()) {}
    HashSeed draw_seed() override { return heap_->draw_seed(); }
    Result<std::span<std::byte>> allocate_slots(std::size_t bytes) override {
        auto block = heap_->allocate_slots(bytes);
        chain_.slots_ = block.ok() ? *block : std::span<std::byte>{};
        return block;
    }
    void release_old_slots() override { heap_->release_old_slots(); }
    Result<std::span<std::byte>> grow_keys(std::size_t bytes) override {
        auto block = heap_->grow_keys(bytes);
        chain_.keys_ = block.ok() ? *block : std::span<std::byte>{};
        return block;
    }

 private:
    Chain& chain_;
    std::unique_ptr<TableMemory> heap_;
};

class Chain::Watched final : public PacketSink {
 public:
    Watched(Chain& chain, PacketSink& to) : chain_(chain), to_(to) {}
    [[nodiscard]] BodyTerms terms() const override { return to_.terms(); }
    Intake take(const FlowTerms& flow, const PacketView& packet) override {
        const Intake intake = to_.take(flow, packet);
        if (packet.header.type == ASK_DATA && intake.result == Intake::Result::kTaken && intake.items == 1) {
            char key[kMaxSlotKey];
            const std::size_t size = decode_kparts(packet.body.data(), 1, key);
            chain_.came_.emplace_back(
                std::string(key, size),
                static_cast<std::int32_t>(load_be<std::uint32_t>(packet.body.data() + ASK_KPART_BYTES)));
        }
        return intake;
    }

 private:
    Chain& chain_;
    PacketSink& to_;
};

Chain::Chain(const TaskSpec& spec, unsigned mappers) : spec_(spec) {
    auto table = ResultTable::create(std::make_unique<Kept>(*this), static_cast<Op>(spec.op));
    REQUIRE(table.ok());
    table_ = std::make_unique<ResultTable>(std::move(*table));
    for (unsigned i = 0; i < mappers; ++i) {
        const ChannelId id{.host = kSender, .port = static_cast<std::uint16_t>(ASK_CHANNEL_PORT_BASE + i)};
        mappers_.emplace_back(id, kIncarnation, config());
    }
    restart_switch();
    for (unsigned i = 0; i < mappers; ++i) {
        FlowParams flow;
        flow.instance = spec.instance;
        flow.channel = mappers_[i].id();
        flow.incarnation = kIncarnation;
        flow.secret = flow_secret(i);
        flow.op = static_cast<Op>(spec.op);
        flow.geometry = geometry_of(spec);
        flow.first_seq = 1;
        flow.mark = {kMarkSwitch, kMarkIncarnation};
        TableSink& sink = sinks_.emplace_back(flow.geometry, flow.op, *table_);
        watched_.push_back(std::make_unique<Watched>(*this, sink));
        REQUIRE(receiver_.join(flow, watched_.back().get()).ok());
        REQUIRE(mappers_[i].begin(flow, 0, now_).ok());
    }
}

void Chain::restart_switch() {
    switch_.reset();
    switch_ = std::make_unique<NativeSwitch>(Way{}, kSwitchPorts, 0, kCpus);
    switch_->add_task(0, spec_);
    for (unsigned i = 0; i < mappers_.size(); ++i) {
        switch_->add_channel(i, {.port = mappers_[i].id().port, .incarnation = kIncarnation});
        switch_->add_flow(i, i, 0);
    }
}

void Chain::offer(unsigned mapper, std::string_view key, std::int64_t value) {
    REQUIRE(mappers_[mapper].has_room());
    mappers_[mapper].offer(key, value);
}

void Chain::run(const Wire& wire) {
    for (TupleChannel& mapper : mappers_) {
        mapper.finish();
        while (!mapper.fin_acked()) {
            pump(mapper, wire);
            if (!mapper.fin_acked()) {
                REQUIRE(mapper.deadline() != kNever);
                now_ = std::max(now_, mapper.deadline());
            }
        }
    }
}

// Sends all that is due.
void Chain::pump(TupleChannel& mapper, const Wire& wire) {
    std::vector<std::byte> buffer(config().payload_limit);
    while (const std::size_t bytes = mapper.next_packet(now_, buffer)) {
        if (passes(Link::kToSwitch, wire)) {
            at_switch({buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(bytes)}, mapper.ports(),
                      wire);
        }
    }
}

bool Chain::passes(Link link, const Wire& wire) {
    return wire(link, ++seen_[static_cast<std::size_t>(link)]);
}

// The frame as the program leaves it: empty if it dropped it.
Bytes Chain::through_switch(const std::vector<std::byte>& payload, ask::Ports ports, bool from_mapper) {
    std::vector<std::byte> frame(kFrameHeaderBytes + payload.size());
    std::memcpy(frame.data() + kFrameHeaderBytes, payload.data(), payload.size());
    write_frame_header(frame,
                       {.source_mac = from_mapper ? kSenderMac : kReceiverMac,
                        .dest_mac = from_mapper ? kInMac : kOutMac,
                        .source = from_mapper ? kSender : kReceiver,
                        .dest = from_mapper ? kReceiver : kSender,
                        .source_port = ports.source,
                        .dest_port = ports.dest},
                       payload.size());
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(frame.data());
    auto outcome = switch_->run({bytes, bytes + frame.size()});
    REQUIRE(outcome.action != XDP_PASS);
    REQUIRE(outcome.action != XDP_ABORTED);
    return outcome.action == XDP_DROP ? Bytes() : std::move(outcome.frame);
}

void Chain::at_switch(std::vector<std::byte> payload, ask::Ports ports, const Wire& wire) {
    const Bytes out = through_switch(payload, ports, true);
    if (out.empty()) {
        return;
    }
    const auto* bytes = reinterpret_cast<const std::byte*>(out.data());
    payload.assign(bytes + kFrameHeaderBytes, bytes + out.size());
    const auto packet = parse_packet(payload);
    REQUIRE(packet);
    if (packet->header.type == ASK_ACK) {
        if (passes(Link::kSwitchAck, wire)) {
            at_mapper(payload, {.source = ports.dest, .dest = ports.source});
        }
    } else if (passes(Link::kToReceiver, wire)) {
        at_receiver(std::move(payload), ports, wire);
    }
}

void Chain::at_receiver(std::vector<std::byte> payload, ask::Ports ports, const Wire& wire) {
    std::vector<std::byte> ack(sizeof(ask_hdr));
    const RxVerdict verdict = receiver_.on_packet(payload, ports, false, ack);
    if (verdict.ack_bytes == 0 || !passes(Link::kReceiverAck, wire)) {
        return;
    }
    const ask::Ports back{.source = ports.dest, .dest = ports.source};
    const Bytes out = through_switch(ack, back, false);
    REQUIRE(!out.empty());
    const auto* bytes = reinterpret_cast<const std::byte*>(out.data());
    at_mapper({bytes + kFrameHeaderBytes, bytes + out.size()}, back);
}

void Chain::at_mapper(const std::vector<std::byte>& payload, ask::Ports ports) {
    for (TupleChannel& mapper : mappers_) {
        if (mapper.ports().source == ports.dest) {
            mapper.on_packet(now_, payload, ports);
        }
    }
}

void Chain::fetch() {
    std::string entries;
    CopyWalker region(switch_->region(0), {.geometry = geometry_of(spec_),
                                           .op = static_cast<Op>(spec_.op),
                                           .sets = kCpus,
                                           .copies = 1,
                                           .copy = 0,
                                           .aggregators = spec_.aggregators});
    while (true) {
        const auto more = region.fill(entries, 4096);
        REQUIRE(more.ok());
        if (!*more) {
            break;
        }
    }
    for (unsigned group = 0; group < ASK_BACK_GROUPS; ++group) {
        BackWalker back(std::as_bytes(switch_->back(group, 0)), group);
        while (true) {
            const auto more = back.fill(entries, 4096);
            REQUIRE(more.ok());
            if (!*more) {
                break;
            }
        }
    }
    REQUIRE(add_entries(*table_, entries).ok());
}

Answer Chain::answer() {
    fetch();
    REQUIRE(table_->finish().ok());
    const auto view = TableView::open(slots_, keys_);
    REQUIRE(view.ok());
    Answer answer;
    const auto read = view->each(
        [&answer](std::string_view key, std::int64_t value) { answer.emplace(std::string(key), value); });
    REQUIRE(read.ok());
    return answer;
}

unsigned Chain::ended() const {
    return static_cast<unsigned>(std::ranges::count_if(mappers_, [this](const TupleChannel& mapper) {
        return receiver_.flow_stats(spec_.instance, mapper.id()).fin;
    }));
}

Chain::Account Chain::account(unsigned mapper) const {
    const FlowRxStats came = receiver_.flow_stats(spec_.instance, mappers_[mapper].id());
    return {.sent = came.items_sent,
            .received = came.items_data + came.items_long,
            .aggregated = NativeSwitch::stats(mapper).tuples_aggregated};
}

}  // namespace ask::test
