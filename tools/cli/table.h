// SPDX-License-Identifier: Apache-2.0
//
// Plain text tables: columns as wide as they need, numbers to the right.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ask::cli {

enum class Align : std::uint8_t { kLeft, kRight };

class Table {
 public:
    struct Column {
        std::string title;
        Align align = Align::kLeft;
    };
    explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
    // A cell a column; control bytes in a cell are escaped.
    void add(std::vector<std::string> cells);
    [[nodiscard]] bool empty() const { return rows_.empty(); }
    // Lines, the titles first unless all are empty; two blanks between columns, none at a line's end.
    [[nodiscard]] std::string text() const;

 private:
    [[nodiscard]] std::vector<std::size_t> widths() const;
    std::vector<Column> columns_;
    std::vector<std::vector<std::string>> rows_;
};

// "1234567" as "1,234,567".
[[nodiscard]] std::string grouped(std::uint64_t number);
// "1.5 MiB".
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);
// "12.3 %"; "-" of nothing.
[[nodiscard]] std::string percent(std::uint64_t part, std::uint64_t whole);
// "2 d 3 h", "5 min 3 s", "12 s", "0.4 s".
[[nodiscard]] std::string duration_text(double seconds);

}  // namespace ask::cli
