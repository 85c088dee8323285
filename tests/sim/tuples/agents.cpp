// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/tuples/agents.h"

#include <map>
#include <utility>

#include "tests/sim/tuples/host.h"

namespace ask::sim {

namespace {

std::vector<std::unique_ptr<Host>>* the_hosts = nullptr;

std::map<int, std::shared_ptr<Link>>& sessions() {
    static std::map<int, std::shared_ptr<Link>> all;
    return all;
}

}  // namespace

void set_agents(std::vector<std::unique_ptr<Host>>* hosts) {
    the_hosts = hosts;
}

bool await_agent(std::uint32_t host, Nanos until) {
    Host& agent = *the_hosts->at(host);
    while (agent.up() && agent.threads().stopped() && sim_now() < until && !thrown()) {
        park(nullptr, sim_now() + kMillisecond);
    }
    return agent.up() && !agent.threads().stopped();
}

std::shared_ptr<Link> open_session(std::uint32_t host, v1::LocalRequest request,
                                   std::shared_ptr<Signal> ready) {
    Host& agent = *the_hosts->at(host);
    if (!agent.up() || unwinding()) {
        return nullptr;
    }
    auto link = std::make_shared<Link>();
    link->to_application = std::move(ready);
    agent.open(link, std::move(request));
    return link;
}

void note_session(int descriptor, const std::shared_ptr<Link>& link) {
    sessions()[descriptor] = link;
}

void forget_session(int descriptor) {
    sessions().erase(descriptor);
}

std::shared_ptr<Link> session_of(int descriptor) {
    const auto at = sessions().find(descriptor);
    return at == sessions().end() ? nullptr : at->second;
}

}  // namespace ask::sim
