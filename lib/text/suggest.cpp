// SPDX-License-Identifier: Apache-2.0
#include "lib/text/suggest.h"

#include <algorithm>

namespace ask {
namespace {

// Nobody types longer names; whoever pastes one gets no guess, in no time.
constexpr std::size_t kLongest = 64;

}  // namespace

unsigned edit_distance(std::string_view a, std::string_view b) {
    // Rows of the usual table: before the last, the last, and the one at hand.
    std::vector<unsigned> before(b.size() + 1);
    std::vector<unsigned> last(b.size() + 1);
    std::vector<unsigned> row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) {
        row[j] = static_cast<unsigned>(j);
    }
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::swap(before, last);
        std::swap(last, row);
        row[0] = static_cast<unsigned>(i);
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const unsigned replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = std::min(row[j], before[j - 2] + 1);
            }
        }
    }
    return row[b.size()];
}

std::string closest_name(std::string_view typed, const std::vector<std::string>& names) {
    if (typed.size() > kLongest) {
        return {};
    }
    const unsigned most = std::min(3U, static_cast<unsigned>(typed.size() + 2) / 3);
    const std::string* best = nullptr;
    unsigned least = most + 1;
    for (const std::string& name : names) {
        if (const unsigned distance = edit_distance(typed, name); distance < least) {
            least = distance;
            best = &name;
        }
    }
    return best == nullptr ? std::string() : *best;
}

std::string suggestion(std::string_view typed, const std::vector<std::string>& names,
                       std::string_view prefix) {
    const std::string name = closest_name(typed, names);
    return name.empty() ? name : ": did you mean " + std::string(prefix) + name + "?";
}

}  // namespace ask
