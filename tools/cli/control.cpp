// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/control.h"

#include <chrono>

#include <grpc/support/time.h>
#include <grpcpp/grpcpp.h>

#include "proto/agent.grpc.pb.h"
#include "proto/switch.grpc.pb.h"

namespace ask::cli {
namespace {

constexpr std::chrono::seconds kAnswer{5};

void limit(grpc::ClientContext& context) {
    context.set_deadline(gpr_time_from_seconds(kAnswer.count(), GPR_TIMESPAN));
}

Error explain(const grpc::Status& status, const std::string& who, const std::string& what_to_do) {
    switch (status.error_code()) {
        case grpc::StatusCode::UNAVAILABLE:
            return {Errc::kUnavailable, who + " cannot be reached: " + what_to_do};
        case grpc::StatusCode::DEADLINE_EXCEEDED:
            return {Errc::kDeadline,
                    who + " has not answered within " + std::to_string(kAnswer.count()) + " s"};
        case grpc::StatusCode::PERMISSION_DENIED:
            return {Errc::kDenied, who + " refuses: " + status.error_message()};
        default:
            return {Errc::kInternal, who + ": " + status.error_message()};
    }
}

}  // namespace

Result<v1::AgentStatus> agent_status(const std::string& socket) {
    // unix:PATH takes absolute and relative paths.
    const std::string target = "unix:" + socket + ".ctl";
    auto stub = v1::Agent::NewStub(grpc::CreateChannel(target, grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    limit(context);
    v1::AgentStatus status;
    const grpc::Status done = stub->GetStatus(&context, {}, &status);
    if (!done.ok()) {
        return explain(
            done, "the agent at " + socket + ".ctl",
            "start ask-agentd, see that you may use its socket, or name it with --agent or ASK_AGENT");
    }
    return status;
}

Result<v1::SwitchStatus> switch_status(const std::string& address) {
    auto stub = v1::Switch::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    limit(context);
    v1::SwitchStatus status;
    const grpc::Status done = stub->GetStatus(&context, {}, &status);
    if (!done.ok()) {
        return explain(done, "the switch at " + address,
                       "start ask-switchd there, or name another with --switch or ASK_SWITCH");
    }
    return status;
}

}  // namespace ask::cli
