// SPDX-License-Identifier: Apache-2.0
#include "lib/control/send/sending.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <spdlog/spdlog.h>

#include "lib/base/random.h"
#include "lib/control/member/beside.h"
#include "lib/control/member/convert.h"
#include "lib/control/member/patience.h"
#include "lib/rpc/unreachable.h"
#include "lib/tuples/slot_map.h"

namespace ask {
namespace {

constexpr milliseconds kCallWait{3000};
constexpr milliseconds kLookupHold{2000};  // less than a call may take
constexpr milliseconds kJoinFor{12000};
// On top of the time that the receiver may take to answer.
constexpr milliseconds kAnswerGrace{1000};
constexpr milliseconds kRetryPause{200};
constexpr milliseconds kGoodbyeWait{1000};
constexpr milliseconds kRenewEvery{1000};
constexpr milliseconds kRenewGrace{3000};
constexpr milliseconds kPathEvery{3000};
constexpr milliseconds kArpWait{5000};
constexpr milliseconds kLastAckWait{2000};

// Several times within what either end takes for silence.
milliseconds renew_interval(milliseconds deadline, double lease_seconds) {
    constexpr milliseconds kShortest{50};
    const double quarter = std::min(static_cast<double>(deadline.count()), lease_seconds * 1000) / 4;
    return milliseconds(std::llround(std::clamp(quarter, static_cast<double>(kShortest.count()),
                                                static_cast<double>(kRenewEvery.count()))));
}

}  // namespace

Sending::Sending(Member& member, SessionIo& io, v1::OpenSend request)
    : member_(member),
      io_(io),
      request_(std::move(request)),
      sender_(random_u64()),
      can_repeat_(request_.can_repeat()) {}

void Sending::run() {
    describe("looking for the task");
    auto result = run_within_limits([this] { return run_steps(); });
    v1::AgentTask ended = description(result ? "committed" : "failed");
    if (!result) {
        ended.set_error(clean_text(result.error().text()));
        give_up(result.error());
    }
    member_.sends.remove(sender_);
    member_.history.add(std::move(ended));
}

Result<> Sending::run_steps() {
    if (auto valid = check_task_id(request_.task_id()); !valid) {
        return valid;
    }
    const auto deadline = task_deadline(request_.deadline_ms(), member_.options.deadline_seconds);
    ASK_TRY(deadline, "task " + request_.task_id());
    deadline_ = *deadline;
    give_up_at_ = Clock::now() + deadline_;
    if (auto found = find_receiver(); !found) {
        return found;
    }
    if (auto joined = join_task(); !joined) {
        return joined;
    }
    if (auto committed = stream_to_commit(); !committed) {
        return committed;
    }
    return report_done();
}

Result<> Sending::find_receiver() {
    auto resolved = ask([&](CallCancel* /*cancel*/) { return member_.network.resolve(request_.to()); });
    ASK_PASS(resolved);
    auto& host = *resolved;
    ASK_PASS(host);
    peer_address_ = host->address;
    local_ = peer_address_ == member_.options.address || member_.network.is_own(peer_address_);
    const std::string dotted = format_ipv4(peer_address_);
    peer_ = request_.to() == dotted ? dotted : clean_name(request_.to()) + " (" + dotted + ")";
    peer_control_ = dotted + ":" + std::to_string(host->port);
    receiver_ = member_.network.peer_at(peer_control_, peer_);
    renew_ = receiver_->renewal(io_.mailbox());
    return {};
}

Result<> Sending::listen(Clock::time_point until) {
    auto wake = io_.wait(until);
    if (!wake) {
        return std::move(wake).error();
    }
    if (wake->request) {
        return Error(Errc::kInput, "the application sent a request before the stream was ready");
    }
    return {};
}

void Sending::show_waiting() {
    v1::Progress progress;
    progress.set_state(trouble_);
    io_.progress(progress);
}

template <typename Call>
auto Sending::ask(Call call) -> Result<std::invoke_result_t<Call&, CallCancel*>> {
    return run_beside(
        io_.mailbox(), std::move(call), [this](Clock::time_point until) { return listen(until); },
        [this] { show_waiting(); });
}

Result<> Sending::pause() {
    const auto until = std::min(Clock::now() + kRetryPause, give_up_at_);
    while (Clock::now() < until) {
        ASK_PASS(listen(until));
    }
    show_waiting();
    return {};
}

// A sender may start before its receiver, and a switch may be on its way up again: tries until the deadline.
Result<> Sending::join_task() {
    for (;;) {
        bool retry = false;
        auto joined = try_join(retry);
        if (joined.ok() || !retry || Clock::now() >= give_up_at_) {
            if (!joined && retry) {
                return Error(joined.error().code(),
                             joined.error().text() + " (after " + seconds_text(deadline_) + ")");
            }
            return joined;
        }
        if (auto paused = pause(); !paused) {
            return paused;
        }
    }
}

Result<> Sending::try_join(bool& retry) {
    auto offer = look_up(retry);
    if (!offer) {
        return std::move(offer).error();
    }
    offer_ = *offer;
    if (auto fits = check_offer(offer_); !fits) {
        return fits;
    }
    if (auto got = get_channel(); !got) {
        return got;
    }
    if (auto registered = register_channel(offer_, retry); !registered) {
        return registered;
    }
    auto reply = call_join(offer_, retry);
    if (!reply) {
        return std::move(reply).error();
    }
    return begin_stream(*reply);
}

Result<v1::TaskOffer> Sending::look_up(bool& retry) {
    v1::LookupRequest request;
    request.set_task_id(request_.task_id());
    request.set_sender(sender_);
    if (request_.has_sample()) {
        *request.mutable_sample() = request_.sample();
    }
    request.set_payload_limit(member_.options.payload_limit);
    const auto left = std::chrono::ceil<milliseconds>(give_up_at_ - Clock::now());
    request.set_wait_ms(static_cast<std::uint32_t>(std::clamp(left, milliseconds(0), kLookupHold).count()));
    auto asked = ask([&](CallCancel* cancel) {
        return receiver_->look_up(request, at_most(kCallWait, give_up_at_ + kAnswerGrace), cancel);
    });
    ASK_PASS(asked);
    auto& offer = *asked;
    if (offer.ok()) {
        return std::move(offer);
    }
    retry = true;
    if (offer.error().code() == Errc::kAborted) {
        trouble_ = clean_text(offer.error().text());
        return Error(Errc::kDeadline, trouble_);
    }
    if (offer.error().code() == Errc::kUnknown) {
        return Error(Errc::kUnknown, "task " + request_.task_id() + " is not open on " + peer_ +
                                         ": start ask-recv --task " + request_.task_id() + " there" +
                                         (trouble_.empty() ? "" : " (last heard: " + trouble_ + ")"));
    }
    if (is_transient(offer.error())) {
        return Error(Errc::kUnavailable,
                     "agent on " + peer_ +
                         " unreachable: " + why_unreachable(peer_control_, offer.error().text()) +
                         ": start ask-agentd there, check the network, or, if its `listen` has another port, "
                         "send --to HOST:PORT");
    }
    retry = false;
    return std::move(offer).error();
}

// What the receiver wants must be something that this host can send.
Result<> Sending::check_offer(const v1::TaskOffer& offer) const {
    const auto geometry = geometry_from_proto(offer.geometry());
    ASK_TRY(geometry, "receiver " + peer_);
    ASK_TRY(wire_op(offer.op()), "receiver " + peer_);
    ASK_TRY(mark_from_proto(offer.mark()), "receiver " + peer_);
    const unsigned needed = geometry->payload_bytes(geometry->rows);
    if (needed > member_.options.payload_limit) {
        return Error(Errc::kUnsupported, "task " + request_.task_id() + " has packets of " +
                                             std::to_string(needed + kPacketHeaderBytes) +
                                             " bytes (geometry " + to_string(*geometry) +
                                             "), but the MTU of " + member_.options.interface + " is " +
                                             std::to_string(member_.options.mtu) +
                                             ": raise it, or open the task with a geometry of fewer rows");
    }
    return {};
}

// One that has not served this instance of the task. That of the last try may serve another one.
Result<> Sending::get_channel() {
    const std::uint64_t instance = offer_.instance();
    if (lease_ && lease_instance_ != instance && !member_.channels.serve(lease_->id, instance)) {
        put_channel_back(true);
    }
    lease_instance_ = instance;
    while (!lease_) {
        auto lease = member_.channels.acquire(
            io_.mailbox(), {.instance = instance, .at_switch = offer_.mark().switch_id() != 0 && !local_});
        if (!lease) {
            return std::move(lease).error().with_context("task " + request_.task_id());
        }
        lease_ = std::move(*lease);
        if (lease_) {
            break;
        }
        if (Clock::now() >= give_up_at_) {
            return Error(Errc::kDeadline, "all " + std::to_string(member_.options.max_channels) +
                                              " channels are in use: raise max_channels, or send fewer tasks "
                                              "at once");
        }
        describe("waiting for a channel");
        io_.progress(v1::Progress());
        auto wake = io_.wait(std::min(Clock::now() + kSessionTick, give_up_at_));
        if (!wake) {
            return std::move(wake).error();
        }
    }
    return {};
}

Result<> Sending::register_channel(const v1::TaskOffer& offer, bool& retry) {
    const Mark mark = *mark_from_proto(offer.mark());
    if (local_) {
        return {};
    }
    if (mark.switch_id == 0) {
        return lease_->registered.switch_id == 0 ? Result<>() : leave_switch(retry);
    }
    if (lease_->registered == mark && lease_->registered_as == lease_->incarnation && !lease_->bypassed &&
        lease_->switch_address == offer.switch_address()) {
        return {};
    }
    if (auto valid = check_host_port(offer.switch_address()); !valid) {
        return std::move(valid).error().with_context("receiver " + peer_ + " names no switch address");
    }
    if (lease_->registered.switch_id != 0 && lease_->switch_address != offer.switch_address()) {
        if (auto left = leave_switch(retry); !left) {
            return left;
        }
    }
    if (auto fresh = start_afresh(); !fresh) {
        return fresh;
    }
    const auto client = member_.network.switch_at(offer.switch_address());
    auto asked = ask([&](CallCancel* cancel) {
        return client->register_channel(lease_->id, lease_->incarnation, lease_->registered_as,
                                        at_most(kCallWait, give_up_at_), cancel);
    });
    ASK_PASS(asked);
    const auto& registered = *asked;
    if (!registered) {
        retry = is_transient(registered.error());
        trouble_ = registered.error().text();
        return registered.error();
    }
    lease_->registered = *registered;
    lease_->switch_address = offer.switch_address();
    lease_->registered_as = lease_->incarnation;
    lease_->bypassed = false;
    if (*registered != mark) {
        // The receiver finds out by itself; until then its offer is out of date.
        retry = true;
        return Error(Errc::kAborted, client->name() + " was restarted after the task had been opened there");
    }
    return {};
}

// Where the channel is registered, packets of a task that is not open there are dropped. That switch may lie
// on the way: worth some patience. One that stays away drops nothing but what is sent its way.
Result<> Sending::leave_switch(bool& retry) {
    auto asked = ask([&](CallCancel* cancel) { return unregister(cancel); });
    ASK_PASS(asked);
    const auto& gone = *asked;
    if (!gone.ok() && Clock::now() < give_up_at_ - deadline_ / 2) {
        retry = true;
        return gone;
    }
    lease_->forget_registration();
    return {};
}

// A switch begins with what it knows of seq 1 (the paper's dedupe takes the bits of a later round for seen):
// a channel that has sent already comes to it under a new incarnation.
Result<> Sending::start_afresh() {
    if (stream_state().next_seq <= 1) {
        return {};
    }
    const std::uint32_t incarnation = random_u32();
    const auto abandoned = member_.workers.abandon(lease_->id, incarnation);
    if (!abandoned.ok()) {
        return abandoned.error();
    }
    lease_->incarnation = incarnation;
    return {};
}

Result<v1::JoinReply> Sending::call_join(const v1::TaskOffer& offer, bool& retry) {
    const auto state = stream_state();
    v1::JoinRequest request;
    request.set_instance(offer.instance());
    request.set_sender(sender_);
    request.set_sender_name(member_.full_name());
    *request.mutable_channel() = channel_to_proto(lease_->id);
    request.set_incarnation(lease_->incarnation);
    request.set_first_seq(state.next_seq);
    request.set_can_repeat(can_repeat_);
    if (!local_) {
        *request.mutable_registered() = mark_to_proto(lease_->registered);
    }
    const milliseconds wait = at_most(kJoinFor, give_up_at_);
    request.set_wait_ms(static_cast<std::uint32_t>(wait.count()));
    // From here on the receiver may know of us, even if its answer gets lost.
    joined_ = true;
    auto asked =
        ask([&](CallCancel* cancel) { return receiver_->join(request, wait + kAnswerGrace, cancel); });
    ASK_PASS(asked);
    auto& reply = *asked;
    if (reply.ok()) {
        return std::move(reply);
    }
    const Errc code = reply.error().code();
    trouble_ = clean_text(reply.error().text());
    joined_ = is_transient(reply.error());
    if (code == Errc::kUnsupported || code == Errc::kUnknown) {
        lease_->registered_as = 0;
    }
    if (code == Errc::kExists) {
        // Another sender of the task has been on this channel, perhaps in a former life of this agent.
        put_channel_back(true);
    }
    // kUnknown: the task ended and may be opened again, or the switch lost the channel.
    retry = joined_ || code == Errc::kUnsupported || code == Errc::kUnknown || code == Errc::kExists;
    return std::move(reply);
}

// The neighbour is asked for in turns, between which the session listens.
Result<Path> Sending::find_way(std::uint32_t receiver) {
    const auto until = std::min(Clock::now() + kArpWait, give_up_at_);
    for (;;) {
        auto path = member_.network.find_path(receiver, std::min(Clock::now() + kSessionTick, until));
        if (path.ok() || path.error().code() != Errc::kDeadline || Clock::now() >= until) {
            return path;
        }
        ASK_PASS(listen(Clock::now()));
        show_waiting();
    }
}

Result<> Sending::set_path(std::uint32_t receiver) {
    auto path = member_.network.find_path(receiver, Clock::now() + kSessionTick);
    if (!path) {
        return std::move(path).error().with_context("way to " + peer_);
    }
    if (path->local != local_) {
        return Error(Errc::kInput, "receiver " + peer_ + " names " + format_ipv4(receiver) +
                                       " as its address, which is not on the same host");
    }
    return member_.workers.set_addresses(lease_->id, path->addresses);
}

Result<> Sending::begin_stream(const v1::JoinReply& reply) {
    const auto geometry = geometry_from_proto(reply.geometry());
    ASK_TRY(geometry, "receiver " + peer_);
    const auto op = wire_op(reply.op());
    ASK_TRY(op, "receiver " + peer_);
    const auto mark = mark_from_proto(reply.mark());
    ASK_TRY(mark, "receiver " + peer_);
    const auto secret = secret_from_bytes(reply.secret());
    ASK_TRY(secret, "receiver " + peer_);
    std::shared_ptr<const SlotMap> slot_map;
    if (!reply.slot_map().empty()) {
        auto decoded = decode_slot_map(reply.slot_map(), *geometry);
        ASK_TRY(decoded, "receiver " + peer_);
        slot_map = std::make_shared<SlotMap>(*decoded);
    }
    auto intake = member_.workers.make_intake(std::size_t{member_.options.ring_kib} << 10U);
    ASK_PASS(intake);
    auto path = find_way(reply.receiver_address());
    if (!path) {
        return std::move(path).error().with_context("way to " + peer_);
    }
    if (path->local != local_) {
        return Error(Errc::kInput, "receiver " + peer_ + " names " + format_ipv4(reply.receiver_address()) +
                                       " as its address, which is not where it answers");
    }
    receiver_address_ = reply.receiver_address();
    renew_every_ = renew_interval(deadline_, reply.lease_seconds());
    lease_->bypassed = local_ && lease_->registered.switch_id != 0;

    StreamStart start;
    start.flow = {{.instance = offer_.instance(),
                   .channel = lease_->id,
                   .incarnation = lease_->incarnation,
                   .secret = *secret,
                   .mark = *mark,
                   .first_seq = stream_state().next_seq},
                  *op,
                  *geometry,
                  std::move(slot_map)};
    start.counts = request_.as_count() || reply.op() == v1::OPERATOR_COUNT;
    start.local = local_;
    start.addresses = path->addresses;
    start.intake = *intake;
    start.mailbox = io_.mailbox();
    ASK_PASS(member_.workers.begin(std::move(start)));
    streaming_ = true;
    v1::LocalReply ready;
    ready.mutable_send_ready()->set_op(reply.op());
    ready.mutable_send_ready()->set_ring_bytes((*intake)->bytes());
    ready.mutable_send_ready()->set_merge_window(member_.options.merge_window);
    return io_.reply(ready, intake->get());
}

StreamState Sending::stream_state() const {
    if (!lease_) {
        return {};
    }
    const auto state = member_.workers.stream_state(lease_->id);
    return state.ok() ? *state : StreamState();
}

Result<> Sending::stream_to_commit() {
    spdlog::info("task {}: sending to {} on channel {}", request_.task_id(), peer_, lease_->id.port);
    last_answer_ = next_renew_ = Clock::now();
    trouble_.clear();
    next_path_ = Clock::now() + kPathEvery;
    Clock::time_point next_tick = Clock::now();
    while (!outcome_) {
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
    if (outcome_->state() == v1::Outcome::STATE_FAILED) {
        return Error(errc_from_number(outcome_->code(), Errc::kAborted), clean_text(outcome_->error()));
    }
    return {};
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
    request.set_wait_ms(static_cast<std::uint32_t>(renew_every_.count()));
    set_sender_part(*request.mutable_stats(), fin_acked_ ? final_stats_ : stream_state().stats);
    request.set_can_repeat(can_repeat_);
    next_renew_ = Clock::now() + renew_every_;
    // One that is lost leaves time for another within the deadline.
    renew_->start(request, renew_every_ + std::min(kRenewGrace, deadline_ / 4));
}

Result<> Sending::handle_renewed() {
    auto answer = renew_->take();
    if (!answer || !answer->ok()) {
        return {};
    }
    const v1::Outcome& outcome = **answer;
    last_answer_ = Clock::now();
    if (outcome.state() == v1::Outcome::STATE_UNKNOWN) {
        return Error(Errc::kAborted, "receiver " + peer_ + " no longer knows task " + request_.task_id() +
                                         ": its agent was restarted; run the task again");
    }
    trouble_ = clean_text(outcome.trouble());
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
        // A receiver that sees why decides, after a deadline of its own: it knows whether to begin again.
        const auto limit = trouble_.empty() ? deadline_ : 2 * deadline_;
        const StreamState state = stream_state();
        if (state.since_progress > limit.count() * kMillisecond) {
            return Error(Errc::kDeadline,
                         "no packet to " + peer_ + " has been acknowledged for " + seconds_text(limit) +
                             ": " +
                             (trouble_.empty() ? "check the path and its MTU in both directions" : trouble_));
        }
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

void Sending::show_progress() {
    v1::Progress progress;
    set_sender_part(*progress.mutable_stats(), fin_acked_ ? final_stats_ : stream_state().stats);
    progress.set_state(computed_    ? "computed, waiting until " + peer_ + " takes it"
                       : fin_acked_ ? "waiting for the result" + (trouble_.empty() ? "" : ": " + trouble_)
                       : !trouble_.empty() ? trouble_
                       : finished_         ? "draining"
                                           : "streaming");
    describe(progress.state());
    io_.progress(progress);
}

void Sending::describe(const std::string& state) {
    member_.sends.put(sender_,
                      {description(state), lease_ ? lease_->id.port : std::uint16_t{0}, io_.mailbox()});
}

v1::AgentTask Sending::description(const std::string& state) const {
    v1::AgentTask task;
    // It may be no valid one.
    task.set_id(clean_name(request_.task_id()));
    task.set_instance(offer_.instance());
    task.set_role("sender");
    task.set_state(state);
    task.set_op(offer_.op());
    *task.mutable_geometry() = offer_.geometry();
    task.set_peer(peer_.empty() ? clean_name(request_.to()) : peer_);
    task.set_age_seconds(std::chrono::duration<double>(Clock::now() - started_).count());
    if (streaming_ || fin_acked_) {
        set_sender_part(*task.mutable_stats(), fin_acked_ ? final_stats_ : stream_state().stats);
    }
    return task;
}

Result<> Sending::report_done() {
    v1::LocalReply reply;
    v1::Done& done = *reply.mutable_done();
    *done.mutable_stats() = outcome_->stats();
    done.set_seconds(std::chrono::duration<double>(Clock::now() - started_).count());
    // The result is committed, whether the application still listens or not.
    if (auto told = io_.reply(reply); !told) {
        spdlog::warn("task {}: its application did not take the result: {}", request_.task_id(),
                     told.error().text());
    }
    // The receiver has everything, so it acknowledges the FIN if only it hears it again.
    const auto until = Clock::now() + kLastAckWait;
    while (!fin_acked_ && Clock::now() < until) {
        for (const SessionEvent& event : io_.mailbox()->take()) {
            if (event.kind == SessionEvent::Kind::kFinAcked) {
                note_fin_acked();
            }
        }
        if (!fin_acked_) {
            io_.wait_mailbox(until);
        }
    }
    put_channel_back(fin_acked_);
    spdlog::info("task {}: sent to {} and committed", request_.task_id(), peer_);
    return {};
}

void Sending::give_up(const Error& error) {
    spdlog::warn("task {}: send to {} failed: {}", clean_name(request_.task_id()),
                 peer_.empty() ? clean_name(request_.to()) : peer_, error.text());
    io_.fail(error);
    if (renew_) {
        renew_->cancel();
    }
    if (joined_ && !outcome_) {
        leave(error.text());
    }
    member_.channels.withdraw(io_.mailbox());
    put_channel_back(!streaming_);
}

void Sending::leave(const std::string& reason) {
    v1::LeaveRequest request;
    request.set_instance(offer_.instance());
    request.set_sender(sender_);
    request.set_reason(reason);
    const auto left = receiver_->leave(request, kGoodbyeWait);
    if (!left.ok()) {
        // It finds out by our silence.
        spdlog::warn("task {}: {}", request_.task_id(), left.error().text());
    }
}

Result<> Sending::unregister(CallCancel* cancel) {
    const auto client = member_.network.switch_at(lease_->switch_address);
    const std::uint32_t as = lease_->registered_as != 0 ? lease_->registered_as : lease_->incarnation;
    auto gone = client->unregister_channel(lease_->id, as, kGoodbyeWait, cancel);
    if (!gone) {
        spdlog::warn("channel {}: {}", lease_->id.port, gone.error().text());
        return gone;
    }
    lease_->forget_registration();
    return {};
}

// Packets of a task that was given up may still be under way: the channel goes on under a new incarnation.
void Sending::put_channel_back(bool clean) {
    if (!lease_) {
        return;
    }
    if (!clean) {
        const std::uint32_t incarnation = random_u32();
        const auto abandoned = member_.workers.abandon(lease_->id, incarnation);
        if (lease_->registered.switch_id != 0) {
            // Failing that, the next task registers the new incarnation in its place, or SwitchKeeper
            // unregisters this one.
            const auto gone = unregister();
            if (!gone.ok() && lease_->registered_as == 0) {
                lease_->registered_as = lease_->incarnation;
            }
        }
        if (abandoned.ok()) {
            lease_->incarnation = incarnation;
        }
    }
    member_.channels.release(std::move(*lease_));
    lease_.reset();
}

}  // namespace ask
