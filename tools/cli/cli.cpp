// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/cli.h"

#include <cstdio>

#include "lib/abi/limits.h"

namespace ask::cli {

int parse(CLI::App& app, int argc, char** argv) {
    auto read = read_command_line(app, argc, argv);
    if (!read) {
        return fail(app.get_name(), read.error());
    }
    return *read ? -1 : 0;
}

int fail(const std::string& command, const Error& error) {
    std::fprintf(stderr, "%s: %s\n", command.c_str(), error.text().c_str());
    return static_cast<int>(error.code());
}

std::chrono::milliseconds CommonFlags::deadline() const {
    return std::chrono::milliseconds(static_cast<std::int64_t>(deadline_seconds * 1000));
}

void add_common_flags(CLI::App& app, CommonFlags& flags) {
    app.add_option("--task", flags.task, "id of the task: 1 to 63 of A-Z a-z 0-9 _ -")
        ->required()
        ->type_name("ID");
    app.add_option("--deadline", flags.deadline_seconds,
                   "fail when something does not happen, or nothing moves on, for this long")
        ->check(CLI::Range(double{ASK_MIN_DEADLINE}, double{ASK_MAX_DEADLINE}))
        ->type_name("SECONDS")
        ->capture_default_str();
    app.add_option("--stats", flags.stats_file, "write statistics to this file, as JSON")->type_name("FILE");
    app.add_option("--token-file", flags.token_file,
                   "file with what the task's senders show its receiver (default: $ASK_TOKEN, else nothing)")
        ->type_name("FILE");
    app.add_flag("--quiet", flags.quiet,
                 "say nothing on standard error but errors, and what is missing from a result");
    app.add_option("--agent", flags.agent,
                   "socket of this host's agent (default: $ASK_AGENT, else /run/ask/agent.sock)")
        ->type_name("PATH");
}

}  // namespace ask::cli
