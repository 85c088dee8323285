// SPDX-License-Identifier: Apache-2.0
//
// The program in the kernel against the same source compiled natively: random packets, good and bad, must
// come out alike, and leave the same memory behind, byte for byte. With tags, one channel's come by a VLAN,
// and what is for its task's receiver leaves by one. Seeded: a failure names its packet.
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>

#include <doctest/doctest.h>

#include "tests/bpf/switch/family.h"
#include "tests/bpf/switch/vlan.h"
#include "tests/pisa/native_harness.h"
#include "tests/pisa/native_switch.h"

using namespace ask;
using namespace ask::test;

namespace {

constexpr unsigned kPackets = 3000;
// Fewer with IPv6 or tags, of which the same programs see little.
constexpr unsigned kOtherPackets = 700;

// Writes the same entries into both. `second_port` is the second channel's.
template <typename S>
void fill(S& sw, const TaskSpec& first, const TaskSpec& second, std::uint32_t second_port) {
    sw.add_channel(0, {.host = host_number(kSender)});
    sw.add_channel(1, {.host = host_number(kSender),
                       .port = ASK_CHANNEL_PORT_BASE + 1,
                       .incarnation = 9,
                       .ifindex = second_port});
    sw.add_task(0, first);
    sw.add_task(1, second);
    sw.add_flow(0, 0, 0);
    sw.add_flow(1, 1, 0);
    sw.add_flow(2, 1, 1);
}

class PacketSource {
 public:
    PacketSource(const Switch& sw, std::uint64_t seed, bool tags) : sw_(sw), random_(seed), tags_(tags) {}

    // In the form that it comes in, which may be damaged, too.
    Bytes next() {
        std::uint32_t flow = 0;
        Bytes frame = packet(flow);
        if (is_six_run()) {
            frame = in_six(std::move(frame));
        }
        // Now and then one that is to have a tag has none, or the other way round.
        if (tags_ && (flow == 0) == (below(16) == 0)) {
            frame = tagged(std::move(frame), static_cast<std::uint16_t>(below(16) << 12 | draw_vlan()));
        }
        if ((tags_ || is_six_run()) && below(16) == 0) {
            frame[below(static_cast<unsigned>(std::min<std::size_t>(frame.size(), kFronts)))] ^=
                static_cast<std::uint8_t>(1U << below(8));
        }
        return frame;
    }

 private:
    static constexpr std::size_t kFronts = 14 + 4 + 40 + 8;  // all headers ahead of ASK's

    Bytes packet(std::uint32_t& flow) {
        flow = below(3);
        Packet packet = sw_.packet(flow);
        std::uint64_t& newest = newest_[flow == 0 ? 0 : 1];
        // Mostly the next one; else one that was, now and then long ago.
        packet.seq(below(4) != 0 ? ++newest : std::max<std::uint64_t>(1, newest - std::min(newest, age())));
        add_body(packet, flow == 2 ? 1 : 0);
        packet.tos = static_cast<std::uint8_t>(below(256));
        packet.udp_checksum = static_cast<std::uint16_t>(random_());
        if (below(16) == 0) {
            spoil(packet);
        }
        if (below(20) == 0) {
            packet.trailer = Bytes(below(40), 0xee);
        }
        Bytes frame = packet.frame();
        if (below(16) == 0) {
            frame[below(static_cast<unsigned>(frame.size()))] ^= static_cast<std::uint8_t>(1U << below(8));
        }
        if (below(64) == 0) {
            frame.resize(
                std::max<std::size_t>(14, frame.size() - std::min<std::size_t>(frame.size(), below(100))));
        }
        return frame;
    }

    std::uint32_t draw_vlan() { return below(32) == 0 ? below(4096) : kVlan; }
    std::uint32_t below(unsigned n) { return static_cast<std::uint32_t>(random_() % n); }
    std::uint64_t age() { return below(8) == 0 ? below(600) : below(20); }

    void add_body(Packet& packet, std::uint32_t task) {
        const unsigned kind = below(12);
        if (kind < 2) {
            packet.type = kind == 0 ? ASK_LONG : ASK_FIN;
            packet.body = Bytes(kind == 0 ? std::size_t{8} * (1 + below(100)) : 0, 0x3c);
            return;
        }
        const TaskSpec& spec = sw_.task(task);
        packet.row_count(1 + below(spec.rows));
        const std::int32_t values[] = {1, -1, 0, 1 << 30, -(1 << 30), static_cast<std::int32_t>(random_())};
        for (unsigned row = 0; row < packet.bitmaps.size(); ++row) {
            const unsigned filled = below(4);
            for (unsigned slot = 0; slot < unsigned{spec.short_slots} + spec.groups; ++slot) {
                if (below(4) <= filled) {
                    const std::string key =
                        (slot < spec.short_slots ? "k" : "med") + std::to_string(below(40));
                    packet.put(row, slot, key, values[below(6)]);
                }
            }
        }
    }

    void spoil(Packet& packet) {
        switch (below(12)) {
            case 0:
                packet.version = 1;
                return;
            case 1:
                packet.type = static_cast<std::uint8_t>(below(8));
                return;
            case 2:
                packet.incarnation += 1;
                return;
            case 3:
                packet.task += 1;
                return;
            case 4:
                packet.m += 1;
                return;
            case 5:
                packet.mark_switch = 5;
                return;
            case 6:
                packet.seq_field = 0;
                return;
            case 7:
                packet.udp_length = static_cast<std::uint16_t>(below(2000));
                return;
            case 8:
                packet.ttl = static_cast<std::uint8_t>(below(3));
                return;
            case 9:
                packet.dest = host_number(below(2) == 0 ? kNowhere : kBehindSide);
                return;
            case 10:
                packet.host = kBehindSide;
                return;
            default:
                packet.source += 1;
                return;
        }
    }

    const Switch& sw_;
    std::mt19937_64 random_;
    const bool tags_;
    std::uint64_t newest_[2] = {0, 0};
};

void compare_memory(const Switch& real, const NativeSwitch& native) {
    const State state = real.state();
    CHECK((state.dedupe == NativeSwitch::memory("dedupe", state.dedupe.size())));
    CHECK((state.pkt_state == NativeSwitch::memory("pkt_state", state.pkt_state.size())));
    for (std::uint32_t task = 0; task < 2; ++task) {
        const std::vector<ask_aggregator> words = real.region(task);
        const std::span<const ask_aggregator> others = native.region(task);
        REQUIRE(words.size() == others.size());
        CHECK((words.empty() ||
               std::memcmp(words.data(), others.data(), words.size() * sizeof(words[0])) == 0));
    }
    std::vector<std::uint8_t> heats;
    for (const ask_heats& eight : native.heats(0)) {
        heats.insert(heats.end(), std::begin(eight.heat), std::end(eight.heat));
    }
    heats.resize(state.heats.size());
    CHECK((state.heats == heats));
    std::vector<std::uint64_t> carried(state.carried.size() / sizeof(std::uint64_t));
    if (!carried.empty()) {
        std::memcpy(carried.data(), state.carried.data(), state.carried.size());
    }
    std::vector<std::uint64_t> native_carried;
    for (std::uint32_t flow = 0; flow < 3; ++flow) {
        const auto words = native.carried(flow);
        native_carried.insert(native_carried.end(), words.begin(), words.end());
    }
    CHECK((carried == native_carried));
    for (std::uint32_t flow = 0; flow < 3; ++flow) {
        const ask_flow_stats one = real.stats(flow);
        const ask_flow_stats two = NativeSwitch::stats(flow);
        CHECK(std::memcmp(&one, &two, sizeof(one)) == 0);
    }
}

// What a run has counted since, alike in both.
class Counted {
 public:
    explicit Counted(const Switch& real)
        : real_(real), one_(real.counters()), two_(NativeSwitch::counters()), reached_(ASK_CNT_COUNT) {}

    void compare() {
        const std::vector<std::uint64_t> one = real_.counters();
        const std::vector<std::uint64_t> two = NativeSwitch::counters();
        for (std::uint32_t c = 0; c < ASK_CNT_COUNT; ++c) {
            if (one[c] - one_[c] != two[c] - two_[c]) {
                FAIL(counter_name(c), " grew by ", one[c] - one_[c], " and ", two[c] - two_[c]);
            }
            reached_[c] = reached_[c] || one[c] != one_[c];
        }
        one_ = one;
        two_ = two;
    }
    [[nodiscard]] auto reached() const { return std::count(reached_.begin(), reached_.end(), true); }

 private:
    const Switch& real_;
    std::vector<std::uint64_t> one_;
    std::vector<std::uint64_t> two_;
    std::vector<bool> reached_;
};

void compare(const Way& way, TaskSpec first, TaskSpec second, std::uint64_t seed, bool tags) {
    Switch& real = Switch::get(way);
    NativeSwitch native(way, network(), static_cast<std::uint32_t>(::sched_getcpu()), possible_cpu_count());
    std::optional<Vlan> vlan;
    if (tags) {
        vlan.emplace(real, network().in);
        native.add_vlan(kVlan);
    }
    if (is_six_run()) {
        native.add_six_hosts();
    }
    first.receiver = host_number(kReceiver);
    second.receiver = host_number(tags ? kBehindSide : kReceiver);
    fill(real, first, second, tags ? network().side : network().in);
    fill(native, first, second, tags ? network().side : network().in);
    PacketSource source(real, seed, tags);
    Counted counted(real);
    const unsigned packets = tags || is_six_run() ? kOtherPackets : kPackets;
    for (unsigned i = 0; i < packets; ++i) {
        const Bytes frame = source.next();
        const Switch::Outcome one = real.run_as_is(frame);
        const Switch::Outcome two = native.run(frame);
        INFO(to_string(way), ", seed ", seed, ", packet ", i, "\n", scapy(frame));
        REQUIRE(one.action == two.action);
        REQUIRE_MESSAGE((one.frame == two.frame), hex(one.frame), "\n", hex(two.frame));
        counted.compare();
        if (i % 100 == 0) {
            compare_memory(real, native);
        }
    }
    compare_memory(real, native);
    // The packets are worth comparing: most ways out were taken.
    CHECK(counted.reached() >= 18);
}

void compare_all(std::uint64_t seed, bool tags) {
    const TaskSpec geometries[][2] = {
        {{.instance = 11, .aggregators = 16, .copies = 2, .copy = 1},
         {.instance = 12,
          .short_slots = 0,
          .groups = 8,
          .m = 4,
          .rows = 8,
          .op = ASK_OP_MIN,
          .aggregators = 5}},
        {{.instance = 11,
          .short_slots = 32,
          .groups = 0,
          .m = 0,
          .rows = 4,
          .op = ASK_OP_MAX,
          .aggregators = 7},
         {.instance = 12, .short_slots = 3, .groups = 5, .m = 3, .rows = 8, .copies = 0}},
        {{.instance = 11, .aggregators = 5, .copies = 2, .copy = 1, .policy = ASK_POLICY_REPLACE},
         {.instance = 12, .short_slots = 3, .groups = 5, .m = 3, .rows = 8, .aggregators = 3}},
    };
    for (const Way& way : kWays) {
        for (const auto& specs : geometries) {
            ++seed;
            TaskSpec first = specs[0];
            first.sized = seed % 2 == 0;
            compare(way, first, specs[1], seed, tags);
        }
    }
}

}  // namespace

TEST_CASE("kernel and native build do the same to random packets") {
    compare_all(100, false);
}

TEST_CASE("and to random packets of which some have a tag") {
    compare_all(200, true);
}
