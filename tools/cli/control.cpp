// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/control.h"

#include <chrono>
#include <memory>
#include <utility>

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
        case grpc::StatusCode::NOT_FOUND:
            return {Errc::kUnknown, status.error_message()};
        default:
            return {Errc::kInternal, who + ": " + status.error_message()};
    }
}

// unix:PATH takes absolute and relative paths.
std::unique_ptr<v1::Agent::Stub> agent_stub(const std::string& socket) {
    return v1::Agent::NewStub(
        grpc::CreateChannel("unix:" + socket + ".ctl", grpc::InsecureChannelCredentials()));
}

std::unique_ptr<v1::Switch::Stub> switch_stub(const std::string& address) {
    return v1::Switch::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
}

Error explain_agent(const grpc::Status& status, const std::string& socket) {
    return explain(status, "the agent at " + socket + ".ctl",
                   "start ask-agentd, see that you may use its socket, or name it with --agent or ASK_AGENT");
}

Error explain_switch(const grpc::Status& status, const std::string& address) {
    return explain(status, "the switch at " + address,
                   "start ask-switchd there, or name another with --switch or ASK_SWITCH");
}

}  // namespace

Result<v1::AgentStatus> agent_status(const std::string& socket) {
    grpc::ClientContext context;
    limit(context);
    v1::AgentStatus status;
    const grpc::Status done = agent_stub(socket)->GetStatus(&context, {}, &status);
    if (!done.ok()) {
        return explain_agent(done, socket);
    }
    return status;
}

Result<v1::SwitchStatus> switch_status(const std::string& address) {
    grpc::ClientContext context;
    limit(context);
    v1::SwitchStatus status;
    const grpc::Status done = switch_stub(address)->GetStatus(&context, {}, &status);
    if (!done.ok()) {
        return explain_switch(done, address);
    }
    return status;
}

Result<v1::CancelTaskReply> cancel_task(const std::string& socket, const std::string& id) {
    grpc::ClientContext context;
    limit(context);
    v1::CancelTaskRequest request;
    request.set_task_id(id);
    v1::CancelTaskReply reply;
    const grpc::Status done = agent_stub(socket)->CancelTask(&context, request, &reply);
    if (!done.ok()) {
        return explain_agent(done, socket);
    }
    return reply;
}

Result<> read_region(const std::string& address, const v1::SwitchTask& task,
                     const std::function<Result<>(std::string_view entries)>& sink) {
    grpc::ClientContext context;
    limit(context);
    v1::FetchCopyRequest request;
    request.set_instance(task.instance());
    request.set_epoch(task.epoch());
    const auto stub = switch_stub(address);
    const auto reader = stub->FetchCopy(&context, request);
    Result<> fine;
    v1::FetchChunk chunk;
    while (reader->Read(&chunk)) {
        fine = fine ? sink(chunk.entries()) : std::move(fine);
    }
    if (const grpc::Status done = reader->Finish(); !done.ok()) {
        return explain_switch(done, address);
    }
    return fine;
}

}  // namespace ask::cli
