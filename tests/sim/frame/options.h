// SPDX-License-Identifier: Apache-2.0
//
// The command line of a simulator.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ask::sim {

// What a simulator says of itself.
struct Manual {
    std::string_view program;
    std::string_view what;   // it does, in a sentence or two
    bool has_sizes = false;  // whether it takes --size
};

struct Options {
    std::uint64_t runs = 1000;
    std::uint64_t seed = 1;
    std::uint64_t failures = 5;
    std::string_view size = "mixed";
    std::string_view set;
    bool replay = false;
    bool shrink = true;
    bool plan = false;
};

[[nodiscard]] std::string usage(const Manual& manual);
// nullopt: said what is wrong.
[[nodiscard]] std::optional<Options> parse_options(const Manual& manual, int argc, char** argv);

}  // namespace ask::sim
