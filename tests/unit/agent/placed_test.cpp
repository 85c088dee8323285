// SPDX-License-Identifier: Apache-2.0
#include "lib/control/receive/placed.h"

#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "lib/control/receive/registry.h"
#include "lib/net/address.h"
#include "lib/rpc/call_origin.h"
#include "tests/unit/agent/local_agent.h"

using namespace ask;
using namespace ask::test;

namespace {

constexpr std::uint64_t kPlacedInstance = 77;

Caller at(const std::string& address) {
    return caller_from_peer("ipv4:" + address + ":40000");
}

// h1 twice and h2 at s2, whose parent is s1, as is h3; h4 at the receiver.
v1::Placement small_plan() {
    v1::Placement plan;
    const auto relay = [&](const char* name, const char* address, const char* parent) {
        v1::PlacedRelay& entry = *plan.add_relays();
        entry.set_name(name);
        entry.set_address(address);
        entry.set_parent(parent);
    };
    const auto host = [&](const char* name, const char* address, std::uint32_t sends, const char* entry_at) {
        v1::PlacedHost& entry = *plan.add_hosts();
        entry.set_name(name);
        entry.set_address(address);
        entry.set_sends(sends);
        entry.set_entry(entry_at);
    };
    relay("s1", "198.18.129.2:4793", "");
    relay("s2", "198.18.130.2:4793", "s1");
    host("h1", "198.18.1.2", 2, "s2");
    host("h2", "198.18.2.2", 1, "s2");
    host("h3", "198.18.3.2", 1, "s1");
    host("h4", "198.18.4.2", 1, "");
    return plan;
}

std::string refusal(const v1::Placement& plan, std::uint32_t sends = 5) {
    const auto placed = Placed::create(plan, sends, 0);
    REQUIRE_FALSE(placed.ok());
    return placed.error().text();
}

// A registry with a task by that plan.
struct PlacedTask {
    LocalAgent agent{1};
    AgentCounters counters;
    TaskRegistry registry{
        {.host_name = "h5", .own_address = kHost, .lease = milliseconds(60000), .max_waits = 2},
        &agent.workers,
        &counters};
    std::shared_ptr<ReceiveTask> task = std::make_shared<ReceiveTask>();

    PlacedTask() {
        task->id = "t";
        task->instance = kPlacedInstance;
        task->placed = Placed::create(small_plan(), 5, 0).value();
        task->senders_expected = task->placed->direct();
        task->mailbox = std::make_shared<Mailbox>();
        REQUIRE(registry.add(task).ok());
        registry.opened(*task);
    }
    Result<v1::TaskOffer> look_up(const std::string& from, const std::string& token = "",
                                  std::uint64_t sender = 1) {
        v1::LookupRequest request;
        request.set_task_id("t");
        request.set_token(token);
        request.set_sender(sender);
        request.set_wire_version(ASK_WIRE_VERSION);
        return registry.look_up(at(from), request);
    }
    v1::Outcome renew(const std::string& from) {
        v1::RenewRequest request;
        request.set_instance(kPlacedInstance);
        request.set_sender(99);
        return registry.renew(at(from), request).value();
    }
};

}  // namespace

TEST_CASE("a plan says how many come to whom, and relays get ids and tokens of their own") {
    const auto placed = Placed::create(small_plan(), 5, 0);
    REQUIRE(placed.ok());
    CHECK(placed->direct() == 2);
    CHECK(placed->sends() == 5);
    CHECK(placed->depth() == 2);
    CHECK(placed->relays()[0].senders == 2);
    CHECK(placed->relays()[1].senders == 3);
    CHECK(placed->relays()[0].task_id != placed->relays()[1].task_id);
    CHECK(placed->relays()[0].token != placed->relays()[1].token);
    CHECK(placed->relays()[0].token.size() == 16);
    const Placed::Host* const far = placed->host_of(at("198.18.1.2"));
    REQUIRE(far != nullptr);
    CHECK(placed->last_relay(*far)->name == "s1");
    CHECK(placed->last_relay(*placed->host_of(at("198.18.4.2"))) == nullptr);
    CHECK(placed->host_of(at("198.18.9.2")) == nullptr);
}

TEST_CASE("a relay comes with the task's token and from a host of the plan that sends to the receiver") {
    const Placed placed = Placed::create(small_plan(), 5, 0).value();
    CHECK(placed.relay_of(at("198.18.129.2"), placed.token()) != nullptr);
    CHECK(placed.relay_of(at("198.18.129.2"), "") == nullptr);
    CHECK(placed.relay_of(at("198.18.130.2"), placed.token()) == nullptr);
    CHECK(placed.relay_of(at("198.18.1.2"), placed.token()) == nullptr);
}

TEST_CASE("a plan that makes no sense is refused by name") {
    v1::Placement plan = small_plan();
    CHECK(refusal(plan, 4).find("its hosts send 5 times, and the task has 4 senders") != std::string::npos);
    plan.mutable_relays()->SwapElements(0, 1);
    CHECK(refusal(plan).find("relay s2 sends to 's1', which is no relay of the plan, or comes after it") !=
          std::string::npos);
    plan = small_plan();
    plan.mutable_relays(1)->set_name("s1");
    CHECK(refusal(plan).find("relay s1 is there twice") != std::string::npos);
    plan = small_plan();
    plan.mutable_relays(1)->set_parent("s2");
    CHECK(refusal(plan).find("which is no relay of the plan") != std::string::npos);
    plan = small_plan();
    plan.mutable_relays(1)->set_address("s2:4793");
    CHECK(refusal(plan).find("must be IPv4:PORT or [IPv6]:PORT, not s2:4793") != std::string::npos);
    plan = small_plan();
    plan.mutable_hosts(1)->set_address("198.18.1.2");
    CHECK(refusal(plan).find("host h2: 198.18.1.2 is there twice") != std::string::npos);
    plan = small_plan();
    plan.mutable_hosts(1)->set_sends(0);
    CHECK(refusal(plan).find("sends must be from 1 to") != std::string::npos);
    plan = small_plan();
    plan.mutable_hosts(0)->set_sends(UINT32_MAX);
    CHECK(refusal(plan).find("sends must be from 1 to") != std::string::npos);
    plan = small_plan();
    plan.mutable_hosts(2)->set_entry("s3\n");
    CHECK(refusal(plan).find("sends to 's3") != std::string::npos);
    plan = small_plan();
    plan.mutable_hosts(0)->set_name(std::string(65, 'h'));
    CHECK(refusal(plan).find("the name of a host must have 1 to 64 bytes, not 65") != std::string::npos);
    plan = small_plan();
    plan.mutable_hosts(2)->set_entry("");
    plan.mutable_relays(1)->set_parent("");
    CHECK(refusal(plan).find("nobody sends to relay s1") != std::string::npos);
    plan = small_plan();
    for (std::size_t i = 0; i < Placed::kMostRelays; ++i) {
        *plan.add_relays() = small_plan().relays(0);
    }
    CHECK(refusal(plan).find("the limits are 256 and 4096") != std::string::npos);
}

TEST_CASE("hosts are told where to send once every relay is there, relays at once") {
    PlacedTask fixture;
    const auto early = fixture.look_up("198.18.1.2");
    REQUIRE_FALSE(early.ok());
    CHECK(early.error().text().find("its relays are being opened") != std::string::npos);
    const auto relay = fixture.look_up("198.18.129.2", fixture.task->placed->token());
    REQUIRE(relay.ok());
    CHECK_FALSE(relay->has_relay());

    fixture.task->placed->relays()[1].agent = "198.18.130.2:4791";
    fixture.registry.placed(*fixture.task);
    const auto offer = fixture.look_up("198.18.1.2");
    REQUIRE(offer.ok());
    REQUIRE(offer->has_relay());
    CHECK(offer->instance() == kPlacedInstance);
    CHECK(offer->relay().name() == "s2");
    CHECK(offer->relay().agent() == "198.18.130.2:4791");
    CHECK(offer->relay().task_id() == fixture.task->placed->relays()[1].task_id);
    CHECK(offer->relay().token() == fixture.task->placed->relays()[1].token);
    const auto direct = fixture.look_up("198.18.4.2");
    REQUIRE(direct.ok());
    CHECK_FALSE(direct->has_relay());
    const auto stranger = fixture.look_up("198.18.9.2");
    REQUIRE_FALSE(stranger.ok());
    CHECK(stranger.error().code() == Errc::kDenied);
    CHECK(stranger.error().text().find("is no host of it: plan again") != std::string::npos);
}

TEST_CASE("a host that sends more often than the plan has it is refused by name") {
    PlacedTask fixture;
    fixture.registry.placed(*fixture.task);
    CHECK(fixture.look_up("198.18.1.2", "", 1).ok());
    CHECK(fixture.look_up("198.18.1.2", "", 2).ok());
    const auto third = fixture.look_up("198.18.1.2", "", 3);
    REQUIRE_FALSE(third.ok());
    CHECK(third.error().code() == Errc::kDenied);
    CHECK(
        third.error().text() ==
        "task t: the placement has host h1 send 2 times, and this is another: plan again with all that send");
    // Who asks again is no other.
    CHECK(fixture.look_up("198.18.1.2", "", 2).ok());
    // Where it comes to the receiver itself, too, and each host counts for itself.
    CHECK(fixture.look_up("198.18.4.2", "", 4).ok());
    CHECK_FALSE(fixture.look_up("198.18.4.2", "", 5).ok());
    CHECK(fixture.look_up("198.18.2.2", "", 6).ok());
}

TEST_CASE("a sender that has gone before it joined leaves its place in the plan to another") {
    PlacedTask fixture;
    fixture.registry.placed(*fixture.task);
    v1::LeaveRequest leave;
    leave.set_instance(kPlacedInstance);
    const auto gone = [&](const std::string& host, std::uint64_t sender) {
        leave.set_sender(sender);
        REQUIRE(fixture.registry.leave(at(host), leave).ok());
    };
    CHECK(fixture.look_up("198.18.2.2", "", 1).ok());
    CHECK_FALSE(fixture.look_up("198.18.2.2", "", 2).ok());
    // Nobody else can give it back, nor a sender that never had one.
    gone("198.18.1.2", 1);
    gone("198.18.2.2", 2);
    CHECK_FALSE(fixture.look_up("198.18.2.2", "", 2).ok());
    gone("198.18.2.2", 1);
    CHECK(fixture.look_up("198.18.2.2", "", 2).ok());
    CHECK_FALSE(fixture.look_up("198.18.2.2", "", 1).ok());
    // The same of one that sends to the receiver itself.
    CHECK(fixture.look_up("198.18.4.2", "", 3).ok());
    gone("198.18.4.2", 3);
    CHECK(fixture.look_up("198.18.4.2", "", 4).ok());
}

TEST_CASE("what has come, and from whom, is there for whoever looks, with the plan") {
    PlacedTask fixture;
    fixture.registry.placed(*fixture.task);
    const auto came = [&](std::uint64_t id, const std::string& host, const std::string& relay, bool fin) {
        TaskSender sender;
        sender.sender = id;
        sender.joined = true;
        sender.fin = fin;
        sender.relay = relay;
        sender.flow.channel.host = parse_ipv4(host).value();
        sender.stats.set_packets_sent(3);
        sender.stats.set_frame_bytes(300);
        sender.stats.set_retransmissions(1);
        fixture.task->senders.push_back(sender);
    };
    came(1, "198.18.4.2", "", true);
    came(2, "198.18.4.2", "", false);
    came(3, "198.18.129.2", "s1", true);
    fixture.task->senders.emplace_back();  // its Join is under way
    const v1::AgentTask seen = fixture.registry.describe(*fixture.task);
    CHECK(seen.placement().hosts_size() == 4);
    REQUIRE(seen.flows_size() == 2);
    CHECK(seen.flows(0).relay().empty());
    CHECK(seen.flows(0).host() == parse_ipv4("198.18.4.2").value());
    CHECK(seen.flows(0).joined() == 2);
    CHECK(seen.flows(0).finished() == 1);
    CHECK(seen.flows(0).packets() == 6);
    CHECK(seen.flows(0).frame_bytes() == 600);
    CHECK(seen.flows(0).retransmissions() == 2);
    CHECK(seen.flows(1).relay() == "s1");
    CHECK(seen.flows(1).finished() == 1);
}

TEST_CASE("whoever is to send to a relay does not join at the receiver") {
    PlacedTask fixture;
    fixture.registry.placed(*fixture.task);
    v1::JoinRequest join;
    join.set_instance(kPlacedInstance);
    join.set_sender(5);
    join.mutable_channel()->set_host(parse_ipv4("198.18.1.2").value());
    join.mutable_channel()->set_port(ASK_CHANNEL_PORT_BASE);
    join.set_incarnation(1);
    join.set_first_seq(1);
    const auto refused = fixture.registry.join(at("198.18.1.2"), join);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code() == Errc::kDenied);
    CHECK(fixture.task->senders.empty());
}

TEST_CASE("who sends to a relay hears of the task's end from its receiver, and nobody else does") {
    PlacedTask fixture;
    CHECK(fixture.renew("198.18.1.2").state() == v1::Outcome::STATE_RUNNING);
    CHECK(fixture.renew("198.18.4.2").state() == v1::Outcome::STATE_UNKNOWN);
    CHECK(fixture.renew("198.18.9.2").state() == v1::Outcome::STATE_UNKNOWN);
    v1::Outcome outcome;
    outcome.set_state(v1::Outcome::STATE_FAILED);
    outcome.set_code(static_cast<int>(Errc::kRunAgain));
    outcome.set_error("relay s2 has gone");
    fixture.registry.end(fixture.task, outcome);
    // Nobody had joined: it stays for those all the same.
    const v1::Outcome heard = fixture.renew("198.18.1.2");
    CHECK(heard.state() == v1::Outcome::STATE_FAILED);
    CHECK(heard.code() == static_cast<int>(Errc::kRunAgain));
    CHECK(heard.error() == "relay s2 has gone");
}

TEST_CASE("a relay joins only where it is expected, whatever tenant its host is of") {
    PlacedTask fixture;
    v1::JoinRequest join;
    join.set_sender(5);
    join.mutable_channel()->set_host(parse_ipv4("198.18.130.2").value());
    join.mutable_channel()->set_port(ASK_CHANNEL_PORT_BASE);
    join.set_incarnation(1);
    join.set_first_seq(1);
    join.set_relay("s2");
    // A plain task, which takes every host of the tenant but not what another has sent there.
    auto plain = std::make_shared<ReceiveTask>();
    plain->id = "plain";
    plain->instance = kPlacedInstance + 1;
    plain->mailbox = std::make_shared<Mailbox>();
    REQUIRE(fixture.registry.add(plain).ok());
    fixture.registry.opened(*plain);
    join.set_instance(plain->instance);
    const auto refused = fixture.registry.join(at("198.18.130.2"), join);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code() == Errc::kDenied);
    CHECK(refused.error().text().find("does not expect a relay") != std::string::npos);
    CHECK(plain->senders.empty());
    // And one with a plan, by which that relay comes to another.
    join.set_instance(kPlacedInstance);
    join.set_token(fixture.task->placed->token());
    CHECK_FALSE(fixture.registry.join(at("198.18.130.2"), join).ok());
    CHECK(fixture.task->senders.empty());
}
