// SPDX-License-Identifier: Apache-2.0
#include "agent/controller_client.h"

#include "proto/controller.grpc.pb.h"

namespace ask {
namespace {

template <typename Request, typename Reply>
Result<Reply> call_controller(RpcChannels& channels, const std::string& address,
                              grpc::Status (v1::Controller::Stub::*method)(grpc::ClientContext*,
                                                                           const Request&, Reply*),
                              const Request& request, milliseconds wait, CallCancel* cancel = nullptr) {
    const std::string name = "controller " + address;
    ASK_TRY(channels.credentials().check_address(address), name);
    const auto stub = v1::Controller::NewStub(channels.get(address));
    auto reply = call_rpc(channels, *stub, method, request, wait, name, cancel);
    if (!reply.ok() && reply.error().code() == Errc::kUnavailable) {
        if (auto wrong = channels.credentials().diagnose(address, reply.error().text())) {
            return std::move(*wrong).with_context(name);
        }
    }
    return reply;
}

}  // namespace

Result<v1::AdmitReply> ControllerClient::admit(const v1::AdmitRequest& request, milliseconds wait,
                                               CallCancel* cancel) {
    return call_controller(channels_, address_, &v1::Controller::Stub::Admit, request, wait, cancel);
}

Result<v1::RenewPlanReply> ControllerClient::renew(const v1::RenewPlanRequest& request, milliseconds wait) {
    return call_controller(channels_, address_, &v1::Controller::Stub::Renew, request, wait);
}

Result<> ControllerClient::release(const v1::ReleasePlanRequest& request, milliseconds wait) {
    const auto told = call_controller(channels_, address_, &v1::Controller::Stub::Release, request, wait);
    return told ? Result<>() : told.error();
}

Result<> ControllerClient::report_refused(const v1::ReportRefusedRequest& request, milliseconds wait) {
    const auto told =
        call_controller(channels_, address_, &v1::Controller::Stub::ReportRefused, request, wait);
    return told ? Result<>() : told.error();
}

}  // namespace ask
