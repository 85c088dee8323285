// SPDX-License-Identifier: Apache-2.0
#include "lib/control/group/book.h"

#include <algorithm>
#include <ranges>
#include <string>
#include <utility>

#include "lib/control/member/patience.h"

namespace ask {
namespace {

constexpr double kNanosASecond = 1e9;
constexpr double kNanosAMicrosecond = 1e3;

void set_times(GroupBook::Entry& entry, Clock::time_point until) {
    v1::AgentGroup& group = entry.group;
    group.set_age_seconds(std::chrono::duration<double>(until - entry.opened).count());
    if (entry.switch_lost) {
        group.set_switch_lost_seconds_ago(seconds_since(*entry.switch_lost));
        group.set_switch_opened_seconds_ago(entry.switch_opened ? seconds_since(*entry.switch_opened) : 0);
    }
}

template <typename Texts, typename Values>
void add_counters(const std::string& prefix, const Texts& texts, const Values& values,
                  v1::AgentGroup& group) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
        v1::Counter& counter = *group.add_counters();
        counter.set_name(prefix + std::string(texts[i].name));
        counter.set_class_(std::string(texts[i].kind));
        counter.set_text(std::string(texts[i].text));
        counter.set_value(values[i]);
    }
}

}  // namespace

std::uint64_t GroupBook::add(v1::AgentGroup group) {
    const Guard lock(mutex_);
    Entry entry;
    entry.group = std::move(group);
    entry.opened = Clock::now();
    entries_.emplace(++last_, std::move(entry));
    return last_;
}

void GroupBook::change(std::uint64_t number, const std::function<void(Entry&)>& how) {
    const Guard lock(mutex_);
    if (const auto at = entries_.find(number); at != entries_.end()) {
        how(at->second);
    }
}

void GroupBook::end(std::uint64_t number) {
    const Guard lock(mutex_);
    const auto at = entries_.find(number);
    if (at == entries_.end()) {
        return;
    }
    Entry entry = std::move(at->second);
    entries_.erase(at);
    failed_ += entry.group.state() == "failed" ? 1U : 0U;
    entry.ended = Clock::now();
    ended_.push_back(std::move(entry));
    if (ended_.size() > limit_) {
        ended_.pop_front();
    }
}

std::vector<GroupBook::Entry> GroupBook::list() const {
    const Guard lock(mutex_);
    std::vector<Entry> all;
    for (const auto& [number, entry] : entries_) {
        all.push_back(entry);
        set_times(all.back(), Clock::now());
    }
    return all;
}

std::vector<v1::AgentGroup> GroupBook::ended() const {
    const Guard lock(mutex_);
    std::vector<v1::AgentGroup> all;
    for (Entry entry : std::ranges::reverse_view(ended_)) {
        set_times(entry, entry.ended);
        entry.group.set_ended_seconds_ago(seconds_since(entry.ended));
        all.push_back(std::move(entry.group));
    }
    return all;
}

std::uint64_t GroupBook::failed() const {
    const Guard lock(mutex_);
    return failed_;
}

void describe(const GroupState& state, v1::AgentGroup& group) {
    group.set_operations(state.completed);
    group.set_operations_begun(state.begun);
    group.set_operation(state.operation);
    group.set_stream(state.stream);
    group.set_chunk(state.seq);
    group.set_waiting_seconds(static_cast<double>(state.waiting_ns) / kNanosASecond);
    group.clear_missing();
    for (std::uint32_t rank = 0; rank < group.size(); ++rank) {
        if ((state.missing >> rank & 1U) != 0) {
            group.add_missing(rank);
        }
    }
    group.clear_streams();
    for (const values::StreamLook& look : state.streams) {
        v1::AgentGroupStream& stream = *group.add_streams();
        stream.set_stream(look.stream);
        stream.set_window(look.window);
        stream.set_in_flight(look.in_flight);
        stream.set_srtt_us(static_cast<double>(look.srtt) / kNanosAMicrosecond);
    }
    group.clear_counters();
    add_counters("member_", values::kMemberStats, values::list_of(state.member), group);
    if (state.collector) {
        add_counters("collector_", values::kCollectorStats, values::list_of(*state.collector), group);
        const std::uint64_t here = state.collector->completed + state.collector->completed_raw;
        group.set_chunks_collector(here);
        group.set_chunks_switch(state.member.results - std::min(here, state.member.results));
    }
}

void describe(const std::vector<std::optional<GroupRegistry::Seat>>& seats, v1::AgentGroup& group) {
    for (std::size_t rank = 0; rank < seats.size() && static_cast<int>(rank) < group.members_size(); ++rank) {
        if (!seats[rank]) {
            continue;
        }
        const GroupRegistry::Seat& seat = *seats[rank];
        v1::AgentGroupMember& member = *group.mutable_members(static_cast<int>(rank));
        member.set_known(true);
        member.set_heard_seconds_ago(seat.own ? 0 : seconds_since(seat.heard));
        member.set_operations(seat.own ? group.operations() : seat.operations);
        member.set_operations_begun(seat.own ? group.operations_begun() : seat.begun);
        member.set_left(seat.left);
        member.set_dead(seat.dead);
    }
}

}  // namespace ask
