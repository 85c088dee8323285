// SPDX-License-Identifier: Apache-2.0
#include "agent/session_server.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include <spdlog/spdlog.h>

#include "agent/application_socket.h"
#include "lib/base/log_fields.h"
#include "lib/control/group/grouping.h"
#include "lib/control/member/session_io.h"
#include "lib/control/receive/receiving.h"
#include "lib/control/receive/streaming_receive.h"
#include "lib/control/receive/taking_again.h"
#include "lib/control/send/following.h"
#include "lib/control/send/sending.h"

namespace ask {
namespace {

constexpr milliseconds kFirstRequestWait{10000};
constexpr milliseconds kAcceptPause{200};

}  // namespace

Result<> SessionServer::start(gid_t group) {
    auto listener = LocalListener::listen(agent_.config.socket, group);
    if (!listener) {
        return std::move(listener).error();
    }
    listener_.emplace(std::move(*listener));
    accept_thread_ = std::thread([this] { accept_loop(); });
    return {};
}

void SessionServer::stop() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    stop_event_.notify();
    if (accept_thread_.joinable()) {
        accept_thread_.join();
    }
    // Nobody adds sessions any more.
    for (Session& session : sessions_) {
        session.mailbox->post(SessionEvent::Kind::kStop);
    }
    agent_.rpc.cancel_calls();
    for (Session& session : sessions_) {
        session.thread.join();
    }
    sessions_.clear();
    listener_.reset();
}

void SessionServer::accept_loop() {
    for (;;) {
        std::array<pollfd, 3> entries = {pollfd{.fd = listener_->fd(), .events = POLLIN, .revents = 0},
                                         pollfd{.fd = stop_event_.fd(), .events = POLLIN, .revents = 0},
                                         pollfd{.fd = ended_event_.fd(), .events = POLLIN, .revents = 0}};
        ::poll(entries.data(), entries.size(), -1);
        if (entries[1].revents != 0) {
            return;
        }
        if (entries[2].revents != 0) {
            ended_event_.drain();
            const std::lock_guard lock(mutex_);
            reap_locked();
        }
        if (entries[0].revents != 0) {
            accept_one();
        }
    }
}

void SessionServer::reap_locked() {
    for (auto session = sessions_.begin(); session != sessions_.end();) {
        if (session->ended.load(std::memory_order_acquire)) {
            session->thread.join();
            session = sessions_.erase(session);
        } else {
            ++session;
        }
    }
}

void SessionServer::accept_one() {
    auto socket = listener_->accept();
    if (!socket) {
        spdlog::warn("accept: {}", socket.error().text());
        // Out of descriptors, most likely: the connection still waits, so look again only after a while.
        pollfd stop{.fd = stop_event_.fd(), .events = POLLIN, .revents = 0};
        ::poll(&stop, 1, static_cast<int>(kAcceptPause.count()));
        return;
    }
    if (!*socket) {
        return;
    }
    const std::lock_guard lock(mutex_);
    reap_locked();
    if (stopping_) {
        return;
    }
    if (auto started = start_locked(*socket); !started) {
        agent_.counters.add(AgentCounter::k_refused_sessions);
        ApplicationSocket application(std::move(*socket), std::make_shared<PolledMailbox>());
        SessionIo(application, &agent_.counters).fail(started.error());
    }
}

Result<> SessionServer::check_room_locked(std::uint32_t user) const {
    const unsigned most = agent_.config.max_sessions;
    if (sessions_.size() >= most) {
        return Error(Errc::kLimit, "the agent serves " + std::to_string(most) +
                                       " applications already: try again later, or raise max_sessions");
    }
    constexpr unsigned kParts = 8;
    const unsigned quota =
        agent_.config.quota_sessions == 0 ? most - most / kParts : agent_.config.quota_sessions;
    const auto has = std::ranges::count(sessions_, user, &Session::user);
    if (user != 0 && std::cmp_greater_equal(has, quota)) {
        return Error(Errc::kLimit,
                     "user " + std::to_string(user) + " has " + std::to_string(has) + " of the " +
                         std::to_string(quota) +
                         " applications that one user may have connected to the agent: end some, or "
                         "raise its quota_sessions");
    }
    return {};
}

// A session of its own for the connection, which is left as it is if there is none to be had.
Result<> SessionServer::start_locked(LocalSocket& socket) {
    const auto peer = socket.peer();
    ASK_PASS(peer);
    ASK_PASS(check_room_locked(peer->uid));
    Session& session = sessions_.emplace_back();
    session.user = peer->uid;
    if (session.mailbox->fd() < 0) {
        sessions_.pop_back();
        return Error(Errc::kLimit,
                     "the agent has no file descriptor left (Too many open files): try again "
                     "later, or raise its LimitNOFILE");
    }
    // Shared, so that it is still there if the thread is not.
    const auto taken = std::make_shared<LocalSocket>(std::move(socket));
    try {
        session.thread = std::thread([this, &session, taken] {
            serve(std::move(*taken), session.mailbox);
            session.ended.store(true, std::memory_order_release);
            ended_event_.notify();
        });
    } catch (const std::system_error& error) {
        sessions_.pop_back();
        socket = std::move(*taken);
        return Error(Errc::kLimit, std::string("the agent cannot start a thread (") + error.what() +
                                       "): try again later, or raise its limits of memory and tasks");
    }
    return {};
}

void SessionServer::serve(LocalSocket socket, const std::shared_ptr<PolledMailbox>& mailbox) {
    ApplicationSocket application(std::move(socket), mailbox);
    SessionIo io(application, &agent_.counters);
    auto request = application.first_request(kFirstRequestWait);
    if (!request) {
        io.fail(request.error());
        return;
    }
    if (request->has_open_send()) {
        const LogAbout about = LogAbout::task(request->open_send().task_id());
        Sending(agent_.member, io, request->open_send()).run();
    } else if (request->has_open_receive()) {
        const LogAbout about = LogAbout::task(request->open_receive().task_id());
        Receiving(agent_.member, io, request->open_receive()).run();
    } else if (request->has_open_again()) {
        const LogAbout about = LogAbout::task(request->open_again().task_id());
        TakingAgain(agent_.member, io, request->open_again()).run();
    } else if (request->has_open_group()) {
        const LogAbout about = LogAbout::group(request->open_group().group());
        Grouping(agent_.member, agent_.groups, agent_.group_ports, io, request->open_group()).run();
    } else if (request->has_open_stream()) {
        const LogAbout about = LogAbout::task(request->open_stream().name());
        StreamingReceive(agent_.member, io, request->open_stream()).run();
    } else if (request->has_follow_stream()) {
        const LogAbout about = LogAbout::task(request->follow_stream().name());
        Following(agent_.member, io, request->follow_stream()).run();
    } else {
        io.fail(Error(Errc::kInput, "the first request must open a send, a receive, a stream or a group"));
    }
}

}  // namespace ask
