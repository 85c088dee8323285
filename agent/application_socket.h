// SPDX-License-Identifier: Apache-2.0
//
// An application on the local socket.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "agent/polled_mailbox.h"
#include "lib/client/local_socket.h"
#include "lib/control/member/application_port.h"

namespace ask {

class ApplicationSocket final : public ApplicationPort {
 public:
    ApplicationSocket(LocalSocket socket, std::shared_ptr<PolledMailbox> mailbox)
        : socket_(std::move(socket)), mailbox_(std::move(mailbox)) {}

    [[nodiscard]] std::uint32_t user() const override;
    [[nodiscard]] std::shared_ptr<Mailbox> mailbox() const override { return mailbox_; }
    Ready wait(Clock::time_point until, bool for_room) override;
    Result<AppIo> try_receive(v1::LocalRequest& request) override;
    Result<AppIo> try_send(const v1::LocalReply& reply, const Attachment* attachment) override;
    Result<> send(const v1::LocalReply& reply, const Attachment* attachment, milliseconds wait) override;

    // What it begins with; what has come into the mailbox is left there. kAborted: something has.
    Result<v1::LocalRequest> first_request(milliseconds wait);

 private:
    LocalSocket socket_;
    std::shared_ptr<PolledMailbox> mailbox_;
};

}  // namespace ask
