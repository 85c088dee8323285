// SPDX-License-Identifier: Apache-2.0
#include "agent/convert.h"

#include <algorithm>
#include <limits>

namespace ask {
namespace {

// Of packets_by_tuples: 0 to all that fit a packet.
constexpr int kMostPacketSizes = ASK_MAX_TUPLES + 1;

bool is_id_char(char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

std::string printable(std::string_view text) {
    std::string clean(text);
    std::ranges::replace_if(clean, [](char c) { return c < ' ' || c > '~'; }, '?');
    return clean;
}

}  // namespace

Result<> check_task_id(std::string_view id) {
    constexpr std::size_t kLongest = 63;
    if (id.empty() || id.size() > kLongest || !std::ranges::all_of(id, is_id_char)) {
        return Error(Errc::kUsage, "task id \"" + clean_name(id.substr(0, kLongest)) +
                                       "\": must be 1 to 63 letters, digits, '_' or '-'");
    }
    return {};
}

std::string clean_name(std::string_view name) {
    constexpr std::size_t kLongest = 128;
    return printable(name.substr(0, kLongest));
}

std::string clean_text(std::string_view text) {
    constexpr std::size_t kLongest = 1024;
    return printable(text.substr(0, kLongest));
}

Result<Geometry> geometry_from_proto(const v1::Geometry& geometry) {
    for (const std::uint32_t field :
         {geometry.short_slots(), geometry.groups(), geometry.m(), geometry.rows()}) {
        if (field > std::numeric_limits<std::uint8_t>::max()) {
            return Error(Errc::kInput, "geometry: " + std::to_string(field) + " is out of range");
        }
    }
    const Geometry checked{
        static_cast<std::uint8_t>(geometry.short_slots()), static_cast<std::uint8_t>(geometry.groups()),
        static_cast<std::uint8_t>(geometry.m()), static_cast<std::uint8_t>(geometry.rows())};
    if (auto valid = validate(checked); !valid) {
        return std::move(valid).error();
    }
    return checked;
}

v1::Geometry geometry_to_proto(const Geometry& geometry) {
    v1::Geometry message;
    message.set_short_slots(geometry.short_slots);
    message.set_groups(geometry.groups);
    message.set_m(geometry.m);
    message.set_rows(geometry.rows);
    return message;
}

Result<KeySample> sample_from_proto(const v1::KeySample& message) {
    KeySample sample;
    if (static_cast<std::size_t>(message.groups_size()) > sample.groups.size()) {
        return Error(Errc::kInput, "key sample: " + std::to_string(message.groups_size()) +
                                       " groups, at most " + std::to_string(sample.groups.size()));
    }
    for (int i = 0; i < message.groups_size(); ++i) {
        const v1::KeyGroup& from = message.groups(i);
        KeyGroup& group = sample.groups[static_cast<std::size_t>(i)];
        const auto buckets = static_cast<std::size_t>(from.tuples_size());
        if (buckets != 0 && buckets != group.tuples.size()) {
            return Error(Errc::kInput, "key sample: " + std::to_string(buckets) + " buckets instead of " +
                                           std::to_string(group.tuples.size()));
        }
        std::ranges::copy(from.tuples(), group.tuples.begin());
        group.distinct = from.distinct();
        group.once = from.once();
    }
    sample.long_tuples = message.long_tuples();
    sample.long_bytes = message.long_bytes();
    sample.expected = message.expected();
    if (auto valid = validate(sample); !valid) {
        return std::move(valid).error();
    }
    return sample;
}

Result<Op> wire_op(v1::Operator op) {
    switch (op) {
        case v1::OPERATOR_SUM:
        case v1::OPERATOR_COUNT:
            return Op::kSum;
        case v1::OPERATOR_MIN:
            return Op::kMin;
        case v1::OPERATOR_MAX:
            return Op::kMax;
        default:
            return Error(Errc::kInput, "operator " + std::to_string(static_cast<int>(op)) +
                                           ": must be SUM, COUNT, MIN or MAX");
    }
}

Result<ChannelId> channel_from_proto(const v1::ChannelId& channel) {
    if (channel.host() == 0 || channel.port() < ASK_CHANNEL_PORT_BASE ||
        channel.port() >= ASK_CHANNEL_PORT_BASE + ASK_MAX_CHANNELS_PER_HOST) {
        return Error(Errc::kInput,
                     "channel port " + std::to_string(channel.port()) + ": not a channel's address and port");
    }
    return ChannelId{channel.host(), static_cast<std::uint16_t>(channel.port())};
}

v1::ChannelId channel_to_proto(ChannelId channel) {
    v1::ChannelId message;
    message.set_host(channel.host);
    message.set_port(channel.port);
    return message;
}

Result<Mark> mark_from_proto(const v1::Mark& mark) {
    if (mark.switch_id() > std::numeric_limits<std::uint16_t>::max() ||
        (mark.switch_id() == 0) != (mark.incarnation() == 0)) {
        return Error(Errc::kInput, "mark of switch " + std::to_string(mark.switch_id()) + ": no such mark");
    }
    return Mark{static_cast<std::uint16_t>(mark.switch_id()), mark.incarnation()};
}

v1::Mark mark_to_proto(Mark mark) {
    v1::Mark message;
    message.set_switch_id(mark.switch_id);
    message.set_incarnation(mark.incarnation);
    return message;
}

Result<CheckSecret> secret_from_bytes(std::string_view bytes) {
    CheckSecret secret{};
    if (bytes.size() != sizeof(secret)) {
        return Error(Errc::kInput, "a check's secret of " + std::to_string(bytes.size()) + " bytes");
    }
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        secret[i / 8] |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (i % 8 * 8);
    }
    return secret;
}

std::string secret_to_bytes(const CheckSecret& secret) {
    std::string bytes;
    for (const std::uint64_t word : secret) {
        for (unsigned shift = 0; shift < 64; shift += 8) {
            bytes.push_back(static_cast<char>((word >> shift) & 0xffU));
        }
    }
    return bytes;
}

void set_sender_part(v1::FlowStats& stats, const SenderStats& sender) {
    const auto& bodies = sender.packer.bodies;
    std::size_t used = bodies.size();
    while (used > 0 && bodies[used - 1] == 0) {
        --used;
    }
    stats.mutable_packets_by_tuples()->Assign(bodies.begin(),
                                              bodies.begin() + static_cast<std::ptrdiff_t>(used));
    stats.set_tuples_in(sender.packer.tuples_in + sender.tuples_merged);
    stats.set_tuples_merged(sender.tuples_merged);
    stats.set_tuples_sent(sender.packer.tuples_in);
    stats.set_packets_sent(sender.packets_sent);
    stats.set_packets_acked_by_switch(sender.packets_acked_by_switch);
    stats.set_retransmissions(sender.retransmissions);
    stats.set_slots_filled(sender.packer.slots_filled);
    stats.set_slots_offered(sender.packer.slots_offered);
    stats.set_packets_data(sender.packets_data);
    stats.set_packets_long(sender.packets_long);
}

void copy_sender_part(v1::FlowStats& stats, const v1::FlowStats& from) {
    stats.set_tuples_in(from.tuples_in());
    stats.set_tuples_merged(from.tuples_merged());
    stats.set_tuples_sent(from.tuples_sent());
    stats.set_packets_sent(from.packets_sent());
    stats.set_packets_acked_by_switch(from.packets_acked_by_switch());
    stats.set_retransmissions(from.retransmissions());
    stats.set_slots_filled(from.slots_filled());
    stats.set_slots_offered(from.slots_offered());
    stats.set_packets_data(from.packets_data());
    stats.set_packets_long(from.packets_long());
    *stats.mutable_packets_by_tuples() = from.packets_by_tuples();
    if (stats.packets_by_tuples_size() > kMostPacketSizes) {
        stats.mutable_packets_by_tuples()->Truncate(kMostPacketSizes);
    }
}

void add_switch_part(v1::FlowStats& stats, const v1::FlowStats& from) {
    stats.set_tuples_switch(stats.tuples_switch() + from.tuples_switch());
    stats.set_tuples_collision(stats.tuples_collision() + from.tuples_collision());
    stats.set_tuples_overflow(stats.tuples_overflow() + from.tuples_overflow());
    stats.set_tuples_contention(stats.tuples_contention() + from.tuples_contention());
    stats.set_tuples_no_region(stats.tuples_no_region() + from.tuples_no_region());
    stats.set_tuples_evicted(stats.tuples_evicted() + from.tuples_evicted());
}

bool has_switch_part(const v1::FlowStats& stats) {
    return stats.tuples_switch() + stats.tuples_collision() + stats.tuples_overflow() +
               stats.tuples_contention() + stats.tuples_no_region() + stats.tuples_evicted() >
           0;
}

void set_receiver_part(v1::FlowStats& stats, const FlowRxStats& receiver) {
    stats.set_tuples_long(receiver.items_long);
    stats.set_tuples_data(receiver.items_data);
    stats.set_packets_received(receiver.packets_accepted);
    stats.set_packets_duplicate(receiver.packets_duplicate);
}

void add_stats(v1::FlowStats& sum, const v1::FlowStats& stats) {
    sum.set_tuples_in(sum.tuples_in() + stats.tuples_in());
    sum.set_tuples_merged(sum.tuples_merged() + stats.tuples_merged());
    sum.set_tuples_sent(sum.tuples_sent() + stats.tuples_sent());
    sum.set_packets_sent(sum.packets_sent() + stats.packets_sent());
    sum.set_packets_acked_by_switch(sum.packets_acked_by_switch() + stats.packets_acked_by_switch());
    sum.set_retransmissions(sum.retransmissions() + stats.retransmissions());
    sum.set_slots_filled(sum.slots_filled() + stats.slots_filled());
    sum.set_slots_offered(sum.slots_offered() + stats.slots_offered());
    sum.set_packets_data(sum.packets_data() + stats.packets_data());
    sum.set_packets_long(sum.packets_long() + stats.packets_long());
    for (int i = 0; i < stats.packets_by_tuples_size(); ++i) {
        if (i == sum.packets_by_tuples_size()) {
            sum.add_packets_by_tuples(0);
        }
        sum.set_packets_by_tuples(i, sum.packets_by_tuples(i) + stats.packets_by_tuples(i));
    }
    add_switch_part(sum, stats);
    sum.set_tuples_long(sum.tuples_long() + stats.tuples_long());
    sum.set_tuples_data(sum.tuples_data() + stats.tuples_data());
    sum.set_packets_received(sum.packets_received() + stats.packets_received());
    sum.set_packets_duplicate(sum.packets_duplicate() + stats.packets_duplicate());
}

}  // namespace ask
