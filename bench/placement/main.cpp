// SPDX-License-Identifier: Apache-2.0
//
// ask-bench-placement: the figures of SOAR's evaluation again. bench/placement/run calls it.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "bench/placement/results.h"

namespace {

struct Figure {
    const char* name;
    void (*run)(const ask::bench::Settings&, ask::bench::Results&);
};

constexpr Figure kFigures[] = {
    {"example", ask::bench::run_example},
    {"strategies", ask::bench::run_strategies},
    {"workloads", ask::bench::run_workloads},
    {"messages", ask::bench::run_messages},
    {"time", ask::bench::run_time},
    {"scaling", ask::bench::run_scaling},
    {"scale-free", ask::bench::run_scale_free},
};

}  // namespace

int main(int argc, char** argv) {
    CLI::App app{"SOAR's figures as CSV and SVG, and whether they look as the paper says."};
    ask::bench::Settings settings;
    std::vector<std::string> only;
    app.add_option("--out", settings.out, "directory for the results")->required();
    app.add_option("--text", settings.text, "text to count words in")->required();
    app.add_flag("--quick", settings.quick, "two seeds, smaller trees");
    app.add_option("--only", only, "some of the figures")->delimiter(',');
    CLI11_PARSE(app, argc, argv);

    for (const std::string& name : only) {
        if (std::none_of(std::begin(kFigures), std::end(kFigures),
                         [&](const Figure& f) { return name == f.name; })) {
            std::fprintf(stderr, "bench placement: no figure '%s'\n", name.c_str());
            return 2;
        }
    }
    ask::bench::Results results(settings);
    for (const Figure& figure : kFigures) {
        if (only.empty() || std::find(only.begin(), only.end(), figure.name) != only.end()) {
            std::fprintf(stderr, "bench placement: %s\n", figure.name);
            figure.run(settings, results);
        }
    }
    results.finish();
    return 0;
}
