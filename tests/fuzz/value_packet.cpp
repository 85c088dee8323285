// SPDX-License-Identifier: Apache-2.0
//
// Packets of value streams, over IPv4 or IPv6, into the natively compiled switch program: whatever their
// headers say, their payload is the fold of the members that they name, and some are damaged after they were
// sealed. One counter each, none that cannot happen; what is not proved changes nothing; and what a slot
// holds and what leaves the switch is the fold of exactly the set that it says, sealed, and over IPv6 with a
// checksum that is right, or its sender's.
#include <linux/bpf.h>

#include <array>
#include <cstring>
#include <string_view>
#include <vector>

#include "lib/abi/check.h"
#include "lib/abi/hosts.h"
#include "lib/abi/values.h"
#include "lib/base/bytes.h"
#include "loader/counter_names.h"
#include "tests/bpf/switch/family.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/six_frame.h"
#include "tests/pisa/native_harness.h"
#include "tests/support/made_values.h"

namespace ask::fuzz {
namespace {

using test::Bytes;
using test::NativeSwitch;
using test::Packet;

constexpr test::Ports kPorts{.in = 11, .out = 12, .side = 13};
constexpr std::size_t kMaxFrames = 40;
constexpr std::size_t kPayloadOffset = 42;
constexpr std::size_t kWordsOffset = kPayloadOffset + ASK_VALUES_FRONT;
constexpr std::uint32_t kMembers = 4;
constexpr std::uint64_t kAll = (1U << kMembers) - 1;
constexpr std::uint32_t kGroups = 2;
constexpr std::uint32_t kPool = 4;

// What tells values apart, beside the member.
struct Chunk {
    std::uint64_t instance = 0;
    std::uint64_t seq = 0;
    std::uint32_t shape = 0;
    std::uint8_t stream = 0;
    std::uint8_t blocks = 0;
    std::uint8_t op = 0;
};

std::vector<std::uint64_t> fold_of(const Chunk& chunk, std::uint64_t bits) {
    return test::fold_of_members(chunk.op, chunk.blocks, bits, [&chunk](unsigned member, std::size_t word) {
        return test::made_word(
            chunk.instance ^ chunk.seq * 0x9e3779b97f4a7c15,
            {chunk.shape, std::uint64_t{chunk.stream} << 16 | chunk.op, std::uint64_t{member}, word});
    });
}

class World {
 public:
    World(bool direct, bool six, std::uint8_t op)
        : program_({}, kPorts),
          sender_(family(six, test::kSender)),
          receiver_(family(six, test::kReceiver)),
          op_(op) {
        if (six) {
            program_.add_six_hosts();
        }
        for (std::uint32_t i = 0; i < kMembers; ++i) {
            program_.add_channel(
                i, {.host = sender_, .port = static_cast<std::uint16_t>(ASK_CHANNEL_PORT_BASE + i)});
        }
        for (std::uint32_t number = 0; number < kGroups; ++number) {
            add_group(number, direct);
        }
        see();
    }

    void frame(Input& input) {
        if (input.below(16) == 0) {
            disturb(input);
        }
        Packet packet = make(input);
        Bytes frame = is_six() ? test::in_six(packet.frame()) : packet.frame();
        if (input.below(8) == 0) {
            damage(input, frame);
        }
        run(frame);
        if (input.flag()) {
            run(frame);
        }
    }

 private:
    static std::uint32_t family(bool six, std::uint32_t address) {
        return six ? address | ASK_HOST_NUMBERS : address;
    }
    [[nodiscard]] bool is_six() const { return sender_ != test::kSender; }

    static std::uint64_t instance_of(std::uint32_t group) { return 0x0102030405060708 + group; }

    void add_group(std::uint32_t number, bool direct) {
        const test::TaskSpec spec{.instance = instance_of(number),
                                  .copies = 0,
                                  .service = ASK_SERVICE_VALUES,
                                  .receiver = receiver_};
        program_.add_task(number, spec);
        ask_group group{};
        group.instance = __builtin_bswap64(spec.instance);
        group.collector = __builtin_bswap32(spec.receiver);
        group.all = kAll;
        group.want = number == 0 ? kAll : 3;
        group.local = 3;
        group.above.ifindex[0] = kPorts.in;
        group.window = 4;
        group.pool_slots = kPool;
        group.has_fan = 1;
        group.last_level = number == 0 ? 1 : 0;
        group.direct = direct ? 1 : 0;
        groups_[number] = group;
        native_set("groups", &number, &group);
        for (std::uint32_t i = 0; i <= kMembers; ++i) {
            add_flow(number, i);
        }
        static std::uint64_t fan = 0;
        native_set_inner("fans", 0, &fan, 1, 1);
    }

    // Of a member, or behind them the one of RESULTs.
    void add_flow(std::uint32_t group, std::uint32_t member) const {
        const std::uint32_t at = group * (kMembers + 1) + member;
        ask_flow flow{};
        flow.task_instance = __builtin_bswap64(instance_of(group));
        flow.channel = member == kMembers ? ASK_NO_CHANNEL : member;
        flow.task = group;
        flow.member = member;
        const test::Secret secret = test::group_secret(group);
        const __u64 words[2] = {secret[0], secret[1]};
        ask_check_expand(words, &flow.key);
        native_set("flows", &at, &flow);
        ask_flow_id id{.task = flow.task_instance, .host = 0, .port = 0, .pad = 0};
        if (member < kMembers) {
            id.host = __builtin_bswap32(sender_);
            id.port = __builtin_bswap16(static_cast<std::uint16_t>(ASK_CHANNEL_PORT_BASE + member));
        }
        native_set("flow_ids", &id, &at);
    }

    // What a daemon may do meanwhile: empty a slot as its owner, close a group and open it again.
    void disturb(Input& input) {
        if (input.flag()) {
            const std::uint32_t at = input.below(kPool);
            ask_value_slot slot = slot_at(at);
            slot.phase = ASK_SLOT_EMPTY;
            native_set("value_slots", &at, &slot);
        } else {
            const std::uint32_t at = input.below(kGroups);
            ask_group group = groups_[at];
            group.instance = input.flag() ? group.instance : 0;
            native_set("groups", &at, &group);
        }
        see();
    }

    [[nodiscard]] Packet make(Input& input) const {
        constexpr std::array<std::uint8_t, 5> kTypes{ASK_VALUE, ASK_RESULT, ASK_NEED, ASK_HELD, ASK_HAVE};
        const unsigned kind = input.below(16);
        const std::uint32_t group = input.below(4) == 0 ? 1 : 0;
        const unsigned member = input.below(kMembers);
        Chunk chunk{.instance = instance_of(group),
                    .seq = 1 + input.below(2),
                    .shape = 1,
                    .stream = static_cast<std::uint8_t>(input.below(8) == 0 ? 1 : 0),
                    .blocks = 1,
                    .op = op_};
        if (input.below(8) == 0) {
            chunk.seq += input.below(10);
        }
        Packet packet;
        packet.dest_mac = test::kInMac;
        packet.source_mac = test::kSenderMac;
        packet.type = kTypes[kind < 12 ? 0 : kind - 11];
        packet.m = packet.type == ASK_RESULT ? ASK_LEVEL_RESULT : ASK_LEVEL_MEMBER;
        packet.flags = input.below(4) == 0 ? static_cast<std::uint8_t>(input.take<std::uint8_t>() & 0x3f)
                                           : std::uint8_t{0};
        std::uint64_t bits = std::uint64_t{1} << member;
        if (packet.type == ASK_RESULT || packet.type == ASK_HAVE) {
            bits = kAll;
        } else if (kind < 2) {
            packet.m = ASK_LEVEL_PARTIAL;
            bits = input.below(16);
        }
        if (packet.type == ASK_RESULT) {
            packet.flags &= ASK_F_FOLDED | ASK_F_GROUP;
        } else {
            packet.flags &= ASK_F_OF_VALUE;
        }
        packet.tos = static_cast<std::uint8_t>(input.below(8));
        if (input.below(8) == 0) {
            change(input, packet, chunk, bits);
        }
        address(packet, chunk, group, member);
        const bool has_payload = packet.type != ASK_NEED && packet.type != ASK_HELD;
        fill(packet, chunk, bits, has_payload);
        if (input.below(16) == 0) {
            packet.bitmaps[3] = input.take<std::uint8_t>();
        }
        return packet;
    }

    // Fields that a member doesn't write so.
    static void change(Input& input, Packet& packet, Chunk& chunk, std::uint64_t& bits) {
        const auto small = input.take<std::uint8_t>();
        switch (input.below(9)) {
            case 0:
                chunk.shape = small;
                break;
            case 1:
                chunk.blocks = small;
                break;
            case 2:
                chunk.op = small;
                break;
            case 3:
                chunk.stream = small;
                break;
            case 4:
                packet.m = small;
                break;
            case 5:
                packet.flags = small;
                break;
            case 6:
                chunk.seq = std::uint64_t{small} << (small & 63U);
                break;
            case 7:
                bits = small;
                break;
            default:
                packet.type = small;
                break;
        }
    }

    void address(Packet& packet, const Chunk& chunk, std::uint32_t group, unsigned member) const {
        const auto channel = static_cast<std::uint16_t>(ASK_CHANNEL_PORT_BASE + member);
        packet.host = sender_;
        packet.port = channel;
        packet.incarnation = test::ChannelSpec{}.incarnation;
        packet.source = sender_;
        packet.dest = receiver_;
        packet.source_port = channel;
        packet.dest_port = ASK_UDP_PORT;
        if (packet.type == ASK_RESULT) {
            packet.host = packet.port = 0;
            packet.incarnation = 0;
            packet.source_port = static_cast<std::uint16_t>(ASK_RESULT_PORT + chunk.stream);
        } else if (packet.type == ASK_NEED || packet.type == ASK_HELD) {
            std::swap(packet.source_port, packet.dest_port);
        }
        if (packet.type != ASK_VALUE && packet.type != ASK_HAVE) {
            packet.source = receiver_;
            packet.dest = sender_;
        }
        packet.task = chunk.instance;
        packet.secret = test::group_secret(group);
    }

    static void fill(Packet& packet, Chunk chunk, std::uint64_t bits, bool has_payload) {
        chunk.blocks = has_payload ? chunk.blocks : std::uint8_t{0};
        packet.short_slots = chunk.blocks;
        packet.groups = chunk.stream;
        packet.op = chunk.op;
        packet.seq_field = chunk.seq;
        packet.bitmaps = {static_cast<std::uint32_t>(bits >> 32), static_cast<std::uint32_t>(bits),
                          chunk.shape, static_cast<std::uint32_t>(__builtin_popcountll(bits))};
        chunk.blocks = std::min<std::uint8_t>(chunk.blocks, ASK_VALUES_MAX_BLOCKS);
        const auto words = fold_of(chunk, bits);
        packet.body.resize(words.size() * 8);
        if (!words.empty()) {
            std::memcpy(packet.body.data(), words.data(), packet.body.size());
        }
    }

    static void damage(Input& input, Bytes& frame) {
        for (unsigned left = 1 + input.below(3); left > 0; --left) {
            const std::size_t at = input.take<std::uint16_t>() % frame.size();
            frame[at] = static_cast<std::uint8_t>(frame[at] ^ input.take<std::uint8_t>());
        }
        if (input.below(4) == 0) {
            frame.resize(std::max<std::size_t>(14, input.take<std::uint16_t>() % 4096));
        }
    }

    static ask_value_slot slot_at(std::uint32_t at) {
        const Bytes all = NativeSwitch::memory("value_slots", (at + 1) * sizeof(ask_value_slot));
        ask_value_slot slot{};
        std::memcpy(&slot, all.data() + at * sizeof(slot), sizeof(slot));
        return slot;
    }

    void run(const Bytes& frame) {
        const auto counters = NativeSwitch::counters();
        const auto outcome = program_.run(frame);
        const auto after = NativeSwitch::counters();
        std::uint32_t counter = ASK_CNT_COUNT;
        for (std::uint32_t i = 0; i < counters.size(); ++i) {
            if (counters[i] != after[i]) {
                require(counter == ASK_CNT_COUNT && after[i] == counters[i] + 1, "one counter grows, by one");
                counter = i;
            }
        }
        require(counter != ASK_CNT_COUNT, "a counter grows");
        require(kSwitchCounters[counter].kind != "never", "nothing happens that cannot");
        require(outcome.frame.size() <= frame.size(), "no packet grows");
        check_action(kSwitchCounters[counter].name, outcome.action);
        if (changes_nothing(kSwitchCounters[counter].name)) {
            require(NativeSwitch::memory("value_slots", kPool * sizeof(ask_value_slot)) == slots_,
                    "what is not proved or not for a slot changes none");
        }
        if (kSwitchCounters[counter].name.starts_with("bad_")) {
            require(NativeSwitch::memory("groups", kGroups * sizeof(ask_group)) == group_memory_,
                    "what is not proved moves no stream on");
        }
        check_slots();
        if (outcome.action == XDP_TX || outcome.action == XDP_REDIRECT) {
            check_six_checksum(frame, outcome.frame);
            check_leaving(is_six() ? test::in_one_form(outcome.frame) : outcome.frame,
                          kSwitchCounters[counter].name);
        }
        see();
    }

    static bool changes_nothing(std::string_view name) {
        constexpr std::array<std::string_view, 11> kForwarded{
            "value_repeat", "value_collided", "value_contended", "value_crossing", "value_shape",
            "value_alone",  "value_late",     "value_ahead",     "value_no_pool",  "value_no_group",
            "have"};
        return name.starts_with("bad_") || name.starts_with("pass_") || name.starts_with("transit_") ||
               name == "result_one" ||
               (name != "value_repeat" && std::ranges::find(kForwarded, name) != kForwarded.end());
    }

    static void check_action(std::string_view name, std::uint32_t action) {
        std::uint32_t expected = XDP_REDIRECT;
        if (name.starts_with("bad_") || name == "value_taken" || name == "value_folded" ||
            name == "value_replaced" || name == "value_repeat" || name == "value_done" ||
            name == "result_no_fan") {
            expected = XDP_DROP;
        } else if (name == "value_held" || name == "value_answered") {
            expected = XDP_TX;
        } else if (name.starts_with("pass_") || name.starts_with("up_")) {
            expected = XDP_PASS;
        }
        require(action == expected, "a packet goes where its counter says");
    }

    void check_slots() const {
        for (std::uint32_t at = 0; at < kPool; ++at) {
            const ask_value_slot slot = slot_at(at);
            require(slot.own == ASK_SLOT_FREE, "a slot is given back");
            if (slot.phase == ASK_SLOT_EMPTY) {
                continue;
            }
            const Chunk chunk{.instance = __builtin_bswap64(slot.instance),
                              .seq = slot.seq,
                              .shape = __builtin_bswap32(slot.shape),
                              .stream = slot.stream,
                              .blocks = slot.blocks,
                              .op = slot.op};
            const auto words = fold_of(chunk, slot.bits);
            require(slot.bits != 0 && std::memcmp(words.data(), slot.words, words.size() * 8) == 0,
                    "a slot is the fold of its set");
            require((slot.bits == groups_[slot.group].want) == (slot.phase == ASK_SLOT_DONE),
                    "a slot is done when all are in");
        }
    }

    void check_leaving(const Bytes& frame, std::string_view name) const {
        if (name == "value_no_group") {
            return;  // as it came, unproved if the group is unknown
        }
        require(frame.size() >= kWordsOffset, "what leaves has its extension");
        const auto all = std::as_bytes(std::span(frame));
        const std::byte* const hdr = all.data() + kPayloadOffset;
        const auto type = std::to_integer<std::uint8_t>(hdr[1]);
        const std::size_t length = load_be<std::uint16_t>(all.data() + 16);
        const std::span payload = std::span(frame).subspan(kPayloadOffset, length - 28);
        Bytes copy(payload.begin(), payload.end());
        const auto check = load_be<std::uint64_t>(hdr + 40);
        std::memset(copy.data() + 40, 0, 8);
        const std::uint32_t group = load_be<std::uint64_t>(hdr + 8) == instance_of(0) ? 0 : 1;
        require(check == test::slow_check(test::group_secret(group), load_be<std::uint16_t>(all.data() + 34),
                                          load_be<std::uint16_t>(all.data() + 36), copy, ASK_VALUES_EXTENSION,
                                          ASK_VALUES_LINE_WORDS),
                "what leaves is sealed");
        const auto bits = load_be<std::uint64_t>(hdr + 48);
        if (type == ASK_NEED || type == ASK_HELD) {
            require(copy.size() == ASK_VALUES_FRONT, "NEED and HELD have no payload");
            return;
        }
        require(type != ASK_RESULT || bits == kAll, "a RESULT is of all");
        require(name != "value_partial" || bits == groups_[group].want, "a partial is of all below");
        const Chunk chunk{.instance = load_be<std::uint64_t>(hdr + 8),
                          .seq = load_be<std::uint64_t>(hdr + 32),
                          .shape = load_be<std::uint32_t>(hdr + 56),
                          .stream = std::to_integer<std::uint8_t>(hdr[5]),
                          .blocks = std::to_integer<std::uint8_t>(hdr[4]),
                          .op = std::to_integer<std::uint8_t>(hdr[7])};
        const auto words = fold_of(chunk, bits);
        require(copy.size() == ASK_VALUES_FRONT + words.size() * 8 &&
                    std::memcmp(copy.data() + ASK_VALUES_FRONT, words.data(), words.size() * 8) == 0,
                "what leaves is the fold of its set");
    }

    void see() {
        slots_ = NativeSwitch::memory("value_slots", kPool * sizeof(ask_value_slot));
        group_memory_ = NativeSwitch::memory("groups", kGroups * sizeof(ask_group));
    }

    NativeSwitch program_;
    std::uint32_t sender_;
    std::uint32_t receiver_;
    std::uint8_t op_;  // of all chunks, but where it is changed
    std::array<ask_group, kGroups> groups_{};
    Bytes slots_;
    Bytes group_memory_;
};

}  // namespace
}  // namespace ask::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace ask::fuzz;
    Input input(data, size);
    const auto how = input.take<std::uint8_t>();
    World world((how & 1U) != 0, (how & 2U) != 0, static_cast<std::uint8_t>(input.below(ASK_VALUES_OPS)));
    for (std::size_t i = 0; i < kMaxFrames && !input.empty(); ++i) {
        world.frame(input);
    }
    return 0;
}
