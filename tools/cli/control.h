// SPDX-License-Identifier: Apache-2.0
//
// Asks agents and switches about themselves over gRPC.
#pragma once

#include <string>

#include "lib/base/result.h"
#include "proto/agent.pb.h"
#include "proto/switch.pb.h"

namespace ask::cli {

// `socket`: the agent's application socket; its control socket lies beside it (".ctl"). kUnavailable or
// kDeadline: nobody answers there.
Result<v1::AgentStatus> agent_status(const std::string& socket);
// `address`: HOST:PORT of ask-switchd.
Result<v1::SwitchStatus> switch_status(const std::string& address);

}  // namespace ask::cli
