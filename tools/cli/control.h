// SPDX-License-Identifier: Apache-2.0
//
// Asks agents, switches and the controller about themselves over gRPC.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/tls/identity.h"
#include "proto/agent.pb.h"
#include "proto/controller.pb.h"
#include "proto/relay.pb.h"
#include "proto/switch.pb.h"

namespace ask::cli {

// How a switch, or the controller, is spoken to over the network.
struct ControlSecurity {
    std::string tls;                  // folder of ca.pem, certificate.pem and key.pem
    bool plain_text = false;          // without any of it
    std::optional<TlsFiles> files{};  // instead of those of the folder
};

// `socket`: the agent's application socket; its control socket lies beside it (".ctl"). kUnavailable or
// kDeadline: nobody answers there.
Result<v1::AgentStatus> agent_status(const std::string& socket);
// `address`: HOST:PORT of ask-switchd, or unix:PATH of its socket on this machine.
Result<v1::SwitchStatus> switch_status(const std::string& address, const ControlSecurity& security);
// The same of ask-controld.
Result<v1::ControllerStatus> controller_status(const std::string& address, const ControlSecurity& security);
// The same of ask-relayd.
Result<v1::RelayStatus> relay_status(const std::string& address, const ControlSecurity& security);
// Whether the controller proposes that switch to tasks from now on; whether that changed anything.
Result<bool> set_available(const std::string& address, const ControlSecurity& security,
                           const std::string& name, bool available);
// kUnknown: nothing of that id is under way there.
Result<v1::CancelTaskReply> cancel_task(const std::string& socket, const std::string& id);
// The windows of that stream that are open are its last. kUnknown: none of that name is received there.
Result<> finish_stream(const std::string& socket, const std::string& name);
// A look at the copy in use of a task's region, whose entries `sink` gets; packets go on meanwhile.
Result<> read_region(const std::string& address, const ControlSecurity& security, const v1::SwitchTask& task,
                     const std::function<Result<>(std::string_view entries)>& sink);

}  // namespace ask::cli
