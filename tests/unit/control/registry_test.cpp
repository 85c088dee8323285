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
        registry.close_ranks(kInstance);
        REQUIRE(registry.publish(kInstance, ready_of(kInstance)).ok());
    }
    [[nodiscard]] v1::JoinGroupReply ready_of(std::uint64_t instance) const {
        v1::JoinGroupReply ready;
        ready.set_instance(instance);
        for (const auto& seat : registry.seats(instance)) {
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
    root.registry.settle(kInstance, 0, 1, 0);
    v1::RenewGroupRequest settled = renew_of(2);
    settled.set_settle_step(1);
    const auto outcome = root.registry.renew(host(2), settled);
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
        const v1::JoinGroupReply ready = root.ready_of(kInstance);
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
    CHECK_FALSE(root.registry.check(kInstance));
    root.registry.settle(kInstance, 0, 2, 0);
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

namespace {

v1::GroupOutcome renewed(Root& root, std::uint32_t number, std::uint32_t step, std::uint64_t operations) {
    v1::RenewGroupRequest request = renew_of(number);
    request.set_settle_step(step);
    request.set_operations(operations);
    const auto outcome = root.registry.renew(host(number), request);
    REQUIRE(outcome.ok());
    return *outcome;
}

void die(Root& root, std::uint32_t number) {
    v1::LeaveGroupRequest leave;
    leave.set_instance(kInstance);
    leave.set_member(100 + number);
    leave.set_reason("its application ended early");
    REQUIRE(root.registry.leave(host(number), leave).ok());
}

// Rank 2 dies with 4 operations at rank 0 and 5 at rank 1, which then has what rank 0 lacks.
void settle(Root& root) {
    die(root, 3);
    CHECK_FALSE(root.registry.check(kInstance));
    const auto first = root.registry.settling(kInstance);
    CHECK(first.step == 1);
    CHECK(first.last == 0);
    CHECK(first.dead == 4);
    CHECK(renewed(root, 2, 0, 3).settle_step() == 1);
    root.registry.settle(kInstance, 0, 1, 4);
    const auto second = renewed(root, 2, 1, 5);
    CHECK(second.state() == v1::GroupOutcome::STATE_RUNNING);
    CHECK(second.settle_step() == 2);
    CHECK(second.settle_to() == 5);
    renewed(root, 2, 2, 5);
    root.registry.settle(kInstance, 0, 2, 4);
    CHECK_FALSE(root.registry.check(kInstance));
    root.registry.settle(kInstance, 0, 2, 5);
}

constexpr std::uint64_t kNext = 10;

Result<> open_next(Root& root, std::uint32_t size = 3) {
    return root.registry.open({.id = "train",
                               .size = size,
                               .members = {"", {}, {}, ""},
                               .instance = kNext,
                               .lease = std::chrono::hours(1),
                               .shrink_of = kInstance,
                               .mailbox = root.mailbox});
}

v1::JoinGroupRequest shrink_of(std::uint32_t number, std::uint32_t rank, std::uint64_t operations) {
    v1::JoinGroupRequest request = join_of(number, rank);
    request.set_member(200 + number);
    request.set_shrink_of(kInstance);
    request.set_operations(operations);
    return request;
}

}  // namespace

TEST_CASE("before a group fails for a death, what one survivor has ended ends at all of them") {
    Root root;
    root.all_join();
    settle(root);
    const auto error = root.registry.check(kInstance);
    REQUIRE(error);
    CHECK(error->text() == "group train: h3 (198.18.3.2) has left it: its application ended early");
    CHECK(renewed(root, 2, 2, 5).state() == v1::GroupOutcome::STATE_FAILED);
}

TEST_CASE("a second death while a group settles begins anew with those that are left") {
    Root root;
    root.all_join();
    die(root, 3);
    root.registry.settle(kInstance, 0, 1, 4);
    die(root, 2);
    const auto again = root.registry.settling(kInstance);
    CHECK(again.step == 2);
    CHECK(again.last == 0);
    CHECK(again.dead == 6);
    root.registry.settle(kInstance, 0, 2, 4);
    const auto error = root.registry.check(kInstance);
    REQUIRE(error);
    // The first is to blame.
    CHECK(error->text().starts_with("group train: h3 (198.18.3.2) has left it"));
}

TEST_CASE("who complains does not leave: the group settles and fails for it") {
    Root root;
    root.all_join();
    v1::LeaveGroupRequest complaint;
    complaint.set_instance(kInstance);
    complaint.set_member(102);
    complaint.set_complains(true);
    complaint.set_code(static_cast<std::int32_t>(Errc::kDeadline));
    complaint.set_reason("group train: operation 3: no result within 2 s");
    REQUIRE(root.registry.leave(host(2), complaint).ok());
    CHECK(root.registry.settling(kInstance).dead == 0);
    root.registry.settle(kInstance, 0, 1, 2);
    renewed(root, 2, 1, 2);
    CHECK_FALSE(root.registry.check(kInstance));
    renewed(root, 3, 1, 2);
    const auto error = root.registry.check(kInstance);
    REQUIRE(error);
    CHECK(error->code() == Errc::kDeadline);
    CHECK(error->text() == "group train: operation 3: no result within 2 s");
}

TEST_CASE("survivors go on with new ranks in their former order; the dead do not hold them up") {
    Root root;
    root.all_join();
    CHECK(open_next(root).error().code() == Errc::kExists);
    die(root, 2);
    root.registry.settle(kInstance, 0, 1, 5);
    renewed(root, 3, 1, 5);
    REQUIRE(root.registry.check(kInstance));
    // Until the last group's session is over.
    CHECK(open_next(root).error().code() == Errc::kUnavailable);
    CHECK(root.registry.join(host(3), shrink_of(3, 2, 5)).error().code() == Errc::kUnknown);
    root.registry.close(kInstance);
    REQUIRE(open_next(root).ok());
    CHECK(root.registry.missing(kNext) == "ranks 0, 2");
    REQUIRE(root.registry.seat(kNext, 0, Root::seat_of_root()).ok());
    CHECK(root.registry.missing(kNext) == "rank 2");
    // Another group of that name is not this one.
    CHECK(root.registry.join(host(3), join_of(3, 2)).error().code() == Errc::kUnknown);
    CHECK(root.registry.join(host(3), shrink_of(3, 2, 4)).error().text() ==
          "group train: rank 2, h3 (198.18.3.2), has 4 operations, and the others have 5");
    CHECK(root.registry.join(host(2), shrink_of(2, 1, 5)).error().text() ==
          "group train: rank 1, h2 (198.18.2.2), was given up, and the others go on without it");
    CHECK(root.registry.join(host(2), shrink_of(2, 2, 5)).error().code() == Errc::kDenied);
    REQUIRE(root.registry.join(host(3), shrink_of(3, 2, 5)).ok());
    CHECK(root.registry.missing(kNext).empty());
    root.registry.close_ranks(kNext);
    const auto seats = root.registry.seats(kNext);
    REQUIRE(seats.size() == 2);
    CHECK(seats[0]->own);
    CHECK(seats[1]->name == "h3 (198.18.3.2)");
    CHECK(root.registry.generation_after(kInstance) == 1);
    REQUIRE(root.registry.publish(kNext, root.ready_of(kNext)).ok());
    // A repeat, by its former rank.
    const auto again = root.registry.join(host(3), shrink_of(3, 2, 5));
    REQUIRE(again.ok());
    CHECK(again->instance() == kNext);
}

TEST_CASE("one survivor that does not come in time is left out, and told so") {
    Root root;
    root.all_join();
    settle(root);
    REQUIRE(root.registry.check(kInstance));
    root.registry.close(kInstance);
    REQUIRE(open_next(root).ok());
    REQUIRE(root.registry.seat(kNext, 0, Root::seat_of_root()).ok());
    root.registry.close_ranks(kNext);
    CHECK(root.registry.seats(kNext).size() == 1);
    CHECK(root.registry.join(host(2), shrink_of(2, 1, 5)).error().text() ==
          "group train: h2 (198.18.2.2) did not come in time, and the others have gone on without it");
    REQUIRE(root.registry.publish(kNext, root.ready_of(kNext)).ok());
    root.registry.close(kNext);
    CHECK(root.registry.join(host(2), shrink_of(2, 1, 5)).error().text() ==
          "group train: its survivors have gone on already, without this one");
}

TEST_CASE("a group whose root has died does not shrink, and says why; nor does one that is forgotten") {
    Root root;
    root.all_join();
    root.registry.fail(kInstance, Error(Errc::kAborted, "group train: h1, its root, has left it"));
    root.registry.close(kInstance);
    const auto refused = root.registry.join(host(2), shrink_of(2, 1, 0)).error();
    CHECK(refused.code() == Errc::kAborted);
    CHECK(refused.text() ==
          "group train: it cannot shrink, since its members may have different operations: group train: h1, "
          "its "
          "root, has left it");
    CHECK(open_next(root).error().code() == Errc::kAborted);
    v1::JoinGroupRequest unknown = shrink_of(2, 1, 0);
    unknown.set_shrink_of(77);
    CHECK(root.registry.join(host(2), unknown).error().code() == Errc::kAborted);
}

TEST_CASE("who joins a larger group than runs waits until it has grown") {
    Root root;
    root.all_join();
    const auto early = root.registry.join(host(4), join_of(4, 3, 4)).error();
    CHECK(early.code() == Errc::kUnknown);
    CHECK(early.text() == "group train: is one of 3 members and has not grown to 4 yet");
}

TEST_CASE("who joins a larger group waits for it though the smaller one is not complete yet") {
    Root root;
    CHECK(root.registry.join(host(4), join_of(4, 3, 4)).error().code() == Errc::kUnknown);
    // Who has a place in the smaller one is wrong about its size.
    CHECK(root.registry.join(host(4), join_of(4, 1, 4)).error().code() == Errc::kInput);
}

TEST_CASE("who waits for others hears why the group ended, though it did between two calls") {
    Root root;
    REQUIRE(root.registry.join(host(2), join_of(2, 1)).ok());
    root.registry.fail(kInstance, Error(Errc::kDeadline, "group train: rank 2 of 3 did not join"));
    root.registry.close(kInstance);
    CHECK(root.registry.join(host(2), join_of(2, 1)).error().text() ==
          "group train: rank 2 of 3 did not join");
    CHECK(root.registry.join(host(3), join_of(3, 2)).error().code() == Errc::kUnknown);
}

TEST_CASE("a member that dies while the group is being opened fails it by its name, once it is open") {
    Root root;
    REQUIRE(root.registry.join(host(2), join_of(2, 1)).ok());
    REQUIRE(root.registry.join(host(3), join_of(3, 2)).ok());
    root.registry.close_ranks(kInstance);
    const v1::JoinGroupReply ready = root.ready_of(kInstance);
    die(root, 3);
    REQUIRE(root.registry.publish(kInstance, ready).ok());
    REQUIRE(root.registry.join(host(2), join_of(2, 1)).ok());
    root.registry.settle(kInstance, 0, 1, 0);
    renewed(root, 2, 1, 0);
    const auto error = root.registry.check(kInstance);
    REQUIRE(error);
    CHECK(error->text() == "group train: h3 (198.18.3.2) has left it: its application ended early");
}

TEST_CASE(
    "a member behind another switch hears of the root's at once, and is waited for until it says what came "
    "of it") {
    constexpr Mark kTop{.switch_id = 1, .incarnation = 10};
    GroupRegistry registry;
    REQUIRE(registry
                .open({.id = "train",
                       .size = 3,
                       .members = {"", {}, {}, ""},
                       .instance = kInstance,
                       .lease = std::chrono::hours(1),
                       .mailbox = std::make_shared<Mailbox>(),
                       .last_mark = kTop,
                       .last_switch = "198.19.128.1:4792"})
                .ok());
    GroupRegistry::Seat root = Root::seat_of_root();
    root.registered = kTop;
    REQUIRE(registry.seat(kInstance, 0, root).ok());
    v1::JoinGroupRequest beside = join_of(3, 2);
    *beside.mutable_registered() = mark_to_proto(kTop);
    REQUIRE(registry.join(host(3), beside).ok());
    v1::JoinGroupRequest beyond = join_of(2, 1);
    *beyond.mutable_registered() = mark_to_proto({.switch_id = 2, .incarnation = 20});
    beyond.set_switch_address("198.19.128.2:4792");
    beyond.set_wait_ms(2000);
    const auto begun = Clock::now();
    const auto waiting = registry.join(host(2), beyond);
    REQUIRE_MESSAGE(waiting.ok(), waiting.error().text());
    CHECK(Clock::now() - begun < std::chrono::seconds(1));
    CHECK(waiting->last_switch() == "198.19.128.1:4792");
    CHECK(waiting->last_mark().incarnation() == 10);
    CHECK(registry.missing(kInstance) == "rank 1");
    beyond.set_wait_ms(0);
    v1::JoinGroupRequest in_vain = beyond;
    in_vain.set_last_trouble("it is none of mine");
    REQUIRE(registry.join(host(2), in_vain).ok());
    CHECK(registry.missing(kInstance).empty());
    CHECK(registry.seats(kInstance)[1]->last_trouble == "it is none of mine");
    *beyond.mutable_registered_last() = mark_to_proto(kTop);
    REQUIRE(registry.join(host(2), beyond).ok());
    CHECK(registry.missing(kInstance).empty());
    CHECK(registry.seats(kInstance)[1]->registered_last == kTop);
    CHECK(registry.seats(kInstance)[1]->switch_address == "198.19.128.2:4792");
}
