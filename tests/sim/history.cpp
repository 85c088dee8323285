// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/history.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <utility>

#include "lib/abi/wire.h"
#include "lib/net/address.h"

namespace ask::sim {

namespace {

constexpr std::uint32_t kAttempts = 3;
// The longest that a session waits without anything moving: to join, for an ACK, for the last swap, for the
// last fetch. Each wait lasts for the deadline, and until the calls that are under way then have ended.
constexpr Nanos kWaits = 4;
constexpr Nanos kLongestCalls = 5 * kSecond;
// Or the clock stands.
constexpr std::uint64_t kMostEvents = 50'000'000;
constexpr Nanos kShortestRestart = 200 * kMicrosecond;
constexpr Nanos kLongestCut = 300 * kMillisecond;
constexpr Nanos kLongestStop = 3 * SwitchDaemon::kLease;

const char* type_name(std::uint8_t type) {
    constexpr const char* kNames[] = {"?", "DATA", "LONG", "ACK", "FIN"};
    return type <= ASK_FIN ? kNames[type] : "?";
}

// From 2^low to 2^high microseconds, each magnitude as likely.
Nanos some_time(Random& random, unsigned low, unsigned high) {
    const std::uint64_t top = std::uint64_t{1} << random.between(low, high);
    return static_cast<Nanos>(random.between(top / 2, top)) * kMicrosecond;
}

}  // namespace

std::string frame_text(const Frame& frame) {
    if (frame.size < kFrameHeaderBytes + sizeof(ask_hdr)) {
        return std::to_string(frame.size) + " bytes";
    }
    ask_hdr header;
    std::memcpy(&header, &frame.bytes[kFrameHeaderBytes], sizeof(header));
    std::string text =
        std::string(type_name(header.type)) + " " + std::to_string(__builtin_bswap64(header.seq)) + " of " +
        format_ipv4(__builtin_bswap32(header.host)) + ":" + std::to_string(__builtin_bswap16(header.port)) +
        " task " + std::to_string(__builtin_bswap64(header.task) & 0xffffU) + " mark " +
        std::to_string(__builtin_bswap16(header.mark_switch));
    for (unsigned row = 0; row < header.rows && row < ASK_MAX_ROWS; ++row) {
        std::uint32_t bits = 0;
        const std::size_t at = kFrameHeaderBytes + sizeof(header) + row * sizeof(bits);
        if (at + sizeof(bits) <= frame.size) {
            std::memcpy(&bits, &frame.bytes[at], sizeof(bits));
            char hex[12];
            std::snprintf(hex, sizeof(hex), " %x", __builtin_bswap32(bits));
            text += static_cast<const char*>(hex);
        }
    }
    return text;
}

History::History(const Plan& plan, std::uint64_t seed, bool traced)
    : seed_(seed), world_(plan, seed, traced), network_(world_), oracle_(world_) {
    set_world(&world_);
    build();
}

History::~History() {
    apps_.kill();
    world_.wire.kill();
    for (auto& agent : agents_) {
        agent->process.kill();
    }
    // Their threads end while the world they live in is still there.
    switchds_.clear();
    set_world(nullptr);
}

void History::build() {
    const Plan& plan = world_.plan;
    steps_to_death_.assign(plan.switches, 0);
    for (std::uint32_t i = 0; i < plan.switches; ++i) {
        planes_.push_back(std::make_unique<DataPlane>(world_, network_, i));
        switchds_.push_back(std::make_unique<SwitchDaemon>(world_, *planes_[i], network_, i,
                                                           [this, i] { return dies_at_step(i); }));
        switchds_[i]->start();
    }
    const Parts parts{world_, network_, oracle_, switchds_, agents_};
    for (std::uint32_t i = 0; i < plan.hosts; ++i) {
        agents_.push_back(std::make_unique<Agent>(parts, i));
    }
    for (auto& agent : agents_) {
        agent->start();
    }
    network_.to_host = [this](std::uint32_t host, FramePtr frame) {
        agents_[host]->receive(std::move(frame));
    };
    network_.to_switch = [this](std::uint32_t number, FramePtr frame, std::uint32_t port) {
        planes_[number]->receive(std::move(frame), port);
    };
}

// A session in an agent, until it ends or the agent dies.
Job<Result<Done>> History::in_agent(Agent& agent, std::function<Job<Result<Done>>()> body) {
    while (!agent.process.up()) {
        co_await world_.sleep(kMillisecond);
    }
    world_.moves();
    const std::uint64_t life = agent.life();
    auto result = std::make_shared<std::optional<Result<Done>>>();
    struct Session {
        static Job<> run(World& world, Agent& of, std::shared_ptr<std::optional<Result<Done>>> into,
                         std::function<Job<Result<Done>>()> what) {
            Job<Result<Done>> work = what();
            Result<Done> outcome = co_await work;
            into->emplace(std::move(outcome));
            of.sessions.notify(world.clock);
            co_return Done{};
        }
    };
    agent.process.spawn(Session::run(world_, agent, result, std::move(body)));
    while (!result->has_value() && agent.life() == life) {
        co_await agent.sessions.wait_until(world_.clock, kNever);
    }
    world_.moves();
    if (result->has_value()) {
        co_return std::move(**result);
    }
    co_return Error(Errc::kAborted, "the agent has died");
}

// The tasks of one receiver, one after another; each is tried again if it fails, as a new instance.
Job<> History::receiver_apps(std::uint32_t receiver) {
    Random random(seed_, 100 + receiver);
    for (std::uint32_t i = 0; i < world_.plan.tasks; ++i) {
        auto task = std::make_shared<TaskApps>();
        task->id = "t" + std::to_string(receiver) + "-" + std::to_string(i);
        task->receiver = receiver;
        std::vector<std::uint32_t> others;
        for (std::uint32_t host = 0; host < world_.plan.hosts; ++host) {
            if (host != receiver) {
                others.push_back(host);
            }
        }
        const std::uint32_t wanted = std::min<std::uint32_t>(world_.plan.senders, world_.plan.hosts - 1);
        for (std::uint32_t n = 0; n < wanted; ++n) {
            const std::size_t at = random.below(others.size());
            task->senders.push_back(others[at]);
            others.erase(others.begin() + static_cast<std::ptrdiff_t>(at));
        }
        task->sending = wanted;
        for (const std::uint32_t host : task->senders) {
            auto tuples = std::make_shared<const Tuples>(
                make_tuples(world_.plan, seed_, (receiver * 100ULL + i) * 1000 + host));
            apps_.spawn(sender_app(task, host, std::move(tuples), some_time(random, 0, 10)));
        }
        Agent& agent = *agents_[receiver];
        bool done = false;
        for (std::uint32_t attempt = 0; attempt < kAttempts && !done; ++attempt) {
            std::function<Job<Result<Done>>()> receive = [&agent, id = task->id, wanted] {
                return agent.receive_task(id, wanted);
            };
            const Result<Done> result = co_await in_agent(agent, std::move(receive));
            done = result.ok();
            if (!done) {
                ++errors_;
                if (tasks_must_succeed()) {
                    world_.fail(Promise::kTask, "task " + task->id + ": nothing died, but it failed: " +
                                                    result.error().text());
                }
                co_await world_.sleep(some_time(random, 5, 14));
            }
        }
        task->over = true;
        while (task->sending > 0) {
            co_await task->changed.wait_until(world_.clock, kNever);
        }
    }
    --receivers_left_;
    co_return Done{};
}

Job<> History::sender_app(std::shared_ptr<TaskApps> task, std::uint32_t host,
                          std::shared_ptr<const Tuples> tuples, Nanos delay) {
    co_await world_.sleep(delay);
    Agent& agent = *agents_[host];
    bool done = false;
    // It may have to look for the task longer than a receiver tries to run it.
    for (std::uint32_t attempt = 0; attempt < 2 * kAttempts && !done && !task->over; ++attempt) {
        std::function<Job<Result<Done>>()> send = [&agent, id = task->id, to = task->receiver, tuples] {
            return agent.send_task(id, to, tuples);
        };
        const Result<Done> result = co_await in_agent(agent, std::move(send));
        done = result.ok();
        if (!done && tasks_must_succeed()) {
            world_.fail(Promise::kTask, "task " + task->id + ": nothing died, but the send of host " +
                                            std::to_string(host) + " failed: " + result.error().text());
        }
        if (!done) {
            co_await world_.sleep(5 * kMillisecond);
        }
    }
    --task->sending;
    task->changed.notify(world_.clock);
    co_return Done{};
}

// Only what dies, a control network that loses calls, or tasks that wait for each other's channels may make a
// task fail.
bool History::tasks_must_succeed() const {
    const Plan& plan = world_.plan;
    return !plan.deadly() && plan.call_loss == 0 && plan.channels >= plan.receivers;
}

std::uint32_t History::some_task_host(bool receiver) {
    const Plan& plan = world_.plan;
    if (receiver) {
        return static_cast<std::uint32_t>(world_.control.below(plan.receivers));
    }
    return static_cast<std::uint32_t>(
        world_.control.between(plan.hosts > plan.receivers ? plan.receivers : 0, plan.hosts - 1));
}

Job<> History::strikes() {
    const Plan& plan = world_.plan;
    std::vector<std::uint32_t> kinds;
    const std::uint32_t counts[] = {plan.switchd_deaths,  plan.reboots,    plan.sender_deaths,
                                    plan.receiver_deaths, plan.partitions, plan.switchd_stops};
    for (std::uint32_t kind = 0; kind < std::size(counts); ++kind) {
        kinds.insert(kinds.end(), counts[kind], kind);
    }
    while (!kinds.empty()) {
        co_await world_.sleep(some_time(world_.control, 5, 15));
        const std::size_t at = world_.control.below(kinds.size());
        strike(kinds[at]);
        kinds.erase(kinds.begin() + static_cast<std::ptrdiff_t>(at));
    }
    co_return Done{};
}

void History::strike(std::uint32_t kind) {
    const auto number = static_cast<std::uint32_t>(world_.control.below(world_.plan.switches));
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
        case 5:
            if (switchds_[number]->process.up()) {
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
    if (!switchds_[number]->process.up()) {
        return;
    }
    switchds_[number]->kill();
    later(kShortestRestart + some_time(world_.control, 3, 14), Act::kStartSwitchd, number);
}

void History::kill_agent(std::uint32_t host) {
    if (!agents_[host]->process.up()) {
        return;
    }
    agents_[host]->kill();
    later(kShortestRestart + some_time(world_.control, 3, 14), Act::kStartAgent, host);
}

void History::fire(std::uint64_t argument) {
    const auto number = static_cast<std::uint32_t>(argument >> 8U);
    switch (static_cast<Act>(argument & 0xffU)) {
        case Act::kKillSwitchd:
            kill_switchd(number);
            break;
        case Act::kStartSwitchd:
            switchds_[number]->start();
            break;
        case Act::kWakeSwitchd:
            switchds_[number]->go_on();
            break;
        case Act::kStartAgent:
            agents_[number]->start();
            break;
        case Act::kJoinLink:
            world_.note("host %u: joined again", number);
            network_.cut(number, false);
            break;
    }
}

// Whoever was told of nothing is left waiting for nothing, and nothing is left lying about.
void History::check_end() {
    const Nanos settled = world_.clock.now() + kLongestStop + 3 * SwitchDaemon::kLease;
    while (world_.failure.empty() && world_.clock.now() < settled && world_.clock.step()) {
    }
    for (auto& agent : agents_) {
        agent->check_nothing_left();
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
    const Plan& plan = world_.plan;
    receivers_left_ = plan.receivers;
    for (std::uint32_t receiver = 0; receiver < plan.receivers; ++receiver) {
        apps_.spawn(receiver_apps(receiver));
    }
    apps_.spawn(strikes());
    while (receivers_left_ > 0 && world_.failure.empty()) {
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
                    .errors = errors_,
                    .time = world_.clock.now()};
    for (const auto& switchd : switchds_) {
        verdict.swaps += switchd->swaps();
    }
    return verdict;
}

}  // namespace ask::sim
