// SPDX-License-Identifier: Apache-2.0
//
// One `ask-recv --again`: hands out a result that was kept because nobody had taken it.
#pragma once

#include <memory>

#include "lib/control/member/member.h"
#include "lib/control/member/session_io.h"

namespace ask {

class TakingAgain {
 public:
    TakingAgain(Member& member, SessionIo& io, v1::OpenAgain request);
    // Answers the application. A result that it does not take stays kept.
    void run();

 private:
    Result<> run_steps();
    Result<std::shared_ptr<KeptResult>> find();
    Result<> give(const std::shared_ptr<KeptResult>& result);

    Member& member_;
    SessionIo& io_;
    const v1::OpenAgain request_;
    milliseconds deadline_{0};
};

}  // namespace ask
