// SPDX-License-Identifier: Apache-2.0
//
// ask-relayd: set-up, life and orderly end of a relay.
#include <chrono>
#include <memory>
#include <utility>

#include <spdlog/spdlog.h>

#include "lib/control/relay/relays.h"
#include "lib/daemon/control_server.h"
#include "lib/daemon/life.h"
#include "lib/daemon/listen.h"
#include "lib/daemon/log.h"
#include "lib/daemon/reload.h"
#include "lib/daemon/service.h"
#include "relay/config.h"
#include "relay/metrics.h"
#include "relay/service.h"
#include "relay/sessions.h"

namespace ask {
namespace {

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
    if (!take_reload(read, now, {"log_level", "reserve_mib", "quota_relays", "quota_memory_mib", "parents"},
                     &setup.snapshot)) {
        return;
    }
    relays.set_limits(fresh.limits());
    if (const auto set = set_log_level(fresh.log_level); !set.ok()) {
        spdlog::error("SIGHUP: {}", set.error().text());
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
    Relays relays(config.limits(), relay_sessions(config.agent));
    RelayService service(relays, config.name);
    const auto server = ControlServer::start({.name = "ask-relayd",
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
    const auto served = take_turns(signals,
                                   {.alive = [&server] { return answers(**server); },
                                    .reload = [&] { reload(setup, relays); },
                                    .each = [&relays] { relays.tick(); }},
                                   **credentials);
    notify_stopping();
    (*server)->stop(kServerEnd);
    ASK_PASS(served);
    return {};
}

}  // namespace
}  // namespace ask

int main(int argc, char** argv) {
    ask::Setup setup{.argc = argc, .argv = argv, .config = {}, .snapshot = {}};
    return ask::live(
        {.program = "ask-relayd",
         .read = [&] { return ask::RelayConfig::read(argc, argv, setup.config, &setup.snapshot); },
         .log = [&] { return ask::LogSetup{.program = "ask-relayd", .level = setup.config.log_level}; },
         .run = [&](ask::SignalEvents& signals) { return ask::run(setup, signals); }});
}
