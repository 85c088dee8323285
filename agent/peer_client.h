// SPDX-License-Identifier: Apache-2.0
//
// Calls to a receiver's agent, by gRPC.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "agent/rpc.h"
#include "lib/control/group/ports.h"
#include "lib/control/member/peer_port.h"
#include "proto/agent.grpc.pb.h"

namespace ask {

class PeerClient final : public PeerPort, public GroupPeer {
 public:
    // `name` is for errors.
    PeerClient(RpcChannels& channels, std::string address, std::string name)
        : channels_(channels), address_(std::move(address)), name_(std::move(name)) {}

    Result<v1::TaskOffer> look_up(const v1::LookupRequest& request, milliseconds wait,
                                  CallCancel* cancel) override;
    Result<v1::JoinReply> join(const v1::JoinRequest& request, milliseconds wait,
                               CallCancel* cancel) override;
    Result<v1::FollowStreamReply> follow_stream(const v1::FollowStreamRequest& request, milliseconds wait,
                                                CallCancel* cancel) override;
    Result<> leave(const v1::LeaveRequest& request, milliseconds wait) override;
    Result<v1::JoinGroupReply> join_group(const v1::JoinGroupRequest& request, milliseconds wait,
                                          CallCancel* cancel) override;
    Result<v1::GroupOutcome> renew_group(const v1::RenewGroupRequest& request, milliseconds wait,
                                         CallCancel* cancel) override;
    Result<> leave_group(const v1::LeaveGroupRequest& request, milliseconds wait) override;
    std::unique_ptr<Renewal> renewal(std::shared_ptr<Mailbox> mailbox) override;

 private:
    // By the newest certificate.
    [[nodiscard]] std::unique_ptr<v1::Agent::Stub> stub() const {
        return v1::Agent::NewStub(channels_.get(address_));
    }
    template <typename Request, typename Reply>
    Result<Reply> call(grpc::Status (v1::Agent::Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                       const Request& request, milliseconds wait, const std::string& peer,
                       CallCancel* cancel);

    RpcChannels& channels_;  // outlives this
    const std::string address_;
    const std::string name_;
};

}  // namespace ask
