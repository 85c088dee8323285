// SPDX-License-Identifier: Apache-2.0
//
// Flows that are to join at one switch, in as few calls as they need: while one call is under way, others
// gather for the next. A task's senders come at once, each in a call of its own.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/runtime.h"
#include "lib/control/member/switch_port.h"
#include "proto/switch.pb.h"

namespace ask {

// Thread-safe.
class FlowJoins {
 public:
    using Answer = Result<SwitchPort::Joined>;
    using Requests = std::vector<v1::JoinFlowRequest>;
    // Asks the switch for so long, and has one answer for each.
    using Carry = std::function<std::vector<Answer>(const Requests& requests, milliseconds wait)>;

    // Nothing: no answer in that time, since another call took it.
    std::optional<Answer> join(const v1::JoinFlowRequest& request, milliseconds wait, const Carry& carry);

    // Flows that wait for the next call.
    [[nodiscard]] std::size_t waiting() {
        const Guard lock(mutex_);
        return waiting_.size();
    }

    // A short request, whoever comes.
    static constexpr std::size_t kMost = 64;

 private:
    struct Wish {
        v1::JoinFlowRequest request;
        Clock::time_point until;
        std::optional<Answer> answer;
    };
    void carry_waiting(Lock& lock, const Carry& carry);

    Mutex mutex_;
    CondVar changed_;
    bool carrying_ = false;
    std::vector<std::shared_ptr<Wish>> waiting_;
};

}  // namespace ask
