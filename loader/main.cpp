// SPDX-License-Identifier: Apache-2.0
//
// ask-switchd: the switch controller. Exit status: 0, or that of docs/commands.md.
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>

#include <grpc/support/time.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>
#include <spdlog/spdlog.h>

#include "lib/base/standard_fds.h"
#include "lib/bpf/kernel.h"
#include "lib/control/switch/controller.h"
#include "lib/daemon/config.h"
#include "lib/daemon/listen.h"
#include "lib/daemon/log.h"
#include "lib/daemon/reload.h"
#include "lib/daemon/service.h"
#include "lib/rpc/credentials.h"
#include "loader/config.h"
#include "loader/data_plane.h"
#include "loader/kernel_store.h"
#include "loader/metrics.h"
#include "loader/pin_dir.h"
#include "loader/ports.h"
#include "loader/service.h"

namespace ask {
namespace {

constexpr const char* kDefaultConfig = "/etc/ask/switchd.toml";
// Beside a call for each task and channel: status, metrics, and whoever else asks. Threads are made as calls
// come.
constexpr std::uint32_t kSpareThreads = 32;
constexpr int kMaxRequestBytes = 1 << 20;
constexpr std::chrono::milliseconds kTick{1000};
// Ends the daemon and leaves the switch to a successor, whatever unload_on_exit says: systemd sends it for a
// restart.
constexpr int kHandOver = SIGUSR1;
// What open calls have to end in when the daemon stops.
constexpr std::chrono::seconds kStopTime{2};

Result<> check_machine(const SwitchConfig& config) {
    ASK_PASS(bpf::check_capabilities(bpf::kXdpCapabilities));
    if (config.unload) {
        return {};
    }
    if (config.ports.empty()) {
        return Error(Errc::kUsage,
                     "no ports: name the interfaces to attach to by --ports or in the configuration");
    }
    return bpf::check_switch_features();
}

// Idempotent.
Result<> unload(const SwitchConfig& config) {
    auto pins = PinDir::lock(config.bpffs, config.pin_dir);
    ASK_PASS(pins);
    ASK_PASS(pins->remove_all());
    spdlog::info("unloaded: {} is gone", pins->root().string());
    return {};
}

Result<std::unique_ptr<grpc::Server>> start_server(const SwitchConfig& config, SwitchService& service) {
    grpc::ResourceQuota quota("ask-switchd");
    // All tasks may be opened, or fetched, at once, and all channels registered.
    quota.SetMaxThreads(static_cast<int>(config.max_tasks + config.max_channels + kSpareThreads));
    grpc::ServerBuilder builder;
    int port = 0;
    builder.SetResourceQuota(quota)
        .SetMaxReceiveMessageSize(kMaxRequestBytes)
        // Two daemons on one port would each get some of the calls.
        .AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0)
        .AddListeningPort(config.listen, rpc_server_credentials(), &port)
        .RegisterService(&service);
    ASK_PASS(check_listen("listen", config.listen));
    auto server = builder.BuildAndStart();
    if (!server || port == 0) {
        return Error(Errc::kUnavailable,
                     "cannot listen on " + config.listen + ": is the port in use, or the address not here?");
    }
    return server;
}

// How a run of the daemon went.
struct Outcome {
    bool ready = false;  // anybody could have used the switch
    int signal = 0;      // that ended it
};

// How the daemon was started, and what it runs with.
struct Setup {
    int argc = 0;
    const char* const* argv = nullptr;
    SwitchConfig config;
    ConfigSnapshot snapshot;
};

Result<ConfigAction> read_config(int argc, const char* const* argv, SwitchConfig* config,
                                 ConfigSnapshot* snapshot) {
    ConfigTable table("ask-switchd",
                      "Switch controller of ASK: loads the XDP switch program, hands out its memory",
                      kDefaultConfig);
    declare_options(table, config);
    auto action = table.parse(argc, argv);
    if (action.ok()) {
        *snapshot = table.snapshot();
    }
    return action;
}

ControllerLimits limits_of(const SwitchConfig& config) {
    return {.sram_bytes = std::uint64_t{config.sram_kib} * 1024,
            .allow_over_budget = config.allow_over_budget,
            .aggregators = config.aggregators,
            .lease = std::chrono::seconds(config.lease_seconds),
            .quota = {.tasks = config.quota_tasks,
                      .channels = config.quota_channels,
                      .flows = config.quota_flows,
                      .sram_bytes = std::uint64_t{config.quota_sram_kib} * 1024},
            .rcu_only = config.swap_barrier == "rcu" || bpf::is_preempt_rt()};
}

// SIGHUP.
void reload(Setup& setup, Controller& controller) {
    SwitchConfig fresh;
    ConfigSnapshot now;
    const auto read = read_config(setup.argc, setup.argv, &fresh, &now);
    if (!take_reload(read, now,
                     {"log_level", "lease_seconds", "allow_over_budget", "aggregators", "quota_tasks",
                      "quota_channels", "quota_flows", "quota_sram_kib"},
                     &setup.snapshot)) {
        return;
    }
    controller.change_limits(limits_of(fresh));
    if (const auto set = set_log_level(fresh.log_level); !set.ok()) {
        spdlog::error("SIGHUP: {}", set.error().text());
    }
}

// Until a signal says stop; which one.
Result<int> serve(SignalEvents& signals, Setup& setup, Controller& controller, SwitchService& service) {
    const auto tick = std::min(kTick, watchdog_interval().value_or(kTick));
    while (true) {
        const auto signal = signals.wait(tick);
        ASK_PASS(signal);
        if (*signal && **signal == SIGHUP) {
            reload(setup, controller);
        } else if (*signal) {
            spdlog::info("stopping: {}", strsignal(**signal));  // NOLINT(concurrency-mt-unsafe): one caller
            return **signal;
        }
        controller.expire_leases();
        service.tick();
        notify_watchdog();
    }
}

// With the switch in place: answers until a signal says stop. Fills in `*outcome`.
Result<> run_controller(Setup& setup, const PinDir& pins, const DataPlane& plane, const PortTable& ports,
                        SignalEvents& signals, Outcome* outcome) {
    const SwitchConfig& config = setup.config;
    const auto store = make_kernel_store(plane, pins, ports);
    ASK_PASS(store);
    const auto controller = Controller::create(**store, limits_of(config));
    ASK_PASS(controller);
    SwitchService service(**controller, plane, pins, ports);
    const auto server = start_server(config, service);
    ASK_PASS(server);
    std::optional<MetricsServer> metrics;
    if (!config.metrics.empty()) {
        auto started = MetricsServer::start(config.metrics, **controller);
        ASK_PASS(started);
        metrics.emplace(std::move(*started));
    }
    outcome->ready = true;
    spdlog::info("listening on {}", config.listen);
    notify_ready(fmt::format("{} ports, pins in {}", ports.all().size(), pins.root().string()));
    const auto served = serve(signals, setup, **controller, service);
    notify_stopping();
    (*server)->Shutdown(gpr_time_from_seconds(kStopTime.count(), GPR_TIMESPAN));
    (*server)->Wait();
    ASK_PASS(served);
    outcome->signal = *served;
    return {};
}

Result<> run_switch(Setup& setup, const PinDir& pins, SignalEvents& signals, Outcome* outcome) {
    const auto plane = DataPlane::load_or_adopt(setup.config, pins);
    ASK_PASS(plane);
    const auto ports = PortTable::attach(setup.config, pins, *plane);
    auto result =
        ports.ok() ? run_controller(setup, pins, *plane, *ports, signals, outcome) : Result<>(ports.error());
    if (!outcome->ready && !plane->adopted()) {
        // Nobody uses it yet: a start that failed leaves nothing behind.
        ASK_PASS(pins.remove_all());
    }
    return result;
}

Result<> run(Setup& setup, SignalEvents& signals) {
    const SwitchConfig& config = setup.config;
    ASK_PASS(check_machine(config));
    if (config.unload) {
        return unload(config);
    }
    const auto pins = PinDir::lock(config.bpffs, config.pin_dir);
    ASK_PASS(pins);
    Outcome outcome;
    ASK_PASS(run_switch(setup, *pins, signals, &outcome));
    if (config.unload_on_exit && outcome.signal != kHandOver) {
        ASK_PASS(pins->remove_all());
        spdlog::info("unloaded: {} is gone", pins->root().string());
    } else {
        spdlog::info("the switch goes on without its daemon: pins stay in {}", pins->root().string());
    }
    return {};
}

int start(int argc, char** argv) {
    Setup setup{.argc = argc, .argv = argv, .config = {}, .snapshot = {}};
    const auto action = read_config(argc, argv, &setup.config, &setup.snapshot);
    if (!action.ok()) {
        std::fprintf(stderr, "ask-switchd: %s\n", action.error().text().c_str());
        return exit_code(action.error());
    }
    if (*action == ConfigAction::kExit) {
        return 0;
    }
    auto result = set_up_log("ask-switchd", setup.config.log_level);
    auto signals = SignalEvents::create({SIGTERM, SIGINT, SIGHUP, kHandOver});
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
    return ask::start(argc, argv);
}
