// SPDX-License-Identifier: Apache-2.0
#include "lib/control/receive/registry.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <grpcpp/grpcpp.h>

#include "agent/status.h"
#include "agent/switch_client.h"
#include "lib/client/convert.h"
#include "lib/control/member/convert.h"
#include "lib/net/address.h"
#include "lib/rpc/call_origin.h"
#include "lib/rpc/types.h"
#include "proto/switch.grpc.pb.h"
#include "tests/unit/agent/local_agent.h"

using namespace ask;
using namespace ask::test;

namespace {

Caller caller_at(std::uint32_t host) {
    return caller_from_peer("ipv4:" + format_ipv4(host) + ":40000");
}

struct Fixture {
    LocalAgent agent{1};
    AgentCounters counters;
    TaskRegistry registry{
        {.host_name = "h4", .own_address = kHost, .lease = milliseconds(60000), .max_waits = 2},
        &agent.workers,
        &counters};

    // A task whose geometry is still to be chosen.
    std::shared_ptr<ReceiveTask> plan(const std::string& id, std::uint64_t instance, unsigned senders) {
        auto task = std::make_shared<ReceiveTask>();
        task->id = id;
        task->instance = instance;
        task->senders_expected = senders;
        task->mailbox = std::make_shared<Mailbox>();
        task->phase = TaskPhase::kPlanning;
        REQUIRE(registry.add(task).ok());
        return task;
    }
    std::shared_ptr<ReceiveTask> open(const std::string& id, std::uint64_t instance, unsigned senders = 2) {
        auto task = std::make_shared<ReceiveTask>();
        task->id = id;
        task->instance = instance;
        task->senders_expected = senders;
        task->mailbox = std::make_shared<Mailbox>();
        REQUIRE(registry.add(task).ok());
        auto table = ResultTable::create(make_heap_memory(), Op::kSum);
        REQUIRE(table.ok());
        auto shared = std::make_shared<ResultTable>(std::move(*table));
        const auto opened = agent.workers.at(0).call(
            [&](WorkerCore& core) { return core.open_task(instance, std::move(*shared), task->mailbox); });
        REQUIRE(opened->ok());
        registry.with(*task, [](ReceiveTask& changed) { changed.phase = TaskPhase::kWaiting; });
        return task;
    }
    static v1::JoinRequest request(std::uint64_t instance, std::uint64_t sender, std::uint32_t host = 7) {
        v1::JoinRequest join;
        join.set_instance(instance);
        join.set_sender(sender);
        join.set_sender_name("h" + std::to_string(sender));
        *join.mutable_channel() =
            channel_to_proto({host, static_cast<std::uint16_t>(ASK_CHANNEL_PORT_BASE + sender)});
        join.set_incarnation(3);
        join.set_first_seq(1);
        return join;
    }
    // A switch that nobody answers at.
    RpcChannels channels{plain_text()};
    std::shared_ptr<SwitchPort> away() { return std::make_shared<SwitchClient>(channels, "127.0.0.1:1"); }
    // Calls as they come, from the host that they are about.
    Result<v1::JoinReply> join(const v1::JoinRequest& request) {
        return registry.join(caller_at(request.channel().host()), request);
    }
    Result<v1::TaskOffer> look_up(const v1::LookupRequest& request) {
        return registry.look_up(caller_at(7), request);
    }
    Errc refused(const v1::JoinRequest& request) {
        const auto reply = join(request);
        REQUIRE_FALSE(reply.ok());
        return reply.error().code();
    }
    v1::Outcome renew(std::uint64_t instance, std::uint64_t sender, std::uint32_t wait_ms = 0) {
        v1::RenewRequest request;
        request.set_instance(instance);
        request.set_sender(sender);
        request.set_wait_ms(wait_ms);
        auto outcome = registry.renew(caller_at(7), request);
        REQUIRE(outcome.ok());
        return *outcome;
    }
};

// What the kernel says of a thread.
std::string line_of(pid_t thread, const std::string& name) {
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/status");
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with(name)) {
            return line.substr(name.size());
        }
    }
    return "0";
}

bool comes_true(const std::function<bool()>& condition) {
    const auto deadline = Clock::now() + kPatience;
    while (!condition() && Clock::now() < deadline) {
        std::this_thread::yield();
    }
    return condition();
}

void put_on(ReceiveTask& task, std::shared_ptr<SwitchPort> client, Mark mark) {
    TaskSwitch at;
    at.client = std::move(client);
    at.mark = mark;
    task.switches.push_back(std::move(at));
}

// A switch that dies after it has taken the first flow in: nobody hears of it.
class DyingSwitch final : public v1::Switch::Service {
 public:
    DyingSwitch() {
        grpc::ServerBuilder builder;
        builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
        builder.RegisterService(this);
        server_ = builder.BuildAndStart();
        REQUIRE(server_ != nullptr);
    }
    grpc::Status JoinFlow(grpc::ServerContext* /*context*/, const v1::JoinFlowRequest* request,
                          v1::JoinFlowReply* reply) override {
        const std::lock_guard lock(mutex_);
        secrets_.push_back(request->secret());
        if (secrets_.size() == 1) {
            return {grpc::StatusCode::UNAVAILABLE, "died"};
        }
        *reply->mutable_mark() = mark_to_proto(kMark);
        return grpc::Status::OK;
    }
    static constexpr Mark kMark{.switch_id = 9, .incarnation = 5};
    [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
    [[nodiscard]] std::vector<std::string> secrets() const {
        const std::lock_guard lock(mutex_);
        return secrets_;
    }

 private:
    int port_ = 0;
    mutable std::mutex mutex_;
    std::vector<std::string> secrets_;
    std::unique_ptr<grpc::Server> server_;
};

// A switch that answers nobody.
class HungSwitch final : public v1::Switch::Service {
 public:
    HungSwitch() {
        grpc::ServerBuilder builder;
        builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
        builder.RegisterService(this);
        server_ = builder.BuildAndStart();
        REQUIRE(server_ != nullptr);
    }
    grpc::Status JoinFlow(grpc::ServerContext* context, const v1::JoinFlowRequest* /*request*/,
                          v1::JoinFlowReply* /*reply*/) override {
        const auto left = context->deadline() - std::chrono::system_clock::now();
        asked_wait_ = std::chrono::duration_cast<milliseconds>(left);
        while (!context->IsCancelled()) {
            std::this_thread::sleep_for(milliseconds(1));
        }
        return grpc::Status::CANCELLED;
    }
    [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
    // How long its caller was going to wait.
    [[nodiscard]] milliseconds asked_wait() const { return asked_wait_; }

 private:
    int port_ = 0;
    std::atomic<milliseconds> asked_wait_{milliseconds(-1)};
    std::unique_ptr<grpc::Server> server_;
};

v1::LookupRequest lookup(const std::string& id) {
    v1::LookupRequest request;
    request.set_task_id(id);
    request.set_wire_version(ASK_WIRE_VERSION);
    return request;
}

v1::Outcome failed(const std::string& why) {
    v1::Outcome outcome;
    outcome.set_state(v1::Outcome::STATE_FAILED);
    outcome.set_code(static_cast<int>(Errc::kAborted));
    outcome.set_error(why);
    return outcome;
}

}  // namespace

TEST_CASE("a sender of another wire version is refused by name; a receiver says its own") {
    Fixture fixture;
    fixture.open("wc", 11);
    v1::LookupRequest request = lookup("wc");
    const auto offer = fixture.look_up(request);
    REQUIRE(offer.ok());
    CHECK(offer->wire_version() == ASK_WIRE_VERSION);
    const auto refused_of = [&](std::uint32_t version, const std::string& says) {
        request.set_wire_version(version);
        const auto refused = fixture.look_up(request);
        REQUIRE_FALSE(refused.ok());
        CHECK(refused.error().code() == Errc::kUnsupported);
        CHECK_MESSAGE(
            refused.error().text().find("your agent speaks ASK packets of " + says) != std::string::npos,
            refused.error().text());
    };
    refused_of(0, "an older version, the other end of the call " + wire_version_name(ASK_WIRE_VERSION));
    refused_of(ASK_WIRE_VERSION + 1, wire_version_name(ASK_WIRE_VERSION + 1));
}

TEST_CASE("a task is found by its id while it lives") {
    Fixture fixture;
    CHECK(fixture.look_up(lookup("wc")).error().code() == Errc::kUnknown);
    CHECK(fixture.look_up(lookup("no/id")).error().code() == Errc::kUsage);
    const auto task = fixture.open("wc", 11);
    const auto offer = fixture.look_up(lookup("wc"));
    REQUIRE(offer.ok());
    CHECK(offer->instance() == 11);
    CHECK(offer->mark().switch_id() == 0);
    auto again = std::make_shared<ReceiveTask>();
    again->id = "wc";
    CHECK(fixture.registry.add(again).error().code() == Errc::kExists);
    fixture.registry.end(task, failed("over"));
    CHECK(fixture.look_up(lookup("wc")).error().code() == Errc::kUnknown);
    fixture.open("wc", 12);
    CHECK(fixture.look_up(lookup("wc"))->instance() == 12);
}

TEST_CASE("the runs of a task are told of the latest first, whatever their instances are") {
    Fixture fixture;
    const std::vector<std::uint64_t> instances = {40, 10, 30, 50, 20};
    for (const std::uint64_t instance : instances) {
        const auto task = fixture.open("wc", instance);
        REQUIRE(fixture.join(Fixture::request(instance, instance)).ok());
        fixture.registry.end(task, failed("over"));
    }
    std::vector<std::uint64_t> told;
    for (const v1::AgentTask& task : fixture.registry.describe()) {
        told.push_back(task.instance());
    }
    CHECK(std::ranges::equal(told, std::vector<std::uint64_t>{20, 50, 30, 10, 40}));
}

TEST_CASE("a Join that is tried again comes to the switch with the secret that it may have already") {
    Fixture fixture;
    RpcChannels channels(plain_text());
    DyingSwitch dying;
    const auto task = fixture.open("wc", 11);
    put_on(*task, std::make_shared<SwitchClient>(channels, dying.address()), DyingSwitch::kMark);
    v1::JoinRequest join = Fixture::request(11, 1);
    *join.mutable_registered() = mark_to_proto(DyingSwitch::kMark);
    CHECK(fixture.refused(join) == Errc::kUnavailable);
    REQUIRE(fixture.join(join).ok());
    REQUIRE(dying.secrets().size() == 2);
    CHECK(dying.secrets()[0] == dying.secrets()[1]);
    // Other channels and lives have others.
    v1::JoinRequest other = Fixture::request(11, 2);
    *other.mutable_registered() = mark_to_proto(DyingSwitch::kMark);
    REQUIRE(fixture.join(other).ok());
    CHECK(dying.secrets()[2] != dying.secrets()[1]);
}

TEST_CASE("a Join waits no longer for the switch than its sender does, and names it") {
    Fixture fixture;
    RpcChannels channels(plain_text());
    HungSwitch hung;
    const auto task = fixture.open("wc", 11);
    put_on(*task, std::make_shared<SwitchClient>(channels, hung.address()), DyingSwitch::kMark);
    v1::JoinRequest join = Fixture::request(11, 1);
    *join.mutable_registered() = mark_to_proto(DyingSwitch::kMark);
    join.set_wait_ms(1000);
    const auto reply = fixture.join(join);
    REQUIRE_FALSE(reply.ok());
    CHECK(reply.error().code() == Errc::kDeadline);
    CHECK(reply.error().text().find("switch " + hung.address()) == 0);
    // As it was asked to (gRPC rounds that up), not the 5 s that it would wait by itself.
    CHECK(hung.asked_wait() < milliseconds(2500));
    // Nobody is in the way of the next try.
    CHECK(fixture.registry.with(*task, [](const ReceiveTask& now) { return now.senders.empty(); }));
}

TEST_CASE("who looks for a task, or waits for it, hears what it waits for") {
    Fixture fixture;
    const auto opening = fixture.plan("early", 12, 1);
    CHECK(fixture.look_up(lookup("early")).error().code() == Errc::kUnknown);
    fixture.registry.set_trouble(*opening, "waiting for switch s");
    const auto refused = fixture.look_up(lookup("early"));
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code() == Errc::kAborted);
    CHECK(refused.error().text() == "task early is not open yet on h4: waiting for switch s");
    const auto task = fixture.open("wc", 11, 2);
    REQUIRE(fixture.join(Fixture::request(11, 1)).ok());
    REQUIRE(fixture.join(Fixture::request(11, 2)).ok());
    fixture.registry.set_trouble(*task, "waiting for switch s");
    fixture.registry.set_trouble(*task, 2, "its packets go round the switch");
    CHECK(fixture.renew(11, 1).trouble() == "waiting for switch s");
    CHECK(fixture.renew(11, 2).trouble() == "its packets go round the switch");
    fixture.registry.set_trouble(*task, "");
    CHECK(fixture.renew(11, 1).trouble().empty());
}

TEST_CASE("a Lookup brings its sample to a task without a geometry, and is answered once that is open") {
    Fixture fixture;
    const auto task = fixture.plan("wc", 11, 2);
    v1::LookupRequest request = lookup("wc");
    request.set_sender(5);
    request.set_payload_limit(1400);
    KeySampler sampler(public_seed(1));
    sampler.add("word", 1);
    *request.mutable_sample() = sample_to_proto(sampler.finish(9));
    // Not held back: nobody said for how long.
    CHECK(fixture.look_up(request).error().code() == Errc::kUnknown);
    await(*task->mailbox, SessionEvent::Kind::kChanged);
    CHECK(fixture.join(Fixture::request(11, 1)).error().code() == Errc::kUnknown);
    CHECK(fixture.registry.on_switch().empty());
    auto broken = request;
    broken.set_sender(6);
    broken.mutable_sample()->mutable_groups(0)->set_once(7);
    CHECK(fixture.look_up(broken).error().code() == Errc::kInput);
    CHECK(task->samples.sum(2)->expected == 18);
    CHECK(task->samples.payload_limit() == 1400);
    std::thread opener([&] {
        await(*task->mailbox, SessionEvent::Kind::kChanged);
        task->slot_map = std::make_shared<SlotMap>();
        fixture.registry.opened(*task);
    });
    request.set_sender(7);
    request.set_wait_ms(2000);
    auto offer = fixture.look_up(request);
    const auto deadline = Clock::now() + kPatience;
    while (!offer && Clock::now() < deadline) {
        offer = fixture.look_up(request);
    }
    opener.join();
    REQUIRE(offer.ok());
    CHECK(offer->instance() == 11);
    CHECK(task->samples.sum(2)->tuples() == 2);
}

TEST_CASE("a Lookup that is held back ends with its task, and says why") {
    Fixture fixture;
    const auto task = fixture.plan("wc", 11, 1);
    std::thread ender([&] {
        await(*task->mailbox, SessionEvent::Kind::kChanged);
        fixture.registry.end(task, failed("task wc was cancelled"));
    });
    v1::LookupRequest request = lookup("wc");
    request.set_wait_ms(2000);
    const auto refused = fixture.look_up(request);
    ender.join();
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code() == Errc::kAborted);
    CHECK(refused.error().text() == "task wc has ended: task wc was cancelled");
}

TEST_CASE("a Lookup that comes before its task is answered once that is open") {
    Fixture fixture;
    v1::LookupRequest request = lookup("wc");
    request.set_wait_ms(2000);
    // One more than may be held back: that it is refused shows that the others are.
    std::array<std::optional<Result<v1::TaskOffer>>, 3> offers;
    std::vector<std::thread> early;
    for (auto& offer : offers) {
        early.emplace_back([&] { offer = fixture.look_up(request); });
    }
    const auto deadline = Clock::now() + kPatience;
    while (fixture.counters.get(AgentCounter::k_refused_waits) == 0 && Clock::now() < deadline) {
        std::this_thread::yield();
    }
    fixture.registry.opened(*fixture.open("wc", 11));
    for (auto& thread : early) {
        thread.join();
    }
    CHECK(fixture.counters.get(AgentCounter::k_refused_waits) == 1);
    CHECK(std::ranges::count_if(offers, [](const auto& offer) { return offer->ok(); }) == 2);
}

TEST_CASE("a Join may be repeated, and says the same again") {
    Fixture fixture;
    const auto task = fixture.open("wc", 11);
    const auto first = fixture.join(Fixture::request(11, 1));
    REQUIRE_MESSAGE(first.ok(), first.error().text());
    const auto second = fixture.join(Fixture::request(11, 1));
    REQUIRE(second.ok());
    CHECK(first->secret() == second->secret());
    CHECK(first->secret().size() == 16);
    CHECK(first->receiver_address() == kHost);
    CHECK(task->senders.size() == 1);
}

TEST_CASE("a Join that makes no sense changes nothing") {
    Fixture fixture;
    const auto task = fixture.open("wc", 11, 2);
    CHECK(fixture.refused(Fixture::request(99, 1)) == Errc::kUnknown);
    for (int broken = 0; broken < 5; ++broken) {
        CAPTURE(broken);
        auto join = Fixture::request(11, 1);
        switch (broken) {
            case 0:
                join.set_sender(0);
                break;
            case 1:
                join.set_incarnation(0);
                break;
            case 2:
                join.set_first_seq(0);
                break;
            case 3:
                join.mutable_channel()->set_port(80);
                break;
            default:
                join.mutable_registered()->set_switch_id(70000);
        }
        CHECK(fixture.refused(join) == Errc::kInput);
    }
    CHECK(task->senders.empty());
    REQUIRE(fixture.join(Fixture::request(11, 1)).ok());
    auto same_channel = Fixture::request(11, 2);
    *same_channel.mutable_channel() = Fixture::request(11, 1).channel();
    CHECK(fixture.refused(same_channel) == Errc::kExists);
    REQUIRE(fixture.join(Fixture::request(11, 2)).ok());
    CHECK(fixture.refused(Fixture::request(11, 3)) == Errc::kLimit);
    CHECK(task->phase == TaskPhase::kStreaming);
}

TEST_CASE("a sender that is not registered at the task's switch cannot join, unless it is on this host") {
    Fixture fixture;
    const auto task = fixture.open("wc", 11);
    put_on(*task, fixture.away(), {1, 5});
    CHECK(fixture.refused(Fixture::request(11, 1)) == Errc::kUnsupported);
    auto elsewhere = Fixture::request(11, 1);
    elsewhere.mutable_registered()->set_switch_id(1);
    elsewhere.mutable_registered()->set_incarnation(6);
    CHECK(fixture.refused(elsewhere) == Errc::kUnsupported);
    const auto local = fixture.join(Fixture::request(11, 1, kHost));
    REQUIRE(local.ok());
    CHECK(local->mark().switch_id() == 0);
}

TEST_CASE("a task on several switches: each flow by its own, and each switch's part counts once") {
    Fixture fixture;
    RpcChannels channels(plain_text());
    DyingSwitch far;
    const auto task = fixture.open("wc", 11);
    const auto near = std::make_shared<SwitchClient>(channels, "127.0.0.1:1");
    put_on(*task, near, {1, 5});
    put_on(*task, std::make_shared<SwitchClient>(channels, far.address()), DyingSwitch::kMark);
    // Senders are offered the first.
    const auto offer = fixture.look_up(lookup("wc"));
    REQUIRE(offer.ok());
    CHECK(offer->mark().switch_id() == 1);
    CHECK(offer->switch_address() == near->address());
    // One that is registered at the second goes by that.
    auto join = Fixture::request(11, 1);
    *join.mutable_registered() = mark_to_proto(DyingSwitch::kMark);
    CHECK(fixture.refused(join) == Errc::kUnavailable);
    const auto joined = fixture.join(join);
    REQUIRE(joined.ok());
    CHECK(joined->mark().switch_id() == DyingSwitch::kMark.switch_id);
    const FlowParams flow =
        fixture.registry.with(*task, [](const ReceiveTask& now) { return now.senders.front().flow; });
    CHECK(flow.mark == DyingSwitch::kMark);
    CHECK(flow.other_marks.has({1, 5}));
    CHECK_FALSE(flow.other_marks.has(DyingSwitch::kMark));
    // Both are to be kept alive, and both have counted.
    CHECK(fixture.registry.on_switch().size() == 2);
    v1::FlowStats counted;
    counted.set_tuples_no_region(7);
    fixture.registry.note_switch_part(*task, {1, 5}, counted);
    fixture.registry.note_switch_part(*task, {1, 5}, counted);
    fixture.registry.note_switch_part(*task, {1, 6}, counted);
    CHECK(fixture.registry.describe(*task).stats().tuples_no_region() == 7);
    counted.set_tuples_no_region(2);
    fixture.registry.note_switch_part(*task, DyingSwitch::kMark, counted);
    CHECK(fixture.registry.describe(*task).stats().tuples_no_region() == 9);
}

TEST_CASE("a task on senders' own switches: each is told of its own, or joins without and is named") {
    Fixture fixture;
    const auto task = fixture.open("wc", 11);
    fixture.registry.with(*task, [](ReceiveTask& now) { now.own.emplace(); });
    auto request = lookup("wc");
    request.set_switch_address("198.18.2.1:4792");
    // Nothing is said before the session has tried, which is told once.
    const auto early = fixture.look_up(request);
    CHECK(early.error().code() == Errc::kAborted);
    CHECK(early.error().text().find("waiting for switch 198.18.2.1:4792") != std::string::npos);
    CHECK(task->mailbox->take().size() == 1);
    CHECK_FALSE(fixture.look_up(request).ok());
    CHECK(task->mailbox->take().empty());

    RpcChannels channels(plain_text());
    put_on(*task, std::make_shared<SwitchClient>(channels, "127.0.0.1:1"), {1, 5});
    fixture.registry.settle_own(*task, "198.18.2.1:4792", {1, 5}, "");
    const auto offer = fixture.look_up(request);
    REQUIRE(offer.ok());
    CHECK(offer->own_switch());
    CHECK(offer->mark().switch_id() == 1);
    CHECK(offer->switch_address() == "198.18.2.1:4792");
    // One without a switch need not wait, and one whose switch refuses is told of none.
    CHECK(fixture.look_up(lookup("wc"))->mark().switch_id() == 0);
    request.set_switch_address("198.18.3.1:4792");
    CHECK_FALSE(fixture.look_up(request).ok());
    fixture.registry.settle_own(*task, "198.18.3.1:4792", {}, "switch 198.18.3.1:4792: no answer");
    const auto none = fixture.look_up(request);
    REQUIRE(none.ok());
    CHECK(none->own_switch());
    CHECK(none->mark().switch_id() == 0);

    // Past it, yes; by another switch that does not have the task, no.
    auto join = Fixture::request(11, 1);
    join.set_switch_address("198.18.3.1:4792");
    join.mutable_registered()->set_switch_id(2);
    join.mutable_registered()->set_incarnation(6);
    CHECK(fixture.refused(join) == Errc::kUnsupported);
    join.clear_registered();
    const auto joined = fixture.join(join);
    REQUIRE(joined.ok());
    CHECK(joined->mark().switch_id() == 0);
    auto second = Fixture::request(11, 2);
    second.set_switch_address("198.18.2.1:4792");
    second.set_switch_trouble("it has no channel\x1b left");
    REQUIRE(fixture.join(second).ok());
    const auto shown = fixture.registry.describe(*task);
    CHECK(shown.own_switches());
    REQUIRE(shown.switches_size() == 1);
    REQUIRE(shown.without_size() == 2);
    CHECK(shown.without(0).reason() == "switch 198.18.3.1:4792: no answer");
    CHECK(shown.without(1).reason() == "it has no channel\\x1b left");
    CHECK(fixture.counters.get(AgentCounter::k_senders_without_switch) == 2);
}

TEST_CASE("switches that senders name: bad addresses, and how many") {
    OwnSwitches own;
    const auto now = Clock::now();
    CHECK(own.is_settled(""));
    CHECK_FALSE(own.want("", now));
    CHECK_FALSE(own.want("no port", now));
    CHECK(own.is_settled("no port"));
    CHECK(own.why_none("no port").find("no valid address") != std::string::npos);
    CHECK(own.why_none("") == "it has no switch configured");
    CHECK(own.want("198.18.1.1:4792", now));
    CHECK_FALSE(own.want("198.18.1.1:4792", now));
    CHECK_FALSE(own.is_settled("198.18.1.1:4792"));
    CHECK(own.next()->address == "198.18.1.1:4792");
    own.opened("198.18.1.1:4792", {3, 4});
    CHECK_FALSE(own.next());
    CHECK(own.any() == "198.18.1.1:4792");
    CHECK(own.find("198.18.1.1:4792")->mark == Mark{3, 4});
    for (std::uint32_t i = 2; i < ASK_MAX_SENDERS; ++i) {
        CHECK(own.want("h" + std::to_string(i) + ":1", now));
    }
    CHECK_FALSE(own.want("198.18.9.1:4792", now));
    CHECK(own.is_settled("198.18.9.1:4792"));
}

TEST_CASE("a Renew is held back until the task ends, and tells why") {
    Fixture fixture;
    const auto task = fixture.open("wc", 11, 1);
    REQUIRE(fixture.join(Fixture::request(11, 1)).ok());
    CHECK(fixture.renew(11, 1).state() == v1::Outcome::STATE_RUNNING);
    CHECK(fixture.renew(11, 2).state() == v1::Outcome::STATE_UNKNOWN);
    CHECK(fixture.renew(12, 1).state() == v1::Outcome::STATE_UNKNOWN);
    std::thread ender([&] { fixture.registry.end(task, failed("task wc was cancelled")); });
    v1::Outcome outcome;
    const auto deadline = Clock::now() + kPatience;
    do {
        outcome = fixture.renew(11, 1, 2000);
    } while (outcome.state() == v1::Outcome::STATE_RUNNING && Clock::now() < deadline);
    ender.join();
    CHECK(outcome.state() == v1::Outcome::STATE_FAILED);
    CHECK(outcome.error() == "task wc was cancelled");
    CHECK(fixture.refused(Fixture::request(11, 1)) == Errc::kAborted);
    // Everybody knows: nothing to wait for.
    fixture.registry.wait_until_told(Clock::now() + kPatience);
    CHECK(fixture.registry.describe().empty());
}

TEST_CASE("an outcome that its sender no longer waits for is not told yet") {
    Fixture fixture;
    const auto task = fixture.open("wc", 11, 1);
    REQUIRE(fixture.join(Fixture::request(11, 1)).ok());
    fixture.registry.end(task, failed("task wc was cancelled"));
    v1::RenewRequest late;
    late.set_instance(11);
    late.set_sender(1);
    const auto unheard = fixture.registry.renew(caller_at(7), late, [] { return false; });
    REQUIRE(unheard.ok());
    CHECK(unheard->state() == v1::Outcome::STATE_FAILED);
    CHECK(fixture.registry.live() == 0);
    // Those that have been told are forgotten when others come.
    fixture.open("next", 12, 1);
    const auto heard = fixture.registry.renew(caller_at(7), late, [] { return true; });
    REQUIRE(heard.ok());
    CHECK(heard->state() == v1::Outcome::STATE_FAILED);
    fixture.open("another", 13, 1);
    CHECK(fixture.renew(11, 1).state() == v1::Outcome::STATE_UNKNOWN);
}

TEST_CASE("a sender that waits for its task's end is not woken by those that join") {
    constexpr unsigned kJoins = 20;
    Fixture fixture;
    const auto task = fixture.open("wc", 11, kJoins + 1);
    REQUIRE(fixture.join(Fixture::request(11, 1)).ok());
    std::atomic<pid_t> waiting{0};
    const auto begun = Clock::now();
    std::thread waiter([&] {
        waiting = ::gettid();
        while (fixture.renew(11, 1, 60000).state() == v1::Outcome::STATE_RUNNING) {
        }
    });
    const auto asleep = [&] {
        return waiting != 0 && line_of(waiting, "State:").find('S') != std::string::npos;
    };
    const auto wakes = [&] { return std::stoul(line_of(waiting, "voluntary_ctxt_switches:")); };
    CHECK(comes_true(asleep));
    const auto before = wakes();
    for (unsigned sender = 2; sender <= kJoins + 1; ++sender) {
        REQUIRE(fixture.join(Fixture::request(11, sender)).ok());
        CHECK(comes_true(asleep));
    }
    // It is answered every two seconds, on a slow machine, and may have to wait for one that joins just then.
    const auto answers = (Clock::now() - begun) / std::chrono::seconds(2);
    CHECK(wakes() - before <= 1 + 2 * static_cast<unsigned long>(answers));
    fixture.registry.end(task, failed("over"));
    waiter.join();
}

TEST_CASE("a sender that a task goes on without never hears of success, and nobody joins too late") {
    Fixture fixture;
    const auto task = fixture.open("t1", 11, 3);
    REQUIRE(fixture.join(Fixture::request(11, 21)).ok());
    REQUIRE(fixture.join(Fixture::request(11, 22)).ok());
    fixture.registry.with(*task, [](ReceiveTask& changed) {
        changed.senders.front().missing = "has not been heard of";
        changed.too_late = true;
    });
    CHECK(fixture.refused(Fixture::request(11, 23)) == Errc::kLimit);
    CHECK(fixture.renew(11, 21).state() == v1::Outcome::STATE_FAILED);
    CHECK(fixture.renew(11, 22).state() == v1::Outcome::STATE_RUNNING);
    v1::Outcome committed;
    committed.set_state(v1::Outcome::STATE_COMMITTED);
    fixture.registry.end(task, committed);
    CHECK(fixture.renew(11, 22).state() == v1::Outcome::STATE_COMMITTED);
    const v1::Outcome told = fixture.renew(11, 21);
    CHECK(told.state() == v1::Outcome::STATE_FAILED);
    CHECK(told.error() == "receiver h4 went on without this sender: has not been heard of");
}

TEST_CASE("who joins a task that begins again is told to look for it once more") {
    Fixture fixture;
    const auto task = fixture.open("t1", 11, 2);
    REQUIRE(fixture.join(Fixture::request(11, 21)).ok());
    v1::Outcome again;
    again.set_state(v1::Outcome::STATE_FAILED);
    again.set_code(static_cast<int>(Errc::kRunAgain));
    fixture.registry.end(task, again);
    CHECK(fixture.refused(Fixture::request(11, 22)) == Errc::kUnknown);
    again.set_code(static_cast<int>(Errc::kSwitchLost));
    fixture.registry.end(task, again);
    CHECK(fixture.refused(Fixture::request(11, 22)) == Errc::kAborted);
}

TEST_CASE("what a sender cannot send again it cannot promise any more") {
    Fixture fixture;
    const auto task = fixture.open("t1", 11, 2);
    v1::JoinRequest join = Fixture::request(11, 21);
    join.set_can_repeat(true);
    REQUIRE(fixture.join(join).ok());
    REQUIRE(fixture.join(Fixture::request(11, 22)).ok());
    const auto can_repeat = [&](std::size_t sender, bool says) {
        v1::RenewRequest renew;
        renew.set_instance(11);
        renew.set_sender(21 + sender);
        renew.set_can_repeat(says);
        REQUIRE(fixture.registry.renew(caller_at(7), renew).ok());
        return fixture.registry.with(*task,
                                     [&](const ReceiveTask& now) { return now.senders[sender].can_repeat; });
    };
    CHECK(can_repeat(0, true));
    CHECK_FALSE(can_repeat(0, false));
    CHECK_FALSE(can_repeat(0, true));
    CHECK_FALSE(can_repeat(1, true));
}

TEST_CASE("what a switch has counted is in a task's figures once, while it runs and at its end") {
    Fixture fixture;
    const auto task = fixture.open("wc", 11, 1);
    REQUIRE(fixture.join(Fixture::request(11, 1)).ok());
    put_on(*task, fixture.away(), {1, 5});
    // It had no memory for the task, so nothing was added up.
    v1::FlowStats counted;
    counted.set_tuples_no_region(7);
    fixture.registry.note_switch_part(*task, {1, 5}, counted);
    CHECK(fixture.registry.describe(*task).stats().tuples_no_region() == 7);
    counted.set_tuples_no_region(9);
    fixture.registry.with(*task,
                          [&](ReceiveTask& now) { add_switch_part(now.senders.front().stats, counted); });
    CHECK(fixture.registry.describe(*task).stats().tuples_no_region() == 9);
}

TEST_CASE("a sender's figures and its farewell reach the task") {
    Fixture fixture;
    const auto task = fixture.open("wc", 11, 1);
    REQUIRE(fixture.join(Fixture::request(11, 1)).ok());
    v1::RenewRequest renew;
    renew.set_instance(11);
    renew.set_sender(1);
    renew.mutable_stats()->set_tuples_in(42);
    // Only the sender's own part is taken from it.
    renew.mutable_stats()->set_tuples_switch(13);
    REQUIRE(fixture.registry.renew(caller_at(7), renew).ok());
    CHECK(task->senders[0].stats.tuples_in() == 42);
    CHECK(task->senders[0].stats.tuples_switch() == 0);
    v1::LeaveRequest leave;
    leave.set_instance(11);
    leave.set_sender(1);
    leave.set_reason("its\napplication ended");
    REQUIRE(fixture.registry.leave(caller_at(7), leave).ok());
    REQUIRE(task->senders[0].left.has_value());
    CHECK(task->senders[0].left->text() == "its\\x0aapplication ended");
    await(*task->mailbox, SessionEvent::Kind::kChanged);
    // What went wrong stands behind the path of the file.
    const std::string long_reason = std::string(200, 'x') + ".tsv:2:4: no TAB";
    leave.set_reason(long_reason);
    REQUIRE(fixture.registry.leave(caller_at(7), leave).ok());
    CHECK(task->senders[0].left->text() == long_reason);
    leave.set_sender(5);
    CHECK(fixture.registry.leave(caller_at(7), leave).ok());
}

TEST_CASE("a computed result is no success: senders wait, and are told that it is there") {
    Fixture fixture;
    const auto task = fixture.open("t1", 11, 1);
    REQUIRE(fixture.join(Fixture::request(11, 21)).ok());
    CHECK_FALSE(fixture.renew(11, 21).computed());
    fixture.registry.computed(*task);
    const v1::Outcome waits = fixture.renew(11, 21);
    CHECK(waits.state() == v1::Outcome::STATE_RUNNING);
    CHECK(waits.computed());
    CHECK(fixture.registry.describe().at(0).state() == "computed, not taken yet");
    v1::Outcome taken;
    taken.set_state(v1::Outcome::STATE_COMMITTED);
    fixture.registry.end(task, taken);
    CHECK(fixture.renew(11, 21).state() == v1::Outcome::STATE_COMMITTED);
}

TEST_CASE("the id of a task whose result is kept is free, and its end leaves the next one alone") {
    Fixture fixture;
    const auto task = fixture.open("t1", 11, 1);
    REQUIRE(fixture.join(Fixture::request(11, 21)).ok());
    fixture.registry.computed(*task);
    CHECK(fixture.registry.is_live("t1"));
    fixture.registry.free_id(task);
    CHECK_FALSE(fixture.registry.is_live("t1"));
    const auto next = fixture.open("t1", 12, 1);
    v1::Outcome failed;
    failed.set_state(v1::Outcome::STATE_FAILED);
    fixture.registry.end(task, failed);
    CHECK(fixture.registry.is_live("t1"));
    CHECK(fixture.renew(11, 21).state() == v1::Outcome::STATE_FAILED);
    REQUIRE(fixture.join(Fixture::request(12, 22)).ok());
}

TEST_CASE("a sender is the host that joined: nobody else joins, renews or leaves in its place") {
    Fixture fixture;
    const auto task = fixture.open("wc", 11, 1);
    const Caller attacker = caller_at(8);
    // With another's channel.
    const auto posing = fixture.registry.join(attacker, Fixture::request(11, 1));
    REQUIRE_FALSE(posing.ok());
    CHECK(posing.error().code() == Errc::kDenied);
    REQUIRE(fixture.join(Fixture::request(11, 1)).ok());
    // With its own, under the number of the sender that is there.
    const auto repeated = fixture.registry.join(attacker, Fixture::request(11, 1, 8));
    REQUIRE_FALSE(repeated.ok());
    CHECK(repeated.error().code() == Errc::kDenied);
    v1::RenewRequest renew;
    renew.set_instance(11);
    renew.set_sender(1);
    renew.mutable_stats()->set_tuples_in(13);
    const auto told = fixture.registry.renew(attacker, renew);
    REQUIRE(told.ok());
    CHECK(told->state() == v1::Outcome::STATE_UNKNOWN);
    CHECK(task->senders[0].stats.tuples_in() == 0);
    v1::LeaveRequest leave;
    leave.set_instance(11);
    leave.set_sender(1);
    REQUIRE(fixture.registry.leave(attacker, leave).ok());
    CHECK_FALSE(task->senders[0].left);
}

TEST_CASE("what a sender calls itself stands beside what is proved of it") {
    Fixture fixture;
    const auto task = fixture.open("wc", 11, 4);
    const auto name_of = [&](std::uint64_t sender, const std::string& claimed, const Caller& caller) {
        auto join = Fixture::request(11, sender, 0xc6120102U);
        join.set_sender_name(claimed);
        REQUIRE(fixture.registry.join(caller, join).ok());
        return task->senders.back().name;
    };
    Caller caller = caller_at(0xc6120102U);
    CHECK(name_of(1, "h1", caller) == "h1 (198.18.1.2)");
    CHECK(name_of(2, "h2 (198.18.2.2)\033[2J", caller) == "h2??198.18.2.2???2J (198.18.1.2)");
    caller.verified = true;
    caller.own_ipv4 = {0xc6120102U};
    caller.names = {"h1"};
    CHECK(name_of(3, "h1", caller) == "h1 (198.18.1.2)");
    CHECK(name_of(4, "h2", caller) == "h2 (h1 (198.18.1.2))");
}

TEST_CASE("a task takes whom its receiver has named, or who shows its token, and tells the others so") {
    Fixture fixture;
    const auto task = fixture.open("wc", 11, 8);
    task->members.hosts = {7};
    const auto asks = [&](const Caller& caller, const std::string& token) {
        auto look = lookup("wc");
        look.set_token(token);
        auto join = Fixture::request(11, task->senders.size() + 1, *caller.ipv4);
        join.set_token(token);
        const auto offer = fixture.registry.look_up(caller, look);
        const auto joined = fixture.registry.join(caller, join);
        CHECK(offer.ok() == joined.ok());
        CHECK((offer.ok() || offer.error().code() == joined.error().code()));
        return joined.ok() ? Errc::kInternal : joined.error().code();
    };
    const std::string token = "sixteen bytes of";
    constexpr Errc kTaken = Errc::kInternal;
    task->members.names = {"h7"};
    CHECK(asks(caller_at(7), "") == kTaken);
    CHECK(asks(caller_at(8), "") == Errc::kDenied);
    CHECK(asks(caller_at(8), token) == Errc::kDenied);
    Caller named = caller_at(9);
    named.verified = true;
    named.own_ipv4 = {9};
    named.names = {"h7"};
    CHECK(asks(named, "") == kTaken);
    // One without a certificate is not asked for its name.
    task->members.token = token;
    CHECK(asks(caller_at(7), "") == kTaken);
    CHECK(asks(caller_at(8), token) == kTaken);
    CHECK(asks(caller_at(8), token + "!") == Errc::kDenied);
    CHECK(asks(caller_at(8), token.substr(1)) == Errc::kDenied);
    CHECK(asks(caller_at(8), token + token) == Errc::kDenied);
    CHECK(asks(caller_at(8), "") == Errc::kDenied);
    task->members.hosts.clear();
    task->members.names.clear();
    CHECK(asks(caller_at(7), "") == Errc::kDenied);
    CHECK(asks(caller_at(7), token) == kTaken);
}

TEST_CASE(
    "a task is for its receiver's tenant, unless it names others, and other tenants hear nothing of it") {
    Fixture fixture;
    const auto task = fixture.open("wc", 11, 2);
    task->members.tenant = "search";
    Caller own = caller_at(7);
    own.verified = true;
    own.own_ipv4 = {7};
    own.tenant = "search";
    Caller other = own;
    other.tenant = "ads";
    CHECK(fixture.registry.look_up(own, lookup("wc")).ok());
    for (const Caller& stranger : {other, caller_at(7)}) {
        const auto offer = fixture.registry.look_up(stranger, lookup("wc"));
        REQUIRE_FALSE(offer.ok());
        auto none = fixture.registry.look_up(stranger, lookup("wd"));
        CHECK(offer.error().code() == none.error().code());
        CHECK(offer.error().text() == "no task wc on h4");
        CHECK(none.error().text() == "no task wd on h4");
        CHECK(fixture.registry.join(stranger, Fixture::request(11, 1)).error().code() == Errc::kUnknown);
    }
    task->members.hosts = {7};
    CHECK(fixture.registry.join(other, Fixture::request(11, 1)).ok());
    // Which is the other tenant's now, whoever comes from there later.
    v1::RenewRequest renew;
    renew.set_instance(11);
    renew.set_sender(1);
    CHECK(fixture.registry.renew(own, renew)->state() == v1::Outcome::STATE_UNKNOWN);
    CHECK(fixture.registry.renew(other, renew)->state() == v1::Outcome::STATE_RUNNING);
}

TEST_CASE("another tenant waits for a task that it is not to know of as for one that is not there") {
    Fixture fixture;
    fixture.open("wc", 11, 2)->members.tenant = "search";
    v1::LookupRequest request = lookup("wc");
    request.set_wait_ms(2000);
    // One more than may be held back: that it is refused shows that the others are.
    std::vector<std::thread> strangers;
    for (int i = 0; i < 3; ++i) {
        strangers.emplace_back([&] { CHECK(fixture.look_up(request).error().code() == Errc::kUnknown); });
    }
    const auto deadline = Clock::now() + kPatience;
    while (fixture.counters.get(AgentCounter::k_refused_waits) == 0 && Clock::now() < deadline) {
        std::this_thread::yield();
    }
    CHECK(fixture.counters.get(AgentCounter::k_refused_waits) == 1);
    fixture.registry.stop();
    for (auto& thread : strangers) {
        thread.join();
    }
}

TEST_CASE("a user of the host ends his own tasks, and sees them; root all") {
    Fixture fixture;
    const auto task = fixture.open("wc", 11, 1);
    task->user = 1000;
    Caller alice;
    alice.address = "local";
    alice.uid = 1000;
    Caller bob = alice;
    bob.uid = 1001;
    Caller root = alice;
    root.uid = 0;
    root.role_operator = true;
    CHECK_FALSE(fixture.registry.cancel(bob, "wc"));
    CHECK(fixture.registry.cancel(alice, "wc"));
    CHECK(fixture.registry.cancel(root, "wc"));

    v1::AgentStatus status;
    *status.add_tasks() = fixture.registry.describe(*task);
    status.add_channels()->set_task_id("wc");
    const auto sees = [&](const Caller& caller) {
        v1::AgentStatus shown = status;
        keep_to(caller, shown);
        CHECK((shown.tasks_size() == 1) == (shown.channels(0).task_id() == "wc"));
        return shown.tasks_size() == 1;
    };
    CHECK(sees(alice));
    CHECK_FALSE(sees(bob));
    CHECK(sees(root));
    Caller peer = caller_at(7);
    peer.plain_text = true;
    CHECK(sees(peer));
    peer.plain_text = false;
    peer.verified = true;
    CHECK_FALSE(sees(peer));
    peer.role_operator = true;
    CHECK(sees(peer));
}
