// SPDX-License-Identifier: Apache-2.0
//
// Calls that wait for somebody else's answer, beside their session: it goes on listening to its application
// and to the daemon, shows that it is alive, and ends the call when it is to end itself.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "lib/base/runtime.h"
#include "lib/control/member/call_cancel.h"
#include "lib/control/member/mailbox.h"
#include "lib/control/member/patience.h"

namespace ask {

// One call in a thread of its own; its end is announced by kAnswered in `mailbox`.
template <typename Call>
class CallBeside {
 public:
    using Answer = std::invoke_result_t<Call&, CallCancel*>;

    CallBeside(std::shared_ptr<Mailbox> mailbox, Call call)
        : mailbox_(std::move(mailbox)), call_(std::move(call)), thread_([this] { run(); }) {}
    ~CallBeside() {
        cancel_.cancel();
        thread_.join();
    }
    CallBeside(const CallBeside&) = delete;
    CallBeside& operator=(const CallBeside&) = delete;

    [[nodiscard]] bool answered() const {
        const Guard lock(mutex_);
        return ended_;
    }
    // Once answered(). Throws what the call has thrown.
    Answer take() {
        if (thrown_) {
            std::rethrow_exception(thrown_);
        }
        return *std::move(answer_);
    }

 private:
    void run() {
        try {
            answer_.emplace(call_(&cancel_));
        } catch (...) {
            thrown_ = std::current_exception();
        }
        {
            const Guard lock(mutex_);
            ended_ = true;
        }
        mailbox_->post(SessionEvent::Kind::kAnswered);
    }

    const std::shared_ptr<Mailbox> mailbox_;
    Call call_;
    CallCancel cancel_;
    std::optional<Answer> answer_;  // the thread's until it has ended, as is the next
    std::exception_ptr thrown_;
    mutable Mutex mutex_;
    bool ended_ = false;  // under mutex_
    Thread thread_;       // last: it uses all of these
};

// Runs `call(CallCancel*)` to its end. Meanwhile `listen(until)` waits until something happens, or until
// then, and takes it in; `still_waiting()` is called every kSessionTick. If listening fails the call is
// cancelled, and that is the error; else the call's own result is inside.
template <typename Call, typename Listen, typename StillWaiting>
auto run_beside(std::shared_ptr<Mailbox> mailbox, Call call, Listen listen, StillWaiting still_waiting)
    -> Result<typename CallBeside<Call>::Answer> {
    CallBeside<Call> beside(std::move(mailbox), std::move(call));
    Clock::time_point next_tick = Clock::now() + kSessionTick;
    while (!beside.answered()) {
        if (Clock::now() >= next_tick) {
            next_tick = Clock::now() + kSessionTick;
            still_waiting();
        }
        if (Result<> fine = listen(next_tick); !fine) {
            return std::move(fine).error();
        }
    }
    return beside.take();
}

}  // namespace ask
