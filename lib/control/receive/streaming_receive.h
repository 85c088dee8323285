// SPDX-License-Identifier: Apache-2.0
//
// The receiver of a stream (ask-recv --every): tells it of members and of windows that are due, which it
// opens as receives of their own. Sequential code in a thread of its own.
#pragma once

#include <memory>

#include "lib/control/member/member.h"
#include "lib/control/member/session_io.h"
#include "proto/local.pb.h"

namespace ask {

class StreamingReceive {
 public:
    StreamingReceive(Member& member, SessionIo& io, v1::OpenStream request);
    // Answers the application and leaves nothing behind, however it ends.
    void run();

 private:
    Result<> run_steps();
    Result<> check_request() const;
    Result<> open();
    Result<> take_name();
    Result<Membership> choose_members();
    Result<> serve();
    Result<> tell(const Stream::News& news);
    Result<> listen(Clock::time_point until);
    Result<> handle(const v1::LocalRequest& request);

    Member& member_;
    SessionIo& io_;
    const v1::OpenStream request_;
    std::shared_ptr<StreamHere> here_;
    bool is_open_ = false;
};

}  // namespace ask
