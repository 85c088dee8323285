// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/table.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "lib/text/escape.h"

namespace ask::cli {
namespace {

void append_cell(std::string& line, const std::string& cell, std::size_t width, Align align) {
    const std::size_t padding = width - std::min(width, cell.size());
    if (align == Align::kRight) {
        line.append(padding, ' ').append(cell);
    } else {
        line.append(cell).append(padding, ' ');
    }
}

std::string format(const char* pattern, double value) {
    std::array<char, 64> text{};
    // Patterns are literals of this file.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    std::snprintf(text.data(), text.size(), pattern, value);
#pragma GCC diagnostic pop
    return text.data();
}

}  // namespace

void Table::add(std::vector<std::string> cells) {
    cells.resize(columns_.size());
    for (std::string& cell : cells) {
        cell = escaped(cell);
    }
    rows_.push_back(std::move(cells));
}

std::vector<std::size_t> Table::widths() const {
    std::vector<std::size_t> widths;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
        std::size_t width = columns_[i].title.size();
        for (const auto& row : rows_) {
            width = std::max(width, row[i].size());
        }
        widths.push_back(width);
    }
    return widths;
}

std::string Table::text() const {
    const std::vector<std::size_t> width = widths();
    std::string out;
    const auto add_line = [&](const auto& cell_of) {
        std::string line;
        for (std::size_t i = 0; i < columns_.size(); ++i) {
            line.append(i == 0 ? "" : "  ");
            append_cell(line, cell_of(i), width[i], columns_[i].align);
        }
        line.erase(line.find_last_not_of(' ') + 1);
        out += line + "\n";
    };
    if (!std::ranges::all_of(columns_, [](const Column& column) { return column.title.empty(); })) {
        add_line([this](std::size_t i) -> const std::string& { return columns_[i].title; });
    }
    for (const auto& row : rows_) {
        add_line([&row](std::size_t i) -> const std::string& { return row[i]; });
    }
    return out;
}

std::string grouped(std::uint64_t number) {
    std::string digits = std::to_string(number);
    for (std::size_t at = digits.size(); at > 3; at -= 3) {
        digits.insert(at - 3, ",");
    }
    return digits;
}

std::string bytes_text(std::uint64_t bytes) {
    if (bytes < 1024) {
        return std::to_string(bytes) + " B";
    }
    const double kib = static_cast<double>(bytes) / 1024;
    if (kib < 1024) {
        return format("%.1f KiB", kib);
    }
    return kib < 1024 * 1024 ? format("%.1f MiB", kib / 1024) : format("%.1f GiB", kib / 1024 / 1024);
}

std::string percent(std::uint64_t part, std::uint64_t whole) {
    return whole == 0 ? "-"
                      : format("%.1f %%", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string duration_text(double seconds) {
    if (seconds < 10) {
        return format("%.1f s", std::max(seconds, 0.0));
    }
    const auto whole = static_cast<std::uint64_t>(seconds);
    if (whole < 60) {
        return std::to_string(whole) + " s";
    }
    if (whole < 3600) {
        return std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s";
    }
    if (whole < 86400) {
        return std::to_string(whole / 3600) + " h " + std::to_string(whole / 60 % 60) + " min";
    }
    return std::to_string(whole / 86400) + " d " + std::to_string(whole / 3600 % 24) + " h";
}

}  // namespace ask::cli
