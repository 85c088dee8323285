// SPDX-License-Identifier: Apache-2.0
#include "agent/channels.h"

#include <doctest/doctest.h>

#include "agent/switch_keeper.h"
#include "tests/unit/agent/local_agent.h"

using namespace ask;
using namespace ask::test;

namespace {

ChannelLease must_get(Channels& channels, bool at_switch = false) {
    auto lease = channels.acquire(std::make_shared<Mailbox>(), at_switch);
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
    CHECK_FALSE(channels.acquire(early, false)->has_value());
    CHECK_FALSE(channels.acquire(late, false)->has_value());
    channels.release(only);
    CHECK(late->take().empty());
    await(*early, SessionEvent::Kind::kChannelFree);
    CHECK_FALSE(channels.acquire(late, false)->has_value());
    auto granted = channels.acquire(early, false);
    REQUIRE(granted->has_value());
    // Whoever gives up does not keep a channel from the next.
    channels.release(**granted);
    channels.withdraw(late);
    CHECK(must_get(channels).id == only.id);
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
