// SPDX-License-Identifier: Apache-2.0
//
// ask-controld: the controller of placements. Exit status: 0, or that of docs/commands.md.
#include <chrono>
#include <memory>

#include <spdlog/spdlog.h>

#include "controller/config.h"
#include "controller/convert.h"
#include "controller/ground.h"
#include "controller/metrics.h"
#include "controller/service.h"
#include "lib/daemon/control_server.h"
#include "lib/daemon/life.h"
#include "lib/daemon/listen.h"
#include "lib/daemon/log.h"
#include "lib/daemon/reload.h"
#include "lib/daemon/service.h"

namespace ask {
namespace {

constexpr const char* kDefaultConfig = "/etc/ask/controld.toml";
// All calls take the same lock, for less than a millisecond: more would only wait for it.
constexpr int kThreads = 32;
// A receiver's agent makes a call for each task that begins, ends or is renewed.
constexpr int kCallsOfPeer = 256;
// What open calls have to end in when the daemon stops.
constexpr std::chrono::seconds kStopTime{2};

// How the daemon was started, and what it runs with.
struct Setup {
    int argc = 0;
    const char* const* argv = nullptr;
    ControllerConfig config;
    ConfigSnapshot snapshot;
};

Result<ConfigAction> read_config(int argc, const char* const* argv, ControllerConfig* config,
                                 ConfigSnapshot* snapshot) {
    ConfigTable table("ask-controld",
                      "Controller of ASK: says on which switches of a network a task aggregates",
                      kDefaultConfig);
    declare_options(table, config);
    auto action = table.parse(argc, argv);
    if (action.ok()) {
        *snapshot = table.snapshot();
    }
    return action;
}

Result<std::unique_ptr<ControlServer>> start_server(const ControllerConfig& config,
                                                    RpcCredentials& credentials, ControllerService& service) {
    ASK_TRY(make_socket_directory(config.socket), "socket");
    const auto group = socket_group(config.socket_group);
    ASK_PASS(group);
    return ControlServer::start({.name = "ask-controld",
                                 .listen = config.listen,
                                 .socket = config.socket,
                                 .group = *group,
                                 .threads = kThreads,
                                 .streams = kCallsOfPeer,
                                 .request_bytes = kControllerRequestBytes,
                                 .refused = [&service] { service.count_refused(); }},
                                credentials, service);
}

// SIGHUP: the configuration, if there is a file, and the topology in any case.
void reload(Setup& setup, ControllerService& service) {
    ControllerConfig fresh;
    ConfigSnapshot now;
    const auto read = read_config(setup.argc, setup.argv, &fresh, &now);
    const bool without_file = read.ok() && now.file.empty() && setup.snapshot.file.empty();
    if (!without_file && !take_reload(read, now,
                                      {"log_level", "topology", "lease_seconds", "refusal_seconds", "k",
                                       "paced_tasks", "max_plans", "quota_plans", "quota_places"},
                                      &setup.snapshot)) {
        return;
    }
    service.change(fresh.settings());
    if (const auto set = set_log_level(fresh.log_level); !set.ok()) {
        spdlog::error("SIGHUP: {}", set.error().text());
    }
    auto ground = load_ground(fresh.topology);
    if (!ground.ok()) {
        spdlog::error("SIGHUP: {}; the topology of before stays", ground.error().text());
        return;
    }
    service.follow(*std::move(ground), fresh.topology);
    spdlog::info("SIGHUP: {} is in force; tasks that run keep their plans", fresh.topology);
}

Result<> run(Setup& setup, SignalEvents& signals) {
    const ControllerConfig& config = setup.config;
    ASK_PASS(config.security.check_metrics());
    auto ground = load_ground(config.topology);
    ASK_PASS(ground);
    const auto credentials = RpcCredentials::create(config.security.rpc());
    ASK_PASS(credentials);
    log_credentials(**credentials);
    ControllerService service(*std::move(ground), config.topology, config.settings());
    const auto server = start_server(config, **credentials, service);
    ASK_PASS(server);
    std::unique_ptr<MetricsServer> metrics;
    if (!config.security.metrics.empty()) {
        auto exposed = expose_metrics(config.security, service);
        ASK_PASS(exposed);
        metrics = *std::move(exposed);
    }
    spdlog::info(
        "listening on {}; for {} s, while tasks that run make themselves known, others are admitted "
        "without switches",
        config.listen, config.lease_seconds);
    notify_ready("plans by " + config.topology);
    const auto served = take_turns(signals,
                                   {.alive = [&server] { return answers(**server); },
                                    .reload = [&] { reload(setup, service); },
                                    .each = [&service] { service.tick(); }},
                                   **credentials);
    notify_stopping();
    (*server)->stop(kStopTime);
    ASK_PASS(served);
    return {};
}

}  // namespace
}  // namespace ask

int main(int argc, char** argv) {
    ask::Setup setup{.argc = argc, .argv = argv, .config = {}, .snapshot = {}};
    return ask::live(
        {.program = "ask-controld",
         .read = [&] { return ask::read_config(argc, argv, &setup.config, &setup.snapshot); },
         .log = [&] { return ask::LogSetup{.program = "ask-controld", .level = setup.config.log_level}; },
         .run = [&](ask::SignalEvents& signals) { return ask::run(setup, signals); }});
}
