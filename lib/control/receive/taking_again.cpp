// SPDX-License-Identifier: Apache-2.0
#include "lib/control/receive/taking_again.h"

#include <utility>

#include <spdlog/spdlog.h>

#include "lib/control/member/convert.h"
#include "lib/control/member/patience.h"
#include "lib/control/receive/hand_over.h"

namespace ask {

TakingAgain::TakingAgain(Member& member, SessionIo& io, v1::OpenAgain request)
    : member_(member), io_(io), request_(std::move(request)) {}

void TakingAgain::run() {
    if (auto result = run_within_limits([this] { return run_steps(); }); !result) {
        spdlog::warn("task {}: receive again failed: {}", clean_name(request_.task_id()),
                     result.error().text());
        io_.fail_at_once(result.error());
    }
}

Result<> TakingAgain::run_steps() {
    const auto deadline = task_deadline(request_.deadline_ms(), member_.options.deadline_seconds);
    ASK_PASS(deadline);
    deadline_ = *deadline;
    auto result = find();
    ASK_PASS(result);
    auto given = give(*result);
    if (!given) {
        member_.kept.put_back(*result);
    }
    return given;
}

Result<std::shared_ptr<KeptResult>> TakingAgain::find() {
    ASK_PASS(check_task_id(request_.task_id()));
    auto result = member_.kept.hand_out(request_.task_id(), io_.user());
    if (!result && result.error().code() == Errc::kUnknown && member_.registry.is_live(request_.task_id())) {
        return Error(Errc::kUnknown, result.error().text() +
                                         "; a task of that id is under way, whose result " +
                                         "goes to the ask-recv that has opened it");
    }
    return result;
}

Result<> TakingAgain::give(const std::shared_ptr<KeptResult>& result) {
    v1::LocalReply ready;
    *ready.mutable_receive_ready() = result->ready;
    ASK_PASS(io_.try_reply(ready));
    const HandedOver handed = hand_over(
        io_, *result,
        {.deadline = deadline_, .on_sign = [&] { member_.kept.taking(*result); }, .on_waiting = [] {}});
    switch (handed) {
        case HandedOver::kTaken: {
            const bool in_time = member_.kept.taken(result);
            spdlog::info("task {}: its result was taken again, {} its senders had been told that it was not",
                         result->id(), in_time ? "before" : "after");
            confirm_taken(io_);
            return {};
        }
        case HandedOver::kGone:
            return Error(Errc::kAborted, "its application ended before it had taken the result");
        case HandedOver::kStuck:
            return Error(Errc::kDeadline, "task " + result->id() + ": nothing of its result was taken for " +
                                              seconds_text(deadline_) + ": it stays kept");
        case HandedOver::kStopping:
        case HandedOver::kCancelled:
            return stopping_error();
    }
    return {};
}

}  // namespace ask
