// SPDX-License-Identifier: Apache-2.0
//
// ask-agentd: set-up, life and orderly end of a host's agent.
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <grpc/support/time.h>
#include <spdlog/spdlog.h>

#include "agent/agent.h"
#include "agent/agent_service.h"
#include "agent/session_server.h"
#include "agent/status.h"
#include "agent/switch_keeper.h"
#include "lib/daemon/log.h"
#include "lib/daemon/service.h"

namespace ask {
namespace {

constexpr milliseconds kIdle{1000};
// How long the other agents get to ask what became of their tasks.
constexpr milliseconds kLastWords{1500};
constexpr milliseconds kUnregisterWait{500};
constexpr milliseconds kServerEnd{500};

Result<> make_socket_directory(const std::string& socket) {
    std::error_code error;
    const std::filesystem::path directory = std::filesystem::path(socket).parent_path();
    std::filesystem::create_directories(directory, error);
    if (error) {
        return Error(Errc::kDenied, "make directory " + directory.string() + ": " + error.message());
    }
    return {};
}

// An agent whose workers are stuck is not alive.
bool workers_answer(Workers& workers) {
    for (unsigned i = 0; i < workers.size(); ++i) {
        if (const auto answer = workers.at(i).call([](WorkerCore&) {}); !answer.ok()) {
            spdlog::error("{}", answer.error().text());
            return false;
        }
    }
    return true;
}

// Until SIGTERM or SIGINT.
Result<> wait_for_signal(SignalEvents& signals, Workers& workers) {
    const auto watched = watchdog_interval();
    const milliseconds turn = watched.value_or(kIdle);
    for (;;) {
        auto signal = signals.wait(turn);
        if (!signal) {
            return std::move(signal).error();
        }
        if (signal->has_value()) {
            spdlog::info("signal {}: stopping", **signal);
            return {};
        }
        if (watched && workers_answer(workers)) {
            notify_watchdog();
        }
    }
}

void unregister_channels(Agent& agent) {
    for (const Channels::Entry& entry : agent.channels.list()) {
        if (entry.lease.registered.switch_id == 0) {
            continue;
        }
        SwitchClient client(agent.rpc, entry.lease.switch_address);
        if (auto gone = client.unregister_channel(entry.lease.id, entry.lease.registered_as, kUnregisterWait);
            !gone) {
            spdlog::warn("{}", gone.error().text());
            if (gone.error().code() == Errc::kUnavailable || gone.error().code() == Errc::kDeadline) {
                return;  // the others would not fare better
            }
        }
    }
}

Result<> run(AgentConfig config) {
    auto signals = SignalEvents::create({SIGTERM, SIGINT});
    ASK_TRY(make_socket_directory(config.socket), "socket");
    auto link = HostLink::open(config);
    if (!signals || !link) {
        return !signals ? std::move(signals).error() : std::move(link).error();
    }
    Agent agent(std::move(config), std::move(*link));
    if (auto started = agent.workers.start(); !started) {
        return started;
    }
    AgentService service(agent);
    auto server = serve(service, agent.config);
    if (!server) {
        return std::move(server).error();
    }
    std::unique_ptr<MetricsServer> metrics;
    if (!agent.config.metrics.empty()) {
        auto exposed = MetricsServer::start(agent);
        if (!exposed) {
            return std::move(exposed).error();
        }
        metrics = std::move(*exposed);
    }
    SessionServer sessions(agent);
    if (auto listening = sessions.start(); !listening) {
        return listening;
    }
    std::optional<SwitchKeeper> keeper(std::in_place, agent);
    const std::string summary = agent.full_name() + " on " + agent.interface.name + ", XDP " +
                                agent.config.xdp_mode + ", AF_XDP " + agent.bind_mode + ", " +
                                std::to_string(agent.interface.rx_queues) + " queues, " +
                                std::to_string(agent.workers.size()) + " workers";
    spdlog::info("ready: {}", summary);
    notify_ready(summary);

    auto ended = wait_for_signal(*signals, agent.workers);
    notify_stopping();
    sessions.stop();
    keeper.reset();
    agent.registry.wait_until_told(Clock::now() + kLastWords);
    agent.registry.stop();
    unregister_channels(agent);
    agent.rpc.cancel_calls();
    (*server)->Shutdown(gpr_time_from_millis(kServerEnd.count(), GPR_TIMESPAN));
    (*server)->Wait();
    metrics.reset();
    agent.workers.stop();
    spdlog::info("stopped");
    return ended;
}

}  // namespace
}  // namespace ask

int main(int argc, char** argv) {
    ask::AgentConfig config;
    const auto action = ask::AgentConfig::read(argc, argv, config);
    if (!action.ok()) {
        std::fprintf(stderr, "ask-agentd: %s\n", action.error().text().c_str());
        return ask::exit_code(action.error());
    }
    if (*action == ask::ConfigAction::kExit) {
        return 0;
    }
    if (const auto log = ask::set_up_log("ask-agentd", config.log_level); !log.ok()) {
        std::fprintf(stderr, "ask-agentd: %s\n", log.error().text().c_str());
        return ask::exit_code(log.error());
    }
    const auto result = ask::run(std::move(config));
    if (!result.ok()) {
        spdlog::error("{}", result.error().text());
        return ask::exit_code(result.error());
    }
    return 0;
}
