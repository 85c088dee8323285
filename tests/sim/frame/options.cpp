// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/frame/options.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

namespace ask::sim {

namespace {

bool parse_number(std::string_view text, std::uint64_t& number) {
    const char* const end = text.data() + text.size();
    return !text.empty() && std::from_chars(text.data(), end, number).ptr == end;
}

bool parse_size(const Manual& manual, std::string_view text, std::string_view& size) {
    constexpr std::string_view kSizes[] = {"tiny", "small", "large", "mixed", "windows"};
    size = text;
    return manual.has_sizes && std::ranges::find(kSizes, text) != std::end(kSizes);
}

// One that has a value. False: there is no such, or no such value.
bool take(const Manual& manual, std::string_view flag, std::string_view value, Options& options) {
    if (flag == "--runs") {
        return parse_number(value, options.runs);
    }
    if (flag == "--seed") {
        return parse_number(value, options.seed);
    }
    if (flag == "--failures") {
        return parse_number(value, options.failures);
    }
    if (flag == "--replay") {
        options.replay = true;
        return parse_number(value, options.seed);
    }
    if (flag == "--size") {
        return parse_size(manual, value, options.size);
    }
    options.set = value;
    return flag == "--set";
}

}  // namespace

std::string usage(const Manual& manual) {
    std::string text = "Usage: " + std::string(manual.program) + " [--runs N] [--seed S] ";
    text += manual.has_sizes ? "[--size tiny|small|large|mixed|windows] " : "";
    text += "[--set NAME=NUMBER,...]\n";
    text.append(std::string_view("Usage: ").size() + manual.program.size(), ' ');
    text += " [--replay SEED] [--failures N] [--no-shrink] [--plan]\n\n";
    text += manual.what;
    text +=
        "\n"
        "A failing one is shrunk and the command printed that replays it.\n"
        "\n"
        "  --runs N      histories (default 1000)\n"
        "  --seed S      the first seed (default 1)\n";
    text += manual.has_sizes
                ? "  --size Z      how large they are (default mixed: mostly tiny), or windows: streams\n"
                : "";
    text +=
        "  --set A=1,... numbers of every plan that are not drawn\n"
        "  --replay S    runs the history of seed S alone and prints what happens\n"
        "  --failures N  stops after so many that fail (default 5)\n"
        "  --no-shrink   leaves a failing history as it is\n"
        "  --plan        prints the plan of the first seed, and nothing else\n";
    return text;
}

std::optional<Options> parse_options(const Manual& manual, int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; ++i) {
        const std::string_view flag = argv[i];
        if (flag == "--no-shrink") {
            options.shrink = false;
        } else if (flag == "--plan") {
            options.plan = true;
        } else {
            ++i;
            const std::string_view value = i < argc ? argv[i] : "";
            if (!take(manual, flag, value, options)) {
                std::fprintf(stderr, "sim: %.*s %.*s: see --help\n", static_cast<int>(flag.size()),
                             flag.data(), static_cast<int>(value.size()), value.data());
                return std::nullopt;
            }
        }
    }
    return options;
}

}  // namespace ask::sim
