// SPDX-License-Identifier: Apache-2.0
//
// Line plots as SVG: as much as the figures here need.
#pragma once

#include <string>
#include <vector>

namespace ask::bench {

struct Point {
    double x = 0;
    double y = 0;
    double error = 0;  // half the height of the error bar; 0: none
};

struct Series {
    std::string name;
    std::vector<Point> points;
};

struct Plot {
    std::string title;
    std::string x_label;
    std::string y_label;
    bool log_x = false;
    bool log_y = false;  // otherwise the axis starts at 0
    std::vector<Series> series;
};

[[nodiscard]] std::string draw(const Plot& plot);

}  // namespace ask::bench
