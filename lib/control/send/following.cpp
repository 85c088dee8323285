// SPDX-License-Identifier: Apache-2.0
#include "lib/control/send/following.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include <spdlog/spdlog.h>

#include "lib/abi/wire.h"
#include "lib/base/random.h"
#include "lib/base/wall_clock.h"
#include "lib/control/member/convert.h"
#include "lib/net/host_book.h"

namespace ask {
namespace {

constexpr milliseconds kFollowHold{2000};
constexpr milliseconds kFollowGrace{3000};
constexpr milliseconds kFollowRetryPause{200};
constexpr milliseconds kLostWait{1000};
// Of a deadline for finding the stream, what an answer may take, so that one that is lost is no more than
// that.
constexpr int kTriesADeadline = 4;
// Every so many calls one is answered at once, for the clock.
constexpr unsigned kClockEvery = 8;
// What differs by less is the same clock.
constexpr std::int64_t kSameClockMs = 5;
// As many windows as a receiver takes (Stream::kMostKnown).
constexpr std::size_t kMostKnown = 16;

}  // namespace

Following::Following(Member& member, SessionIo& io, v1::FollowStream request)
    : member_(member), io_(io), request_(std::move(request)), session_(random_u64()) {}

void Following::run() {
    auto result = run_within_limits([this] { return run_steps(); });
    call_.reset();
    member_.follows.remove(session_);
    const std::string name = clean_name(request_.name());
    if (!is_done()) {
        say_lost();
    }
    if (!result && !is_done()) {
        spdlog::warn("stream {}: following it at {} ended: {}", name, peer_, result.error().text());
        io_.fail(of_stream(io_, result.error()));
    } else {
        spdlog::info("stream {}: left it at {}", name, peer_);
    }
}

Result<> Following::run_steps() {
    const std::string stream = "stream " + clean_name(request_.name());
    ASK_TRY(check_task_id(request_.name()), "stream");
    if (request_.member() == 0) {
        return Error(Errc::kInput, stream + ": a member must not be 0");
    }
    const auto deadline = task_deadline(request_.deadline_ms(), member_.options.deadline_seconds);
    ASK_TRY(deadline, stream);
    deadline_ = *deadline;
    give_up_at_ = Clock::now() + deadline_;
    state_.set_nonce(request_.nonce());
    state_.set_committed(request_.committed());
    ASK_PASS(note_known(request_.knows()));
    ASK_PASS(find_receiver());
    return follow();
}

Result<> Following::find_receiver() {
    auto resolved = run_beside(
        io_.mailbox(),
        [&](CallCancel* /*cancel*/) { return member_.network.resolve(request_.to(), io_.user()); },
        [this](Clock::time_point until) -> Result<> {
            auto wake = io_.wait(until);
            ASK_PASS(wake);
            return wake->request ? handle(*wake) : Result<>();
        },
        [] {});
    ASK_PASS(resolved);
    auto& host = *resolved;
    ASK_PASS(host);
    const std::string shown = format_host(host->address);
    peer_ = request_.to() == shown ? shown : clean_name(request_.to()) + " (" + shown + ")";
    const bool own = host->address == member_.options.address || member_.network.is_own(host->address);
    control_ = control_address(own ? member_.options.address : host->address, host->port);
    receiver_ = member_.network.peer_at(control_, peer_);
    return {};
}

bool Following::is_member() const {
    return was_member_ || request_.keeps_size() > 0;
}

bool Following::is_done() const {
    return state_.ended() || (request_.leaves() && state_.last() != 0 && state_.committed() >= state_.last());
}

Result<> Following::follow() {
    Clock::time_point next_tick = Clock::now();
    for (;;) {
        if (!call_ && Clock::now() >= next_call_) {
            start_call();
        }
        if (Clock::now() >= next_tick) {
            next_tick = Clock::now() + kSessionTick;
            v1::Progress progress;
            progress.set_state(state_.trouble());
            io_.progress(progress);
            describe();
        }
        auto wake = io_.wait(call_ ? next_tick : std::min(next_tick, next_call_));
        if (!wake) {
            return std::move(wake).error();
        }
        ASK_PASS(handle(*wake));
        if (call_ && call_->answered()) {
            ASK_PASS(take_answer());
        }
    }
}

Result<> Following::handle(const SessionIo::Wake& wake) {
    if (!wake.request) {
        return {};
    }
    if (!wake.request->has_follow_stream()) {
        return Error(Errc::kInput, "the application sent a request that does not fit a member of a stream");
    }
    return take_request(wake.request->follow_stream());
}

// What it keeps is to be known there before anything else is asked.
Result<> Following::take_request(const v1::FollowStream& request) {
    if (request.name() != request_.name() || request.member() != request_.member()) {
        return Error(Errc::kInput, "the application is a member of another stream");
    }
    *request_.mutable_keeps() = request.keeps();
    ASK_PASS(note_known(request.knows()));
    request_.set_leaves(request_.leaves() || request.leaves());
    call_.reset();
    next_call_ = Clock::now();
    return {};
}

v1::FollowStreamRequest Following::call_request() const {
    v1::FollowStreamRequest request;
    request.set_name(request_.name());
    request.set_token(request_.token());
    request.set_member(request_.member());
    request.set_member_name(member_.options.name);
    request.set_nonce(state_.nonce());
    request.set_committed(state_.committed());
    *request.mutable_keeps() = request_.keeps();
    request.mutable_knows()->Add(known_.begin(), known_.end());
    request.set_leaves(request_.leaves());
    request.set_host(member_.options.address);
    request.set_wire_version(ASK_WIRE_VERSION);
    return request;
}

void Following::start_call() {
    v1::FollowStreamRequest request = call_request();
    request.set_version(version_);
    const bool at_once = calls_++ % kClockEvery == 0;
    const milliseconds longest = is_member() ? kFollowHold + kFollowGrace : deadline_ / kTriesADeadline;
    const milliseconds hold = at_once ? milliseconds(0) : std::min(kFollowHold, longest / 2);
    const milliseconds wait = std::min(hold + kFollowGrace, longest);
    request.set_wait_ms(static_cast<std::uint32_t>(hold.count()));
    asked_ms_ = unix_ms();
    call_ =
        std::make_unique<Call>(io_.mailbox(), [this, wait, request = std::move(request)](CallCancel* cancel) {
            return receiver_->follow_stream(request, wait, cancel);
        });
}

Result<> Following::take_answer() {
    auto answer = call_->take();
    const auto heard = unix_ms();
    call_.reset();
    if (!answer) {
        next_call_ = Clock::now() + kFollowRetryPause;
        return note_failed(answer.error());
    }
    next_call_ = Clock::now() + (answer->ended() ? kFollowRetryPause : milliseconds(0));
    trouble_.clear();
    refused_since_.reset();
    clock_.add(asked_ms_, heard, static_cast<std::int64_t>(answer->now_ms()));
    note_answer(*answer);
    return tell();
}

// Until it has a place, the deadline is for finding the stream; then it goes on trying, unless it is refused
// for so long, each time: by a receiver with another directory, say.
Result<> Following::note_failed(const Error& error) {
    trouble_ = error.code() == Errc::kUnknown ? "stream " + request_.name() + " is not open on " + peer_ +
                                                    ": start ask-recv --every there"
                                              : clean_text(error.text());
    const bool may_pass = is_transient(error) || error.code() == Errc::kUnknown;
    const auto now = Clock::now();
    refused_since_ = may_pass ? std::nullopt : std::optional(refused_since_.value_or(now));
    const bool ends =
        is_member() ? refused_since_ && now - *refused_since_ >= deadline_ : !may_pass || now >= give_up_at_;
    if (ends) {
        return Error(error.code(), trouble_);
    }
    state_.set_trouble(trouble_);
    return is_member() ? tell() : Result<>();
}

// Nothing is forgotten before it is committed, as the application hears all later than this does.
Result<> Following::note_known(const google::protobuf::RepeatedField<std::uint64_t>& windows) {
    known_.insert(windows.begin(), windows.end());
    known_.erase(known_.begin(), known_.upper_bound(state_.committed()));
    return known_.size() <= kMostKnown
               ? Result<>()
               : Error(Errc::kInput, "the application knows of " + std::to_string(known_.size()) +
                                         " windows that are not committed, and a member may know of " +
                                         std::to_string(kMostKnown));
}

// Of a window that could not be told as known the application does not hear, and so does not go on to it: it
// is among those of the answer that an earlier one is committed by.
void Following::take_windows(const v1::FollowStreamReply& reply) {
    known_.erase(known_.begin(), known_.upper_bound(state_.committed()));
    for (const v1::OpenWindow& window : reply.windows()) {
        const bool fits = known_.size() < kMostKnown || known_.contains(window.number());
        if (fits && window.number() > state_.committed()) {
            known_.insert(window.number());
            *state_.add_windows() = window;
        }
    }
}

void Following::note_answer(const v1::FollowStreamReply& reply) {
    version_ = reply.version();
    was_member_ = was_member_ || reply.first() != 0;
    state_.Clear();
    state_.set_nonce(reply.nonce());
    state_.set_every_ms(reply.every_ms());
    state_.set_op(reply.op());
    state_.set_committed(reply.committed());
    state_.set_first(reply.first());
    state_.set_last(reply.last());
    take_windows(reply);
    state_.set_trouble(clean_text(reply.trouble()));
    state_.set_ended(reply.ended());
    *state_.mutable_left_out() = reply.left_out();
}

Result<> Following::tell() {
    state_.set_clock_ms(told_.clock_ms());
    state_.set_clock_error_ms(told_.clock_error_ms());
    const bool same_clock = std::abs(clock_.ms() - told_.clock_ms()) <= kSameClockMs;
    if (has_told_ && same_clock && state_.SerializeAsString() == told_.SerializeAsString()) {
        return {};
    }
    state_.set_clock_ms(clock_.ms());
    state_.set_clock_error_ms(static_cast<std::uint32_t>(clock_.error_ms()));
    v1::LocalReply reply;
    *reply.mutable_stream_state() = state_;
    ASK_PASS(io_.reply(reply));
    told_ = state_;
    has_told_ = true;
    return {};
}

// Its receiver is to know, rather than to find out by silence.
void Following::say_lost() {
    if (!receiver_ || (!is_member() && version_ == 0)) {
        return;
    }
    v1::FollowStreamRequest request = call_request();
    request.set_leaves(false);
    request.set_lost(true);
    if (const auto told = receiver_->follow_stream(request, kLostWait, nullptr); !told) {
        spdlog::warn("stream {}: {}", request_.name(), told.error().text());
    }
}

void Following::describe() {
    v1::AgentStream entry;
    entry.set_name(clean_name(request_.name()));
    entry.set_role("sender");
    entry.set_peer(peer_);
    entry.set_every_ms(state_.every_ms());
    entry.set_state(state_.ended()        ? "ended"
                    : request_.leaves()   ? "finishing"
                    : state_.first() != 0 ? "running"
                                          : "waiting for members");
    entry.set_committed(state_.committed());
    for (const v1::OpenWindow& window : state_.windows()) {
        v1::AgentWindow& open = *entry.add_windows();
        open.set_number(window.number());
        open.set_begins_ms(window.begins_ms());
        open.set_state(window.instance() == 0 ? "due" : "open");
    }
    entry.set_user(io_.user());
    entry.set_trouble(state_.trouble());
    member_.follows.put(session_, std::move(entry), io_.mailbox());
}

}  // namespace ask
