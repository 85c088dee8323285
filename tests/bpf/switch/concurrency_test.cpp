// SPDX-License-Identifier: Apache-2.0
//
// Several CPUs in the program at once, on the same task: nothing is lost and nothing counts twice (design
// section 5, "Linux is not a PISA pipeline").
#include <atomic>
#include <barrier>
#include <cstring>
#include <thread>

#include <bpf/bpf.h>
#include <doctest/doctest.h>

#include "tests/bpf/switch/harness.h"

using namespace ask;
using namespace ask::test;

namespace {

constexpr unsigned kThreads = 2;
constexpr std::uint64_t kRacingPackets = 2000;

// A test run without assertions, which doctest wants on few threads. The kernel's own repeat would feed the
// program its own output, which is in `out` afterwards.
std::uint32_t run_quietly(int program, const Bytes& frame, std::uint32_t ifindex, Bytes& out) {
    xdp_md context{};
    context.data_end = static_cast<__u32>(frame.size());
    context.ingress_ifindex = ifindex;
    out.resize(4096);
    LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame.data(), .data_out = out.data(),
                .data_size_in = static_cast<__u32>(frame.size()),
                .data_size_out = static_cast<__u32>(out.size()), .ctx_in = &context,
                .ctx_size_in = sizeof(context), .repeat = 1);
    return bpf_prog_test_run_opts(program, &options) == 0 ? options.retval : ~0U;
}

std::uint32_t run_quietly(int program, const Bytes& frame, std::uint32_t ifindex) {
    Bytes out;
    return run_quietly(program, frame, ifindex, out);
}

// Runs a packet of the default geometry; what the slots that it leaves with sum up to.
std::int64_t run_and_sum(int program, const Bytes& frame, std::uint32_t ifindex) {
    constexpr std::size_t kBitmaps = 90;
    constexpr std::size_t kRowBytes = 256;
    Bytes out;
    if (run_quietly(program, frame, ifindex, out) != XDP_REDIRECT) {
        return 0;
    }
    std::int64_t sum = 0;
    for (std::size_t row = 0; row < 4; ++row) {
        std::uint32_t bitmap = 0;
        std::memcpy(&bitmap, out.data() + kBitmaps + 4 * row, sizeof(bitmap));
        bitmap = __builtin_bswap32(bitmap);
        for (std::size_t slot = 0; slot < 24; ++slot) {
            const std::size_t last = slot < 16 ? slot : 17 + 2 * (slot - 16);
            std::uint32_t value = 0;
            std::memcpy(&value, out.data() + kBitmaps + 16 + row * kRowBytes + 8 * last + 4, sizeof(value));
            if ((bitmap >> slot & 1) != 0) {
                sum += static_cast<std::int32_t>(__builtin_bswap32(value));
            }
        }
    }
    return sum;
}

// Starts kThreads, each on a CPU of its own, at the same moment. Returns what each saw of every action.
template <typename F>
void on_all_cpus(F body) {
    const std::vector<unsigned> cpus = allowed_cpus();
    std::atomic<unsigned> waiting{kThreads};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; ++i) {
        threads.emplace_back([&, i] {
            cpu_set_t set;
            CPU_ZERO(&set);
            CPU_SET(cpus[i % cpus.size()], &set);
            ::sched_setaffinity(0, sizeof(set), &set);
            --waiting;
            while (waiting.load() != 0) {
                std::this_thread::yield();
            }
            body(i);
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
}

std::int64_t total(const Switch& sw) {
    std::int64_t sum = 0;
    for (const ask_aggregator& word : sw.region(0)) {
        sum += word.vpart;
    }
    return sum;
}

}  // namespace

TEST_CASE("two channels, one key: the total is exact") {
    for (const Way& way : kWays) {
        INFO(to_string(way));
        Switch& sw = Switch::get(way);
        sw.add_task(0);
        std::vector<std::vector<Bytes>> frames(kThreads);
        for (unsigned i = 0; i < kThreads; ++i) {
            sw.add_channel(i, {.port = static_cast<std::uint16_t>(ASK_CHANNEL_PORT_BASE + i)});
            sw.add_flow(i, i, 0);
            for (std::uint64_t seq = 1; seq <= kRacingPackets; ++seq) {
                Packet packet = sw.packet(i).seq(seq);
                frames[i].push_back(packet.put(0, 0, "k", 1)
                                        .put(1, 0, "k", 1)
                                        .put(2, 16, "medium", 1)
                                        .put(3, 16, "medium", 1)
                                        .frame());
            }
        }
        const std::uint32_t ifindex = network().in;
        const int program = sw.program();
        std::atomic<std::uint64_t> bad{0};
        on_all_cpus([&](unsigned i) {
            for (const Bytes& frame : frames[i]) {
                const std::uint32_t action = run_quietly(program, frame, ifindex);
                bad += action == XDP_TX || action == XDP_REDIRECT ? 0 : 1;
            }
        });
        CHECK(bad == 0);
        const ask_flow_stats one = sw.stats(0);
        const ask_flow_stats two = sw.stats(1);
        // What contention left in a packet went on to the receiver; all else is here.
        CHECK(one.tuples_collision + two.tuples_collision == 0);
        CHECK(total(sw) == static_cast<std::int64_t>(one.tuples_aggregated + two.tuples_aggregated));
        CHECK(one.tuples_aggregated + one.tuples_contention == 4 * kRacingPackets);
        CHECK(two.tuples_aggregated + two.tuples_contention == 4 * kRacingPackets);
    }
}

TEST_CASE("keys that take each other's place on two CPUs: what is held and what left make the total") {
    for (const Way& way : kWays) {
        INFO(to_string(way));
        Switch& sw = Switch::get(way);
        sw.add_task(0, {.aggregators = 1, .policy = ASK_POLICY_REPLACE});
        std::vector<std::vector<Bytes>> frames(kThreads);
        for (unsigned i = 0; i < kThreads; ++i) {
            sw.add_channel(i, {.port = static_cast<std::uint16_t>(ASK_CHANNEL_PORT_BASE + i)});
            sw.add_flow(i, i, 0);
            for (std::uint64_t seq = 1; seq <= kRacingPackets; ++seq) {
                Packet packet = sw.packet(i).seq(seq);
                for (unsigned row = 0; row < 4; ++row) {
                    const std::string key(1, static_cast<char>('a' + (seq / 3 + row + i) % 4));
                    packet.put(row, 0, key, 1).put(row, 16, "medium" + key, 1);
                }
                frames[i].push_back(packet.frame());
            }
        }
        const std::uint32_t ifindex = network().in;
        const int program = sw.program();
        std::atomic<std::int64_t> left{0};
        on_all_cpus([&](unsigned i) {
            for (const Bytes& frame : frames[i]) {
                left += run_and_sum(program, frame, ifindex);
            }
        });
        const ask_flow_stats one = sw.stats(0);
        const ask_flow_stats two = sw.stats(1);
        CHECK(one.tuples_evicted > 0);
        CHECK(two.tuples_evicted > 0);
        CHECK(total(sw) + left == static_cast<std::int64_t>(2 * 8 * kRacingPackets));
        for (const ask_flow_stats& stats : {one, two}) {
            CHECK(stats.tuples_aggregated + stats.tuples_contention + stats.tuples_collision ==
                  8 * kRacingPackets);
        }
    }
}

TEST_CASE("the same packets on two CPUs: each is new once") {
    for (const Way& way :
         {Way{ASK_MEMORY_PIPELINES, ASK_DEDUPE_TAGGED}, Way{ASK_MEMORY_SHARED, ASK_DEDUPE_TAGGED}}) {
        INFO(to_string(way));
        Switch& sw = Switch::get(way);
        sw.add_default();
        const std::vector<std::uint64_t> before = sw.counters();
        std::vector<Bytes> frames;
        for (std::uint64_t seq = 1; seq <= kRacingPackets; ++seq) {
            frames.push_back(sw.packet().seq(seq).put(0, 0, "k", 1).put(3, 16, "medium", 1).frame());
        }
        const std::uint32_t ifindex = network().in;
        const int program = sw.program();
        std::atomic<std::uint64_t> tries{0};
        std::barrier in_step(kThreads);
        on_all_cpus([&](unsigned) {
            for (std::size_t i = 0; i < frames.size(); ++i) {
                for (unsigned copy = 0; copy < 3; ++copy, ++tries) {
                    run_quietly(program, frames[i], ifindex);
                }
                // No packet may fall a window behind its duplicate.
                if (i % (ASK_WINDOW / 2) == 0) {
                    in_step.arrive_and_wait();
                }
            }
        });
        const ask_flow_stats stats = sw.stats();
        CHECK(stats.packets_new == kRacingPackets);
        CHECK(stats.tuples_aggregated == 2 * kRacingPackets);
        CHECK(total(sw) == static_cast<std::int64_t>(2 * kRacingPackets));
        const std::vector<std::uint64_t> after = sw.counters();
        std::uint64_t all = 0;
        for (std::uint32_t i = 0; i < ASK_CNT_COUNT; ++i) {
            all += after[i] - before[i];
        }
        CHECK(all == tries);
        CHECK(after[ASK_CNT_ack_new] - before[ASK_CNT_ack_new] == kRacingPackets);
        CHECK(after[ASK_CNT_drop_stale] == before[ASK_CNT_drop_stale]);
    }
}
