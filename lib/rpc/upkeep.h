// SPDX-License-Identifier: Apache-2.0
//
// What a daemon says to whoever wants to restart or replace it: the version of its packets, and what would be
// lost.
#pragma once

#include "proto/agent.pb.h"
#include "proto/controller.pb.h"
#include "proto/relay.pb.h"
#include "proto/switch.pb.h"

namespace ask {

// As the status has it, so last of all. `whole`: its caller may see everything that there is.
void set_upkeep(v1::AgentStatus& status, bool whole);
void set_upkeep(v1::SwitchStatus& status, bool whole);
void set_upkeep(v1::RelayStatus& status, bool whole);
void set_upkeep(v1::ControllerStatus& status, bool whole);

}  // namespace ask
