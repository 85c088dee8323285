// SPDX-License-Identifier: Apache-2.0
//
// A relay: what ask-relayd decides, as shipped (lib/control/relay), on threads of a simulated process. What
// relay/sessions.cpp and lib/client do around it is here in little.
#pragma once

#include <cstdint>
#include <memory>

#include "lib/control/relay/relays.h"
#include "tests/sim/tuples/calls.h"
#include "tests/sim/tuples/host.h"
#include "tests/sim/tuples/oracle.h"
#include "tests/sim/tuples/peers.h"

namespace ask::sim {

class RelayDaemon final : public Server {
 public:
    // On that host.
    RelayDaemon(const Cast& cast, Oracle& oracle, std::uint32_t host);
    ~RelayDaemon();
    RelayDaemon(const RelayDaemon&) = delete;
    RelayDaemon& operator=(const RelayDaemon&) = delete;

    void start();
    void kill();
    // As SIGSTOP and SIGCONT do.
    void stop();
    void go_on();

    // While it is up.
    [[nodiscard]] Relays& relays() { return *relays_; }
    void check_nothing_left();

 private:
    Cast cast_;
    Oracle& oracle_;
    const std::uint32_t host_;
    std::unique_ptr<Relays> relays_;
};

}  // namespace ask::sim
