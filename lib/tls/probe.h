// SPDX-License-Identifier: Apache-2.0
//
// A connection of its own to a gRPC port, to find out whether anybody can be spoken to there, and if not,
// why: what gRPC says of a handshake that failed names neither the cause nor the file.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "lib/base/result.h"
#include "lib/tls/identity.h"

namespace ask {

struct Probe {
    std::string address;                    // HOST:PORT
    const TlsIdentity* identity = nullptr;  // null: plain text
    std::chrono::milliseconds wait{1000};   // for all of it
    bool check_name = true;                 // whether the certificate must be for HOST
    // Before it connects, from this port.
    std::function<void(std::uint16_t port)> bound = {};
};

// Connects, shows who we are, and waits until the other side begins to speak. The error says what is wrong
// with whom and what to do; of one that does not listen or answer, kUnavailable or kDeadline.
Result<> probe_rpc_port(const Probe& probe);

}  // namespace ask
