// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "bench/job/job.h"

namespace ask::bench {
namespace {

// Cumulated weights 1/rank^exponent; drawn from by bisection.
std::vector<double> zipf_weights(std::uint32_t keys, double exponent) {
    std::vector<double> weights(keys);
    double sum = 0;
    for (std::uint32_t rank = 0; rank < keys; ++rank) {
        sum += std::pow(rank + 1.0, -exponent);
        weights[rank] = sum;
    }
    return weights;
}

Result<> write_tally(const std::string& path, const std::vector<std::uint64_t>& counts) {
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(counts.data()),
               static_cast<std::streamsize>(counts.size() * sizeof(counts[0])));
    file.close();
    return file ? Result<>() : Error(Errc::kInternal, "cannot write " + path);
}

Result<> add_tally(const std::string& path, std::vector<std::uint64_t>& counts) {
    std::ifstream file(path, std::ios::binary);
    for (std::uint64_t& count : counts) {
        std::uint64_t more = 0;
        if (!file.read(reinterpret_cast<char*>(&more), sizeof(more))) {
            return Error(Errc::kInput, path + ": not a tally of " + std::to_string(counts.size()) + " keys");
        }
        count += more;
    }
    return {};
}

// Takes the line's key and count off what is still to come.
Result<> take_line(const std::string& line, int base, std::vector<std::uint64_t>& counts) {
    std::uint64_t key = 0;
    std::uint64_t count = 0;
    const char* const end = line.data() + line.size();
    const auto at = std::from_chars(line.data(), end, key, base);
    const bool tab = at.ec == std::errc() && at.ptr != end && *at.ptr == '\t';
    const auto last = tab ? std::from_chars(at.ptr + 1, end, count) : std::from_chars_result{line.data(), {}};
    if (!tab || last.ec != std::errc() || last.ptr != end || key >= counts.size() || count == 0 ||
        counts[key] != count) {
        return Error(Errc::kInput, "the answer is wrong in line '" + line + "'");
    }
    counts[key] = 0;
    return {};
}

Result<> write_line(std::string_view key) {
    const bool written =
        std::fwrite(key.data(), 1, key.size(), stdout) == key.size() && std::fputc('\n', stdout) != EOF;
    return written ? Result<>() : Error::from_errno(errno, "write a key");
}

Result<> write_number(std::uint32_t key, int base) {
    std::array<char, 16> text{};
    const char* const end = std::to_chars(text.data(), text.data() + text.size(), key, base).ptr;
    return write_line(std::string_view(text.data(), end));
}

}  // namespace

Result<> check_counts(const Generation& what, const std::vector<std::string>& tallies) {
    std::vector<std::uint64_t> counts(what.keys);
    for (const std::string& tally : tallies) {
        ASK_PASS(add_tally(tally, counts));
    }
    std::string line;
    while (std::getline(std::cin, line)) {
        ASK_PASS(take_line(line, what.base, counts));
    }
    const auto missing = std::ranges::find_if(counts, [](std::uint64_t count) { return count != 0; });
    return missing == counts.end() ? Result<>()
                                   : Error(Errc::kInput, "the answer lacks key number " +
                                                             std::to_string(missing - counts.begin()));
}

Result<> generate(const Generation& what) {
    const auto texts = what.form == Form::kNumber
                           ? Result<std::vector<std::string>>(std::vector<std::string>())
                           : keys_of(what.form, what.keys);
    ASK_PASS(texts);
    const std::vector<double> weights =
        what.zipf ? zipf_weights(what.keys, what.exponent) : std::vector<double>();
    std::mt19937_64 random(what.seed);
    std::uniform_real_distribution<double> place(0, what.zipf ? weights.back() : 1);
    std::uniform_int_distribution<std::uint32_t> any(0, what.keys - 1);
    std::vector<std::uint64_t> counts(what.tally.empty() ? 0 : what.keys);
    for (std::uint64_t i = 0; i < what.tuples; ++i) {
        std::uint32_t key = 0;
        if (what.zipf) {
            key = static_cast<std::uint32_t>(std::ranges::lower_bound(weights, place(random)) -
                                             weights.begin());
        } else {
            key = any(random);
        }
        if (!counts.empty()) {
            ++counts[key];
        }
        ASK_PASS(texts->empty() ? write_number(key, what.base) : write_line((*texts)[key]));
    }
    return what.tally.empty() ? Result<>() : write_tally(what.tally, counts);
}

}  // namespace ask::bench
