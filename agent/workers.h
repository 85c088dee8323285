// SPDX-License-Identifier: Apache-2.0
//
// All workers of the agent.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "agent/worker.h"

namespace ask {

class Workers {
 public:
    struct Options {
        unsigned workers = 1;
        std::uint32_t own_address = 0;
        SenderConfig sender;
    };
    // Queue q's socket goes to worker q % workers.
    Workers(const Options& options, std::vector<XskSocket> sockets);
    ~Workers() { stop(); }
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;

    Result<> start();
    void stop();

    [[nodiscard]] unsigned size() const { return static_cast<unsigned>(workers_.size()); }
    [[nodiscard]] Worker& at(unsigned index) { return *workers_[index]; }
    [[nodiscard]] Worker& owner(ChannelId channel) { return at(owner_of(channel, size())); }
    // Sum over all workers.
    [[nodiscard]] std::uint64_t counter(AgentCounter counter) const;

 private:
    std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace ask
