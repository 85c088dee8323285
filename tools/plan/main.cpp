// SPDX-License-Identifier: Apache-2.0
//
// ask-plan: which switches of a tree should aggregate. Reads a topology, prints a plan (docs/placement.md).
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/standard_fds.h"
#include "lib/flags/flags.h"
#include "tools/plan/network.h"
#include "tools/plan/picture.h"
#include "tools/plan/report.h"
#include "tools/plan/topology.h"

namespace {

using ask::Errc;
using ask::Error;
using ask::Result;
namespace placement = ask::placement;
namespace plan = ask::plan;

struct Options {
    std::string topology;
    std::string format = "auto";
    std::optional<std::int64_t> k;
    std::string objective;
    std::vector<std::string> senders;
    std::string receiver;
    std::string dot_file;
    std::string svg_file;
    bool json = false;
    unsigned threads = 1;
    std::uint64_t memory_mib = 8192;
};

Result<std::string> read_all(const std::string& path, std::size_t limit) {
    std::ifstream file;
    std::error_code ignored;
    if (path != "-" && std::filesystem::is_directory(path, ignored)) {
        return Error(Errc::kInput, path + ": is a directory");
    }
    if (path != "-") {
        file.open(path, std::ios::binary);
        if (!file && (errno == ENOENT || errno == ENOTDIR)) {
            return Error(Errc::kInput, path + ": no such file");
        }
        if (!file) {
            return Error::from_errno(errno, "read " + path);
        }
    }
    std::istream& in = path == "-" ? std::cin : file;
    std::string text;
    std::vector<char> chunk(std::size_t{64} << 10);
    while (text.size() <= limit &&
           in.read(chunk.data(), static_cast<std::streamsize>(chunk.size())).gcount() > 0) {
        text.append(chunk.data(), static_cast<std::size_t>(in.gcount()));
    }
    if (in.bad()) {
        return Error(Errc::kInternal, "read " + path + ": the stream broke");
    }
    if (text.size() > limit) {
        return Error(Errc::kLimit, path + " is longer than " + std::to_string(limit) + " bytes");
    }
    return text;
}

Result<> write_all(const std::string& path, const std::string& text) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << text;
    file.close();
    if (!file) {
        return Error::from_errno(errno != 0 ? errno : EIO, "write " + path);
    }
    return {};
}

Result<plan::Topology> load_topology(const Options& options) {
    auto text = read_all(options.topology, plan::kMaxDocumentBytes);
    if (!text.ok()) {
        return std::move(text).error();
    }
    const std::string name = options.topology == "-" ? "stdin" : options.topology;
    const plan::Format format = options.format == "json"   ? plan::Format::kJson
                                : options.format == "toml" ? plan::Format::kToml
                                                           : plan::guess_format(*text, name);
    auto document =
        format == plan::Format::kJson ? plan::read_json(*text, name) : plan::read_toml(*text, name);
    if (!document.ok()) {
        return std::move(document).error();
    }
    return plan::read_topology(*document, name);
}

// The command line wins over the file's [task].
Result<> apply_task(const Options& options, plan::Task& task) {
    if (options.k) {
        if (*options.k < 0 || *options.k > std::numeric_limits<std::uint32_t>::max()) {
            return Error(Errc::kUsage, "--k " + std::to_string(*options.k) +
                                           " is not a number of switches: it must be from 0 to 4294967295");
        }
        task.k = static_cast<std::uint32_t>(*options.k);
    }
    if (!options.objective.empty()) {
        const auto objective = placement::parse_objective(options.objective);
        if (!objective.ok()) {
            return objective.error();
        }
        task.objective = *objective;
    }
    if (!options.senders.empty()) {
        task.senders = options.senders;
    }
    if (!options.receiver.empty()) {
        task.receiver = options.receiver;
    }
    return {};
}

// `text` of a word-count model is a path relative to the topology file's directory.
Result<placement::SizeModel> load_model(const plan::Topology& topology) {
    if (topology.message.model) {
        return *topology.message.model;
    }
    constexpr std::size_t kMostText = std::size_t{1} << 30;
    constexpr std::uint32_t kRounds = 5;
    std::string path = topology.message.text_file;
    const auto slash = topology.source.find_last_of('/');
    if (path.front() != '/' && slash != std::string::npos) {
        path = topology.source.substr(0, slash + 1) + path;
    }
    const auto text = read_all(path, kMostText);
    if (!text.ok()) {
        return text.error();
    }
    auto points = placement::measure_word_count(*text, topology.message.shards, kRounds, 1);
    if (!points.ok()) {
        return std::move(points).error().with_context(path);
    }
    return placement::SizeModel::measured(std::move(*points));
}

Result<> write_pictures(const Options& options, const plan::Report& report) {
    if (!options.dot_file.empty()) {
        ASK_TRY(write_all(options.dot_file, plan::picture_dot(report)), "--dot");
    }
    if (!options.svg_file.empty()) {
        const auto svg = plan::picture_svg(report);
        if (!svg.ok()) {
            return svg.error();
        }
        ASK_TRY(write_all(options.svg_file, *svg), "--svg");
    }
    return {};
}

Result<> run(const Options& options) {
    auto topology = load_topology(options);
    if (!topology.ok()) {
        return std::move(topology).error();
    }
    if (auto applied = apply_task(options, topology->task); !applied.ok()) {
        return applied;
    }
    const auto network = plan::build_network(*topology);
    if (!network.ok()) {
        return network.error();
    }
    const auto model = load_model(*topology);
    if (!model.ok()) {
        return model.error();
    }
    const plan::PlanRequest request{
        .objective = topology->task.objective,
        .k = topology->task.k,
        .options = {.threads = options.threads, .memory_limit = options.memory_mib << 20}};
    const auto report = plan::make_report(*network, *model, request);
    if (!report.ok()) {
        return report.error();
    }
    if (auto written = write_pictures(options, *report); !written.ok()) {
        return written;
    }
    const std::string text = options.json ? plan::report_json(*report) : plan::report_text(*report);
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
        return Error::from_errno(errno, "write the plan");
    }
    return {};
}

void declare(CLI::App& app, Options& options) {
    app.add_option("TOPOLOGY", options.topology, "TOML or JSON file, or '-' for standard input")->required();
    app.add_option("--format", options.format, "toml, json, or auto: by name, then by content")
        ->check(CLI::IsMember({"auto", "toml", "json"}));
    app.add_option("-k,--k", options.k, "how many switches may aggregate (default: the file's, else 1)");
    app.add_option("--objective", options.objective,
                   "utilisation, bottleneck or bytes (default: the file's)");
    app.add_option("--senders", options.senders, "hosts that send, separated by commas (default: the file's)")
        ->delimiter(',')
        ->allow_extra_args(false);
    app.add_option("--receiver", options.receiver, "the host that all messages go to (default: the file's)");
    app.add_flag("--json", options.json, "print the plan as JSON");
    app.add_option("--dot", options.dot_file, "write a picture for Graphviz to this file");
    app.add_option("--svg", options.svg_file, "write a picture as SVG to this file");
    app.add_option("--threads", options.threads, "threads to plan on (default 1)")
        ->check(CLI::Range(1U, 256U));
    app.add_option("--memory", options.memory_mib, "most memory for the tables, MiB (default 8192)")
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 30));
    app.footer("Exit codes: docs/commands.md. Topologies and plans: docs/placement.md.");
}

}  // namespace

int main(int argc, char** argv) {
    ask::open_standard_fds();
    CLI::App app{"Chooses which switches of a tree should aggregate, and says what that saves.", "ask-plan"};
    Options options;
    declare(app, options);
    const Result<bool> read = ask::read_command_line(app, argc, argv);
    const Result<> done = !read.ok() ? read.error() : *read ? run(options) : Result<>();
    if (!done.ok()) {
        std::fprintf(stderr, "ask-plan: %s\n", done.error().text().c_str());
        return static_cast<int>(done.error().code());
    }
    return 0;
}
