// SPDX-License-Identifier: Apache-2.0
//
// A host: its agent, as shipped (lib/control), on threads of a simulated process. What agent/main.cpp and
// session_server.cpp do around it is here in little: a thread a session, a thread a call.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/control/member/member.h"
#include "tests/sim/tuples/application.h"
#include "tests/sim/tuples/calls.h"
#include "tests/sim/tuples/peers.h"
#include "tests/sim/tuples/workers.h"

namespace ask::sim {

class SimTables final : public TableStore {
 public:
    explicit SimTables(const Plan& plan) : plan_(plan) {}
    [[nodiscard]] std::unique_ptr<TableMemory> make_memory(std::uint32_t /*user*/) override {
        return std::make_unique<ReadableMemory>();
    }
    Result<std::shared_ptr<TableGrant>> grant(std::uint32_t /*user*/, std::size_t bytes) override {
        return std::make_shared<TableGrant>(bytes);
    }
    [[nodiscard]] std::unique_ptr<TableMemory> make_memory(std::shared_ptr<TableGrant> /*grant*/,
                                                           std::size_t most) override {
        return std::make_unique<ReadableMemory>(std::min<std::size_t>(most, plan_.relay_part * 1024UL));
    }
    [[nodiscard]] Result<> check_room(std::uint32_t /*user*/, std::uint64_t /*keys*/,
                                      std::uint64_t /*key_bytes*/) override {
        return {};
    }
    Result<std::shared_ptr<const SealedTable>> seal(ResultTable table) override;

 private:
    const Plan& plan_;
};

class Host final : public Server {
 public:
    Host(const Cast& cast, std::uint32_t number);
    ~Host();
    Host(const Host&) = delete;
    Host& operator=(const Host&) = delete;

    void start();
    void kill();
    // As SIGSTOP and SIGCONT do.
    void stop();
    void go_on();

    // An application's session, while the agent is up.
    [[nodiscard]] std::shared_ptr<Link> open(v1::LocalRequest request);
    void open(const std::shared_ptr<Link>& link, v1::LocalRequest request);
    void take(FramePtr frame);
    // While it is up.
    [[nodiscard]] Member& member() { return *life_->member; }

    // When all is over nothing may be left of any task.
    void check_nothing_left();

 private:
    void check_refused();

    // What ends with the process.
    struct Life {
        Life(const Cast& cast, std::uint32_t number);
        AgentCounters counters;
        SimTables tables;
        SimNetwork network;
        SimWorkers workers;
        std::unique_ptr<Member> member;
    };
    void serve(const std::shared_ptr<Link>& link, const v1::LocalRequest& request);

    Cast cast_;
    const std::uint32_t number_;
    std::unique_ptr<Life> life_;
    std::vector<std::unique_ptr<Life>> past_;  // timers may still be set for them
};

}  // namespace ask::sim
