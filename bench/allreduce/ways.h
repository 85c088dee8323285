// SPDX-License-Identifier: Apache-2.0
//
// The ways of tools/bench allreduce: the product, and over TCP a ring and a parameter server.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/allreduce/vectors.h"
#include "lib/base/result.h"

namespace ask::bench {

struct AskPeers {
    std::string group;
    std::string root;  // host whose agent collects
    bool no_switch = false;
    bool sum32 = false;  // floats, by ASK_SUM_32
};

// A member of a group, through its host's agent.
Result<std::unique_ptr<Way>> join_group(const Work& work, const AskPeers& peers);

struct TcpPeers {
    std::vector<std::string> hosts;  // IPv4: of the members by rank, or the server's alone
    std::uint16_t port = 9100;
};

// Each member sends 2(N-1)/N of the vector to the next one: first parts to be added to, then sums. What has
// come goes on at once, so that a part does not wait for its end at every member.
Result<std::unique_ptr<Way>> join_ring(const Work& work, const TcpPeers& peers);

// Each member sends its vector to one server, which returns the sum.
Result<std::unique_ptr<Way>> join_server(const Work& work, const TcpPeers& peers);
// The server, until the members leave. {"link"} as of measure().
Result<std::string> serve(const Work& work, std::uint16_t port);

}  // namespace ask::bench
