// SPDX-License-Identifier: Apache-2.0
#include "lib/client/stream_follower.h"

#include <algorithm>
#include <utility>

#include "lib/base/waiting.h"
#include "lib/client/agent_link.h"

namespace ask::client {
namespace {

using std::chrono::milliseconds;

// As many windows as a receiver takes (Stream::kMostKnown).
constexpr std::size_t kMostKnown = 16;
// Between two tries to reach an agent that has gone.
constexpr milliseconds kTryAgain{200};

}  // namespace

StreamFollower::StreamFollower(FollowOptions options)
    : options_(std::move(options)),
      keeps_(options_.keeps),
      trouble_(options_.deadline),
      thread_([this] { run(); }) {}

StreamFollower::~StreamFollower() {
    stop_.notify();
    thread_.join();
}

StreamView StreamFollower::view() const {
    const Guard lock(mutex_);
    return view_;
}

Result<> StreamFollower::failed() const {
    const Guard lock(mutex_);
    return failed_ ? Result<>(*failed_) : Result<>();
}

void StreamFollower::wait(std::uint64_t version, milliseconds most) const {
    Lock lock(mutex_);
    heard_.wait_for(lock, most, [&] { return version_.load() != version; });
}

void StreamFollower::poke() {
    {
        const Guard lock(mutex_);
        version_.fetch_add(1);
    }
    heard_.notify_all();
    changed_.notify();
}

void StreamFollower::keep(std::vector<std::uint64_t> windows, bool leaves) {
    {
        const Guard lock(mutex_);
        keeps_ = std::move(windows);
        leaves_ = leaves;
    }
    wake_.notify();
}

std::vector<StreamNews> StreamFollower::take_news() {
    const Guard lock(mutex_);
    return std::exchange(news_, {});
}

v1::LocalRequest StreamFollower::request() const {
    const Guard lock(mutex_);
    v1::LocalRequest request;
    v1::FollowStream& follow = *request.mutable_follow_stream();
    follow.set_name(options_.name);
    follow.set_to(options_.to);
    follow.set_token(options_.token);
    follow.set_member(options_.member);
    follow.set_deadline_ms(static_cast<std::uint32_t>(options_.deadline.count()));
    follow.mutable_keeps()->Add(keeps_.begin(), keeps_.end());
    follow.mutable_knows()->Add(known_.begin(), known_.end());
    follow.set_leaves(leaves_);
    follow.set_committed(std::max(view_.committed, options_.committed));
    follow.set_nonce(view_.nonce != 0 ? view_.nonce : options_.nonce);
    return request;
}

// Before anything has been heard of the stream, whoever started this process is told at once.
bool StreamFollower::goes_on_after(const Error& error) const {
    const Guard lock(mutex_);
    return view_.nonce != 0 && (error.code() == Errc::kUnavailable || error.code() == Errc::kDeadline ||
                                error.code() == Errc::kUnknown);
}

bool StreamFollower::stops_within(milliseconds most) const {
    const auto ready = wait_readable({stop_.fd()}, most);
    return !ready || *ready != 0;
}

void StreamFollower::run() {
    for (;;) {
        const auto served = serve();
        if (stops_within(milliseconds(0))) {
            return;
        }
        if (!goes_on_after(served.error())) {
            {
                const Guard lock(mutex_);
                failed_ = served.error();
            }
            poke();
            return;
        }
        note_trouble(served.error().text());
        if (stops_within(kTryAgain)) {
            return;
        }
    }
}

// One connection; ends with an error.
Result<> StreamFollower::serve() {
    auto link = AgentLink::open({.agent = options_.agent,
                                 .task = options_.name,
                                 .deadline = options_.deadline,
                                 .kind = "stream",
                                 .cancel_fd = stop_.fd(),
                                 .on_progress = [this](const TaskProgress& now) { note_trouble(now.state); }},
                                request());
    ASK_PASS(link);
    for (;;) {
        const auto reply = link->next_or(wake_.fd(), Clock::time_point::max());
        ASK_PASS(reply);
        if (!reply->has_value()) {
            wake_.drain();
            ASK_PASS(link->request(request()));
        } else if ((*reply)->kind_case() == v1::LocalReply::kStreamState) {
            ASK_PASS(take(**reply));
        } else {
            return link->unexpected("the state of a stream");
        }
    }
}

Result<> StreamFollower::take(const v1::LocalReply& reply) {
    if (reply.stream_state().op() == v1::OPERATOR_UNSPECIFIED) {
        // The agent has not heard of the stream yet.
        note_trouble(reply.stream_state().trouble());
        return {};
    }
    auto view = view_from_proto(reply.stream_state());
    ASK_TRY(view, "stream " + options_.name);
    const std::uint64_t nonce = StreamFollower::view().nonce;
    if (nonce != 0 && view->nonce != nonce) {
        return Error(Errc::kExists,
                     "stream " + options_.name +
                         ": its receiver has been started anew with another directory: " +
                         "what it had committed is not known there, so this sender must be, too");
    }
    note_trouble(view->trouble);
    note_left_out(*view);
    {
        const Guard lock(mutex_);
        // What is committed stays so, whoever says it late.
        view->committed = std::max(view->committed, view_.committed);
        view_ = *std::move(view);
        note_known();
    }
    poke();
    return {};
}

// What it could not tell of is kept from whoever cuts, too: it comes again with the word that an earlier one
// is committed. mutex_ is held.
void StreamFollower::note_known() {
    known_.erase(known_.begin(), known_.upper_bound(view_.committed));
    std::erase_if(view_.windows, [this](const OpenStreamWindow& window) {
        const bool fits = known_.size() < kMostKnown || known_.contains(window.number);
        if (!fits || window.number <= view_.committed) {
            return true;
        }
        known_.insert(window.number);
        return false;
    });
}

void StreamFollower::note_left_out(const StreamView& view) {
    const Guard lock(mutex_);
    for (const LeftOutOf& left_out : view.left_out) {
        if (left_out.window > told_left_out_) {
            told_left_out_ = left_out.window;
            news_.push_back({.text = "window " + std::to_string(left_out.window) +
                                     " was committed without this sender's tuples: " + left_out.reason,
                             .is_loss = true});
        }
    }
}

void StreamFollower::note_trouble(const std::string& trouble) {
    const Guard lock(mutex_);
    if (auto words = trouble_.note(trouble, Clock::now()); words) {
        news_.push_back({.text = *std::move(words)});
    }
}

}  // namespace ask::client
