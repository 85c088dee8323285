// SPDX-License-Identifier: Apache-2.0
//
// The seam between the switch's dispatcher and its services, proved by a second one (echo.h): the same
// sources with one service more in the list, real maps, real proofs, real dedupe. The tests of tuples that
// this program also has (data, forward, refuse) run on that object, beside it.
#include "tests/bpf/echo/echo.h"

#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <doctest/doctest.h>

#include "lib/base/unique_fd.h"
#include "tests/bpf/switch/harness.h"
#include "tests/support/netns.h"

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

struct Member {
    std::uint32_t ifindex;
    std::string host_interface;
    Mac port_mac;
    Mac mac;
    std::uint32_t address;
};

std::array<Member, 3> members() {
    return {{{network().in, "in_host", kInMac, kSenderMac, kSender},
             {network().out, "out_host", kOutMac, kReceiverMac, kReceiver},
             {network().side, "side_host", Mac{2, 0, 0, 0, 0, 3}, Mac{2, 0, 0, 0, 3, 2}, kBehindSide}}};
}

// All three ports are the fan's.
UniqueFd make_fan(const Switch& sw) {
    UniqueFd fan(bpf_map_create(BPF_MAP_TYPE_DEVMAP, "fan", sizeof(std::uint32_t), sizeof(bpf_devmap_val), 64,
                                nullptr));
    REQUIRE(fan);
    std::uint32_t place = 0;
    for (const Member& member : members()) {
        const bpf_devmap_val port = sw.device(member.ifindex);
        REQUIRE(bpf_map_update_elem(fan.get(), &place, &port, BPF_ANY) == 0);
        ++place;
        struct {
            Mac mac;
            Mac port_mac;
            __be32 address;
        } value{member.mac, member.port_mac, htonl(member.address)};
        static_assert(sizeof(value) == 16);
        REQUIRE(bpf_map_update_elem(sw.map("fan_members"), &member.ifindex, &value, BPF_ANY) == 0);
    }
    const int number = fan.get();
    REQUIRE(bpf_map_update_elem(sw.map("fans"), &kFan, &number, BPF_ANY) == 0);
    return fan;
}

}  // namespace

TEST_CASE("a second service's packets are absorbed, and every third is fanned out") {
    for (const Way& way : kWays) {
        Switch& sw = Switch::get(way);
        add_both(sw, 3);
        const UniqueFd fan = make_fan(sw);
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

namespace {

// The switch's program on all ports, native; and behind them one that lets everything pass, without which
// veth drops what it is sent by XDP.
class Attached {
 public:
    explicit Attached(int program) {
        const std::array<bpf_insn, 2> pass{
            {{.code = BPF_ALU64 | BPF_MOV | BPF_K,
              .dst_reg = BPF_REG_0,
              .src_reg = 0,
              .off = 0,
              .imm = XDP_PASS},
             {.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0}}};
        pass_ = UniqueFd(bpf_prog_load(BPF_PROG_TYPE_XDP, "pass", "GPL", pass.data(), pass.size(), nullptr));
        REQUIRE(pass_);
        for (const Member& member : members()) {
            attach(::if_nametoindex(member.host_interface.c_str()), pass_.get());
            attach(member.ifindex, program);
        }
    }
    ~Attached() {
        for (const std::uint32_t port : ports_) {
            (void)bpf_xdp_detach(static_cast<int>(port), XDP_FLAGS_DRV_MODE, nullptr);
        }
    }
    Attached(const Attached&) = delete;
    Attached& operator=(const Attached&) = delete;

 private:
    void attach(std::uint32_t port, int program) {
        REQUIRE(bpf_xdp_attach(static_cast<int>(port), program, XDP_FLAGS_DRV_MODE, nullptr) == 0);
        ports_.push_back(port);
    }

    UniqueFd pass_;
    std::vector<std::uint32_t> ports_;
};

// A host's end of its link: sends frames, and has those that came in.
class Host {
 public:
    explicit Host(const std::string& interface)
        : socket_(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_IP))) {
        REQUIRE(socket_);
        sockaddr_ll address{};
        address.sll_family = AF_PACKET;
        address.sll_protocol = htons(ETH_P_IP);
        address.sll_ifindex = static_cast<int>(::if_nametoindex(interface.c_str()));
        REQUIRE(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
        const int on = 1;
        REQUIRE(::setsockopt(socket_.get(), SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on)) == 0);
    }
    void send(const Bytes& frame) const {
        REQUIRE(::send(socket_.get(), frame.data(), frame.size(), 0) == static_cast<ssize_t>(frame.size()));
    }
    // The next frame; none within a while: empty.
    [[nodiscard]] Bytes receive(std::chrono::milliseconds patience) const {
        timeval limit{};
        limit.tv_sec = patience.count() / 1000;
        limit.tv_usec = patience.count() % 1000 * 1000;
        REQUIRE(::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0);
        Bytes frame(4096);
        const ssize_t size = ::recv(socket_.get(), frame.data(), frame.size(), 0);
        frame.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
        return frame;
    }

 private:
    UniqueFd socket_;
};

}  // namespace

TEST_CASE("over real links each member gets one copy, addressed to it, and tuples go where they went") {
    using namespace std::chrono_literals;
    Switch& sw = Switch::get({});
    add_both(sw, 3);
    const UniqueFd fan = make_fan(sw);
    const Attached attached(sw.program());
    std::vector<Host> hosts;
    for (const Member& member : members()) {
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
    for (const Member& member : members()) {
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
