// SPDX-License-Identifier: Apache-2.0
//
// How a send begins: it finds its task, gets a channel, registers it and joins.
#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/base/random.h"
#include "lib/control/member/convert.h"
#include "lib/control/member/patience.h"
#include "lib/control/send/sending.h"
#include "lib/net/address.h"
#include "lib/net/host_book.h"
#include "lib/rpc/unreachable.h"
#include "lib/tuples/slot_map.h"

namespace ask {
namespace {

constexpr milliseconds kCallWait{3000};
constexpr milliseconds kLookupHold{2000};  // less than a call may take
constexpr milliseconds kJoinFor{12000};
// On top of the time that the receiver may take to answer.
constexpr milliseconds kAnswerGrace{1000};
constexpr milliseconds kRenewEvery{1000};
constexpr milliseconds kArpWait{5000};
// Of a stream's window: the next one asks again.
constexpr milliseconds kPatienceOfWindow{1000};

// Several times within what either end takes for silence.
milliseconds renew_interval(milliseconds deadline, double lease_seconds) {
    constexpr milliseconds kShortest{50};
    const double quarter = std::min(static_cast<double>(deadline.count()), lease_seconds * 1000) / 4;
    return milliseconds(std::llround(std::clamp(quarter, static_cast<double>(kShortest.count()),
                                                static_cast<double>(kRenewEvery.count()))));
}

}  // namespace

// A sender may start before its receiver, and a switch may be on its way up again: tries until the deadline.
Result<> Sending::join_task() {
    for (;;) {
        retry_ = false;
        auto joined = try_join();
        if (joined.ok() || !retry_ || Clock::now() >= give_up_at_) {
            if (!joined && retry_) {
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

Result<> Sending::try_join() {
    auto offer = find_task();
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
    auto reply = register_and_join(offer_);
    if (!reply) {
        return std::move(reply).error();
    }
    return begin_stream(*reply);
}

Result<v1::TaskOffer> Sending::find_task() {
    if (by_relay_) {
        by_relay_.reset();
        turn_to(root_);
    }
    auto offer = look_up(request_.task_id());
    if (offer) {
        told_ = offer->instance();
    }
    if (!offer || !offer->has_relay()) {
        return offer;
    }
    ASK_PASS(turn_to_relay(*offer));
    return look_up(offer->relay().task_id());
}

// The receiver names it, and could have this host connect anywhere: to an agent of our own CA, as it is.
Result<> Sending::turn_to_relay(const v1::TaskOffer& offer) {
    const std::string of = "receiver " + root_.name + ": relay";
    const v1::RelayOffer& relay = offer.relay();
    const auto address = host_of_control(relay.agent());
    ASK_TRY(address, of + ": its agent's address");
    ASK_TRY(check_task_id(relay.task_id()), of);
    by_relay_ = offer.instance();
    turn_to({.address = *address,
             .name = "relay " + clean_name(relay.name()) + " (" + format_host(*address) + ")",
             .control = relay.agent(),
             .token = relay.token()});
    return {};
}

Result<v1::TaskOffer> Sending::look_up(const std::string& task_id) {
    v1::LookupRequest request;
    request.set_task_id(task_id);
    request.set_token(token_);
    request.set_member(request_.stream_member());
    request.set_sender(sender_);
    request.set_wire_version(ASK_WIRE_VERSION);
    if (request_.has_sample()) {
        *request.mutable_sample() = request_.sample();
        request.mutable_sample()->set_window(request_.has_merge_window() ? request_.merge_window()
                                                                         : member_.options.merge_window);
    }
    request.set_payload_limit(member_.options.payload_limit);
    request.set_switch_address(own_switch());
    request.set_host(member_.options.address);
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
    return explain_look_up(offer.error());
}

Error Sending::explain_look_up(const Error& error) {
    retry_ = true;
    if (error.code() == Errc::kAborted) {
        trouble_ = clean_text(error.text());
        return {Errc::kDeadline, trouble_};
    }
    const std::string heard = trouble_.empty() ? "" : " (last heard: " + trouble_ + ")";
    if (by_relay_ && (error.code() == Errc::kUnknown || is_transient(error))) {
        return {error.code(), "task " + request_.task_id() + ": " + peer_ + ": " + error.text() + heard};
    }
    if (error.code() == Errc::kUnknown) {
        return {Errc::kUnknown, "task " + request_.task_id() + " is not open on " + peer_ +
                                    ": start ask-recv --task " + request_.task_id() + " there" + heard};
    }
    if (is_transient(error)) {
        return {Errc::kUnavailable,
                "agent on " + peer_ + " unreachable: " + why_unreachable(peer_control_, error.text()) +
                    ": start ask-agentd there, check the network, or, if its `listen` has another port, "
                    "send --to HOST:PORT"};
    }
    retry_ = false;
    return error;
}

// What the receiver wants must be something that this host can send.
Result<> Sending::check_offer(const v1::TaskOffer& offer) const {
    const auto geometry = geometry_from_proto(offer.geometry());
    ASK_TRY(geometry, "receiver " + peer_);
    ASK_TRY(wire_op(offer.op()), "receiver " + peer_);
    ASK_TRY(mark_from_proto(offer.mark()), "receiver " + peer_);
    const unsigned needed = geometry->payload_bytes(geometry->rows);
    if (needed > member_.options.payload_limit) {
        return Error(Errc::kUnsupported,
                     "task " + request_.task_id() + " has packets of " +
                         std::to_string(needed + packet_header_bytes(member_.options.address)) +
                         " bytes (geometry " + to_string(*geometry) + "), but the MTU of " +
                         member_.options.interface + " is " + std::to_string(member_.options.mtu) +
                         ": raise it, or open the task with a geometry of fewer rows");
    }
    return {};
}

std::string Sending::own_switch() const {
    return local_ || !member_.own_switch ? "" : member_.own_switch->address();
}

Mark Sending::wanted_mark() const {
    return without_.empty() ? *mark_from_proto(offer_.mark()) : Mark{};
}

// One that has not served this instance of the task. That of the last try may serve another one.
Result<> Sending::get_channel() {
    const std::uint64_t instance = offer_.instance();
    if (lease_ && lease_instance_ != instance && !member_.channels.serve(lease_->id, instance)) {
        put_channel_back(true);
    }
    if (lease_ && offer_.own_switch() && wanted_mark().switch_id == 0 && lease_->registered.switch_id != 0) {
        take_other_channel();
    }
    lease_instance_ = instance;
    while (!lease_) {
        auto lease =
            member_.channels.acquire(io_.mailbox(), {.instance = instance,
                                                     .at_switch = wanted_mark().switch_id != 0 && !local_,
                                                     .user = io_.user(),
                                                     .only_at = offer_.own_switch() ? own_switch() : ""});
        if (!lease) {
            return std::move(lease).error().with_context("task " + request_.task_id());
        }
        lease_ = std::move(*lease);
        if (lease_) {
            break;
        }
        if (Clock::now() >= give_up_at_) {
            return Error(Errc::kDeadline, "all " + std::to_string(member_.options.max_channels) +
                                              " channels are in use, or seven eighths of them by this user: "
                                              "raise max_channels, or send fewer tasks at once");
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

// Its own switch is always on the way, and drops what a channel that is registered there sends for a task
// that is not open there; if it is away, the channel cannot leave it. Where there is no other one, it has to.
void Sending::take_other_channel() {
    auto other = member_.channels.acquire(
        io_.mailbox(), {.instance = offer_.instance(), .at_switch = false, .user = io_.user()});
    if (!other || !*other) {
        member_.channels.withdraw(io_.mailbox());
    } else if ((*other)->registered.switch_id != 0) {
        member_.channels.release(**std::move(other));
    } else {
        put_channel_back(true);
        lease_ = *std::move(other);
    }
}

// A switch gives up channels that have served no task for a while, and the join tells: no reason to pause.
Result<v1::JoinReply> Sending::register_and_join(const v1::TaskOffer& offer) {
    const bool was_registered = is_registered(offer);
    ASK_PASS(register_channel(offer));
    auto reply = call_join(offer);
    if (reply.ok() || !was_registered || reply.error().code() != Errc::kUnknown) {
        return reply;
    }
    retry_ = false;
    ASK_PASS(register_channel(offer));
    return call_join(offer);
}

bool Sending::is_registered(const v1::TaskOffer& offer) const {
    const Mark mark = wanted_mark();
    return !local_ && mark.switch_id != 0 && lease_->registered == mark &&
           lease_->registered_as == lease_->incarnation && !lease_->bypassed &&
           lease_->switch_address == offer.switch_address();
}

Result<> Sending::register_channel(const v1::TaskOffer& offer) {
    const Mark mark = wanted_mark();
    if (local_) {
        return {};
    }
    if (mark.switch_id == 0) {
        return lease_->registered.switch_id == 0 ? Result<>() : leave_switch();
    }
    if (is_registered(offer)) {
        return {};
    }
    if (auto valid = check_host_port(offer.switch_address()); !valid) {
        return std::move(valid).error().with_context("receiver " + peer_ + " names no switch address");
    }
    if (lease_->registered.switch_id != 0 && lease_->switch_address != offer.switch_address()) {
        if (auto left = leave_switch(); !left) {
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
        retry_ = is_transient(registered.error());
        trouble_ = registered.error().text();
        return offer.own_switch() ? note_unregistered(registered.error()) : registered.error();
    }
    lease_->registered = *registered;
    lease_->switch_address = offer.switch_address();
    lease_->registered_as = lease_->incarnation;
    lease_->bypassed = false;
    if (*registered != mark) {
        // The receiver finds out by itself; until then its offer is out of date.
        retry_ = true;
        return Error(Errc::kAborted, client->name() + " was restarted after the task had been opened there");
    }
    return {};
}

// Its own switch refuses the channel, or has not answered for long: it goes on without. If the channel may be
// registered all the same, by another one.
Error Sending::note_unregistered(const Error& why) {
    const bool refused = !retry_;
    if (!refused && Clock::now() < patient_until()) {
        return why;
    }
    if (!refused) {
        lease_->registered = *mark_from_proto(offer_.mark());
        lease_->switch_address = offer_.switch_address();
        lease_->registered_as = lease_->incarnation;
    }
    without_ = why.text();
    retry_ = true;
    return why;
}

Clock::time_point Sending::patient_until() const {
    return is_window() ? started_ + std::min(kPatienceOfWindow, deadline_ / 2) : give_up_at_ - deadline_ / 2;
}

// Where the channel is registered, packets of a task that is not open there are dropped. That switch may lie
// on the way, and its programs run on while its daemon is away: then another channel. Without one it is worth
// some patience, after which it goes on with this: a switch that stays away drops nothing but what is sent
// its way.
Result<> Sending::leave_switch() {
    auto asked = ask([&](CallCancel* cancel) { return unregister(cancel); });
    ASK_PASS(asked);
    const auto& gone = *asked;
    if (!gone.ok()) {
        take_other_channel();
    }
    if (lease_->registered.switch_id == 0) {
        return {};
    }
    const bool on_the_way = offer_.own_switch() && lease_->switch_address == own_switch();
    if (on_the_way || Clock::now() < patient_until()) {
        retry_ = true;
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

Result<v1::JoinReply> Sending::call_join(const v1::TaskOffer& offer) {
    const auto state = stream_state();
    v1::JoinRequest request;
    request.set_instance(offer.instance());
    request.set_sender(sender_);
    request.set_sender_name(member_.options.name);
    request.set_token(token_);
    *request.mutable_channel() = channel_to_proto(lease_->id);
    request.set_incarnation(lease_->incarnation);
    request.set_first_seq(state.next_seq);
    request.set_can_repeat(can_repeat_);
    request.set_relay(request_.relay());
    request.set_member(request_.stream_member());
    request.set_switch_address(own_switch());
    request.set_switch_trouble(without_);
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
    retry_ = joined_ || code == Errc::kUnsupported || code == Errc::kUnknown || code == Errc::kExists;
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
    // Else it could have the tuples sent to whomever it likes.
    if (reply.receiver_address() != (local_ ? member_.options.address : peer_address_)) {
        const std::string named = format_host(reply.receiver_address());
        return Error(Errc::kDenied,
                     "receiver " + peer_ + " names " + named +
                         " as its address, which is not where it answers: if it is, too, send --to " + named);
    }
    auto path = find_way(reply.receiver_address());
    if (!path) {
        return std::move(path).error().with_context("way to " + peer_);
    }
    receiver_address_ = reply.receiver_address();
    whole_keys_ = reply.whole_keys();
    renew_every_ = renew_interval(deadline_, reply.lease_seconds());
    lease_->bypassed = local_ && lease_->registered.switch_id != 0;

    StreamStart start;
    start.flow = {{.instance = offer_.instance(),
                   .channel = lease_->id,
                   .incarnation = lease_->incarnation,
                   .secret = *secret,
                   .mark = *mark,
                   .first_seq = stream_state().next_seq,
                   .whole_keys = reply.whole_keys()},
                  *op,
                  *geometry,
                  std::move(slot_map)};
    start.counts = request_.as_count() || reply.op() == v1::OPERATOR_COUNT;
    start.local = local_;
    start.max_rate = request_.max_rate();
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

}  // namespace ask
