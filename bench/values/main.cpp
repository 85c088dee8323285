// SPDX-License-Identifier: Apache-2.0
//
// tools/bench values: what a VALUE that is folded costs the switch program, against its floor. A line an
// operator and size on stdout; CSV and JSON in --out.
#include <endian.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <nlohmann/json.hpp>

#include "bench/common/machine.h"
#include "bench/common/results.h"
#include "bench/feeder/feeder.h"
#include "lib/abi/back.h"
#include "lib/abi/values.h"
#include "lib/engine/packet.h"
#include "lib/net/frame.h"

// After the types of the variables in them.
#include "switch.skel.h"
#include "values_floor.skel.h"

namespace ask::bench {
namespace {

constexpr std::size_t kRounds = 25;
constexpr unsigned kMembers = 64;  // of which the last sends nothing, so no chunk is complete
constexpr std::uint32_t kHost = 0xC6120102;
constexpr std::uint64_t kInstance = 0x1122334455667788;
constexpr std::uint32_t kIncarnation = 7;
constexpr std::uint32_t kZero = 0;
// More than the wider ratio is not wanted.
constexpr double kWanted = 1.25;

struct Settings {
    std::string out;
    bool quick = false;
    [[nodiscard]] std::uint64_t chunks() const { return quick ? 20 : 200; }
};

struct Case {
    const char* name;
    std::uint8_t op;
    std::uint8_t blocks;
};

struct Row {
    Case what;
    double feeding = 0;
    double floor = 0;  // ns a packet without feeding, as the next
    double subject = 0;
    double ratio = 0;
};

struct Destroy {
    void operator()(switch_bpf* skeleton) const { switch_bpf__destroy(skeleton); }
    void operator()(values_floor_bpf* skeleton) const { values_floor_bpf__destroy(skeleton); }
};

template <typename K, typename V>
Result<> put(const bpf_map* map, const K& key, const V& value) {
    if (bpf_map_update_elem(bpf_map__fd(map), &key, &value, BPF_ANY) != 0) {
        return Error::from_errno(errno, std::string("fill map ") + bpf_map__name(map));
    }
    return {};
}

std::uint16_t port_of(unsigned member) {
    return static_cast<std::uint16_t>(ASK_CHANNEL_PORT_BASE + member);
}

// One group whose members are channels of one host.
class Bed {
 public:
    static Result<Bed> create() {
        Bed bed;
        bed.switch_.reset(switch_bpf__open_and_load());
        if (!bed.switch_) {
            return Error::from_errno(errno, "load the switch program (root and BPF are needed)");
        }
        ASK_PASS(bed.load_floor());
        ASK_PASS(bed.fill_maps());
        return bed;
    }
    [[nodiscard]] const CheckKey& key() const { return key_; }
    [[nodiscard]] int subject() const { return bpf_program__fd(switch_->progs.ask_switch); }
    [[nodiscard]] int floor() const { return bpf_program__fd(floor_->progs.floor_fold); }
    [[nodiscard]] int absorber() const { return bpf_program__fd(floor_->progs.absorber); }
    // Packets that were folded, by program or floor.
    [[nodiscard]] Result<std::uint64_t> folded() const {
        const std::uint32_t reason = ASK_CNT_value_folded;
        std::vector<std::uint64_t> parts(static_cast<std::size_t>(libbpf_num_possible_cpus()));
        if (bpf_map_lookup_elem(bpf_map__fd(switch_->maps.counters), &reason, parts.data()) != 0) {
            return Error::from_errno(errno, "read counters");
        }
        std::uint64_t sum = 0;
        for (const std::uint64_t part : parts) {
            sum += part;
        }
        return sum;
    }

 private:
    Bed() = default;

    Result<> load_floor() {
        floor_.reset(values_floor_bpf__open());
        if (!floor_) {
            return Error::from_errno(errno, "open the floor program");
        }
        bpf_map* map = nullptr;
        bpf_object__for_each_map(map, floor_->obj) {
            const bpf_map* shared = bpf_object__find_map_by_name(switch_->obj, bpf_map__name(map));
            if (!bpf_map__is_internal(map) && shared != nullptr &&
                bpf_map__reuse_fd(map, bpf_map__fd(shared)) != 0) {
                return Error::from_errno(errno, std::string("share map ") + bpf_map__name(map));
            }
        }
        if (values_floor_bpf__load(floor_.get()) != 0) {
            return Error::from_errno(errno, "load the floor program");
        }
        return {};
    }

    Result<> fill_maps() {
        ask_task task{};
        task.instance = htobe64(kInstance);
        task.service = ASK_SERVICE_VALUES;
        task.receiver = htobe32(kHost + 1);
        ASK_PASS(put(switch_->maps.tasks, kZero, task));
        ask_group group{};
        group.instance = task.instance;
        group.all = group.want = group.local = ~0ULL;
        group.collector = task.receiver;
        group.window = 256;
        group.pool_slots = ASK_DEFAULT_VALUE_SLOTS;
        group.last_level = 1;
        ASK_PASS(put(switch_->maps.groups, kZero, group));
        for (std::uint32_t member = 0; member + 1 < kMembers; ++member) {
            const ask_channel channel{.host = htobe32(kHost),
                                      .port = htobe16(port_of(member)),
                                      .pad = 0,
                                      .incarnation = htobe32(kIncarnation),
                                      .ports = {{if_nametoindex("lo")}}};
            const ask_channel_id channel_id{.host = channel.host, .port = channel.port, .pad = 0};
            const ask_flow_id flow_id{
                .task = task.instance, .host = channel.host, .port = channel.port, .pad = 0};
            ask_flow flow{};
            flow.task_instance = task.instance;
            flow.channel = member;
            flow.member = member;
            flow.key = key_.raw();
            ASK_PASS(put(switch_->maps.channels, member, channel));
            ASK_PASS(put(switch_->maps.flows, member, flow));
            ASK_PASS(put(switch_->maps.channel_ids, channel_id, member));
            ASK_PASS(put(switch_->maps.flow_ids, flow_id, member));
        }
        return {};
    }

    CheckKey key_{CheckSecret{1, 2}};
    std::unique_ptr<switch_bpf, Destroy> switch_;
    std::unique_ptr<values_floor_bpf, Destroy> floor_;
};

// The members' packets of a chunk, one after the other.
class Frames {
 public:
    Frames(const Case& what, const CheckKey& key)
        : what_(what),
          key_(key),
          frame_(kFrameHeaderBytes + ASK_VALUES_FRONT + what.blocks * ASK_VALUES_BLOCK_BYTES) {
        for (std::size_t at = kFrameHeaderBytes + ASK_VALUES_FRONT; at < frame_.size(); ++at) {
            frame_[at] = static_cast<std::byte>(at * 7);
        }
    }

    const std::vector<std::byte>& make(unsigned member, std::uint64_t seq) {
        write_frame_header(frame_,
                           {.source_mac = {2, 0, 0, 0, 0, 1},
                            .dest_mac = {2, 0, 0, 0, 0, 2},
                            .source = kHost,
                            .dest = kHost + 1,
                            .source_port = port_of(member),
                            .dest_port = ASK_UDP_PORT},
                           frame_.size() - kFrameHeaderBytes);
        ask_hdr hdr{};
        hdr.version = ASK_WIRE_VERSION;
        hdr.type = ASK_VALUE;
        ask_values_set(&hdr, what_.blocks, 0, ASK_LEVEL_MEMBER);
        hdr.op = what_.op;
        hdr.task = htobe64(kInstance);
        hdr.host = htobe32(kHost);
        hdr.port = htobe16(port_of(member));
        hdr.incarnation = htobe32(kIncarnation);
        hdr.seq = htobe64(seq);
        const ask_values_ext ext{.bits = htobe64(1ULL << member), .shape = 1, .count = htobe32(1)};
        std::byte* const at = frame_.data() + kFrameHeaderBytes;
        std::memcpy(at + sizeof(hdr), &ext, sizeof(ext));
        hdr.check = htobe64(check_of(hdr, ext, member));
        std::memcpy(at, &hdr, sizeof(hdr));
        return frame_;
    }

 private:
    [[nodiscard]] std::uint64_t check_of(const ask_hdr& hdr, const ask_values_ext& ext,
                                         unsigned member) const {
        const ask_check_key& key = key_.raw();
        std::array<std::uint32_t, ASK_CHECK_HEAD_WORDS> head{};
        std::array<std::uint32_t, ASK_VALUES_EXTENSION> extension{};
        std::memcpy(head.data(), &hdr, sizeof(head));
        std::memcpy(extension.data(), &ext, sizeof(ext));
        std::uint64_t sum = ask_check_head(&key, head.data(),
                                           ask_check_ports(htobe16(port_of(member)), htobe16(ASK_UDP_PORT)));
        for (std::size_t i = 0; i < extension.size(); ++i) {
            sum += key.head[ASK_CHECK_EXTENSION_WORD + i] * extension[i];
        }
        const std::size_t words = std::size_t{what_.blocks} * ASK_VALUES_BLOCK_WORDS;
        for (std::size_t first = 0; first < words; first += ASK_VALUES_LINE_WORDS) {
            const std::size_t count = std::min<std::size_t>(ASK_VALUES_LINE_WORDS, words - first);
            std::uint64_t line = count;
            for (std::size_t i = 0; i < count; ++i) {
                std::array<std::uint32_t, 2> pair{};
                std::memcpy(pair.data(),
                            frame_.data() + kFrameHeaderBytes + ASK_VALUES_FRONT + 8 * (first + i), 8);
                line += ask_check_nh(key.nh[2 * i], key.nh[2 * i + 1], pair[0], pair[1]);
            }
            sum += ask_check_line(key.line + 2 * (first / ASK_VALUES_LINE_WORDS), line);
        }
        return ask_check_close(&key, sum);
    }

    Case what_;
    const CheckKey& key_;
    std::vector<std::byte> frame_;
};

double median(std::array<double, kRounds> rounds) {
    std::ranges::sort(rounds);
    return rounds[kRounds / 2];
}

// Chunks from `seq` on: each gets its first packet untimed, then the others in one batch; ns a packet of
// those.
Result<double> run_round(Feeder& feeder, Frames& frames, const Bed& bed, int program, std::uint64_t seq,
                         std::uint64_t chunks) {
    using Clock = std::chrono::steady_clock;
    Clock::duration total{};
    for (std::uint64_t chunk = 0; chunk < chunks; chunk += 2) {
        feeder.clear();
        feeder.add(frames.make(0, seq + chunk));
        feeder.add(frames.make(0, seq + chunk + 1));
        ASK_PASS(feeder.aim(bed.subject()));
        ASK_PASS(feeder.run());
        feeder.clear();
        for (unsigned member = 1; member + 1 < kMembers; ++member) {
            feeder.add(frames.make(member, seq + chunk));
            feeder.add(frames.make(member, seq + chunk + 1));
        }
        ASK_PASS(feeder.aim(program));
        const auto started = Clock::now();
        ASK_PASS(feeder.run());
        total += Clock::now() - started;
    }
    return std::chrono::duration<double, std::nano>(total).count() /
           static_cast<double>(chunks * (kMembers - 2));
}

Result<Row> run_case(const Case& what, const Settings& settings) {
    auto bed = Bed::create();
    ASK_PASS(bed);
    auto feeder = Feeder::create(if_nametoindex("lo"), if_nametoindex("idle0"));
    ASK_PASS(feeder);
    Frames frames(what, bed->key());
    std::array<std::array<double, kRounds>, 3> ns{};
    const std::array<int, 3> programs{bed->absorber(), bed->floor(), bed->subject()};
    std::uint64_t seq = 1;
    // One round more, ahead of those that count; the three take turns.
    for (std::size_t round = 0; round <= kRounds; ++round) {
        for (std::size_t i = 0; i < programs.size(); ++i) {
            const auto mean = run_round(*feeder, frames, *bed, programs.at(i), seq, settings.chunks());
            ASK_TRY(mean, what.name);
            ns.at(i)[round == 0 ? 0 : round - 1] = *mean;
            seq += settings.chunks();
        }
    }
    const auto folded = bed->folded();
    ASK_PASS(folded);
    const std::uint64_t fed = 2 * (kRounds + 1) * settings.chunks() * (kMembers - 2);
    if (*folded != fed) {
        return Error(Errc::kInternal, std::string(what.name) + ": folded " + std::to_string(*folded) +
                                          " packets, not " + std::to_string(fed));
    }
    Row row{.what = what};
    std::array<double, kRounds> floor{};
    std::array<double, kRounds> subject{};
    std::array<double, kRounds> ratio{};
    for (std::size_t i = 0; i < kRounds; ++i) {
        floor[i] = ns[1][i] - ns[0][i];
        subject[i] = ns[2][i] - ns[0][i];
        ratio[i] = subject[i] / floor[i];
    }
    row.feeding = median(ns[0]);
    row.floor = median(floor);
    row.subject = median(subject);
    row.ratio = median(ratio);
    return row;
}

Result<> run(const Settings& settings) {
    constexpr std::array<Case, 6> kCases{{{"add64", ASK_VALUES_ADD64, 22},
                                          {"add64", ASK_VALUES_ADD64, 4},
                                          {"add32", ASK_VALUES_ADD32, 22},
                                          {"min32", ASK_VALUES_MIN32, 22},
                                          {"and64", ASK_VALUES_AND64, 22},
                                          {"xor64", ASK_VALUES_XOR64, 22}}};
    std::vector<nlohmann::ordered_json> lines;
    std::printf("%-8s %6s %8s %8s %8s %6s  %s\n", "operator", "bytes", "feeding", "floor", "switch", "ratio",
                "wanted");
    for (const Case& what : kCases) {
        const auto row = run_case(what, settings);
        ASK_PASS(row);
        const bool met = row->ratio <= kWanted;
        std::printf("%-8s %6u %8.0f %8.0f %8.0f %6.2f  ratio <= %.2f: %s\n", what.name,
                    what.blocks * ASK_VALUES_BLOCK_BYTES, row->feeding, row->floor, row->subject, row->ratio,
                    kWanted, met ? "met" : "not met");
        std::fflush(stdout);
        lines.push_back({{"operator", what.name},
                         {"bytes", what.blocks * ASK_VALUES_BLOCK_BYTES},
                         {"ns_feeding", row->feeding},
                         {"ns_floor", row->floor},
                         {"ns_switch", row->subject},
                         {"ratio_to_floor", row->ratio}});
    }
    nlohmann::ordered_json json = describe_machine();
    json["cases"] = lines;
    ASK_PASS(write_file(settings.out + "/values.json", json.dump(2) + "\n"));
    return write_file(settings.out + "/values.csv", to_csv(lines));
}

}  // namespace
}  // namespace ask::bench

int main(int argc, char** argv) {
    ask::bench::Settings settings;
    CLI::App app("What a folded VALUE costs the switch program; start it by tools/bench values.",
                 "ask-bench-values");
    app.add_option("--out", settings.out)->required();
    app.add_flag("--quick", settings.quick);
    CLI11_PARSE(app, argc, argv);
    libbpf_set_print(nullptr);
    const auto done = ask::bench::run(settings);
    if (!done) {
        std::fprintf(stderr, "ask-bench-values: %s\n", done.error().text().c_str());
        return static_cast<int>(done.error().code());
    }
    return 0;
}
