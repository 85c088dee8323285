// SPDX-License-Identifier: Apache-2.0
#include "tests/support/reference_switch.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "lib/abi/hash.h"
#include "lib/base/bytes.h"
#include "lib/tuples/fetch_codec.h"
#include "lib/tuples/key_hash.h"
#include "lib/tuples/whole_keys.h"

namespace ask::test {

void ReferenceSwitch::add_flow(const FlowParams& params, std::uint32_t aggregators, ask_policy policy,
                               std::size_t back_keys) {
    Channel& channel = channels_[params.channel];
    if (channel.incarnation != params.incarnation) {
        channel = Channel{};
        channel.incarnation = params.incarnation;
    }
    flows_.insert_or_assign({params.instance, params.channel},
                            Flow{.params = params, .key = CheckKey(params.secret)});
    const auto [task, fresh] = tasks_.try_emplace(params.instance);
    if (fresh) {
        task->second.params = params;
        task->second.aggregators = aggregators;
        task->second.policy = policy;
        task->second.back_keys = back_keys;
        task->second.region.resize(std::size_t{params.geometry.aas()} * aggregators);
        task->second.heats.resize(task->second.region.size());
    }
}

ReferenceSwitch::Place ReferenceSwitch::place_of(Task& task, std::uint32_t slot, const std::byte* words) {
    const Geometry& geometry = task.params.geometry;
    const std::uint32_t aas = slot_aas(slot, geometry);
    std::uint32_t hash = ASK_HASH_SEED;
    for (std::uint32_t i = 0; i < aas; ++i) {
        hash = ask_hash_add(hash, load_raw<std::uint32_t>(words + std::size_t{i} * ASK_SLOT_BYTES));
    }
    return {.task = task,
            .aa = slot_first_aa(slot, geometry),
            .words = aas,
            .index = ask_hash_index(hash, task.aggregators)};
}

ReferenceSwitch::Offer ReferenceSwitch::offer(const Place& place, const std::byte* words) {
    const std::uint32_t aas = place.words;
    ask_aggregator& last = place.at(aas - 1);
    const bool blank = load_raw<std::uint32_t>(&last.kpart) == 0;
    for (std::uint32_t i = 0; i < aas && !blank; ++i) {
        if (std::memcmp(&place.at(i).kpart, words + std::size_t{i} * ASK_SLOT_BYTES, ASK_KPART_BYTES) != 0) {
            return Offer::kCollision;
        }
    }
    const auto value =
        static_cast<std::int32_t>(load_be<std::uint32_t>(words + std::size_t{aas} * ASK_SLOT_BYTES - 4));
    const Wide sum = blank ? Wide{value} : apply(place.task.params.op, last.vpart, value);
    if (sum < std::numeric_limits<std::int32_t>::min() || sum > std::numeric_limits<std::int32_t>::max()) {
        return Offer::kOverflow;
    }
    for (std::uint32_t i = 0; i < aas; ++i) {
        std::memcpy(&place.at(i).kpart, words + std::size_t{i} * ASK_SLOT_BYTES, ASK_KPART_BYTES);
    }
    last.vpart = static_cast<std::int32_t>(sum);
    return blank ? Offer::kTaken : Offer::kAggregated;
}

void ReferenceSwitch::change_places(const Place& place, std::byte* words) {
    for (std::uint32_t i = 0; i < place.words; ++i) {
        std::byte* word = words + std::size_t{i} * ASK_SLOT_BYTES;
        const ask_aggregator held = place.at(i);
        std::memcpy(&place.at(i).kpart, word, ASK_KPART_BYTES);
        place.at(i).vpart = static_cast<std::int32_t>(load_be<std::uint32_t>(word + ASK_KPART_BYTES));
        std::memcpy(word, &held.kpart, ASK_KPART_BYTES);
        store_be(word + ASK_KPART_BYTES, static_cast<std::uint32_t>(held.vpart));
    }
}

// True: nothing is left of the slot.
bool ReferenceSwitch::aggregate_slot(Task& task, std::uint32_t slot, std::byte* words, bool heats) {
    const Place place = place_of(task, slot, words);
    const Offer outcome = offer(place, words);
    const bool aggregated = outcome == Offer::kTaken || outcome == Offer::kAggregated;
    tuples_aggregated_ += aggregated ? 1 : 0;
    if (task.policy != ASK_POLICY_REPLACE) {
        return aggregated;
    }
    unsigned& heat = place.heat();
    if (outcome == Offer::kCollision && heat == 0) {
        change_places(place, words);
        heat = ASK_HEAT_TAKEN;
        ++tuples_aggregated_;
        ++tuples_evicted_;
    } else if (outcome == Offer::kCollision) {
        --heat;
    } else if (outcome == Offer::kTaken) {
        heat = ASK_HEAT_TAKEN;
    } else if (heats) {
        heat = ASK_HEAT_HIT;
    }
    return aggregated;
}

// `rows` are the packet's; replaced slots change.
ReferenceSwitch::Bitmaps ReferenceSwitch::aggregate(Task& task, const PacketView& packet,
                                                    std::span<std::byte> rows) {
    Bitmaps left = packet.bitmap;
    if (task.aggregators == 0) {
        return left;
    }
    const Geometry& geometry = task.params.geometry;
    for (std::uint32_t row = 0; row < packet.header.rows; ++row) {
        const bool heats = (packet.header.seq + row) % ASK_HEAT_EVERY == 0;
        for (std::uint32_t slot = 0; slot < geometry.slots(); ++slot) {
            const std::size_t offset = std::size_t{row} * geometry.row_bytes() +
                                       std::size_t{slot_first_aa(slot, geometry)} * ASK_SLOT_BYTES;
            const std::uint32_t bit = 1U << slot;
            if ((left[row] & bit) != 0 && aggregate_slot(task, slot, rows.data() + offset, heats)) {
                left[row] &= ~bit;
            }
        }
    }
    return left;
}

// What would leave 63 bits, and keys beyond what it holds, are left.
bool ReferenceSwitch::take_whole(Task& task, std::string_view key, std::int64_t value) {
    const auto held = task.back.find(std::string(key));
    if (held == task.back.end()) {
        return task.back.size() < task.back_keys && task.back.emplace(key, value).second;
    }
    const Wide sum = apply(task.params.op, held->second, value);
    if (sum != static_cast<std::int64_t>(sum) || !fits_entry(static_cast<std::int64_t>(sum))) {
        return false;
    }
    held->second = static_cast<std::int64_t>(sum);
    return true;
}

ReferenceSwitch::Bitmaps ReferenceSwitch::aggregate_whole(Task& task, const PacketView& packet) {
    Bitmaps left = packet.bitmap;
    ask_var_hdr counts;
    std::memcpy(&counts, packet.body.data(), sizeof(counts));
    const std::byte* record = packet.body.data() + sizeof(counts);
    std::uint32_t number = 0;
    for (std::uint32_t group = 0; group < ASK_VAR_GROUPS; ++group) {
        for (std::uint32_t i = 0; i < counts.count[group]; ++i, ++number) {
            const auto value = static_cast<std::int64_t>(load_be<std::uint64_t>(record));
            if (take_whole(task, record_key(record, group).value(), value)) {
                left[number / 32] &= ~(1U << (number % 32));
                ++tuples_whole_;
            }
            record += ask_var_record_bytes(group);
        }
    }
    return left;
}

ReferenceSwitch::Outcome ReferenceSwitch::acknowledge(const Flow& flow, const PacketView& packet,
                                                      ask::Ports ports) const {
    std::vector<std::byte> ack(sizeof(ask_hdr));
    write_ack(ack, packet.header, ports, mark_, false, flow.key);
    return {.way = Way::kToSender,
            .ports = {.source = ports.dest, .dest = ports.source},
            .payload = std::move(ack)};
}

// Nothing is moved and nothing is cut.
ReferenceSwitch::Outcome ReferenceSwitch::answer_whole(const Flow& flow, const PacketView& packet,
                                                       ask::Ports ports, const Bitmaps& left) const {
    if (std::ranges::all_of(left, [](std::uint32_t bitmap) { return bitmap == 0; })) {
        return acknowledge(flow, packet, ports);
    }
    Header header = packet.header;
    header.mark = mark_;
    std::vector<std::byte> out(packet.payload.begin(), packet.payload.end());
    write_header(out, header, left);
    flow.key.seal(out, ports);
    return {.way = Way::kToReceiver, .ports = ports, .payload = std::move(out)};
}

// Each slot's tuples that are left take the first rows, in the order in which they are.
ReferenceSwitch::Bitmaps ReferenceSwitch::gather(const Geometry& geometry, const Bitmaps& left,
                                                 std::span<std::byte> rows) {
    Bitmaps gathered{};
    for (std::uint32_t slot = 0; slot < geometry.slots(); ++slot) {
        const std::uint32_t bit = 1U << slot;
        const std::size_t offset = std::size_t{slot_first_aa(slot, geometry)} * ASK_SLOT_BYTES;
        const std::size_t bytes = std::size_t{slot_aas(slot, geometry)} * ASK_SLOT_BYTES;
        std::size_t to = 0;
        for (std::size_t from = 0; from < left.size(); ++from) {
            if ((left[from] & bit) != 0) {
                std::copy_n(&rows[from * geometry.row_bytes() + offset], bytes,
                            &rows[to * geometry.row_bytes() + offset]);
                gathered[to++] |= bit;
            }
        }
    }
    return gathered;
}

ReferenceSwitch::Outcome ReferenceSwitch::answer(const Flow& flow, const PacketView& packet, ask::Ports ports,
                                                 const Bitmaps& kept, std::vector<std::byte> rows) const {
    const Bitmaps left = gather(flow.params.geometry, kept, rows);
    std::uint32_t present = packet.header.rows;
    while (present > 0 && left[present - 1] == 0) {
        --present;
    }
    if (present == 0) {
        return acknowledge(flow, packet, ports);
    }
    Header header = packet.header;
    header.mark = mark_;
    std::vector<std::byte> out(packet.payload.begin(), packet.payload.end());
    const std::size_t head = write_header(out, header, left);
    out.resize(head + std::size_t{present} * flow.params.geometry.row_bytes());
    std::copy_n(rows.begin(), out.size() - head, out.begin() + static_cast<std::ptrdiff_t>(head));
    flow.key.seal(out, ports);
    return {.way = Way::kToReceiver, .ports = ports, .payload = std::move(out)};
}

ReferenceSwitch::Outcome ReferenceSwitch::on_packet(std::span<const std::byte> payload, ask::Ports ports) {
    const auto packet = parse_packet(payload);
    if (!packet || packet->header.type == ASK_ACK) {
        // ACKs of the receiver pass; anything else is dropped.
        return packet ? Outcome{.way = Way::kToSender,
                                .ports = ports,
                                .payload = {payload.begin(), payload.end()}}
                      : Outcome{};
    }
    const auto found = flows_.find({packet->header.instance, packet->header.channel});
    if (found == flows_.end() || packet->header.mark != Mark{} ||
        packet->header.incarnation != found->second.params.incarnation ||
        !found->second.key.verify(payload, ports)) {
        return {};
    }
    const std::uint64_t seq = packet->header.seq;
    Channel& channel = channels_.at(packet->header.channel);
    std::uint64_t& seen = channel.seen[seq % ASK_WINDOW];
    if (seq < seen) {
        return {};
    }
    const bool fresh = seq > seen;
    seen = seq;
    if (ask_type_aggregates(packet->header.type) == 0) {
        return {.way = Way::kToReceiver, .ports = ports, .payload = {payload.begin(), payload.end()}};
    }
    Bitmaps& left = channel.left[seq % ASK_WINDOW];
    std::vector<std::byte>& rows = channel.rows[seq % ASK_WINDOW];
    if (packet->header.type == ASK_VAR) {
        left = fresh ? aggregate_whole(tasks_.at(packet->header.instance), *packet) : left;
        return answer_whole(found->second, *packet, ports, left);
    }
    if (fresh) {
        rows.assign(packet->body.begin(), packet->body.end());
        left = aggregate(tasks_.at(packet->header.instance), *packet, rows);
    }
    return answer(found->second, *packet, ports, left, rows);
}

std::string ReferenceSwitch::fetch(std::uint64_t instance) const {
    const Task& task = tasks_.at(instance);
    CopyWalker walker(task.region, {.geometry = task.params.geometry,
                                    .op = task.params.op,
                                    .sets = 1,
                                    .copies = 1,
                                    .copy = 0,
                                    .aggregators = task.aggregators});
    std::string entries;
    for (const auto& [key, value] : task.back) {
        append_entry(entries, key, value);
    }
    for (;;) {
        const auto more = walker.fill(entries, std::size_t{64} << 10);
        if (!more) {
            throw std::runtime_error(more.error().text());
        }
        if (!*more) {
            return entries;
        }
    }
}

}  // namespace ask::test
