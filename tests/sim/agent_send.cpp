// SPDX-License-Identifier: Apache-2.0
//
// Sending: agent/send_session.cpp and channels.cpp in their order.
#include <algorithm>
#include <utility>

#include "tests/sim/agent.h"
#include "tests/support/combined.h"

namespace ask::sim {

namespace {

constexpr Nanos kCallWait = 300 * kMillisecond;
constexpr Nanos kJoinWait = 1500 * kMillisecond;
constexpr Nanos kRetryPause = 10 * kMillisecond;
constexpr Nanos kGoodbyeWait = 100 * kMillisecond;
constexpr Nanos kRenewWait = 200 * kMillisecond;
constexpr Nanos kLastAckWait = 200 * kMillisecond;

}  // namespace

Job<Result<Done>> Agent::send_task(std::string id, std::uint32_t to, std::shared_ptr<const Tuples> tuples) {
    Sending sending;
    sending.id = std::move(id);
    sending.to = to;
    sending.tuples = std::move(tuples);
    sending.sender = world_.draw_u64();
    sending.give_up_at = world_.clock.now() + deadline();
    parts_.oracle.sends(sending.sender, sending.tuples);
    Result<Done> result = co_await join_task(sending);
    if (result.ok()) {
        result = co_await stream(sending);
    }
    if (result.ok()) {
        parts_.oracle.succeeded(sending.id, sending.offer.instance, sending.sender);
        world_.note("agent %u: send of task %s succeeded", host_, sending.id.c_str());
        // The receiver has everything, so it acknowledges the FIN if only it hears it again.
        const Nanos until = world_.clock.now() + kLastAckWait;
        while (!channels_[sending.channel]->fin_reported && world_.clock.now() < until) {
            co_await sessions.wait_until(world_.clock, until);
        }
        co_await put_channel_back(sending, channels_[sending.channel]->fin_reported);
        co_return Done{};
    }
    world_.note("agent %u: send of task %s failed: %s", host_, sending.id.c_str(),
                result.error().text().c_str());
    if (sending.joined) {
        Agent& peer = *parts_.agents[sending.to];
        std::function<Job<Result<Done>>()> leave = [&peer, instance = sending.offer.instance,
                                                    sender = sending.sender] {
            return peer.leave(instance, sender);
        };
        const Result<Done> left = co_await call<Done>(world_, peer.process, kGoodbyeWait, std::move(leave));
        if (!left.ok()) {
            world_.note("agent %u: leave: %s", host_, left.error().text().c_str());
        }
    }
    co_await put_channel_back(sending, !sending.streaming);
    co_return result;
}

// Tries until the deadline: the receiver may come later, and a switch may be on its way up again.
Job<Result<Done>> Agent::join_task(Sending& sending) {
    for (;;) {
        const Result<bool> joined = co_await try_join(sending);
        if (!joined.ok()) {
            co_return joined.error();
        }
        if (*joined) {
            co_return Done{};
        }
        if (world_.clock.now() >= sending.give_up_at) {
            co_return Error(Errc::kDeadline, "the task could not be joined in time");
        }
        co_await world_.sleep(kRetryPause);
    }
}

// False: may be tried again.
Job<Result<bool>> Agent::try_join(Sending& sending) {
    Agent& peer = *parts_.agents[sending.to];
    std::function<Job<Result<Offer>>()> look_up = [&peer, id = sending.id] { return peer.look_up(id); };
    const Result<Offer> offer = co_await call<Offer>(world_, peer.process, kCallWait, std::move(look_up));
    if (!offer.ok()) {
        co_return false;
    }
    sending.offer = *offer;
    while (!sending.has_channel) {
        const auto idle =
            std::ranges::find_if(channels_, [](const auto& channel) { return !channel->leased; });
        if (idle != channels_.end()) {
            (*idle)->leased = sending.has_channel = true;
            sending.channel = static_cast<std::size_t>(idle - channels_.begin());
        } else if (world_.clock.now() >= sending.give_up_at) {
            co_return Error(Errc::kDeadline, "all channels are in use");
        } else {
            co_await channel_free_.wait_until(world_.clock, world_.clock.now() + kSessionTick);
        }
    }
    const Result<bool> registered = co_await register_channel(sending);
    if (!registered.ok() || !*registered) {
        co_return registered;
    }
    Channel& channel = *channels_[sending.channel];
    const JoinRequest request{.instance = sending.offer.instance,
                              .sender = sending.sender,
                              .channel = channel.data.id(),
                              .incarnation = channel.data.incarnation(),
                              .first_seq = channel.data.next_seq(),
                              .registered = channel.registered};
    // From here on the receiver may know of us, even if its answer gets lost.
    sending.joined = true;
    std::function<Job<Result<FlowParams>>()> join = [&peer, request] { return peer.join(request); };
    const Result<FlowParams> flow =
        co_await call<FlowParams>(world_, peer.process, kJoinWait, std::move(join));
    if (!flow.ok()) {
        world_.note("agent %u: join of task %s: %s", host_, sending.id.c_str(), flow.error().text().c_str());
        const Errc code = flow.error().code();
        sending.joined = is_transient(flow.error());
        if (code == Errc::kUnsupported || code == Errc::kUnknown) {
            channel.registered_as = 0;
        }
        const bool again =
            sending.joined || code == Errc::kUnsupported || code == Errc::kUnknown || code == Errc::kExists;
        co_return again ? Result<bool>(false) : Result<bool>(flow.error());
    }
    FlowParams agreed = *flow;
    agreed.first_seq = channel.data.next_seq();
    const Result<> begun = channel.data.begin(agreed, world_.plan.hold, world_.clock.now());
    if (!begun.ok()) {
        co_return begun.error();
    }
    sending.streaming = true;
    channel.tuples =
        world_.plan.merge == 0
            ? sending.tuples
            : std::make_shared<const Tuples>(test::combined(*sending.tuples, agreed.op, world_.plan.hold));
    channel.offered = 0;
    channel.receiver = sending.to;
    channel.finished = channel.fin_reported = false;
    channel.next_burst = world_.clock.now();
    pump(sending.channel);
    co_return true;
}

Job<Result<bool>> Agent::register_channel(Sending& sending) {
    Channel& channel = *channels_[sending.channel];
    const Offer offer = sending.offer;
    if (channel.registered == offer.mark && channel.registered_as == channel.data.incarnation() &&
        channel.switch_number == offer.switch_number) {
        co_return true;
    }
    if (channel.registered != Mark{} && channel.switch_number != offer.switch_number) {
        co_await unregister(sending.channel);
        // It would drop what passes through it, so it is worth some patience.
        if (channel.registered != Mark{} && world_.clock.now() < sending.give_up_at - deadline() / 2) {
            co_return false;
        }
        channel.registered = {};
    }
    if (channel.data.next_seq() > 1) {
        // The switch starts with what it knows of seq 1.
        channel.data.abandon(world_.draw_u32());
    }
    SwitchDaemon& server = switchd(offer.switch_number);
    using Registration = SwitchDaemon::Registration;
    std::function<Job<Result<Registration>>()> enter =
        [&server, id = channel.data.id(), as = channel.data.incarnation(), replaces = channel.registered_as] {
            return server.register_channel(id, as, replaces);
        };
    const Result<Registration> done =
        co_await call<Registration>(world_, server.process, kCallWait, std::move(enter));
    if (!done.ok()) {
        world_.note("agent %u: register: %s", host_, done.error().text().c_str());
        co_return is_transient(done.error()) ? Result<bool>(false) : Result<bool>(done.error());
    }
    channel.registered = done->first;
    channel.switch_number = offer.switch_number;
    channel.registered_as = done->second;
    // Otherwise it is tried again, in place of what the switch has; or the switch was restarted after the
    // task had been opened there, and the offer is out of date.
    co_return done->second == channel.data.incarnation() && done->first == offer.mark;
}

Job<Result<Done>> Agent::stream(Sending& sending) {
    Channel& channel = *channels_[sending.channel];
    Agent& peer = *parts_.agents[sending.to];
    Nanos last_answer = world_.clock.now();
    bool ended = false;
    for (;;) {
        if (channel.fin_reported && !ended) {
            channel.data.end();
            channel.tuples.reset();
            ended = true;
            sending.streaming = false;
        }
        std::function<Job<Result<Outcome>>()> renew = [&peer, instance = sending.offer.instance,
                                                       sender = sending.sender] {
            return peer.renew(instance, sender);
        };
        const Result<Outcome> outcome =
            co_await call<Outcome>(world_, peer.process, kRenewWait, std::move(renew));
        if (outcome.ok()) {
            last_answer = world_.clock.now();
            switch (*outcome) {
                case Outcome::kCommitted:
                    if (channel.fin_reported && !ended) {
                        channel.data.end();
                        channel.tuples.reset();
                        sending.streaming = false;
                    }
                    co_return Done{};
                case Outcome::kFailed:
                    sending.joined = false;
                    co_return Error(Errc::kAborted, "the receiver's task failed");
                case Outcome::kUnknown:
                    co_return Error(Errc::kAborted, "the receiver no longer knows the task");
                case Outcome::kRunning:
                    break;
            }
        }
        if (world_.clock.now() - last_answer > deadline()) {
            co_return Error(Errc::kDeadline, "the receiver has not answered");
        }
        if (!ended && world_.clock.now() - channel.data.last_progress() > deadline()) {
            co_return Error(Errc::kDeadline, "no packet has been acknowledged");
        }
        const Nanos until = world_.clock.now() + kSessionTick;
        if (channel.fin_reported == ended) {
            co_await sessions.wait_until(world_.clock, until);
        }
    }
}

Job<> Agent::unregister(std::size_t i) {
    Channel& channel = *channels_[i];
    SwitchDaemon& server = switchd(channel.switch_number);
    const std::uint32_t as = channel.registered_as != 0 ? channel.registered_as : channel.data.incarnation();
    std::function<Job<Result<Done>>()> leave = [&server, id = channel.data.id(), as] {
        return server.unregister_channel(id, as);
    };
    const Result<Done> gone = co_await call<Done>(world_, server.process, kGoodbyeWait, std::move(leave));
    if (gone.ok()) {
        channel.registered = {};
        channel.registered_as = 0;
    }
    co_return Done{};
}

// Packets of a task that was given up may still be under way: the channel goes on under a new incarnation.
Job<> Agent::put_channel_back(Sending& sending, bool clean) {
    if (!sending.has_channel) {
        co_return Done{};
    }
    Channel& channel = *channels_[sending.channel];
    if (clean && channel.fin_reported && channel.tuples) {
        channel.data.end();
    }
    channel.tuples.reset();
    if (!clean) {
        channel.data.abandon(world_.draw_u32());
        if (channel.registered != Mark{}) {
            co_await unregister(sending.channel);
        }
    }
    channel.leased = false;
    channel_free_.notify(world_.clock);
    co_return Done{};
}

}  // namespace ask::sim
