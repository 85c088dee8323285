// SPDX-License-Identifier: Apache-2.0
#include "agent/session_io.h"

#include <poll.h>

#include <algorithm>
#include <array>

#include "agent/convert.h"

namespace ask {
namespace {

constexpr milliseconds kReplyWait{5000};
constexpr std::size_t kLongestReason = 512;

v1::LocalReply failed_reply(const Error& error) {
    v1::LocalReply reply;
    reply.mutable_failed()->set_code(static_cast<std::int32_t>(error.code()));
    reply.mutable_failed()->set_error(error.text());
    return reply;
}

}  // namespace

Error stopping_error() {
    return {Errc::kAborted, "its agent is stopping"};
}

bool SessionIo::note_stop(const std::vector<SessionEvent>& events) {
    stopping_ = stopping_ ||
                std::ranges::find(events, SessionEvent::Kind::kStop, &SessionEvent::kind) != events.end();
    return stopping_;
}

Result<SessionIo::Wake> SessionIo::wait(Clock::time_point until, bool for_room) {
    const auto events = static_cast<short>(for_room ? POLLIN | POLLOUT : POLLIN);
    std::array<pollfd, 2> entries = {pollfd{.fd = socket_.fd(), .events = events, .revents = 0},
                                     pollfd{.fd = mailbox_->fd(), .events = POLLIN, .revents = 0}};
    const auto left = std::max(std::chrono::ceil<milliseconds>(until - Clock::now()), milliseconds(0));
    ::poll(entries.data(), entries.size(), static_cast<int>(left.count()));
    Wake wake;
    if (entries[1].revents != 0) {
        wake.events = mailbox_->take();
        if (note_stop(wake.events)) {
            return stopping_error();
        }
        if (std::ranges::find(wake.events, SessionEvent::Kind::kCancelled, &SessionEvent::kind) !=
            wake.events.end()) {
            cancelled_ = true;
            return Error(Errc::kAborted, "cancelled by askctl task cancel");
        }
    }
    if (entries[0].revents != 0) {
        v1::LocalRequest request;
        auto received = socket_.try_receive(request);
        if (!received) {
            return std::move(received).error();
        }
        if (*received == LocalIo::kClosed) {
            application_gone_ = true;
            return Error(Errc::kAborted, "its application ended early");
        }
        if (*received == LocalIo::kDone && request.has_give_up()) {
            return Error(Errc::kAborted, clean_text(request.give_up().reason().substr(0, kLongestReason)));
        }
        if (*received == LocalIo::kDone) {
            wake.request = std::move(request);
        }
    }
    return wake;
}

void SessionIo::wait_mailbox(Clock::time_point until) const {
    mailbox_->wait(until);
}

void SessionIo::wait_without_application(Clock::time_point until) {
    wait_mailbox(until);
    note_stop(mailbox_->take());
}

Result<v1::LocalRequest> SessionIo::first_request(milliseconds wait) {
    v1::LocalRequest request;
    if (auto received = socket_.receive(request, nullptr, wait, mailbox_->fd()); !received) {
        return std::move(received).error();
    }
    return request;
}

Result<> SessionIo::reply(const v1::LocalReply& message, std::span<const int> fds) {
    return socket_.send(message, fds, kReplyWait);
}

Result<bool> SessionIo::try_reply(const v1::LocalReply& message, std::span<const int> fds) {
    auto sent = socket_.try_send(message, fds);
    ASK_PASS(sent);
    if (*sent == LocalIo::kClosed) {
        application_gone_ = true;
        return Error(Errc::kAborted, "its application ended early");
    }
    return *sent == LocalIo::kDone;
}

void SessionIo::progress(const v1::Progress& progress) {
    v1::LocalReply reply;
    *reply.mutable_progress() = progress;
    const auto sent = socket_.try_send(reply);
    if (!sent.ok() || *sent != LocalIo::kDone) {
        counters_->add(AgentCounter::k_progress_skipped);
    }
}

void SessionIo::fail(const Error& error) {
    if (!application_gone_) {
        // If the application has gone meanwhile, nobody is left to tell.
        [[maybe_unused]] const auto sent = socket_.send(failed_reply(error), {}, kReplyWait);
    }
}

void SessionIo::fail_at_once(const Error& error) {
    if (!application_gone_) {
        [[maybe_unused]] const auto sent = socket_.try_send(failed_reply(error));
    }
}

}  // namespace ask
