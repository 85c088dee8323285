// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/tuples/streams.h"

#include <algorithm>
#include <utility>

#include "tests/sim/tuples/agents.h"
#include "tests/sim/tuples/apps.h"
#include "tests/sim/tuples/descriptors.h"
#include "tests/sim/tuples/spins.h"
#include "tools/cli/every.h"

namespace ask::sim {

namespace {

constexpr const char* kStream = "s";
// The least that --every takes.
constexpr Nanos kEvery = kSecond;
// As a service is started again.
constexpr Nanos kRestart = 100 * kMillisecond;
constexpr Nanos kMostRestart = 3 * kSecond;
constexpr Nanos kFinishEvery = 300 * kMillisecond;
// Until whoever is silent, and not known to have died, is done without.
constexpr Nanos kPatience = 30 * kSecond;
// That a member may take to hear that all of it is over.
constexpr Nanos kToHear = 20 * kSecond;
constexpr std::uint64_t kMostErrors = 100;
constexpr int kLost = 13;
constexpr int kIncomplete = 20;

std::uint64_t ms_of(Nanos time) {
    return static_cast<std::uint64_t>(time / kMillisecond);
}

}  // namespace

StreamApps::StreamApps(World& world, std::vector<std::unique_ptr<Host>>& hosts, std::uint64_t seed)
    : world_(world),
      hosts_(hosts),
      chance_(seed, 600'000),
      oracle_(world),
      receiver_chance_(seed, 600'001),
      receiver_(world),
      operator_(world),
      allow_incomplete_(world.plan.incomplete > 0) {}

StreamApps::~StreamApps() {
    kill();
}

void StreamApps::kill() {
    operator_.kill();
    for (const auto& member : members_) {
        member->process.kill();
    }
    receiver_.kill();
    set_agents(nullptr);
    watch_for_spins(nullptr);
    forget_processes();
}

bool StreamApps::is_deadly() const {
    const Plan& plan = world_.plan;
    return plan.deadly() || plan.recv_deaths + plan.send_deaths + plan.partitions + plan.switchd_deaths > 0 ||
           plan.call_loss > 0;
}

void StreamApps::start() {
    const Plan& plan = world_.plan;
    set_agents(&hosts_);
    watch_for_spins(
        [this] { world_.fail(Promise::kWait, "a thread waits for its descriptors without waiting"); });
    ends_at_ = plan.windows * kEvery;
    recv_deaths_ = plan.recv_deaths;
    send_deaths_ = plan.send_deaths;
    for (std::uint32_t host = 1; host < plan.hosts; ++host) {
        add_member(host, chance_);
    }
    world_.later(some_time(chance_, 0, 15), [this] { start_receiver(); });
    for (std::uint32_t i = 0; i < plan.recv_deaths + plan.send_deaths; ++i) {
        world_.later(static_cast<Nanos>(chance_.below(static_cast<std::uint64_t>(ends_at_))),
                     [this] { strike(); });
    }
    operator_.spawn([this] { finish(); });
}

// The first ones are waited for; whoever is beyond them comes later.
void StreamApps::add_member(std::uint32_t number, Random& random) {
    const Plan& plan = world_.plan;
    members_.push_back(std::make_unique<Member>(world_, number, number));
    Member& member = *members_.back();
    member.chance = std::make_unique<Random>(random.next(), number);
    member.has_state = random.below(100) < plan.with_state;
    member.state.memory.member = random.next() | 1U;
    member.quits = random.below(4) == 0;
    member.lines = 1 + random.below(std::max(plan.tuples, 1U));
    const auto clock = static_cast<std::int64_t>(plan.clocks);
    const std::int64_t skew =
        clock == 0 ? 0 : static_cast<std::int64_t>(random.below(2 * plan.clocks)) - clock;
    set_clock(member.process, skew);
    set_clock(hosts_[member.host]->threads(), skew);
    oracle_.named(number, full_name(member.host));
    const bool late = number > plan.senders;
    const Nanos begins = late ? static_cast<Nanos>(random.below(static_cast<std::uint64_t>(ends_at_)))
                              : some_time(random, 0, 19);
    world_.later(begins, [this, &member] { start_member(member); });
    world_.later(begins, [this, &member] { write(member); });
}

// Its log, or the other end of its pipe, gets lines.
void StreamApps::write(Member& member) {
    if (member.over || member.written >= member.lines) {
        wake(*ready_of(member.process));
        return;
    }
    member.written = std::min(member.lines, member.written + 1 + chance_.below(4));
    wake(*ready_of(member.process));
    const std::uint64_t pause = ms_of(ends_at_) * 3 / std::max<std::uint64_t>(member.lines, 1);
    world_.later(static_cast<Nanos>(1 + chance_.below(2 * pause + 2)) * kMillisecond,
                 [this, &member] { write(member); });
}

// The receiver.

void StreamApps::start_receiver() {
    if (!done_ && !whole_ && !std::exchange(receiver_up_, true)) {
        ++receiver_life_;
        world_.note("ask-recv: starts");
        oracle_.ask_recv_starts();
        receiver_.spawn([this] { receive(); });
    }
}

void StreamApps::pause_a_little(Random& random) {
    park(nullptr, world_.clock.now() + some_time(random, 2, 11));
}

cli::EveryOptions StreamApps::every_options() {
    const Plan& plan = world_.plan;
    cli::EveryOptions options;
    options.window.agent = "0";
    options.window.task = kStream;
    options.window.op = plan.count > 0 ? client::TaskOp::kCount : client::TaskOp::kSum;
    options.window.deadline = std::chrono::milliseconds(plan.deadline);
    options.window.geometry = plan.geometry();
    options.window.aggregators = plan.aggregators * (allow_incomplete_ ? 2 : 1);
    options.window.no_switch = plan.aggregators == 0;
    options.window.own_switches = plan.own > 0;
    options.window.policy = plan.policy == ASK_POLICY_REPLACE && !allow_incomplete_
                                ? client::TaskPolicy::kReplace
                                : client::TaskPolicy::kFirstCome;
    options.window.allow_incomplete = allow_incomplete_;
    options.every = std::chrono::seconds(1);
    options.senders = plan.senders;
    options.directory = oracle_.directory();
    // Each step to the disk takes a moment, in which it may be killed.
    options.before_step = [this]() -> Result<> {
        world_.moves();
        if (receiver_chance_.below(4) == 0) {
            pause_a_little(receiver_chance_);
        }
        return {};
    };
    return options;
}

void StreamApps::receive() {
    const cli::EveryOptions options = every_options();
    const cli::StopSignals stop;
    cli::ProgressLine progress("ask-recv", false);
    const int code = cli::receive_every(options, stop, progress);
    world_.note("ask-recv: ends with %d", code);
    world_.later(0, [this, life = receiver_life_, code] { take_code(life, code); });
}

void StreamApps::take_code(std::uint64_t life, int code) {
    if (!receiver_up_ || life != receiver_life_) {
        return;  // killed at that very moment
    }
    receiver_up_ = false;
    world_.moves();
    if (code == 0 || code == kIncomplete) {
        whole_ = true;
        see_whether_done();
        world_.later(kToHear, [this] {
            for (const auto& member : members_) {
                member->over = true;
                member->process.kill();
            }
            done_ = true;
        });
        return;
    }
    ++errors_;
    if (!is_deadly()) {
        world_.fail(Promise::kTask,
                    "nothing died, but ask-recv ended with exit code " + std::to_string(code));
    }
    if (code == kLost && !somebody_died_ && world_.plan.call_loss == 0) {
        world_.fail(Promise::kTask, "no member has died, but ask-recv says that one is lost");
    }
    if (errors_ > kMostErrors) {
        world_.fail(Promise::kWait, "ask-recv cannot go on: it ended " + std::to_string(errors_) + " times");
    }
    // What is lost stays lost.
    allow_incomplete_ = allow_incomplete_ || code == kLost;
    world_.later(kRestart, [this] { start_receiver(); });
}

// askctl task finish, until it has been.
void StreamApps::finish() {
    park(nullptr, ends_at_ + kMostRestart);
    Caller caller;
    caller.address = "local";
    caller.uid = 0;
    const Nanos patient_until = world_.clock.now() + kPatience;
    while (!whole_) {
        if (world_.clock.now() >= patient_until && somebody_died_ &&
            !std::exchange(allow_incomplete_, true)) {
            world_.later(0, [this] { kill_receiver(); });
        }
        Host& host = *hosts_[0];
        if (host.up() && !host.threads().stopped()) {
            static_cast<void>(host.member().registry.finish_stream(caller, kStream));
        }
        park(nullptr, world_.clock.now() + kFinishEvery);
    }
}

// A member.

void StreamApps::start_member(Member& member) {
    if (member.over || done_ || std::exchange(member.up, true)) {
        return;
    }
    ++member.life;
    world_.note("ask-send %u: starts", member.number);
    member.read = member.has_state ? member.state.place : member.read;
    if (member.state.memory.inside != 0) {
        oracle_.enters(member.number);
    }
    member.process.spawn([this, &member] { send(member); });
}

void StreamApps::send(Member& member) {
    auto result = run_member(member);
    world_.later(0, [this, &member, life = member.life, result] { member_ended(member, life, result); });
}

void StreamApps::member_ended(Member& member, std::uint64_t life, const Result<>& result) {
    if (!member.up || life != member.life) {
        return;  // killed at that very moment
    }
    member.up = false;
    oracle_.goes(member.number);
    if (member.state.memory.inside != 0) {
        oracle_.given(member.number, member.state.memory.inside, {member.state.place, member.read});
    }
    world_.note("ask-send %u: ends: %s", member.number,
                result ? "it has left" : result.error().text().c_str());
    world_.moves();
    const bool has_begun = member.state.memory.inside != 0 || !member.state.memory.ended.empty();
    const bool is_lost = result.ok() || whole_ ||
                         (has_begun && (!member.has_state || result.error().code() == Errc::kSwitchLost));
    somebody_died_ = somebody_died_ || !result.ok();
    if (is_lost) {
        member.over = true;
        see_whether_done();
        return;
    }
    world_.later(kRestart, [this, &member] { start_member(member); });
}

client::StreamSendOptions StreamApps::send_options(Member& member) {
    const Plan& plan = world_.plan;
    client::StreamSendOptions options;
    options.agent = std::to_string(member.host);
    options.name = kStream;
    options.to = "h0";
    options.deadline = std::chrono::milliseconds(plan.deadline);
    options.spool_bytes = plan.spool_kib == 0 ? options.spool_bytes : std::size_t{plan.spool_kib} << 10U;
    options.merge_window = plan.merge > 0 ? plan.hold : 0;
    options.linger = std::chrono::milliseconds(plan.merge > 0 ? plan.pace : 0);
    options.in_pieces = member.has_state;
    options.on_news = [this, &member](const client::StreamNews& news) {
        world_.note("ask-send %u: %s", member.number, news.text.c_str());
    };
    options.on_step = [this, &member](const client::StreamStep& to) { return step(member, to); };
    options.memory.member = member.state.memory.member;
    if (member.has_state) {
        options.memory = member.state.memory;
        options.memory.again = [this, &member](std::uint64_t window, const auto& sink) -> Result<> {
            const GivenLines lines = member.state.kept[window];
            for (std::uint64_t number = lines.from; number < lines.to; ++number) {
                const Tuples tuples = oracle_.line(member.number, number);
                ASK_PASS(sink(std::vector<Tuple>{{tuples[0].first, tuples[0].second},
                                                 {tuples[1].first, tuples[1].second}}));
            }
            return {};
        };
    }
    return options;
}

// What MemberState::step does (tools/cli/member_state.h); for a pipe nothing but the oracle needs it.
Result<> StreamApps::step(Member& member, const client::StreamStep& to) {
    pause_a_little(*member.chance);
    State& state = member.state;
    if (to.ended != 0) {
        const GivenLines lines{state.place, member.read};
        oracle_.ended(member.number, to.ended, lines);
        state.kept[to.ended] = lines;
    } else if (state.memory.inside != 0) {
        // It was left out of that while it was in it.
        oracle_.given(member.number, state.memory.inside, {state.place, member.read});
    }
    std::erase_if(state.kept, [&to](const auto& kept) { return kept.first <= to.committed; });
    state.memory.ended.clear();
    for (const auto& [window, lines] : state.kept) {
        state.memory.ended.push_back(window);
    }
    to.entered != 0 ? oracle_.enters(member.number) : oracle_.goes(member.number);
    state.memory.inside = to.entered;
    state.memory.nonce = to.nonce;
    state.memory.committed = to.committed;
    state.place = member.read;
    pause_a_little(*member.chance);
    return {};
}

Result<> StreamApps::run_member(Member& member) {
    auto stream = client::StreamSender::open(send_options(member));
    ASK_PASS(stream);
    ASK_PASS(give(member, *stream));
    const auto sent = stream->leave();
    ASK_PASS(sent);
    return {};
}

Result<> StreamApps::give(Member& member, client::StreamSender& stream) {
    const Descriptor input([&member] {
        return member.read < member.written || (member.quits && member.written >= member.lines);
    });
    for (;;) {
        const auto more = stream.wait_for_input(input.number());
        ASK_PASS(more);
        if (!*more || member.read >= member.written) {
            return {};
        }
        for (std::uint64_t some = 1 + member.chance->below(6); some > 0 && member.read < member.written;
             --some) {
            const Tuples tuples = oracle_.line(member.number, member.read);
            const Tuple both[] = {{tuples[0].first, tuples[0].second}, {tuples[1].first, tuples[1].second}};
            ASK_PASS(stream.send(both));
            ++member.read;
        }
    }
}

// What befalls them.

void StreamApps::strike() {
    const std::uint64_t kind = chance_.below(recv_deaths_ + send_deaths_);
    if (kind < recv_deaths_) {
        --recv_deaths_;
        kill_receiver();
        return;
    }
    --send_deaths_;
    kill_member(*members_[chance_.below(members_.size())]);
}

void StreamApps::kill_receiver() {
    if (std::exchange(receiver_up_, false)) {
        world_.note("ask-recv: is killed");
        receiver_.kill();
        world_.later(some_time(chance_, 6, 21), [this] { start_receiver(); });
    }
}

void StreamApps::kill_member(Member& member) {
    if (!std::exchange(member.up, false)) {
        return;
    }
    world_.note("ask-send %u: is killed", member.number);
    member.process.kill();
    oracle_.goes(member.number);
    if (member.state.memory.inside != 0) {
        oracle_.given(member.number, member.state.memory.inside, {member.state.place, member.read});
    }
    somebody_died_ = true;
    if (!member.has_state && member.read + member.state.memory.inside > 0) {
        member.over = true;
        return;
    }
    if (!member.has_state) {
        member.state.memory.member = chance_.next() | 1U;
    }
    world_.later(some_time(chance_, 6, 21), [this, &member] { start_member(member); });
}

void StreamApps::see_whether_done() {
    done_ =
        done_ || (whole_ && std::ranges::all_of(members_, [](const auto& member) { return member->over; }));
}

void StreamApps::check() {
    oracle_.check(whole_, is_deadly());
}

}  // namespace ask::sim
