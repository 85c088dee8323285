// SPDX-License-Identifier: Apache-2.0
//
// The seam between the switch's dispatcher and its services, proved by a second one (echo.h): the same
// sources with one service more in the list, real maps, real proofs, real dedupe. The tests of tuples that
// this program also has (data, forward, refuse) run on that object, beside it.
#include "tests/bpf/echo/echo.h"

#include <array>
#include <chrono>
#include <cstring>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <doctest/doctest.h>

#include "lib/base/unique_fd.h"
#include "tests/bpf/switch/fan.h"
#include "tests/bpf/switch/harness.h"

using namespace ask::test;
using ask::UniqueFd;

namespace {

constexpr std::uint32_t kFan = 5;
constexpr std::uint8_t kLineWords = 4;
constexpr std::uint32_t kTuples = 0;
constexpr std::uint32_t kEcho = 1;

ask_counter counter(echo_counter number) {
    return static_cast<ask_counter>(number);
}

// Channel 0 sends to both tasks.
void add_both(Switch& sw, std::uint32_t wanted) {
    sw.add_default();
    sw.add_task(kEcho, {.instance = 0x1112131415161718,
                        .short_slots = kLineWords,
                        .groups = 0,
                        .m = 0,
                        .rows = 0,
                        .op = 0,
                        .copies = 0,
                        .service = ECHO_SERVICE});
    sw.add_flow(kEcho, 0, kEcho);
    const echo_task echo{.wanted = wanted, .fan = kFan, .came = 0, .entered = 0};
    REQUIRE(bpf_map_update_elem(sw.map("echo_tasks"), &kEcho, &echo, BPF_ANY) == 0);
}

echo_task echo_of(const Switch& sw) {
    echo_task echo{};
    REQUIRE(bpf_map_lookup_elem(sw.map("echo_tasks"), &kEcho, &echo) == 0);
    return echo;
}

Packet echo_packet(const Switch& sw, std::uint64_t seq, unsigned lines = 2) {
    Packet packet = sw.packet(kEcho);
    packet.type = ECHO_TYPE;
    packet.bitmaps = {ECHO_WORD};
    packet.body = Bytes(std::size_t{lines} * kLineWords * 8);
    for (std::size_t i = 0; i < packet.body.size(); ++i) {
        packet.body[i] = static_cast<std::uint8_t>(seq + i);
    }
    return packet.seq(seq);
}

// The frame as it waits for its copies to be addressed.
Bytes unaddressed(const Packet& packet) {
    Bytes out = packet.frame();
    std::fill_n(out.begin(), 6, std::uint8_t{0});
    constexpr std::size_t ttl = 14 + 8;
    --out[ttl];
    return out;
}

}  // namespace

TEST_CASE("a second service's packets are absorbed, and every third is fanned out") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        add_both(sw, 3);
        const UniqueFd fan = make_fan(sw, kFan);
        for (std::uint64_t seq = 1; seq <= 6; ++seq) {
            const Packet packet = echo_packet(sw, seq);
            if (seq % 3 != 0) {
                sw.expect("absorbed", packet, XDP_DROP, counter(ECHO_CNT_absorbed));
            } else {
                sw.expect("fanned out", packet.frame(), XDP_REDIRECT, counter(ECHO_CNT_fanned_out),
                          unaddressed(packet));
            }
            CHECK(echo_of(sw).came == seq);
        }
    }
}

TEST_CASE("a replayed packet comes to its service as one that is not new, a stale one not at all") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        add_both(sw, 100);
        sw.expect("new", echo_packet(sw, 1), XDP_DROP, counter(ECHO_CNT_absorbed));
        sw.expect("seen", echo_packet(sw, 1), XDP_DROP, counter(ECHO_CNT_absorbed_seen));
        sw.expect("far ahead", echo_packet(sw, 1 + ASK_WINDOW), XDP_DROP, counter(ECHO_CNT_absorbed));
        const std::uint32_t entered = echo_of(sw).entered;
        sw.expect("stale", echo_packet(sw, 1), XDP_DROP, ASK_CNT_drop_stale);
        CHECK(echo_of(sw).came == 2);
        CHECK(echo_of(sw).entered == entered);
    }
}

TEST_CASE("what is not proved never comes to the second service, and changes nothing") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        add_both(sw, 100);
        const auto packet = [&sw] { return echo_packet(sw, 1); };
        // Every one of them is left out by the check of everything behind the header, too.
        sw.expect_drop("bad check", packet().with([](Packet& p) { p.check = 1; }), ASK_CNT_bad_check);
        for (const unsigned lines : {1U, 8U, 9U, 16U}) {
            Bytes frame = echo_packet(sw, 1, lines).frame();
            frame.back() ^= 1;
            sw.expect("its last byte changed", frame, XDP_DROP, ASK_CNT_bad_check, frame);
            frame = echo_packet(sw, 1, lines).frame();
            frame[14 + 20 + 8 + 48] ^= 1;
            sw.expect("its extension word changed", frame, XDP_DROP, ASK_CNT_bad_check, frame);
        }
        sw.expect_drop("more lines than there are keys", echo_packet(sw, 1, ASK_MAX_CHECK_LINES + 1),
                       ASK_CNT_bad_length);
        sw.expect_drop("half a word", packet().with([](Packet& p) { p.body.resize(4); }), ASK_CNT_bad_length);
        sw.expect_drop("no extension word", packet().with([](Packet& p) { p.bitmaps.clear(); }),
                       ASK_CNT_bad_length);
        sw.expect_drop("wrong geometry", packet().with([](Packet& p) { p.short_slots = 8; }),
                       ASK_CNT_bad_geometry);
        sw.expect_drop("wrong operator", packet().with([](Packet& p) { p.op = ASK_OP_SUM; }),
                       ASK_CNT_bad_geometry);
        sw.expect_drop("an extension word of another meaning",
                       packet().with([](Packet& p) { p.bitmaps = {ECHO_WORD + 1}; }), ASK_CNT_bad_geometry);
        sw.expect_drop("a type of the other service", packet().with([](Packet& p) { p.type = ASK_DATA; }),
                       ASK_CNT_bad_type);
        sw.expect_drop("marked", packet().with([](Packet& p) { p.mark_switch = 1; }), ASK_CNT_bad_mark);
        sw.expect_drop("seq 0", echo_packet(sw, 0), ASK_CNT_bad_seq);
        sw.expect_drop("another channel's port", packet(), ASK_CNT_bad_port, network().out);
        sw.expect_drop("another incarnation", packet().with([](Packet& p) { ++p.incarnation; }),
                       ASK_CNT_bad_incarnation);
        CHECK(echo_of(sw).entered == 0);
        sw.expect("as it should be", packet(), XDP_DROP, counter(ECHO_CNT_absorbed));
    }
}

TEST_CASE("bodies of any length that there are keys for are proved, whichever sums are kept") {
    Switch& sw = Switch::get({});
    add_both(sw, 100);
    for (unsigned lines = 0; lines <= ASK_MAX_CHECK_LINES; ++lines) {
        sw.expect("absorbed", echo_packet(sw, lines + 1, lines), XDP_DROP, counter(ECHO_CNT_absorbed));
    }
    Packet ragged = echo_packet(sw, 100, 9);
    ragged.body.resize(ragged.body.size() - 8);
    sw.expect("a last line that is shorter", ragged, XDP_DROP, counter(ECHO_CNT_absorbed));
}

TEST_CASE("two services on one channel share its window and nothing else") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        add_both(sw, 100);
        sw.expect_ack("tuples", sw.packet(kTuples).seq(1).put(0, 0, "a", 1), ASK_CNT_ack_new);
        sw.expect("echo", echo_packet(sw, 2), XDP_DROP, counter(ECHO_CNT_absorbed));
        sw.expect("echo with the tuples' seq", echo_packet(sw, 1), XDP_DROP, counter(ECHO_CNT_absorbed_seen));
        sw.expect_ack("tuples", sw.packet(kTuples).seq(3).put(0, 0, "a", 2), ASK_CNT_ack_new);
        sw.expect_region(kTuples, {{.slot = 0, .key = "a", .value = 3}});
        sw.expect_drop("echo's type for the tuples' task",
                       sw.packet(kTuples).seq(4).with([](Packet& p) { p.type = ECHO_TYPE; }),
                       ASK_CNT_bad_type);
        CHECK(echo_of(sw).came == 1);
    }
}

TEST_CASE("FIN is the engine's, whatever the service") {
    Switch& sw = Switch::get({});
    add_both(sw, 100);
    Packet fin = sw.packet(kEcho).seq(1);
    fin.type = ASK_FIN;
    sw.expect_routed("new", fin, ASK_CNT_fin_new);
    sw.expect_routed("seen", fin, ASK_CNT_fin_seen);
    CHECK(echo_of(sw).entered == 0);
}

TEST_CASE("a task of a service or of a program that is not there") {
    Switch& sw = Switch::get({});
    add_both(sw, 100);
    TaskSpec spec = sw.task(kEcho);
    spec.service = ECHO_SERVICE + 1;
    sw.set_task(kEcho, spec);
    const State before = sw.state();
    sw.expect("no such service", echo_packet(sw, 1), XDP_ABORTED, ASK_CNT_abort_state);
    CHECK((sw.state() == before));
    spec.service = ECHO_SERVICE;
    spec.sized = true;
    sw.set_task(kEcho, spec);
    sw.expect("no such program", echo_packet(sw, 1), XDP_ABORTED, ASK_CNT_abort_state);
    CHECK(echo_of(sw).entered == 0);
}

TEST_CASE("over real links each member gets one copy, addressed to it, and tuples go where they went") {
    using namespace std::chrono_literals;
    Switch& sw = Switch::get({});
    add_both(sw, 3);
    const UniqueFd fan = make_fan(sw, kFan);
    const Attached attached(sw.program());
    std::vector<Host> hosts;
    for (const FanMember& member : members()) {
        hosts.emplace_back(member.host_interface);
    }
    const Host& sender = hosts[0];
    // In one burst, so that what is only forwarded and what is copied may leave a port in one turn.
    Packet fin = sw.packet(kTuples).seq(4);
    fin.type = ASK_FIN;
    for (std::uint64_t seq = 1; seq <= 3; ++seq) {
        sender.send(echo_packet(sw, seq).frame());
    }
    sender.send(fin.frame());
    Packet copy = echo_packet(sw, 3);
    std::size_t at = 0;
    for (const FanMember& member : members()) {
        CAPTURE(member.host_interface);
        Packet expected = copy.routed(member.port_mac, member.mac);
        expected.dest = member.address;
        const Bytes got = hosts[at].receive(5s);
        CHECK(hex(got) == hex(expected.frame()));
        ++at;
    }
    CHECK(hex(hosts[1].receive(5s)) == hex(fin.routed(kOutMac, kReceiverMac).frame()));
    for (const Host& host : hosts) {
        CHECK(host.receive(50ms).empty());
    }
    CHECK(echo_of(sw).came == 3);
}
