// SPDX-License-Identifier: Apache-2.0
//
// A Renew at the receiver's agent, by gRPC.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "agent/rpc.h"
#include "lib/control/member/peer_port.h"
#include "proto/agent.grpc.pb.h"

namespace ask {

// gRPC's threads only fill in the answer.
class RenewCall final : public Renewal {
 public:
    using MakeStub = std::function<std::unique_ptr<v1::Agent::Stub>()>;

    // `peer` names the receiver in errors.
    RenewCall(MakeStub make_stub, std::shared_ptr<Mailbox> mailbox, std::string peer)
        : make_stub_(std::move(make_stub)), mailbox_(std::move(mailbox)), peer_(std::move(peer)) {}
    ~RenewCall() override { end(); }
    RenewCall(const RenewCall&) = delete;
    RenewCall& operator=(const RenewCall&) = delete;

    [[nodiscard]] bool running() const override { return call_ != nullptr; }
    void start(const v1::RenewRequest& request, milliseconds wait) override;
    void cancel() override { end(); }
    std::optional<Result<v1::Outcome>> take() override;

 private:
    void end();

    // Owned by the call and by gRPC together, since gRPC may answer after the session has ended.
    struct Call {
        std::unique_ptr<v1::Agent::Stub> stub;
        grpc::ClientContext context;
        v1::RenewRequest request;
        v1::Outcome reply;
        Mutex mutex;
        std::optional<grpc::Status> status;  // under mutex; set: reply is complete
    };

    const MakeStub make_stub_;
    std::shared_ptr<Mailbox> mailbox_;
    std::string peer_;
    std::shared_ptr<Call> call_;
};

}  // namespace ask
