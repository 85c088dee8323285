// SPDX-License-Identifier: Apache-2.0
//
// Streams at the agent of their receiver: other agents' calls, and the runs of windows.
#include <memory>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "lib/base/wall_clock.h"
#include "lib/control/member/convert.h"
#include "lib/control/receive/registry.h"
#include "lib/net/address.h"
#include "lib/rpc/call_origin.h"
#include "tests/unit/agent/local_agent.h"

using namespace ask;
using namespace ask::test;

namespace {

constexpr std::uint32_t kUser = 1000;

Caller agent_at(std::uint32_t host) {
    return caller_from_peer("ipv4:" + format_ipv4(host) + ":40000");
}

struct StreamFixture {
    LocalAgent agent{1};
    AgentCounters counters;
    TaskRegistry registry{
        {.host_name = "h4", .own_address = kHost, .lease = milliseconds(60000), .max_waits = 4},
        &agent.workers,
        &counters};

    // Of windows that last as long as a test may take.
    std::shared_ptr<StreamHere> open(std::uint32_t senders, const std::string& token = "") {
        auto here = std::make_shared<StreamHere>(
            StreamTerms{.name = "web", .every = milliseconds(3'600'000), .senders = senders, .nonce = 5},
            std::vector<v1::StreamMember>(), StreamNow{Clock::now(), unix_ms()});
        here->members.token = token;
        here->user = kUser;
        here->mailbox = std::make_shared<Mailbox>();
        REQUIRE(registry.open_stream(here).ok());
        return here;
    }
    static v1::FollowStreamRequest says(std::uint64_t member, std::uint32_t wait_ms = 0) {
        v1::FollowStreamRequest request;
        request.set_name("web");
        request.set_member(member);
        request.set_member_name("h" + std::to_string(member));
        request.set_wait_ms(wait_ms);
        request.set_wire_version(ASK_WIRE_VERSION);
        return request;
    }
    // Its session's round, whose directory has at once what comes.
    v1::WindowDue look(StreamHere& here) {
        v1::WindowDue due;
        auto news = registry.advance(here);
        for (const v1::StreamMember& member : news.comes) {
            v1::MemberNoted noted;
            noted.set_member(member.member());
            noted.set_first(member.first());
            noted.set_last(member.last());
            registry.note_member(here, noted);
        }
        return news.due.empty() ? due : news.due.front();
    }
    std::shared_ptr<ReceiveTask> run(const v1::WindowDue& due, std::uint64_t instance,
                                     std::uint32_t user = kUser) {
        auto task = std::make_shared<ReceiveTask>();
        task->id = due.task_id();
        task->instance = instance;
        task->user = user;
        task->mailbox = std::make_shared<Mailbox>();
        if (!registry.begin_run(*task, "web", due.number())) {
            return nullptr;
        }
        REQUIRE(registry.add(task).ok());
        auto table = ResultTable::create(make_heap_memory(), Op::kSum);
        REQUIRE(table.ok());
        auto shared = std::make_shared<ResultTable>(std::move(*table));
        const auto opened = agent.workers.at(0).call(
            [&](WorkerCore& core) { return core.open_task(instance, std::move(*shared), task->mailbox); });
        REQUIRE(opened->ok());
        registry.opened(*task);
        return task;
    }
    Result<v1::JoinReply> join(std::uint64_t instance, std::uint64_t member, std::uint64_t sender) {
        v1::JoinRequest request;
        request.set_instance(instance);
        request.set_sender(sender);
        request.set_sender_name("h" + std::to_string(member));
        request.set_member(member);
        *request.mutable_channel() = channel_to_proto(
            {static_cast<std::uint32_t>(7), static_cast<std::uint16_t>(ASK_CHANNEL_PORT_BASE + sender)});
        request.set_incarnation(3);
        request.set_first_seq(1);
        return registry.join(agent_at(7), request);
    }
    Result<v1::FollowStreamReply> follow(const v1::FollowStreamRequest& request) {
        return registry.follow_stream(agent_at(7), request);
    }
    void end(ReceiveTask& task, std::uint64_t member) {
        registry.with(task, [&](ReceiveTask& changed) {
            for (TaskSender& sender : changed.senders) {
                sender.fin = sender.fin || sender.member == member;
            }
            changed.here->stream.ended(changed.window, member);
        });
    }
};

v1::Outcome committed() {
    v1::Outcome outcome;
    outcome.set_state(v1::Outcome::STATE_COMMITTED);
    return outcome;
}

}  // namespace

TEST_CASE("a stream is followed by those that it is for, once there is one") {
    StreamFixture fixture;
    CHECK(fixture.follow(StreamFixture::says(1)).error().code() == Errc::kUnknown);
    const auto here = fixture.open(1, "secret");
    CHECK(fixture.follow(StreamFixture::says(1)).error().code() == Errc::kDenied);
    auto request = StreamFixture::says(1);
    request.set_token("secret");
    CHECK(fixture.follow(request).ok());
    request.set_wire_version(ASK_WIRE_VERSION + 1);
    CHECK(fixture.follow(request).error().code() == Errc::kUnsupported);
    auto second = std::make_shared<StreamHere>(StreamTerms{.name = "web"}, std::vector<v1::StreamMember>(),
                                               StreamNow{Clock::now(), unix_ms()});
    CHECK(fixture.registry.open_stream(second).error().code() == Errc::kExists);
    fixture.registry.close_stream(here);
    CHECK(fixture.registry.open_stream(second).ok());
}

TEST_CASE("who follows is answered when the state has changed") {
    StreamFixture fixture;
    const auto here = fixture.open(1);
    const auto first = fixture.follow(StreamFixture::says(1));
    REQUIRE(first.ok());
    auto request = StreamFixture::says(1, 2000);
    request.set_version(here->stream.version());
    std::thread session([&] {
        await(*here->mailbox, SessionEvent::Kind::kChanged);
        fixture.look(*here);
        fixture.look(*here);
    });
    auto reply = fixture.follow(request);
    // There may be one for each of the two changes.
    for (int i = 0; i < 3 && reply.ok() && reply->first() == 0; ++i) {
        request.set_version(reply->version());
        reply = fixture.follow(request);
    }
    session.join();
    REQUIRE(reply.ok());
    CHECK(reply->first() != 0);
    CHECK(reply->nonce() == 5);
    CHECK(reply->windows_size() == 1);
}

TEST_CASE("a stream that is cancelled ends at its members, by name, and at nobody who comes later") {
    StreamFixture fixture;
    const auto here = fixture.open(1);
    REQUIRE(fixture.follow(StreamFixture::says(1)).ok());
    Caller other = caller_from_peer("unix:");
    other.uid = kUser + 1;
    CHECK_FALSE(fixture.registry.cancel(other, "web"));
    auto held = StreamFixture::says(1, 20'000);
    held.set_version(here->stream.version());
    std::thread session([&] {
        Caller owner = caller_from_peer("unix:");
        owner.uid = kUser;
        CHECK(fixture.registry.cancel(owner, "web"));
        await(*here->mailbox, SessionEvent::Kind::kCancelled);
        fixture.registry.close_stream(here);
    });
    auto reply = fixture.follow(held);
    session.join();
    REQUIRE(reply.ok());
    CHECK(reply->ended());
    CHECK(reply->trouble() == "cancelled by askctl task cancel on h4");
    // Who asks on has not heard; who begins, under the same id too, looks for another stream.
    CHECK(fixture.follow(held)->ended());
    CHECK(fixture.follow(StreamFixture::says(1)).error().code() == Errc::kUnknown);
    CHECK(fixture.follow(StreamFixture::says(2)).error().code() == Errc::kUnknown);
    // What is said for a lease is not said after it.
    held.set_wait_ms(0);
    here->forget_at = Clock::now();
    CHECK(fixture.follow(held).error().code() == Errc::kUnknown);
    const auto next = fixture.open(1);
    CHECK_FALSE(fixture.follow(StreamFixture::says(1))->ended());
}

TEST_CASE("of a stream that has ended nothing is kept after a lease, though nobody opens another one") {
    StreamFixture fixture;
    auto here = fixture.open(1);
    fixture.registry.finish(*here);
    fixture.look(*here);
    fixture.registry.close_stream(here);
    const std::weak_ptr<StreamHere> kept = here;
    here->forget_at = Clock::now();
    here.reset();
    CHECK(fixture.registry.describe().empty());
    CHECK(kept.expired());
}

TEST_CASE("a run of a window is its user's, and of its members, each once") {
    StreamFixture fixture;
    const auto here = fixture.open(1);
    REQUIRE(fixture.follow(StreamFixture::says(1)).ok());
    const v1::WindowDue due = fixture.look(*here);
    REQUIRE(due.number() != 0);
    CHECK(fixture.run(due, 11, kUser + 1) == nullptr);
    const auto task = fixture.run(due, 12);
    REQUIRE(task);
    CHECK(fixture.run(due, 13) == nullptr);
    CHECK(fixture.join(12, 9, 21).error().code() == Errc::kAborted);
    REQUIRE(fixture.join(12, 1, 21).ok());
    CHECK(fixture.join(12, 1, 22).error().code() == Errc::kAborted);
    // The same once more is the answer that got lost.
    CHECK(fixture.join(12, 1, 21).ok());
    const auto status = fixture.registry.describe_streams();
    REQUIRE(status.size() == 1);
    REQUIRE(status[0].windows_size() == 1);
    CHECK(status[0].windows(0).joined() == 1);
}

TEST_CASE("a newcomer is in a window that is not over, or in the next: there is nothing in between") {
    StreamFixture fixture;
    const auto here = fixture.open(1);
    REQUIRE(fixture.follow(StreamFixture::says(1)).ok());
    const v1::WindowDue due = fixture.look(*here);
    const auto task = fixture.run(due, 12);
    REQUIRE(task);
    REQUIRE(fixture.join(12, 1, 21).ok());
    fixture.end(*task, 1);
    REQUIRE(fixture.follow(StreamFixture::says(2)).ok());
    CHECK_FALSE(fixture.registry.begin_fetching(*task));
    REQUIRE(fixture.join(12, 2, 22).ok());
    CHECK_FALSE(fixture.registry.begin_fetching(*task));
    fixture.end(*task, 2);
    CHECK(fixture.registry.begin_fetching(*task));
    REQUIRE(fixture.follow(StreamFixture::says(3)).ok());
    fixture.look(*here);
    const auto third = fixture.follow(StreamFixture::says(3));
    REQUIRE(third.ok());
    CHECK(third->first() == due.number() + 1);
    fixture.registry.end(task, committed());
    CHECK(here->stream.committed() == due.number());
}

TEST_CASE("a run that fails is asked for again; one whose stream has gone is ended") {
    StreamFixture fixture;
    const auto here = fixture.open(1);
    REQUIRE(fixture.follow(StreamFixture::says(1)).ok());
    const auto task = fixture.run(fixture.look(*here), 12);
    REQUIRE(task);
    v1::Outcome outcome;
    outcome.set_state(v1::Outcome::STATE_FAILED);
    fixture.registry.end(task, outcome);
    const v1::WindowDue again = fixture.look(*here);
    CHECK(again.again());
    const auto second = fixture.run(again, 13);
    REQUIRE(second);
    await(*here->mailbox, SessionEvent::Kind::kChanged);
    fixture.registry.close_stream(here);
    await(*second->mailbox, SessionEvent::Kind::kStreamClosed);
    CHECK(fixture.follow(StreamFixture::says(1)).error().code() == Errc::kUnknown);
}

TEST_CASE("a run by a plan tells its members of relays, and nobody else, if they are whom the plan is for") {
    StreamFixture fixture;
    const auto here = fixture.open(1);
    REQUIRE(fixture.follow(StreamFixture::says(1)).ok());
    const v1::WindowDue due = fixture.look(*here);
    const auto task = fixture.run(due, 12);
    REQUIRE(task);
    const auto plan_for = [](std::uint32_t sends) {
        v1::Placement plan;
        v1::PlacedRelay& relay = *plan.add_relays();
        relay.set_name("s1");
        relay.set_address("198.18.129.2:4793");
        v1::PlacedHost& host = *plan.add_hosts();
        host.set_name("h7");
        host.set_address(format_ipv4(7));
        host.set_sends(sends);
        host.set_entry("s1");
        return Placed::create(plan, sends, 0).value();
    };
    CHECK_FALSE(fixture.registry.place_window(*task, plan_for(2)));
    REQUIRE(fixture.registry.place_window(*task, plan_for(1)));
    fixture.registry.placed(*task);
    const auto look_up = [&](std::uint64_t member) {
        v1::LookupRequest request;
        request.set_task_id(due.task_id());
        request.set_member(member);
        request.set_sender(21);
        request.set_wire_version(ASK_WIRE_VERSION);
        return fixture.registry.look_up(agent_at(7), request);
    };
    CHECK(look_up(9).error().code() == Errc::kAborted);
    const auto offer = look_up(1);
    REQUIRE(offer.ok());
    CHECK(offer->relay().name() == "s1");
    CHECK_FALSE(fixture.registry.begin_fetching(*task));
    const auto shown = [&] { return fixture.registry.describe_streams().at(0).windows(0); };
    CHECK(shown().waits_for() == "relay s1");
    CHECK(shown().members() == 1);
    CHECK(shown().ended() == 0);
    fixture.registry.with(*task, [](ReceiveTask& run) {
        TaskSender& relay = run.senders.emplace_back();
        relay.joined = true;
        relay.fin = true;
        relay.relay = "s1";
    });
    CHECK(shown().waits_for().empty());
    CHECK(shown().joined() == 1);
    CHECK(shown().ended() == 1);
    // It begins anew: what it has sent to the relay is of no use.
    REQUIRE(fixture.follow(StreamFixture::says(1)).ok());
    CHECK(fixture.registry.with(
        *task, [](const ReceiveTask& run) { return run.here->stream.members_changed(run.window); }));
}
