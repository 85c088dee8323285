// SPDX-License-Identifier: Apache-2.0
//
// Fig. 8: bytes instead of messages, for a parameter server and a word count, on BT(256) with constant rates;
// and what optimising for bytes adds to optimising for messages.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "bench/placement/results.h"
#include "lib/placement/soar.h"

namespace ask::bench {
namespace {

using placement::Objective;
using placement::SizeModel;
using placement::Strategy;

constexpr std::uint32_t kCountedBudgets[] = {0, 1, 2, 4, 8, 16, 32, 64};
constexpr std::uint32_t kFeatures = 10000;
constexpr double kDropout = 0.5;
constexpr double kBytesPerValue = 8;  // which feature, and its value
// The mean number of servers on BT(256): 128 leaves of 5. The paper's word count splits its text among all
// servers.
constexpr std::uint32_t kShards = 640;

std::string read_text(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        die("cannot read " + path);
    }
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<placement::SizePoint> measure(const Settings& settings) {
    auto points = placement::measure_word_count(read_text(settings.text), kShards, settings.quick ? 1 : 5, 1);
    if (!points.ok()) {
        die(settings.text + ": " + points.error().text());
    }
    return std::move(*points);
}

struct Application {
    std::string name;
    SizeModel model;
};

struct Figure8 {
    Samples messages;  // a: share of all-red
    Samples bytes;     // b: share of all-red
    Samples all_blue;  // c: multiple of all-blue
    Samples by_bytes;  // share of all-red when SOAR minimises bytes
};

void run_seed(std::uint32_t seed, Load load, const std::vector<Application>& applications, Figure8& figure) {
    placement::Random random(seed);
    const placement::Tree tree = build(loaded_binary(256, placement::RateScheme::kConstant, load, random));
    const placement::Problem messages = make_problem(tree, Objective::kUtilisation);
    const placement::Soar soar = placement::Soar::gather(messages, 64).value();
    const auto everywhere = place(Strategy::kAllBlue, messages, 0).value();
    for (const Application& application : applications) {
        const placement::Problem bytes = make_problem(tree, Objective::kBytes, application.model);
        const placement::Soar least = placement::Soar::gather(bytes, 64).value();
        const double all_red = evaluate(bytes, {}).total;
        const double all_blue = evaluate(bytes, everywhere).total;
        const std::string name = application.name + ", " + load_name(load);
        for (const std::uint32_t k : kCountedBudgets) {
            const double cost = evaluate(bytes, soar.colour(k)).total;
            figure.messages.add(name, k, soar.cost(k) / soar.cost(0));
            figure.bytes.add(name, k, cost / all_red);
            figure.all_blue.add(name, k, cost / all_blue);
            figure.by_bytes.add(name, k, least.cost(k) / all_red);
        }
    }
}

void write(const Results& results, const Figure8& figure) {
    const auto one = [&](const char* file, const char* title, const char* y, const Samples& samples) {
        results.csv(file, "k", samples);
        results.plot(
            file,
            {.title = title, .x_label = "aggregating switches k", .y_label = y, .series = samples.series()});
    };
    one("fig8a-utilisation", "utilisation", "messages / all-red", figure.messages);
    one("fig8b-bytes", "bytes, SOAR for messages", "bytes / all-red", figure.bytes);
    one("fig8c-all-blue", "bytes against aggregating everywhere", "bytes / all-blue", figure.all_blue);
    one("bytes-objective", "bytes, SOAR for bytes", "bytes / all-red", figure.by_bytes);
}

double largest_gap(const Samples& a, const Samples& b, const std::string& series) {
    double gap = 0;
    for (const std::uint32_t k : kCountedBudgets) {
        gap = std::max(gap, std::abs(a.mean(series, k) - b.mean(series, k)));
    }
    return gap;
}

void judge(Results& results, const Figure8& figure) {
    const std::string loads[] = {load_name(Load::kUniform), load_name(Load::kPowerLaw)};
    bool same = true;
    bool skew = true;
    bool diminished = true;
    for (const std::uint32_t k : kCountedBudgets) {
        for (const std::string& load : loads) {
            same = same && figure.messages.mean("WC, " + load, k) == figure.messages.mean("PS, " + load, k);
            diminished = diminished && (k == 0 || figure.bytes.mean("WC, " + load, k) >
                                                      figure.messages.mean("WC, " + load, k));
        }
        skew = skew && (k == 0 || figure.messages.mean("WC, " + loads[1], k) <
                                      figure.messages.mean("WC, " + loads[0], k));
    }
    results.check("Fig. 8a", "the utilisation does not depend on the application",
                  same ? "equal" : "not equal", same);
    results.check("Fig. 8a", "SOAR gains more on the power law than on the uniform load",
                  "share at k = 16: " + fixed(figure.messages.mean("WC, power-law", 16)) + " against " +
                      fixed(figure.messages.mean("WC, uniform", 16)),
                  skew);
    for (const std::string& load : loads) {
        const double gap = largest_gap(figure.bytes, figure.messages, "PS, " + load);
        results.check("Fig. 8b", "PS, " + load + ": bytes are very similar to utilisation",
                      "largest difference of the shares " + fixed(gap), gap < 0.1);
    }
    results.check("Fig. 8b", "WC: bytes improve less than utilisation",
                  "power-law at k = 16: " + fixed(figure.bytes.mean("WC, power-law", 16)) + " against " +
                      fixed(figure.messages.mean("WC, power-law", 16)),
                  diminished);
    for (const std::string& load : loads) {
        const double wc = figure.all_blue.mean("WC, " + load, 16);
        const double ps = figure.all_blue.mean("PS, " + load, 16);
        results.check(
            "Fig. 8c",
            "WC, " + load + ": a few aggregating switches come very close to all-blue, PS needs many more",
            "multiple of all-blue at k = 16: WC " + fixed(wc) + ", PS " + fixed(ps), wc < 1.5 && wc < ps);
    }
    for (const char* name : {"WC, uniform", "WC, power-law", "PS, uniform", "PS, power-law"}) {
        results.note("bytes",
                     std::string(name) + ": SOAR for bytes against SOAR for messages, bytes at k = 16",
                     fixed(figure.by_bytes.mean(name, 16), 4) + " against " +
                         fixed(figure.bytes.mean(name, 16), 4) + " of all-red");
    }
}

}  // namespace

void run_messages(const Settings& settings, Results& results) {
    const std::vector<placement::SizePoint> points = measure(settings);
    std::string csv = "servers,bytes\n";
    for (const placement::SizePoint& point : points) {
        csv += std::to_string(point.servers) + "," + fixed(point.bytes, 1) + "\n";
    }
    results.file("word-count-sizes.csv", csv);
    results.note("Fig. 8", "word-count message sizes from " + std::to_string(kShards) + " shards of the text",
                 fixed(points.front().bytes, 0) + " bytes for one server, " + fixed(points.back().bytes, 0) +
                     " for all");
    const std::vector<Application> applications = {
        {"WC", SizeModel::measured(points).value()},
        {"PS", SizeModel::parameter_server(kFeatures, kDropout, kBytesPerValue).value()}};
    Figure8 figure;
    for (const Load load : {Load::kUniform, Load::kPowerLaw}) {
        for (std::uint32_t seed = 0; seed < settings.seeds(); ++seed) {
            run_seed(seed, load, applications, figure);
        }
    }
    write(results, figure);
    judge(results, figure);
}

}  // namespace ask::bench
