// SPDX-License-Identifier: Apache-2.0
//
// A send whose receiver's agent is not what it should be.
#include "lib/control/send/sending.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "agent/memfd_table.h"
#include "agent/switch_client.h"
#include "lib/control/member/convert.h"
#include "lib/control/member/session_io.h"
#include "lib/control/send/following.h"
#include "tests/unit/agent/local_agent.h"

using namespace ask;
using namespace ask::test;

namespace {

constexpr std::uint32_t kReceiver = 0xc6120202;   // 198.18.2.2
constexpr std::uint32_t kBystander = 0xc6120302;  // 198.18.3.2

// The answer is that the task has failed.
class LastRenewal final : public Renewal {
 public:
    LastRenewal(std::shared_ptr<Mailbox> mailbox, std::vector<v1::RenewRequest>& renewed)
        : mailbox_(std::move(mailbox)), renewed_(renewed) {}
    [[nodiscard]] bool running() const override { return running_; }
    void start(const v1::RenewRequest& request, milliseconds /*wait*/) override {
        renewed_.push_back(request);
        running_ = true;
        mailbox_->post(SessionEvent::Kind::kRenewed);
    }
    void cancel() override {}
    std::optional<Result<v1::Outcome>> take() override {
        v1::Outcome outcome;
        outcome.set_state(v1::Outcome::STATE_FAILED);
        outcome.set_error("over");
        return outcome;
    }

 private:
    const std::shared_ptr<Mailbox> mailbox_;
    std::vector<v1::RenewRequest>& renewed_;
    bool running_ = false;
};

// What a receiver has heard.
struct Told {
    bool own = false;  // each sender's own switch is to aggregate
    std::vector<v1::LookupRequest> lookups;
    std::vector<v1::JoinRequest> joins;
    std::vector<v1::LeaveRequest> leaves;
    bool refuses = false;  // whoever wants to join
    // What a member of a stream is answered, by how often it has asked.
    std::function<Result<v1::FollowStreamReply>(unsigned)> follow;
    unsigned follows = 0;
    v1::FollowStreamRequest followed;  // its last call
    milliseconds follow_wait{0};       // of that
};

// Has every task, and sends its packets to `address`.
class FakePeer final : public PeerPort {
 public:
    FakePeer(std::uint32_t address, std::vector<v1::RenewRequest>& renewed, Told& told)
        : address_(address), renewed_(renewed), told_(told) {}
    Result<v1::TaskOffer> look_up(const v1::LookupRequest& request, milliseconds /*wait*/,
                                  CallCancel* /*cancel*/) override {
        v1::TaskOffer offer;
        offer.set_instance(11);
        offer.set_op(v1::OPERATOR_SUM);
        *offer.mutable_geometry() = geometry_to_proto(kGeometry);
        told_.lookups.push_back(request);
        if (told_.own) {
            offer.set_own_switch(true);
            *offer.mutable_mark() = mark_to_proto({.switch_id = 1, .incarnation = 5});
            offer.set_switch_address(request.switch_address());
        }
        return offer;
    }
    Result<v1::JoinReply> join(const v1::JoinRequest& request, milliseconds /*wait*/,
                               CallCancel* /*cancel*/) override {
        CHECK(request.channel().host() == kHost);
        told_.joins.push_back(request);
        if (told_.refuses) {
            return Error(Errc::kDenied, "not you");
        }
        v1::JoinReply reply;
        reply.set_secret(std::string(16, 's'));
        reply.set_op(v1::OPERATOR_SUM);
        *reply.mutable_geometry() = geometry_to_proto(kGeometry);
        reply.set_receiver_address(address_);
        reply.set_lease_seconds(30);
        return reply;
    }
    Result<> leave(const v1::LeaveRequest& request, milliseconds /*wait*/) override {
        told_.leaves.push_back(request);
        return {};
    }
    Result<v1::FollowStreamReply> follow_stream(const v1::FollowStreamRequest& request, milliseconds wait,
                                                CallCancel* /*cancel*/) override {
        told_.followed = request;
        told_.follow_wait = wait;
        return told_.follow ? told_.follow(told_.follows++) : Error(Errc::kUnknown, "no stream here");
    }
    std::unique_ptr<Renewal> renewal(std::shared_ptr<Mailbox> mailbox) override {
        return std::make_unique<LastRenewal>(std::move(mailbox), renewed_);
    }

 private:
    static constexpr Geometry kGeometry{.short_slots = 4, .groups = 0, .m = 0, .rows = 1};
    const std::uint32_t address_;
    std::vector<v1::RenewRequest>& renewed_;
    Told& told_;
};

struct FakeNetwork final : public NetworkPort {
    std::uint32_t named = kReceiver;      // as its own address, by the receiver
    std::optional<std::uint32_t> way_to;  // that was asked for
    std::string dialled;
    bool own = false;  // every address is the sender's own
    std::vector<v1::RenewRequest> renewed;
    Told told;
    RpcChannels channels{plain_text()};

    [[nodiscard]] Result<HostAddress> resolve(const std::string& /*name*/, std::uint32_t /*user*/) override {
        return HostAddress{.address = kReceiver};
    }
    [[nodiscard]] bool is_own(std::uint32_t /*address*/) override { return own; }
    Result<Path> find_path(std::uint32_t dest, Clock::time_point /*deadline*/) override {
        way_to = dest;
        if (own) {
            return Path{.local = true, .addresses = {}};
        }
        return Error(Errc::kUnknown, "no way there");
    }
    // Refuses whatever it is asked.
    [[nodiscard]] std::unique_ptr<SwitchPort> switch_at(const std::string& address) override {
        return std::make_unique<SwitchClient>(channels, address, Error(Errc::kLimit, "no channel is left"));
    }
    Result<v1::OpenRelayReply> open_relay(const std::string& /*address*/, const std::string& /*name*/,
                                          const v1::OpenRelayRequest& /*request*/, milliseconds /*wait*/,
                                          CallCancel* /*cancel*/) override {
        return Error(Errc::kUnavailable, "no relay there");
    }
    [[nodiscard]] std::unique_ptr<PeerPort> peer_at(const std::string& address,
                                                    const std::string& /*name*/) override {
        dialled = address;
        return std::make_unique<FakePeer>(named, renewed, told);
    }
};

// Once its send is ready it has read more than it can read again. It goes when its stream has ended.
class FakeApplication final : public ApplicationPort {
 public:
    [[nodiscard]] std::uint32_t user() const override { return 1000; }
    [[nodiscard]] std::shared_ptr<Mailbox> mailbox() const override { return mailbox_; }
    Ready wait(Clock::time_point until, bool /*for_room*/) override {
        if (to_say_ || is_gone_) {
            return {.application = true, .mailbox = false};
        }
        mailbox_->wait(until);
        return {.application = false, .mailbox = true};
    }
    Result<AppIo> try_receive(v1::LocalRequest& request) override {
        if (is_gone_) {
            return AppIo::kClosed;
        }
        if (!to_say_) {
            return AppIo::kWouldBlock;
        }
        request = *std::exchange(to_say_, std::nullopt);
        return AppIo::kDone;
    }
    Result<AppIo> try_send(const v1::LocalReply& reply, const Attachment* /*attachment*/) override {
        if (reply.has_failed()) {
            failed = reply.failed();
        }
        if (reply.has_send_ready()) {
            to_say_.emplace().mutable_cannot_repeat();
        }
        if (reply.has_stream_state()) {
            states.push_back(reply.stream_state());
        }
        is_gone_ = is_gone_ || (reply.has_stream_state() && reply.stream_state().ended());
        return AppIo::kDone;
    }
    Result<> send(const v1::LocalReply& reply, const Attachment* attachment, milliseconds /*wait*/) override {
        ASK_PASS(try_send(reply, attachment));
        return {};
    }
    std::optional<v1::Failed> failed;
    std::vector<v1::StreamState> states;

 private:
    const std::shared_ptr<Mailbox> mailbox_ = std::make_shared<Mailbox>();
    std::optional<v1::LocalRequest> to_say_;
    bool is_gone_ = false;
};

struct Host {
    explicit Host(FakeNetwork& network)
        : tables(std::uint64_t{1} << 26U, std::uint64_t{1} << 26U, &counters),
          member({.name = "h1",
                  .address = kHost,
                  .control_address = "198.18.1.2:4791",
                  .interface = "eth0",
                  .mtu = 1500,
                  .payload_limit = 1472},
                 {.workers = agent.workers,
                  .network = network,
                  .tables = tables,
                  .counters = counters,
                  .own_switch = network.switch_at("198.18.1.1:4792")}) {}
    LocalAgent agent{1};
    AgentCounters counters;
    MemfdTables tables;
    Member member;
};

// How a send to a receiver that names this address ends.
v1::Failed send_to(FakeNetwork& network) {
    Host host(network);
    FakeApplication application;
    SessionIo io(application, &host.counters);
    v1::OpenSend open;
    open.set_task_id("wc");
    open.set_to("h2");
    open.set_deadline_ms(10000);
    open.set_can_repeat(true);
    Sending(host.member, io, open).run();
    REQUIRE(application.failed);
    return *application.failed;
}

// A member with that deadline, which knows these windows, follows a stream to its end.
void follow(FakeNetwork& network, FakeApplication& application, milliseconds deadline,
            std::uint64_t knows = 0) {
    Host host(network);
    SessionIo io(application, &host.counters);
    v1::FollowStream follow;
    follow.set_name("web");
    follow.set_to("h2");
    follow.set_member(7);
    follow.set_deadline_ms(static_cast<std::uint32_t>(deadline.count()));
    for (std::uint64_t window = 1; window <= knows; ++window) {
        follow.add_knows(window);
    }
    Following(host.member, io, follow).run();
}

// Why it ends, if it does so in trouble.
std::optional<v1::Failed> follow(FakeNetwork& network, milliseconds deadline) {
    FakeApplication application;
    follow(network, application, deadline);
    return application.failed;
}

// What a receiver says of a stream with windows through `last`, of which one is committed.
v1::FollowStreamReply windows_through(std::uint64_t last, std::uint64_t committed) {
    v1::FollowStreamReply reply;
    reply.set_nonce(5);
    reply.set_every_ms(1000);
    reply.set_first(1);
    reply.set_committed(committed);
    for (std::uint64_t number = committed + 1; number <= last; ++number) {
        reply.add_windows()->set_number(number);
    }
    return reply;
}

}  // namespace

TEST_CASE("a receiver cannot have a sender's packets sent to another host") {
    FakeNetwork network;
    network.named = kBystander;
    const v1::Failed refused = send_to(network);
    CHECK(refused.code() == static_cast<int>(Errc::kDenied));
    CHECK(refused.error().find("names 198.18.3.2 as its address, which is not where it answers") !=
          std::string::npos);
    CHECK_FALSE(network.way_to);
    // Its own is fine, but that this test's network leads nowhere.
    network.named = kReceiver;
    CHECK(send_to(network).error().find("no way there") != std::string::npos);
    CHECK(network.way_to == kReceiver);
    CHECK(network.dialled == "198.18.2.2:4791");
}

TEST_CASE("a sender whose own switch refuses it goes without, and says why") {
    FakeNetwork network;
    network.told.own = true;
    CHECK(send_to(network).error().find("no way there") != std::string::npos);
    REQUIRE(network.told.joins.size() == 1);
    const v1::JoinRequest& join = network.told.joins.front();
    CHECK(join.registered().switch_id() == 0);
    CHECK(join.switch_address() == "198.18.1.1:4792");
    CHECK(join.switch_trouble().find("no channel is left") != std::string::npos);
    // On this host there is no switch on the way.
    FakeNetwork local;
    local.own = true;
    local.named = kHost;
    CHECK(send_to(local).error().find("over") != std::string::npos);
    REQUIRE_FALSE(local.told.lookups.empty());
    CHECK(local.told.lookups.front().switch_address().empty());
    CHECK(local.told.joins.front().switch_address().empty());
}

TEST_CASE("a sender that has joined has nothing to tell until something has changed") {
    FakeNetwork network;
    network.own = true;
    network.named = kHost;
    CHECK(send_to(network).error().find("over") != std::string::npos);
    REQUIRE(network.renewed.size() == 1);
    CHECK_FALSE(network.renewed.front().can_repeat());
}

TEST_CASE("a sender that gives up before it has joined tells its receiver, which may have counted it") {
    FakeNetwork network;
    network.told.refuses = true;
    CHECK(send_to(network).error().find("not you") != std::string::npos);
    REQUIRE(network.told.leaves.size() == 1);
    CHECK(network.told.leaves.front().instance() == 11);
    CHECK(network.told.leaves.front().sender() == network.told.lookups.front().sender());
    // One whose stream has begun leaves as ever, once.
    FakeNetwork joined;
    CHECK(send_to(joined).error().find("no way there") != std::string::npos);
    CHECK(joined.told.leaves.size() == 1);
}

TEST_CASE(
    "a member is refused for its deadline from the first refusal on, however long the answer before was "
    "held") {
    FakeNetwork network;
    const auto answer = [](bool ended) {
        v1::FollowStreamReply reply;
        reply.set_nonce(5);
        reply.set_every_ms(1000);
        reply.set_first(1);
        reply.set_ended(ended);
        return reply;
    };
    constexpr milliseconds kDeadline{1000};
    network.told.follow = [&](unsigned call) -> Result<v1::FollowStreamReply> {
        if (call == 1) {
            std::this_thread::sleep_for(kDeadline + milliseconds(100));
        }
        return call == 1 ? Result<v1::FollowStreamReply>(Error(Errc::kUnsupported, "another directory"))
                         : answer(call > 1);
    };
    CHECK_FALSE(follow(network, kDeadline));
    CHECK(network.told.follows > 2);
    // By one that does so for good.
    FakeNetwork refuses;
    refuses.told.follow = [&](unsigned call) -> Result<v1::FollowStreamReply> {
        return call == 0 ? answer(false)
                         : Result<v1::FollowStreamReply>(Error(Errc::kUnsupported, "another directory"));
    };
    const auto refused = follow(refuses, kDeadline);
    REQUIRE(refused);
    CHECK(refused->error().find("another directory") != std::string::npos);
}

TEST_CASE("a member whose first answer is lost asks again within its deadline") {
    constexpr milliseconds kDeadline{4000};  // of which one lost answer takes a second
    FakeNetwork network;
    network.told.follow = [&](unsigned call) -> Result<v1::FollowStreamReply> {
        auto reply = windows_through(1, 0);
        reply.set_ended(true);
        if (call > 0) {
            return reply;
        }
        // As a call waits for an answer that does not come.
        std::this_thread::sleep_for(std::min(network.told.follow_wait, 2 * kDeadline));  // the lost answer
        return Error(Errc::kUnavailable, "no answer");
    };
    CHECK_FALSE(follow(network, kDeadline));
    CHECK(network.told.follows > 1);
    // And is told of nothing for no longer than it waits.
    CHECK(network.told.followed.wait_ms() < kDeadline.count());
}

TEST_CASE("a member hears of no more windows than its receiver can be told that it knows") {
    FakeNetwork network;
    network.told.follow = [&](unsigned call) -> Result<v1::FollowStreamReply> {
        auto reply = windows_through(18, call == 0 ? 0 : 1);
        if (call == 1) {
            CHECK(network.told.followed.knows_size() == 16);
            CHECK(network.told.followed.knows(15) == 16);
        }
        reply.set_ended(call > 1);
        return reply;
    };
    FakeApplication application;
    follow(network, application, milliseconds(1000));
    CHECK_FALSE(application.failed);
    REQUIRE(application.states.size() > 1);
    const auto& first = application.states.front().windows();
    REQUIRE(first.size() == 16);
    CHECK(first.rbegin()->number() == 16);
    // One is committed, and one more has room.
    const auto& next = application.states[1].windows();
    REQUIRE(next.size() == 16);
    CHECK(next.begin()->number() == 2);
    CHECK(next.rbegin()->number() == 17);
    // An application that knows more is no member.
    FakeApplication odd;
    follow(network, odd, milliseconds(1000), 17);
    REQUIRE(odd.failed);
    CHECK(odd.failed->error().find("knows of 17 windows that are not committed") != std::string::npos);
}
