// SPDX-License-Identifier: Apache-2.0
//
// ask-controld, which says where tasks aggregate, as receivers' agents see it. Every call ends within its
// `wait`, or when it is cancelled, and its error names the controller. Thread-safe.
#pragma once

#include <string>

#include "lib/base/result.h"
#include "lib/control/member/call_cancel.h"
#include "lib/control/member/patience.h"
#include "proto/controller.pb.h"

namespace ask {

class ControllerPort {
 public:
    ControllerPort() = default;
    virtual ~ControllerPort() = default;
    ControllerPort(const ControllerPort&) = delete;
    ControllerPort& operator=(const ControllerPort&) = delete;

    [[nodiscard]] virtual const std::string& address() const = 0;
    virtual Result<v1::AdmitReply> admit(const v1::AdmitRequest& request, milliseconds wait,
                                         CallCancel* cancel) = 0;
    virtual Result<v1::RenewPlanReply> renew(const v1::RenewPlanRequest& request, milliseconds wait) = 0;
    virtual Result<> release(const v1::ReleasePlanRequest& request, milliseconds wait) = 0;
    virtual Result<> report_refused(const v1::ReportRefusedRequest& request, milliseconds wait) = 0;
};

}  // namespace ask
