// SPDX-License-Identifier: Apache-2.0
//
// ask-relayd: set-up, life and orderly end of a relay.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <utility>

#include <spdlog/spdlog.h>

#include "lib/base/standard_fds.h"
#include "lib/daemon/listen.h"
#include "lib/daemon/log.h"
#include "lib/daemon/reload.h"
#include "lib/daemon/service.h"
#include "relay/config.h"
#include "relay/metrics.h"
#include "relay/relays.h"
#include "relay/service.h"

namespace ask {
namespace {

constexpr std::chrono::milliseconds kIdle{1000};
constexpr std::chrono::milliseconds kServerEnd{500};
// Beyond those that wait for a task to open.
constexpr int kSpareThreads = 8;
constexpr int kCallsOfPeer = 64;

// How the relay was started, and what it runs with.
struct Setup {
    int argc = 0;
    const char* const* argv = nullptr;
    RelayConfig config;
    ConfigSnapshot snapshot;
};

// SIGHUP.
void reload(Setup& setup, Relays& relays) {
    RelayConfig fresh;
    ConfigSnapshot now;
    const auto read = RelayConfig::read(setup.argc, setup.argv, fresh, &now);
    if (!take_reload(read, now, {"log_level", "reserve_mib", "quota_relays", "quota_memory_mib"},
                     &setup.snapshot)) {
        return;
    }
    relays.set_limits(fresh);
    if (const auto set = set_log_level(fresh.log_level); !set.ok()) {
        spdlog::error("SIGHUP: {}", set.error().text());
    }
}

// Until SIGTERM or SIGINT.
Result<> serve(SignalEvents& signals, Setup& setup, Relays& relays, ControlServer& server,
               RpcCredentials& credentials) {
    Watchdog watchdog([&server] { return answers(server); });
    for (;;) {
        const auto signal = signals.wait(std::min(kIdle, watchdog.turn()));
        ASK_PASS(signal);
        if (*signal && **signal == SIGHUP) {
            reload(setup, relays);
        } else if (*signal) {
            spdlog::info("signal {}: stopping", **signal);
            return {};
        }
        relays.tick();
        refresh_credentials(credentials);
        watchdog.look();
    }
}

Result<> run(Setup& setup, SignalEvents& signals) {
    const RelayConfig& config = setup.config;
    const auto group = socket_group(config.socket_group);
    ASK_PASS(group);
    ASK_TRY(make_socket_directory(config.socket), "socket");
    ASK_PASS(config.security.check_metrics());
    const auto credentials = RpcCredentials::create(config.security.rpc());
    ASK_PASS(credentials);
    log_credentials(**credentials);
    Relays relays(config);
    RelayService service(relays);
    const auto server =
        ControlServer::start({.name = "ask-relayd",
                              .listen = config.listen,
                              .socket = config.socket,
                              .group = *group,
                              .threads = static_cast<int>(config.max_relays) + kSpareThreads,
                              .streams = kCallsOfPeer},
                             **credentials, service);
    ASK_PASS(server);
    std::unique_ptr<MetricsServer> metrics;
    if (!config.security.metrics.empty()) {
        auto exposed = expose_metrics(config.security, relays);
        ASK_PASS(exposed);
        metrics = *std::move(exposed);
    }
    const std::string summary = config.name + ", listening on " + config.listen;
    spdlog::info("ready: {}", summary);
    notify_ready(summary);
    auto served = serve(signals, setup, relays, **server, **credentials);
    notify_stopping();
    (*server)->stop(kServerEnd);
    return served;
}

int start(int argc, char** argv) {
    Setup setup{.argc = argc, .argv = argv, .config = {}, .snapshot = {}};
    const auto action = RelayConfig::read(argc, argv, setup.config, &setup.snapshot);
    if (!action.ok()) {
        std::fprintf(stderr, "ask-relayd: %s\n", action.error().text().c_str());
        return exit_code(action.error());
    }
    if (*action == ConfigAction::kExit) {
        return 0;
    }
    auto result = set_up_log("ask-relayd", setup.config.log_level);
    auto signals = SignalEvents::create({SIGTERM, SIGINT, SIGHUP});
    if (result.ok() && signals.ok()) {
        result = run(setup, *signals);
    } else if (!signals.ok()) {
        result = std::move(signals).error();
    }
    if (!result.ok()) {
        spdlog::error("{}", result.error().text());
        return exit_code(result.error());
    }
    return 0;
}

}  // namespace
}  // namespace ask

int main(int argc, char** argv) {
    ask::open_standard_fds();
    ask::keep_memory_private();
    return ask::start(argc, argv);
}
