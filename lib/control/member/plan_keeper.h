// SPDX-License-Identifier: Apache-2.0
//
// Plans of running tasks, renewed at the controller that made them, and given back. A thread of its own; no
// task waits for it, and one runs on if the controller is away.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "lib/base/runtime.h"
#include "lib/control/member/controller_port.h"

namespace ask {

class PlanKeeper {
 public:
    // What is to be told of plans that have ended, at most: of the rest leases run out.
    static constexpr std::size_t kMostEnded = 1024;

    // Null: no controller is configured, and nothing is kept.
    explicit PlanKeeper(std::shared_ptr<ControllerPort> controller);
    ~PlanKeeper();
    PlanKeeper(const PlanKeeper&) = delete;
    PlanKeeper& operator=(const PlanKeeper&) = delete;

    // The task runs by this plan.
    void keep(v1::RenewPlanRequest plan, std::chrono::duration<double> lease);
    // It has ended, or the plan has come to nothing: which relay refused it, if one did.
    void end(std::uint64_t instance, const std::string& refused_by, const std::string& why);

 private:
    struct Kept {
        v1::RenewPlanRequest plan;
        Clock::duration every;
        Clock::time_point due;
    };
    struct Ended {
        v1::RenewPlanRequest plan;
        std::string refused_by;
        std::string why;
    };
    void loop();
    void renew_due(Lock& lock);
    void tell_ended(Lock& lock);

    const std::shared_ptr<ControllerPort> controller_;
    Mutex mutex_;
    CondVar changed_;
    bool stop_ = false;  // from here on under mutex_
    std::map<std::uint64_t, Kept> kept_;
    std::deque<Ended> ended_;
    Thread thread_;  // last: it uses all of these
};

}  // namespace ask
