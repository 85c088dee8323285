// SPDX-License-Identifier: Apache-2.0
#include "lib/engine/sender_channel.h"

#include <algorithm>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/bytes.h"
#include "tests/support/tuple_channel.h"

namespace ask {
namespace {

constexpr ChannelId kSending{.host = 0xc6120001, .port = 49200};
constexpr Mark kSwitch{.switch_id = 3, .incarnation = 33};

// A channel, its clock, and what it sent.
struct SenderFixture {
    explicit SenderFixture(SenderConfig with = {}) : config(with), channel(kSending, 77, with) {
        params.instance = 5;
        params.channel = kSending;
        params.incarnation = 77;
        params.secret = {11, 12};
        params.mark = kSwitch;
        // A packet for every tuple: a slot a row, a row a packet.
        params.geometry = {.short_slots = 1, .groups = 0, .m = 0, .rows = 1};
        params.first_seq = 1;
    }
    // Starts the task and offers `packets` tuples, each of which makes a packet.
    void start(int packets) {
        REQUIRE(channel.begin(params, 1 << 16, now).ok());
        for (int i = 0; i < packets; ++i) {
            REQUIRE(channel.has_room());
            channel.offer("k", i);
        }
        channel.finish();
    }
    // Sends all that is due now; returns the seqs.
    std::vector<std::uint64_t> send_due() {
        std::vector<std::uint64_t> seqs;
        std::vector<std::byte> buffer(config.payload_limit);
        while (const std::size_t bytes = channel.next_packet(now, buffer)) {
            const auto view = parse_packet(std::span(buffer).first(bytes));
            REQUIRE(view);
            CHECK(CheckKey(params.secret).verify(view->payload, channel.ports()));
            last = view->header;
            last_body.assign(view->body.begin(), view->body.end());
            seqs.push_back(view->header.seq);
            REQUIRE(seqs.size() < 2000);
        }
        return seqs;
    }
    std::vector<std::byte> ack_of(std::uint64_t seq, Mark mark = {}, bool ecn = false) const {
        Header header;
        header.type = ASK_DATA;
        header.format = format_of(params.geometry, params.op);
        header.instance = params.instance;
        header.channel = kSending;
        header.incarnation = params.incarnation;
        header.seq = seq;
        std::vector<std::byte> bytes(sizeof(ask_hdr));
        write_ack(bytes, header, {.source = kSending.port, .dest = ASK_UDP_PORT}, mark, ecn,
                  CheckKey(params.secret));
        return bytes;
    }
    void ack(std::uint64_t seq, Mark mark = {}, bool ecn = false) {
        channel.on_packet(now, ack_of(seq, mark, ecn), kBack);
    }

    static constexpr Ports kBack{.source = ASK_UDP_PORT, .dest = kSending.port};
    SenderConfig config;
    FlowParams params;
    test::TupleChannel channel;
    Nanos now = kSecond;
    Header last;
    std::vector<std::byte> last_body;
};

SenderConfig plain_config() {
    SenderConfig config;
    config.rto_initial = 10 * kMillisecond;
    config.rto_floor = 1 * kMillisecond;
    config.rto_ceiling = 100 * kMillisecond;
    return config;
}

TEST_CASE("the congestion window opens by one packet an ACK, up to W") {
    SenderFixture f(plain_config());
    f.start(1000);
    CHECK(f.send_due().size() == 32);
    CHECK(f.channel.in_flight() == 32);
    for (std::uint64_t seq = 1; seq <= 32; ++seq) {
        f.now += kMicrosecond;
        f.ack(seq);
    }
    CHECK(f.send_due().size() == 64);
    for (std::uint64_t seq = 33; seq <= 600; ++seq) {
        f.ack(seq);
        f.send_due();
    }
    CHECK(f.channel.window() == 256);
    CHECK(f.channel.in_flight() == 256);
}

TEST_CASE("no seq leaves the window of the oldest that is not acknowledged") {
    SenderFixture f(plain_config());
    f.start(2000);
    std::uint64_t most = 0;
    std::uint64_t acked = 1;
    for (int round = 0; round < 50; ++round) {
        for (const std::uint64_t seq : f.send_due()) {
            most = std::max(most, seq);
        }
        for (; acked < most; ++acked) {
            f.ack(acked + 1);  // never seq 1
        }
    }
    CHECK(most == 256);
    CHECK(f.channel.in_flight() == 1);
    f.ack(1);
    const auto next = f.send_due();
    REQUIRE_FALSE(next.empty());
    CHECK(next.front() == 257);
}

TEST_CASE("a smaller window than W holds as well") {
    SenderConfig config = plain_config();
    config.window = 10;
    SenderFixture f(config);
    f.start(100);
    CHECK(f.send_due().size() == 10);
    f.ack(2);
    CHECK(f.send_due().empty());
    f.ack(1);
    CHECK(f.send_due() == std::vector<std::uint64_t>{11, 12});
}

TEST_CASE("only a timeout sends again, in the order of the last sending") {
    SenderFixture f(plain_config());
    f.start(20);
    CHECK(f.send_due().size() == 20);
    for (std::uint64_t seq = 3; seq <= 20; ++seq) {
        f.ack(seq);
    }
    // Eighteen later ones are acknowledged: no reason to send 1 and 2 again.
    CHECK(f.send_due().empty());
    CHECK(f.channel.deadline() > f.now);
    f.now = f.channel.deadline() - 1;
    CHECK(f.send_due().empty());
    ++f.now;
    CHECK(f.send_due() == std::vector<std::uint64_t>{1, 2});
    CHECK(f.channel.stats().retransmissions == 2);
    f.ack(1);
    f.ack(2);
    CHECK(f.send_due() == std::vector<std::uint64_t>{21});
    CHECK(f.last.type == ASK_FIN);
    CHECK(load_be<std::uint64_t>(f.last_body.data()) == 20);
}

TEST_CASE("the timeout follows RFC 6298, and repeats give no sample") {
    SenderFixture f(plain_config());
    f.start(40);
    f.send_due();
    f.now += 4 * kMillisecond;
    f.ack(1);
    CHECK(f.channel.srtt() == 4 * kMillisecond);
    f.send_due();  // at srtt + 4 x srtt/2 = 12 ms of timeout
    f.now += 4 * kMillisecond;
    f.ack(2);
    // 8 ms: variation 2 + (4-2)/4 = 2.5, srtt 4.5, timeout 14.5 ms; but what left first left under the
    // initial 10 ms.
    CHECK(f.channel.srtt() == 4500 * kMicrosecond);
    f.send_due();
    CHECK(f.channel.deadline() == f.now + 2 * kMillisecond);
    f.now = f.channel.deadline();
    CHECK(f.send_due().front() == 3);
    f.now += 50 * kMicrosecond;
    f.ack(3);  // sent twice
    CHECK(f.channel.srtt() == 4500 * kMicrosecond);
}

// The only time noted since `times` was cleared lies in the bucket that ends at the returned time.
Nanos only_time(const AckTimes& times) {
    Nanos end = 0;
    std::uint64_t all = 0;
    for (std::uint32_t i = 0; i < AckTimes::kBuckets; ++i) {
        all += times.count(i);
        end = times.count(i) > 0 ? AckTimes::end_of(i) : end;
    }
    CHECK(all == 1);
    return end;
}

TEST_CASE("a time to an ACK is known to an eighth, from nothing to minutes") {
    AckTimes times;
    for (Nanos time = 0; time < 500 * kSecond; time += time / 100 + 37) {
        times.clear();
        times.add(time);
        const Nanos end = only_time(times);
        REQUIRE(time < end);
        REQUIRE(end - time <= std::max<Nanos>(128, end / 9));
    }
    times.clear();
    times.add(kNever);
    times.add(-1);
    CHECK(times.count(0) == 1);
    CHECK(times.count(AckTimes::kBuckets - 1) == 1);
}

TEST_CASE("times to ACKs count from when a packet first left, a task's only") {
    SenderFixture f(plain_config());
    f.start(1);
    f.send_due();
    f.now = f.channel.deadline();
    CHECK(f.send_due() == std::vector<std::uint64_t>{1});
    f.now += kMillisecond;
    f.ack(1);
    f.ack(1);  // counts once
    const Nanos end = only_time(f.channel.ack_times());
    CHECK(end > 11 * kMillisecond);
    CHECK(end < 13 * kMillisecond);
    f.send_due();
    f.ack(2);  // the FIN, at once
    CHECK(f.channel.ack_times().count(0) == 1);
    REQUIRE(f.channel.fin_acked());
    (void)f.channel.end();
    CHECK(f.channel.ack_times().count(0) == 1);
    f.params.first_seq = f.channel.next_seq();
    f.start(1);
    CHECK(f.channel.ack_times().count(0) == 0);
}

TEST_CASE("timeouts back off to the ceiling and an ACK ends that") {
    SenderFixture f(plain_config());
    f.start(1);
    CHECK(f.send_due().size() == 1);
    Nanos expected = 10 * kMillisecond;
    for (int i = 0; i < 8; ++i) {
        CHECK(f.channel.deadline() - f.now == expected);
        f.now = f.channel.deadline();
        CHECK(f.send_due() == std::vector<std::uint64_t>{1});
        expected = std::min(2 * expected, 100 * kMillisecond);
    }
    f.ack(1);
    CHECK(f.send_due() == std::vector<std::uint64_t>{2});  // FIN
    CHECK(f.channel.deadline() - f.now == 10 * kMillisecond);
    f.now += 100 * kMicrosecond;
    f.ack(2);
    CHECK(f.channel.fin_acked());
    CHECK(f.channel.deadline() == kNever);
}

// The switch takes what is in DATA and VAR; for LONG and FIN it never answers.
TEST_CASE("a switch answers what it aggregates, VAR too, and nothing else") {
    SenderFixture f(plain_config());
    f.params.whole_keys = true;
    REQUIRE(f.channel.begin(f.params, 1 << 16, f.now).ok());
    f.channel.offer("k", 1);
    f.channel.offer("a key that no slot takes", 1);
    f.channel.offer(std::string(2, '\0'), 1);
    f.channel.finish();
    CHECK(f.send_due() == std::vector<std::uint64_t>{1, 2, 3});
    const ChannelStats& stats = f.channel.SenderChannel::stats();
    CHECK(stats.packets_data == 1);
    CHECK(stats.packets_var == 1);
    CHECK(stats.packets_long == 1);
    for (const std::uint64_t seq : {1U, 2U, 3U}) {
        f.ack(seq, kSwitch);
    }
    CHECK(stats.packets_acked_by_switch == 2);
    CHECK(stats.acks_bad == 1);
    CHECK(f.channel.in_flight() == 1);
    f.ack(2);
    CHECK(f.send_due() == std::vector<std::uint64_t>{4});
    f.ack(4, kSwitch);
    CHECK(stats.acks_bad == 2);
    f.ack(4);
    CHECK(f.channel.fin_acked());
    CHECK(f.channel.stats().packer.tuples_var == 1);
}

// A network that answers every packet that it does not lose after `delay`: runs the task to its FIN. Returns
// how many retransmissions there were when each packet was first acknowledged.
std::vector<std::uint64_t> run_through(SenderFixture& f, Nanos delay, double loss, std::uint32_t seed) {
    std::mt19937 random(seed);
    std::bernoulli_distribution lost(loss);
    std::deque<std::pair<Nanos, std::uint64_t>> acks;
    std::vector<std::uint64_t> retransmissions;
    while (!f.channel.fin_acked()) {
        for (const std::uint64_t seq : f.send_due()) {
            if (!lost(random)) {
                acks.emplace_back(f.now + delay, seq);
            }
        }
        const Nanos next = acks.empty() ? kNever : acks.front().first;
        f.now = std::min(next, f.channel.deadline());
        REQUIRE(f.now < kNever);
        if (next <= f.now) {
            const std::uint32_t before = f.channel.in_flight();
            f.ack(acks.front().second);
            acks.pop_front();
            if (f.channel.in_flight() < before) {
                retransmissions.push_back(f.channel.stats().retransmissions);
            }
        }
    }
    return retransmissions;
}

// With 30 % lost on each of two or four links, there and back, every second or three of four transmissions
// fail, and hardly any RTT can be measured.
TEST_CASE("loss by chance does not bring a channel to a halt") {
    struct Case {
        double loss;
        Nanos most;  // for a packet, on average
    };
    for (const Case& each : {Case{0.51, 20 * kMillisecond}, Case{0.76, 120 * kMillisecond}}) {
        for (std::uint32_t seed = 1; seed <= 5; ++seed) {
            CAPTURE(each.loss);
            CAPTURE(seed);
            SenderFixture f;
            const Nanos began = f.now;
            f.start(400);
            run_through(f, 50 * kMicrosecond, each.loss, seed);
            CHECK(f.now - began < 400 * each.most);
        }
    }
}

// What is sent again before its answer can be here gives no sample; the second ACK tells that it was too
// early.
TEST_CASE("a path that takes longer than the timeout is learnt") {
    SenderConfig config = plain_config();
    config.rto_initial = config.rto_floor;
    for (const Nanos delay : {2 * kMillisecond, 15 * kMillisecond, 60 * kMillisecond}) {
        CAPTURE(delay);
        SenderFixture f(config);
        f.start(2000);
        const auto retransmissions = run_through(f, delay, 0, 1);
        REQUIRE(retransmissions.size() > 1500);
        CHECK(retransmissions[1000] > 0);
        CHECK(retransmissions.back() == retransmissions[1000]);
    }
}

TEST_CASE("the floor holds where the network is fast") {
    SenderFixture f(plain_config());
    f.start(400);
    for (std::uint64_t acked = 1; acked <= 300; ++acked) {
        f.send_due();
        f.now += 1;
        f.ack(acked);
    }
    const Nanos sent = f.now;
    f.send_due();
    for (std::uint64_t seq = 301; seq < f.channel.next_seq() - 1; ++seq) {
        f.ack(seq);
    }
    CHECK(f.channel.deadline() <= sent + 1 * kMillisecond);
    CHECK(f.channel.deadline() >= sent + 1 * kMillisecond - 300);
}

TEST_CASE("a lost flight halves the window once") {
    SenderFixture f(plain_config());
    f.start(500);
    CHECK(f.send_due().size() == 32);
    f.now = f.channel.deadline();
    CHECK(f.send_due().size() == 16);  // half the window, and the others wait their turn
    CHECK(f.channel.window() == 16);
    CHECK(f.channel.in_flight() == 32);
    // Those first sent before the halving do not halve it again.
    for (std::uint64_t seq = 1; seq <= 8; ++seq) {
        f.ack(seq);
    }
    f.send_due();
    CHECK(f.channel.window() > 16);
    CHECK(f.channel.window() < 17);
    // A whole window lost again after that does.
    f.now = f.channel.deadline();
    f.send_due();
    CHECK(f.channel.window() < 9);
    for (int i = 0; i < 20; ++i) {
        f.now = f.channel.deadline();
        CHECK(f.send_due().size() <= 8);
    }
    CHECK(f.channel.window() == 1);
}

TEST_CASE("ECN echoes halve the window once a flight") {
    SenderFixture f(plain_config());
    f.start(500);
    f.send_due();
    for (std::uint64_t seq = 1; seq <= 16; ++seq) {
        f.ack(seq, {}, true);
    }
    CHECK(f.channel.window() == 16);
    CHECK(f.channel.stats().ecn_echoes == 16);
    for (std::uint64_t seq = 17; seq <= 32; ++seq) {
        f.ack(seq);
    }
    const auto flight = f.send_due();
    REQUIRE_FALSE(flight.empty());
    f.ack(flight.front(), {}, true);
    CHECK(f.channel.window() < 9);
}

TEST_CASE("an ACK counts only if everything about it fits") {
    SenderFixture f(plain_config());
    f.start(3);
    CHECK(f.send_due().size() == 3);
    const auto good = f.ack_of(2);
    const auto bad = [&](const std::vector<std::byte>& bytes, Ports ports = SenderFixture::kBack) {
        const SenderStats before = f.channel.stats();
        f.channel.on_packet(f.now, bytes, ports);
        const SenderStats& after = f.channel.stats();
        CHECK(f.channel.in_flight() == 3);
        CHECK(after.acks_bad + after.acks_ignored == before.acks_bad + before.acks_ignored + 1);
        CHECK(after.packets_acked_by_receiver == 0);
        CHECK(after.packets_acked_by_switch == 0);
    };
    for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
        auto changed = good;
        changed[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
        bad(changed);
    }
    bad(good, {.source = kSending.port, .dest = ASK_UDP_PORT});
    bad(good, {.source = ASK_UDP_PORT, .dest = kSending.port + 1});
    bad({});
    bad(f.ack_of(0));
    bad(f.ack_of(4));
    bad(f.ack_of(258));  // the place of seq 2
    bad(f.ack_of(2, {.switch_id = 4, .incarnation = 33}));
    bad(f.ack_of(2, {.switch_id = 3, .incarnation = 34}));
    SenderFixture other(plain_config());
    other.params.secret = {11, 13};
    bad(other.ack_of(2));
    other.params = f.params;
    other.params.instance = 6;
    bad(other.ack_of(2));
    other.params = f.params;
    other.params.incarnation = 78;
    bad(other.ack_of(2));
    f.ack(2, kSwitch);
    CHECK(f.channel.in_flight() == 2);
    CHECK(f.channel.stats().packets_acked_by_switch == 1);
    f.ack(2);
    CHECK(f.channel.in_flight() == 2);
    CHECK(f.channel.stats().packets_acked_by_receiver == 0);
}

TEST_CASE("random bytes change nothing but a counter") {
    SenderFixture f(plain_config());
    f.start(3);
    f.send_due();
    const Nanos deadline = f.channel.deadline();
    std::mt19937_64 random(4);
    for (int i = 0; i < 5'000; ++i) {
        auto bytes = f.ack_of(1 + random() % 3, kSwitch);
        for (std::uint64_t change = 0; change <= random() % 4; ++change) {
            bytes[random() % bytes.size()] ^= static_cast<std::byte>(1 + random() % 255);
        }
        bytes.resize(random() % 3 == 0 ? random() % 200 : bytes.size());
        if (bytes == f.ack_of(1, kSwitch) || bytes == f.ack_of(2, kSwitch) || bytes == f.ack_of(3, kSwitch)) {
            continue;  // changed back by chance
        }
        f.channel.on_packet(f.now, bytes, SenderFixture::kBack);
    }
    CHECK(f.channel.in_flight() == 3);
    CHECK(f.channel.deadline() == deadline);
    CHECK(f.channel.window() == 32);
}

TEST_CASE("FIN follows when all else is acknowledged, and only the receiver may answer it") {
    SenderFixture f(plain_config());
    f.start(3);
    f.send_due();
    f.ack(3);
    f.ack(1);
    CHECK(f.send_due().empty());
    f.ack(2);
    CHECK(f.send_due() == std::vector<std::uint64_t>{4});
    CHECK(f.last.type == ASK_FIN);
    CHECK(f.last.mark == Mark{});
    f.ack(4, kSwitch);
    CHECK_FALSE(f.channel.fin_acked());
    f.now = f.channel.deadline();
    CHECK(f.send_due() == std::vector<std::uint64_t>{4});
    f.ack(4);
    CHECK(f.channel.fin_acked());
    CHECK_FALSE(f.channel.idle());
    const SenderStats stats = f.channel.end();
    CHECK(stats.packets_sent == 4);
    CHECK(stats.packets_data == 3);
    CHECK(stats.retransmissions == 1);
    CHECK(f.channel.idle());
    CHECK(f.channel.next_seq() == 5);
}

TEST_CASE("tasks follow each other on one sequence; an abandoned one starts another") {
    SenderFixture f(plain_config());
    f.start(2);
    f.send_due();
    f.ack(1);
    f.ack(2);
    f.send_due();
    f.ack(3);
    f.channel.end();
    f.params.instance = 6;
    f.params.first_seq = 1;
    CHECK_FALSE(f.channel.begin(f.params, 0, f.now).ok());
    f.params.first_seq = f.channel.next_seq();
    f.start(2);
    CHECK_FALSE(f.channel.begin(f.params, 0, f.now).ok());
    CHECK(f.send_due() == std::vector<std::uint64_t>{4, 5});
    f.channel.abandon(78);
    CHECK(f.channel.idle());
    CHECK(f.channel.in_flight() == 0);
    CHECK(f.channel.next_seq() == 1);
    CHECK(f.channel.incarnation() == 78);
    CHECK(f.channel.deadline() == kNever);
    const auto late = f.ack_of(4);
    f.params.instance = 7;
    f.params.incarnation = 78;
    f.params.first_seq = 1;
    f.start(1);
    CHECK(f.send_due() == std::vector<std::uint64_t>{1});
    f.channel.on_packet(f.now, late, SenderFixture::kBack);
    CHECK(f.channel.in_flight() == 1);
    CHECK(f.channel.stats().acks_ignored == 1);
}

TEST_CASE("a task that the channel cannot carry is refused") {
    SenderFixture f(plain_config());
    f.params.geometry = {.short_slots = 16, .groups = 8, .m = 4, .rows = 4};  // 1600 bytes
    const auto too_big = f.channel.begin(f.params, 0, f.now);
    REQUIRE_FALSE(too_big.ok());
    CHECK(too_big.error().text().find("raise the MTU") != std::string::npos);
    f.params.geometry = {.short_slots = 40, .groups = 0, .m = 0, .rows = 1};
    CHECK_FALSE(f.channel.begin(f.params, 0, f.now).ok());
    f.params.geometry = {};
    CHECK_FALSE(f.channel.begin(f.params, 1U << 30, f.now).ok());
    f.params.channel.port += 1;
    CHECK_FALSE(f.channel.begin(f.params, 0, f.now).ok());
    CHECK(f.channel.idle());
    CHECK_FALSE(f.channel.has_room());
}

TEST_CASE("time without anything in flight is no standstill") {
    SenderFixture f(plain_config());
    REQUIRE(f.channel.begin(f.params, 1, f.now).ok());
    f.channel.offer("k", 1);
    REQUIRE(f.send_due() == std::vector<std::uint64_t>{1});
    f.now += kMillisecond;
    f.ack(1);
    CHECK(f.channel.last_progress() == f.now);

    f.now += 8 * kSecond;
    const Nanos burst = f.now;
    f.channel.offer("k", 2);
    REQUIRE(f.send_due() == std::vector<std::uint64_t>{2});
    CHECK(f.channel.last_progress() == burst);
    // What follows while something is in flight is no progress, and neither is sending again.
    f.now += kMillisecond;
    f.channel.offer("k", 3);
    REQUIRE(f.send_due() == std::vector<std::uint64_t>{3});
    f.ack(3);
    const Nanos acked = f.now;
    for (int i = 0; i < 20; ++i) {
        f.now += 100 * kMillisecond;
        CHECK(f.send_due() == std::vector<std::uint64_t>{2});
        CHECK(f.channel.last_progress() == acked);
    }
    f.ack(2);
    CHECK(f.channel.last_progress() == f.now);
}

TEST_CASE("a limited rate holds for what is sent again, too, and the channel says when to come back") {
    SenderFixture f(plain_config());
    f.start(2000);
    constexpr double kRate = 200'000;
    f.channel.limit_rate(Pace(static_cast<std::uint64_t>(kRate), 42, f.now));
    std::uint64_t sent = 0;
    const Nanos began = f.now;
    while (f.now < began + 2 * kSecond) {
        for (const std::uint64_t seq : f.send_due()) {
            // Every fourth is lost.
            if (++sent % 4 != 0) {
                f.ack(seq);
            }
        }
        const Nanos next = f.channel.deadline();
        REQUIRE(next != kNever);
        // It sleeps, neither for nothing nor for ever.
        CHECK(next > f.now);
        f.now = next;
    }
    CHECK(f.channel.stats().retransmissions > 50);
    // Of a header, a bitmap and a slot.
    const double bits = 8.0 * (42 + sizeof(ask_hdr) + 4 + sizeof(ask_slot));
    CHECK(static_cast<double>(sent) * bits == doctest::Approx(2 * kRate).epsilon(0.02));
}

TEST_CASE("the next task of a channel is not limited by the last one's rate") {
    SenderFixture f(plain_config());
    f.start(0);
    f.channel.limit_rate(Pace(64'000, 42, f.now));
    CHECK(f.send_due().size() == 1);
    f.ack(1);
    REQUIRE(f.channel.fin_acked());
    f.channel.end();
    f.params.first_seq = f.channel.next_seq();
    f.start(20);
    CHECK(f.send_due().size() == 20);
}

TEST_CASE("an empty task is a FIN and nothing else") {
    SenderFixture f(plain_config());
    f.start(0);
    CHECK(f.channel.deadline() <= f.now);
    CHECK(f.send_due() == std::vector<std::uint64_t>{1});
    CHECK(f.last.type == ASK_FIN);
    f.ack(1);
    CHECK(f.channel.fin_acked());
}

}  // namespace
}  // namespace ask
