// SPDX-License-Identifier: Apache-2.0
//
// The application that a session serves: messages to and fro, and memory that it shares with the agent.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/runtime.h"
#include "lib/control/member/mailbox.h"
#include "lib/control/member/patience.h"
#include "proto/local.pb.h"

namespace ask {

// What goes to an application along with a reply.
class Attachment {
 public:
    Attachment() = default;
    virtual ~Attachment() = default;
    Attachment(const Attachment&) = delete;
    Attachment& operator=(const Attachment&) = delete;
    // Of its memory and events, in the order in which the application expects them.
    [[nodiscard]] virtual std::vector<int> descriptors() const = 0;
};

enum class AppIo : std::uint8_t {
    kDone,
    kWouldBlock,  // nothing has happened
    kClosed,      // the application has gone; nothing more will come
};

// Of one session, and used by its thread alone.
class ApplicationPort {
 public:
    ApplicationPort() = default;
    virtual ~ApplicationPort() = default;
    ApplicationPort(const ApplicationPort&) = delete;
    ApplicationPort& operator=(const ApplicationPort&) = delete;

    // Whose process it is, as the kernel says.
    [[nodiscard]] virtual std::uint32_t user() const = 0;

    // Of the session: what others tell it.
    [[nodiscard]] virtual std::shared_ptr<Mailbox> mailbox() const = 0;

    struct Ready {
        bool application = false;  // it has said something, has gone, or, `for_room`, may have read something
        bool mailbox = false;      // there is something to take
    };
    // Until something happens, or until then. With `for_room`, also until there may be room for a reply.
    virtual Ready wait(Clock::time_point until, bool for_room) = 0;
    // kInput: what has come is nonsense.
    virtual Result<AppIo> try_receive(v1::LocalRequest& request) = 0;
    // `attachment` may be null.
    virtual Result<AppIo> try_send(const v1::LocalReply& reply, const Attachment* attachment) = 0;
    // The same, waiting for room.
    virtual Result<> send(const v1::LocalReply& reply, const Attachment* attachment, milliseconds wait) = 0;
};

}  // namespace ask
