// SPDX-License-Identifier: Apache-2.0
//
// What a session (one thread, sequential code) is told by workers, by gRPC handlers and by the daemon.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/runtime.h"
#include "lib/tuples/types.h"

namespace ask {

struct SessionEvent {
    enum class Kind : std::uint8_t {
        kStop,          // the daemon ends
        kCancelled,     // an operator wants the task ended
        kFinAcked,      // send: everything of the task is acknowledged
        kRingBroken,    // send: the application wrote nonsense; `error`
        kChannelFree,   // send: a channel was set aside
        kRenewed,       // send: a Renew has been answered
        kAnswered,      // a call beside the session has ended
        kChanged,       // receive: somebody joined, left or renewed
        kFin,           // receive: FIN of `channel`
        kTableFull,     // receive: `error`
        kPartFull,      // receive with a reserve: the table that `channel` goes to takes no more
        kSwitchLost,    // receive: `error`
        kStreamClosed,  // receive of a window; `error`
        kGroupFailed,   // group: its worker cannot go on; `error`
    };
    Kind kind = Kind::kStop;
    ChannelId channel;
    std::optional<Error> error;
    Mark mark{};  // kSwitchLost: the switch's
};

// Many threads post, the session takes. Bounded: a kind that carries nothing is posted only once until taken,
// and the others come once per flow, per task, or per table until that is exchanged.
class Mailbox {
 public:
    Mailbox() = default;
    virtual ~Mailbox() = default;
    Mailbox(const Mailbox&) = delete;
    Mailbox& operator=(const Mailbox&) = delete;

    void post(SessionEvent event) {
        {
            const Guard lock(mutex_);
            if (event.kind != SessionEvent::Kind::kFin && event.kind != SessionEvent::Kind::kPartFull) {
                for (const SessionEvent& waiting : events_) {
                    if (waiting.kind == event.kind) {
                        return;
                    }
                }
            }
            events_.push_back(std::move(event));
        }
        posted_.notify_all();
        wake();
    }
    void post(SessionEvent::Kind kind) { post(SessionEvent{kind, {}, {}}); }

    [[nodiscard]] std::vector<SessionEvent> take() {
        calm();
        const Guard lock(mutex_);
        return std::exchange(events_, {});
    }
    // Until there is something to take, or until then.
    void wait(Clock::time_point until) {
        Lock lock(mutex_);
        posted_.wait_until(lock, until, [this] { return !events_.empty(); });
    }

 private:
    // For who waits for other things as well: something has come, and something is about to be taken.
    virtual void wake() {}
    virtual void calm() {}

    Mutex mutex_;
    CondVar posted_;
    std::vector<SessionEvent> events_;
};

}  // namespace ask
