// SPDX-License-Identifier: Apache-2.0
//
// Calls that wait for somebody else's answer, beside their session: it goes on listening to its application
// and to the daemon, shows that it is alive, and ends the call when it is to end itself.
#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>

#include "agent/mailbox.h"
#include "agent/patience.h"
#include "agent/rpc.h"

namespace ask {

// One call in a thread of its own; its end is announced by kAnswered in `mailbox`.
template <typename Call>
class CallBeside {
 public:
    using Answer = std::invoke_result_t<Call&, RpcCancel*>;

    CallBeside(std::shared_ptr<Mailbox> mailbox, Call call)
        : task_([this, call = std::move(call)]() mutable { return call(&cancel_); }),
          answer_(task_.get_future()),
          thread_([this, mailbox = std::move(mailbox)] {
              task_();
              mailbox->post(SessionEvent::Kind::kAnswered);
          }) {}
    ~CallBeside() {
        cancel_.cancel();
        thread_.join();
    }
    CallBeside(const CallBeside&) = delete;
    CallBeside& operator=(const CallBeside&) = delete;

    [[nodiscard]] bool answered() const {
        return answer_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    }
    // Once answered(). Throws what the call has thrown.
    Answer take() { return answer_.get(); }

 private:
    RpcCancel cancel_;
    std::packaged_task<Answer()> task_;
    std::future<Answer> answer_;
    std::thread thread_;
};

// Runs `call(RpcCancel*)` to its end. Meanwhile `listen(until)` waits until something happens, or until then,
// and takes it in; `still_waiting()` is called every kSessionTick. If listening fails the call is cancelled,
// and that is the error; else the call's own result is inside.
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
