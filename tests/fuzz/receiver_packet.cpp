// SPDX-License-Identifier: Apache-2.0
//
// Packets into the receiver, with every field as the input has it, sealed or not: one counter each; what does
// not verify changes nothing else; a repeat changes nothing; DATA and VAR add their tuples, once; an answer
// is a sealed ACK.
#include <array>
#include <bit>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/bytes.h"
#include "lib/engine/receiver.h"
#include "lib/tuples/table_sink.h"
#include "lib/tuples/whole_keys.h"
#include "tests/fuzz/fuzz.h"

namespace ask::fuzz {
namespace {

constexpr std::size_t kMaxPackets = 16;

// Memory of a table that can be looked at.
class SeenMemory final : public TableMemory {
 public:
    HashSeed draw_seed() override { return public_seed(1); }
    Result<std::span<std::byte>> allocate_slots(std::size_t bytes) override {
        old_slots_ = std::move(slots_);
        slots_.assign(bytes, std::byte{});
        return std::span(slots_);
    }
    void release_old_slots() override { old_slots_.clear(); }
    Result<std::span<std::byte>> grow_keys(std::size_t bytes) override {
        keys_.resize(std::max(keys_.size(), bytes));
        return std::span(keys_);
    }
    // Takes what is there now as seen.
    void see() { seen_ = slots_; }
    [[nodiscard]] bool as_seen() const {
        return seen_.size() == slots_.size() && std::memcmp(seen_.data(), slots_.data(), slots_.size()) == 0;
    }
    // Of all entries, as the sum of their 128-bit values.
    [[nodiscard]] Wide total() const {
        Wide sum = 0;
        for (std::size_t at = sizeof(TableHeader); at < slots_.size(); at += sizeof(TableEntry)) {
            TableEntry entry;
            std::memcpy(&entry, slots_.data() + at, sizeof(entry));
            if ((entry.hash_used & TableEntry::kUsedBit) != 0) {
                sum += Wide{static_cast<std::int64_t>(entry.value_hi)} * (Wide{1} << 64) + entry.value_lo;
            }
        }
        return sum;
    }

 private:
    std::vector<std::byte> slots_;
    std::vector<std::byte> seen_;
    std::vector<std::byte> old_slots_;
    std::vector<std::byte> keys_;
};

FlowParams flow_params(std::uint32_t number) {
    constexpr std::array<Geometry, 2> kGeometries{Geometry{.short_slots = 16, .groups = 8, .m = 2, .rows = 4},
                                                  Geometry{.short_slots = 4, .groups = 2, .m = 4, .rows = 8}};
    FlowParams params;
    params.instance = 0x0101 + number;
    params.channel = {.host = 0xC6120102, .port = static_cast<std::uint16_t>(ASK_CHANNEL_PORT_BASE + number)};
    params.incarnation = 7 + number;
    params.secret = {1 + number, 2};
    params.mark = number == 0 ? Mark{} : Mark{.switch_id = 3, .incarnation = 9};
    params.other_marks.add({.switch_id = 3, .incarnation = static_cast<std::uint32_t>(number == 0 ? 9 : 10)});
    params.geometry = kGeometries[number];
    params.first_seq = 1 + std::uint64_t{number} * 1000;
    params.whole_keys = number == 1;
    return params;
}

struct Offered {
    std::vector<std::byte> payload;
    Ports ports;
    bool ecn_ce = false;
};

class World {
 public:
    World()
        : params_{flow_params(0), flow_params(1)},
          keys_{CheckKey(params_[0].secret), CheckKey(params_[1].secret)} {
        for (unsigned flow = 0; flow < 2; ++flow) {
            auto memory = std::make_unique<SeenMemory>();
            memories_[flow] = memory.get();
            tables_.push_back(*ResultTable::create(std::move(memory), Op::kSum));
        }
        for (unsigned flow = 0; flow < 2; ++flow) {
            sinks_.emplace_back(params_[flow].geometry, params_[flow].op, tables_[flow]);
            require(receiver_.join(params_[flow], &sinks_[flow]).ok(), "flows can join");
        }
        see_tables();
    }

    // A packet of a flow, with what the input changes in it before it is sealed.
    Offered make(Input& input, unsigned flow) const {
        const FlowParams& params = params_[flow];
        Header header{.type = static_cast<std::uint8_t>(1 + input.below(5)),
                      .flags = 0,
                      .rows = 0,
                      .format = format_of(params.geometry, params.op),
                      .instance = params.instance,
                      .channel = params.channel,
                      .incarnation = params.incarnation,
                      .mark = {},
                      .seq = params.first_seq + input.take<std::uint8_t>()};
        header.rows =
            header.type == ASK_DATA ? static_cast<std::uint8_t>(1 + input.below(params.geometry.rows)) : 0;
        header.mark = ask_type_aggregates(header.type) != 0 ? params.mark : Mark{};
        Offered offered{.payload = {}, .ports = {.source = params.channel.port, .dest = ASK_UDP_PORT}};
        change(input, header, offered);
        if (header.type == ASK_VAR) {
            append_var(input, header, offered.payload);
            return offered;
        }
        std::array<std::uint32_t, ASK_MAX_ROWS> bitmaps{};
        const unsigned rows = std::min<unsigned>(header.rows, ASK_MAX_ROWS);
        for (unsigned row = 0; row < rows; ++row) {
            bitmaps[row] =
                input.take<std::uint32_t>() & (~std::uint32_t{0} >> (32 - params.geometry.slots()));
        }
        header.rows = static_cast<std::uint8_t>(rows);
        offered.payload.resize(sizeof(ask_hdr) + std::size_t{4} * rows);
        write_header(offered.payload, header, std::span(bitmaps).first(rows));
        append_body(input, header, bitmaps, offered.payload);
        return offered;
    }

    void offer(const Offered& offered, unsigned flow, bool seal) {
        Offered packet = offered;
        if (seal && parse_packet(packet.payload)) {
            keys_[flow].seal(packet.payload, packet.ports);
        }
        const ReceiverCounter first = run(packet);
        const ReceiverCounter second = run(packet);
        const bool taken =
            first == ReceiverCounter::k_accepted_data || first == ReceiverCounter::k_accepted_long ||
            first == ReceiverCounter::k_accepted_var || first == ReceiverCounter::k_accepted_fin;
        require(second == (taken ? ReceiverCounter::k_duplicate : first), "a repeat is known as one");
    }

    void end_task(unsigned flow, bool failed) { receiver_.end_task(params_[flow].instance, failed); }

 private:
    using Counters = std::array<std::uint64_t, static_cast<std::size_t>(ReceiverCounter::kCount)>;

    static void change(Input& input, Header& header, Offered& offered) {
        for (unsigned left = input.below(3); left > 0; --left) {
            const auto value = input.take<std::uint32_t>();
            const auto small = static_cast<std::uint8_t>(value);
            switch (input.below(13)) {
                case 0:
                    header.type = small;
                    break;
                case 1:
                    header.flags = small;
                    break;
                case 2:
                    header.rows = small;
                    break;
                case 3:
                    header.format.op = small;
                    break;
                case 4:
                    header.format.short_slots = small;
                    break;
                case 5:
                    header.format.groups = small;
                    break;
                case 6:
                    header.format.m = small;
                    break;
                case 7:
                    header.instance = value;
                    break;
                case 8:
                    header.channel.port = static_cast<std::uint16_t>(value);
                    break;
                case 9:
                    header.incarnation = value;
                    break;
                case 10:
                    header.mark = {.switch_id = small, .incarnation = value >> 8};
                    break;
                case 11:
                    header.seq = std::uint64_t{value} << (value & 32U);
                    break;
                default:
                    offered.ports.source = static_cast<std::uint16_t>(value);
                    break;
            }
        }
    }

    // Rows or records from the input, of the length that they should have or nearly so.
    static void append_body(Input& input, const Header& header, std::span<const std::uint32_t> bitmaps,
                            std::vector<std::byte>& payload) {
        std::size_t bytes = 0;
        if (header.type == ASK_DATA) {
            std::size_t present = header.rows;
            while (present > 0 && bitmaps[present - 1] == 0) {
                --present;
            }
            bytes = present * geometry_of(header.format).row_bytes();
        } else if (header.type == ASK_LONG) {
            bytes = std::size_t{8} * (1 + input.take<std::uint8_t>() % 64);
        }
        const unsigned wrong = input.take<std::uint8_t>();
        bytes += wrong == 255 ? 8 : (wrong == 254 ? 1 : 0);
        bytes = std::min<std::size_t>(bytes, 4096);
        const auto from = std::as_bytes(input.bytes(bytes));
        const std::size_t start = payload.size();
        payload.resize(start + bytes, std::byte{'k'});
        std::ranges::copy(from, payload.begin() + static_cast<std::ptrdiff_t>(start));
    }

    // Records that a sender would write, or bytes from the input, with bitmaps and counts that fit or nearly
    // so.
    static void append_var(Input& input, Header header, std::vector<std::byte>& payload) {
        ask_var_hdr counts{};
        for (__u8& count : counts.count) {
            count = static_cast<std::uint8_t>(input.below(input.flag() ? 4 : 24));
        }
        const std::uint32_t records = ask_var_records(&counts);
        const auto wrong = input.take<std::uint8_t>();
        header.rows = static_cast<std::uint8_t>(ask_var_rows(records) + (wrong == 255 ? 1 : 0));
        std::array<std::uint32_t, ASK_MAX_ROWS> bitmaps{};
        for (unsigned row = 0; row < header.rows; ++row) {
            bitmaps[row] = input.take<std::uint32_t>() &
                           (wrong == 254 ? ~std::uint32_t{0} : ask_var_full_row(records, row));
        }
        payload.resize(sizeof(ask_hdr) + std::size_t{4} * header.rows);
        write_header(payload, header, bitmaps);
        const std::size_t start = payload.size();
        payload.resize(start + ask_var_body_bytes(&counts));
        std::byte* record = payload.data() + start + sizeof(counts);
        for (std::uint32_t group = 0; group < ASK_VAR_GROUPS; ++group) {
            const std::uint32_t most = 8U << group;
            for (std::uint32_t i = 0; i < counts.count[group]; ++i, record += ask_var_record_bytes(group)) {
                const auto value = static_cast<std::int64_t>(input.take<std::uint64_t>()) >> (wrong % 8);
                std::string key(group == 0 ? 1 : most / 2 + 1, 'k');
                key += input.text(input.below(most - static_cast<std::uint32_t>(key.size()) + 1));
                write_record(record, key, value);
            }
        }
        counts.reserved[wrong % 4] = wrong == 253 ? 1 : 0;
        if (wrong == 252) {
            ++counts.count[0];
        }
        std::memcpy(payload.data() + start, &counts, sizeof(counts));
        payload.resize(payload.size() + (wrong == 251 ? 8 : 0));
        for (unsigned left = wrong % 3 == 1 ? input.below(4) : 0; left > 0; --left) {
            payload[start + input.take<std::uint16_t>() % (payload.size() - start)] =
                static_cast<std::byte>(input.take<std::uint8_t>());
        }
    }

    [[nodiscard]] Counters counters() const {
        Counters counters{};
        for (std::size_t i = 0; i < counters.size(); ++i) {
            counters[i] = receiver_.counter(static_cast<ReceiverCounter>(i));
        }
        return counters;
    }
    [[nodiscard]] bool tables_as_seen() const { return memories_[0]->as_seen() && memories_[1]->as_seen(); }
    void see_tables() {
        for (unsigned flow = 0; flow < 2; ++flow) {
            memories_[flow]->see();
            totals_[flow] = memories_[flow]->total();
        }
    }
    [[nodiscard]] std::array<std::uint64_t, 16> stats() const {
        std::array<std::uint64_t, 16> all{};
        for (unsigned flow = 0; flow < 2; ++flow) {
            const FlowRxStats s = receiver_.flow_stats(params_[flow].instance, params_[flow].channel);
            const std::array<std::uint64_t, 8> one{
                s.packets_accepted, s.packets_duplicate, s.packets_bad_mark, s.packets_other_switch,
                s.items_data,       s.items_long,        s.items_var,        s.last_seq};
            std::ranges::copy(one, all.begin() + std::ptrdiff_t{8} * flow);
        }
        return all;
    }

    ReceiverCounter run(const Offered& packet) {
        const auto counters_before = counters();
        const auto stats_before = stats();
        std::array<std::byte, sizeof(ask_hdr)> ack{};
        const RxVerdict verdict = receiver_.on_packet(packet.payload, packet.ports, packet.ecn_ce, ack);
        Counters expected = counters_before;
        ++expected[static_cast<std::size_t>(verdict.counter)];
        require(expected == counters(), "exactly one counter grows, by one");
        if (!verifies(packet)) {
            require(tables_as_seen() && stats_before == stats(), "what does not verify changes nothing");
            require(verdict.ack_bytes == 0, "what does not verify is not answered");
        }
        if (verdict.ack_bytes != 0) {
            check_ack(std::span(ack).first(verdict.ack_bytes), packet);
        }
        if (verdict.ack_bytes != 0) {
            check_agreed(packet, verdict);
        }
        if (verdict.counter == ReceiverCounter::k_accepted_data) {
            check_added(packet, verdict);
            see_tables();
        } else if (verdict.counter == ReceiverCounter::k_accepted_var) {
            check_added_whole(packet, verdict);
            see_tables();
        } else if (verdict.counter == ReceiverCounter::k_accepted_long) {
            see_tables();
        } else {
            require(tables_as_seen(), "only DATA, VAR and LONG that are accepted change a table");
        }
        return verdict.counter;
    }

    [[nodiscard]] bool verifies(const Offered& packet) const {
        return keys_[0].verify(packet.payload, packet.ports) || keys_[1].verify(packet.payload, packet.ports);
    }

    void check_ack(std::span<const std::byte> ack, const Offered& packet) const {
        const auto answer = parse_packet(ack);
        const auto asked = parse_packet(packet.payload);
        require(answer && asked && answer->header.type == ASK_ACK &&
                    answer->header.seq == asked->header.seq &&
                    answer->header.instance == asked->header.instance,
                "an answer is the packet's ACK");
        const Ports back{.source = packet.ports.dest, .dest = packet.ports.source};
        require(keys_[0].verify(ack, back) || keys_[1].verify(ack, back), "an ACK is sealed");
    }

    // What is acknowledged is as the flow has joined.
    void check_agreed(const Offered& packet, const RxVerdict& verdict) const {
        const Header header = parse_packet(packet.payload)->header;
        const FlowParams& agreed = params_[verdict.instance == params_[0].instance ? 0 : 1];
        require(header.instance == agreed.instance && header.channel == agreed.channel &&
                    header.incarnation == agreed.incarnation && op_of(header.format) == agreed.op,
                "what is acknowledged is of a flow that has joined");
        require(header.seq >= agreed.first_seq, "what is acknowledged is within its task's interval");
        require(header.type != ASK_VAR || agreed.whole_keys, "VAR is taken where it was agreed");
        require(header.mark == (ask_type_aggregates(header.type) != 0 ? agreed.mark : Mark{}),
                "the mark is the one joined under");
    }

    void check_added(const Offered& packet, const RxVerdict& verdict) const {
        const auto view = parse_packet(packet.payload);
        const unsigned flow = verdict.instance == params_[0].instance ? 0 : 1;
        const Geometry& geometry = params_[flow].geometry;
        Wide sum = 0;
        unsigned tuples = 0;
        for (unsigned row = 0; row < view->header.rows; ++row) {
            for (unsigned slot = 0; slot < geometry.slots(); ++slot) {
                if ((view->bitmap[row] >> slot & 1U) == 0) {
                    continue;
                }
                const unsigned past =
                    slot < geometry.short_slots
                        ? slot + 1
                        : geometry.short_slots + (slot - geometry.short_slots + 1) * geometry.m;
                const std::byte* const end =
                    view->body.data() + std::size_t{row} * geometry.row_bytes() + past * 8;
                sum += static_cast<std::int32_t>(load_be<std::uint32_t>(end - 4));
                ++tuples;
            }
        }
        require(verdict.items == tuples, "the verdict says how many tuples there were");
        require(memories_[flow]->total() == totals_[flow] + sum,
                "the table has grown by the packet's values");
        require(memories_[1 - flow]->total() == totals_[1 - flow], "the other task's table has not");
    }

    // Of a packet that was taken every record decodes, and says what it encodes alone.
    void check_added_whole(const Offered& packet, const RxVerdict& verdict) const {
        const auto view = parse_packet(packet.payload);
        const unsigned flow = verdict.instance == params_[0].instance ? 0 : 1;
        ask_var_hdr counts;
        std::memcpy(&counts, view->body.data(), sizeof(counts));
        const std::byte* record = view->body.data() + sizeof(counts);
        Wide sum = 0;
        std::uint32_t number = 0;
        for (std::uint32_t group = 0; group < ASK_VAR_GROUPS; ++group) {
            for (std::uint32_t i = 0; i < counts.count[group]; ++i, ++number) {
                if ((view->bitmap[number / 32] >> (number % 32) & 1U) != 0) {
                    const auto value = static_cast<std::int64_t>(load_be<std::uint64_t>(record));
                    const auto key = record_key(record, group);
                    require(key.has_value(), "what is taken decodes");
                    std::array<std::byte, 72> again{};
                    write_record(again.data(), *key, value);
                    require(std::memcmp(again.data(), record, ask_var_record_bytes(group)) == 0,
                            "a record has one encoding");
                    require(fits_entry(value), "what is taken fits the back level");
                    sum += value;
                }
                record += ask_var_record_bytes(group);
            }
        }
        require(memories_[flow]->total() == totals_[flow] + sum,
                "the table has grown by the packet's values");
        require(memories_[1 - flow]->total() == totals_[1 - flow], "the other task's table has not");
    }

    std::array<FlowParams, 2> params_;
    std::array<CheckKey, 2> keys_;
    std::array<SeenMemory*, 2> memories_{};
    std::array<Wide, 2> totals_{};
    std::vector<ResultTable> tables_;
    std::deque<TableSink> sinks_;
    Receiver receiver_;
};

}  // namespace
}  // namespace ask::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace ask::fuzz;
    World world;
    Input input(data, size);
    for (std::size_t i = 0; i < kMaxPackets && !input.empty(); ++i) {
        const auto kind = input.take<std::uint8_t>();
        const unsigned flow = kind & 1U;
        if (kind >= 252) {
            world.end_task(flow, (kind & 2U) != 0);
        } else if (kind >= 240) {
            const auto bytes = std::as_bytes(input.bytes(input.take<std::uint16_t>()));
            world.offer({.payload = {bytes.begin(), bytes.end()},
                         .ports = {.source = static_cast<std::uint16_t>(ASK_CHANNEL_PORT_BASE + flow),
                                   .dest = ASK_UDP_PORT}},
                        flow, (kind & 2U) != 0);
        } else {
            Offered packet = world.make(input, flow);
            packet.ecn_ce = (kind & 2U) != 0;
            // Now and then with another flow's seal, or none.
            world.offer(packet, (kind & 0x1cU) == 0x1c ? 1 - flow : flow, (kind & 0xe0U) != 0xc0);
        }
    }
    return 0;
}
