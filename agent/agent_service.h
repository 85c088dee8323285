// SPDX-License-Identifier: Apache-2.0
//
// The gRPC interface of the agent (proto/agent.proto), served to other agents over TCP and to askctl over a
// Unix socket. Handlers only translate; tasks are the registry's.
#pragma once

#include <memory>
#include <string>

#include "agent/agent.h"
#include "lib/daemon/control_server.h"
#include "proto/agent.grpc.pb.h"

namespace ask {

class AgentService final : public v1::Agent::Service {
 public:
    explicit AgentService(Agent& agent) : agent_(agent) {}

    grpc::Status Lookup(grpc::ServerContext* context, const v1::LookupRequest* request,
                        v1::TaskOffer* reply) override;
    grpc::Status Join(grpc::ServerContext* context, const v1::JoinRequest* request,
                      v1::JoinReply* reply) override;
    grpc::Status Renew(grpc::ServerContext* context, const v1::RenewRequest* request,
                       v1::Outcome* reply) override;
    grpc::Status Leave(grpc::ServerContext* context, const v1::LeaveRequest* request,
                       v1::LeaveReply* reply) override;
    grpc::Status FollowStream(grpc::ServerContext* context, const v1::FollowStreamRequest* request,
                              v1::FollowStreamReply* reply) override;
    grpc::Status FinishTask(grpc::ServerContext* context, const v1::FinishTaskRequest* request,
                            v1::FinishTaskReply* reply) override;
    grpc::Status JoinGroup(grpc::ServerContext* context, const v1::JoinGroupRequest* request,
                           v1::JoinGroupReply* reply) override;
    grpc::Status RenewGroup(grpc::ServerContext* context, const v1::RenewGroupRequest* request,
                            v1::GroupOutcome* reply) override;
    grpc::Status LeaveGroup(grpc::ServerContext* context, const v1::LeaveGroupRequest* request,
                            v1::LeaveGroupReply* reply) override;
    grpc::Status GetStatus(grpc::ServerContext* context, const v1::GetAgentStatusRequest* request,
                           v1::AgentStatus* reply) override;
    grpc::Status CancelTask(grpc::ServerContext* context, const v1::CancelTaskRequest* request,
                            v1::CancelTaskReply* reply) override;

 private:
    Agent& agent_;
};

// Listens on config.listen and on <config.socket>.ctl. kExists: the TCP port is taken.
Result<std::unique_ptr<ControlServer>> serve(AgentService& service, Agent& agent, gid_t group);

}  // namespace ask
