// SPDX-License-Identifier: Apache-2.0
//
// askctl: what agents, switches and the controller have to say.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/random.h"
#include "lib/base/standard_fds.h"
#include "lib/client/task.h"
#include "lib/daemon/config.h"
#include "lib/net/address.h"
#include "lib/tls/authority.h"
#include "tools/cli/authority_flags.h"
#include "tools/cli/cli.h"
#include "tools/cli/control.h"
#include "tools/cli/controller_report.h"
#include "tools/cli/doctor/checks.h"
#include "tools/cli/doctor/gather.h"
#include "tools/cli/explain.h"
#include "tools/cli/groups.h"
#include "tools/cli/idle.h"
#include "tools/cli/output.h"
#include "tools/cli/region_dump.h"
#include "tools/cli/relay_questions.h"
#include "tools/cli/relay_report.h"
#include "tools/cli/report.h"
#include "tools/cli/streams.h"
#include "tools/cli/task_record.h"
#include "tools/cli/top.h"
#include "tools/cli/views.h"

namespace ask::cli {
namespace {

constexpr const char* kName = "askctl";

struct Flags {
    std::string agent;
    std::string switch_address;
    std::string controller;
    ControlSecurity security;
    AuthorityFlags authority;
    bool json = false;
    bool all = false;
    std::size_t top = 0;
    std::uint32_t looks = 0;  // of `top`; 0: until Ctrl-C
    double watch = 0;         // seconds between two looks; 0: one look
    std::string task;
    std::string on;  // switches, by name
    std::string off;
    std::string relay;         // whose tasks are to be shown, or that is to be idle
    bool relay_tasks = false;  // of all that the controller knows
    doctor::Questions doctor;
    IdleQuestion idle;
};

constexpr unsigned kAuthorityDays = 3650;

std::string environment(const char* name) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here changes the environment
    const char* const value = std::getenv(name);
    return value == nullptr ? "" : value;
}

constexpr const char* kSwitchSocket = "/run/ask-switchd/control.sock";
constexpr const char* kControllerSocket = "/run/ask-controld/control.sock";
constexpr const char* kRelaySocket = "/run/ask-relayd/control.sock";

bool exists(const std::string& path) {
    return ::access(path.c_str(), F_OK) == 0;
}

// The switch if it is named, or if the environment names nothing else, or if nothing is named and a switch is
// all that there is on this machine.
std::string switch_to_ask(const Flags& flags) {
    if (!flags.switch_address.empty()) {
        return flags.switch_address;
    }
    if (!flags.agent.empty() || !environment("ASK_AGENT").empty()) {
        return "";
    }
    const std::string named = environment("ASK_SWITCH");
    const bool only_switch = !exists(client::agent_socket_path("")) && exists(kSwitchSocket);
    return named.empty() && only_switch ? std::string("unix:") + kSwitchSocket : named;
}

// Where none is named, that of this machine.
std::string controller_to_ask(const Flags& flags) {
    if (!flags.controller.empty()) {
        return flags.controller;
    }
    const std::string named = environment("ASK_CONTROLLER");
    return named.empty() ? std::string("unix:") + kControllerSocket : named;
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
        auto status = switch_status(address, flags.security);
        return status ? print(show(*status)) : fail(kName, status.error());
    }
    auto status = agent_status(client::agent_socket_path(flags.agent));
    return status ? print(show(*status)) : fail(kName, status.error());
}

// The switch that is meant: as ever, or else the one of this host's agent.
Result<std::string> switch_of_host(const Flags& flags) {
    std::string address = switch_to_ask(flags);
    if (address.empty()) {
        const auto status = agent_status(client::agent_socket_path(flags.agent));
        ASK_PASS(status);
        address = status->switch_address();
    }
    if (address.empty()) {
        return Error(Errc::kUsage, "this agent has no switch: name one with --switch or ASK_SWITCH");
    }
    return address;
}

// The same of a switch, which may be the agent's.
template <typename Show>
int with_switch(const Flags& flags, Show&& show) {
    const auto address = switch_of_host(flags);
    if (!address) {
        return fail(kName, address.error());
    }
    const auto status = switch_status(*address, flags.security);
    return status ? print(show(*status)) : fail(kName, status.error());
}

// Once, or every so often until a signal: a daemon that is away may come back, a reader that has gone will
// not.
template <typename Look>
int watch(const Flags& flags, Look look) {
    if (flags.watch == 0) {
        return look();
    }
    const bool terminal = ::isatty(STDOUT_FILENO) == 1;
    for (;;) {
        // A terminal is written over from its top; elsewhere a blank line parts one look from the next.
        if (const int code = print(terminal ? "\033[H\033[J" : ""); code != 0) {
            return code;
        }
        look();
        if (const int code = print(terminal ? "" : "\n"); code != 0) {
            return code;
        }
        ::poll(nullptr, 0, static_cast<int>(flags.watch * 1000));  // the interval asked for
    }
}

// What is known of the task: this host's agent, and its switch; or the switch alone.
Result<TaskSources> ask_all(const Flags& flags) {
    TaskSources sources;
    std::string address = switch_to_ask(flags);
    if (address.empty()) {
        auto status = agent_status(client::agent_socket_path(flags.agent));
        ASK_PASS(status);
        address = status->switch_address();
        sources.agent = *std::move(status);
    }
    if (!address.empty()) {
        auto status = switch_status(address, flags.security);
        if (status) {
            sources.on_switch = *std::move(status);
        } else if (sources.agent) {
            sources.switch_trouble = status.error().text();
        } else {
            return std::move(status).error();
        }
    }
    return sources;
}

std::vector<RelayAnswer> asked_at_once(const Flags& flags, std::vector<RelayToAsk> relays) {
    return ask_relays(std::move(relays),
                      [&](const std::string& address) { return relay_status(address, flags.security); });
}

int explain(const Flags& flags) {
    auto sources = ask_all(flags);
    if (!sources) {
        return fail(kName, sources.error());
    }
    const v1::AgentTask* const placed = sources->agent ? placed_task(flags.task, *sources->agent) : nullptr;
    if (placed != nullptr) {
        sources->relays = asked_at_once(flags, relays_of(*placed));
    }
    if (flags.json) {
        const auto json = explain_task_json(flags.task, *sources);
        return json ? print(ask::cli::dump(*json)) : fail(kName, json.error());
    }
    const auto text = explain_task(flags.task, *sources);
    return text ? print(*text) : fail(kName, text.error());
}

// The text or JSON that there is, or why there is none.
int print(const Result<std::string>& text) {
    return text ? print(*text) : fail(kName, text.error());
}
int print(const Result<Json>& json) {
    return json ? print(ask::cli::dump(*json)) : fail(kName, json.error());
}

int explain_group(const Flags& flags) {
    const auto sources = ask_all(flags);
    if (!sources) {
        return fail(kName, sources.error());
    }
    return flags.json ? print(explain_group_json(flags.task, *sources))
                      : print(explain_group(flags.task, *sources));
}

template <typename Status>
int show_groups(const Flags& flags, const Result<Status>& status) {
    if (!status) {
        return fail(kName, status.error());
    }
    if (flags.task.empty()) {
        return print(flags.json ? ask::cli::dump(groups_json(*status, flags.all))
                                : groups_text(*status, flags.all));
    }
    return flags.json ? print(group_json(*status, flags.task)) : print(group_text(*status, flags.task));
}

int groups(const Flags& flags) {
    const std::string address = switch_to_ask(flags);
    return address.empty() ? show_groups(flags, agent_status(client::agent_socket_path(flags.agent)))
                           : show_groups(flags, switch_status(address, flags.security));
}

Result<v1::SwitchTask> find_on_switch(const std::string& address, const Flags& flags) {
    const std::string& id = flags.task;
    const auto status = switch_status(address, flags.security);
    ASK_PASS(status);
    const auto task = std::ranges::find(status->tasks(), id, &v1::SwitchTask::id);
    if (task == status->tasks().end()) {
        return Error(Errc::kUnknown, "no task " + id + " on the switch at " + address +
                                         ": what it had of one that ended went to the receiver");
    }
    if (task->aggregators() == 0) {
        return Error(Errc::kUnknown, "task " + id + " has no memory on the switch at " + address);
    }
    return *task;
}

// The copy of that epoch may be closed while it is on its way: then there is another to look at.
Result<RegionDump> read_task(const std::string& address, const Flags& flags) {
    constexpr int kTries = 3;
    for (int tries = 1;; ++tries) {
        const auto task = find_on_switch(address, flags);
        ASK_PASS(task);
        RegionDump dump(task->op(), make_seed(random_u64));
        auto read = read_region(address, flags.security, *task,
                                [&dump](std::string_view entries) { return dump.add(entries); });
        if (read) {
            return dump;
        }
        if (tries == kTries) {
            return std::move(read).error().with_context("task " + flags.task + " changes while it is read");
        }
    }
}

int dump_task(const Flags& flags) {
    const auto address = switch_of_host(flags);
    if (!address) {
        return fail(kName, address.error());
    }
    const auto dump = read_task(*address, flags);
    if (!dump) {
        return fail(kName, dump.error());
    }
    return print(flags.json ? ask::cli::dump(dump->json(flags.top)) : dump->text(flags.top));
}

// What ends with it.
std::string cancelled_text(const std::string& id, bool is_stream, const v1::CancelTaskReply& reply) {
    if (!is_stream) {
        return "task " + id + ": " + std::to_string(reply.receives()) + " receive and " +
               std::to_string(reply.sends()) +
               " send(s) are ending here, and with them the task everywhere\n";
    }
    return "stream " + id +
           (reply.receives() > 0
                ? ": it ends here and at all of its senders; windows that are open are not committed\n"
                : ": " + std::to_string(reply.sends()) +
                      " send(s) are ending here without leaving it; others go on\n");
}

int cancel(const Flags& flags) {
    if (!switch_to_ask(flags).empty()) {
        return fail(kName, Error(Errc::kUsage,
                                 "a task is cancelled on a host that receives it or sends to it; a "
                                 "switch takes back what nobody renews"));
    }
    const std::string socket = client::agent_socket_path(flags.agent);
    const auto before = agent_status(socket);
    const auto reply = cancel_task(socket, flags.task);
    if (!reply) {
        return fail(kName, reply.error());
    }
    if (flags.json) {
        return print(
            dump(Json{{"id", flags.task}, {"receives", reply->receives()}, {"sends", reply->sends()}}));
    }
    const bool is_stream = before && !streams_named(flags.task, *before).empty();
    return print(cancelled_text(flags.task, is_stream, *reply));
}

int finish(const Flags& flags) {
    if (!switch_to_ask(flags).empty()) {
        return fail(kName, Error(Errc::kUsage, "a stream is finished on the host that receives it"));
    }
    const auto finished = finish_stream(client::agent_socket_path(flags.agent), flags.task);
    if (!finished) {
        return fail(kName, finished.error());
    }
    if (flags.json) {
        return print(dump(Json{{"id", flags.task}, {"finishing", true}}));
    }
    return print("stream " + flags.task +
                 ": the windows that are open are the last; its ask-recv ends when they are committed\n");
}

int status(const Flags& flags) {
    return with_status(flags, [&flags](const auto& from) {
        return flags.json ? dump(status_json(from)) : status_text(from);
    });
}

int tasks(const Flags& flags) {
    return with_status(flags, [&flags](const auto& from) {
        return flags.json ? dump(tasks_json(from, flags.all)) : tasks_text(from, flags.all);
    });
}

template <typename Status>
int show_record(const Flags& flags, const Result<Status>& status) {
    if (!status) {
        return fail(kName, status.error());
    }
    return flags.json ? print(task_record_json(flags.task, *status))
                      : print(task_record_text(flags.task, *status));
}

int show_task(const Flags& flags) {
    const std::string address = switch_to_ask(flags);
    return address.empty() ? show_record(flags, agent_status(client::agent_socket_path(flags.agent)))
                           : show_record(flags, switch_status(address, flags.security));
}

int show_switch(const Flags& flags) {
    return with_switch(flags, [&flags](const v1::SwitchStatus& from) {
        return flags.json ? dump(status_json(from)) : status_text(from);
    });
}

int regions(const Flags& flags) {
    return with_switch(flags, [&flags](const v1::SwitchStatus& from) {
        return flags.json ? dump(regions_json(from)) : regions_text(from);
    });
}

int channels(const Flags& flags) {
    return with_status(flags, [&flags](const auto& from) {
        return flags.json ? dump(channels_json(from)) : channels_text(from);
    });
}

int history(const Flags& flags) {
    if (!switch_to_ask(flags).empty()) {
        return fail(kName,
                    Error(Errc::kUsage,
                          "a switch remembers no tasks: ask an agent that received them or sent to them"));
    }
    const auto status = agent_status(client::agent_socket_path(flags.agent));
    if (!status) {
        return fail(kName, status.error());
    }
    return print(flags.json ? dump(history_json(*status)) : history_text(*status));
}

int streams(const Flags& flags) {
    if (!switch_to_ask(flags).empty()) {
        return fail(kName, Error(Errc::kUsage,
                                 "a switch knows no streams, only their windows' tasks: ask an agent that "
                                 "receives them or sends to them"));
    }
    const auto status = agent_status(client::agent_socket_path(flags.agent));
    if (!status) {
        return fail(kName, status.error());
    }
    const std::string text = streams_text(*status);
    return print(flags.json     ? dump(streams_json(all_streams(*status)))
                 : text.empty() ? "no streams\n"
                                : text);
}

// The first look is for the rates of the next one alone.
int top(const Flags& flags) {
    Top view;
    const bool terminal = ::isatty(STDOUT_FILENO) == 1;
    bool known = false;
    for (std::uint32_t looks = 0; flags.looks == 0 || looks < flags.looks;) {
        int code = with_status(flags, [&](const auto& from) {
            view.look(std::chrono::steady_clock::now(), from);
            if (!known) {
                known = true;
                return std::string();
            }
            ++looks;
            const std::string text = flags.json ? dump(view.json()) : view.text();
            return terminal ? "\033[H\033[J" + text : (looks > 1 ? "\n" : "") + text;
        });
        // A daemon that has once answered may come back.
        if (code != 0 && (!known || flags.looks > 0 || code == kExitBrokenPipe)) {
            return code;
        }
        if (flags.looks == 0 || looks < flags.looks) {
            ::poll(nullptr, 0, static_cast<int>(flags.watch * 1000));  // the interval asked for
        }
    }
    return 0;
}

int counters(const Flags& flags) {
    return with_status(flags, [&flags](const auto& from) {
        return flags.json ? dump(counters_json(from)) : counters_text(from.counters());
    });
}

int plans(const Flags& flags) {
    const auto status = controller_status(controller_to_ask(flags), flags.security);
    if (!status) {
        return fail(kName, status.error());
    }
    return print(flags.json ? ask::cli::dump(plans_json(*status)) : plans_text(*status));
}

int print_relay_tasks(const Flags& flags, const std::vector<RelayAnswer>& answers) {
    return print(flags.json ? ask::cli::dump(relay_tasks_json(answers)) : relay_tasks_text(answers));
}

// One that does not answer is said, and the others are shown.
int relay_tasks(const Flags& flags, const v1::ControllerStatus& status) {
    return print_relay_tasks(flags, asked_at_once(flags, relays_of(status)));
}

int relays(const Flags& flags) {
    if (!flags.relay.empty()) {
        auto status = relay_status(flags.relay, flags.security);
        return status ? print_relay_tasks(flags, {{"", flags.relay, std::move(status)}})
                      : fail(kName, status.error());
    }
    const std::string address = controller_to_ask(flags);
    const std::string& name = flags.on.empty() ? flags.off : flags.on;
    if (!name.empty()) {
        const auto changed = set_available(address, flags.security, name, flags.off.empty());
        if (!changed) {
            return fail(kName, changed.error());
        }
        if (flags.json) {
            return print(
                ask::cli::dump(Json{{"switch", name}, {"on", flags.off.empty()}, {"changed", *changed}}));
        }
        return print("switch " + name + (*changed ? " is " : " was ") + (flags.off.empty() ? "on" : "off") +
                     (*changed ? "\n" : " already\n"));
    }
    const auto status = controller_status(address, flags.security);
    if (!status) {
        return fail(kName, status.error());
    }
    if (flags.relay_tasks) {
        return relay_tasks(flags, *status);
    }
    return print(flags.json ? ask::cli::dump(relays_json(*status)) : relays_text(*status));
}

int examine(const Flags& flags) {
    const auto findings = doctor::examine(doctor::gather(flags.doctor));
    const int code =
        print(flags.json ? dump(doctor::findings_json(findings)) : doctor::findings_text(findings));
    return code != 0 ? code : doctor::exit_code(findings);
}

// Which daemons `idle` asks, by their addresses: those that are named, or else all that have a socket on this
// machine.
struct IdleAddresses {
    std::string agent;
    std::string on_switch;
    std::string controller;
    std::string relay;
};

IdleAddresses idle_addresses(const Flags& flags) {
    const bool agent_named = !flags.agent.empty() || !environment("ASK_AGENT").empty();
    const std::string agent = client::agent_socket_path(flags.agent);
    const auto named = [](const std::string& flag, const char* variable) {
        return flag.empty() ? environment(variable) : flag;
    };
    IdleAddresses ask{.agent = agent_named ? agent : "",
                      .on_switch = named(flags.switch_address, "ASK_SWITCH"),
                      .controller = named(flags.controller, "ASK_CONTROLLER"),
                      .relay = flags.relay};
    if (!agent_named && ask.on_switch.empty() && ask.controller.empty() && ask.relay.empty()) {
        const auto here = [](const char* path) {
            return exists(path) ? std::string("unix:") + path : std::string();
        };
        ask = {.agent = exists(agent) ? agent : "",
               .on_switch = here(kSwitchSocket),
               .controller = here(kControllerSocket),
               .relay = here(kRelaySocket)};
    }
    return ask;
}

template <typename Status>
Result<> add_standing(const Result<Status>& status, const std::string& who, const IdleQuestion& question,
                      std::vector<Standing>& daemons) {
    ASK_PASS(status);
    daemons.push_back({.who = who, .version = status->version(), .upkeep = status->upkeep()});
    return check_said(daemons.back(), question);
}

Result<std::vector<Standing>> ask_standings(const Flags& flags) {
    const IdleAddresses at = idle_addresses(flags);
    std::vector<Standing> daemons;
    daemons.reserve(4);
    const auto add = [&](const auto& ask, const std::string& address, const std::string& who) -> Result<> {
        return address.empty() ? Result<>()
                               : add_standing(ask(), who + " at " + address, flags.idle, daemons);
    };
    ASK_PASS(add([&] { return agent_status(at.agent); }, at.agent, "ask-agentd"));
    ASK_PASS(add([&] { return switch_status(at.on_switch, flags.security); }, at.on_switch, "ask-switchd"));
    ASK_PASS(add([&] { return relay_status(at.relay, flags.security); }, at.relay, "ask-relayd"));
    ASK_PASS(
        add([&] { return controller_status(at.controller, flags.security); }, at.controller, "ask-controld"));
    if (daemons.empty()) {
        return Error(Errc::kUnavailable,
                     "no daemon has a socket on this machine: name one with --agent, --switch, --relay or "
                     "--controller");
    }
    return daemons;
}

int idle(const Flags& flags) {
    const auto daemons = ask_standings(flags);
    if (!daemons) {
        return fail(kName, daemons.error());
    }
    const int code =
        print(flags.json ? dump(idle_json(*daemons, flags.idle)) : idle_text(*daemons, flags.idle));
    const bool busy = std::ranges::any_of(
        *daemons, [&](const Standing& daemon) { return !in_the_way(daemon, flags.idle).empty(); });
    return code == 0 && busy ? kExitBusy : code;
}

// CLI11 finds "nan" to be in every range.
std::string refuse_nan(const std::string& text) {
    return std::isnan(std::strtod(text.c_str(), nullptr)) ? text + " is no number of seconds" : "";
}

void add_json(CLI::App* command, Flags& flags) {
    command->add_flag("--json", flags.json, "for scripts: JSON");
}

CLI::Option* add_watch(CLI::App* command, Flags& flags) {
    return command
        ->add_option("--watch", flags.watch, "look again every SECONDS (1 if it is not said), until Ctrl-C")
        ->expected(0, 1)
        ->default_str("1")
        ->check(CLI::Range(0.1, 3600.0))
        ->check(refuse_nan)
        ->type_name("[SECONDS]");
}

// A command, and what it runs.
using Commands = std::vector<std::pair<CLI::App*, std::function<int(const Flags&)>>>;

void add_overviews(CLI::App& app, Flags& flags, Commands& commands) {
    auto* const status_command =
        app.add_subcommand("status", "who it is and how it is set up; fails if it cannot be reached");
    auto* const tasks_command = app.add_subcommand("tasks", "tasks, their state and where their tuples went");
    auto* const counters_command = app.add_subcommand("counters", "every counter, with its meaning");
    auto* const channels_command = app.add_subcommand("channels", "channels, their windows and tasks");
    auto* const switch_command = app.add_subcommand(
        "switch", "a switch, how it is set up, its ports and channels; the agent's, if none is named");
    auto* const regions_command =
        app.add_subcommand("regions", "who has how much of a switch's memory, and what is left");
    auto* const history_command =
        app.add_subcommand("history", "tasks that have ended on this host, and how");
    auto* const streams_command = app.add_subcommand(
        "streams", "streams of this host: how far they are, and whom their windows wait for");
    const std::vector<std::pair<CLI::App*, int (*)(const Flags&)>> looks{
        {status_command, status},     {tasks_command, tasks},        {counters_command, counters},
        {channels_command, channels}, {switch_command, show_switch}, {regions_command, regions},
        {history_command, history},   {streams_command, streams}};
    for (const auto& [command, look] : looks) {
        add_json(command, flags);
        add_watch(command, flags);
        commands.emplace_back(command,
                              [look = look](const Flags& f) { return watch(f, [&] { return look(f); }); });
    }
    tasks_command->add_flag("--all", flags.all, "the last ones that have ended, too");
}

void add_top(CLI::App& app, Flags& flags, Commands& commands) {
    auto* const command = app.add_subcommand(
        "top", "what moves, and how fast: streams, tasks, channels, ports, counters; until Ctrl-C");
    add_json(command, flags);
    add_watch(command, flags);
    command->add_option("--looks", flags.looks, "end after so many looks")
        ->check(CLI::Range(1U, 1U << 30U))
        ->type_name("N");
    commands.emplace_back(command, [](Flags f) {
        f.watch = f.watch == 0 ? 1 : f.watch;
        return top(f);
    });
}

void add_task_commands(CLI::App& app, Flags& flags, Commands& commands) {
    auto* const task = app.add_subcommand("task", "about one task");
    task->require_subcommand(1);
    auto* const show_command =
        task->add_subcommand("show", "all that is known of it here, under way or ended: its record");
    auto* const explain_command =
        task->add_subcommand("explain", "in words: where its tuples went and why, what it waits for");
    auto* const dump_command = task->add_subcommand(
        "dump", "keys and values in its memory on the switch, as packets go on: a snapshot");
    auto* const cancel_command =
        task->add_subcommand("cancel", "end it, if it is received on this host or sent to");
    auto* const finish_command = task->add_subcommand(
        "finish", "end a stream that is received on this host: what is open is committed");
    for (auto* const command :
         {show_command, explain_command, dump_command, cancel_command, finish_command}) {
        command->add_option("ID", flags.task, "id of the task, or name of the stream")->required();
        add_json(command, flags);
    }
    for (auto* const command : {show_command, explain_command, dump_command}) {
        add_watch(command, flags);
    }
    dump_command->add_option("--top", flags.top, "only the N largest values, the largest first")
        ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 32))
        ->type_name("N");
    commands.emplace_back(show_command,
                          [](const Flags& f) { return watch(f, [&f] { return show_task(f); }); });
    commands.emplace_back(explain_command,
                          [](const Flags& f) { return watch(f, [&f] { return explain(f); }); });
    commands.emplace_back(dump_command,
                          [](const Flags& f) { return watch(f, [&f] { return dump_task(f); }); });
    commands.emplace_back(cancel_command, cancel);
    commands.emplace_back(finish_command, finish);
}

void add_controller_commands(CLI::App& app, Flags& flags, Commands& commands) {
    auto* const plans_command = app.add_subcommand(
        "plans", "of the controller: which tasks aggregate on which switches, and for how long they hold");
    auto* const relays_command = app.add_subcommand(
        "relays", "of the controller: switches, their relays, what is taken, and which tasks get none");
    add_json(plans_command, flags);
    add_watch(plans_command, flags);
    add_json(relays_command, flags);
    auto* const again = add_watch(relays_command, flags);
    auto* const on = relays_command->add_option("--on", flags.on, "propose this switch to tasks again");
    on->type_name("NAME")->excludes(again);
    relays_command->add_option("--off", flags.off, "propose this switch to no task from now on")
        ->type_name("NAME")
        ->excludes(again)
        ->excludes(on);
    auto* const tasks = relays_command->add_flag(
        "--tasks", flags.relay_tasks, "the tasks of each relay that the controller knows, by asking them");
    tasks->excludes(on)->excludes("--off");
    relays_command
        ->add_option("--relay", flags.relay, "the tasks of the ask-relayd there; no controller is asked")
        ->type_name("HOST:PORT|unix:PATH")
        ->excludes(on)
        ->excludes("--off")
        ->excludes(tasks);
    commands.emplace_back(plans_command, [](const Flags& f) { return watch(f, [&f] { return plans(f); }); });
    commands.emplace_back(relays_command,
                          [](const Flags& f) { return watch(f, [&f] { return relays(f); }); });
}

void add_group_commands(CLI::App& app, Flags& flags, Commands& commands) {
    auto* const list = app.add_subcommand(
        "groups", "groups, their state and what has become of their packets; all of one, by its ID");
    list->add_option("ID", flags.task, "id of a group");
    list->add_flag("--all", flags.all, "the last ones that have ended, too");
    add_watch(list, flags);
    auto* const group = app.add_subcommand("group", "about one group");
    group->require_subcommand(1);
    auto* const explain_command = group->add_subcommand(
        "explain", "in words: whom it waits for, why the switch does not help, what to do");
    explain_command->add_option("ID", flags.task, "id of the group")->required();
    for (auto* const command : {list, explain_command}) {
        add_json(command, flags);
    }
    commands.emplace_back(list, [](const Flags& f) { return watch(f, [&f] { return groups(f); }); });
    add_watch(explain_command, flags);
    commands.emplace_back(explain_command,
                          [](const Flags& f) { return watch(f, [&f] { return explain_group(f); }); });
}

void add_idle(CLI::App& app, Flags& flags, Commands& commands) {
    auto* const command = app.add_subcommand("idle",
                                             "whether the daemons of this machine, or those that are named, "
                                             "have anything to lose: exit code 21 if so");
    command->add_flag("--restart", flags.idle.restart, "what a successor takes over does not count");
    command
        ->add_option("--wire-version", flags.idle.wire_version,
                     "a daemon that speaks packets of this version is in nobody's way")
        ->check(CLI::Range(1U, 255U))
        ->type_name("N");
    command->add_option("--relay", flags.relay, "ask this relay")->type_name("HOST:PORT|unix:PATH");
    add_json(command, flags);
    add_watch(command, flags);
    commands.emplace_back(command, [](const Flags& f) { return watch(f, [&f] { return idle(f); }); });
}

void add_doctor(CLI::App& app, Flags& flags, Commands& commands) {
    auto* const command = app.add_subcommand(
        "doctor",
        "what is wrong with this machine, and what to do; ends with the exit code of the first fault");
    command
        ->add_option("--agent-config", flags.doctor.agent_config,
                     "ask-agentd's file (default: /etc/ask/agentd.toml, if there is one)")
        ->type_name("FILE");
    command
        ->add_option("--switch-config", flags.doctor.switch_config,
                     "ask-switchd's file (default: /etc/ask/switchd.toml, if there is one)")
        ->type_name("FILE");
    command
        ->add_option("--to", flags.doctor.to,
                     "look at the way to this host and at its agent, too; as ask-send --to; several are "
                     "separated by commas")
        ->delimiter(',')
        ->type_name("HOST,...");
    add_json(command, flags);
    add_watch(command, flags);
    commands.emplace_back(command, [](const Flags& f) { return watch(f, [&f] { return examine(f); }); });
}

int make_authority(const Flags& flags) {
    const auto made =
        ask::make_authority(flags.authority.directory, flags.authority.days.value_or(kAuthorityDays));
    if (!made) {
        return fail(kName, made.error());
    }
    const std::string certificate = flags.authority.directory + "/ca.pem";
    if (flags.json) {
        return print(
            dump(Json{{"certificate", certificate}, {"key", flags.authority.directory + "/ca.key"}}));
    }
    return print("CA made: " + certificate + "; whoever has ca.key beside it can be anybody\n");
}

int issue_certificates(const Flags& flags) {
    const auto orders = certificate_orders(flags.authority);
    if (!orders) {
        return fail(kName, orders.error());
    }
    std::string text;
    Json list = Json::array();
    for (const CertificateOrder& order : *orders) {
        if (const auto issued = issue_certificate(flags.authority.directory, order); !issued) {
            return fail(kName, issued.error());
        }
        list.push_back({{"name", order.name}, {"directory", flags.authority.directory + "/" + order.name}});
        text += flags.authority.directory + "/" + order.name + ": copy it to " + order.name +
                " as /etc/ask/tls\n";
    }
    return print(flags.json ? dump(list) : text);
}

void add_authority_commands(CLI::App& app, Flags& flags, Commands& commands) {
    auto* const ca = app.add_subcommand("ca", "certificates for a lab or a rack");
    ca->require_subcommand(1);
    auto* const make_command =
        ca->add_subcommand("make", "make a CA: ca.pem and ca.key in a folder of its own");
    auto* const issue_command = ca->add_subcommand(
        "issue",
        "issue a certificate to each NAME, in a folder of that name: ca.pem, certificate.pem, key.pem");
    for (auto* const command : {make_command, issue_command}) {
        add_json(command, flags);
        command->add_option("DIR", flags.authority.directory, "folder of the CA")->required();
        command
            ->add_option("--days", flags.authority.days,
                         "how long it is good (default: 3650 for a CA, 365 for a certificate)")
            ->check(CLI::Range(1U, 36500U))
            ->type_name("N");
    }
    issue_command
        ->add_option("NAME", flags.authority.names,
                     "whom for, and the addresses that others reach it at: NAME[=ADDRESS[,ADDRESS...]]")
        ->required();
    issue_command->add_option("--tenant", flags.authority.tenant, "the tenant that it belongs to")
        ->type_name("NAME");
    issue_command->add_flag("--switch", flags.authority.role_switch, "it is a switch");
    issue_command->add_flag("--operator", flags.authority.role_operator,
                            "it may look at and end what is not its own: for askctl, not for hosts");
    commands.emplace_back(make_command, make_authority);
    commands.emplace_back(issue_command, issue_certificates);
}

int run(int argc, char** argv) {
    CLI::App app("Asks this host's agent, a switch or the controller what there is.", kName);
    Flags flags;
    Commands commands;
    app.add_option("--agent", flags.agent,
                   "socket of this host's agent (default: $ASK_AGENT, else /run/ask/agent.sock)")
        ->type_name("PATH");
    app.add_option("--switch", flags.switch_address,
                   "ask this switch instead of the agent (default: $ASK_SWITCH, where no agent is named)")
        ->type_name("HOST:PORT|unix:PATH");
    app.add_option(
           "--controller", flags.controller,
           "the controller that `plans` and `relays` ask (default: $ASK_CONTROLLER, else that of this "
           "machine)")
        ->type_name("HOST:PORT|unix:PATH");
    const std::string tls = environment("ASK_TLS");
    flags.security.tls = tls.empty() ? "/etc/ask/tls" : tls;
    app.add_option(
           "--tls", flags.security.tls,
           "folder of ca.pem, certificate.pem and key.pem, for whoever is elsewhere (default: $ASK_TLS, else "
           "/etc/ask/tls)")
        ->type_name("DIR");
    app.add_flag("--plain-text", flags.security.plain_text, "speak to whoever is elsewhere without TLS");
    app.require_subcommand(1);
    app.footer("Exit codes and more: docs/commands.md.");
    // Flags may come after the command too.
    app.fallthrough();
    add_overviews(app, flags, commands);
    add_top(app, flags, commands);
    add_task_commands(app, flags, commands);
    add_group_commands(app, flags, commands);
    add_controller_commands(app, flags, commands);
    add_idle(app, flags, commands);
    add_doctor(app, flags, commands);
    add_authority_commands(app, flags, commands);
    if (argc <= 1) {
        std::fputs(app.help().c_str(), stderr);
        return static_cast<int>(Errc::kUsage);
    }
    if (const int code = parse(app, argc, argv); code >= 0) {
        return code;
    }
    const std::pair<const char*, std::string> named[] = {{"--switch", switch_to_ask(flags)},
                                                         {"--controller", controller_to_ask(flags)}};
    for (const auto& [flag, address] : named) {
        if (auto valid = check_host_port(address);
            !valid && !address.empty() && !address.starts_with("unix:")) {
            return fail(kName,
                        std::move(valid).error().with_context(std::string(flag) + ": \"" + address + "\""));
        }
    }
    const auto chosen =
        std::ranges::find_if(commands, [](const auto& entry) { return entry.first->parsed(); });
    return chosen->second(flags);
}

}  // namespace
}  // namespace ask::cli

int main(int argc, char** argv) {
    ask::open_standard_fds();
    return ask::cli::run(argc, argv);
}
