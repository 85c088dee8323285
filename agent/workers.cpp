// SPDX-License-Identifier: Apache-2.0
#include "agent/workers.h"

#include <utility>

namespace ask {

Workers::Workers(const Options& options, std::vector<XskSocket> sockets) {
    std::vector<std::vector<XskSocket>> shares(options.workers);
    for (std::size_t i = 0; i < sockets.size(); ++i) {
        shares[i % shares.size()].push_back(std::move(sockets[i]));
    }
    for (unsigned index = 0; index < options.workers; ++index) {
        WorkerCore::Options core;
        core.own_address = options.own_address;
        core.sender = options.sender;
        core.index = index;
        core.workers = options.workers;
        core.push = [this](unsigned worker, InboxPacket packet) {
            return workers_[worker]->push(std::move(packet));
        };
        workers_.push_back(std::make_unique<Worker>(std::move(core), std::move(shares[index])));
    }
}

Result<> Workers::start() {
    for (const auto& worker : workers_) {
        if (auto started = worker->start(); !started) {
            return started;
        }
    }
    return {};
}

void Workers::stop() {
    for (const auto& worker : workers_) {
        worker->stop();
    }
}

std::uint64_t Workers::counter(AgentCounter counter) const {
    std::uint64_t sum = 0;
    for (const auto& worker : workers_) {
        sum += worker->counters().get(counter);
    }
    return sum;
}

}  // namespace ask
