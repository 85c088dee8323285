// SPDX-License-Identifier: Apache-2.0
#include "bench/switchagg/tally.h"

#include <bit>
#include <cstring>

#include "lib/abi/back.h"
#include "lib/tuples/key_hash.h"
#include "lib/tuples/slot_codec.h"
#include "lib/tuples/whole_keys.h"

namespace ask::bench {
namespace {

constexpr Intake kBad{.result = Intake::Result::kBad};

}  // namespace

void Tally::add(std::string_view key, std::int64_t value) {
    const auto sum = static_cast<std::uint64_t>(value);
    values_ += sum;
    weighed_ += ask_back_mix(key_hash(key)) * sum;
}

void TallySink::add(std::string_view key, std::int64_t value) {
    tally_.add(key, value);
    if (taker_) {
        taker_(key, value);
    }
}

int TallySink::take_row(const std::byte* row, std::uint32_t bitmap) {
    int taken = 0;
    for (; bitmap != 0; bitmap &= bitmap - 1) {
        const auto slot = static_cast<std::uint32_t>(std::countr_zero(bitmap));
        const unsigned aas = slot_aas(slot, geometry_);
        const std::byte* const words = row + std::size_t{slot_first_aa(slot, geometry_)} * ASK_SLOT_BYTES;
        char key[kMaxSlotKey];
        const std::size_t size = decode_kparts(words, aas, key);
        if (size == 0) {
            return -1;
        }
        add({key, size},
            static_cast<std::int32_t>(load_be<std::uint32_t>(words + std::size_t{aas} * ASK_SLOT_BYTES - 4)));
        ++taken;
    }
    return taken;
}

Intake TallySink::take_data(const PacketView& packet) {
    Intake intake;
    for (unsigned row = 0; row < packet.header.rows; ++row) {
        if (packet.bitmap[row] == 0) {
            continue;
        }
        const int taken =
            take_row(packet.body.data() + std::size_t{row} * geometry_.row_bytes(), packet.bitmap[row]);
        if (taken < 0) {
            return kBad;
        }
        intake.items += static_cast<std::uint32_t>(taken);
    }
    return intake;
}

// The packet's length and bitmaps are as its counts say: parse_packet().
Intake TallySink::take_var(const PacketView& packet) {
    ask_var_hdr header;
    std::memcpy(&header, packet.body.data(), sizeof(header));
    Intake intake;
    const std::byte* record = packet.body.data() + sizeof(header);
    std::uint32_t number = 0;
    for (std::uint32_t group = 0; group < ASK_VAR_GROUPS; ++group) {
        for (std::uint32_t i = 0; i < header.count[group]; ++i, ++number) {
            if ((packet.bitmap[number / 32] >> (number % 32) & 1) != 0) {
                const auto key = record_key(record, group);
                if (!key) {
                    return kBad;
                }
                add(*key, static_cast<std::int64_t>(load_be<std::uint64_t>(record)));
                ++intake.items;
            }
            record += ask_var_record_bytes(group);
        }
    }
    return intake;
}

Intake TallySink::take(const FlowTerms& /*flow*/, const PacketView& packet) {
    switch (packet.header.type) {
        case ASK_DATA:
            return take_data(packet);
        case ASK_VAR:
            return take_var(packet);
        default:
            return kBad;
    }
}

}  // namespace ask::bench
