// SPDX-License-Identifier: Apache-2.0
//
// A receiver's agent, as the agents of its senders see it. Every call ends within its `wait`, or when it is
// cancelled, and its error names the receiver.
#pragma once

#include <memory>
#include <optional>

#include "lib/base/result.h"
#include "lib/control/member/call_cancel.h"
#include "lib/control/member/mailbox.h"
#include "lib/control/member/patience.h"
#include "proto/agent.pb.h"

namespace ask {

// A Renew beside the session: the receiver holds its answer back until the task ends, while the session
// serves its application. One at a time, by one thread.
class Renewal {
 public:
    Renewal() = default;
    virtual ~Renewal() = default;
    Renewal(const Renewal&) = delete;
    Renewal& operator=(const Renewal&) = delete;

    [[nodiscard]] virtual bool running() const = 0;
    // Only while none is running. Ends within `wait`.
    virtual void start(const v1::RenewRequest& request, milliseconds wait) = 0;
    virtual void cancel() = 0;
    // The answer, once it is there; none is running then.
    virtual std::optional<Result<v1::Outcome>> take() = 0;
};

class PeerPort {
 public:
    PeerPort() = default;
    virtual ~PeerPort() = default;
    PeerPort(const PeerPort&) = delete;
    PeerPort& operator=(const PeerPort&) = delete;

    virtual Result<v1::TaskOffer> look_up(const v1::LookupRequest& request, milliseconds wait,
                                          CallCancel* cancel) = 0;
    virtual Result<v1::JoinReply> join(const v1::JoinRequest& request, milliseconds wait,
                                       CallCancel* cancel) = 0;
    // Held back there while the stream is of the version that the request names.
    virtual Result<v1::FollowStreamReply> follow_stream(const v1::FollowStreamRequest& /*request*/,
                                                        milliseconds /*wait*/, CallCancel* /*cancel*/) {
        return Error(Errc::kUnsupported, "its agent knows no streams");
    }
    virtual Result<> leave(const v1::LeaveRequest& request, milliseconds wait) = 0;
    // Ends before this does. Its answers are announced by kRenewed in `mailbox`.
    virtual std::unique_ptr<Renewal> renewal(std::shared_ptr<Mailbox> mailbox) = 0;
};

}  // namespace ask
