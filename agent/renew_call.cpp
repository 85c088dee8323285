// SPDX-License-Identifier: Apache-2.0
#include "agent/renew_call.h"

#include <utility>

namespace ask {

void RenewCall::start(const v1::RenewRequest& request, milliseconds wait) {
    auto call = std::make_shared<Call>();
    call->request = request;
    set_deadline(call->context, wait);
    call_ = call;
    call->stub = make_stub_();
    call->stub->async()->Renew(&call->context, &call->request, &call->reply,
                               [call, mailbox = mailbox_](grpc::Status status) {
                                   {
                                       const Guard lock(call->mutex);
                                       call->status = std::move(status);
                                   }
                                   mailbox->post(SessionEvent::Kind::kRenewed);
                               });
}

void RenewCall::end() {
    if (call_) {
        call_->context.TryCancel();
    }
}

std::optional<Result<v1::Outcome>> RenewCall::take() {
    const std::shared_ptr<Call> done = call_;
    if (!done) {
        return std::nullopt;
    }
    const Guard lock(done->mutex);
    if (!done->status) {
        return std::nullopt;
    }
    call_ = nullptr;
    if (!done->status->ok()) {
        return Result<v1::Outcome>(from_status(*done->status, peer_));
    }
    clean_strings(done->reply);
    return Result<v1::Outcome>(std::move(done->reply));
}

}  // namespace ask
