// SPDX-License-Identifier: Apache-2.0
//
// ask-bench-tool: what cases that are scripts share with those that are programs. `plot` draws lines of
// `series<TAB>x<TAB>y` from standard input as SVG, `machine` says as JSON where it runs.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

#include "bench/common/machine.h"
#include "bench/common/plot.h"

namespace {

std::optional<double> number(std::string_view text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// Adds the line's point to its series, in the order in which series turn up.
bool add(ask::bench::Plot& plot, std::string_view line) {
    const std::size_t first = line.find('\t');
    const std::size_t second = line.find('\t', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) {
        return false;
    }
    const auto x = number(line.substr(first + 1, second - first - 1));
    const auto y = number(line.substr(second + 1));
    if (!x || !y) {
        return false;
    }
    const std::string name(line.substr(0, first));
    auto series = std::ranges::find(plot.series, name, &ask::bench::Series::name);
    if (series == plot.series.end()) {
        series = plot.series.insert(series, {.name = name, .points = {}});
    }
    series->points.push_back({.x = *x, .y = *y});
    return true;
}

int draw_input(ask::bench::Plot& plot) {
    std::size_t count = 0;
    for (std::string line; std::getline(std::cin, line);) {
        ++count;
        if (!add(plot, line)) {
            std::fprintf(stderr, "ask-bench-tool: line %zu: expected series<TAB>x<TAB>y\n", count);
            return 2;
        }
    }
    if (count == 0) {
        std::fputs("ask-bench-tool: no lines\n", stderr);
        return 2;
    }
    std::fputs(draw(plot).c_str(), stdout);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    ask::bench::Plot plot;
    CLI::App app("Plots, and where they were measured.", "ask-bench-tool");
    app.require_subcommand(1);
    CLI::App& draw = *app.add_subcommand("plot", "series<TAB>x<TAB>y lines as SVG");
    draw.add_option("--title", plot.title)->required();
    draw.add_option("--x", plot.x_label, "label of the x axis")->required();
    draw.add_option("--y", plot.y_label, "label of the y axis")->required();
    draw.add_flag("--log-x", plot.log_x);
    draw.add_flag("--log-y", plot.log_y);
    app.add_subcommand("machine", "machine, kernel and commit as JSON");
    CLI11_PARSE(app, argc, argv);
    if (draw.parsed()) {
        return draw_input(plot);
    }
    std::puts(ask::bench::describe_machine().dump().c_str());
    return 0;
}
