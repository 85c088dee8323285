// SPDX-License-Identifier: Apache-2.0
//
// ask-chaos: what `tools/lab chaos` runs: sets and shows the rules of a lab's fault injector (docs/lab.md).
#include <charconv>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include <CLI/CLI.hpp>

#include "lib/base/result.h"
#include "lib/base/standard_fds.h"
#include "tools/chaos/pins.h"
#include "tools/cli/cli.h"

namespace ask::chaos {
namespace {

constexpr double kLongestMs = 3'600'000;  // an hour

struct Flags {
    std::string pins;
    std::string links;
    std::string link = "all";
    std::string direction = "both";
    std::uint64_t seed = 1;
    std::string loss = "0";
    std::string duplicate = "0";
    std::string corrupt = "0";
    std::string reorder = "0";
    std::string late = "0..1";
    std::string behind = "1..5";
    std::string delay = "0..0";
    bool all_traffic = false;
    bool json = false;
};

bool parse_number(std::string_view text, double most, double* value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
    return error == std::errc() && end == text.data() + text.size() && *value >= 0 && *value <= most;
}

Result<unsigned long long> parse_rate(const std::string& option, std::string_view text) {
    double percent = 0;
    if (!parse_number(text.ends_with('%') ? text.substr(0, text.size() - 1) : text, 100, &percent)) {
        return Error(Errc::kUsage,
                     option + " takes a share in percent, 0 to 100, not '" + std::string(text) + "'");
    }
    return static_cast<unsigned long long>(std::llround(percent / 100 * static_cast<double>(CHAOS_ALWAYS)));
}

Result<ChaosSpan> parse_span(const std::string& option, const std::string& text) {
    const std::size_t dots = text.find("..");
    const std::string_view first = std::string_view(text).substr(0, dots);
    const std::string_view last = dots == std::string::npos ? first : std::string_view(text).substr(dots + 2);
    double from = 0;
    double to = 0;
    if (!parse_number(first, kLongestMs, &from) || !parse_number(last, kLongestMs, &to) || from > to) {
        return Error(Errc::kUsage,
                     option + " takes milliseconds, MS or MS..MS, up to an hour, not '" + text + "'");
    }
    const auto nanos = [](double ms) { return static_cast<unsigned long long>(std::llround(ms * 1e6)); };
    return ChaosSpan{nanos(from), nanos(to) - nanos(from)};
}

Result<ChaosRule> make_rule(const Flags& flags) {
    ChaosRule rule{};
    const auto rate = [](unsigned long long& target, const char* option,
                         const std::string& text) -> Result<> {
        const auto value = parse_rate(option, text);
        ASK_PASS(value);
        target = *value;
        return {};
    };
    const auto span = [](ChaosSpan& target, const char* option, const std::string& text) -> Result<> {
        const auto value = parse_span(option, text);
        ASK_PASS(value);
        target = *value;
        return {};
    };
    ASK_PASS(rate(rule.loss, "--loss", flags.loss));
    ASK_PASS(rate(rule.duplicate, "--dup", flags.duplicate));
    ASK_PASS(rate(rule.corrupt, "--corrupt", flags.corrupt));
    ASK_PASS(rate(rule.reorder, "--reorder", flags.reorder));
    ASK_PASS(span(rule.late, "--dup-late", flags.late));
    ASK_PASS(span(rule.behind, "--reorder-by", flags.behind));
    ASK_PASS(span(rule.delay, "--delay", flags.delay));
    rule.seed = flags.seed;
    rule.all_traffic = flags.all_traffic ? 1 : 0;
    return rule;
}

// The second and third word of each line: a topology's list of links.
Result<LinkNames> read_names(const std::string& file, unsigned links) {
    LinkNames names;
    if (file.empty()) {
        return names;
    }
    std::ifstream in(file);
    std::string number;
    std::string line;
    while (std::getline(in, line)) {
        std::istringstream words(line);
        auto& [from, to] = names.emplace_back();
        if (!(words >> number >> from >> to)) {
            return Error(Errc::kInput,
                         file + ": line " + std::to_string(names.size()) + " names no two ends");
        }
    }
    if (names.size() != links) {
        return Error(Errc::kInput, file + " has " + std::to_string(names.size()) + " links, the injector " +
                                       std::to_string(links));
    }
    return names;
}

struct Links {
    unsigned first;
    unsigned last;
};

// "A:B", whichever end is said first.
std::optional<unsigned> named_link(const std::string& text, const LinkNames& names) {
    const std::size_t colon = text.find(':');
    if (colon == std::string::npos) {
        return {};
    }
    const std::string one = text.substr(0, colon);
    const std::string other = text.substr(colon + 1);
    for (std::size_t at = 0; at < names.size(); ++at) {
        const auto& [from, to] = names[at];
        if ((one == from && other == to) || (one == to && other == from)) {
            return static_cast<unsigned>(at + 1);
        }
    }
    return {};
}

Result<Links> parse_links(const std::string& text, unsigned links, const LinkNames& names) {
    unsigned link = 0;
    if (text == "all") {
        return Links{1, links};
    }
    if (const auto named = named_link(text, names)) {
        return Links{*named, *named};
    }
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), link);
    if (error != std::errc() || end != text.data() + text.size() || link < 1 || link > links) {
        return Error(Errc::kUsage, "--link takes all or a number from 1 to " + std::to_string(links) +
                                       (names.empty() ? "" : " or A:B, the ends of a link") + ", not '" +
                                       text + "'");
    }
    return Links{link, link};
}

Result<> apply(const Flags& flags, const ChaosRule& rule) {
    const auto pins = Pins::open(flags.pins);
    ASK_PASS(pins);
    const auto names = read_names(flags.links, pins->links());
    ASK_PASS(names);
    const auto links = parse_links(flags.link, pins->links(), *names);
    ASK_PASS(links);
    for (unsigned link = links->first; link <= links->last; ++link) {
        if (flags.direction != "down") {
            ASK_PASS(pins->set(port_of(link, CHAOS_UP), rule));
        }
        if (flags.direction != "up") {
            ASK_PASS(pins->set(port_of(link, CHAOS_DOWN), rule));
        }
    }
    return {};
}

// Only what is not 0, in the order of the table in docs/lab.md.
std::string describe(const nlohmann::ordered_json& counters) {
    std::string text;
    for (const auto& [name, value] : counters.items()) {
        if (value != 0) {
            text.append(text.empty() ? "" : ", ").append(name).append(" ").append(value.dump());
        }
    }
    return text.empty() ? "nothing passed" : text;
}

std::string describe_rule(const nlohmann::ordered_json& rule) {
    std::string text;
    for (const char* name : {"loss", "dup", "reorder", "corrupt"}) {
        if (rule[name] != 0) {
            text.append(text.empty() ? "" : ", ")
                .append(name)
                .append(" ")
                .append(rule[name].dump())
                .append(" %");
        }
    }
    if (rule["delay_ms"][1] != 0) {
        text.append(text.empty() ? "" : ", ").append("delay ").append(rule["delay_ms"].dump()).append(" ms");
    }
    return text.empty() ? "no faults" : text + (rule["all_traffic"] == true ? ", all traffic" : "");
}

Result<> show(const Flags& flags) {
    const auto pins = Pins::open(flags.pins);
    ASK_PASS(pins);
    const auto names = read_names(flags.links, pins->links());
    ASK_PASS(names);
    const auto all = to_json(*pins, *names);
    ASK_PASS(all);
    if (flags.json) {
        std::puts(all->dump(2).c_str());
        return {};
    }
    for (const auto& link : (*all)["links"]) {
        for (const char* direction : {"up", "down"}) {
            const auto who = link.contains("host")
                                 ? link["host"].get<std::string>()
                                 : link["from"].get<std::string>() + ":" + link["to"].get<std::string>();
            std::printf("%-4s %-5s %s: %s\n", who.c_str(), direction,
                        describe_rule(link[direction]["rule"]).c_str(),
                        describe(link[direction]["counters"]).c_str());
        }
    }
    std::printf("all: %s\n", describe((*all)["sum"]).c_str());
    return {};
}

void add_where(CLI::App& command, Flags& flags) {
    command
        .add_option("--link", flags.link,
                    "number of the link or its host, A:B by the names of its ends, or all")
        ->type_name("N|A:B|all")
        ->capture_default_str();
    command.add_option("--dir", flags.direction, "up: from the host, down: towards it")
        ->check(CLI::IsMember({"up", "down", "both"}))
        ->capture_default_str();
}

void add_faults(CLI::App& command, Flags& flags) {
    const auto option = [&command](const char* name, std::string& target, const char* type,
                                   const char* help) {
        command.add_option(name, target, help)->type_name(type)->capture_default_str();
    };
    option("--loss", flags.loss, "P", "percent of the packets that are lost");
    option("--dup", flags.duplicate, "P", "percent that come twice");
    option("--dup-late", flags.late, "MS..MS", "how long after its original the second comes");
    option("--reorder", flags.reorder, "P", "percent that others overtake");
    option("--reorder-by", flags.behind, "MS..MS", "for how long they are held back");
    option("--delay", flags.delay, "MS..MS", "for how long every packet is held");
    option("--corrupt", flags.corrupt, "P", "percent in which one bit is flipped, anywhere in the frame");
    command.add_option("--seed", flags.seed, "what the packets' fates are drawn from")->capture_default_str();
    command.add_flag("--all-traffic", flags.all_traffic, "TCP and the rest too, not only ASK's packets");
}

int main(int argc, char** argv) {
    Flags flags;
    CLI::App app("Sets and shows the faults of a lab's links.", "ask-chaos");
    app.require_subcommand(1);
    app.add_option("--pins", flags.pins, "where ask-chaosd pinned its maps")->required()->type_name("DIR");
    app.add_option("--links", flags.links, "names of the links' ends: a topology's list of them")
        ->type_name("FILE");
    CLI::App& set =
        *app.add_subcommand("set", "replace the rules of links and start numbering their packets anew");
    add_where(set, flags);
    add_faults(set, flags);
    CLI::App& clear = *app.add_subcommand("clear", "no more faults; what is held still comes");
    add_where(clear, flags);
    CLI::App& status = *app.add_subcommand("status", "rules and counters");
    status.add_flag("--json", flags.json);
    if (const int code = cli::parse(app, argc, argv); code >= 0) {
        return code;
    }
    Result<> result;
    if (status.parsed()) {
        result = show(flags);
    } else {
        const auto rule = clear.parsed() ? Result<ChaosRule>(ChaosRule{}) : make_rule(flags);
        result = rule.ok() ? apply(flags, *rule) : Result<>(rule.error());
    }
    return result.ok() ? 0 : cli::fail("ask-chaos", result.error());
}

}  // namespace
}  // namespace ask::chaos

int main(int argc, char** argv) {
    ask::open_standard_fds();
    return ask::chaos::main(argc, argv);
}
