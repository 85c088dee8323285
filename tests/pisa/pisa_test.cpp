// SPDX-License-Identifier: Apache-2.0
//
// Whether the switch program stays one that a PISA switch could run (design section 5): register arrays in a
// fixed stage order, one access each per pass, four to a stage, 16 stages. The program is the real one,
// compiled natively with every access recorded; what it does otherwise must be in the list of docs/pisa.md.
#include <array>
#include <bit>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <utility>

#include <doctest/doctest.h>

#include "lib/abi/hosts.h"
#include "tests/bpf/switch/family.h"
#include "tests/pisa/native_harness.h"

using namespace ask;
using namespace ask::test;

namespace {

// As bpf/engine/compat.bpf.h numbers them.
enum Array : std::uint32_t { kDedupe, kMaxSeq, kCopy, kAa, kPktState, kHeat, kCarried, kBack };

constexpr Ports kPorts{.in = 11, .out = 12, .side = 13};
constexpr unsigned kStages = 16;
constexpr unsigned kArraysPerStage = 4;

// Stage of a register array for the default geometry: 16 short slots, 8 groups of 2, 4 rows. A group's second
// word is used only if the first was its key's, so it stands in a later stage.
unsigned stage_of(std::uint32_t array, std::uint32_t number) {
    switch (array) {
        case kMaxSeq:
            return 0;
        case kDedupe:
        case kCopy:
            return 1;
        case kAa:
            return number < 16 ? 2 + number / 4 : 6 + (number - 16 + 1) / 2;
        default:
            return 15;
    }
}

const char* array_name(std::uint32_t array) {
    constexpr const char* names[] = {"seen", "max_seq", "copy", "AA", "PktState row"};
    return names[array];
}

// One run's accesses, in their order.
struct Trace {
    std::vector<native_event> before;  // dedupe and copy index
    std::vector<native_event> aas;
    std::vector<std::uint32_t> looked_up;  // words of the region
    std::vector<native_event> after;       // PktState
    std::vector<native_event> heats;       // of tasks that replace, as is what follows
    std::vector<native_event> carried;
    std::vector<native_event> back;  // of tasks with a back level
};

Trace read_trace() {
    Trace trace;
    for (const native_event& event : NativeSwitch::events()) {
        if (event.kind == NATIVE_LOOKUP && event.array == kAa) {
            trace.looked_up.push_back(event.index);
        } else if (event.kind == NATIVE_TOUCH && event.array == kAa) {
            CHECK(trace.after.empty());
            CHECK(trace.back.empty());
            trace.aas.push_back(event);
        } else if (event.kind == NATIVE_TOUCH && event.array == kPktState) {
            trace.after.push_back(event);
        } else if (event.kind == NATIVE_TOUCH && event.array == kHeat) {
            trace.heats.push_back(event);
        } else if (event.kind == NATIVE_TOUCH && event.array == kCarried) {
            trace.carried.push_back(event);
        } else if (event.kind == NATIVE_TOUCH && event.array == kBack) {
            CHECK(trace.after.empty());
            CHECK(trace.carried.empty());
            trace.back.push_back(event);
        } else if (event.kind == NATIVE_TOUCH) {
            CHECK(trace.aas.empty());
            CHECK(trace.after.empty());
            trace.before.push_back(event);
        }
    }
    return trace;
}

using Names = std::vector<std::uint32_t>;

Names arrays_of(const std::vector<native_event>& events) {
    Names names;
    for (const native_event& event : events) {
        names.push_back(event.array);
    }
    return names;
}

// Takes one pass off the front of `aas`: for every slot that the bitmap has, in rising order, its AA, or
// those of its group up to the one that was another key's. Each at most once, therefore, and the next row
// starts where this ends.
std::vector<native_event> take_pass(const TaskSpec& spec, std::uint32_t bitmap,
                                    std::span<const native_event>& aas) {
    std::vector<native_event> pass;
    const auto take = [&] {
        pass.push_back(aas.front());
        aas = aas.subspan(1);
    };
    for (std::uint32_t slot = 0; slot < 32U; ++slot) {
        if ((bitmap >> slot & 1) == 0) {
            continue;
        }
        const bool is_short = slot < spec.short_slots;
        const std::uint32_t first = is_short ? slot : spec.short_slots + (slot - spec.short_slots) * spec.m;
        const std::uint32_t words = is_short ? 1 : spec.m;
        REQUIRE(!aas.empty());
        REQUIRE(aas.front().number == first);
        take();
        for (std::uint32_t word = 1; word < words && !aas.empty() && aas.front().number == first + word;
             ++word) {
            CHECK(aas.front().index == pass.back().index);
            // Used only if the word before was this key's: a later stage.
            CHECK(stage_of(kAa, first + word) > stage_of(kAa, first + word - 1));
            take();
        }
    }
    return pass;
}

void check_stages(const std::vector<native_event>& pass) {
    unsigned stage = stage_of(kCopy, 0) + 1;
    for (const native_event& event : pass) {
        CHECK(stage_of(kAa, event.number) >= stage);
        stage = stage_of(kAa, event.number);
    }
    CHECK(stage < stage_of(kPktState, 0));
}

// What was looked up is what was said to be touched.
void check_lookups(const TaskSpec& spec, const Trace& trace, std::uint32_t set) {
    REQUIRE(trace.looked_up.size() == trace.aas.size());
    for (std::size_t i = 0; i < trace.aas.size(); ++i) {
        const std::uint32_t aa = (set * spec.copies + spec.copy) * spec.aas() + trace.aas[i].number;
        CHECK(trace.looked_up[i] == aa * spec.aggregators + trace.aas[i].index);
    }
}

Packet random_packet(const NativeSwitch& sw, std::mt19937_64& random, std::uint64_t seq) {
    Packet packet = sw.packet().seq(seq);
    packet.row_count(1 + static_cast<unsigned>(random() % 4));
    for (unsigned row = 0; row < packet.bitmaps.size(); ++row) {
        for (unsigned slot = 0; slot < unsigned{packet.short_slots} + packet.groups; ++slot) {
            if (random() % 3 != 0) {
                const std::string key = (slot < 16 ? "s" : "medi") + std::to_string(random() % 50);
                packet.put(row, slot, key, static_cast<std::int32_t>(random()));
            }
        }
    }
    return packet;
}

using Accesses = std::vector<std::array<std::uint32_t, 4>>;
constexpr std::uint64_t kFormPackets = 200;

// Of packets that come in this form, each twice.
std::vector<Accesses> accesses_in(const Way& way, bool six, bool tags) {
    NativeSwitch sw(way, kPorts);
    const std::uint32_t family = six ? ASK_HOST_NUMBERS : 0;
    sw.add_six_hosts();
    sw.add_vlan(kVlan);
    sw.add_channel(0, {.host = kSender | family, .ifindex = tags ? kPorts.side : kPorts.in});
    sw.add_task(0, {.aggregators = 8, .receiver = kReceiver | family});
    sw.add_flow(0, 0, 0);
    std::mt19937_64 random(5);
    std::vector<Accesses> all;
    for (std::uint64_t seq = 1; seq <= kFormPackets; ++seq) {
        Bytes frame = random_packet(sw, random, seq).frame();
        frame = six ? in_six(std::move(frame)) : frame;
        frame = tags ? tagged(std::move(frame)) : frame;
        for (int time = 0; time < 2; ++time) {
            const std::uint32_t action = sw.run(frame).action;
            CHECK((action == XDP_TX || action == XDP_REDIRECT));
            Accesses& accesses = all.emplace_back();
            for (const native_event& event : NativeSwitch::events()) {
                accesses.push_back(
                    {static_cast<std::uint32_t>(event.kind), event.array, event.number, event.index});
            }
        }
    }
    return all;
}

// A rival CPU: changes the word before the first `tries` swaps of a run.
unsigned rival_tries = 0;
void interfere(__u64* at) {
    if (rival_tries > 0) {
        --rival_tries;
        *at += 1ULL << 32;  // its value half, or the upper half of a seq
    }
}

// Rivals at the first bucket of a back level, of which `rival_value` is an entry's value and `rival_claim`
// the word by which an entry is claimed.
const void* rival_value = nullptr;
const void* rival_claim = nullptr;
std::uint64_t claimed_by_rival = 0;
void add_to_entry(__u64* at) {
    if (at == rival_value && rival_tries > 0) {
        --rival_tries;
        *at += ASK_BACK_WORD(1) - ASK_BACK_WORD(0);
    }
}
void claim_first(__u64* at) {
    if (at == rival_claim && rival_tries > 0) {
        --rival_tries;
        *at |= claimed_by_rival;
    }
}

// A key of each group, none of whose words is padding.
std::string key_in(unsigned group) {
    return std::string(kBackKeyBytes[group], 'k');
}

// Index of an entry's value among a bucket's words, and of the word that claims it.
std::size_t value_place(unsigned group, std::size_t entry) {
    return group == ASK_BACK_8 ? ASK_BACK8_ENTRIES + entry : (entry + 1) * (ask_var_key_words(group) + 1);
}
std::size_t claim_place(unsigned group, std::size_t entry) {
    return group == ASK_BACK_8 ? entry : 0;
}

std::set<std::string> documented_deviations() {
    const char* source = std::getenv("ASK_SOURCE_DIR");
    REQUIRE_MESSAGE(source != nullptr, "ASK_SOURCE_DIR must name the source tree, as ctest does");
    std::ifstream file(std::string(source) + "/docs/pisa.md");
    REQUIRE(file.good());
    std::set<std::string> names;
    std::string line;
    while (std::getline(file, line)) {
        if (line.starts_with("* `")) {
            names.insert(line.substr(3, line.find('`', 3) - 3));
        }
    }
    return names;
}

}  // namespace

TEST_CASE("the default geometry's register arrays fit 16 stages of four") {
    std::map<unsigned, std::vector<std::string>> stages;
    const auto place = [&stages](std::uint32_t array, std::uint32_t number, bool numbered) {
        stages[stage_of(array, number)].push_back(std::string(array_name(array)) +
                                                  (numbered ? " " + std::to_string(number) : ""));
    };
    place(kMaxSeq, 0, false);
    place(kDedupe, 0, false);
    place(kCopy, 0, false);
    for (unsigned aa = 0; aa < 32; ++aa) {
        place(kAa, aa, true);
    }
    for (unsigned row = 0; row < 4; ++row) {
        place(kPktState, row, true);
    }
    std::ostringstream table;
    for (const auto& [stage, arrays] : stages) {
        CHECK(stage < kStages);
        CHECK(arrays.size() <= kArraysPerStage);
        table << "\n  stage " << stage << ":";
        for (const std::string& array : arrays) {
            table << "  " << array;
        }
    }
    MESSAGE(table.str());
}

TEST_CASE("new DATA touches dedupe, copy index, AAs and PktState in this order, each once a pass") {
    for (const Way& way : kWays) {
        INFO(to_string(way));
        NativeSwitch sw(way, kPorts, 1);
        sw.add_default({.aggregators = 16, .copies = 2, .copy = 1});
        std::mt19937_64 random(7);
        for (std::uint64_t seq = 1; seq <= 1500; ++seq) {
            const Packet packet = random_packet(sw, random, seq);
            sw.run(packet.frame());
            const Trace trace = read_trace();
            const Names expected =
                way.dedupe == ASK_DEDUPE_COMPACT ? Names{kMaxSeq, kDedupe, kCopy} : Names{kDedupe, kCopy};
            CHECK((arrays_of(trace.before) == expected));
            CHECK(trace.heats.empty());
            CHECK(trace.carried.empty());
            std::span<const native_event> rest = trace.aas;
            for (const std::uint32_t bitmap : packet.bitmaps) {
                check_stages(take_pass(sw.task(0), bitmap, rest));
            }
            CHECK(rest.empty());
            check_lookups(sw.task(0), trace, way.memory == ASK_MEMORY_SHARED ? 0 : 1);
            REQUIRE(trace.after.size() == packet.bitmaps.size());
            for (std::size_t row = 0; row < trace.after.size(); ++row) {
                CHECK(trace.after[row].number == row);
                CHECK(trace.after[row].index == seq % ASK_WINDOW);
            }
        }
    }
}

TEST_CASE("a task that replaces touches an AA again only where a tuple is evicted") {
    for (const Way& way : kWays) {
        INFO(to_string(way));
        NativeSwitch sw(way, kPorts, 1);
        // Short slots only: an AA each.
        sw.add_default(
            {.short_slots = 16, .groups = 0, .m = 0, .aggregators = 4, .policy = ASK_POLICY_REPLACE});
        std::mt19937_64 random(8);
        for (std::uint64_t seq = 1; seq <= 1500; ++seq) {
            const Packet packet = random_packet(sw, random, seq);
            const std::uint64_t evicted = NativeSwitch::stats().tuples_evicted;
            sw.run(packet.frame());
            const Trace trace = read_trace();
            std::size_t tuples = 0;
            for (const std::uint32_t bitmap : packet.bitmaps) {
                tuples += static_cast<std::size_t>(std::popcount(bitmap));
            }
            const std::size_t replaced = NativeSwitch::stats().tuples_evicted - evicted;
            CHECK(trace.aas.size() == tuples + replaced);
            CHECK(trace.heats.size() >= replaced);
            CHECK(trace.heats.size() <= tuples);
            CHECK(trace.carried.size() == packet.bitmaps.size());
        }
        CHECK(NativeSwitch::stats().tuples_evicted > 0);
    }
}

TEST_CASE(
    "a back level: at most three buckets a tuple, behind the AAs and ahead of PktState, and none twice") {
    for (const Way& way : kWays) {
        for (const std::uint8_t policy : {ASK_POLICY_FIRST_COME, ASK_POLICY_REPLACE}) {
            INFO(to_string(way));
            NativeSwitch sw(way, kPorts, 1);
            sw.add_default({.aggregators = 2, .policy = policy, .back = {4, 0, 0, 0}});
            std::mt19937_64 random(9);
            std::uint64_t offered = 0;
            for (std::uint64_t seq = 1; seq <= 500; ++seq) {
                const Packet packet = random_packet(sw, random, seq);
                const ask_flow_stats before = NativeSwitch::stats();
                sw.run(packet.frame());
                const std::size_t buckets = read_trace().back.size();
                const ask_flow_stats after = NativeSwitch::stats();
                // Of those that stay, an evicted one has a reason of its own.
                const std::uint64_t left = after.tuples_back_full - before.tuples_back_full +
                                           after.tuples_back_contention - before.tuples_back_contention +
                                           after.tuples_evicted - before.tuples_evicted;
                const std::uint64_t tuples = after.tuples_back - before.tuples_back + left;
                // A batch is looked up whole.
                CHECK(buckets <= ASK_BACK_CANDIDATES * (tuples + 7));
                CHECK(buckets >= tuples);
                offered += tuples;
                sw.run(packet.frame());
                CHECK(read_trace().back.empty());
            }
            CHECK(offered > 1000);
            CHECK(NativeSwitch::stats().tuples_back_full > 0);
        }
    }
}

TEST_CASE(
    "VAR: no AA, at most three buckets a record, ahead of PktState, and none for a packet seen before") {
    for (const Way& way : kWays) {
        INFO(to_string(way));
        NativeSwitch sw(way, kPorts, 1);
        sw.add_default({.aggregators = 2, .back = {4, 4, 4, 4}});
        std::mt19937_64 random(10);
        for (std::uint64_t seq = 1; seq <= 200; ++seq) {
            std::vector<Record> all;
            for (std::uint64_t i = 1 + random() % 60; i > 0; --i) {
                const std::string key = std::to_string(10 + random() % 12);
                all.push_back(
                    {std::string(random() % 63, 'k') + key, static_cast<std::int64_t>(random() % 99)});
            }
            const Packet packet = sw.packet().seq(seq).records(all);
            const ask_flow_stats before = NativeSwitch::stats();
            const Switch::Outcome first = sw.run(packet.frame());
            const Trace trace = read_trace();
            const ask_flow_stats after = NativeSwitch::stats();
            CHECK(trace.aas.empty());
            CHECK(trace.after.size() == packet.bitmaps.size());
            // A batch is looked up whole.
            CHECK(trace.back.size() >= all.size());
            CHECK(trace.back.size() <= ASK_BACK_CANDIDATES * all.size() + std::size_t{7} * ASK_BACK_GROUPS);
            CHECK(after.tuples_back - before.tuples_back + after.tuples_back_full - before.tuples_back_full ==
                  all.size());
            CHECK(after.tuples_back_contention == 0);
            const Switch::Outcome second = sw.run(packet.frame());
            CHECK(read_trace().back.empty());
            CHECK(first.action == second.action);
            CHECK((first.frame == second.frame));
        }
        CHECK(NativeSwitch::stats().tuples_back > 400);
        CHECK(NativeSwitch::stats().tuples_back_full > 0);
    }
}

TEST_CASE("seen DATA touches dedupe and PktState, LONG and FIN touch dedupe, refused packets nothing") {
    for (const Way& way : kWays) {
        INFO(to_string(way));
        NativeSwitch sw(way, kPorts);
        sw.add_default();
        const Names dedupe = way.dedupe == ASK_DEDUPE_COMPACT ? Names{kMaxSeq, kDedupe} : Names{kDedupe};
        Packet packet = sw.packet().row_count(3).put(0, 0, "k", 1).put(2, 16, "medium", 1);
        sw.run(packet.frame());
        sw.run(packet.frame());
        Trace trace = read_trace();
        CHECK((arrays_of(trace.before) == dedupe));
        CHECK(trace.aas.empty());
        CHECK((arrays_of(trace.after) == Names{kPktState, kPktState, kPktState}));
        packet = sw.packet().seq(2);
        for (const std::uint8_t type : {ASK_LONG, ASK_FIN}) {
            packet.type = type;
            packet.body = Bytes(type == ASK_LONG ? 16 : 8);
            sw.run(packet.frame());
            trace = read_trace();
            CHECK((arrays_of(trace.before) == dedupe));
            CHECK(trace.aas.empty());
            CHECK(trace.after.empty());
            packet.seq(3);
        }
        packet.check = 0;
        sw.run(packet.frame());
        CHECK(NativeSwitch::events().empty());
    }
}

TEST_CASE("with IPv6, a tag or both a packet makes the accesses that it makes without") {
    for (const Way& way : kWays) {
        INFO(to_string(way));
        const std::vector<Accesses> plain = accesses_in(way, false, false);
        REQUIRE(plain.size() > kFormPackets);
        for (const auto& [six, tags] : {std::pair(true, false), {false, true}, {true, true}}) {
            CAPTURE(six);
            CAPTURE(tags);
            CHECK((accesses_in(way, six, tags) == plain));
        }
    }
}

TEST_CASE("an aggregator that another CPU changes meanwhile: tried again, and left after 8 times") {
    NativeSwitch sw({ASK_MEMORY_SHARED, ASK_DEDUPE_COMPACT}, kPorts);
    sw.add_default({.aggregators = 1});
    CHECK(sw.run(sw.packet().seq(1).put(0, 0, "k", 100).frame()).action == XDP_TX);
    std::int32_t value = 100;
    // max_seq is raised first, so that the swaps below are all the aggregator's.
    CHECK(sw.run(sw.packet().seq(60).put(0, 1, "x", 1).frame()).action == XDP_TX);
    native_set_rival(interfere);
    for (unsigned tries = 0; tries <= ASK_CAS_TRIES; ++tries) {
        CAPTURE(tries);
        rival_tries = tries;
        const Packet packet = sw.packet().seq(2 + tries).put(0, 0, "k", 10);
        const Switch::Outcome outcome = sw.run(packet.frame());
        CHECK(rival_tries == 0);
        value += static_cast<std::int32_t>(tries);
        const Trace trace = read_trace();
        CHECK(trace.aas.size() == 1);
        if (tries < ASK_CAS_TRIES) {
            CHECK(outcome.action == XDP_TX);
            value += 10;
        } else {
            CHECK((outcome.frame ==
                   packet.left(kMarkSwitch, kMarkIncarnation, {1}).routed(kOutMac, kReceiverMac).frame()));
        }
        CHECK(sw.region(0)[0].vpart == value);
    }
    CHECK(NativeSwitch::stats().tuples_contention == 1);
    CHECK(NativeSwitch::stats().tuples_collision == 0);
}

TEST_CASE(
    "a value of the back level that another CPU changes meanwhile: tried again, then the record stays") {
    for (const std::uint8_t op : {ASK_OP_SUM, ASK_OP_MAX}) {
        for (unsigned group = 0; group < ASK_BACK_GROUPS; ++group) {
            CAPTURE(group);
            NativeSwitch sw({}, kPorts);
            sw.add_default({.op = op, .aggregators = 1, .back = {1, 1, 1, 1}});
            const auto send = [&](std::uint64_t seq, std::int64_t value) {
                const Packet packet = sw.packet().seq(seq).records({{key_in(group), value}});
                return std::pair(packet, sw.run(packet.frame()));
            };
            CHECK(send(1, 100).second.action == XDP_TX);
            const std::uint64_t& held = sw.back(group, 0)[value_place(group, 0)];
            CHECK(held == ASK_BACK_WORD(100));
            rival_value = &held;
            native_set_rival(add_to_entry);
            // A sum is tried once where it is held.
            const unsigned most = ASK_CAS_TRIES + (op == ASK_OP_SUM ? 1 : 0);
            std::int64_t value = 100;
            for (unsigned tries = 0; tries <= most; ++tries) {
                CAPTURE(tries);
                rival_tries = tries;
                const std::int64_t more = op == ASK_OP_SUM ? 10 : value + 1000;
                const auto [packet, outcome] = send(2 + tries, more);
                CHECK(rival_tries == 0);
                value += static_cast<std::int64_t>(tries);
                if (tries < most) {
                    CHECK(outcome.action == XDP_TX);
                    value = op == ASK_OP_SUM ? value + more : more;
                } else {
                    CHECK((outcome.frame == packet.left(kMarkSwitch, kMarkIncarnation, {1})
                                                .routed(kOutMac, kReceiverMac)
                                                .frame()));
                }
                CHECK(held == ASK_BACK_WORD(value));
            }
            CHECK(NativeSwitch::stats().tuples_back_contention == 1);
            CHECK(NativeSwitch::stats().tuples_back_full == 0);
            CHECK(NativeSwitch::stats().tuples_back == most + 1);
        }
    }
}

TEST_CASE("an entry of the back level that another CPU claims first: the record takes the next") {
    for (unsigned group = 0; group < ASK_BACK_GROUPS; ++group) {
        CAPTURE(group);
        NativeSwitch sw({}, kPorts);
        sw.add_default({.aggregators = 1, .back = {1, 1, 1, 1}});
        const std::span<const std::uint64_t> bucket = sw.back(group, 0);
        rival_claim = &bucket[claim_place(group, 0)];
        // A key, or a tag, that is not the record's.
        claimed_by_rival = 1;
        rival_tries = 1;
        native_set_rival(claim_first);
        CHECK(sw.run(sw.packet().seq(1).records({{key_in(group), 5}}).frame()).action == XDP_TX);
        CHECK(rival_tries == 0);
        CHECK(bucket[value_place(group, 0)] == 0);
        CHECK(bucket[value_place(group, 1)] == ASK_BACK_WORD(5));
        CHECK(NativeSwitch::stats().tuples_back_contention == 0);
    }
}

TEST_CASE("an entry of the back level that stays free while the others change: the record stays") {
    for (const unsigned group : {ASK_BACK_16, ASK_BACK_32, ASK_BACK_64}) {
        CAPTURE(group);
        NativeSwitch sw({}, kPorts);
        sw.add_default({.aggregators = 1, .back = {1, 1, 1, 1}});
        const std::span<const std::uint64_t> bucket = sw.back(group, 0);
        rival_claim = &bucket[0];
        claimed_by_rival = std::uint64_t{1} << ASK_BACK_TAG_BITS;
        rival_tries = 1;
        native_set_rival(claim_first);
        const Packet packet = sw.packet().seq(1).records({{key_in(group), 5}});
        CHECK((sw.run(packet.frame()).frame ==
               packet.left(kMarkSwitch, kMarkIncarnation, {1}).routed(kOutMac, kReceiverMac).frame()));
        CHECK(bucket[0] == claimed_by_rival);
        CHECK(bucket[value_place(group, 0)] == 0);
        CHECK(NativeSwitch::stats().tuples_back_contention == 1);
        CHECK(NativeSwitch::stats().tuples_back_full == 0);
    }
}

TEST_CASE("a window place that another CPU raises meanwhile makes the packet stale") {
    NativeSwitch sw({ASK_MEMORY_PIPELINES, ASK_DEDUPE_TAGGED}, kPorts);
    sw.add_default();
    rival_tries = 1;
    native_set_rival(interfere);
    CHECK(sw.run(sw.packet().put(0, 0, "k", 1).frame()).action == XDP_DROP);
    CHECK(NativeSwitch::counters()[ASK_CNT_drop_stale] == 1);
    for (const ask_aggregator& word : sw.region(0)) {
        REQUIRE(word.vpart == 0);
    }
}

TEST_CASE("a kernel that refuses to cut packets: dropped as an error") {
    NativeSwitch sw({}, kPorts);
    sw.refuse_resize();
    sw.add_default({.aggregators = 1});
    CHECK(sw.run(sw.packet().put(0, 0, "k", 1).frame()).action == XDP_ABORTED);
    CHECK(NativeSwitch::counters()[ASK_CNT_abort_resize] == 1);
    const Packet cut = sw.packet().seq(2).put(0, 0, "other", 1).put(1, 0, "k", 1);
    CHECK(sw.run(cut.frame()).action == XDP_ABORTED);
    CHECK(NativeSwitch::counters()[ASK_CNT_abort_resize] == 2);
}

TEST_CASE("every deviation is in the list, and the list names no other") {
    const std::set<std::string> known = {
        "cas-retry",     "keyed-check", "row-loop", "packet-rate",     "two-words-of-dedupe",
        "early-address", "scratch",     "sets",     "wide-arithmetic", "replacement",
        "gathered-rows", "back-level",  "one-form"};
    CHECK((documented_deviations() == known));
}
