// SPDX-License-Identifier: Apache-2.0
#include "lib/daemon/life.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include <spdlog/spdlog.h>

#include "lib/base/standard_fds.h"
#include "lib/daemon/security_config.h"

namespace ask {
namespace {

int complain(const std::string& program, const Error& error) {
    std::fprintf(stderr, "%s: %s\n", program.c_str(), error.text().c_str());
    return exit_code(error);
}

Result<> run_with_signals(const Daemon& daemon) {
    auto signals = SignalEvents::create(daemon.signals);
    ASK_PASS(signals);
    return daemon.run(*signals);
}

}  // namespace

int live(const Daemon& daemon) {
    open_standard_fds();
    keep_memory_private();
    const auto action = daemon.read();
    if (!action.ok()) {
        return complain(daemon.program, action.error());
    }
    if (*action == ConfigAction::kExit) {
        return 0;
    }
    if (const auto log = set_up_log(daemon.log()); !log.ok()) {
        return complain(daemon.program, log.error());
    }
    const auto result = run_with_signals(daemon);
    if (!result.ok()) {
        spdlog::error("{}", result.error().text());
        return exit_code(result.error());
    }
    return 0;
}

Result<int> take_turns(SignalEvents& signals, const Turns& turns, RpcCredentials& credentials) {
    Watchdog watchdog(turns.alive);
    const auto tick = std::min(turns.tick, watchdog.turn());
    for (;;) {
        const auto signal = signals.wait(tick, turns.wake);
        ASK_PASS(signal);
        if (*signal && **signal == SIGHUP) {
            turns.reload();
        } else if (*signal) {
            spdlog::info("stopping: {}", strsignal(**signal));  // NOLINT(concurrency-mt-unsafe): one caller
            return **signal;
        }
        turns.each();
        if (auto may = turns.may_go_on ? turns.may_go_on() : Result<>(); !may.ok()) {
            spdlog::info("stopping: {}", may.error().text());
            return std::move(may).error();
        }
        refresh_credentials(credentials);
        watchdog.look();
    }
}

}  // namespace ask
