// SPDX-License-Identifier: Apache-2.0
//
// The fault injector's program, packet by packet: each fault comes as often as its rate says, does what it
// says and nothing else, and the same seed gives the same faults.
#include <endian.h>
#include <linux/bpf.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <set>
#include <utility>
#include <vector>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <doctest/doctest.h>

#include "chaos.skel.h"
#include "lib/abi/consts.h"
#include "lib/abi/wire.h"
#include "lib/bpf/map.h"
#include "lib/bpf/object.h"
#include "lib/net/frame.h"
#include "tests/support/netns.h"
#include "tools/chaos/chaos.h"

namespace ask::chaos {
namespace {

constexpr std::size_t kPayload = 200;
constexpr std::uint64_t kMillisecond = 1'000'000;

using Frame = std::vector<std::byte>;

struct Held {
    std::uint64_t due;
    std::uint32_t port;
    Frame bytes;
};

Frame make_frame(std::uint16_t dest_port = ASK_UDP_PORT) {
    Frame frame(kFrameHeaderBytes + kPayload);
    const UdpAddresses addresses{
        .source = 0xc6120102, .dest = 0xc6120202, .source_port = 49152, .dest_port = dest_port};
    write_frame_header(frame, addresses, kPayload);
    for (std::size_t at = 0; at < kPayload; ++at) {
        frame[kFrameHeaderBytes + at] = static_cast<std::byte>(at * 7);
    }
    return frame;
}

Frame make_packet(ask_type type, std::uint64_t seq, std::size_t extra = 0) {
    Frame frame = make_frame();
    frame.resize(frame.size() + extra);
    ask_hdr header{};
    header.version = ASK_WIRE_VERSION;
    header.type = type;
    header.task = htobe64(7);
    header.seq = htobe64(seq);
    std::memcpy(&frame[kFrameHeaderBytes], &header, sizeof(header));
    return frame;
}

constexpr unsigned long long percent(double share) {
    return static_cast<unsigned long long>(share / 100 * static_cast<double>(CHAOS_ALWAYS));
}

// An instance of the program with maps of its own, on no interface.
class Program {
 public:
    explicit Program(std::uint32_t port = 0) : port_(port) {
        test::need_root();
        auto skeleton = bpf::Skeleton<chaos_bpf>::open("chaos");
        REQUIRE(skeleton.ok());
        skeleton_ = std::move(*skeleton);
        skeleton_->rodata->port = port;
        skeleton_->rodata->other_ifindex = 1;
        REQUIRE(chaos_bpf::load(skeleton_.operator->()) == 0);
        ring_ = ring_buffer__new(bpf_map__fd(skeleton_->maps.frames), &Program::on_frame, &held_, nullptr);
        REQUIRE(ring_ != nullptr);
    }
    ~Program() { ring_buffer__free(ring_); }
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    // Faults are what `change` makes of a rule without any.
    template <typename Change>
    void set(std::uint64_t seed, Change change) {
        ChaosRule rule{};
        rule.seed = seed;
        change(rule);
        REQUIRE(bpf_map_update_elem(bpf_map__fd(skeleton_->maps.rules), &port_, &rule, BPF_ANY) == 0);
    }
    // What becomes of one packet; `*out` is the frame afterwards.
    std::uint32_t pass(const Frame& in, Frame* out) {
        out->resize(in.size());
        LIBBPF_OPTS(bpf_test_run_opts, run, .data_in = in.data(), .data_out = out->data(),
                    .data_size_in = static_cast<__u32>(in.size()),
                    .data_size_out = static_cast<__u32>(out->size()));
        REQUIRE(bpf_prog_test_run_opts(bpf_program__fd(skeleton_->progs.chaos), &run) == 0);
        return run.retval;
    }
    // The numbers of those of `count` packets that did not go on at once.
    std::set<unsigned> stopped(unsigned count) {
        const Frame in = make_frame();
        Frame out;
        std::set<unsigned> numbers;
        for (unsigned number = 0; number < count; ++number) {
            const std::uint32_t verdict = pass(in, &out);
            CHECK((verdict == XDP_REDIRECT || verdict == XDP_DROP));
            if (verdict == XDP_DROP) {
                numbers.insert(number);
            } else {
                CHECK(out == in);
            }
        }
        return numbers;
    }
    ChaosCarried carried() {
        std::vector<ChaosCarried> parts(static_cast<std::size_t>(libbpf_num_possible_cpus()));
        REQUIRE(bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.carried), &port_, parts.data()) == 0);
        ChaosCarried sum{};
        for (const ChaosCarried& part : parts) {
            for (std::size_t type = 0; type < CHAOS_TYPES; ++type) {
                sum.types[type].packets += part.types[type].packets;
                sum.types[type].bytes += part.types[type].bytes;
            }
            sum.first_fins += part.first_fins;
        }
        return sum;
    }
    // What the daemon would have got.
    std::vector<Held> held() {
        REQUIRE(ring_buffer__consume(ring_) >= 0);
        return std::exchange(held_, {});
    }
    ChaosDone done() {
        std::vector<ChaosDone> parts(static_cast<std::size_t>(libbpf_num_possible_cpus()));
        REQUIRE(bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.done), &port_, parts.data()) == 0);
        ChaosDone sum{};
        for (const ChaosDone& part : parts) {
            sum.spared += part.spared;
            sum.packets += part.packets;
            sum.lost += part.lost;
            sum.duplicated += part.duplicated;
            sum.corrupted += part.corrupted;
            sum.reordered += part.reordered;
            sum.delayed += part.delayed;
            sum.hold_full += part.hold_full;
        }
        return sum;
    }

 private:
    static int on_frame(void* held, void* data, std::size_t) {
        ChaosFrame header{};
        std::memcpy(&header, data, sizeof(header));
        const auto* bytes = static_cast<const std::byte*>(data) + sizeof(header);
        static_cast<std::vector<Held>*>(held)->push_back(
            {header.due, header.port, Frame(bytes, bytes + header.bytes)});
        return 0;
    }

    std::uint32_t port_;
    bpf::Skeleton<chaos_bpf> skeleton_;
    ring_buffer* ring_ = nullptr;
    std::vector<Held> held_;
};

// Five standard deviations: a seed is fixed, so this fails always or never.
void check_share(std::size_t count, unsigned of, double share) {
    const double expected = of * share;
    CHECK(std::abs(static_cast<double>(count) - expected) <= 5 * std::sqrt(expected * (1 - share)) + 1e-9);
}

std::uint64_t now_ns() {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

unsigned flipped_bits(const Frame& a, const Frame& b) {
    unsigned bits = 0;
    for (std::size_t at = 0; at < a.size(); ++at) {
        bits += static_cast<unsigned>(std::popcount(std::to_integer<unsigned>(a[at] ^ b[at])));
    }
    return bits;
}

TEST_CASE("without a rule everything goes on") {
    Program program;
    CHECK(program.stopped(100).empty());
    CHECK(program.done().packets == 100);
    CHECK(program.held().empty());
}

TEST_CASE("packets are lost as often as asked, the same ones for the same seed") {
    constexpr unsigned kPackets = 20'000;
    Program program;
    for (const double share : {0.1, 1.0, 10.0, 30.0}) {
        CAPTURE(share);
        program.set(7, [&](ChaosRule& rule) { rule.loss = percent(share); });
        const auto lost = program.stopped(kPackets);
        check_share(lost.size(), kPackets, share / 100);
        program.set(7, [&](ChaosRule& rule) { rule.loss = percent(share); });
        CHECK(program.stopped(kPackets) == lost);
        program.set(8, [&](ChaosRule& rule) { rule.loss = percent(share); });
        CHECK(program.stopped(kPackets) != lost);
        Program other_way(1);
        other_way.set(7, [&](ChaosRule& rule) { rule.loss = percent(share); });
        CHECK(other_way.stopped(kPackets) != lost);
    }
    CHECK(program.held().empty());
}

TEST_CASE("a rate of one fault does not move the victims of another") {
    Program program;
    program.set(7, [&](ChaosRule& rule) { rule.loss = percent(5); });
    const auto lost = program.stopped(5000);
    program.set(7, [&](ChaosRule& rule) {
        rule.loss = percent(5);
        rule.duplicate = CHAOS_ALWAYS;
    });
    CHECK(program.stopped(5000) == lost);
}

TEST_CASE("0 and 100 percent are never and always") {
    Program program;
    program.set(3, [&](ChaosRule& rule) { rule.loss = CHAOS_ALWAYS; });
    CHECK(program.stopped(2000).size() == 2000);
    CHECK(program.done().lost == 2000);
}

TEST_CASE("a copy is whole, and due within the time given") {
    constexpr unsigned kPackets = 2000;
    Program program;
    program.set(5, [&](ChaosRule& rule) {
        rule.duplicate = percent(20);
        rule.corrupt = CHAOS_ALWAYS;
        rule.late = {2 * kMillisecond, 60'000 * kMillisecond};
    });
    const Frame in = make_frame();
    Frame out;
    const std::uint64_t before = now_ns();
    for (unsigned packet = 0; packet < kPackets; ++packet) {
        REQUIRE(program.pass(in, &out) == XDP_REDIRECT);
    }
    const std::uint64_t after = now_ns();
    const auto held = program.held();
    check_share(held.size(), kPackets, 0.2);
    CHECK(program.done().duplicated == held.size());
    std::uint64_t latest = 0;
    for (const Held& copy : held) {
        CHECK(copy.bytes == in);
        CHECK(copy.due >= before + 2 * kMillisecond);
        CHECK(copy.due <= after + 60'002 * kMillisecond);
        latest = std::max(latest, copy.due);
    }
    // The whole width is used.
    CHECK(latest > before + 50'000 * kMillisecond);
}

TEST_CASE("damage is one bit, anywhere in the frame") {
    constexpr unsigned kPackets = 20'000;
    Program program;
    program.set(9, [&](ChaosRule& rule) { rule.corrupt = percent(50); });
    const Frame in = make_frame();
    Frame out;
    unsigned damaged = 0;
    std::vector<bool> hit(in.size());
    for (unsigned packet = 0; packet < kPackets; ++packet) {
        REQUIRE(program.pass(in, &out) == XDP_REDIRECT);
        const unsigned bits = flipped_bits(in, out);
        REQUIRE(bits <= 1);
        damaged += bits;
        for (std::size_t at = 0; at < in.size(); ++at) {
            hit[at] = hit[at] || in[at] != out[at];
        }
    }
    check_share(damaged, kPackets, 0.5);
    CHECK(program.done().corrupted == damaged);
    CHECK(std::ranges::count(hit, true) == static_cast<std::ptrdiff_t>(in.size()));
}

TEST_CASE("what is reordered or delayed is held, not lost") {
    constexpr unsigned kPackets = 3000;
    Program program;
    program.set(4, [&](ChaosRule& rule) {
        rule.reorder = percent(10);
        rule.behind = {kMillisecond, 0};
    });
    const auto behind = program.stopped(kPackets);
    check_share(behind.size(), kPackets, 0.1);
    CHECK(program.held().size() == behind.size());
    CHECK(program.done().reordered == behind.size());

    program.set(4, [&](ChaosRule& rule) { rule.delay = {3 * kMillisecond, 0}; });
    const std::uint64_t before = now_ns();
    CHECK(program.stopped(500).size() == 500);
    const auto held = program.held();
    CHECK(held.size() == 500);
    CHECK(std::ranges::is_sorted(held, {}, &Held::due));
    CHECK(held.front().due >= before + 3 * kMillisecond);
    CHECK(program.done().delayed == 500);
}

TEST_CASE("frames of every length are held whole, and one too long is counted") {
    Program program;
    program.set(1, [&](ChaosRule& rule) { rule.delay = {1, 0}; });
    Frame out;
    for (const std::size_t bytes : {std::size_t{60}, std::size_t{CHAOS_SMALL_BYTES},
                                    std::size_t{CHAOS_SMALL_BYTES} + 1, std::size_t{CHAOS_FRAME_BYTES}}) {
        CAPTURE(bytes);
        Frame in = make_frame();
        in.resize(bytes, std::byte{0x5a});
        CHECK(program.pass(in, &out) == XDP_DROP);
        const auto held = program.held();
        REQUIRE(held.size() == 1);
        CHECK(held.front().bytes == in);
    }
    CHECK(program.done().hold_full == 0);
}

TEST_CASE("a full ring is counted, not waited for") {
    Program program;
    program.set(1, [&](ChaosRule& rule) { rule.delay = {1, 0}; });
    // More than 16 MiB of records.
    CHECK(program.stopped(12'000).size() == 12'000);
    const ChaosDone done = program.done();
    CHECK(done.hold_full > 0);
    CHECK(done.delayed + done.hold_full == 12'000);
    CHECK(program.held().size() == done.delayed);
}

TEST_CASE("other traffic is spared, unless asked for") {
    Program program;
    Frame out;
    program.set(1, [&](ChaosRule& rule) { rule.loss = CHAOS_ALWAYS; });
    CHECK(program.pass(make_frame(53), &out) == XDP_REDIRECT);
    Frame arp = make_frame();
    arp[13] = std::byte{0x06};
    CHECK(program.pass(arp, &out) == XDP_REDIRECT);
    CHECK(program.done().spared == 2);
    CHECK(program.pass(make_frame(), &out) == XDP_DROP);
    program.set(1, [&](ChaosRule& rule) {
        rule.loss = CHAOS_ALWAYS;
        rule.all_traffic = 1;
    });
    CHECK(program.pass(make_frame(53), &out) == XDP_DROP);
    CHECK(program.pass(arp, &out) == XDP_DROP);
}

TEST_CASE("what comes in is counted by type, lost or not, and a FIN once") {
    Program program;
    Frame out;
    program.set(1, [&](ChaosRule& rule) { rule.loss = CHAOS_ALWAYS; });
    for (const unsigned seq : {1U, 2U, 3U, 3U}) {
        program.pass(make_packet(ASK_DATA, seq), &out);
    }
    program.pass(make_packet(ASK_VAR, 4, 100), &out);
    program.pass(make_packet(ASK_LONG, 5), &out);
    program.pass(make_packet(ASK_ACK, 5), &out);
    for (const unsigned seq : {6U, 6U, 7U, 6U}) {
        program.pass(make_packet(ASK_FIN, seq), &out);
    }
    // Of another version, of no type, no ASK.
    Frame foreign = make_packet(ASK_DATA, 1);
    foreign[kFrameHeaderBytes] = std::byte{ASK_WIRE_VERSION + 1};
    program.pass(foreign, &out);
    program.pass(make_packet(static_cast<ask_type>(CHAOS_TYPES), 1), &out);
    for (const ask_type type : {ASK_VALUE, ASK_RESULT, ASK_RESULT, ASK_NEED, ASK_HELD, ASK_HAVE}) {
        program.pass(make_packet(type, 8), &out);
    }
    program.pass(make_frame(53), &out);
    const ChaosCarried carried = program.carried();
    const auto packets = [&](std::size_t type) { return carried.types[type].packets; };
    CHECK(packets(ASK_DATA) == 4);
    CHECK(packets(ASK_LONG) == 1);
    CHECK(packets(ASK_ACK) == 1);
    CHECK(packets(ASK_FIN) == 4);
    CHECK(packets(ASK_VAR) == 1);
    CHECK(packets(ASK_VALUE) == 1);
    CHECK(packets(ASK_RESULT) == 2);
    CHECK(packets(ASK_NEED) == 1);
    CHECK(packets(ASK_HELD) == 1);
    CHECK(packets(ASK_HAVE) == 1);
    CHECK(packets(0) == 3);
    CHECK(carried.types[ASK_DATA].bytes == 4 * (kFrameHeaderBytes + kPayload));
    CHECK(carried.types[ASK_VAR].bytes == kFrameHeaderBytes + kPayload + 100);
    CHECK(carried.first_fins == 2);
}

}  // namespace
}  // namespace ask::chaos
