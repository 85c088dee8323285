// SPDX-License-Identifier: Apache-2.0
#include "lib/control/member/session_io.h"

#include <algorithm>
#include <utility>

#include "lib/control/member/convert.h"

namespace ask {
namespace {

constexpr milliseconds kReplyWait{5000};
constexpr std::size_t kLongestReason = 512;
constexpr int kMostLostRelays = 16;

v1::LocalReply failed_reply(const Error& error, const std::vector<std::string>& lost_relays = {},
                            const std::vector<std::string>& lost_switches = {}) {
    v1::LocalReply reply;
    reply.mutable_failed()->mutable_lost_switches()->Add(lost_switches.begin(), lost_switches.end());
    reply.mutable_failed()->mutable_lost_relays()->Add(lost_relays.begin(), lost_relays.end());
    reply.mutable_failed()->set_code(static_cast<std::int32_t>(error.code()));
    reply.mutable_failed()->set_error(error.text());
    return reply;
}

}  // namespace

Error stopping_error() {
    return {Errc::kAborted, "its agent is stopping"};
}

Error of_stream(const SessionIo& io, const Error& error) {
    return io.stopping() ? Error(Errc::kUnavailable, error.text()) : error;
}

bool SessionIo::note_stop(const std::vector<SessionEvent>& events) {
    stopping_ = stopping_ ||
                std::ranges::find(events, SessionEvent::Kind::kStop, &SessionEvent::kind) != events.end();
    return stopping_;
}

Result<> SessionIo::take_news(Wake& wake) {
    wake.events = mailbox_->take();
    if (note_stop(wake.events)) {
        return stopping_error();
    }
    if (std::ranges::find(wake.events, SessionEvent::Kind::kCancelled, &SessionEvent::kind) ==
        wake.events.end()) {
        return {};
    }
    cancelled_ = true;
    return Error(Errc::kAborted, "cancelled by askctl task cancel");
}

Result<> SessionIo::take_request(Wake& wake) {
    v1::LocalRequest request;
    auto received = application_.try_receive(request);
    ASK_PASS(received);
    if (*received == AppIo::kClosed) {
        application_gone_ = true;
        return Error(Errc::kAborted, "its application ended early");
    }
    if (*received != AppIo::kDone) {
        return {};
    }
    if (answers_) {
        answers_->answered();
    }
    if (request.has_give_up()) {
        given_up_.emplace(errc_from_number(request.give_up().code(), Errc::kAborted),
                          clean_text(request.give_up().reason().substr(0, kLongestReason)));
        for (int i = 0; i < std::min(request.give_up().lost_relays_size(), kMostLostRelays); ++i) {
            lost_relays_.push_back(clean_name(request.give_up().lost_relays(i)));
        }
        return *given_up_;
    }
    if (!request.has_alive()) {
        wake.request = std::move(request);
    }
    return {};
}

Result<> SessionIo::check_answers() {
    if (!answers_) {
        return {};
    }
    answers_->look(Clock::now());
    if (!answers_->hangs()) {
        return {};
    }
    application_hangs_ = true;
    return Error(Errc::kAborted, who_ + " has not answered for " + seconds_text(answers_->patience()));
}

Result<SessionIo::Wake> SessionIo::wait(Clock::time_point until, bool for_room) {
    const ApplicationPort::Ready ready = application_.wait(until, for_room);
    Wake wake;
    if (ready.mailbox) {
        ASK_PASS(take_news(wake));
    }
    if (ready.application) {
        ASK_PASS(take_request(wake));
    }
    ASK_PASS(check_answers());
    return wake;
}

void SessionIo::wait_mailbox(Clock::time_point until) const {
    mailbox_->wait(until);
}

void SessionIo::wait_without_application(Clock::time_point until) {
    wait_mailbox(until);
    note_stop(mailbox_->take());
}

Result<> SessionIo::reply(const v1::LocalReply& message, const Attachment* attachment) {
    return application_.send(message, attachment, kReplyWait);
}

Result<bool> SessionIo::try_reply(const v1::LocalReply& message, const Attachment* attachment) {
    auto sent = application_.try_send(message, attachment);
    ASK_PASS(sent);
    if (*sent == AppIo::kClosed) {
        application_gone_ = true;
        return Error(Errc::kAborted, "its application ended early");
    }
    return *sent == AppIo::kDone;
}

void SessionIo::progress(v1::Progress progress) {
    v1::LocalReply reply;
    progress.set_wants_answer(answers_ && answers_->ask(Clock::now()));
    *reply.mutable_progress() = std::move(progress);
    const auto sent = application_.try_send(reply, nullptr);
    if (!sent.ok() || *sent != AppIo::kDone) {
        counters_->add(AgentCounter::k_progress_skipped);
    }
}

void SessionIo::expect_answers(milliseconds deadline, std::string who) {
    answers_.emplace(AnswerWatch::patience_of(deadline));
    who_ = std::move(who);
}

void SessionIo::fail(const Error& error, const std::vector<std::string>& lost_relays,
                     const std::vector<std::string>& lost_switches) {
    if (application_hangs_) {
        fail_at_once(error);
    } else if (!application_gone_) {
        // If the application has gone meanwhile, nobody is left to tell.
        [[maybe_unused]] const auto sent =
            application_.send(failed_reply(error, lost_relays, lost_switches), nullptr, kReplyWait);
    }
}

void SessionIo::fail_at_once(const Error& error) {
    if (!application_gone_) {
        [[maybe_unused]] const auto sent = application_.try_send(failed_reply(error), nullptr);
    }
}

}  // namespace ask
