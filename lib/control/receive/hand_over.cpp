// SPDX-License-Identifier: Apache-2.0
#include "lib/control/receive/hand_over.h"

#include <algorithm>

#include "lib/control/member/patience.h"
#include "lib/rpc/hosts6.h"

namespace ask {
namespace {

// An application that takes a small result is faster than this.
constexpr milliseconds kAtOnce{100};

}  // namespace

HandedOver hand_over(SessionIo& io, const KeptResult& result, const HandOverOptions& options) {
    v1::LocalReply reply;
    *reply.mutable_done() = result.done;
    explain_hosts(*reply.mutable_done());
    bool sent = false;
    auto last_sign = Clock::now();
    auto next_turn = last_sign + kAtOnce;
    for (;;) {
        if (!sent) {
            const auto offered = io.try_reply(reply, result.table.get());
            if (!offered.ok()) {
                return HandedOver::kGone;
            }
            sent = *offered;
        }
        const auto give_up_at = last_sign + options.deadline;
        auto wake = io.wait(std::min(next_turn, give_up_at), !sent);
        if (!wake) {
            return io.stopping()    ? HandedOver::kStopping
                   : io.cancelled() ? HandedOver::kCancelled
                                    : HandedOver::kGone;
        }
        if (wake->request) {
            if (!sent || !(wake->request->has_taking() || wake->request->has_taken())) {
                return HandedOver::kGone;
            }
            if (wake->request->has_taken()) {
                return HandedOver::kTaken;
            }
            last_sign = Clock::now();
            options.on_sign();
        }
        if (Clock::now() >= last_sign + options.deadline) {
            return HandedOver::kStuck;
        }
        if (Clock::now() >= next_turn) {
            next_turn = Clock::now() + kSessionTick;
            options.on_waiting();
        }
    }
}

void confirm_taken(SessionIo& io) {
    v1::LocalReply reply;
    reply.mutable_confirmed();
    // If it has gone meanwhile, it has the result all the same.
    [[maybe_unused]] const auto told = io.try_reply(reply);
}

}  // namespace ask
