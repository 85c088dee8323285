// SPDX-License-Identifier: Apache-2.0
//
// The receiving end of a task's flows of tuples: decodes what the switch left, slots and whole keys, and LONG
// tuples, and aggregates them in the task's table.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/engine/packet_sink.h"
#include "lib/tuples/reassembly.h"
#include "lib/tuples/result_table.h"
#include "lib/tuples/slot_codec.h"
#include "lib/tuples/types.h"
#include "lib/tuples/whole_keys.h"

namespace ask {

// Of one task, whose flows agree on geometry and operator. The table outlives it.
class TableSink final : public PacketSink {
 public:
    TableSink(const Geometry& geometry, Op op, ResultTable& table)
        : geometry_(geometry), op_(op), table_(&table) {}

    [[nodiscard]] BodyTerms terms() const override {
        return {.format = format_of(geometry_, op_), .rows = geometry_.rows};
    }
    Intake take(const FlowTerms& flow, const PacketView& packet) override;

 private:
    // Tuples of a DATA packet, read out before any is applied.
    struct DataTuple {
        std::uint64_t hash = 0;
        std::int32_t value = 0;
        std::uint8_t key_len = 0;
        std::array<char, kMaxSlotKey> key{};
        [[nodiscard]] std::string_view text() const { return {key.data(), key_len}; }
    };

    // Of a VAR packet: where its key lies.
    struct WholeTuple {
        std::uint64_t hash = 0;
        std::int64_t value = 0;
        std::string_view key;
        [[nodiscard]] std::string_view text() const { return key; }
    };

    Intake take_data(const PacketView& packet);
    Intake take_var(const PacketView& packet);
    Intake take_records(const PacketView& packet);
    Intake take_piece(const FlowTerms& flow, const PacketView& packet);
    // Appends the tuples of one row to tuples_; false if a slot is not as a sender writes it.
    bool read_row(const std::byte* row, std::uint32_t bitmap);
    // Appends a record of a VAR packet to whole_; false if no sender writes it.
    bool read_whole(const std::byte* record, std::uint32_t group);
    // Hashed tuples, all or none.
    template <typename Tuple>
    Intake add_all(std::span<const Tuple> tuples);
    // Makes the table ready for all tuples of a packet, so that it takes all or none.
    template <typename Tuple>
    bool make_room(std::span<const Tuple> tuples, std::size_t key_bytes);

    Geometry geometry_;
    Op op_;
    ResultTable* table_;
    std::unordered_map<ChannelId, Reassembly, ChannelIdHash> pieces_;  // of channels that brought some
    std::array<DataTuple, ASK_MAX_TUPLES> tuples_;                     // of the packet at hand
    std::size_t tuple_count_ = 0;
    std::array<WholeTuple, ASK_VAR_MAX_RECORDS> whole_;
    std::size_t whole_count_ = 0;
    std::vector<LongTuple> records_;
};

}  // namespace ask
