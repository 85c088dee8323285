// SPDX-License-Identifier: Apache-2.0
//
// What a figure leaves behind: rows for its CSV, plots, and what the paper says about it beside what came
// out.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bench/common/plot.h"
#include "lib/placement/contenders.h"
#include "lib/placement/topologies.h"

namespace ask::bench {

struct Settings {
    std::string out;   // a directory
    std::string text;  // the file whose words are counted
    bool quick = false;

    [[nodiscard]] std::uint32_t seeds() const { return quick ? 2 : 10; }
};

// Ends the program: a bench that cannot go on has nothing else to do.
[[noreturn]] void die(const std::string& text);

// Mean and sample standard deviation of what has been added.
class Sample {
 public:
    void add(double value) { values_.push_back(value); }
    [[nodiscard]] std::size_t count() const { return values_.size(); }
    [[nodiscard]] double mean() const;
    [[nodiscard]] double deviation() const;
    [[nodiscard]] double median() const;

 private:
    std::vector<double> values_;
};

// Samples by series and x, in the order in which the series first appeared.
class Samples {
 public:
    void add(const std::string& series, double x, double value);
    [[nodiscard]] double mean(const std::string& series, double x) const;
    [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
    [[nodiscard]] std::vector<double> xs(const std::string& series) const;
    [[nodiscard]] std::vector<Series> series() const;
    // True if the means of this series never rise (fall) by more than `slack` from one x to the next.
    [[nodiscard]] bool never_rises(const std::string& series, double slack = 1e-9) const;
    [[nodiscard]] bool never_falls(const std::string& series, double slack = 1e-9) const;

    friend class Results;

 private:
    std::vector<std::string> names_;
    std::map<std::string, std::map<double, Sample>> samples_;
};

// Collects and writes. A file that cannot be written ends the program.
class Results {
 public:
    explicit Results(const Settings& settings) : settings_(settings) {}

    // FIGURE.csv: series, x, mean, standard deviation, count.
    void csv(const std::string& file, const std::string& x_name, const Samples& samples) const;
    void file(const std::string& name, const std::string& content) const;
    void plot(const std::string& file, const Plot& plot) const;

    // Something the paper says of `figure`, what was measured, and whether the two agree.
    void check(const std::string& figure, const std::string& claim, const std::string& measured, bool agrees);
    // A figure without a claim of the paper behind it.
    void note(const std::string& figure, const std::string& what, const std::string& measured);

    // Prints the checks, writes checks.csv and summary.json.
    void finish() const;

 private:
    struct Check {
        std::string figure;
        std::string claim;
        std::string measured;
        std::string verdict;  // "agrees", "DIFFERS" or "measured"
    };

    const Settings& settings_;
    std::vector<Check> checks_;
};

enum class Load : std::uint8_t { kUniform, kPowerLaw };
[[nodiscard]] const char* load_name(Load load);

// BT(n) with the paper's loads (uniform 4..6, power law 1..63 with mean 5).
[[nodiscard]] placement::TreeSpec loaded_binary(std::uint32_t n, placement::RateScheme rates, Load load,
                                                placement::Random& random);
[[nodiscard]] placement::Tree build(placement::TreeSpec spec);

[[nodiscard]] std::string fixed(double value, int digits = 3);
[[nodiscard]] std::string percent(double share);

// The figures.
void run_example(const Settings& settings, Results& results);
void run_strategies(const Settings& settings, Results& results);
void run_workloads(const Settings& settings, Results& results);
void run_messages(const Settings& settings, Results& results);
void run_time(const Settings& settings, Results& results);
void run_scaling(const Settings& settings, Results& results);
void run_scale_free(const Settings& settings, Results& results);

}  // namespace ask::bench
