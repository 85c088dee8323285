// SPDX-License-Identifier: Apache-2.0
#include "lib/topology/packet_list.h"

#include <algorithm>

#include "lib/abi/var.h"
#include "lib/abi/wire.h"
#include "lib/net/frame.h"
#include "lib/tuples/key_hash.h"
#include "lib/tuples/packer.h"

namespace ask::topology {
namespace {

constexpr std::uint64_t kHead = kFrameHeaderBytes + sizeof(ask_hdr);
constexpr std::uint64_t kFinFrame = kHead + sizeof(std::uint64_t);
constexpr std::uint64_t kPayload = 1472;  // of a packet, at most: an MTU of 1500

std::uint64_t divided_up(std::uint64_t all, std::uint64_t part) {
    return (all + part - 1) / part;
}

}  // namespace

void PacketList::clear() {
    words_.fill(0);
    record_bytes_ = 0;
}

void PacketList::add(std::string_view word) {
    switch (form_of(word, 1, geometry_, word.size() <= ASK_VAR_MAX_KEY)) {
        case Form::kShort:
            ++words_[short_slot_of(key_hash(word), geometry_)];
            return;
        case Form::kMedium:
            ++words_[medium_slot_of(key_hash(word), geometry_)];
            return;
        case Form::kVar:
            record_bytes_ += ask_var_record_bytes(ask_var_group(static_cast<std::uint32_t>(word.size())));
            return;
        case Form::kLong:
            record_bytes_ += ASK_LONG_RECORD_BYTES + word.size();
            return;
    }
}

double PacketList::bytes() const {
    const std::uint64_t rows = *std::ranges::max_element(words_);
    const std::uint64_t row_bytes = sizeof(std::uint32_t) + geometry_.row_bytes();
    std::uint64_t bytes = kFinFrame + rows * row_bytes + divided_up(rows, geometry_.rows) * kHead;
    if (record_bytes_ > 0) {
        constexpr std::uint64_t kRoom = kPayload - sizeof(ask_hdr) - sizeof(ask_var_hdr);
        bytes += record_bytes_ +
                 divided_up(record_bytes_, kRoom) * (kHead + sizeof(ask_var_hdr) + sizeof(std::uint64_t));
    }
    return static_cast<double>(bytes);
}

}  // namespace ask::topology
