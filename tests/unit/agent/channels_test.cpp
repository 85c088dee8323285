// SPDX-License-Identifier: Apache-2.0
#include "lib/control/member/channels.h"

#include <doctest/doctest.h>

#include "lib/control/member/switch_keeper.h"
#include "tests/unit/agent/local_agent.h"

using namespace ask;
using namespace ask::test;

namespace {

// For a task of its own, unless it is told for which.
ChannelLease must_get(Channels& channels, bool at_switch = false, std::uint64_t instance = 0) {
    static std::uint64_t next = 1000;
    auto lease = channels.acquire(std::make_shared<Mailbox>(),
                                  {.instance = instance == 0 ? ++next : instance, .at_switch = at_switch});
    REQUIRE(lease.ok());
    REQUIRE(lease->has_value());
    return std::move(**lease);
}

}  // namespace

TEST_CASE("channels are created up to the limit and used again") {
    LocalAgent agent(2);
    Channels channels(&agent.workers, kHost, 2);
    ChannelLease first = must_get(channels);
    ChannelLease second = must_get(channels);
    CHECK(first.id != second.id);
    CHECK(first.incarnation != 0);
    channels.release(first);
    CHECK(must_get(channels).id == first.id);
    CHECK(channels.list().size() == 2);
}

TEST_CASE("who waits longest gets the next channel") {
    LocalAgent agent(1);
    Channels channels(&agent.workers, kHost, 1);
    ChannelLease only = must_get(channels);
    const auto early = std::make_shared<Mailbox>();
    const auto late = std::make_shared<Mailbox>();
    CHECK_FALSE(channels.acquire(early, {.instance = 1})->has_value());
    CHECK_FALSE(channels.acquire(late, {.instance = 2})->has_value());
    channels.release(only);
    CHECK(late->take().empty());
    await(*early, SessionEvent::Kind::kChannelFree);
    CHECK_FALSE(channels.acquire(late, {.instance = 2})->has_value());
    auto granted = channels.acquire(early, {.instance = 1});
    REQUIRE(granted->has_value());
    // Whoever gives up does not keep a channel from the next.
    channels.release(**granted);
    channels.withdraw(late);
    CHECK(must_get(channels).id == only.id);
}

TEST_CASE(
    "a user has seven eighths of the channels at most, and waits for one of his own; root has them all") {
    constexpr std::uint32_t kUser = 1000;
    constexpr std::uint32_t kOther = 1001;
    LocalAgent agent(1);
    Channels channels(&agent.workers, kHost, 8);
    const auto mine = std::make_shared<Mailbox>();
    const auto others = std::make_shared<Mailbox>();
    std::vector<ChannelLease> leases;
    for (std::uint64_t instance = 1; instance <= 7; ++instance) {
        auto lease = channels.acquire(std::make_shared<Mailbox>(), {.instance = instance, .user = kUser});
        REQUIRE(lease->has_value());
        leases.push_back(**lease);
    }
    CHECK_FALSE(channels.acquire(mine, {.instance = 8, .user = kUser})->has_value());
    const auto other = channels.acquire(others, {.instance = 9, .user = kOther});
    REQUIRE(other->has_value());
    // Another's that comes back is none of his.
    channels.release(**other);
    CHECK(mine->take().empty());
    CHECK(channels.acquire(others, {.instance = 10})->has_value());
    channels.release(leases.back());
    await(*mine, SessionEvent::Kind::kChannelFree);
    CHECK((*channels.acquire(mine, {.instance = 8, .user = kUser}))->id == leases.back().id);
}

TEST_CASE("a task without a switch gets a channel that no switch knows, if there is one") {
    LocalAgent agent(1);
    Channels channels(&agent.workers, kHost, 2);
    ChannelLease known = must_get(channels);
    known.registered = {1, 9};
    channels.release(known);
    const ChannelLease fresh = must_get(channels, false);
    CHECK(fresh.id != known.id);
    channels.release(fresh);
    const ChannelLease again = must_get(channels, true);
    CHECK(again.id == known.id);
    CHECK(again.registered == Mark{1, 9});
    const ChannelLease other = must_get(channels, false);
    CHECK(other.id == fresh.id);
    channels.release(again);
    CHECK(must_get(channels, false).id == known.id);
}

// The simulator could not find this: its model of the agents had no pool that learns late.
TEST_CASE("a channel in use is not taken for left over, whatever the pool knows of it") {
    std::vector<Channels::Entry> own(2);
    own[0].lease.id = {kHost, 49152};
    own[0].lease.incarnation = 7;
    own[0].in_use = true;
    own[1].lease.id = {kHost, 49153};
    own[1].lease.incarnation = 8;
    CHECK(left_over(own, {kHost, 49152}, 7) == LeftOver::kNo);
    // Its session may have registered it under this one, or a former agent had.
    CHECK(left_over(own, {kHost, 49152}, 99) == LeftOver::kPerhaps);
    CHECK(left_over(own, {kHost, 49153}, 8) == LeftOver::kNo);
    CHECK(left_over(own, {kHost, 49153}, 99) == LeftOver::kYes);
    CHECK(left_over(own, {kHost, 49154}, 7) == LeftOver::kYes);
}

// Switch and receiver know a sender of a task by its channel. The simulator has a pool of its own, whose
// channels stay with a send until its end: it could not find that a task cannot have more senders than that
// has channels.
TEST_CASE("of one task's sends each gets a channel of its own, also once another has given its back") {
    LocalAgent agent(1);
    Channels channels(&agent.workers, kHost, 3);
    const ChannelLease first = must_get(channels, false, 7);
    channels.release(first);
    const ChannelLease second = must_get(channels, false, 7);
    CHECK(second.id != first.id);
    // Another task may have the one that is idle.
    const ChannelLease other = must_get(channels, false, 8);
    CHECK(other.id == first.id);
    const ChannelLease third = must_get(channels, false, 7);
    CHECK(third.id != first.id);
    CHECK(third.id != second.id);
}

TEST_CASE("a send whose task has had all channels is refused at once, and who waits for nothing too") {
    LocalAgent agent(1);
    Channels channels(&agent.workers, kHost, 2);
    const ChannelLease one = must_get(channels, false, 7);
    const ChannelLease two = must_get(channels, false, 8);
    // The second channel may become free, for one of the two.
    const auto early = std::make_shared<Mailbox>();
    const auto late = std::make_shared<Mailbox>();
    CHECK_FALSE(channels.acquire(early, {.instance = 7})->has_value());
    CHECK_FALSE(channels.acquire(late, {.instance = 7})->has_value());
    // This one is no use to them.
    channels.release(one);
    CHECK(early->take().empty());
    CHECK_FALSE(channels.acquire(early, {.instance = 7})->has_value());
    channels.release(two);
    await(*early, SessionEvent::Kind::kChannelFree);
    CHECK((*channels.acquire(early, {.instance = 7}))->id == two.id);
    const auto refused = channels.acquire(late, {.instance = 7});
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code() == Errc::kLimit);
    CHECK(refused.error().text().find("max_channels") != std::string::npos);
    // Anew, as well.
    CHECK_FALSE(channels.acquire(late, {.instance = 7}).ok());
    CHECK(must_get(channels, false, 9).id == one.id);
}

TEST_CASE("a channel that is kept for another instance of the task must not have served that") {
    LocalAgent agent(1);
    Channels channels(&agent.workers, kHost, 1);
    channels.release(must_get(channels, false, 7));
    const ChannelLease lease = must_get(channels, false, 8);
    CHECK(channels.serve(lease.id, 9));
    CHECK_FALSE(channels.serve(lease.id, 9));
    CHECK_FALSE(channels.serve(lease.id, 7));
}
