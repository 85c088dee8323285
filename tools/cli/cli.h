// SPDX-License-Identifier: Apache-2.0
//
// What the commands have in common: how they read their arguments and how they end.
#pragma once

#include <chrono>
#include <string>

#include "lib/base/result.h"
#include "lib/flags/flags.h"

namespace ask::cli {

inline constexpr int kExitIncomplete = 20;    // a result without all of some senders' tuples, as was allowed
inline constexpr int kExitBusy = 21;          // askctl idle: something is under way
inline constexpr int kExitInterrupted = 130;  // as the shell has it: 128 + SIGINT
inline constexpr int kExitBrokenPipe = 141;   // 128 + SIGPIPE

// Reads the command line. Returns -1 to go on, else the exit code (help: 0; a bad one: 2, explained).
int parse(CLI::App& app, int argc, char** argv);

// Says on standard error why `command` failed; returns its exit code: that of the error's class.
int fail(const std::string& command, const Error& error);

// Flags of ask-send and ask-recv alike.
struct CommonFlags {
    std::string task;
    std::string agent;
    std::string stats_file;
    std::string token_file;
    bool quiet = false;
    double deadline_seconds = 30;
    [[nodiscard]] std::chrono::milliseconds deadline() const;
};
void add_common_flags(CLI::App& app, CommonFlags& flags);

}  // namespace ask::cli
