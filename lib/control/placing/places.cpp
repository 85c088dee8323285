// SPDX-License-Identifier: Apache-2.0
#include "lib/control/placing/places.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace ask::placing {

using placement::SwitchId;

const char* verdict_text(Verdict verdict) {
    switch (verdict) {
        case Verdict::kFree:
            return "free";
        case Verdict::kNoRelay:
            return "without a relay";
        case Verdict::kUnavailable:
            return "not available by the topology";
        case Verdict::kOff:
            return "switched off by an operator";
        case Verdict::kPaused:
            return "left alone for a while, because a task was refused there";
        case Verdict::kFull:
            return "full";
        case Verdict::kNoMemory:
            return "without enough memory";
        case Verdict::kQuota:
            return "used by as many tasks of this tenant, or host, as it may have there";
    }
    return "";
}

Places::Places(const topology::Fabric& fabric, std::uint32_t quota) : fabric_(&fabric), quota_(quota) {
    follow(fabric);
}

void Places::follow(const topology::Fabric& fabric) {
    std::map<std::string, SwitchState> before;
    for (SwitchState& state : states_) {
        std::string name = state.name;
        before.emplace(std::move(name), std::move(state));
    }
    fabric_ = &fabric;
    states_.clear();
    for (const topology::Switch& each : fabric.switches()) {
        const auto known = before.find(each.name);
        SwitchState state = known == before.end() ? SwitchState{} : std::move(known->second);
        state.name = each.name;
        state.taken = 0;
        state.memory_taken_mib = 0;
        state.by_holder.clear();
        states_.push_back(std::move(state));
    }
}

std::uint32_t Places::quota_of(std::uint32_t capacity) const {
    constexpr std::uint32_t kParts = 8;
    if (quota_ != 0) {
        return quota_;
    }
    return capacity == 0 ? std::numeric_limits<std::uint32_t>::max() : capacity - capacity / kParts;
}

bool Places::past_quota(SwitchId id, const Asker& asker) const {
    const auto held = states_[id].by_holder.find(asker.holder);
    return held != states_[id].by_holder.end() && held->second >= quota_of(fabric_->switches()[id].capacity);
}

Verdict Places::judge(SwitchId id, const Asker& asker, Time now) const {
    const topology::Switch& made = fabric_->switches()[id];
    const SwitchState& state = states_[id];
    if (made.relay.empty()) {
        return Verdict::kNoRelay;
    }
    if (!made.available) {
        return Verdict::kUnavailable;
    }
    if (state.off) {
        return Verdict::kOff;
    }
    if (now < state.paused_until) {
        return Verdict::kPaused;
    }
    if (left(id) == 0) {
        return Verdict::kFull;
    }
    if (made.memory_mib != 0 && asker.memory_mib != 0 &&
        state.memory_taken_mib + asker.memory_mib > made.memory_mib) {
        return Verdict::kNoMemory;
    }
    return past_quota(id, asker) ? Verdict::kQuota : Verdict::kFree;
}

std::uint32_t Places::left(SwitchId id) const {
    const std::uint32_t capacity = fabric_->switches()[id].capacity;
    return capacity == 0 ? kPlenty : capacity - std::min(capacity, states_[id].taken);
}

std::vector<std::string> Places::take(const std::vector<std::string>& switches, const Asker& asker) {
    std::vector<std::string> taken;
    for (const std::string& name : switches) {
        const auto id = fabric_->find_switch(name);
        if (!id || past_quota(*id, asker)) {
            continue;
        }
        SwitchState& state = states_[*id];
        ++state.taken;
        state.memory_taken_mib += asker.memory_mib;
        ++state.by_holder[asker.holder];
        taken.push_back(name);
    }
    return taken;
}

void Places::give_back(const std::vector<std::string>& taken, const Asker& asker) {
    for (const std::string& name : taken) {
        SwitchState* const state = find(name);
        if (state == nullptr) {
            continue;
        }
        --state->taken;
        state->memory_taken_mib -= asker.memory_mib;
        const auto held = state->by_holder.find(asker.holder);
        if (--held->second == 0) {
            state->by_holder.erase(held);
        }
    }
}

bool Places::set_available(const std::string& name, bool available, bool* changed) {
    SwitchState* const state = find(name);
    if (state == nullptr) {
        return false;
    }
    // Whoever says that it is available has looked, too.
    *changed = state->off == available;
    state->off = !available;
    if (available) {
        state->paused_until = {};
    }
    return true;
}

void Places::refused(const std::string& name, const std::string& holder, const std::string& reason, Time now,
                     Clock::duration pause) {
    SwitchState* const state = find(name);
    if (state == nullptr) {
        return;
    }
    ++state->refusals;
    state->last_refusal = holder + ": " + reason;
    std::erase_if(state->heard, [now](const auto& entry) { return entry.second <= now; });
    if (state->heard.try_emplace(holder, now + 2 * pause).second) {
        state->paused_until = std::max(state->paused_until, now + pause);
    }
}

SwitchState* Places::find(const std::string& name) {
    const auto id = fabric_->find_switch(name);
    return id ? &states_[*id] : nullptr;
}

}  // namespace ask::placing
