// SPDX-License-Identifier: Apache-2.0
//
// columns GROUP RANK SIZE ROOT < ROWS
//
// Rows of equally many numbers, some at each member: the mean and the variance of every column over all of
// them, printed by each member.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include <ask.hpp>

namespace {

struct Sums {
    double rows = 0;
    std::vector<double> of_values;
    std::vector<double> of_squares;
};

Sums read_rows(std::istream& from) {
    Sums sums;
    for (std::string line; std::getline(from, line); sums.rows += 1) {
        std::istringstream row(line);
        double value = 0;
        for (std::size_t column = 0; row >> value; ++column) {
            if (column == sums.of_values.size()) {
                sums.of_values.push_back(0);
                sums.of_squares.push_back(0);
            }
            sums.of_values[column] += value;
            sums.of_squares[column] += value * value;
        }
    }
    return sums;
}

void run(ask::Group& group) {
    Sums sums = read_rows(std::cin);
    // Who has no rows takes part with zeros: all must pass equally many values.
    const auto columns = group.allreduce(sums.of_values.size(), ask::Op::kMax);
    sums.of_values.resize(columns);
    sums.of_squares.resize(columns);
    // Both under way at once, in place.
    ask::Request values = group.iallreduce(sums.of_values);
    ask::Request squares = group.iallreduce(sums.of_squares);
    const double rows = group.allreduce(sums.rows);
    values.wait();
    squares.wait();
    for (std::size_t column = 0; column < columns; ++column) {
        const double mean = sums.of_values[column] / rows;
        std::printf("%.6f %.6f\n", mean, sums.of_squares[column] / rows - mean * mean);
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 5) {
        std::cerr << "usage: columns GROUP RANK SIZE ROOT < ROWS\n";
        return ASK_E_USAGE;
    }
    try {
        ask::Group group({.group = argv[1],
                          .root = argv[4],
                          .rank = static_cast<std::uint32_t>(std::strtoul(argv[2], nullptr, 10)),
                          .size = static_cast<std::uint32_t>(std::strtoul(argv[3], nullptr, 10))});
        run(group);
    } catch (const ask::Error& error) {
        std::cerr << "columns: " << error.what() << " (" << ask_code_name(static_cast<int>(error.code()))
                  << ")\n";
        return static_cast<int>(error.code());
    }
    return 0;
}
