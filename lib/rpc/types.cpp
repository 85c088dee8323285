// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/types.h"

#include <algorithm>
#include <limits>
#include <sstream>

#include "lib/abi/wire.h"

namespace ask {

Result<Geometry> geometry_fields(const v1::Geometry& geometry) {
    for (const std::uint32_t field :
         {geometry.short_slots(), geometry.groups(), geometry.m(), geometry.rows()}) {
        if (field > std::numeric_limits<std::uint8_t>::max()) {
            return Error(Errc::kInput, "geometry: " + std::to_string(field) + " is out of range");
        }
    }
    return Geometry{static_cast<std::uint8_t>(geometry.short_slots()),
                    static_cast<std::uint8_t>(geometry.groups()), static_cast<std::uint8_t>(geometry.m()),
                    static_cast<std::uint8_t>(geometry.rows())};
}

Result<Geometry> geometry_from_proto(const v1::Geometry& geometry) {
    auto checked = geometry_fields(geometry);
    ASK_PASS(checked);
    if (auto valid = validate(*checked); !valid) {
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

namespace {

Result<> take_buckets(const google::protobuf::RepeatedField<std::uint64_t>& from, KeyGroup::Buckets& to) {
    const auto buckets = static_cast<std::size_t>(from.size());
    if (buckets != 0 && buckets != to.size()) {
        return Error(Errc::kInput, "key sample: " + std::to_string(buckets) + " buckets instead of " +
                                       std::to_string(to.size()));
    }
    std::ranges::copy(from, to.begin());
    return {};
}

}  // namespace

Result<KeySample> sample_from_proto(const v1::KeySample& message) {
    KeySample sample;
    if (static_cast<std::size_t>(message.groups_size()) > sample.groups.size() ||
        static_cast<std::size_t>(message.loose_size()) > sample.loose.size()) {
        return Error(Errc::kInput, "key sample: " + std::to_string(message.groups_size()) + " and " +
                                       std::to_string(message.loose_size()) + " groups, at most " +
                                       std::to_string(sample.groups.size()) + " and " +
                                       std::to_string(sample.loose.size()));
    }
    for (int i = 0; i < message.groups_size(); ++i) {
        const v1::KeyGroup& from = message.groups(i);
        KeyGroup& group = sample.groups[static_cast<std::size_t>(i)];
        ASK_PASS(take_buckets(from.tuples(), group.tuples));
        ASK_PASS(take_buckets(from.keys(), group.keys));
        group.once = from.once();
    }
    for (int i = 0; i < message.loose_size(); ++i) {
        const v1::LooseKeys& from = message.loose(i);
        sample.loose[static_cast<std::size_t>(i)] = {
            .tuples = from.tuples(), .bytes = from.bytes(), .distinct = from.distinct(), .once = from.once()};
    }
    sample.expected = message.expected();
    sample.window = message.window();
    auto sketch = KeySketch::decode({message.sketch().begin(), message.sketch().end()});
    ASK_PASS(sketch);
    sample.sketch = *std::move(sketch);
    if (auto valid = validate(sample); !valid) {
        return std::move(valid).error();
    }
    return sample;
}

v1::KeySample sample_to_proto(const KeySample& sample) {
    v1::KeySample message;
    for (const KeyGroup& group : sample.groups) {
        v1::KeyGroup& to = *message.add_groups();
        to.set_once(group.once);
        if (group.distinct() > 0) {
            to.mutable_tuples()->Assign(group.tuples.begin(), group.tuples.end());
            to.mutable_keys()->Assign(group.keys.begin(), group.keys.end());
        }
    }
    for (const LooseKeys& keys : sample.loose) {
        v1::LooseKeys& to = *message.add_loose();
        to.set_tuples(keys.tuples);
        to.set_bytes(keys.bytes);
        to.set_distinct(keys.distinct);
        to.set_once(keys.once);
    }
    message.set_expected(sample.expected);
    message.set_window(sample.window);
    const std::vector<std::uint64_t> sketch = sample.sketch.encode();
    message.mutable_sketch()->Assign(sketch.begin(), sketch.end());
    return message;
}

Result<Op> op_from_proto(v1::Operator op) {
    switch (op) {
#define ASK_OPERATOR(NAME, Name, number, text) \
    case v1::OPERATOR_##NAME:                  \
        return Op::k##Name;
#include "lib/abi/operators.def"
        default:
            return Error(Errc::kInput, "operator: must be SUM, MIN or MAX (COUNT and MEAN are sums)");
    }
}

Result<Op> wire_op(v1::Operator op) {
    switch (op) {
#define ASK_OPERATOR(NAME, Name, number, text) \
    case v1::OPERATOR_##NAME:                  \
        return Op::k##Name;
#define ASK_OPERATOR_AS(NAME, Name, AS, As, text) \
    case v1::OPERATOR_##NAME:                     \
        return Op::k##As;
#include "lib/abi/operators.def"
        default:
            return Error(Errc::kInput, "operator " + std::to_string(static_cast<int>(op)) +
                                           ": must be SUM, COUNT, MEAN, MIN or MAX");
    }
}

v1::Operator op_to_proto(Op op) {
    switch (op) {
#define ASK_OPERATOR(NAME, Name, number, text) \
    case Op::k##Name:                          \
        return v1::OPERATOR_##NAME;
#include "lib/abi/operators.def"
    }
    return v1::OPERATOR_UNSPECIFIED;
}

BackWish back_from_proto(const v1::BackWish& wish) {
    BackWish out{.wanted = true, .keys = {}, .guess = wish.guess()};
    for (int group = 0; group < wish.keys_size() && group < static_cast<int>(out.keys.size()); ++group) {
        out.keys[static_cast<unsigned>(group)] = wish.keys(group);
    }
    return out;
}

v1::BackWish back_to_proto(const BackWish& wish) {
    v1::BackWish out;
    out.mutable_keys()->Add(wish.keys.begin(), wish.keys.end());
    out.set_guess(wish.guess);
    return out;
}

Result<std::optional<ask_policy>> policy_from_proto(v1::Policy policy) {
    switch (policy) {
        case v1::POLICY_UNSPECIFIED:
            return std::optional<ask_policy>();
#define ASK_POLICY(NAME, Name, number, text, meaning) \
    case v1::POLICY_##NAME:                           \
        return std::optional(ASK_POLICY_##NAME);
#include "lib/abi/policies.def"
        default:
            return Error(Errc::kInput, "policy: must be FIRST_COME or REPLACE");
    }
}

v1::Policy policy_to_proto(ask_policy policy) {
    switch (policy) {
#define ASK_POLICY(NAME, Name, number, text, meaning) \
    case ASK_POLICY_##NAME:                           \
        return v1::POLICY_##NAME;
#include "lib/abi/policies.def"
    }
    return v1::POLICY_UNSPECIFIED;
}

Result<ChannelId> channel_fields(const v1::ChannelId& channel) {
    if (channel.port() > std::numeric_limits<std::uint16_t>::max()) {
        return Error(Errc::kInput, "channel: UDP port " + std::to_string(channel.port()) + " is past 65535");
    }
    return ChannelId{channel.host(), static_cast<std::uint16_t>(channel.port())};
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

std::string wire_version_name(std::uint32_t version) {
    if (version == 0) {
        return "an older version";
    }
    std::ostringstream text;
    text << "version 0x" << std::hex << version;
    return text.str();
}

Result<> check_wire_version(std::uint32_t version, const std::string& who) {
    return version == ASK_WIRE_VERSION
               ? Result<>()
               : Error(Errc::kUnsupported, who + " speaks ASK packets of " + wire_version_name(version) +
                                               ", the other end of the call " +
                                               wire_version_name(ASK_WIRE_VERSION) +
                                               ": run one release on all hosts and switches of a task");
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

}  // namespace ask
