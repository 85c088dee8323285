// SPDX-License-Identifier: Apache-2.0
//
// What a packet costs the switch program: BPF_PROG_TEST_RUN with packets that are new every time, both ways
// of keeping aggregators exact and both policies side by side in one run. CSV on stdout, a summary on stderr.
#include <net/if.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "lib/abi/map_types.h"
#include "lib/core/packet.h"
#include "lib/core/types.h"
#include "switch.skel.h"

namespace {

using ask::Result;

constexpr std::uint32_t kHost = 0xC6120102;  // 198.18.1.2
constexpr std::uint16_t kPort = ASK_CHANNEL_PORT_BASE;
constexpr std::uint64_t kInstance = 0x1122334455667788;
constexpr std::uint32_t kIncarnation = 7;
constexpr std::size_t kFrameHeader = 42;
constexpr int kRounds = 5;

// How many keys share an AA.
enum class Load : std::uint8_t {
    kHits,    // a sixteenth of the aggregators: nearly all tuples find their key
    kMisses,  // four times the aggregators: most tuples find another's
};

struct Case {
    std::uint32_t memory = ASK_MEMORY_PIPELINES;
    std::uint32_t policy = ASK_POLICY_FIRST_COME;
    Load load = Load::kHits;
    ask::Geometry geometry;
    std::uint32_t aggregators = 1U << 15;

    [[nodiscard]] std::string name() const {
        return std::string(memory == ASK_MEMORY_PIPELINES ? "pipelines" : "shared") + "," +
               (policy == ASK_POLICY_REPLACE ? "replace" : "first-come") + "," +
               (load == Load::kHits ? "hits" : "misses");
    }
    [[nodiscard]] std::uint32_t keys() const {
        return load == Load::kHits ? aggregators / 16 : aggregators * 4;
    }
};

struct SkeletonDeleter {
    void operator()(switch_bpf* skeleton) const { switch_bpf__destroy(skeleton); }
};
using Skeleton = std::unique_ptr<switch_bpf, SkeletonDeleter>;

Result<Skeleton> load(const Case& what) {
    Skeleton skeleton(switch_bpf__open());
    if (!skeleton) {
        return ask::Error::from_errno(errno, "open switch program");
    }
    skeleton->rodata->ask_memory = what.memory;
    if (switch_bpf__load(skeleton.get()) != 0) {
        return ask::Error::from_errno(errno, "load switch program (root and BPF are needed)");
    }
    return skeleton;
}

template <typename K, typename V>
bool put(const bpf_map* map, const K& key, const V& value) {
    return bpf_map_update_elem(bpf_map__fd(map), &key, &value, BPF_ANY) == 0;
}

// Linux 6.1 takes as an inner map only one that has BTF, as the one in the object has.
int create_inner(const switch_bpf& skeleton, const char* value, std::size_t size, std::uint32_t entries,
                 std::uint32_t flags) {
    const btf* types = bpf_object__btf(skeleton.obj);
    LIBBPF_OPTS(bpf_map_create_opts, options, .btf_fd = static_cast<__u32>(bpf_object__btf_fd(skeleton.obj)),
                .btf_key_type_id = static_cast<__u32>(btf__find_by_name(types, "__u32")),
                .btf_value_type_id = static_cast<__u32>(btf__find_by_name(types, value)),
                .map_flags = flags | BPF_F_INNER_MAP);
    return bpf_map_create(BPF_MAP_TYPE_ARRAY, "inner", sizeof(std::uint32_t), static_cast<__u32>(size),
                          entries, &options);
}

// Registers one channel, task and flow with a region straight in the maps, on `lo`.
Result<> register_flow(switch_bpf& skeleton, const Case& what, const ask::CheckKey& key) {
    const auto sets =
        what.memory == ASK_MEMORY_PIPELINES ? static_cast<std::uint32_t>(libbpf_num_possible_cpus()) : 1U;
    const ask_channel channel{.host = htobe32(kHost),
                              .port = htobe16(kPort),
                              .pad = 0,
                              .incarnation = htobe32(kIncarnation),
                              .ifindex = if_nametoindex("lo")};
    const ask_channel_id channel_id{.host = channel.host, .port = channel.port, .pad = 0};
    const ask_flow_id flow_id{
        .task = htobe64(kInstance), .host = channel.host, .port = channel.port, .pad = 0};
    ask_flow flow{};
    flow.task_instance = flow_id.task;
    flow.key = key.raw();
    ask_task task{};
    task.instance = flow_id.task;
    task.copies = 1;
    task.aggregators = what.aggregators;
    task.sets = sets;
    task.short_slots = what.geometry.short_slots;
    task.groups = what.geometry.groups;
    task.m = what.geometry.m;
    task.rows = what.geometry.rows;
    task.op = ASK_OP_SUM;
    task.policy = static_cast<__u8>(what.policy);
    const std::uint32_t places = sets * what.geometry.aas() * what.aggregators;
    const int region =
        create_inner(skeleton, "ask_aggregator", sizeof(ask_aggregator), places, BPF_F_MMAPABLE);
    const int heats = create_inner(skeleton, "ask_heats", sizeof(ask_heats), (places + 7) / 8, 0);
    const int carried = create_inner(skeleton, "__u64", sizeof(__u64),
                                     ask_carried_words(what.geometry.rows, what.geometry.aas()), 0);
    const std::uint32_t zero = 0;
    const bool done = region >= 0 && heats >= 0 && carried >= 0 && put(skeleton.maps.heats, zero, heats) &&
                      put(skeleton.maps.carried, zero, carried) &&
                      put(skeleton.maps.channels, zero, channel) && put(skeleton.maps.flows, zero, flow) &&
                      put(skeleton.maps.tasks, zero, task) && put(skeleton.maps.regions, zero, region) &&
                      put(skeleton.maps.channel_ids, channel_id, zero) &&
                      put(skeleton.maps.flow_ids, flow_id, zero);
    return done ? Result<>() : ask::Error::from_errno(errno, "fill the maps");
}

// A frame with every slot filled.
class FrameMaker {
 public:
    FrameMaker(const Case& what, const ask::CheckKey& key) : what_(what), key_(key) {
        frame_.resize(kFrameHeader + what.geometry.payload_bytes(what.geometry.rows));
        write_outer();
    }

    const std::vector<std::byte>& next(std::uint64_t seq) {
        ask::Header header;
        header.type = ASK_DATA;
        header.rows = what_.geometry.rows;
        header.geometry = what_.geometry;
        header.instance = kInstance;
        header.channel = {.host = kHost, .port = kPort};
        header.incarnation = kIncarnation;
        header.seq = seq;
        std::array<std::uint32_t, ASK_MAX_ROWS> bitmaps{};
        bitmaps.fill(static_cast<std::uint32_t>((std::uint64_t{1} << what_.geometry.slots()) - 1));
        const std::span<std::byte> payload = std::span(frame_).subspan(kFrameHeader);
        const std::size_t at = write_header(payload, header, std::span(bitmaps).first(header.rows));
        fill_rows(payload.subspan(at));
        key_.seal(payload, {.source = kPort, .dest = ASK_UDP_PORT});
        return frame_;
    }

 private:
    void write_outer() {
        const auto payload = static_cast<std::uint16_t>(frame_.size() - kFrameHeader);
        auto* out = reinterpret_cast<std::uint8_t*>(frame_.data());
        out[12] = 0x08;
        out[14] = 0x45;
        out[22] = 64;
        out[23] = 17;
        const auto put16 = [out](std::size_t at, std::size_t value) {
            out[at] = static_cast<std::uint8_t>(value >> 8);
            out[at + 1] = static_cast<std::uint8_t>(value);
        };
        put16(16, payload + 28U);
        const std::uint32_t host = htobe32(kHost);
        std::memcpy(out + 26, &host, 4);
        std::memcpy(out + 30, &host, 4);
        out[33] = 3;
        put16(34, kPort);
        put16(36, ASK_UDP_PORT);
        put16(38, payload + 8U);
    }

    void fill_rows(std::span<std::byte> rows) {
        for (std::size_t at = 0; at + ASK_SLOT_BYTES <= rows.size(); at += ASK_SLOT_BYTES) {
            const auto aa = at / ASK_SLOT_BYTES % what_.geometry.aas();
            const auto position =
                aa < what_.geometry.short_slots ? 0 : (aa - what_.geometry.short_slots) % what_.geometry.m;
            // Leading words of a group are constant: the last word alone tells its keys apart.
            const auto draw = static_cast<std::uint32_t>(random_() % what_.keys());
            const bool leading = aa >= what_.geometry.short_slots && position + 1 < what_.geometry.m;
            const std::uint32_t kpart = 0x41000000U | (leading ? 0 : draw);
            const std::uint32_t vpart = htobe32(leading ? 0 : 1);
            std::memcpy(rows.data() + at, &kpart, 4);
            std::memcpy(rows.data() + at + 4, &vpart, 4);
        }
    }

    const Case& what_;
    const ask::CheckKey& key_;
    std::vector<std::byte> frame_;
    std::mt19937_64 random_{1};
};

// Mean ns of a packet over `packets` new ones, as the kernel times each run.
Result<double> run_packets(switch_bpf& skeleton, FrameMaker& maker, std::uint64_t& seq, int packets) {
    std::uint64_t total = 0;
    xdp_md context{};
    context.ingress_ifindex = if_nametoindex("lo");
    std::vector<std::byte> out(4096);
    for (int i = 0; i < packets; ++i) {
        const auto& frame = maker.next(++seq);
        context.data_end = static_cast<std::uint32_t>(frame.size());
        LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame.data(), .data_out = out.data(),
                    .data_size_in = static_cast<std::uint32_t>(frame.size()),
                    .data_size_out = static_cast<std::uint32_t>(out.size()), .ctx_in = &context,
                    .ctx_size_in = sizeof(context), .repeat = 1);
        if (bpf_prog_test_run_opts(bpf_program__fd(skeleton.progs.ask_switch), &options) != 0) {
            return ask::Error::from_errno(errno, "BPF_PROG_TEST_RUN");
        }
        if (options.retval != XDP_TX && options.retval != XDP_REDIRECT && options.retval != XDP_PASS) {
            return ask::Error(ask::Errc::kInternal,
                              "packet was dropped, action " + std::to_string(options.retval));
        }
        total += options.duration;
    }
    return static_cast<double>(total) / packets;
}

Result<double> aggregated_share(const switch_bpf& skeleton) {
    std::vector<ask_flow_stats> stats(static_cast<std::size_t>(libbpf_num_possible_cpus()));
    const std::uint32_t zero = 0;
    if (bpf_map_lookup_elem(bpf_map__fd(skeleton.maps.flow_stats), &zero, stats.data()) != 0) {
        return ask::Error::from_errno(errno, "read flow_stats");
    }
    double aggregated = 0;
    double left = 0;
    for (const auto& cpu : stats) {
        aggregated += static_cast<double>(cpu.tuples_aggregated);
        left += static_cast<double>(cpu.tuples_collision + cpu.tuples_overflow + cpu.tuples_contention);
    }
    return aggregated / (aggregated + left);
}

Result<> run_case(const Case& what, int packets) {
    auto skeleton = load(what);
    ASK_TRY(skeleton, what.name());
    const ask::CheckKey key({1, 2});
    ASK_TRY(register_flow(**skeleton, what, key), what.name());
    FrameMaker maker(what, key);
    std::uint64_t seq = 0;
    ASK_TRY(run_packets(**skeleton, maker, seq, packets), what.name());  // fills the aggregators
    std::array<double, kRounds> rounds{};
    for (double& round : rounds) {
        auto mean = run_packets(**skeleton, maker, seq, packets);
        ASK_TRY(mean, what.name());
        round = *mean;
    }
    std::sort(rounds.begin(), rounds.end());
    auto share = aggregated_share(**skeleton);
    ASK_TRY(share, what.name());
    const double tuples = what.geometry.slots() * what.geometry.rows;
    std::printf("%s,%s,%u,%u,%.0f,%.1f,%.1f,%.1f,%.2f,%.4f\n", what.name().c_str(),
                to_string(what.geometry).c_str(), what.aggregators, what.geometry.rows, tuples,
                rounds.front(), rounds[kRounds / 2], rounds.back(), rounds[kRounds / 2] / tuples, *share);
    std::fflush(stdout);
    return {};
}

// First come with hits for every geometry and size; the policies with both loads where that says most.
std::vector<Case> cases_of(const ask::Geometry& geometry, std::uint32_t aggregators) {
    std::vector<Case> cases;
    for (const std::uint32_t memory : {ASK_MEMORY_PIPELINES, ASK_MEMORY_SHARED}) {
        cases.push_back({.memory = memory, .geometry = geometry, .aggregators = aggregators});
    }
    if (geometry.rows == 1 || aggregators > 1U << 15) {
        return cases;
    }
    for (const std::uint32_t memory : {ASK_MEMORY_PIPELINES, ASK_MEMORY_SHARED}) {
        for (const Load load : {Load::kHits, Load::kMisses}) {
            for (const std::uint32_t policy : {ASK_POLICY_FIRST_COME, ASK_POLICY_REPLACE}) {
                cases.push_back({.memory = memory,
                                 .policy = policy,
                                 .load = load,
                                 .geometry = geometry,
                                 .aggregators = aggregators});
            }
        }
    }
    return cases;
}

}  // namespace

int main(int argc, char** argv) {
    const bool quick = argc > 1 && std::strcmp(argv[1], "--quick") == 0;
    const int packets = quick ? 2000 : 20000;
    libbpf_set_print(nullptr);
    std::puts(
        "way,policy,load,geometry,aggregators,rows,tuples,ns_packet_min,ns_packet_median,ns_packet_max,"
        "ns_tuple_median,aggregated");
    const std::array<ask::Geometry, 3> geometries{
        ask::Geometry{.short_slots = 32, .groups = 0, .m = 0, .rows = 1},
        ask::Geometry{.short_slots = 32, .groups = 0, .m = 0, .rows = 4},
        ask::Geometry{.short_slots = 16, .groups = 8, .m = 2, .rows = 4}};
    for (const std::uint32_t aggregators : {1U << 10, 1U << 15, 1U << 18}) {
        for (const auto& geometry : geometries) {
            for (const Case& what : cases_of(geometry, aggregators)) {
                if (const auto result = run_case(what, packets); !result) {
                    std::fprintf(stderr, "ask-bench-switch: %s\n", result.error().text().c_str());
                    return static_cast<int>(result.error().code());
                }
            }
        }
    }
    return 0;
}
