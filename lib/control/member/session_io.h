// SPDX-License-Identifier: Apache-2.0
//
// A session's two ears: its application and its mailbox.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/control/member/answer_watch.h"
#include "lib/control/member/application_port.h"
#include "lib/control/member/counters.h"
#include "lib/control/member/mailbox.h"
#include "lib/control/member/patience.h"
#include "proto/local.pb.h"

namespace ask {

class SessionIo {
 public:
    // Both outlive it.
    SessionIo(ApplicationPort& application, AgentCounters* counters)
        : application_(application), mailbox_(application.mailbox()), counters_(counters) {}

    struct Wake {
        std::optional<v1::LocalRequest> request;  // from the application
        std::vector<SessionEvent> events;         // never kStop or kCancelled: those are errors
    };
    // Until something happens, or `until`. kAborted: the application has closed its socket, gives up or
    // hangs, an operator cancels the task, or the daemon ends. kInput: the application sent nonsense.
    Result<Wake> wait(Clock::time_point until) { return wait(until, false); }
    // With `for_room`, also until the application may have read something.
    Result<Wake> wait(Clock::time_point until, bool for_room);
    // The same, deaf to the application; what has come is left in the mailbox.
    void wait_mailbox(Clock::time_point until) const;
    // Until something comes into the mailbox, which is emptied: the application has gone, or is done with.
    void wait_without_application(Clock::time_point until);
    // Waits a little for an application that does not read.
    Result<> reply(const v1::LocalReply& message, const Attachment* attachment = nullptr);
    // The same without waiting: whether there was room. kAborted: the application has gone.
    Result<bool> try_reply(const v1::LocalReply& message, const Attachment* attachment = nullptr);
    // Skipped if the application does not read. Now and then it wants an answer, of an application that gives
    // one.
    void progress(v1::Progress progress);
    // The application answers, and is called that in messages. From now on a wait fails if it has been asked
    // and says nothing for half of the task's deadline, and at least 2 s.
    void expect_answers(milliseconds deadline, std::string who);
    // It has something to do now that has a clock of its own.
    void expect_no_answers() { answers_.reset(); }
    // `lost_relays`, `lost_switches`: what a task that begins again is to do without.
    void fail(const Error& error, const std::vector<std::string>& lost_relays = {},
              const std::vector<std::string>& lost_switches = {});
    // The same for an application that may never read again: not waiting.
    void fail_at_once(const Error& error);

    [[nodiscard]] const std::shared_ptr<Mailbox>& mailbox() const { return mailbox_; }
    // Whose application it is.
    [[nodiscard]] std::uint32_t user() const { return application_.user(); }
    [[nodiscard]] bool application_gone() const { return application_gone_; }
    // It is there, and does not answer.
    [[nodiscard]] bool application_hangs() const { return application_hangs_; }
    // Why it gives up, if a wait has ended because of that.
    [[nodiscard]] const std::optional<Error>& given_up() const { return given_up_; }
    // And which relays it says are lost by that.
    [[nodiscard]] const std::vector<std::string>& lost_relays() const { return lost_relays_; }
    // A wait has ended because the daemon does.
    [[nodiscard]] bool stopping() const { return stopping_; }
    // ... or because an operator wants it.
    [[nodiscard]] bool cancelled() const { return cancelled_; }

 private:
    bool note_stop(const std::vector<SessionEvent>& events);
    Result<> take_news(Wake& wake);
    Result<> take_request(Wake& wake);
    Result<> check_answers();

    ApplicationPort& application_;
    const std::shared_ptr<Mailbox> mailbox_;
    AgentCounters* counters_;
    std::optional<AnswerWatch> answers_;  // nothing: it need not answer
    std::string who_;                     // then, what it is called
    bool application_gone_ = false;
    bool application_hangs_ = false;
    std::optional<Error> given_up_;
    std::vector<std::string> lost_relays_;
    bool stopping_ = false;
    bool cancelled_ = false;
};

// Memory and threads that the standard library could not get: the end of the session that wanted them, not of
// the agent.
template <typename Steps>
Result<> run_within_limits(Steps steps) {
    try {
        return steps();
    } catch (const std::exception& error) {
        return Error(Errc::kLimit, std::string("the agent is out of memory or threads: ") + error.what());
    }
}

// What an application that answers is called in messages; `partial`: it sends on what others have sent.
[[nodiscard]] inline std::string answering_name(bool partial) {
    return partial ? "ask-relayd" : "its application";
}

// Why a session ends when the daemon does.
[[nodiscard]] Error stopping_error();
// What ends a session of a stream: an agent that stops will be back, and its application waits for it.
[[nodiscard]] Error of_stream(const SessionIo& io, const Error& error);

}  // namespace ask
