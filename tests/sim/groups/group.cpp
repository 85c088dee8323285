// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/groups/group.h"

#include <algorithm>
#include <numeric>

#include "lib/abi/consts.h"
#include "tests/sim/frame/frames.h"

namespace ask::sim::groups {

namespace {

// A round for ALONE and one after a collision may fall together; a third must be this much later.
constexpr Nanos kRounds = 500 * kMicrosecond;

}  // namespace

Group::Group(World& world, std::uint32_t as) : number(as), ledger(world.plan.members) {
    const Plan& plan = world.plan;
    Random& random = world.identities;
    hosts.resize(plan.hosts);
    std::iota(hosts.begin(), hosts.end(), 0U);
    for (std::size_t i = 0; i < hosts.size(); ++i) {
        std::swap(hosts[i], hosts[i + random.below(hosts.size() - i)]);
    }
    hosts.resize(plan.members);
    // The number in it is for the trace.
    terms.instance = (random.next() | 1U) << 16U | as;
    terms.secret = {random.next(), random.next()};
    for (const std::uint32_t host : hosts) {
        terms.seats.push_back({.channel = {.host = address_of(host),
                                           .port = static_cast<std::uint16_t>(ASK_CHANNEL_PORT_BASE + as)},
                               .incarnation = 1 + static_cast<std::uint32_t>(random.below(1000))});
    }
    terms.root = static_cast<std::uint32_t>(random.below(plan.members));
    // More than the pool has would collide with itself: the switch says so when the group is opened.
    terms.window = plan.pool == 0 ? plan.window : std::min(plan.window, plan.pool);
    terms.streams = plan.streams;
    terms.blocks = plan.blocks;
    through = plan.through != 0;
    const std::uint64_t first = 1 + random.below(3);
    for (std::uint32_t i = 0; i < plan.operations; ++i) {
        works.push_back(draw_work(plan, first + i, random));
    }
}

bool Group::too_many_needs(std::uint32_t stream, std::uint64_t seq, std::uint32_t member, Nanos now) {
    auto [at, is_new] = asked[{stream, seq}].needs.try_emplace(member);
    auto& last = at->second;
    if (is_new) {
        last.fill(-kSecond);
    }
    const bool many = now - last[1] < kRounds;
    std::shift_right(last.begin(), last.end(), 1);
    last[0] = now;
    return many;
}

}  // namespace ask::sim::groups
