// SPDX-License-Identifier: Apache-2.0
//
// A plan: a flat list of numbers, drawn from a seed, printed and overridden by name. What is done with the
// numbers of any; which there are, each simulator says (tuples/plan.h, groups/plan.h), by Plan::fields().
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "tests/sim/frame/random.h"

namespace ask::sim {

template <typename Plan>
struct Field {
    const char* name;
    const char* what;
    std::uint32_t Plan::* number;
};

// For drawing.
inline std::uint32_t pick(Random& random, std::initializer_list<std::uint32_t> values) {
    return *(values.begin() + static_cast<std::ptrdiff_t>(random.below(values.size())));
}

inline std::uint32_t range(Random& random, std::uint32_t low, std::uint32_t high) {
    return static_cast<std::uint32_t>(random.between(low, high));
}

// One in `n`.
inline bool rare(Random& random, std::uint32_t n) {
    return random.below(n) == 0;
}

// For checking. kUsage names what is missing.
inline Result<> must(bool holds, const char* what) {
    return holds ? Result<>() : Result<>(Error(Errc::kUsage, std::string("the plan needs ") + what));
}

// All that differ from `base`, as "name=value,...".
template <typename Plan>
std::string difference(const Plan& plan, const Plan& base) {
    std::string text;
    for (const Field<Plan>& field : Plan::fields()) {
        if (plan.*field.number != base.*field.number) {
            text += (text.empty() ? "" : ",") + std::string(field.name) + "=" +
                    std::to_string(plan.*field.number);
        }
    }
    return text;
}

// Takes such a text. kUsage names what is wrong.
template <typename Plan>
Result<> override_plan(Plan& plan, std::string_view text) {
    const std::span<const Field<Plan>> fields = Plan::fields();
    while (!text.empty()) {
        const std::string_view item = text.substr(0, text.find(','));
        text.remove_prefix(std::min(text.size(), item.size() + 1));
        const std::size_t equals = item.find('=');
        const auto field = std::ranges::find_if(
            fields, [&](const Field<Plan>& f) { return item.substr(0, equals) == f.name; });
        std::uint32_t value = 0;
        const char* const end = item.data() + item.size();
        if (equals == std::string_view::npos || field == fields.end() ||
            std::from_chars(item.data() + equals + 1, end, value).ptr != end) {
            return Error(Errc::kUsage, "no plan has '" + std::string(item) + "': give name=number,...");
        }
        plan.*(field->number) = value;
    }
    return {};
}

// A line for each number.
template <typename Plan>
std::string describe(const Plan& plan) {
    std::string text;
    for (const Field<Plan>& field : Plan::fields()) {
        std::string line = "  " + std::string(field.name);
        line.resize(std::max<std::size_t>(line.size() + 1, 18), ' ');
        line += std::to_string(plan.*field.number);
        line.resize(std::max<std::size_t>(line.size() + 1, 28), ' ');
        text += line + field.what + "\n";
    }
    return text;
}

}  // namespace ask::sim
