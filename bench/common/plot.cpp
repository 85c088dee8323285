// SPDX-License-Identifier: Apache-2.0
#include "bench/common/plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

namespace ask::bench {
namespace {

constexpr double kWidth = 620;
constexpr double kHeight = 360;
constexpr double kLeft = 64;
constexpr double kRight = 210;  // the legend
constexpr double kTop = 36;
constexpr double kBottom = 48;

constexpr std::array<const char*, 8> kColours = {"#1b5e9e", "#c0392b", "#2e8b57", "#8e44ad",
                                                 "#d68910", "#16a085", "#7f8c8d", "#34495e"};

std::string number(double value) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.4g", value);
    return text.data();
}

std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) {
        out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
    }
    return out;
}

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
    return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + anchor + "\">" +
           escaped(text) + "</text>\n";
}

std::string line(double x1, double y1, double x2, double y2, const char* colour, double width) {
    return "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) + "\" y2=\"" +
           number(y2) + "\" stroke=\"" + colour + "\" stroke-width=\"" + number(width) + "\"/>\n";
}

// One axis: from values to pixels, and where its marks are.
class Axis {
 public:
    Axis(bool log, double low, double high, double from, double to) : log_(log), from_(from), to_(to) {
        low_ = log ? std::log10(low) : low;
        high_ = log ? std::log10(high) : high;
        if (!(high_ > low_)) {
            high_ = low_ + 1;
        }
    }

    [[nodiscard]] double at(double value) const {
        const double place = log_ ? std::log10(value) : value;
        return from_ + (place - low_) / (high_ - low_) * (to_ - from_);
    }

    [[nodiscard]] std::vector<double> marks() const {
        std::vector<double> out;
        if (log_) {
            const double step = std::max(1.0, std::ceil((high_ - low_) / 6));
            for (double power = std::ceil(low_ - 1e-9); power <= high_ + 1e-9; power += step) {
                out.push_back(std::pow(10, power));
            }
            return out;
        }
        const double rough = (high_ - low_) / 5;
        const double unit = std::pow(10, std::floor(std::log10(rough)));
        const double step = unit * (rough / unit < 1.5   ? 1
                                    : rough / unit < 3.5 ? 2
                                    : rough / unit < 7.5 ? 5
                                                         : 10);
        for (double value = std::ceil(low_ / step) * step; value <= high_ * (1 + 1e-9); value += step) {
            out.push_back(value);
        }
        return out;
    }

 private:
    bool log_;
    double low_;
    double high_;
    double from_;
    double to_;
};

struct Range {
    double low = std::numeric_limits<double>::infinity();
    double high = -std::numeric_limits<double>::infinity();

    void add(double value) {
        low = std::min(low, value);
        high = std::max(high, value);
    }
};

// On a logarithmic axis, values without a logarithm are left out.
bool drawable(const Plot& plot, const Point& point) {
    return (!plot.log_x || point.x > 0) && (!plot.log_y || point.y > 0);
}

// The x values that occur are better marks than powers of ten when there are few of them.
std::vector<double> x_marks(const Plot& plot, const Axis& axis) {
    constexpr std::size_t kMost = 8;
    std::vector<double> values;
    for (const Series& each : plot.series) {
        for (const Point& point : each.points) {
            if (drawable(plot, point)) {
                values.push_back(point.x);
            }
        }
    }
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    return plot.log_x && values.size() <= kMost ? values : axis.marks();
}

std::string draw_axes(const Plot& plot, const Axis& x, const Axis& y) {
    const double right = kWidth - kRight;
    const double bottom = kHeight - kBottom;
    std::string out;
    for (const double value : x_marks(plot, x)) {
        out += line(x.at(value), kTop, x.at(value), bottom, "#e5e5e5", 1) +
               text_at(x.at(value), bottom + 16, "middle", number(value));
    }
    for (const double value : y.marks()) {
        out += line(kLeft, y.at(value), right, y.at(value), "#e5e5e5", 1) +
               text_at(kLeft - 6, y.at(value) + 4, "end", number(value));
    }
    out += line(kLeft, bottom, right, bottom, "#333", 1) + line(kLeft, kTop, kLeft, bottom, "#333", 1);
    out += text_at((kLeft + right) / 2, kHeight - 10, "middle", plot.x_label) +
           text_at((kLeft + right) / 2, 20, "middle", plot.title);
    const std::string middle = number((kTop + bottom) / 2);
    return out + "<text x=\"16\" y=\"" + middle + "\" text-anchor=\"middle\" transform=\"rotate(-90 16 " +
           middle + ")\">" + escaped(plot.y_label) + "</text>\n";
}

std::string draw_series(const Plot& plot, const Series& series, const Axis& x, const Axis& y,
                        const char* colour) {
    std::string path;
    std::string marks;
    for (const Point& point : series.points) {
        if (!drawable(plot, point)) {
            continue;
        }
        const double px = x.at(point.x);
        const double py = y.at(point.y);
        path += (path.empty() ? "M" : " L") + number(px) + " " + number(py);
        marks +=
            "<circle cx=\"" + number(px) + "\" cy=\"" + number(py) + "\" r=\"3\" fill=\"" + colour + "\"/>\n";
        const bool bar = point.error > 0 && (!plot.log_y || point.error < point.y);
        if (bar) {
            marks += line(px, y.at(point.y - point.error), px, y.at(point.y + point.error), colour, 1);
        }
    }
    return "<path d=\"" + path + "\" fill=\"none\" stroke=\"" + colour + "\" stroke-width=\"1.6\"/>\n" +
           marks;
}

}  // namespace

std::string draw(const Plot& plot) {
    Range xs;
    Range ys;
    for (const Series& each : plot.series) {
        for (const Point& point : each.points) {
            if (drawable(plot, point)) {
                xs.add(point.x);
                ys.add(point.y + point.error);
                ys.add(plot.log_y ? point.y : 0);
            }
        }
    }
    const Axis x(plot.log_x, xs.low, xs.high, kLeft + 8, kWidth - kRight - 8);
    const Axis y(plot.log_y, ys.low, ys.high, kHeight - kBottom, kTop);
    std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + number(kWidth) + "\" height=\"" +
                      number(kHeight) + "\" font-family=\"sans-serif\" font-size=\"12\">\n" +
                      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n" + draw_axes(plot, x, y);
    // The first series is the one to see: it is drawn last.
    for (std::size_t at = plot.series.size(); at-- > 0;) {
        const char* colour = kColours[at % kColours.size()];
        const double legend = kTop + 8 + 18 * static_cast<double>(at);
        out += draw_series(plot, plot.series[at], x, y, colour) +
               line(kWidth - kRight + 8, legend, kWidth - kRight + 28, legend, colour, 2) +
               text_at(kWidth - kRight + 34, legend + 4, "start", plot.series[at].name);
    }
    return out + "</svg>\n";
}

}  // namespace ask::bench
