// SPDX-License-Identifier: Apache-2.0
//
// ask-bench-fetch: what tools/bench fetch runs beside the daemons.
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "bench/fetch/fetch.h"

int main(int argc, char** argv) {
    ask::bench::FetchJob job;
    std::vector<std::string> command;
    CLI::App app("A task whose keys are all in the switch's back level.", "ask-bench-fetch");
    app.require_subcommand(1);
    CLI::App* const send = app.add_subcommand("send", "fills the back level, and ends the task's only flow");
    send->add_option("--task", job.task)->required();
    send->add_option("--to", job.to)->required();
    send->add_option("--pins", job.pins, "the switch's directory under bpffs")->required();
    send->add_option("--cpu-of", job.processes, "processes whose CPU time is wanted")->delimiter(',');
    CLI::App* const check = app.add_subcommand("check", "whether a command's output is the result");
    check->add_option("command", command)->required();
    for (CLI::App* const each : {send, check}) {
        each->add_option("--keys", job.keys)
            ->required()
            ->check(CLI::Range(1U, std::numeric_limits<std::uint32_t>::max()));
    }
    CLI11_PARSE(app, argc, argv);
    const auto done =
        send->parsed() ? ask::bench::send_filled(job) : ask::bench::check_result(job.keys, command);
    if (!done.ok()) {
        std::fprintf(stderr, "ask-bench-fetch: %s\n", done.error().text().c_str());
        return 1;
    }
    return 0;
}
