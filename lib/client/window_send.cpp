// SPDX-License-Identifier: Apache-2.0
#include "lib/client/window_send.h"

#include <algorithm>
#include <utility>

namespace ask::client {
namespace {

constexpr std::size_t kBatch = 512;
// A session that could not be opened has joined no run, and may be tried again.
constexpr std::chrono::milliseconds kOpenAgain{300};

}  // namespace

WindowSend::WindowSend(std::uint64_t number, SendOptions like, SpoolRoom& room, SendPace& pace,
                       StreamFollower& follower)
    : number_(number), like_(std::move(like)), pace_(pace), follower_(follower), spool_(room) {
    like_.window = number;
    like_.cancel_fd = cancel_.fd();
    thread_ = Thread([this] { run(); });
}

WindowSend::~WindowSend() {
    cancelled_.store(true);
    cancel_.notify();
    follower_.poke();
    thread_.join();
}

void WindowSend::run() {
    std::uint64_t seen = 0;
    std::uint64_t tried = 0;  // instance of the last run that was joined
    while (!cancelled_.load() && follower_.failed()) {
        follower_.wait(seen, kOpenAgain);
        seen = follower_.version();
        const StreamView view = follower_.view();
        if (view.committed >= number_) {
            break;
        }
        const OpenStreamWindow* const window = view.find(number_);
        if (window != nullptr && window->instance != 0 && window->instance != tried) {
            bool joined = false;
            [[maybe_unused]] const auto sent = send(*window, joined);
            tried = joined ? window->instance : tried;
            // One that it could not join is tried again a little later, not at the next word.
            seen = follower_.version();
        }
    }
    done_.store(true);
    follower_.poke();
}

void WindowSend::hear(const StreamView& view) const {
    const std::uint64_t looked_for = looked_for_.load();
    const OpenStreamWindow* const window = view.find(number_);
    if (looked_for != 0 && window != nullptr && window->instance != looked_for) {
        cancel_.notify();
    }
}

std::uint64_t WindowSend::waiting() const {
    const std::uint64_t all = spool_.tuples();
    return sending_.load() ? all - std::min(all, sent_.load()) : 0;
}

// All that it has, as it comes.
Result<> WindowSend::send_all(SendSession& session) {
    Spool::Reader reader(spool_);
    while (!reader.at_end()) {
        const auto& tuples = reader.next(kBatch);
        session.note_merged(spool_.merged());
        if (!tuples.empty()) {
            ASK_PASS(session.send(tuples));
            sent_.fetch_add(tuples.size());
            pace_.sent(tuples.size());
        } else if (!reader.arm()) {
            ASK_PASS(session.wait_for_input(spool_.event()));
        }
    }
    session.note_merged(spool_.merged());
    return {};
}

Result<> WindowSend::send(const OpenStreamWindow& window, bool& joined) {
    SendOptions options = like_;
    options.task = window.task_id;
    // Of a run that was looked for before.
    cancel_.drain();
    if (cancelled_.load()) {
        cancel_.notify();
    }
    looked_for_.store(window.instance);
    auto session = SendSession::open(std::move(options));
    looked_for_.store(0);
    ASK_PASS(session);
    joined = true;
    sent_.store(0);
    sending_.store(true);
    const auto all = send_all(*session);
    sending_.store(false);
    ASK_PASS(all);
    auto finished = session->finish();
    ASK_PASS(finished);
    stats_ = *std::move(finished);
    return {};
}

}  // namespace ask::client
