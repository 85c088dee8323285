// SPDX-License-Identifier: Apache-2.0
//
// What a session (one thread, sequential code) is told by workers, by gRPC handlers and by the daemon.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/event_fd.h"
#include "lib/tuples/types.h"

namespace ask {

struct SessionEvent {
    enum class Kind : std::uint8_t {
        kStop,         // the daemon ends
        kCancelled,    // an operator wants the task ended
        kFinAcked,     // send: everything of the task is acknowledged
        kRingBroken,   // send: the application wrote nonsense; `error`
        kChannelFree,  // send: a channel was set aside
        kRenewed,      // send: a Renew has been answered
        kAnswered,     // a call beside the session has ended
        kChanged,      // receive: somebody joined, left or renewed
        kFin,          // receive: FIN of `channel`
        kTableFull,    // receive: `error`
        kSwitchLost,   // receive: `error`
    };
    Kind kind = Kind::kStop;
    ChannelId channel;
    std::optional<Error> error;
};

// Many threads post, the session takes. Bounded: a kind that carries nothing is posted only once until taken,
// and the others come once per flow or per task.
class Mailbox {
 public:
    void post(SessionEvent event) {
        {
            const std::lock_guard lock(mutex_);
            if (event.kind != SessionEvent::Kind::kFin) {
                for (const SessionEvent& waiting : events_) {
                    if (waiting.kind == event.kind) {
                        return;
                    }
                }
            }
            events_.push_back(std::move(event));
        }
        wake_.notify();
    }
    void post(SessionEvent::Kind kind) { post(SessionEvent{kind, {}, {}}); }

    [[nodiscard]] std::vector<SessionEvent> take() {
        wake_.drain();
        const std::lock_guard lock(mutex_);
        return std::exchange(events_, {});
    }
    // Readable while there is something to take.
    [[nodiscard]] int fd() const { return wake_.fd(); }

 private:
    EventFd wake_;
    std::mutex mutex_;
    std::vector<SessionEvent> events_;
};

}  // namespace ask
