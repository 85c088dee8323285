// SPDX-License-Identifier: Apache-2.0
#include "agent/application_socket.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <vector>

namespace ask {
namespace {

std::vector<int> descriptors_of(const Attachment* attachment) {
    return attachment == nullptr ? std::vector<int>() : attachment->descriptors();
}

Result<AppIo> done_or_not(const Result<LocalIo>& result) {
    ASK_PASS(result);
    switch (*result) {
        case LocalIo::kDone:
            return AppIo::kDone;
        case LocalIo::kWouldBlock:
            return AppIo::kWouldBlock;
        case LocalIo::kClosed:
            break;
    }
    return AppIo::kClosed;
}

}  // namespace

std::uint32_t ApplicationSocket::user() const {
    constexpr std::uint32_t kNobody = 65534;
    const auto peer = socket_.peer();
    return peer.ok() ? peer->uid : kNobody;
}

ApplicationPort::Ready ApplicationSocket::wait(Clock::time_point until, bool for_room) {
    const auto events = static_cast<short>(for_room ? POLLIN | POLLOUT : POLLIN);
    std::array<pollfd, 2> entries = {pollfd{.fd = socket_.fd(), .events = events, .revents = 0},
                                     pollfd{.fd = mailbox_->fd(), .events = POLLIN, .revents = 0}};
    const auto left = std::max(std::chrono::ceil<milliseconds>(until - Clock::now()), milliseconds(0));
    ::poll(entries.data(), entries.size(), static_cast<int>(left.count()));
    return {.application = entries[0].revents != 0, .mailbox = entries[1].revents != 0};
}

Result<AppIo> ApplicationSocket::try_receive(v1::LocalRequest& request) {
    return done_or_not(socket_.try_receive(request));
}

Result<AppIo> ApplicationSocket::try_send(const v1::LocalReply& reply, const Attachment* attachment) {
    return done_or_not(socket_.try_send(reply, descriptors_of(attachment)));
}

Result<> ApplicationSocket::send(const v1::LocalReply& reply, const Attachment* attachment,
                                 milliseconds wait) {
    return socket_.send(reply, descriptors_of(attachment), wait);
}

Result<v1::LocalRequest> ApplicationSocket::first_request(milliseconds wait) {
    v1::LocalRequest request;
    if (auto received = socket_.receive(request, nullptr, wait, mailbox_->fd()); !received) {
        return std::move(received).error();
    }
    return request;
}

}  // namespace ask
