// SPDX-License-Identifier: Apache-2.0
//
// ask-controld over gRPC.
#pragma once

#include <string>
#include <utility>

#include "agent/rpc.h"
#include "lib/control/member/controller_port.h"

namespace ask {

class ControllerClient final : public ControllerPort {
 public:
    // `channels` outlives it.
    ControllerClient(RpcChannels& channels, std::string address)
        : channels_(channels), address_(std::move(address)) {}

    [[nodiscard]] const std::string& address() const override { return address_; }
    Result<v1::AdmitReply> admit(const v1::AdmitRequest& request, milliseconds wait,
                                 CallCancel* cancel) override;
    Result<v1::RenewPlanReply> renew(const v1::RenewPlanRequest& request, milliseconds wait) override;
    Result<> release(const v1::ReleasePlanRequest& request, milliseconds wait) override;
    Result<> report_refused(const v1::ReportRefusedRequest& request, milliseconds wait) override;

 private:
    RpcChannels& channels_;
    const std::string address_;
};

}  // namespace ask
