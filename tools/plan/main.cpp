// SPDX-License-Identifier: Apache-2.0
//
// ask-plan: which switches of a tree should aggregate. Reads a topology, prints a plan (docs/placement.md).
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/standard_fds.h"
#include "lib/flags/flags.h"
#include "lib/topology/load.h"
#include "lib/topology/network.h"
#include "tools/plan/picture.h"
#include "tools/plan/report.h"

namespace {

using ask::Errc;
using ask::Error;
using ask::Result;
namespace placement = ask::placement;
namespace plan = ask::plan;
namespace topology = ask::topology;

struct Options {
    std::string topology;
    std::string format = "auto";
    std::optional<std::int64_t> k;
    std::string strategy = "soar";
    std::string objective;
    std::vector<std::string> senders;
    std::string receiver;
    std::string dot_file;
    std::string svg_file;
    bool json = false;
    unsigned threads = 1;
    std::uint64_t memory_mib = 8192;
};

Result<> write_all(const std::string& path, const std::string& text) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << text;
    file.close();
    if (!file) {
        return Error::from_errno(errno != 0 ? errno : EIO, "write " + path);
    }
    return {};
}

// The command line wins over the file's [task].
Result<> apply_task(const Options& options, topology::Task& task) {
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
    auto topology = topology::load_topology(options.topology, options.format);
    if (!topology.ok()) {
        return std::move(topology).error();
    }
    if (auto applied = apply_task(options, topology->task); !applied.ok()) {
        return applied;
    }
    const auto fabric = topology::Fabric::build(*std::move(topology));
    if (!fabric.ok()) {
        return fabric.error();
    }
    const auto network = topology::build_network(*fabric);
    if (!network.ok()) {
        return network.error();
    }
    const topology::Task& task = fabric->topology().task;
    const auto model = topology::load_model(fabric->topology());
    if (!model.ok()) {
        return model.error();
    }
    const auto strategy = placement::parse_strategy(options.strategy);
    ASK_TRY(strategy, "--strategy");
    const plan::PlanRequest request{
        .objective = task.objective,
        .k = task.k,
        .options = {.threads = options.threads, .memory_limit = options.memory_mib << 20},
        .strategy = *strategy};
    const auto report = plan::make_report(*fabric, *network, *model, request);
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
    app.add_option("--strategy", options.strategy,
                   "how they are chosen: soar, which is best, or, to compare: all-red, all-blue, top, max, "
                   "level, greedy")
        ->capture_default_str();
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
