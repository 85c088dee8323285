// SPDX-License-Identifier: Apache-2.0
//
// askctl: what agents and switches have to say.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "lib/client/task.h"
#include "tools/cli/cli.h"
#include "tools/cli/control.h"
#include "tools/cli/explain.h"
#include "tools/cli/output.h"
#include "tools/cli/report.h"

namespace ask::cli {
namespace {

constexpr const char* kName = "askctl";

struct Flags {
    std::string agent;
    std::string switch_address;
    bool json = false;
    std::string task;
};

std::string environment(const char* name) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here changes the environment
    const char* const value = std::getenv(name);
    return value == nullptr ? "" : value;
}

// The switch if it is named, or if the environment names nothing else: on a switch there is no agent.
std::string switch_to_ask(const Flags& flags) {
    if (!flags.switch_address.empty()) {
        return flags.switch_address;
    }
    const bool agent_named = !flags.agent.empty() || !environment("ASK_AGENT").empty();
    return agent_named ? "" : environment("ASK_SWITCH");
}

int print(const std::string& text) {
    auto written = write_all(STDOUT_FILENO, text);
    if (!written) {
        return fail(kName, std::move(written).error().with_context("standard output"));
    }
    return 0;
}

// Asks whom the flags mean, and prints what `show` makes of the status.
template <typename Show>
int with_status(const Flags& flags, Show&& show) {
    const std::string address = switch_to_ask(flags);
    if (!address.empty()) {
        auto status = switch_status(address);
        return status ? print(show(*status)) : fail(kName, status.error());
    }
    auto status = agent_status(client::agent_socket_path(flags.agent));
    return status ? print(show(*status)) : fail(kName, status.error());
}

int explain(const Flags& flags) {
    TaskSources sources;
    std::string address = switch_to_ask(flags);
    if (address.empty()) {
        auto status = agent_status(client::agent_socket_path(flags.agent));
        if (!status) {
            return fail(kName, status.error());
        }
        address = status->switch_address();
        sources.agent = *std::move(status);
    }
    if (!address.empty()) {
        auto status = switch_status(address);
        if (status) {
            sources.on_switch = *std::move(status);
        } else if (sources.agent) {
            sources.switch_trouble = status.error().text();
        } else {
            return fail(kName, status.error());
        }
    }
    auto text = explain_task(flags.task, sources);
    return text ? print(*text) : fail(kName, text.error());
}

int status(const Flags& flags) {
    return with_status(flags, [&flags](const auto& from) {
        return flags.json ? dump(status_json(from)) : status_text(from);
    });
}

int tasks(const Flags& flags) {
    return with_status(
        flags, [&flags](const auto& from) { return flags.json ? dump(tasks_json(from)) : tasks_text(from); });
}

int counters(const Flags& flags) {
    return with_status(flags, [&flags](const auto& from) {
        return flags.json ? dump(counters_json(from)) : counters_text(from.counters());
    });
}

int run(int argc, char** argv) {
    CLI::App app("Asks this host's agent, or a switch, what there is.", kName);
    Flags flags;
    app.add_option("--agent", flags.agent,
                   "socket of this host's agent (default: $ASK_AGENT, else /run/ask/agent.sock)")
        ->type_name("PATH");
    app.add_option("--switch", flags.switch_address,
                   "ask this switch instead of the agent (default: $ASK_SWITCH, where no agent is named)")
        ->type_name("HOST:PORT");
    app.require_subcommand(1);
    // Flags may come after the command too.
    app.fallthrough();
    auto* const status_command =
        app.add_subcommand("status", "who it is and how it is set up; fails if it cannot be reached");
    auto* const tasks_command = app.add_subcommand("tasks", "tasks, their state and where their tuples went");
    auto* const counters_command = app.add_subcommand("counters", "every counter, with its meaning");
    for (auto* const command : {status_command, tasks_command, counters_command}) {
        command->add_flag("--json", flags.json, "for scripts: JSON");
    }
    auto* const task_command = app.add_subcommand("task", "about one task");
    task_command->require_subcommand(1);
    auto* const explain_command =
        task_command->add_subcommand("explain", "in words: where its tuples went and why, what it waits for");
    explain_command->add_option("ID", flags.task, "id of the task")->required();
    if (const int code = parse(app, argc, argv); code >= 0) {
        return code;
    }
    if (explain_command->parsed()) {
        return explain(flags);
    }
    return status_command->parsed()  ? status(flags)
           : tasks_command->parsed() ? tasks(flags)
                                     : counters(flags);
}

}  // namespace
}  // namespace ask::cli

int main(int argc, char** argv) {
    return ask::cli::run(argc, argv);
}
