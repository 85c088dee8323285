// SPDX-License-Identifier: Apache-2.0
//
// Accepts applications on the local socket: a thread per connection, as many as max_sessions.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "agent/agent.h"
#include "agent/polled_mailbox.h"
#include "lib/client/local_socket.h"

namespace ask {

class SessionServer {
 public:
    explicit SessionServer(Agent& agent) : agent_(agent) {}
    ~SessionServer() { stop(); }
    SessionServer(const SessionServer&) = delete;
    SessionServer& operator=(const SessionServer&) = delete;

    // kExists: a live agent answers on the socket.
    // Members of `group` may connect.
    Result<> start(gid_t group);
    // Accepts nobody any more and ends all sessions, each with an error that says why. Returns when the last
    // has ended.
    void stop();

 private:
    struct Session {
        std::shared_ptr<PolledMailbox> mailbox = std::make_shared<PolledMailbox>();
        std::atomic<bool> ended{false};
        std::uint32_t user = 0;  // whose application it is
        std::thread thread;
    };

    void accept_loop();
    void accept_one();
    Result<> start_locked(LocalSocket& socket);
    [[nodiscard]] Result<> check_room_locked(std::uint32_t user) const;
    void serve(LocalSocket socket, const std::shared_ptr<PolledMailbox>& mailbox);
    // Joins the threads of sessions that have ended. Under mutex_.
    void reap_locked();

    Agent& agent_;
    std::optional<LocalListener> listener_;  // the accepting thread's, once it runs
    EventFd stop_event_;
    EventFd ended_event_;  // a session has: what it has of the agent goes at once, not as the next one comes
    std::thread accept_thread_;
    std::mutex mutex_;
    bool stopping_ = false;        // under mutex_
    std::list<Session> sessions_;  // under mutex_
};

}  // namespace ask
