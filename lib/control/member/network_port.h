// SPDX-License-Identifier: Apache-2.0
//
// Others, as seen from one host: where they are, how packets get there, and who answers there. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lib/base/result.h"
#include "lib/base/runtime.h"
#include "lib/control/member/peer_port.h"
#include "lib/control/member/switch_port.h"
#include "lib/net/frame.h"
#include "lib/rpc/ports.h"
#include "proto/relay.pb.h"

namespace ask {

// Where the agent of a host is.
struct HostAddress {
    std::uint32_t address = 0;  // its number (lib/net/host_book.h)
    std::uint16_t port = kControlPort;
};

// How a receiver is reached.
struct Path {
    bool local = false;  // it is this host
    UdpAddresses addresses;
};

class NetworkPort {
 public:
    NetworkPort() = default;
    virtual ~NetworkPort() = default;
    NetworkPort(const NetworkPort&) = delete;
    NetworkPort& operator=(const NetworkPort&) = delete;

    // `name` is one of the agent's table, an address, or what the resolver knows; each of them may have
    // a port behind it. `user`: who says it. kUnknown, kUsage; kLimit: he has named too many.
    [[nodiscard]] virtual Result<HostAddress> resolve(const std::string& name, std::uint32_t user) = 0;
    // Whether an address is one of this host's own.
    [[nodiscard]] virtual bool is_own(std::uint32_t address) = 0;
    // Route, then the next hop's Ethernet address, which is asked for until `deadline`: kDeadline.
    virtual Result<Path> find_path(std::uint32_t dest, Clock::time_point deadline) = 0;
    // One that a task names, for one use.
    [[nodiscard]] virtual std::unique_ptr<SwitchPort> switch_at(const std::string& address) = 0;
    // The ask-relayd there will be asked: it may shake hands meanwhile. Does not wait.
    virtual void expect_relay(const std::string& /*address*/) {}
    // Answered by the ask-relayd there, which errors name as `name`.
    virtual Result<v1::OpenRelayReply> open_relay(const std::string& address, const std::string& name,
                                                  const v1::OpenRelayRequest& request, milliseconds wait,
                                                  CallCancel* cancel) = 0;
    // The agent there, which errors name as `name`.
    [[nodiscard]] virtual std::unique_ptr<PeerPort> peer_at(const std::string& address,
                                                            const std::string& name) = 0;
};

}  // namespace ask
