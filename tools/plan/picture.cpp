// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/picture.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ask::plan {
namespace {

constexpr double kColumn = 64;  // pixels between leaves
constexpr double kRow = 80;     // pixels between levels
constexpr double kRadius = 16;
constexpr double kMargin = 48;

constexpr std::string_view kBlue = "#4a7fc1";
constexpr std::string_view kRed = "#f2d7d5";

std::string dot_quoted(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            out += '\\';
        }
        out += c;
    }
    return out + "\"";
}

std::string xml_escaped(std::string_view text) {
    std::string out;
    for (const char c : text) {
        switch (c) {
            case '<':
                out += "&lt;";
                break;
            case '>':
                out += "&gt;";
                break;
            case '&':
                out += "&amp;";
                break;
            case '"':
                out += "&quot;";
                break;
            default:
                out += c;
        }
    }
    return out;
}

struct Place {
    double x = 0;
    double y = 0;
};

// Nodes by number: 0 is the destination, i + 1 the lower end of link i. Returns the upper end of every link.
std::vector<std::size_t> upper_ends(const Report& report) {
    std::unordered_map<std::string_view, std::size_t> node;
    for (std::size_t at = 0; at < report.links.size(); ++at) {
        node.emplace(report.links[at].from, at + 1);
    }
    std::vector<std::size_t> upper(report.links.size(), 0);
    for (std::size_t at = 1; at < report.links.size(); ++at) {  // link 0 is the root's
        upper[at] = node.at(report.links[at].to);
    }
    return upper;
}

// A layered drawing: leaves side by side in the order of their tree, every other switch above the middle of
// its children.
std::vector<Place> lay_out(const std::vector<std::size_t>& upper) {
    const std::size_t count = upper.size() + 1;
    std::vector<std::vector<std::size_t>> children(count);
    std::vector<Place> place(count);
    for (std::size_t at = 0; at < upper.size(); ++at) {
        children[upper[at]].push_back(at + 1);
        place[at + 1].y = place[upper[at]].y + kRow;
    }
    double next = 0;
    std::vector<std::pair<std::size_t, std::size_t>> stack{{0, 0}};
    while (!stack.empty()) {
        auto& [id, done] = stack.back();
        if (done < children[id].size()) {
            const std::size_t child = children[id][done++];
            stack.emplace_back(child, 0);
            continue;
        }
        if (children[id].empty()) {
            place[id].x = next;
            next += kColumn;
        } else {
            place[id].x = (place[children[id].front()].x + place[children[id].back()].x) / 2;
        }
        stack.pop_back();
    }
    return place;
}

std::string text_at(Place at, std::string_view anchor, const std::string& text) {
    return "<text x=\"" + number_text(at.x) + "\" y=\"" + number_text(at.y) + "\" text-anchor=\"" +
           std::string(anchor) + "\">" + xml_escaped(text) + "</text>\n";
}

std::string draw_link(const Link& link, Place from, Place to) {
    const Place middle{.x = (from.x + to.x) / 2 + 6, .y = (from.y + to.y) / 2};
    return "<line x1=\"" + number_text(from.x) + "\" y1=\"" + number_text(from.y) + "\" x2=\"" +
           number_text(to.x) + "\" y2=\"" + number_text(to.y) + "\" stroke=\"#555\"/>\n" +
           text_at(middle, "start", number_text(link.messages));
}

std::string draw_switch(const Link& link, Place at) {
    return "<circle cx=\"" + number_text(at.x) + "\" cy=\"" + number_text(at.y) + "\" r=\"" +
           number_text(kRadius) + "\" fill=\"" + std::string(link.aggregates ? kBlue : kRed) +
           "\" stroke=\"#333\"><title>" + xml_escaped(link.from) +
           (link.aggregates ? ": aggregates" : ": forwards") + ", " + number_text(link.messages) +
           " messages up" + "</title></circle>\n" +
           text_at({.x = at.x, .y = at.y + kRadius + 13}, "middle", link.from);
}

}  // namespace

std::string picture_dot(const Report& report) {
    std::string out = "digraph plan {\n  rankdir=BT;\n  node [style=filled, fillcolor=\"" +
                      std::string(kRed) +
                      "\", shape=circle];\n  n0 [label=" + dot_quoted(report.destination) +
                      ", shape=square, fillcolor=white];\n";
    const std::vector<std::size_t> upper = upper_ends(report);
    for (std::size_t at = 0; at < report.links.size(); ++at) {
        const Link& link = report.links[at];
        const std::string node = "  n" + std::to_string(at + 1);
        out += node + " [label=" + dot_quoted(link.from) +
               (link.aggregates ? ", fillcolor=\"" + std::string(kBlue) + "\"" : "") + "];\n";
        out +=
            node + " -> n" + std::to_string(upper[at]) + " [label=\"" + number_text(link.messages) + "\"];\n";
    }
    return out + "}\n";
}

Result<std::string> picture_svg(const Report& report) {
    if (report.links.size() > kMaxDrawnSwitches) {
        return Error(Errc::kLimit,
                     std::to_string(report.links.size()) + " switches are too many for a picture (limit " +
                         std::to_string(kMaxDrawnSwitches) + "); use --dot and Graphviz's sfdp");
    }
    const std::vector<std::size_t> upper = upper_ends(report);
    std::vector<Place> place = lay_out(upper);
    double width = 0;
    double height = 0;
    for (Place& each : place) {
        each.x += kMargin;
        each.y += kMargin;
        width = std::max(width, each.x + kMargin);
        height = std::max(height, each.y + kMargin);
    }
    std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + number_text(width) +
                      "\" height=\"" + number_text(height) +
                      "\" font-family=\"sans-serif\" font-size=\"11\">\n" +
                      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
    for (std::size_t at = 0; at < report.links.size(); ++at) {
        out += draw_link(report.links[at], place[at + 1], place[upper[at]]);
    }
    const Place top = place[0];
    out += "<rect x=\"" + number_text(top.x - kRadius) + "\" y=\"" + number_text(top.y - kRadius) +
           "\" width=\"" + number_text(2 * kRadius) + "\" height=\"" + number_text(2 * kRadius) +
           "\" fill=\"white\" stroke=\"#333\"/>\n" +
           text_at({.x = top.x, .y = top.y - kRadius - 6}, "middle", report.destination);
    for (std::size_t at = 0; at < report.links.size(); ++at) {
        out += draw_switch(report.links[at], place[at + 1]);
    }
    return out + "</svg>\n";
}

}  // namespace ask::plan
