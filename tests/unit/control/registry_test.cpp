// SPDX-License-Identifier: Apache-2.0
//
// Groups at the agent that coordinates them: who may take which rank, who is named when one is missing,
// silent or gone, and what the others hear.
#include "lib/control/group/registry.h"

#include <memory>

#include <doctest/doctest.h>

#include "lib/rpc/types.h"

using namespace ask;

namespace {

constexpr std::uint64_t kInstance = 9;

Caller host(std::uint32_t number, const std::string& tenant = "") {
    Caller caller;
    const std::uint32_t address = 0xc6120002U + (number << 8U);
    caller.ipv4 = address;
    caller.address = "198.18." + std::to_string(number) + ".2";
    caller.own_ipv4 = {address};
    caller.verified = true;
    caller.names = {"h" + std::to_string(number)};
    caller.tenant = tenant;
    return caller;
}

v1::JoinGroupRequest join_of(std::uint32_t number, std::uint32_t rank, std::uint32_t size = 3) {
    v1::JoinGroupRequest request;
    request.set_group("train");
    request.set_rank(rank);
    request.set_size(size);
    request.set_member(100 + number);
    request.set_member_name("h" + std::to_string(number));
    *request.mutable_channel() = channel_to_proto({0xc6120002U + (number << 8U), ASK_CHANNEL_PORT_BASE});
    request.set_incarnation(5);
    request.set_payload_limit(1472);
    request.set_wire_version(ASK_WIRE_VERSION);
    return request;
}

v1::RenewGroupRequest renew_of(std::uint32_t number) {
    v1::RenewGroupRequest request;
    request.set_instance(kInstance);
    request.set_member(100 + number);
    return request;
}

struct Root {
    GroupRegistry registry;
    std::shared_ptr<Mailbox> mailbox = std::make_shared<Mailbox>();

    explicit Root(const std::string& token = "", Clock::duration lease = std::chrono::hours(1)) {
        REQUIRE(registry
                    .open({.id = "train",
                           .size = 3,
                           .members = {"", {}, {}, token},
                           .instance = kInstance,
                           .lease = lease,
                           .mailbox = mailbox})
                    .ok());
        REQUIRE(registry.seat(kInstance, 0, seat_of_root()).ok());
    }
    static GroupRegistry::Seat seat_of_root() {
        GroupRegistry::Seat seat;
        seat.member = 101;
        seat.name = "h1 (198.18.1.2)";
        seat.channel = {0xc6120102U, ASK_CHANNEL_PORT_BASE};
        seat.heard = Clock::now();
        return seat;
    }
    void all_join() {
        REQUIRE(registry.join(host(2), join_of(2, 1)).ok());
        REQUIRE(registry.join(host(3), join_of(3, 2)).ok());
        REQUIRE(registry.publish(kInstance, ready_of_all()).ok());
    }
    [[nodiscard]] v1::JoinGroupReply ready_of_all() const {
        v1::JoinGroupReply ready;
        ready.set_instance(kInstance);
        for (const auto& seat : registry.seats(kInstance)) {
            v1::GroupMember& one = *ready.add_members();
            one.set_name(seat->name);
            *one.mutable_channel() = channel_to_proto(seat->channel);
            one.set_incarnation(seat->incarnation);
        }
        return ready;
    }
};

}  // namespace

TEST_CASE("who is missing is named until all have joined, and then all hear the same") {
    Root root;
    const auto waiting = root.registry.join(host(2), join_of(2, 1));
    REQUIRE_MESSAGE(waiting.ok(), waiting.error().text());
    CHECK(waiting->waiting());
    CHECK(waiting->missing() == "rank 2");
    root.all_join();
    const auto ready = root.registry.join(host(2), join_of(2, 1));
    REQUIRE(ready.ok());
    CHECK_FALSE(ready->waiting());
    CHECK(ready->instance() == kInstance);
}

TEST_CASE("a rank that is taken, another size, a second member of a host: refused by name") {
    Root root;
    REQUIRE(root.registry.join(host(2), join_of(2, 1)).ok());
    CHECK(root.registry.join(host(3), join_of(3, 1)).error().text() ==
          "group train: rank 1 is taken by h2 (198.18.2.2): give each member a rank of its own");
    CHECK(root.registry.join(host(3), join_of(3, 2, 4)).error().text() ==
          "group train: h3 (198.18.3.2) joins a group of 4, and the root has one of 3");
    v1::JoinGroupRequest second = join_of(2, 2);
    second.set_member(7);
    CHECK(root.registry.join(host(2), second).error().text() ==
          "group train: h2 (198.18.2.2) has rank 1 already: a host has one member of a group");
    CHECK(root.registry.join(host(2), join_of(3, 2)).error().code() == Errc::kDenied);
}

TEST_CASE("a group is its tenant's, or of who shows its token; to others it is not there") {
    Root root;
    CHECK(root.registry.join(host(2, "ads"), join_of(2, 1)).error().code() == Errc::kUnknown);
    Root with_token("secret");
    CHECK(with_token.registry.join(host(2), join_of(2, 1)).error().code() == Errc::kDenied);
    v1::JoinGroupRequest shown = join_of(2, 1);
    shown.set_token("secret");
    CHECK(with_token.registry.join(host(2, "ads"), shown).ok());
}

TEST_CASE("a member that leaves fails the group for the others, by name; one that has finished does not") {
    Root root;
    root.all_join();
    CHECK(root.registry.renew(host(3), renew_of(3))->state() == v1::GroupOutcome::STATE_RUNNING);
    v1::LeaveGroupRequest leave;
    leave.set_instance(kInstance);
    leave.set_member(102);
    leave.set_finished(true);
    REQUIRE(root.registry.leave(host(2), leave).ok());
    CHECK_FALSE(root.registry.check(kInstance));
    // Another's word does not count.
    leave.set_member(103);
    leave.set_finished(false);
    leave.set_reason("its application went away");
    REQUIRE(root.registry.leave(host(2), leave).ok());
    CHECK_FALSE(root.registry.check(kInstance));
    REQUIRE(root.registry.leave(host(3), leave).ok());
    const auto outcome = root.registry.renew(host(2), renew_of(2));
    CHECK(outcome->state() == v1::GroupOutcome::STATE_FAILED);
    CHECK(outcome->error() == "group train: h3 (198.18.3.2) has left it: its application went away");
}

TEST_CASE(
    "a member that leaves while the group is opened at the switch, or is another by then, ends it by name") {
    for (const bool again : {false, true}) {
        CAPTURE(again);
        Root root;
        REQUIRE(root.registry.join(host(2), join_of(2, 1)).ok());
        REQUIRE(root.registry.join(host(3), join_of(3, 2)).ok());
        const v1::JoinGroupReply ready = root.ready_of_all();
        v1::LeaveGroupRequest leave;
        leave.set_member(102);
        REQUIRE(root.registry.leave(host(2), leave).ok());
        if (again) {
            v1::JoinGroupRequest anew = join_of(2, 1);
            anew.set_incarnation(6);
            REQUIRE(root.registry.join(host(2), anew).ok());
        }
        const auto published = root.registry.publish(kInstance, ready);
        CHECK(published.error().code() == Errc::kAborted);
        CHECK(published.error().text() == "group train: rank 1, h2 (198.18.2.2), left it before it began");
        CHECK_FALSE(root.registry.check(kInstance));
    }
}

TEST_CASE("a group that has failed is in nobody's way: its id is waited for, and its members hear why") {
    Root root;
    REQUIRE(root.registry.join(host(2), join_of(2, 1)).ok());
    root.registry.fail(kInstance, Error(Errc::kAborted, "group train: it was to fail"));
    CHECK(root.registry.join(host(2), join_of(2, 1)).error().text() == "group train: it was to fail");
    v1::JoinGroupRequest anew = join_of(2, 1, 2);
    anew.set_member(7);
    CHECK(root.registry.join(host(2), anew).error().code() == Errc::kUnknown);
    const auto open = [&] {
        return root.registry.open({.id = "train",
                                   .size = 2,
                                   .members = {"", {}, {}, ""},
                                   .instance = kInstance + 1,
                                   .lease = std::chrono::hours(1),
                                   .mailbox = nullptr});
    };
    CHECK(open().error().code() == Errc::kUnavailable);
    root.registry.close(kInstance);
    CHECK(open().ok());
}

TEST_CASE("a member that is silent for longer than its lease is named") {
    Root root("", Clock::duration::zero());
    root.all_join();
    const auto error = root.registry.check(kInstance);
    REQUIRE(error);
    // The root's own is the one that looks.
    CHECK(error->text().starts_with("group train: rank 1, h2 (198.18.2.2), has been silent for"));
}

TEST_CASE("once all have left, each hears so, also after the group is closed") {
    Root root;
    root.all_join();
    for (const std::uint32_t number : {2U, 3U}) {
        v1::LeaveGroupRequest leave;
        leave.set_instance(kInstance);
        leave.set_member(100 + number);
        leave.set_finished(true);
        REQUIRE(root.registry.leave(host(number), leave).ok());
    }
    CHECK_FALSE(root.registry.all_left(kInstance));
    CHECK(
        root.registry.open({.id = "train", .size = 3, .members = {}, .instance = 10, .mailbox = root.mailbox})
            .error()
            .code() == Errc::kExists);
    CHECK(root.registry.finish(kInstance, 0));
    CHECK(
        root.registry.open({.id = "train", .size = 3, .members = {}, .instance = 10, .mailbox = root.mailbox})
            .error()
            .code() == Errc::kUnavailable);
    CHECK(root.registry.join(host(2), join_of(2, 1)).error().code() == Errc::kUnknown);
    root.registry.close(kInstance);
    // What is remembered of it holds nothing of its session: a mailbox has a descriptor.
    CHECK(root.mailbox.use_count() == 1);
    CHECK(root.registry.renew(host(2), renew_of(2))->state() == v1::GroupOutcome::STATE_LEFT);
    CHECK(root.registry.renew(host(2), renew_of(3))->state() == v1::GroupOutcome::STATE_UNKNOWN);
    CHECK(root.registry.join(host(2), join_of(2, 1)).error().code() == Errc::kUnknown);
}
