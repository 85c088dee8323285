// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/tuples/application.h"

#include <algorithm>
#include <chrono>

namespace ask::sim {

namespace {

Nanos nanos_of(ask::Clock::time_point when) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(when.time_since_epoch()).count();
}

}  // namespace

SimApplication::~SimApplication() {
    link_->session_gone = true;
    wake(*link_->to_application);
}

ApplicationPort::Ready SimApplication::wait(ask::Clock::time_point until, bool for_room) {
    const auto look = [&] {
        return Ready{.application = !link_->requests.empty() || link_->application_gone ||
                                    (for_room && link_->replies.size() < kRoom),
                     .mailbox = link_->mailbox->has_mail()};
    };
    Ready ready = look();
    while (!ready.application && !ready.mailbox && ask::Clock::now() < until) {
        park(link_->to_session.get(), nanos_of(until));
        ready = look();
    }
    return ready;
}

Result<AppIo> SimApplication::try_receive(v1::LocalRequest& request) {
    if (!link_->requests.empty()) {
        request = std::move(link_->requests.front());
        link_->requests.pop_front();
        return AppIo::kDone;
    }
    return link_->application_gone ? AppIo::kClosed : AppIo::kWouldBlock;
}

Result<AppIo> SimApplication::try_send(const v1::LocalReply& reply, const Attachment* attachment) {
    if (link_->application_gone) {
        return AppIo::kClosed;
    }
    if (link_->replies.size() >= kRoom) {
        return AppIo::kWouldBlock;
    }
    if (const auto* const intake = dynamic_cast<const SimIntake*>(attachment); intake != nullptr) {
        link_->intake = std::const_pointer_cast<SimIntake>(intake->shared_from_this());
    }
    if (const auto* const result = dynamic_cast<const SimSealed*>(attachment); result != nullptr) {
        link_->result = result->shared_from_this();
    }
    link_->replies.push_back(reply);
    wake(*link_->to_application);
    return AppIo::kDone;
}

Result<> SimApplication::send(const v1::LocalReply& reply, const Attachment* attachment, milliseconds wait) {
    const auto until = ask::Clock::now() + wait;
    for (;;) {
        const auto sent = try_send(reply, attachment);
        ASK_PASS(sent);
        if (*sent == AppIo::kClosed) {
            return Error(Errc::kUnavailable, "the application has gone");
        }
        if (*sent == AppIo::kDone) {
            return {};
        }
        if (ask::Clock::now() >= until) {
            return Error(Errc::kDeadline, "the application does not read");
        }
        park(link_->to_session.get(), nanos_of(until));
    }
}

void AppEnd::say(v1::LocalRequest request) {
    link_->requests.push_back(std::move(request));
    wake(*link_->to_session);
}

bool AppEnd::has_news() const {
    return link_->session_gone || std::ranges::any_of(link_->replies, [](const v1::LocalReply& reply) {
               return !reply.has_progress();
           });
}

std::optional<v1::LocalReply> AppEnd::next() {
    for (;;) {
        while (link_->replies.empty() && !link_->session_gone) {
            park(link_->to_application.get(), kNever);
        }
        if (link_->replies.empty()) {
            return std::nullopt;
        }
        v1::LocalReply reply = std::move(link_->replies.front());
        link_->replies.pop_front();
        wake(*link_->to_session);
        if (!reply.has_progress()) {
            return reply;
        }
    }
}

void AppEnd::close() {
    if (!link_->application_gone) {
        link_->application_gone = true;
        wake(*link_->to_session);
    }
}

}  // namespace ask::sim
