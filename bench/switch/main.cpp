// SPDX-License-Identifier: Apache-2.0
//
// tools/bench switch: what a packet costs the switch program, against its floor. A line a case on stdout;
// CSV, JSON and a plot in --out.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <bpf/libbpf.h>
#include <nlohmann/json.hpp>

#include "bench/common/machine.h"
#include "bench/common/plot.h"
#include "bench/common/results.h"
#include "bench/switch/bed.h"
#include "bench/switch/case.h"
#include "bench/switch/lane.h"

namespace ask::bench {
namespace {

constexpr std::size_t kRounds = 25;
using Rounds = std::array<double, kRounds>;

struct Settings {
    std::string out;
    std::string only;  // cases whose name has this in it
    bool quick = false;
    [[nodiscard]] std::size_t packets() const { return quick ? 1280 : 12800; }
};

struct Row {
    Case what;
    FloorParts parts;
    double feeding = 0;  // ns a packet, median
    double floor = 0;    // ns a packet without feeding, median; 0: no floor
    double subject = 0;  // likewise, the switch program
    double ratio = 0;    // of the two, median of the rounds' ratios
    double more = 0;     // ns a tuple above the floor, median of the rounds'
    double aggregated = 0;
    double back = 0;  // of the aggregated, what the back level took
};

// The most that a row may cost; 0: nothing is wanted of it.
struct Wanted {
    double more = 0;    // ns a tuple above the floor
    double packet = 0;  // ns a packet
    double ratio = 0;

    [[nodiscard]] bool any() const { return more != 0 || ratio != 0; }
    [[nodiscard]] bool met(const Row& row) const {
        return (more == 0 || row.more <= more) && (packet == 0 || row.subject <= packet) &&
               (ratio == 0 || row.ratio <= ratio);
    }
};

// Keys of up to 8 bytes in a back level of MiB; and packets of hits must not pay for having one.
Wanted wanted_of(const Case& what) {
    if (what.back_mib == 0 || what.is_var()) {
        return {};
    }
    if (what.load == Load::kHits) {
        return {.ratio = 1.02};
    }
    switch (what.back_mib) {
        case 1:
            return {.more = 25};
        case 64:
            return {.more = 50};
        case 512:
            return {.more = 75, .packet = 11000};
        default:
            return {.more = 110};
    }
}

std::string to_string(const Wanted& wanted, const Row& row) {
    std::string text;
    const auto add = [&text](const char* what, double most, int digits) {
        char number[32];
        std::snprintf(number, sizeof(number), "%.*f", digits, most);
        text += most == 0 ? "" : (text.empty() ? "" : " and ") + std::string(what) + " <= " + number;
    };
    add("above", wanted.more, 0);
    add("switch", wanted.packet, 0);
    add("ratio", wanted.ratio, 2);
    return wanted.any() ? text + (wanted.met(row) ? ": met" : ": not met") : "";
}

double median(Rounds rounds) {
    std::ranges::sort(rounds);
    return rounds[kRounds / 2];
}

// One round of a subject: ns a packet, the slowest lane's.
Result<double> run_lanes(Bed& bed, std::vector<Lane>& lanes, Subject subject, std::size_t packets) {
    for (Lane& lane : lanes) {
        lane.prepare(packets);
    }
    std::vector<Result<double>> results(lanes.size(), Result<double>(0.0));
    {
        std::vector<std::jthread> threads;
        threads.reserve(lanes.size());
        for (std::size_t i = 0; i < lanes.size(); ++i) {
            threads.emplace_back([&, i] { results[i] = lanes[i].run(bed, subject); });
        }
    }
    double slowest = 0;
    for (const auto& result : results) {
        ASK_PASS(result);
        slowest = std::max(slowest, *result);
    }
    return slowest;
}

struct Measured {
    std::array<Rounds, kSubjects> ns{};  // a packet
    std::uint64_t fed = 0;               // packets to the switch program
};

// Of the rounds before the first that counts: the aggregators' keys, or each of the back level's once.
std::size_t filling_rounds(const Case& what, std::size_t packets) {
    const std::uint64_t tuples = std::uint64_t{packets} * what.tuples();
    return what.load == Load::kBack ? (what.keys() + tuples - 1) / tuples : 1;
}

// The subjects take turns, so that whatever the machine does meanwhile happens to all.
Result<Measured> measure(Bed& bed, const Case& what, const Settings& settings) {
    std::vector<Lane> lanes;
    for (unsigned i = 0; i < what.cpus; ++i) {
        auto lane = Lane::create(what, bed.key(), i);
        ASK_PASS(lane);
        lanes.push_back(std::move(*lane));
    }
    const std::size_t filling = filling_rounds(what, settings.packets());
    for (std::size_t round = 0; round < filling; ++round) {
        ASK_PASS(run_lanes(bed, lanes, Subject::kSwitch, settings.packets()));
    }
    Measured measured{};
    const std::size_t counted = kRounds * (Bed::has_floor(what) ? 2 : 1);
    measured.fed = (filling + counted) * what.cpus * settings.packets() * (what.load == Load::kSeen ? 2 : 1);
    for (std::size_t round = 0; round < kRounds; ++round) {
        for (const Subject subject : {Subject::kReflector, Subject::kFloor, Subject::kSwitch}) {
            if (subject == Subject::kFloor && !Bed::has_floor(what)) {
                continue;
            }
            const auto mean = run_lanes(bed, lanes, subject, settings.packets());
            ASK_PASS(mean);
            measured.ns[static_cast<std::size_t>(subject)][round] = *mean;
        }
    }
    return measured;
}

Result<> check_counts(const Bed& bed, const Case& what, std::uint64_t fed, Row& row) {
    const auto counts = bed.counts();
    ASK_PASS(counts);
    const auto tuples = static_cast<double>(counts->aggregated + counts->left);
    row.aggregated = static_cast<double>(counts->aggregated) / tuples;
    row.back = static_cast<double>(counts->back) / tuples;
    if (counts->packets != fed) {
        return Error(Errc::kInternal, name_of(what) + ": the switch dropped packets: its counters have " +
                                          std::to_string(counts->packets));
    }
    return {};
}

Result<Row> run_case(const Case& what, const FloorParts& parts, const Settings& settings) {
    auto bed = Bed::create(what, parts);
    ASK_TRY(bed, name_of(what));
    const auto measured = measure(*bed, what, settings);
    ASK_TRY(measured, name_of(what));
    const auto& [feeding, floor, subject] = measured->ns;
    Row row{.what = what, .parts = parts};
    Rounds floor_net{};
    Rounds switch_net{};
    Rounds ratio{};
    Rounds more{};
    for (std::size_t i = 0; i < kRounds; ++i) {
        floor_net[i] = floor[i] == 0 ? 0 : floor[i] - feeding[i];
        switch_net[i] = subject[i] - feeding[i];
        ratio[i] = floor_net[i] == 0 ? 0 : switch_net[i] / floor_net[i];
        more[i] = floor_net[i] == 0 ? 0 : (switch_net[i] - floor_net[i]) / what.tuples();
    }
    row.feeding = median(feeding);
    row.floor = median(floor_net);
    row.subject = median(switch_net);
    row.ratio = median(ratio);
    row.more = median(more);
    ASK_PASS(check_counts(*bed, what, measured->fed, row));
    return row;
}

// What the floor is, where it is not the whole of floor.bpf.c.
const char* floor_name(const Row& row) {
    if (row.what.back_mib != 0) {
        return "no back level";
    }
    if (!row.parts.check) {
        return "no check";
    }
    return row.parts.dedupe ? "" : "no dedupe";
}

void print_head() {
    std::printf("%-10s %-10s %-7s %-10s %6s %-4s %4s %5s %8s %8s %8s %6s %8s %6s %7s  %s\n", "memory",
                "policy", "load", "geometry", "aggr.", "size", "back", "CPUs", "feeding", "floor", "switch",
                "ratio", "a tuple", "above", "aggr'd", "floor with; wanted");
}

void print(const Row& row) {
    const Case& what = row.what;
    const std::string wanted = to_string(wanted_of(what), row);
    std::printf(
        "%-10s %-10s %-7s %-10s %6u %-4s %4u %5u %8.0f %8.0f %8.0f %6.2f %8.2f %6.1f %6.1f%%  %s%s%s\n",
        memory_name(what), policy_name(what), load_name(what), shape_of(what).c_str(), what.aggregators,
        size_name(what), what.back_mib, what.cpus, row.feeding, row.floor, row.subject, row.ratio,
        row.subject / what.tuples(), row.more, 100 * row.aggregated, floor_name(row),
        wanted.empty() ? "" : "; ", wanted.c_str());
    std::fflush(stdout);
}

nlohmann::ordered_json to_json(const Row& row) {
    const Case& what = row.what;
    return {{"memory", memory_name(what)},
            {"policy", policy_name(what)},
            {"load", load_name(what)},
            {"geometry", shape_of(what)},
            {"aggregators", what.aggregators},
            {"size", size_name(what)},
            {"cpus", what.cpus},
            {"back_mib", what.back_mib},
            {"tuples", what.tuples()},
            {"floor_parts", floor_name(row)},
            {"ns_feeding", row.feeding},
            {"ns_floor", row.floor},
            {"ns_switch", row.subject},
            {"ratio_to_floor", row.ratio},
            {"ns_tuple", row.subject / what.tuples()},
            {"ns_tuple_above_floor", row.more},
            {"wanted", to_string(wanted_of(what), row)},
            {"aggregated", row.aggregated},
            {"taken_by_back", row.back}};
}

const std::array<Geometry, 5> kGeometries{Geometry{.short_slots = 16, .groups = 0, .m = 0, .rows = 1},
                                          Geometry{.short_slots = 32, .groups = 0, .m = 0, .rows = 1},
                                          Geometry{.short_slots = 32, .groups = 0, .m = 0, .rows = 2},
                                          Geometry{.short_slots = 32, .groups = 0, .m = 0, .rows = 4},
                                          Geometry{.short_slots = 16, .groups = 8, .m = 2, .rows = 4}};

// A back level that all tuples find their keys in, of each group.
void add_back_cases(const Settings& settings, std::vector<Case>& cases) {
    for (const unsigned group : {ASK_BACK_8, ASK_BACK_16, ASK_BACK_32, ASK_BACK_64}) {
        for (const std::uint32_t mib :
             settings.quick ? std::vector{1U, 64U} : std::vector{1U, 64U, 512U, 2048U}) {
            cases.push_back({.load = Load::kBack,
                             .geometry = kGeometries[3],
                             .aggregators = 64,
                             .back_mib = mib,
                             .group = group});
        }
    }
}

// Every geometry and size with hits; what else can happen to a packet at the middle size, with four rows.
std::vector<Case> all_cases(const Settings& settings) {
    std::vector<Case> cases;
    for (const unsigned size : settings.quick ? std::vector{10U, 15U} : std::vector{5U, 10U, 15U, 18U, 20U}) {
        for (const Geometry& geometry : kGeometries) {
            for (const std::uint32_t memory : {ASK_MEMORY_PIPELINES, ASK_MEMORY_SHARED}) {
                cases.push_back({.memory = memory, .geometry = geometry, .aggregators = 1U << size});
            }
        }
    }
    for (const std::uint32_t memory : {ASK_MEMORY_PIPELINES, ASK_MEMORY_SHARED}) {
        for (const std::uint32_t policy : {ASK_POLICY_FIRST_COME, ASK_POLICY_REPLACE}) {
            for (const Load load : {Load::kHits, Load::kBlank, Load::kMisses, Load::kSeen}) {
                cases.push_back(
                    {.memory = memory, .policy = policy, .load = load, .geometry = kGeometries[3]});
            }
        }
        cases.push_back({.memory = memory, .geometry = kGeometries[3], .cpus = 2});
        for (const std::uint32_t aggregators : {1U << 10U, 1U << 15U}) {
            cases.push_back(
                {.memory = memory, .geometry = kGeometries[3], .aggregators = aggregators, .sized = false});
        }
    }
    for (const Geometry& geometry : {kGeometries[1], kGeometries[3]}) {
        cases.push_back({.geometry = geometry, .aggregators = 1U << 10U, .back_mib = 64});
    }
    add_back_cases(settings, cases);
    return cases;
}

std::string draw_costs(const std::vector<Row>& rows) {
    Plot plot{.title = "The switch program and its floor, pipelines, hits, 2^15 aggregators an AA",
              .x_label = "tuples a packet",
              .y_label = "ns a packet",
              .series = {{.name = "switch", .points = {}}, {.name = "floor", .points = {}}}};
    for (const Row& row : rows) {
        const Case& what = row.what;
        if (what.memory != ASK_MEMORY_PIPELINES || what.policy != ASK_POLICY_FIRST_COME ||
            what.load != Load::kHits || what.cpus != 1 || what.geometry.groups != 0 ||
            what.aggregators != 1U << 15U || *floor_name(row) != '\0') {
            continue;
        }
        const auto tuples = static_cast<double>(what.tuples());
        plot.series[0].points.push_back({tuples, row.subject});
        if (row.floor != 0) {
            plot.series[1].points.push_back({tuples, row.floor});
        }
    }
    return draw(plot);
}

Result<> write_results(const Settings& settings, const std::vector<Row>& rows) {
    std::vector<nlohmann::ordered_json> lines;
    lines.reserve(rows.size());
    for (const Row& row : rows) {
        lines.push_back(to_json(row));
    }
    nlohmann::ordered_json json = describe_machine();
    json["cases"] = lines;
    ASK_PASS(write_file(settings.out + "/switch.json", json.dump(2) + "\n"));
    ASK_PASS(write_file(settings.out + "/switch.csv", to_csv(lines)));
    return write_file(settings.out + "/switch.svg", draw_costs(rows));
}

Result<> run(const Settings& settings) {
    std::vector<Row> rows;
    print_head();
    const auto add = [&](const Case& what, const FloorParts& parts) -> Result<> {
        if (name_of(what).find(settings.only) == std::string::npos) {
            return {};
        }
        auto row = run_case(what, parts, settings);
        ASK_PASS(row);
        print(*row);
        rows.push_back(*row);
        return {};
    };
    for (const Case& what : all_cases(settings)) {
        ASK_PASS(add(what, {}));
    }
    for (const Geometry& geometry : {kGeometries[1], kGeometries[3]}) {
        ASK_PASS(add({.geometry = geometry}, {.check = false, .dedupe = true}));
        ASK_PASS(add({.geometry = geometry}, {.check = true, .dedupe = false}));
    }
    return write_results(settings, rows);
}

}  // namespace
}  // namespace ask::bench

int main(int argc, char** argv) {
    ask::bench::Settings settings;
    CLI::App app("What a packet costs the switch program; start it by tools/bench switch.",
                 "ask-bench-switch");
    app.add_option("--out", settings.out)->required();
    app.add_option("--only", settings.only);
    app.add_flag("--quick", settings.quick);
    CLI11_PARSE(app, argc, argv);
    libbpf_set_print(nullptr);
    const auto done = ask::bench::run(settings);
    if (!done) {
        std::fprintf(stderr, "ask-bench-switch: %s\n", done.error().text().c_str());
        return static_cast<int>(done.error().code());
    }
    return 0;
}
