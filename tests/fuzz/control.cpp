// SPDX-License-Identifier: Apache-2.0
//
// Control messages, from anybody who reaches a daemon's port: parsed, and looked at as the services do before
// they act. What passes the checks is within the limits that everything behind them relies on.
#include <string>

#include <google/protobuf/stubs/logging.h>

#include "lib/client/convert.h"
#include "lib/control/member/convert.h"
#include "lib/tuples/fetch_codec.h"
#include "lib/tuples/fit/merging.h"
#include "lib/tuples/fit/planner.h"
#include "lib/tuples/slot_map.h"
#include "proto/agent.pb.h"
#include "proto/local.pb.h"
#include "proto/switch.pb.h"
#include "tests/fuzz/fuzz.h"

namespace ask::fuzz {
namespace {

bool is_printable(std::string_view text) {
    return std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

void check_names(const std::string& text) {
    require(clean_name(text).size() <= 128 && is_printable(clean_name(text)), "a name can go into a log");
    require(clean_text(text).size() <= 1024 && is_printable(clean_text(text)),
            "a sentence can go into a log");
    if (const auto id = check_task_id(text); id.ok()) {
        require(!text.empty() && text.size() <= 63 && text.find_first_of("./\0 \n") == std::string::npos,
                "a task's id can be a directory's name");
    } else {
        require(is_printable(id.error().text()), "an error about an id can go into a log");
    }
}

void check_geometry(const v1::Geometry& message) {
    const auto geometry = geometry_from_proto(message);
    if (!geometry) {
        return;
    }
    require(validate(*geometry).ok(), "a geometry that is taken is valid");
    require(geometry->slots() * geometry->rows <= ASK_MAX_TUPLES && geometry->aas() <= ASK_MAX_AAS &&
                geometry->payload_bytes(geometry->rows) <= ASK_MAX_PAYLOAD,
            "a geometry is within the limits of packets");
    const auto again = geometry_from_proto(geometry_to_proto(*geometry));
    require(again.ok() && *again == *geometry, "a geometry is the same there and back");
    const auto parsed = parse_geometry(to_string(*geometry), ASK_MAX_PAYLOAD);
    require(parsed.ok() && *parsed == *geometry, "a geometry's text means the same");
}

void check_slot_map(const v1::Geometry& message, const std::string& bytes) {
    const auto geometry = geometry_from_proto(message);
    if (!geometry) {
        return;
    }
    const auto map = decode_slot_map(bytes, *geometry);
    if (!map) {
        return;
    }
    require(encode_slot_map(*map, *geometry) == bytes, "a slot map is the same there and back");
    for (unsigned bucket = 0; bucket < SlotMap::kBuckets; ++bucket) {
        require(geometry->short_slots == 0 || map->short_slot[bucket] < geometry->short_slots,
                "short keys' slots");
        require(geometry->groups == 0 || (map->medium_slot[bucket] >= geometry->short_slots &&
                                          map->medium_slot[bucket] < geometry->slots()),
                "medium keys' slots");
    }
}

void check_mark(const v1::Mark& message) {
    if (const auto mark = mark_from_proto(message); mark.ok()) {
        const auto again = mark_from_proto(mark_to_proto(*mark));
        require(again.ok() && *again == *mark, "a mark is the same there and back");
    }
}

void check_channel(const v1::ChannelId& message) {
    if (const auto channel = channel_from_proto(message); channel.ok()) {
        require(channel->host != 0 && channel->port >= ASK_CHANNEL_PORT_BASE &&
                    channel->port < ASK_CHANNEL_PORT_BASE + ASK_MAX_CHANNELS_PER_HOST,
                "a channel that is taken can be one");
        const auto again = channel_from_proto(channel_to_proto(*channel));
        require(again.ok() && *again == *channel, "a channel is the same there and back");
    }
}

void check_sample(const v1::KeySample& message, std::uint32_t payload_limit) {
    auto sample = sample_from_proto(message);
    if (!sample) {
        return;
    }
    const auto again = sample_from_proto(sample_to_proto(*sample));
    require(again.ok() && *again == *sample, "a sample is the same there and back");
    KeySample twice = *sample;
    add_sample(twice, *sample);
    if (sample->tuples() < kLeastSample) {
        return;
    }
    for (const std::uint32_t senders : {1U, 1000U}) {
        const KeySample left = after_merging(twice, senders);
        require(validate(left).ok(), "what is left of a sample is a sample");
    }
    const auto plan = plan_task(*sample, {.payload_limit = std::min(payload_limit, ASK_MAX_PAYLOAD),
                                          .back = sample->window % 2 == 0});
    if (plan.ok()) {
        require(validate(plan->geometry).ok(), "a planned geometry is valid");
        require(decode_slot_map(encode_slot_map(plan->slot_map, plan->geometry), plan->geometry).ok(),
                "a planned slot map is valid");
    }
}

void check_stats(const v1::FlowStats& from) {
    v1::FlowStats stats;
    copy_sender_part(stats, from);
    require(stats.packets_by_tuples_size() <= static_cast<int>(ASK_MAX_TUPLES) + 1,
            "packet sizes are bounded");
    v1::FlowStats sum;
    add_stats(sum, stats);
    add_switch_part(sum, from);
    add_stats(sum, sum);
    static_cast<void>(client::stats_from_proto(from));
}

// As the receiver's agent reads what the switch streams.
void check_entries(const std::string& bytes) {
    std::string written;
    std::uint64_t count = 0;
    EntryReader reader(bytes);
    while (!reader.done()) {
        const auto entry = reader.next();
        if (!entry) {
            return;
        }
        require(entry->key.size() <= ASK_MAX_KEY, "a key is not longer than keys can be");
        append_entry(written, entry->key, entry->value);
        ++count;
    }
    EntryReader first(bytes);
    EntryReader second(written);
    for (; count > 0; --count) {
        const auto a = first.next();
        const auto b = second.next();
        require(b.ok() && a->key == b->key && a->value == b->value, "entries are the same there and back");
    }
    require(second.done(), "entries written are those that were read");
}

void check_secret(const std::string& bytes) {
    const auto secret = secret_from_bytes(bytes);
    require(secret.ok() == (bytes.size() == 16), "a secret has 16 bytes");
    require(!secret || secret_to_bytes(*secret) == bytes, "a secret is the same there and back");
}

template <typename Message>
bool parse(std::string_view bytes, Message& message) {
    return message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

void check_lookup(std::string_view bytes) {
    v1::LookupRequest request;
    if (parse(bytes, request)) {
        check_names(request.task_id());
        check_sample(request.sample(), request.payload_limit());
    }
    v1::TaskOffer offer;
    if (parse(bytes, offer)) {
        check_geometry(offer.geometry());
        check_mark(offer.mark());
        static_cast<void>(wire_op(offer.op()).ok());
    }
}

void check_join(std::string_view bytes) {
    v1::JoinRequest request;
    if (parse(bytes, request)) {
        check_names(request.sender_name());
        check_channel(request.channel());
        check_mark(request.registered());
    }
    v1::JoinReply reply;
    if (parse(bytes, reply)) {
        check_geometry(reply.geometry());
        check_slot_map(reply.geometry(), reply.slot_map());
        check_secret(reply.secret());
        check_mark(reply.mark());
    }
}

void check_agent_requests(std::string_view bytes) {
    v1::RenewRequest renew;
    if (parse(bytes, renew)) {
        check_stats(renew.stats());
    }
    v1::LeaveRequest leave;
    if (parse(bytes, leave)) {
        check_names(leave.reason());
    }
    v1::Outcome outcome;
    if (parse(bytes, outcome)) {
        const Errc code = errc_from_number(outcome.code(), Errc::kAborted);
        require(static_cast<int>(code) >= 1 && static_cast<int>(code) <= 14,
                "an error is of a class that there is");
        check_names(outcome.error());
        check_stats(outcome.stats());
    }
}

void check_local(std::string_view bytes) {
    v1::LocalRequest request;
    if (parse(bytes, request)) {
        check_names(request.open_send().task_id());
        check_names(request.open_send().to());
        check_sample(request.open_send().sample(), ASK_MAX_PAYLOAD);
        check_names(request.open_receive().task_id());
        check_geometry(request.open_receive().geometry());
        static_cast<void>(wire_op(request.open_receive().op()).ok());
    }
    v1::LocalReply reply;
    if (parse(bytes, reply)) {
        static_cast<void>(client::op_from_proto(reply.send_ready().op()).ok());
        check_stats(reply.done().stats());
        check_stats(reply.progress().stats());
    }
}

void check_switch(std::string_view bytes) {
    v1::OpenTaskRequest open;
    if (parse(bytes, open)) {
        check_names(open.id());
        check_geometry(open.geometry());
        static_cast<void>(wire_op(open.op()).ok());
    }
    v1::JoinFlowRequest join;
    if (parse(bytes, join)) {
        check_channel(join.channel());
        check_secret(join.secret());
    }
    v1::FetchChunk chunk;
    if (parse(bytes, chunk)) {
        check_entries(chunk.entries());
    }
}

}  // namespace
}  // namespace ask::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace ask::fuzz;
    // protobuf writes a line for every string that is not UTF-8.
    static const bool kSilenced = (google::protobuf::SetLogHandler(nullptr), true);
    static_cast<void>(kSilenced);
    Input input(data, size);
    const unsigned kind = input.below(6);
    const std::string_view bytes = input.rest();
    switch (kind) {
        case 0:
            check_lookup(bytes);
            break;
        case 1:
            check_join(bytes);
            break;
        case 2:
            check_agent_requests(bytes);
            break;
        case 3:
            check_local(bytes);
            break;
        case 4:
            check_switch(bytes);
            break;
        default:
            check_entries(std::string(bytes));
            check_names(std::string(bytes));
            break;
    }
    return 0;
}
