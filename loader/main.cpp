// SPDX-License-Identifier: Apache-2.0
//
// ask-switchd: the switch controller. Exit status: 0, or that of docs/commands.md.
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>

#include <spdlog/spdlog.h>

#include "lib/bpf/kernel.h"
#include "lib/control/switch/controller.h"
#include "lib/daemon/config.h"
#include "lib/daemon/control_server.h"
#include "lib/daemon/life.h"
#include "lib/daemon/listen.h"
#include "lib/daemon/log.h"
#include "lib/daemon/reload.h"
#include "lib/daemon/service.h"
#include "lib/net/netlink.h"
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
// An agent makes a call for each send and receive that is about to begin or to end.
constexpr int kCallsOfPeer = 256;
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
    ASK_PASS(config.security.check_metrics());
    if (config.value_slots != 0 && !std::has_single_bit(config.value_slots)) {
        return Error(Errc::kUsage, "value_slots = " + std::to_string(config.value_slots) +
                                       ": must be a power of two, or 0 for none");
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

// Beside a daemon, too.
Result<> check_pinned(const SwitchConfig& config) {
    ASK_PASS(DataPlane::check_pinned(config, PinDir::look(config.bpffs, config.pin_dir)));
    spdlog::info("what is pinned would be taken over, or nothing is");
    return {};
}

Result<std::unique_ptr<ControlServer>> start_server(const SwitchConfig& config, RpcCredentials& credentials,
                                                    SwitchService& service) {
    ASK_TRY(make_socket_directory(config.socket), "socket");
    const auto group = socket_group(config.socket_group);
    ASK_PASS(group);
    return ControlServer::start(
        {.name = "ask-switchd",
         .listen = config.listen,
         .socket = config.socket,
         .group = *group,
         // All tasks may be opened, or fetched, at once, and all channels registered.
         .threads = static_cast<int>(config.max_tasks + config.max_channels + kSpareThreads),
         .streams = kCallsOfPeer,
         .refused = [&service] { service.count_refused(); }},
        credentials, service);
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
    std::shared_ptr<RpcCredentials> credentials;
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
            .back_bytes = std::uint64_t{config.back_mib} << 20U,
            .quota = {.tasks = config.quota_tasks,
                      .channels = config.quota_channels,
                      .flows = config.quota_flows,
                      .sram_bytes = std::uint64_t{config.quota_sram_kib} * 1024,
                      .back_bytes = std::uint64_t{config.quota_back_mib} << 20U},
            .packet_rate = config.quota_packets,
            .flush_values = config.value_flush,
            .rcu_only = config.swap_barrier == "rcu" || bpf::is_preempt_rt()};
}

// SIGHUP.
void reload(Setup& setup, Controller& controller) {
    SwitchConfig fresh;
    ConfigSnapshot now;
    const auto read = read_config(setup.argc, setup.argv, &fresh, &now);
    if (!take_reload(read, now,
                     {"log_level", "lease_seconds", "allow_over_budget", "aggregators", "quota_tasks",
                      "quota_channels", "quota_flows", "quota_sram_kib", "quota_back_mib", "quota_packets"},
                     &setup.snapshot)) {
        return;
    }
    controller.change_limits(limits_of(fresh));
    if (const auto set = set_log_level(fresh.log_level); !set.ok()) {
        spdlog::error("SIGHUP: {}", set.error().text());
    }
}

// Tasks and channels whose owners are gone, ports that came or went, and routes that changed.
class Upkeep {
 public:
    Upkeep(Controller& controller, SwitchService& service, PortTable& ports, RouteWatch& routes)
        : controller_(controller), service_(service), ports_(ports), routes_(routes) {}

    void operator()() {
        controller_.expire_leases();
        // Ports first: a route that leads through a new one is found.
        const bool moved = ports_.follow();
        const bool changed = routes_.changed() || moved;
        const auto now = std::chrono::steady_clock::now();
        // Once more later: for a registration that had looked its route up before, and was entered since.
        if (changed || (again_ && now >= *again_)) {
            controller_.follow_routes();
            again_ = changed ? std::optional(now + kLater) : std::nullopt;
        }
        service_.tick();
    }

 private:
    static constexpr std::chrono::milliseconds kLater{900};  // the next turn that nothing wakes

    Controller& controller_;
    SwitchService& service_;
    PortTable& ports_;
    RouteWatch& routes_;
    std::optional<std::chrono::steady_clock::time_point> again_;
};

// With the switch in place: answers until a signal says stop. Fills in `*outcome`.
Result<> run_controller(Setup& setup, const PinDir& pins, const DataPlane& plane, PortTable& ports,
                        SignalEvents& signals, Outcome* outcome) {
    const SwitchConfig& config = setup.config;
    auto routes = RouteWatch::open();
    ASK_PASS(routes);
    const auto store = make_kernel_store(plane, pins, ports, config.prepared_programs);
    ASK_PASS(store);
    const auto controller = Controller::create(**store, limits_of(config));
    ASK_PASS(controller);
    SwitchService service(**controller, plane, pins, ports);
    const auto server = start_server(config, *setup.credentials, service);
    ASK_PASS(server);
    std::unique_ptr<MetricsServer> metrics;
    if (!config.security.metrics.empty()) {
        auto exposed = expose_metrics(config.security, **controller, service, ports);
        ASK_PASS(exposed);
        metrics = std::move(*exposed);
    }
    outcome->ready = true;
    spdlog::info("listening on {}", config.listen);
    notify_ready(fmt::format("{} ports, pins in {}", ports.all().size(), pins.root().string()));
    const auto served = take_turns(signals,
                                   {.alive = [&server] { return answers(**server); },
                                    .reload = [&] { reload(setup, **controller); },
                                    .each = Upkeep(**controller, service, ports, *routes),
                                    .wake = ports.changes_fd()},
                                   *setup.credentials);
    notify_stopping();
    (*server)->stop(kStopTime);
    ASK_PASS(served);
    outcome->signal = *served;
    return {};
}

Result<> run_switch(Setup& setup, const PinDir& pins, SignalEvents& signals, Outcome* outcome) {
    const auto plane = DataPlane::load_or_adopt(setup.config, pins);
    ASK_PASS(plane);
    const auto ports = PortTable::attach(setup.config, pins, *plane);
    auto result =
        ports.ok() ? run_controller(setup, pins, *plane, **ports, signals, outcome) : Result<>(ports.error());
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
    if (config.check) {
        return check_pinned(config);
    }
    auto credentials = RpcCredentials::create(config.security.rpc());
    ASK_PASS(credentials);
    setup.credentials = std::move(*credentials);
    log_credentials(*setup.credentials);
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

std::string host_name() {
    std::array<char, 256> host{};
    ::gethostname(host.data(), host.size() - 1);
    return host.data();
}

}  // namespace
}  // namespace ask

int main(int argc, char** argv) {
    ask::Setup setup{.argc = argc, .argv = argv, .config = {}, .snapshot = {}, .credentials = {}};
    return ask::live({.program = "ask-switchd",
                      .read = [&] { return ask::read_config(argc, argv, &setup.config, &setup.snapshot); },
                      .log =
                          [&] {
                              return ask::LogSetup{.program = "ask-switchd",
                                                   .level = setup.config.log_level,
                                                   .host = ask::host_name()};
                          },
                      .run = [&](ask::SignalEvents& signals) { return ask::run(setup, signals); },
                      .signals = {SIGTERM, SIGINT, SIGHUP, ask::kHandOver}});
}
