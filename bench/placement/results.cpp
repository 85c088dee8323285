// SPDX-License-Identifier: Apache-2.0
#include "bench/placement/results.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <utility>

#include <nlohmann/json.hpp>

namespace ask::bench {
namespace {

std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
        out += c == '"' ? "\"\"" : std::string(1, c);
    }
    return out + "\"";
}

std::string number(double value) {
    std::array<char, 40> text{};
    std::snprintf(text.data(), text.size(), "%.9g", value);
    return text.data();
}

}  // namespace

void die(const std::string& text) {
    std::fprintf(stderr, "bench placement: %s\n", text.c_str());
    std::exit(1);  // NOLINT(concurrency-mt-unsafe): the bench itself runs on one thread
}

double Sample::mean() const {
    return std::accumulate(values_.begin(), values_.end(), 0.0) / static_cast<double>(values_.size());
}

double Sample::deviation() const {
    if (values_.size() < 2) {
        return 0;
    }
    const double middle = mean();
    double sum = 0;
    for (const double value : values_) {
        sum += (value - middle) * (value - middle);
    }
    return std::sqrt(sum / static_cast<double>(values_.size() - 1));
}

double Sample::median() const {
    std::vector<double> sorted = values_;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
}

void Samples::add(const std::string& series, double x, double value) {
    if (!samples_.contains(series)) {
        names_.push_back(series);
    }
    samples_[series][x].add(value);
}

double Samples::mean(const std::string& series, double x) const {
    return samples_.at(series).at(x).mean();
}

std::vector<double> Samples::xs(const std::string& series) const {
    std::vector<double> out;
    for (const auto& [x, sample] : samples_.at(series)) {
        out.push_back(x);
    }
    return out;
}

std::vector<Series> Samples::series() const {
    std::vector<Series> out;
    for (const std::string& name : names_) {
        Series made{.name = name, .points = {}};
        for (const auto& [x, sample] : samples_.at(name)) {
            made.points.push_back({.x = x, .y = sample.mean(), .error = sample.deviation()});
        }
        out.push_back(std::move(made));
    }
    return out;
}

bool Samples::never_rises(const std::string& series, double slack) const {
    double before = std::numeric_limits<double>::infinity();
    for (const auto& [x, sample] : samples_.at(series)) {
        if (sample.mean() > before + slack) {
            return false;
        }
        before = sample.mean();
    }
    return true;
}

bool Samples::never_falls(const std::string& series, double slack) const {
    double before = -std::numeric_limits<double>::infinity();
    for (const auto& [x, sample] : samples_.at(series)) {
        if (sample.mean() < before - slack) {
            return false;
        }
        before = sample.mean();
    }
    return true;
}

void Results::csv(const std::string& name, const std::string& x_name, const Samples& samples) const {
    std::string out = "series," + x_name + ",mean,stddev,runs\n";
    for (const std::string& series : samples.names_) {
        for (const auto& [x, sample] : samples.samples_.at(series)) {
            out += quoted(series) + "," + number(x) + "," + number(sample.mean()) + "," +
                   number(sample.deviation()) + "," + std::to_string(sample.count()) + "\n";
        }
    }
    file(name + ".csv", out);
}

void Results::file(const std::string& name, const std::string& content) const {
    const std::string path = settings_.out + "/" + name;
    std::ofstream stream(path, std::ios::binary | std::ios::trunc);
    stream << content;
    stream.close();
    if (!stream) {
        die("cannot write " + path);
    }
}

void Results::plot(const std::string& name, const Plot& plot) const {
    file(name + ".svg", draw(plot));
}

void Results::check(const std::string& figure, const std::string& claim, const std::string& measured,
                    bool agrees) {
    checks_.push_back({figure, claim, measured, agrees ? "agrees" : "DIFFERS"});
}

void Results::note(const std::string& figure, const std::string& what, const std::string& measured) {
    checks_.push_back({figure, what, measured, "measured"});
}

void Results::finish() const {
    std::string csv = "figure,claim,measured,verdict\n";
    nlohmann::ordered_json summary = {{"quick", settings_.quick}, {"seeds", settings_.seeds()}};
    summary["checks"] = nlohmann::ordered_json::array();
    for (const Check& each : checks_) {
        csv += quoted(each.figure) + "," + quoted(each.claim) + "," + quoted(each.measured) + "," +
               each.verdict + "\n";
        summary["checks"].push_back({{"figure", each.figure},
                                     {"claim", each.claim},
                                     {"measured", each.measured},
                                     {"verdict", each.verdict}});
        std::printf("%-8s  %-8s  %s\n                    %s\n", each.verdict.c_str(), each.figure.c_str(),
                    each.claim.c_str(), each.measured.c_str());
    }
    file("checks.csv", csv);
    file("summary.json", summary.dump(2) + "\n");
}

const char* load_name(Load load) {
    return load == Load::kUniform ? "uniform" : "power-law";
}

placement::TreeSpec loaded_binary(std::uint32_t n, placement::RateScheme rates, Load load,
                                  placement::Random& random) {
    placement::TreeSpec spec = placement::complete_binary(n, rates).value();
    const auto loaded = load == Load::kUniform ? placement::uniform_leaf_load(spec, 4, 6, random)
                                               : placement::power_law_leaf_load(spec, 1, 63, 5, random);
    if (!loaded.ok()) {
        die(loaded.error().text());
    }
    return spec;
}

placement::Tree build(placement::TreeSpec spec) {
    auto tree = placement::Tree::build(std::move(spec));
    if (!tree.ok()) {
        die(tree.error().text());
    }
    return std::move(*tree);
}

std::string fixed(double value, int digits) {
    std::array<char, 40> text{};
    std::snprintf(text.data(), text.size(), "%.*f", digits, value);
    return text.data();
}

std::string percent(double share) {
    return fixed(100 * share, 1) + " %";
}

}  // namespace ask::bench
