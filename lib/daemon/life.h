// SPDX-License-Identifier: Apache-2.0
//
// A daemon's life, from its command line to its exit status: what all of them do alike.
#pragma once

#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/daemon/config.h"
#include "lib/daemon/log.h"
#include "lib/daemon/service.h"
#include "lib/rpc/credentials.h"

namespace ask {

struct Daemon {
    std::string program;
    // Command line and configuration; kExit: nothing is to be run.
    std::function<Result<ConfigAction>()> read;
    // Once they are read.
    std::function<LogSetup()> log;
    // Before it no thread runs.
    std::function<Result<>(SignalEvents& signals)> run;
    std::vector<int> signals{SIGTERM, SIGINT, SIGHUP};
};

// All of main(): returns the exit status (docs/commands.md). What goes wrong is said on standard error, and
// once there is a log, in the log.
int live(const Daemon& daemon);

// What a daemon that runs does on its first thread.
struct Turns {
    std::chrono::milliseconds tick{1000};   // a turn at least so often
    std::function<bool()> alive;            // asked for the supervisor
    std::function<void()> reload;           // SIGHUP
    std::function<void()> each;             // a turn
    std::function<Result<>()> may_go_on{};  // asked each turn, if given: an error ends the daemon
    int wake = -1;                          // a descriptor: a turn as soon as it is readable
};

// Until a signal other than SIGHUP, which is returned. Looks after `credentials` and the supervisor's
// watchdog too.
Result<int> take_turns(SignalEvents& signals, const Turns& turns, RpcCredentials& credentials);

}  // namespace ask
