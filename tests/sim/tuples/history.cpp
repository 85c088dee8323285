// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/tuples/history.h"

#include <algorithm>
#include <cinttypes>
#include <utility>

#include "lib/abi/wire.h"

namespace ask::sim {

namespace {

// The longest that a session waits without anything moving: to join, for an ACK, for the last swap, for the
// last fetch. Each wait lasts for the deadline, and until the calls that are under way then have ended.
constexpr Nanos kWaits = 4;
constexpr Nanos kLongestCalls = 15 * kSecond;
// Or the clock stands.
constexpr std::uint64_t kMostEvents = 50'000'000;
constexpr Nanos kShortestRestart = 200 * kMicrosecond;
constexpr Nanos kLongestCut = 300 * kMillisecond;
constexpr Nanos kLongestStop = 3 * SwitchDaemon::kLease;

}  // namespace

History::History(const Plan& plan, std::uint64_t seed, bool traced)
    : world_(plan, seed, traced),
      network_(world_),
      oracle_(world_),
      chance_(world_),
      stranger_({world_, network_, switchds_, hosts_, relayds_}, seed),
      intruder_({world_, network_, switchds_, hosts_, relayds_}, seed),
      apps_(world_, oracle_, hosts_, seed),
      streams_(world_, hosts_, seed) {
    set_world(&world_);
    build();
}

History::~History() {
    // Threads end while the world they live in is still there.
    apps_.kill();
    streams_.kill();
    chance_.kill();
    stranger_.kill();
    intruder_.kill();
    for (const auto& relayd : relayds_) {
        relayd->kill();
    }
    for (const auto& host : hosts_) {
        host->kill();
    }
    for (const auto& switchd : switchds_) {
        switchd->kill();
    }
    set_world(nullptr);
}

void History::build() {
    const Plan& plan = world_.plan;
    steps_to_death_.assign(plan.switches, 0);
    for (std::uint32_t i = 0; i < plan.switches; ++i) {
        planes_.push_back(std::make_unique<DataPlane>(world_, network_, i));
        switchds_.push_back(std::make_unique<SwitchDaemon>(world_, *planes_[i], network_, i,
                                                           [this, i] { return dies_at_step(i); }));
        later(Nanos{plan.late} * kMillisecond, Act::kStartSwitchd, i);
    }
    for (std::uint32_t i = 0; i < plan.nodes(); ++i) {
        hosts_.push_back(std::make_unique<Host>(Cast{world_, network_, switchds_, hosts_, relayds_}, i));
    }
    for (std::uint32_t i = plan.hosts; i < plan.nodes(); ++i) {
        relayds_.push_back(
            std::make_unique<RelayDaemon>(Cast{world_, network_, switchds_, hosts_, relayds_}, oracle_, i));
    }
    for (const auto& host : hosts_) {
        host->start();
    }
    for (const auto& relayd : relayds_) {
        relayd->start();
    }
    network_.to_host = [this](std::uint32_t host, FramePtr frame) { hosts_[host]->take(std::move(frame)); };
    network_.to_switch = [this](std::uint32_t number, FramePtr frame, std::uint32_t port) {
        planes_[number]->receive(std::move(frame), port);
    };
}

std::uint32_t History::some_task_host(bool receiver) {
    const Plan& plan = world_.plan;
    if (receiver) {
        return static_cast<std::uint32_t>(world_.control.below(plan.receivers));
    }
    return static_cast<std::uint32_t>(
        world_.control.between(plan.hosts > plan.receivers ? plan.receivers : 0, plan.hosts - 1));
}

void History::strikes() {
    const Plan& plan = world_.plan;
    std::vector<std::uint32_t> kinds;
    const std::uint32_t counts[] = {plan.switchd_deaths,  plan.reboots,     plan.sender_deaths,
                                    plan.receiver_deaths, plan.partitions,  plan.switchd_stops,
                                    plan.reroutes,        plan.agent_stops, plan.relay_deaths,
                                    plan.relay_stops,     plan.relay_hangs};
    for (std::uint32_t kind = 0; kind < std::size(counts); ++kind) {
        kinds.insert(kinds.end(), counts[kind], kind);
    }
    while (!kinds.empty()) {
        park(nullptr, world_.clock.now() + until_strike(kinds.size()));
        const std::size_t at = world_.control.below(kinds.size());
        later(0, Act::kStrike, kinds[at]);
        kinds.erase(kinds.begin() + static_cast<std::ptrdiff_t>(at));
    }
}

// Streams take as long as their windows.
Nanos History::until_strike(std::size_t left) {
    if (!has_windows()) {
        return some_time(world_.control, 5, 15);
    }
    const Nanos rest = world_.plan.windows * kSecond - world_.clock.now();
    const Nanos share = std::max<Nanos>(rest, kSecond) / static_cast<Nanos>(left);
    return static_cast<Nanos>(world_.control.below(static_cast<std::uint64_t>(share)));
}

Nanos History::until_restart() {
    return kShortestRestart + some_time(world_.control, 3, has_windows() ? 21 : 14);
}

void History::strike(std::uint32_t kind) {
    const auto number = static_cast<std::uint32_t>(world_.control.below(world_.plan.switches));
    const Nanos deadline = Nanos{world_.plan.deadline} * kMillisecond;
    switch (kind) {
        case 0:
            // Now, or in the middle of what it does next.
            if (world_.control.below(3) == 0) {
                kill_switchd(number);
            } else {
                steps_to_death_[number] = static_cast<std::uint32_t>(world_.control.between(1, 24));
            }
            break;
        case 1:
            kill_switchd(number);
            planes_[number]->reboot();
            break;
        case 2:
            kill_agent(some_task_host(false));
            break;
        case 3:
            kill_agent(some_task_host(true));
            break;
        case 6: {
            const std::uint32_t host = some_task_host(world_.control.below(2) == 0);
            world_.note("host %u: its packets go round the switch", host);
            network_.reroute(host, true);
            later(std::min(some_time(world_.control, 6, 18), kLongestCut), Act::kRouteBack, host);
            break;
        }
        case 7: {
            const std::uint32_t host = some_task_host(world_.control.below(2) == 0);
            if (hosts_[host]->up()) {
                hosts_[host]->stop();
                later(std::min(some_time(world_.control, 6, 21), deadline / 2), Act::kWakeAgent, host);
            }
            break;
        }
        case 8:
        case 9:
            strike_relay(kind == 9);
            break;
        case 10:
            hang_relay();
            break;
        case 5:
            if (switchds_[number]->up()) {
                switchds_[number]->stop();
                // Each second time longer than a lease.
                later(world_.control.below(2) == 0
                          ? some_time(world_.control, 10, 18)
                          : static_cast<Nanos>(world_.control.between(SwitchDaemon::kLease, kLongestStop)),
                      Act::kWakeSwitchd, number);
            }
            break;
        default: {
            const std::uint32_t host = some_task_host(world_.control.below(2) == 0);
            world_.note("host %u: cut off", host);
            network_.cut(host, true);
            later(std::min(some_time(world_.control, 6, 18), kLongestCut), Act::kJoinLink, host);
            break;
        }
    }
}

void History::strike_relay(bool stops) {
    if (relayds_.empty()) {
        return;
    }
    const auto number = static_cast<std::uint32_t>(world_.control.below(relayds_.size()));
    if (stops) {
        if (relayds_[number]->up()) {
            relayds_[number]->stop();
            const Nanos deadline = Nanos{world_.plan.deadline} * kMillisecond;
            later(std::min(some_time(world_.control, 6, 22), deadline), Act::kWakeRelayd, number);
        }
        return;
    }
    const std::uint64_t what = world_.control.below(3);
    if (what != 0) {
        kill_relayd(number);
    }
    if (what != 1) {
        kill_agent(world_.plan.hosts + number);
    }
}

// Nothing wakes it.
void History::hang_relay() {
    if (relayds_.empty()) {
        return;
    }
    const auto number = static_cast<std::uint32_t>(world_.control.below(relayds_.size()));
    Host& agent = *hosts_[world_.plan.hosts + number];
    if (world_.control.below(3) == 0) {
        if (agent.up()) {
            agent.stop();
        }
    } else if (relayds_[number]->up()) {
        relayds_[number]->stop();
    }
}

bool History::dies_at_step(std::uint32_t number) {
    std::uint32_t& left = steps_to_death_[number];
    if (left == 0 || --left > 0) {
        return false;
    }
    later(0, Act::kKillSwitchd, number);
    return true;
}

void History::later(Nanos delay, Act act, std::uint32_t number) {
    world_.clock.in(delay, this, std::uint64_t{number} << 8U | static_cast<std::uint64_t>(act));
}

void History::kill_switchd(std::uint32_t number) {
    if (!switchds_[number]->up()) {
        return;
    }
    switchds_[number]->kill();
    later(until_restart(), Act::kStartSwitchd, number);
}

void History::kill_agent(std::uint32_t host) {
    if (!hosts_[host]->up()) {
        return;
    }
    hosts_[host]->kill();
    later(until_restart(), Act::kStartAgent, host);
}

void History::kill_relayd(std::uint32_t number) {
    if (!relayds_[number]->up()) {
        return;
    }
    relayds_[number]->kill();
    later(until_restart(), Act::kStartRelayd, number);
}

void History::fire(std::uint64_t argument) {
    const auto number = static_cast<std::uint32_t>(argument >> 8U);
    switch (static_cast<Act>(argument & 0xffU)) {
        case Act::kKillSwitchd:
            kill_switchd(number);
            break;
        case Act::kStartSwitchd:
            if (!switchds_[number]->up()) {
                switchds_[number]->start();
            }
            break;
        case Act::kWakeSwitchd:
            switchds_[number]->go_on();
            break;
        case Act::kStartAgent:
            hosts_[number]->start();
            break;
        case Act::kStartRelayd:
            relayds_[number]->start();
            break;
        case Act::kWakeRelayd:
            relayds_[number]->go_on();
            break;
        case Act::kWakeAgent:
            hosts_[number]->go_on();
            break;
        case Act::kStrike:
            strike(number);
            break;
        case Act::kRouteBack:
            world_.note("host %u: its packets pass the switch again", number);
            network_.reroute(number, false);
            break;
        case Act::kJoinLink:
            world_.note("host %u: joined again", number);
            network_.cut(number, false);
            break;
    }
}

// Whoever was told of nothing is left waiting for nothing, and nothing is left lying about.
void History::check_end() {
    stranger_.kill();
    intruder_.kill();
    if (has_windows()) {
        streams_.kill();
        streams_.check();
    }
    if (!world_.failure.empty()) {
        return;
    }
    const Nanos settled = world_.clock.now() + kLongestStop + 3 * SwitchDaemon::kLease;
    while (world_.failure.empty() && world_.clock.now() < settled && world_.clock.step()) {
    }
    for (auto& host : hosts_) {
        host->check_nothing_left();
    }
    for (auto& relayd : relayds_) {
        relayd->check_nothing_left();
    }
    for (auto& switchd : switchds_) {
        switchd->check_nothing_left();
    }
    for (auto& plane : planes_) {
        plane->check_counters();
    }
}

// How long a history takes says nothing: where most packets get lost, a sound one takes an hour for some
// hundred tuples.
bool History::stands_still() const {
    const Nanos limit = kWaits * (Nanos{world_.plan.deadline} * kMillisecond + kLongestCalls);
    return world_.clock.now() - world_.moved > limit ||
           world_.clock.events() - world_.moved_at_event > kMostEvents;
}

Verdict History::run() {
    if (has_windows()) {
        streams_.start();
    } else {
        apps_.start();
    }
    chance_.spawn([this] { strikes(); });
    stranger_.start();
    intruder_.start();
    while (!is_over() && world_.failure.empty()) {
        if (!world_.clock.step() || stands_still()) {
            world_.fail(Promise::kWait, "somebody still waits, but for " +
                                            std::to_string((world_.clock.now() - world_.moved) / kSecond) +
                                            " s nothing has moved");
        }
    }
    if (world_.failure.empty()) {
        check_end();
    }
    Verdict verdict{.broken = world_.broken,
                    .failure = world_.failure,
                    .events = world_.clock.events(),
                    .frames = network_.frames(),
                    .commits = oracle_.commits(),
                    .windows = streams_.commits(),
                    .errors = apps_.errors() + streams_.errors(),
                    .time = world_.clock.now()};
    for (const auto& switchd : switchds_) {
        verdict.swaps += switchd->swaps();
    }
    return verdict;
}

}  // namespace ask::sim
