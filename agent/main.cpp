// SPDX-License-Identifier: Apache-2.0
//
// ask-agentd: set-up, life and orderly end of a host's agent.
#include <sys/resource.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <spdlog/spdlog.h>

#include "agent/agent.h"
#include "agent/agent_service.h"
#include "agent/link_check.h"
#include "agent/metrics.h"
#include "agent/session_server.h"
#include "lib/control/member/switch_keeper.h"
#include "lib/daemon/life.h"
#include "lib/daemon/listen.h"
#include "lib/daemon/log.h"
#include "lib/daemon/reload.h"
#include "lib/daemon/service.h"
#include "lib/net/address.h"

namespace ask {
namespace {

// How long the other agents get to ask what became of their tasks.
constexpr milliseconds kLastWords{1500};
constexpr milliseconds kUnregisterWait{500};
constexpr milliseconds kServerEnd{500};

// Each application takes half a dozen descriptors, and the usual soft limit is 1024, for programs that still
// use select().
void raise_descriptor_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) {
            spdlog::warn("{}", Error::from_errno(errno, "the limit of descriptors stays as it is").text());
        }
    }
}

// How the agent was started, and what it runs with.
struct Setup {
    int argc = 0;
    const char* const* argv = nullptr;
    AgentConfig config;
    ConfigSnapshot snapshot;
};

// Other agents dial this one's address, whatever else they could reach it by.
Result<> check_reachable(const AgentConfig& config, std::uint32_t address) {
    const auto parts = split_host_port(config.listen);
    ASK_TRY(parts, "listen");
    const bool anywhere = parts->host == "0.0.0.0" || parts->host == "[::]";
    // A name is looked up where the agent listens.
    const bool is_address = parts->host.front() == '[' || parse_ipv4(parts->host);
    const auto host = read_host_of_control(config.listen);
    const bool is_other = host.ok() ? host->number != address : is_address;
    if (!anywhere && is_other) {
        return Error(Errc::kUsage, "listen: nobody would reach this agent at " + config.listen +
                                       ": other agents dial " + format_host(address) +
                                       ", so listen there, or at " +
                                       (is_ipv6_number(address) ? "[::]" : "0.0.0.0"));
    }
    return {};
}

// SIGHUP.
void reload(Setup& setup, Agent& agent) {
    AgentConfig fresh;
    ConfigSnapshot now;
    const auto read = AgentConfig::read(setup.argc, setup.argv, fresh, &now);
    if (!take_reload(read, now, {"log_level", "hosts"}, &setup.snapshot)) {
        return;
    }
    agent.network.set_hosts(fresh.hosts);
    if (const auto set = set_log_level(fresh.log_level); !set.ok()) {
        spdlog::error("SIGHUP: {}", set.error().text());
    }
}

// An agent whose workers are stuck is not alive.
bool workers_answer(Workers& workers) {
    for (const auto& worker : workers.all()) {
        if (const auto answer = worker->call([](WorkerCore&) {}); !answer.ok()) {
            spdlog::error("{}", answer.error().text());
            return false;
        }
    }
    return true;
}

// The first thread's, until a signal says stop.
Result<int> watch(SignalEvents& signals, Setup& setup, Agent& agent, BondKeeper& bonds,
                  ControlServer& server) {
    std::set<std::uint32_t> gone;
    return take_turns(signals,
                      {.alive = [&] { return workers_answer(agent.workers) && answers(server); },
                       .reload = [&] { reload(setup, agent); },
                       .each =
                           [&agent, &bonds] {
                               bonds.follow();
                               agent.member.kept.forget_old();
                               agent.tables.budget().look_at_held();
                           },
                       .may_go_on = [&] { return check_left(agent.interfaces, gone); },
                       .wake = bonds.changes_fd()},
                      *agent.credentials);
}

void unregister_channels(Agent& agent) {
    for (const Channels::Entry& entry : agent.member.channels.list()) {
        if (entry.lease.registered.switch_id == 0) {
            continue;
        }
        const auto client = agent.network.switch_at(entry.lease.switch_address);
        if (auto gone =
                client->unregister_channel(entry.lease.id, entry.lease.registered_as, kUnregisterWait);
            !gone) {
            spdlog::warn("{}", gone.error().text());
            if (gone.error().code() == Errc::kUnavailable || gone.error().code() == Errc::kDeadline) {
                return;  // the others would not fare better
            }
        }
    }
}

// What people see once everything runs.
std::string summary_of(const Agent& agent) {
    std::string names;
    std::uint32_t queues = 0;
    for (const InterfaceInfo& interface : agent.interfaces) {
        names += (names.empty() ? "" : " and ") + interface.name;
        queues += interface.rx_queues;
    }
    std::string text = agent.member.full_name() + " on " + names + ", XDP " + agent.config.xdp_mode +
                       ", AF_XDP " + agent.bind_mode + ", " + std::to_string(queues) + " queues, " +
                       std::to_string(agent.workers.size()) + " workers";
    if (agent.control_port != kControlPort) {
        text += ", control port " + std::to_string(agent.control_port) + ": who sends here says --to " +
                agent.config.name + ":" + std::to_string(agent.control_port) + ", or has the port in [hosts]";
    }
    return text;
}

Result<> run(Setup& setup, SignalEvents& signals) {
    raise_descriptor_limit();
    const auto group = socket_group(setup.config.socket_group);
    ASK_PASS(group);
    ASK_TRY(make_socket_directory(setup.config.socket), "socket");
    ASK_PASS(setup.config.security.check_metrics());
    const auto credentials = RpcCredentials::create(setup.config.security.rpc());
    ASK_PASS(credentials);
    log_credentials(**credentials);
    auto link = HostLink::open(setup.config);
    ASK_PASS(link);
    ASK_PASS(check_reachable(setup.config, link->address));
    Agent agent(setup.config, *credentials, std::move(*link));
    if (auto started = agent.workers.start(); !started) {
        return started;
    }
    auto bonds = BondKeeper::open(agent.config, agent.bonds, agent.programs, agent.workers);
    ASK_PASS(bonds);
    AgentService service(agent);
    auto server = serve(service, agent, *group);
    if (!server) {
        return std::move(server).error();
    }
    std::unique_ptr<MetricsServer> metrics;
    if (!agent.config.security.metrics.empty()) {
        auto exposed = expose_metrics(agent);
        if (!exposed) {
            return std::move(exposed).error();
        }
        metrics = std::move(*exposed);
    }
    SessionServer sessions(agent);
    if (auto listening = sessions.start(*group); !listening) {
        return listening;
    }
    std::optional<SwitchKeeper> keeper(std::in_place, agent.member);
    const std::string summary = summary_of(agent);
    spdlog::info("ready: {}", summary);
    notify_ready(summary);

    const auto ended = watch(signals, setup, agent, *bonds, **server);
    notify_stopping();
    sessions.stop();
    keeper.reset();
    agent.member.kept.clear();
    agent.member.registry.wait_until_told(Clock::now() + kLastWords);
    agent.member.registry.stop();
    unregister_channels(agent);
    agent.rpc.cancel_calls();
    (*server)->stop(kServerEnd);
    metrics.reset();
    agent.workers.stop();
    ASK_PASS(ended);
    spdlog::info("stopped");
    return {};
}

}  // namespace
}  // namespace ask

int main(int argc, char** argv) {
    ask::Setup setup{.argc = argc, .argv = argv, .config = {}, .snapshot = {}};
    return ask::live(
        {.program = "ask-agentd",
         .read = [&] { return ask::AgentConfig::read(argc, argv, setup.config, &setup.snapshot); },
         .log =
             [&] {
                 return ask::LogSetup{
                     .program = "ask-agentd", .level = setup.config.log_level, .host = setup.config.name};
             },
         .run = [&](ask::SignalEvents& signals) { return ask::run(setup, signals); }});
}
