// SPDX-License-Identifier: Apache-2.0
//
// Frames into the natively compiled switch program: sealed packets whose fields the input chooses, packets
// damaged after they were sealed, and any bytes; over IPv4 or IPv6, with VLANs or without. One counter each,
// none that cannot happen; what is not proven changes no memory; what the check lets through, lib/engine lets
// through; a repeat aggregates nothing; of the values of a new packet each is in the region, in the back
// level or in what leaves the switch; an answer has the form of its packet, and what leaves over IPv6 a
// checksum that is right, or its sender's.
#include <linux/bpf.h>

#include <array>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "lib/abi/hosts.h"
#include "lib/abi/var.h"
#include "lib/base/bytes.h"
#include "lib/engine/packet.h"
#include "loader/counter_names.h"
#include "tests/bpf/switch/family.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/six_frame.h"
#include "tests/pisa/native_harness.h"

namespace ask::fuzz {
namespace {

using test::Bytes;
using test::NativeSwitch;
using test::Packet;
using test::TaskSpec;

constexpr test::Ports kPorts{.in = 11, .out = 12, .side = 13};
constexpr std::size_t kMaxFrames = 12;
constexpr std::size_t kPayloadOffset = 42;
constexpr std::uint32_t kFlows = 2;

TaskSpec task_spec(std::uint32_t number, bool replace) {
    TaskSpec spec;
    spec.aggregators = 4;  // few, so that keys collide
    spec.policy = replace ? ASK_POLICY_REPLACE : ASK_POLICY_FIRST_COME;
    if (number == 1) {
        spec.instance += 1;
        spec.short_slots = 4;
        spec.groups = 2;
        spec.m = 4;
        spec.rows = 8;
        spec.copies = replace ? 1 : 2;
    } else {
        spec.back = {2, 1, 1, 1};
    }
    return spec;
}

// Everything that the program keeps, but its scratch memory and its counters, and what was in it last.
class Memory {
 public:
    void add(const void* at, std::size_t size) {
        const auto* bytes = static_cast<const std::uint8_t*>(at);
        parts_.push_back({.now = {bytes, size}, .seen = {bytes, bytes + size}});
    }
    [[nodiscard]] bool as_seen() const {
        return std::ranges::all_of(parts_, [](const Part& part) {
            return part.now.empty() || std::memcmp(part.now.data(), part.seen.data(), part.now.size()) == 0;
        });
    }
    void see() {
        for (Part& part : parts_) {
            part.seen.assign(part.now.begin(), part.now.end());
        }
    }

 private:
    struct Part {
        std::span<const std::uint8_t> now;
        Bytes seen;
    };
    std::vector<Part> parts_;
};

struct Run {
    std::uint32_t counter = 0;
    std::uint32_t action = 0;
    Bytes out;
    bool aggregated = false;
};

// Values by key, as key_of() spells it; a key with the value 0 is there, too. Sums may wrap.
using Tuples = std::map<std::string, std::int64_t>;

void add(Tuples& sum, const std::string& key, std::int64_t value) {
    std::int64_t& total = sum[key];
    total = static_cast<std::int64_t>(static_cast<std::uint64_t>(total) + static_cast<std::uint64_t>(value));
}
void add_all(Tuples& sum, const Tuples& more) {
    for (const auto& [key, value] : more) {
        add(sum, key, value);
    }
}

// A key of 8-byte words, without those that are all padding.
std::string key_of(std::string words) {
    const auto is_padding = [](std::string_view word) {
        const auto value = load_raw<std::uint64_t>(word.data());
        return value == 0 || value == ASK_BACK_PAD_WORD;
    };
    while (!words.empty() && is_padding(std::string_view(words).substr(words.size() - 8))) {
        words.resize(words.size() - 8);
    }
    return words;
}
// The same of kParts, of which those that are all padding are zeros then.
std::string key_of_kparts(std::string kparts) {
    constexpr std::string_view kPadding("\0\0\0\1", 4);
    for (std::size_t at = 0; at < kparts.size(); at += kPadding.size()) {
        if (std::string_view(kparts).substr(at, kPadding.size()) == kPadding) {
            kparts.replace(at, kPadding.size(), kPadding.size(), '\0');
        }
    }
    kparts.resize((kparts.size() + 7) / 8 * 8);
    return key_of(std::move(kparts));
}

// First AA of a slot, and how many it has.
struct SlotPlace {
    unsigned aa;
    unsigned aas;
};
SlotPlace place_of_slot(const TaskSpec& task, unsigned slot) {
    return slot < task.short_slots ? SlotPlace{slot, 1}
                                   : SlotPlace{task.short_slots + (slot - task.short_slots) * task.m, task.m};
}

// What a table of the back level holds.
Tuples held_by(std::span<const std::uint64_t> table, unsigned group) {
    Tuples held;
    const std::size_t words = ask_var_key_words(group);
    for (; !table.empty(); table = table.subspan(kBackBucketBytes[group] / 8)) {
        for (std::size_t entry = 0; entry < kBackEntries[group]; ++entry) {
            const std::size_t key = group == ASK_BACK_8 ? entry : 1 + entry * (words + 1);
            const std::uint64_t value = table[key + (group == ASK_BACK_8 ? ASK_BACK8_ENTRIES : words)];
            if ((value & ASK_BACK_LIVE) != 0) {
                const auto* const bytes = reinterpret_cast<const char*>(&table[key]);
                add(held, key_of({bytes, 8 * words}), ASK_BACK_VALUE(value));
            }
        }
    }
    return held;
}

// What a region holds, whatever the set and the copy.
Tuples held_in(std::span<const ask_aggregator> region, const TaskSpec& task) {
    Tuples held;
    const std::size_t one_copy = std::size_t{task.aas()} * task.aggregators;
    for (; !region.empty(); region = region.subspan(one_copy)) {
        for (unsigned slot = 0; slot < unsigned{task.short_slots} + task.groups; ++slot) {
            const auto [aa, aas] = place_of_slot(task, slot);
            for (std::uint32_t i = 0; i < task.aggregators; ++i) {
                const auto word = [&, first = aa](unsigned n) -> const ask_aggregator& {
                    return region[std::size_t{first + n} * task.aggregators + i];
                };
                const ask_aggregator& last = word(aas - 1);
                if (std::ranges::all_of(last.kpart, [](char c) { return c == 0; })) {
                    continue;
                }
                std::string key;
                for (unsigned n = 0; n < aas; ++n) {
                    key.append(word(n).kpart, sizeof(last.kpart));
                }
                add(held, key_of_kparts(std::move(key)), last.vpart);
            }
        }
    }
    return held;
}

// How packets of a history come. With tags, the second flow's come by a VLAN, and go to a host in it.
struct Form {
    bool six = false;
    bool tags = false;

    [[nodiscard]] std::uint32_t host(std::uint32_t address) const {
        return six ? address | ASK_HOST_NUMBERS : address;
    }
};

constexpr std::size_t kTypeAt = 12;

bool is_tagged(const Bytes& frame) {
    return frame.size() >= kTypeAt + 6 && frame[kTypeAt] == 0x81 && frame[kTypeAt + 1] == 0;
}
Bytes untagged(Bytes frame) {
    if (is_tagged(frame)) {
        frame.erase(frame.begin() + kTypeAt, frame.begin() + kTypeAt + 4);
    }
    return frame;
}

class World {
 public:
    World(test::Way way, bool replace, Form form) : form_(form), program_(way, kPorts) {
        if (form.six) {
            program_.add_six_hosts();
        }
        if (form.tags) {
            program_.add_vlan(test::kVlan);
        }
        for (std::uint32_t i = 0; i < kFlows; ++i) {
            const bool inside = form.tags && i == 1;
            test::ChannelSpec channel;
            channel.host = form.host(channel.host);
            channel.port = static_cast<std::uint16_t>(channel.port + i);
            channel.ifindex = inside ? kPorts.side : kPorts.in;
            program_.add_channel(i, channel);
            TaskSpec task = task_spec(i, replace);
            task.receiver = form.host(inside ? test::kBehindSide : task.receiver);
            program_.add_task(i, task);
            program_.add_flow(i, i, i);
        }
        for (const char* map : {"channels", "dedupe", "pkt_state", "flows", "flow_stats", "tasks"}) {
            std::size_t size = 0;
            const void* const at = native_memory(map, &size);
            tables_.add(at, size);
        }
        for (std::uint32_t i = 0; i < kFlows; ++i) {
            aggregated_.add(program_.region(i).data(), program_.region(i).size_bytes());
            aggregated_.add(program_.heats(i).data(), program_.heats(i).size_bytes());
            aggregated_.add(program_.carried(i).data(), program_.carried(i).size_bytes());
            for (unsigned group = 0; group < ASK_BACK_GROUPS; ++group) {
                const auto table = program_.back(group, i);
                aggregated_.add(table.data(), table.size_bytes());
            }
        }
    }

    void frame(Input& input) {
        const auto kind = input.take<std::uint8_t>();
        const std::uint32_t flow = kind & 1U;
        if ((kind & 0xe0U) == 0xe0) {
            Bytes bytes = to_bytes(input.bytes(input.take<std::uint16_t>() % 2048));
            bytes.resize(std::max<std::size_t>(bytes.size(), 14));  // the kernel hands over nothing shorter
            run_twice(bytes);
            return;
        }
        Packet packet = make(input, flow);
        if ((kind & 2U) != 0) {
            change(input, packet);
        }
        const bool in_its_form = (kind & 8U) == 0;
        Bytes frame = give_form(packet.frame(), flow, in_its_form);
        if ((kind & 4U) != 0) {
            damage(input, frame);
        }
        if ((kind & 6U) == 0 && (in_its_form || (!form_.six && !form_.tags))) {
            const Run run = run_twice(frame);
            require(kSwitchCounters[run.counter].name.substr(0, 4) != "bad_", "a sender's packet is let in");
        } else {
            run_twice(frame);
        }
    }

 private:
    // Else as the other flow's, or with the numbers of its hosts for addresses.
    [[nodiscard]] Bytes give_form(Bytes frame, std::uint32_t flow, bool in_its_form) const {
        if (form_.six && in_its_form) {
            frame = test::in_six(std::move(frame));
        }
        return form_.tags && (flow == 1) == in_its_form ? test::tagged(std::move(frame)) : frame;
    }
    // As services see it.
    [[nodiscard]] Bytes one_form(Bytes frame) const {
        frame = form_.tags ? untagged(std::move(frame)) : frame;
        return form_.six ? test::in_one_form(std::move(frame)) : frame;
    }

    static Bytes to_bytes(std::span<const std::uint8_t> bytes) { return {bytes.begin(), bytes.end()}; }

    // A packet as the flow's sender makes it.
    Packet make(Input& input, std::uint32_t flow) const {
        Packet packet = program_.packet(flow);
        packet.seq(1 + input.take<std::uint8_t>());
        const unsigned type = input.below(8);
        if (type == 7) {
            packet.type = ASK_FIN;
        } else if (type == 6) {
            packet.type = ASK_LONG;
            packet.body = to_bytes(input.bytes(input.take<std::uint8_t>()));
            packet.body.resize(std::max<std::size_t>(8, packet.body.size() / 8 * 8));
        } else if (type == 5) {
            put_records(input, packet);
        } else {
            put_tuples(input, packet, program_.task(flow));
        }
        return packet;
    }

    static void put_records(Input& input, Packet& packet) {
        constexpr unsigned kMostRecords = 40;  // of the longest, about as many as a frame takes
        std::vector<test::Record> records;
        for (unsigned left = 1 + input.below(kMostRecords); left > 0; --left) {
            const auto choice = input.take<std::uint8_t>();
            std::string key(1 + choice % ASK_VAR_MAX_KEY, 'k');
            key.back() = static_cast<char>('a' + choice / ASK_VAR_MAX_KEY);
            const std::int64_t value =
                input.flag() ? static_cast<std::int64_t>(input.take<std::uint64_t>()) : choice;
            records.push_back({std::move(key), value});
        }
        packet.records(records);
    }

    static void put_tuples(Input& input, Packet& packet, const TaskSpec& task) {
        const unsigned slots = unsigned{task.short_slots} + task.groups;
        unsigned row = 0;
        for (unsigned left = 1 + input.below(40); left > 0; --left) {
            const auto choice = input.take<std::uint8_t>();
            row = std::min<unsigned>(row + ((choice & 0x80U) != 0 ? 1 : 0), task.rows - 1U);
            const unsigned slot = choice % slots;
            const auto letter = input.take<std::uint8_t>();
            std::string key(1, static_cast<char>('a' + letter % 8));
            if (slot >= task.short_slots) {
                key += "edium";
                key += static_cast<char>('a' + letter / 8 % 8);
            }
            const std::uint32_t value = input.flag() ? input.take<std::uint32_t>() : letter;
            packet.put(row, slot, key, static_cast<std::int32_t>(value));
        }
        // A sender's last row is not empty.
        while (packet.bitmaps.back() == 0) {
            packet.bitmaps.pop_back();
            packet.rows.pop_back();
        }
    }

    // Fields that are not what a sender writes, under a seal that fits.
    void change(Input& input, Packet& packet) const {
        for (unsigned left = 1 + input.below(3); left > 0; --left) {
            const auto value = input.take<std::uint32_t>();
            const auto small = static_cast<std::uint8_t>(value);
            const auto half = static_cast<std::uint16_t>(value);
            switch (input.below(28)) {
                case 0:
                    packet.version = small;
                    break;
                case 1:
                    packet.type = small;
                    break;
                case 2:
                    packet.flags = small;
                    break;
                case 3:
                    packet.rows_field = small;
                    break;
                case 4:
                    packet.short_slots = small;
                    break;
                case 5:
                    packet.groups = small;
                    break;
                case 6:
                    packet.m = small;
                    break;
                case 7:
                    packet.op = small;
                    break;
                case 8:
                    packet.task += small;
                    break;
                case 9:
                    packet.host ^= value;
                    break;
                case 10:
                    packet.port = half;
                    break;
                case 11:
                    packet.mark_switch = half;
                    break;
                case 12:
                    packet.incarnation ^= value;
                    break;
                case 13:
                    packet.mark_incarnation = value;
                    break;
                case 14:
                    packet.seq_field = std::uint64_t{value} << (value & 32U);
                    break;
                case 15:
                    packet.bitmaps.push_back(value);
                    break;
                case 16:
                    packet.bitmaps.resize(small % 12, value);
                    break;
                case 17:
                    packet.rows.resize(small % 10, Bytes(std::size_t{8} * (value >> 8 & 63U)));
                    break;
                case 18:
                    packet.body.resize(half % 4096, small);
                    break;
                case 19:
                    packet.total_length = half;
                    break;
                case 20:
                    packet.udp_length = half;
                    break;
                case 21:
                    packet.dest = form_.host((value & 1U) != 0 ? test::kNowhere : test::kBehindSide);
                    break;
                case 22:
                    packet.source_port = half;
                    break;
                case 23:
                    packet.dest_port = half;
                    break;
                case 24:  // counts of VAR, or what is reserved beside them
                    if (packet.body.size() >= sizeof(ask_var_hdr)) {
                        packet.body[half % sizeof(ask_var_hdr)] = static_cast<std::uint8_t>(value >> 16);
                    }
                    break;
                case 25:
                    if (!packet.body.empty()) {
                        packet.body[half % packet.body.size()] = static_cast<std::uint8_t>(value >> 16);
                    }
                    break;
                case 26:
                    packet.tos = small, packet.ttl = static_cast<std::uint8_t>(value >> 8);
                    break;
                default:
                    packet.trailer.resize(half % 600, small);
                    break;
            }
        }
        if (!packet.bitmaps.empty() && (!packet.rows.empty() || packet.type == ASK_VAR) && input.flag()) {
            packet.bitmaps[0] = input.take<std::uint32_t>();
        }
    }

    static void damage(Input& input, Bytes& frame) {
        for (unsigned left = 1 + input.below(4); left > 0; --left) {
            const std::size_t at = input.take<std::uint16_t>() % frame.size();
            frame[at] = static_cast<std::uint8_t>(frame[at] ^ input.take<std::uint8_t>());
        }
        if (input.flag()) {
            frame.resize(std::max<std::size_t>(14, input.take<std::uint16_t>() % 4096));
        }
    }

    // The UDP payload by the IP length, as the kernel and the switch take it.
    static std::span<const std::byte> payload_of(const Bytes& frame) {
        const auto all = std::as_bytes(std::span(frame));
        const std::size_t length = load_be<std::uint16_t>(all.data() + 16);
        require(length >= 28 && length + 14 <= frame.size(),
                "a packet that is let in has a length that fits");
        return all.subspan(kPayloadOffset, length - 28);
    }
    static Ports ports_of(const Bytes& frame) {
        const auto all = std::as_bytes(std::span(frame));
        return {.source = load_be<std::uint16_t>(all.data() + 34),
                .dest = load_be<std::uint16_t>(all.data() + 36)};
    }
    static bool verifies(const Bytes& frame) {
        static const std::array<CheckKey, kFlows> kKeys{CheckKey(test::flow_secret(0)),
                                                        CheckKey(test::flow_secret(1))};
        const auto payload = payload_of(frame);
        return std::ranges::any_of(kKeys,
                                   [&](const CheckKey& key) { return key.verify(payload, ports_of(frame)); });
    }

    // No sender's last row is empty, nor all of a VAR. The switch does not look: it is as if what it had
    // were all aggregated.
    static bool is_as_sent(const Bytes& frame) {
        const auto payload = payload_of(frame);
        if (std::to_integer<std::uint8_t>(payload[offsetof(ask_hdr, type)]) == ASK_VAR) {
            return parse_packet(payload).has_value();
        }
        const auto rows = std::to_integer<std::size_t>(payload[offsetof(ask_hdr, rows)]);
        return rows == 0 || load_be<std::uint32_t>(payload.data() + sizeof(ask_hdr) + 4 * (rows - 1)) != 0;
    }

    // The tuples that a frame carries.
    static Tuples carried_by(const Bytes& frame, const TaskSpec& task) {
        const auto view = parse_packet(payload_of(frame));
        require(view.has_value(), "what leaves the switch is well-formed");
        if (view->header.type == ASK_VAR) {
            return carried_by_var(*view);
        }
        Tuples tuples;
        for (unsigned row = 0; row < view->header.rows; ++row) {
            for (unsigned slot = 0; slot < unsigned{task.short_slots} + task.groups; ++slot) {
                if ((view->bitmap[row] >> slot & 1U) == 0) {
                    continue;
                }
                const auto [aa, aas] = place_of_slot(task, slot);
                const std::byte* word = view->body.data() + std::size_t{8} * (row * task.aas() + aa);
                std::string key;
                for (unsigned n = 0; n < aas; ++n, word += 8) {
                    key.append(reinterpret_cast<const char*>(word), 4);
                }
                add(tuples, key_of_kparts(std::move(key)),
                    static_cast<std::int32_t>(load_be<std::uint32_t>(word - 4)));
            }
        }
        return tuples;
    }

    static Tuples carried_by_var(const PacketView& view) {
        Tuples tuples;
        ask_var_hdr counts{};
        std::memcpy(&counts, view.body.data(), sizeof(counts));
        const std::byte* record = view.body.data() + sizeof(counts);
        unsigned number = 0;
        for (unsigned group = 0; group < ASK_VAR_GROUPS; ++group) {
            const std::size_t bytes = ask_var_record_bytes(group);
            for (unsigned i = 0; i < counts.count[group]; ++i, ++number, record += bytes) {
                if ((view.bitmap[number / 32] >> number % 32 & 1U) != 0) {
                    const auto* const key = reinterpret_cast<const char*>(record + 8);
                    add(tuples, key_of({key, bytes - 8}),
                        static_cast<std::int64_t>(load_be<std::uint64_t>(record)));
                }
            }
        }
        return tuples;
    }

    [[nodiscard]] Tuples held(std::uint32_t flow) const {
        Tuples held = held_in(program_.region(flow), program_.task(flow));
        for (unsigned group = 0; group < ASK_BACK_GROUPS; ++group) {
            add_all(held, held_by(program_.back(group, flow), group));
        }
        return held;
    }

    Run run_twice(const Bytes& frame) {
        const Run first = run(frame);
        const Run second = run(frame);
        require(!second.aggregated, "a repeat aggregates nothing");
        // What came of a packet that is let in, and the copy of it, is the same or less.
        require(is_let_in(second) || second.counter == first.counter || is_let_in(first),
                "a repeat is no other packet");
        return first;
    }

    static bool is_let_in(const Run& run) {
        const std::string_view name = kSwitchCounters[run.counter].name;
        return name.starts_with("ack_") || name.starts_with("fwd_") || name.starts_with("long_") ||
               name.starts_with("fin_") || name == "drop_in_flight" || name == "drop_stale";
    }

    Run run(const Bytes& frame) {
        auto counters = NativeSwitch::counters();
        const auto outcome = program_.run(frame);
        Run run{.counter = ASK_CNT_COUNT,
                .action = outcome.action,
                .out = outcome.frame,
                .aggregated = !aggregated_.as_seen()};
        const auto after = NativeSwitch::counters();
        for (std::uint32_t i = 0; i < counters.size(); ++i) {
            if (counters[i] != after[i]) {
                require(run.counter == ASK_CNT_COUNT && after[i] == counters[i] + 1,
                        "one counter grows, by one");
                run.counter = i;
            }
        }
        require(run.counter != ASK_CNT_COUNT, "a counter grows");
        require(kSwitchCounters[run.counter].kind != "never", "nothing happens that cannot");
        const bool gets_tag = is_tagged(run.out) && !is_tagged(frame);
        require(run.out.size() <= frame.size() + (gets_tag ? 4 : 0), "no packet grows");
        check_left_alone(frame, run);
        check_action(run);
        check_form(frame, run);
        if (is_let_in(run)) {
            run.out = one_form(std::move(run.out));
            check_let_in(one_form(frame), run);
        }
        see();
        return run;
    }

    void see() {
        for (std::uint32_t i = 0; i < kFlows && !aggregated_.as_seen(); ++i) {
            held_[i] = held(i);
        }
        aggregated_.see();
        tables_.see();
    }

    void check_left_alone(const Bytes& frame, const Run& run) const {
        const std::string_view name = kSwitchCounters[run.counter].name;
        if (name.starts_with("bad_") || name.starts_with("transit_") || name.starts_with("pass_") ||
            name == "drop_stale") {
            require(!run.aggregated && tables_.as_seen(),
                    "what is not proven, not ours or stale changes no memory");
        }
        if (name.starts_with("pass_")) {
            require(run.out == frame, "what is not ours is passed on as it came");
        }
        if (name == "transit_ack") {
            require(verifies(one_form(frame)), "what is forwarded past the stack is proven");
        }
    }

    static void check_action(const Run& run) {
        const std::string_view name = kSwitchCounters[run.counter].name;
        std::uint32_t action = XDP_REDIRECT;
        if (name.starts_with("bad_") || name.starts_with("drop_")) {
            action = XDP_DROP;
        } else if (name.starts_with("ack_")) {
            action = XDP_TX;
        } else if (name.starts_with("pass_") || name.starts_with("up_")) {
            action = XDP_PASS;
        }
        require(run.action == action, "a packet goes where its counter says");
    }

    static void check_goes_back(const Bytes& in, const Bytes& out) {
        const bool six = in[kTypeAt] == 0x86;
        const std::ptrdiff_t source = six ? 22 : 26;
        const std::ptrdiff_t bytes = six ? 16 : 4;
        const auto same = [&](std::ptrdiff_t from, std::ptrdiff_t to) {
            return std::equal(in.begin() + from, in.begin() + from + bytes, out.begin() + to);
        };
        require(same(source, source + bytes) && same(source + bytes, source),
                "an answer goes back to where its packet is from");
    }

    static void check_form(const Bytes& frame, const Run& run) {
        if (run.action == XDP_DROP) {
            return;
        }
        require(run.action == XDP_REDIRECT || is_tagged(run.out) == is_tagged(frame), "a tag stays, or none");
        if (run.action != XDP_REDIRECT && is_tagged(frame)) {
            require(
                std::equal(frame.begin() + kTypeAt, frame.begin() + kTypeAt + 6, run.out.begin() + kTypeAt),
                "a tag stays as it is");
        }
        const Bytes in = untagged(frame);
        const Bytes out = untagged(run.out);
        require(std::equal(in.begin() + kTypeAt, in.begin() + kTypeAt + 2, out.begin() + kTypeAt),
                "a packet stays one of its family");
        if (!std::string_view(kSwitchCounters[run.counter].name).starts_with("pass_")) {
            check_six_checksum(in, out);
        }
        if (run.action == XDP_TX) {
            check_goes_back(in, out);
        }
    }

    void check_let_in(const Bytes& frame, const Run& run) const {
        const bool as_sent = is_as_sent(frame);
        require(!as_sent || verifies(frame), "what the switch lets in, lib/engine verifies");
        if (run.action == XDP_DROP) {
            return;
        }
        require(verifies(run.out), "what leaves the switch is sealed");
        if (!as_sent || (run.counter != ASK_CNT_ack_new && run.counter != ASK_CNT_fwd_new)) {
            return;
        }
        const auto header = parse_packet(payload_of(frame))->header;
        const std::uint32_t flow = header.instance == program_.task(0).instance ? 0 : 1;
        const TaskSpec& task = program_.task(flow);
        Tuples before = held_[flow];
        add_all(before, carried_by(frame, task));
        Tuples after = held(flow);
        if (run.counter == ASK_CNT_fwd_new) {
            add_all(after, carried_by(run.out, task));
        }
        require(before == after, "each tuple is aggregated or travels on");
    }

    Form form_;
    NativeSwitch program_;
    std::array<Tuples, kFlows> held_;
    Memory tables_;
    Memory aggregated_;  // regions, and what a task that replaces keeps beside them
};

}  // namespace
}  // namespace ask::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace ask::fuzz;
    Input input(data, size);
    const auto ways = input.take<std::uint8_t>();
    World world(ask::test::kWays[ways % 4], (ways & 4U) != 0,
                {.six = (ways & 8U) != 0, .tags = (ways & 16U) != 0});
    for (std::size_t i = 0; i < kMaxFrames && !input.empty(); ++i) {
        world.frame(input);
    }
    return 0;
}
