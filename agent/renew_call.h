// SPDX-License-Identifier: Apache-2.0
//
// A Renew at the receiver's agent that runs beside the session: the receiver holds its answer back until the
// task ends, while the session serves its application.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "agent/mailbox.h"
#include "agent/rpc.h"
#include "proto/agent.grpc.pb.h"

namespace ask {

// One call at a time. Used by one thread; gRPC's threads only fill in the answer.
class RenewCall {
 public:
    // The answer is announced by kRenewed in `mailbox`. `peer` names the receiver in errors.
    RenewCall(v1::Agent::Stub* stub, std::shared_ptr<Mailbox> mailbox, std::string peer)
        : stub_(stub), mailbox_(std::move(mailbox)), peer_(std::move(peer)) {}
    ~RenewCall() { cancel(); }
    RenewCall(const RenewCall&) = delete;
    RenewCall& operator=(const RenewCall&) = delete;

    [[nodiscard]] bool running() const { return call_ != nullptr; }
    // Only while none is running.
    void start(const v1::RenewRequest& request);
    void cancel();
    // The answer, once it is there; the call is no longer running then.
    std::optional<Result<v1::Outcome>> take();

 private:
    // Owned by the call and by gRPC together, since gRPC may answer after the session has ended.
    struct Call {
        grpc::ClientContext context;
        v1::RenewRequest request;
        v1::Outcome reply;
        std::mutex mutex;
        std::optional<grpc::Status> status;  // under mutex; set: reply is complete
    };

    v1::Agent::Stub* stub_;
    std::shared_ptr<Mailbox> mailbox_;
    std::string peer_;
    std::shared_ptr<Call> call_;
};

}  // namespace ask
