// SPDX-License-Identifier: Apache-2.0
//
// A send while its tuples go out, and until its task is committed.
#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>

#include "lib/base/probe.h"
#include "lib/control/member/convert.h"
#include "lib/control/member/patience.h"
#include "lib/control/send/sending.h"
#include "lib/net/host_book.h"

namespace ask {
namespace {

constexpr milliseconds kRenewGrace{3000};
constexpr milliseconds kPathEvery{3000};

}  // namespace

Result<> Sending::set_path(std::uint32_t receiver) {
    auto path = member_.network.find_path(receiver, Clock::now() + kSessionTick);
    if (!path) {
        return std::move(path).error().with_context("way to " + peer_);
    }
    if (path->local != local_) {
        return Error(Errc::kInput, "receiver " + peer_ + " names " + format_host(receiver) +
                                       " as its address, which is not on the same host");
    }
    return member_.workers.set_addresses(lease_->id, path->addresses);
}

StreamState Sending::stream_state() const {
    if (!lease_) {
        return {};
    }
    const auto state = member_.workers.stream_state(lease_->id);
    return state.ok() ? *state : StreamState();
}

Result<> Sending::stream_to_commit() {
    ASK_PROBE(send_began, request_.task_id().c_str(), offer_.instance(), lease_->id.port);
    spdlog::log(log_level(), "task {}: sending to {} on channel {}", request_.task_id(), peer_,
                lease_->id.port);
    told_.reset();
    last_answer_ = Clock::now();
    // The Join has told all that there is to tell. One that is done by then asks once, with its final
    // figures.
    next_renew_ = last_answer_ + renew_every_;
    trouble_.clear();
    next_path_ = Clock::now() + kPathEvery;
    ASK_PASS(await_outcome());
    if (outcome_->state() == v1::Outcome::STATE_FAILED) {
        const Error failed(errc_from_number(outcome_->code(), Errc::kAborted), clean_text(outcome_->error()));
        return by_relay_ ? ask_receiver(failed) : failed;
    }
    return {};
}

Result<> Sending::await_outcome() {
    Clock::time_point next_tick = Clock::now();
    while (!outcome_) {
        if (by_relay_ && Clock::now() - last_answer_ > deadline_) {
            return ask_receiver(
                {Errc::kDeadline, peer_ + " has not answered for " + seconds_text(deadline_)});
        }
        if (Clock::now() >= next_tick) {
            if (auto fine = tick(); !fine) {
                return fine;
            }
            next_tick = Clock::now() + kSessionTick;
        }
        if (!renew_->running() && Clock::now() >= next_renew_) {
            start_renew();
        }
        const auto until = renew_->running() ? next_tick : std::min(next_tick, next_renew_);
        auto wake = io_.wait(until);
        if (!wake) {
            return std::move(wake).error();
        }
        if (auto fine = handle(*wake); !fine) {
            return fine;
        }
    }
    return {};
}

// It knows whether everybody begins again. A relay hands on what it has before it says that it is done, so
// what the receiver has committed has this sender's tuples in it.
Result<> Sending::ask_receiver(const Error& trouble) {
    spdlog::warn("task {}: {}: asking receiver {}", request_.task_id(), trouble.text(), root_.name);
    const auto peer = member_.network.peer_at(root_.control, root_.name);
    const auto renew = peer->renewal(io_.mailbox());
    const auto give_up_at = Clock::now() + deadline_;
    v1::RenewRequest request;
    request.set_instance(*by_relay_);
    request.set_sender(sender_);
    request.set_wait_ms(static_cast<std::uint32_t>(renew_every_.count()));
    outcome_.reset();
    auto next = Clock::now();
    while (Clock::now() < give_up_at) {
        if (!renew->running() && Clock::now() >= next) {
            next = Clock::now() + renew_every_;
            renew->start(request, renew_every_ + std::min(kRenewGrace, deadline_ / 4));
        }
        auto wake = io_.wait(std::min(Clock::now() + kSessionTick, give_up_at));
        ASK_PASS(wake);
        const auto answer = renew->take();
        if (answer && answer->ok() && (*answer)->state() == v1::Outcome::STATE_COMMITTED) {
            outcome_ = **answer;
            set_sender_part(*outcome_->mutable_stats(), fin_acked_ ? final_stats_ : stream_state().stats,
                            member_.options.address);
            return {};
        }
        if (answer && answer->ok() && (*answer)->state() == v1::Outcome::STATE_FAILED) {
            outcome_ = **answer;
            return Error(errc_from_number(outcome_->code(), Errc::kAborted), clean_text(outcome_->error()));
        }
        if (answer && answer->ok() && (*answer)->state() == v1::Outcome::STATE_UNKNOWN) {
            break;
        }
        v1::Progress progress;
        progress.set_state(trouble.text() + ": asking " + root_.name);
        io_.progress(progress);
    }
    return trouble;
}

Result<> Sending::handle(const SessionIo::Wake& wake) {
    for (const SessionEvent& event : wake.events) {
        if (event.kind == SessionEvent::Kind::kRingBroken) {
            return *event.error;
        }
        if (event.kind == SessionEvent::Kind::kFinAcked) {
            note_fin_acked();
        }
        if (event.kind == SessionEvent::Kind::kRenewed) {
            if (auto fine = handle_renewed(); !fine) {
                return fine;
            }
        }
    }
    return wake.request ? handle_request(*wake.request) : Result<>();
}

Result<> Sending::handle_request(const v1::LocalRequest& request) {
    if (request.has_cannot_repeat() && !finished_) {
        // The receiver should know before it counts on it.
        can_repeat_ = false;
        renew_->cancel();
        next_renew_ = Clock::now();
        return {};
    }
    if (!request.has_finish_send() || finished_) {
        return Error(Errc::kInput, "the application sent a request that does not fit a send under way");
    }
    finished_ = true;
    return member_.workers.finish(lease_->id);
}

// Everything has arrived. The receiver gets the final figures at once, rather than with the next Renew.
void Sending::note_fin_acked() {
    const auto stats = member_.workers.end(lease_->id);
    if (stats.ok()) {
        final_stats_ = *stats;
    }
    fin_acked_ = true;
    streaming_ = false;
    // Nothing of this task is under way: the channel may serve others until the result is there.
    put_channel_back(stats.ok());
    renew_->cancel();
    next_renew_ = Clock::now();
}

void Sending::start_renew() {
    v1::RenewRequest request;
    request.set_instance(offer_.instance());
    request.set_sender(sender_);
    // After one that nobody answered it asks for a word at once: a receiver that was stopped meanwhile would
    // hold its answer back until the deadline. Once all has arrived the answer may be the last one, which the
    // receiver gives only once: then it is waited for.
    const bool at_once = unanswered_ && !fin_acked_;
    request.set_wait_ms(at_once ? 0 : static_cast<std::uint32_t>(renew_every_.count()));
    set_sender_part(*request.mutable_stats(), fin_acked_ ? final_stats_ : stream_state().stats,
                    member_.options.address);
    request.set_can_repeat(can_repeat_);
    next_renew_ = Clock::now() + renew_every_;
    // One that is lost leaves time for another within the deadline.
    renew_->start(request, renew_every_ + std::min(kRenewGrace, deadline_ / 4));
}

Result<> Sending::handle_renewed() {
    auto answer = renew_->take();
    if (!answer || !answer->ok()) {
        // But for one that was cancelled here.
        unanswered_ = answer && answer->error().code() != Errc::kAborted;
        return {};
    }
    const v1::Outcome& outcome = **answer;
    last_answer_ = Clock::now();
    if (std::exchange(unanswered_, false)) {
        // The receiver tells the end to whoever is there to hear it.
        next_renew_ = last_answer_;
    }
    if (outcome.state() == v1::Outcome::STATE_UNKNOWN && by_relay_) {
        outcome_.emplace().set_state(v1::Outcome::STATE_FAILED);
        outcome_->set_code(static_cast<std::int32_t>(Errc::kAborted));
        outcome_->set_error(peer_ + " no longer knows task " + request_.task_id());
        return {};
    }
    if (outcome.state() == v1::Outcome::STATE_UNKNOWN) {
        return Error(Errc::kAborted, "receiver " + peer_ + " no longer knows task " + request_.task_id() +
                                         ": its agent was restarted; run the task again");
    }
    trouble_ = clean_text(outcome.trouble());
    waits_for_ = clean_text(outcome.waits_for());
    if (!waits_for_.empty()) {
        last_waiting_ = last_answer_;
    }
    computed_ = outcome.computed();
    if (outcome.state() != v1::Outcome::STATE_RUNNING) {
        outcome_ = outcome;
    }
    return {};
}

Result<> Sending::tick() {
    const auto now = Clock::now();
    if (now - last_answer_ > deadline_) {
        return Error(Errc::kDeadline,
                     "receiver " + peer_ + " has not answered for " + seconds_text(deadline_));
    }
    if (!fin_acked_) {
        ASK_PASS(check_progress());
        if (!local_ && now >= next_path_) {
            next_path_ = now + kPathEvery;
            // A next hop that moved is followed; one that is silent for a while is not the end of the task.
            if (auto path = set_path(receiver_address_); !path) {
                spdlog::warn("task {}: {}", request_.task_id(), path.error().text());
            }
        }
    }
    show_progress();
    return {};
}

// While the receiver says that it waits for somebody, the clock stands: it has one of its own for that one.
// One that has its result has all of this, whatever became of the last ACK: nobody is there to send another.
Result<> Sending::check_progress() const {
    if (computed_) {
        return {};
    }
    // A receiver that sees why decides, after a deadline of its own: it knows whether to begin again.
    const auto limit = trouble_.empty() ? deadline_ : 2 * deadline_;
    if (stream_state().since_progress <= limit.count() * kMillisecond ||
        Clock::now() - last_waiting_ <= limit) {
        return {};
    }
    return Error(Errc::kDeadline,
                 "no packet to " + peer_ + " has been acknowledged for " + seconds_text(limit) + ": " +
                     (trouble_.empty() ? "check the path and its MTU in both directions" : trouble_));
}

void Sending::show_progress() {
    v1::Progress progress;
    set_sender_part(*progress.mutable_stats(), fin_acked_ ? final_stats_ : stream_state().stats,
                    member_.options.address);
    progress.set_state(computed_    ? "computed, waiting until " + peer_ + " takes it"
                       : fin_acked_ ? "waiting for the result" + (trouble_.empty() ? "" : ": " + trouble_)
                       : !trouble_.empty()   ? trouble_
                       : !waits_for_.empty() ? "waiting: " + waits_for_
                       : finished_           ? "draining"
                                             : "streaming");
    progress.set_waits_for(waits_for_);
    describe(progress.state());
    io_.progress(progress);
}

}  // namespace ask
