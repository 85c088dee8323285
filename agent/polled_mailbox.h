// SPDX-License-Identifier: Apache-2.0
//
// A mailbox for who sleeps in poll(2).
#pragma once

#include "lib/base/event_fd.h"
#include "lib/control/member/mailbox.h"

namespace ask {

class PolledMailbox final : public Mailbox {
 public:
    // Readable while there is something to take.
    [[nodiscard]] int fd() const { return event_.fd(); }

 private:
    void wake() override { event_.notify(); }
    void calm() override { event_.drain(); }

    EventFd event_;
};

}  // namespace ask
