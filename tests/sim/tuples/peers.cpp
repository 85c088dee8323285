// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/tuples/peers.h"

#include <algorithm>
#include <utility>

#include "lib/control/member/copy_reader.h"
#include "lib/net/address.h"
#include "lib/rpc/types.h"
#include "tests/sim/tuples/host.h"
#include "tests/sim/tuples/relayd.h"

namespace ask::sim {

namespace {

constexpr std::string_view kSwitchPrefix = "sw";

// What the switch had of a task that it does not know any more went with it.
Error as_loss(Error error) {
    return error.code() == Errc::kUnknown ? Error(Errc::kSwitchLost, error.text()) : error;
}

class SimRenewal final : public Renewal {
 public:
    SimRenewal(World& world, Host& host, Caller caller, std::shared_ptr<Mailbox> mailbox)
        : world_(world), host_(host), caller_(std::move(caller)), mailbox_(std::move(mailbox)) {}
    ~SimRenewal() override { cancel(); }
    SimRenewal(const SimRenewal&) = delete;
    SimRenewal& operator=(const SimRenewal&) = delete;

    [[nodiscard]] bool running() const override { return call_ != nullptr; }
    void start(const v1::RenewRequest& request, milliseconds wait) override {
        call_ = std::make_shared<Call<v1::Outcome>>();
        call_->on_reply = [mailbox = mailbox_] { mailbox->post(SessionEvent::Kind::kRenewed); };
        world_.later(wait.count() * kMillisecond,
                     [call = call_] { call->end(Error(Errc::kDeadline, "no answer in time")); });
        send_call<v1::Outcome>(
            world_, host_, call_,
            [&host = host_, caller = caller_, request, call = call_](const CallerGone& /*gone*/) {
                // A time that is over is known there, and a call that was cancelled may not be.
                const auto listens = [&call] { return call->gone || !call->reply; };
                return host.member().registry.renew(caller, request, listens);
            });
    }
    void cancel() override {
        if (call_) {
            call_->gone = true;
            call_->end(Error(Errc::kAborted, "cancelled"));
        }
    }
    std::optional<Result<v1::Outcome>> take() override {
        if (!call_ || !call_->reply) {
            return std::nullopt;
        }
        return std::move(std::exchange(call_, nullptr)->reply);
    }

 private:
    World& world_;
    Host& host_;
    const Caller caller_;
    std::shared_ptr<Mailbox> mailbox_;
    std::shared_ptr<Call<v1::Outcome>> call_;
};

class SimPeer final : public PeerPort {
 public:
    SimPeer(World& world, Host& host, Caller caller)
        : world_(world), host_(host), caller_(std::move(caller)) {}

    Result<v1::TaskOffer> look_up(const v1::LookupRequest& request, milliseconds wait,
                                  CallCancel* cancel) override {
        return call<v1::TaskOffer>(world_, host_, wait, cancel,
                                   [&host = host_, caller = caller_, request](const CallerGone& /*gone*/) {
                                       return host.member().registry.look_up(caller, request);
                                   });
    }
    Result<v1::JoinReply> join(const v1::JoinRequest& request, milliseconds wait,
                               CallCancel* cancel) override {
        return call<v1::JoinReply>(world_, host_, wait, cancel,
                                   [&host = host_, caller = caller_, request](const CallerGone& /*gone*/) {
                                       return host.member().registry.join(caller, request);
                                   });
    }
    Result<v1::FollowStreamReply> follow_stream(const v1::FollowStreamRequest& request, milliseconds wait,
                                                CallCancel* cancel) override {
        check_keeps(request);
        return call<v1::FollowStreamReply>(
            world_, host_, wait, cancel,
            [&host = host_, caller = caller_, request](const CallerGone& /*gone*/) {
                return host.member().registry.follow_stream(caller, request);
            });
    }
    Result<> leave(const v1::LeaveRequest& request, milliseconds wait) override {
        const auto left = call<Done>(
            world_, host_, wait, nullptr,
            [&host = host_, caller = caller_, request](const CallerGone& /*gone*/) -> Result<Done> {
                ASK_PASS(host.member().registry.leave(caller, request));
                return Done{};
            });
        return left.ok() ? Result<>() : left.error();
    }
    std::unique_ptr<Renewal> renewal(std::shared_ptr<Mailbox> mailbox) override {
        return std::make_unique<SimRenewal>(world_, host_, caller_, std::move(mailbox));
    }

 private:
    // W4 of docs/design/windows.md.
    void check_keeps(const v1::FollowStreamRequest& request) {
        if (std::cmp_greater(request.keeps_size(), Stream::kOpen)) {
            world_.fail(Promise::kKept, request.member_name() + ": a member keeps " +
                                            std::to_string(request.keeps_size()) + " windows");
        }
    }

    World& world_;
    Host& host_;
    const Caller caller_;
};

}  // namespace

std::string switch_address(std::uint32_t number) {
    return std::string(kSwitchPrefix) + std::to_string(number) + ":4792";
}

Caller caller_at(std::uint32_t host) {
    Caller caller;
    caller.address = format_host(address_of(host));
    if (is_six()) {
        caller.ipv6 = six_address(host);
    } else {
        caller.ipv4 = address_of(host);
    }
    caller.plain_text = true;
    return caller;
}

SimSwitch::SimSwitch(const Cast& cast, std::uint32_t number, std::uint32_t host)
    : cast_(cast),
      daemon_(*cast.switchds[number]),
      caller_(caller_at(host)),
      address_(switch_address(number)) {}

template <typename T>
Result<T> SimSwitch::ask(milliseconds wait, CallCancel* cancel, CallBody<T> body) {
    auto reply = call<T>(cast_.world, daemon_, wait, cancel,
                         [this_daemon = &daemon_, body = std::move(body)](const CallerGone& gone) {
                             this_daemon->await_serving();
                             return body(gone);
                         });
    if (!reply) {
        return std::move(reply).error().with_context(name());
    }
    return reply;
}

Result<v1::SwitchInfo> SimSwitch::info(milliseconds wait, CallCancel* cancel) {
    return ask<v1::SwitchInfo>(wait, cancel,
                               [daemon = &daemon_](const CallerGone& /*gone*/) { return daemon->info(); });
}

Result<v1::SwitchStatus> SimSwitch::status(milliseconds wait) {
    return ask<v1::SwitchStatus>(
        wait, nullptr,
        [daemon = &daemon_, caller = caller_](const CallerGone& /*gone*/) { return daemon->status(caller); });
}

Result<v1::OpenTaskReply> SimSwitch::open_task(const v1::OpenTaskRequest& request, milliseconds wait,
                                               CallCancel* cancel) {
    return ask<v1::OpenTaskReply>(wait, cancel,
                                  [daemon = &daemon_, caller = caller_, request](const CallerGone& gone) {
                                      return daemon->open_task(caller, request, gone);
                                  });
}

Result<> SimSwitch::close_task(std::uint64_t instance, milliseconds wait, CallCancel* cancel) {
    const auto closed =
        ask<Done>(wait, cancel, [daemon = &daemon_, caller = caller_, instance](const CallerGone& /*gone*/) {
            return daemon->close_task(caller, instance);
        });
    return closed.ok() ? Result<>() : closed.error();
}

Result<SwitchPort::Joined> SimSwitch::join_flow(const v1::JoinFlowRequest& request, milliseconds wait) {
    return ask<Joined>(wait, nullptr, [daemon = &daemon_, caller = caller_, request](const CallerGone& gone) {
        return daemon->join_flow(caller, request, gone);
    });
}

SwitchPort::Registered SimSwitch::try_register(const v1::RegisterChannelRequest& request, milliseconds wait,
                                               CallCancel* cancel) {
    const auto done = ask<std::pair<Mark, std::uint32_t>>(
        wait, cancel, [daemon = &daemon_, caller = caller_, request](const CallerGone& /*gone*/) {
            return daemon->register_channel(caller, request);
        });
    if (!done.ok()) {
        return {{}, done.error(), {}};
    }
    if (done->second != request.incarnation()) {
        return {
            {}, Error(Errc::kUnsupported, "the channel is registered as another incarnation"), done->second};
    }
    return {done->first, {}, {}};
}

Result<> SimSwitch::unregister_channel(ChannelId channel, std::uint32_t incarnation, milliseconds wait,
                                       CallCancel* cancel) {
    const auto gone =
        ask<Done>(wait, cancel,
                  [daemon = &daemon_, caller = caller_, channel, incarnation](const CallerGone& /*gone*/) {
                      return daemon->unregister_channel(caller, channel, incarnation);
                  });
    return gone.ok() ? Result<>() : gone.error();
}

Result<v1::RenewTasksReply> SimSwitch::renew_tasks(const std::vector<std::uint64_t>& instances,
                                                   milliseconds wait) {
    return ask<v1::RenewTasksReply>(
        wait, nullptr, [daemon = &daemon_, caller = caller_, instances](const CallerGone& /*gone*/) {
            return daemon->renew(caller, instances);
        });
}

// A stream has no time but for each of its parts; here it has one for all of them.
Result<CopyEnd> SimSwitch::stream_copy(const FetchOrder& order, const TakeEntries& take, CallCancel* cancel) {
    const auto chunks = std::make_shared<std::vector<v1::FetchChunk>>();
    const auto fetched = ask<Done>(
        order.wait, cancel, [daemon = &daemon_, caller = caller_, order, chunks](const CallerGone& gone) {
            return daemon->fetch(caller, order, gone, *chunks);
        });
    const TakeEntries take_twice = [&](std::string entries) {
        static_cast<void>(take(entries));
        return take(std::move(entries));
    };
    CopyReader copy(name(), order, cast_.world.plan.merges_twice() ? take_twice : take);
    // Of a stream that broke what came before: the daemon may still be at it, for nobody.
    for (v1::FetchChunk& chunk : std::exchange(*chunks, {})) {
        ASK_PASS(copy.add(std::move(chunk)));
    }
    return fetched.ok() ? copy.finish() : Result<CopyEnd>(as_loss(fetched.error()));
}

Result<> SimSwitch::confirm_copy(const RegionId& region, std::uint64_t epoch, milliseconds wait,
                                 CallCancel* cancel) {
    const auto done = ask<Done>(
        wait, cancel, [daemon = &daemon_, caller = caller_, region, epoch](const CallerGone& /*gone*/) {
            return daemon->confirm(caller, region, epoch);
        });
    return done.ok() ? Result<>() : as_loss(done.error());
}

Result<HostAddress> SimNetwork::resolve(const std::string& name, std::uint32_t /*user*/) {
    for (const auto& address : {parse_host(name), host_of_control(name)}) {
        if (address.ok()) {
            return HostAddress{.address = *address};
        }
    }
    return HostAddress{.address = address_of(static_cast<std::uint32_t>(std::stoul(name.substr(1))))};
}

Result<v1::OpenRelayReply> SimNetwork::open_relay(const std::string& address, const std::string& name,
                                                  const v1::OpenRelayRequest& request, milliseconds wait,
                                                  CallCancel* cancel) {
    const auto at = host_of_control(address);
    RelayDaemon& relayd = *cast_.relayds[host_of(*at) - cast_.world.plan.hosts];
    auto reply =
        call<v1::OpenRelayReply>(cast_.world, relayd, wait, cancel,
                                 [&relayd, caller = caller_at(host_), request](const CallerGone& /*gone*/) {
                                     return relayd.relays().open(caller, request);
                                 });
    if (!reply) {
        return std::move(reply).error().with_context(name);
    }
    return reply;
}

Result<Path> SimNetwork::find_path(std::uint32_t dest, ask::Clock::time_point /*deadline*/) {
    Path path;
    path.local = dest == address_of(host_);
    ASK_PASS(set_hosts(path.addresses, address_of(host_), dest));
    return path;
}

std::unique_ptr<SwitchPort> SimNetwork::switch_at(const std::string& address) {
    return std::make_unique<SimSwitch>(
        cast_, static_cast<std::uint32_t>(std::stoul(address.substr(kSwitchPrefix.size()))), host_);
}

std::unique_ptr<PeerPort> SimNetwork::peer_at(const std::string& address, const std::string& /*name*/) {
    const auto at = host_of_control(address);
    return std::make_unique<SimPeer>(cast_.world, *cast_.hosts[host_of(*at)], caller_at(host_));
}

}  // namespace ask::sim
