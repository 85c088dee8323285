// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/groups/history.h"

#include <algorithm>

namespace ask::sim::groups {

namespace {

// No member of any group had a result for so long: somebody waits for ever. Retransmissions come at least
// four times a second.
constexpr Nanos kStill = 60 * kSecond;
constexpr std::uint64_t kMostEvents = 20'000'000;
constexpr Nanos kLook = 250 * kMillisecond;

}  // namespace

History::History(const Plan& plan, std::uint64_t seed, bool traced)
    : world_(plan, seed, traced), network_(world_), control_(world_, network_, switches_) {
    for (std::uint32_t number = 0; number < plan.switches; ++number) {
        switches_.push_back(std::make_unique<Switch>(world_, network_, number));
        switches_.back()->judge = [this](const ask_value_slot& slot) { return judge_slot(slot); };
    }
    for (std::uint32_t number = 0; number < plan.hosts; ++number) {
        auto host = std::make_unique<Host>(world_, network_, number);
        host->member_ended = [this](Group& group) { end_member(group); };
        host->collector_lives = [this](const Group& group) { return collector_lives(group); };
        hosts_.push_back(std::move(host));
    }
    network_.to_switch = [this](std::uint32_t number, FramePtr frame, std::uint32_t port) {
        switches_[number]->receive(std::move(frame), port);
    };
    network_.to_host = [this](std::uint32_t number, FramePtr frame) {
        hosts_[number]->receive(std::move(frame));
    };
    control_.opened = [this](Group& group) {
        group.begun = true;
        for (std::uint32_t rank = 0; rank < group.hosts.size(); ++rank) {
            hosts_[group.hosts[rank]]->join(group, rank);
        }
        end_member(group);
    };
    control_.set_fan_out = [this](Group& group, bool fan_out) {
        hosts_[group.root_host()]->set_fan_out(group, fan_out);
    };
    for (std::uint32_t number = 0; number < plan.jobs; ++number) {
        groups_.push_back(std::make_unique<Group>(world_, number));
    }
}

bool History::collector_lives(const Group& group) const {
    return !hosts_[group.root_host()]->dead();
}

// What a slot has is the fold of its set, and it is done once that is all that comes to the switch.
std::string History::judge_slot(const ask_value_slot& slot) {
    // Of a run that was under way when its group was closed: as no group is 0, anybody may have the slot.
    if (slot.instance == 0) {
        return {};
    }
    const auto at = std::ranges::find_if(groups_, [&slot](const auto& group) {
        return group->terms.instance == __builtin_bswap64(slot.instance);
    });
    if (at == groups_.end()) {
        return "of no group";
    }
    values::Front front;
    front.stream = slot.stream;
    front.seq = slot.seq;
    front.blocks = slot.blocks;
    front.op = slot.op;
    front.bits = slot.bits;
    front.shape = values::Shape(__builtin_bswap32(slot.shape));
    return (*at)->ledger.check(front,
                               std::as_bytes(std::span(slot.words)).first(slot.blocks * values::kBlock));
}

void History::begin() {
    for (const auto& group : groups_) {
        world_.later(world_.any_time(4 * kMillisecond), [this, at = group.get()] { control_.open(*at); });
    }
    world_.later(kLook, [this] { look(); });
}

// What befalls it, each at any time of the first third of a second.
void History::disturb() {
    const Plan& plan = world_.plan;
    const auto some_time = [this] { return 10 * kMicrosecond + world_.any_time(300 * kMillisecond); };
    for (std::uint32_t i = 0; i < plan.replacements; ++i) {
        const auto number = static_cast<std::uint32_t>(world_.control.below(plan.switches));
        world_.later(some_time(), [this, number] { control_.replace_maps(number); });
    }
    for (std::uint32_t i = 0; i < plan.reroutes; ++i) {
        const auto host = static_cast<std::uint32_t>(world_.control.below(plan.hosts));
        const Nanos from = some_time();
        world_.later(from, [this, host] { network_.reroute(host, true); });
        world_.later(from + some_time(), [this, host] { network_.reroute(host, false); });
    }
    for (std::uint32_t i = 0; i < plan.stops; ++i) {
        const auto host = static_cast<std::uint32_t>(world_.control.below(plan.hosts));
        const Nanos time = some_time();
        world_.later(some_time(), [this, host, time] { hosts_[host]->stop(time); });
    }
    for (std::uint32_t i = 0; i < plan.deaths; ++i) {
        const auto host = static_cast<std::uint32_t>(world_.control.below(plan.hosts));
        world_.later(some_time(), [this, host] {
            for (const auto& group : groups_) {
                for (std::uint32_t rank = 0; rank < group->hosts.size(); ++rank) {
                    group->dead |= std::uint64_t{group->hosts[rank] == host} << rank;
                }
            }
            hosts_[host]->die();
        });
    }
}

// A member of it is through, has failed or is dead: whether that is its end.
void History::end_member(Group& group) {
    if (!group.begun || group.over) {
        return;
    }
    if (group.failed || (group.ended | group.dead) == group.terms.all()) {
        group.over = true;
        // The others are told by whoever coordinates it, and nobody answers for it any more.
        world_.later(world_.some_us(1'000), [this, &group] { end_group(group); });
    }
}

void History::end_group(Group& group) {
    for (const std::uint32_t host : group.hosts) {
        hosts_[host]->leave(group, group.failed);
    }
    control_.close(group);
}

void History::look() {
    for (const auto& host : hosts_) {
        host->look();
    }
    world_.later(kLook, [this] { look(); });
}

bool History::all_over() const {
    return std::ranges::all_of(groups_, [](const auto& group) { return group->over; });
}

// What was right stays so, whatever came late.
void History::judge_answers() {
    for (const auto& group : groups_) {
        for (std::uint32_t rank = 0; rank < group->hosts.size(); ++rank) {
            for (const Work& work : group->works) {
                const std::string what = work.judge(rank);
                if ((group->ended >> rank & 1U) != 0 && !what.empty()) {
                    world_.fail(Promise::kAnswer, group->name() + ": " + what);
                }
            }
        }
    }
}

Verdict History::run() {
    begin();
    disturb();
    while (world_.broken == Promise::kNone && !all_over() && world_.clock.step()) {
        if (world_.clock.now() - world_.moved > kStill || world_.clock.events() > kMostEvents) {
            world_.fail(Promise::kWait, "somebody still waits, and nothing has gone on for " +
                                            std::to_string((world_.clock.now() - world_.moved) / kSecond) +
                                            " s");
        }
    }
    // What is still on its way finds groups that are closed.
    const Nanos end = world_.clock.now() + 20 * kMillisecond;
    while (world_.broken == Promise::kNone && world_.clock.now() < end && world_.clock.step()) {
    }
    for (const auto& at : switches_) {
        at->check_counters();
    }
    judge_answers();
    Verdict verdict{.broken = world_.broken, .failure = world_.failure};
    verdict.events = world_.clock.events();
    verdict.frames = network_.frames();
    for (const auto& group : groups_) {
        verdict.failed += group->failed ? 1U : 0U;
        verdict.whole += group->ended == group->terms.all() ? 1U : 0U;
    }
    for (const auto& at : switches_) {
        verdict.results += at->counter(ASK_CNT_value_result) + at->counter(ASK_CNT_value_partial);
        verdict.folds += at->counter(ASK_CNT_value_folded) + at->counter(ASK_CNT_value_replaced);
    }
    return verdict;
}

}  // namespace ask::sim::groups
