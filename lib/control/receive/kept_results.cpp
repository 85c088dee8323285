// SPDX-License-Identifier: Apache-2.0
#include "lib/control/receive/kept_results.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include <spdlog/spdlog.h>

namespace ask {
namespace {

// "2026-11-23 14:05:09 UTC": for people; what is done follows the steady clock.
std::string wall_clock_text(std::chrono::seconds from_now) {
    const std::time_t at = time_of_day() + from_now.count();
    std::tm parts{};
    std::array<char, 32> text{};
    if (::gmtime_r(&at, &parts) == nullptr ||
        std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts) == 0) {
        return "its time is over";
    }
    return text.data();
}

}  // namespace

void KeptResults::drop_locked(List::iterator at, KeptResult::State as) {
    KeptResult& result = **at;
    result.state = as;
    if (result.mailbox) {
        result.mailbox->post(SessionEvent::Kind::kChanged);
    }
    results_.erase(at);
}

void KeptResults::keep(const std::shared_ptr<KeptResult>& result) {
    const Guard lock(mutex_);
    forget_old_locked();
    result->until = Clock::now() + keep_;
    result->until_text = wall_clock_text(keep_);
    result->last_sign = Clock::now();
    counters_->add(AgentCounter::k_kept_results);
    if (results_.size() >= kMost) {
        // One that nobody waits for, if there is one; never one that is being taken.
        auto oldest = std::ranges::find_if(results_, [](const auto& other) { return may_go(*other); });
        if (oldest == results_.end()) {
            oldest = std::ranges::find_if(
                results_, [](const auto& other) { return other->state == KeptResult::State::kKept; });
        }
        if (oldest != results_.end()) {
            spdlog::warn("task {}: its result, which nobody has taken, makes room for newer ones",
                         (*oldest)->id());
            counters_->add(AgentCounter::k_drop_kept_number);
            drop_locked(oldest, KeptResult::State::kDropped);
        }
    }
    spdlog::warn("task {}: computed, but not taken: kept until {}", result->id(), result->until_text);
    results_.push_back(result);
}

KeptResults::Look KeptResults::look(const KeptResult& result) const {
    const Guard lock(mutex_);
    return {result.state, result.last_sign};
}

KeptResult::State KeptResults::stop_waiting(KeptResult& result) {
    const Guard lock(mutex_);
    result.senders_wait = false;
    result.mailbox = nullptr;
    return result.state;
}

Result<std::shared_ptr<KeptResult>> KeptResults::hand_out(const std::string& id, std::uint32_t user) {
    const Guard lock(mutex_);
    forget_old_locked();
    const auto newest = std::find_if(results_.rbegin(), results_.rend(), [&](const auto& result) {
        return result->id() == id && may_take(*result, user);
    });
    if (newest == results_.rend()) {
        return Error(Errc::kUnknown, "no result of task " + id + " is kept here; kept: " + list_locked(user));
    }
    if ((*newest)->state == KeptResult::State::kHandedOut) {
        return Error(Errc::kExists, "task " + id + ": its result is being taken by another ask-recv --again");
    }
    (*newest)->state = KeptResult::State::kHandedOut;
    (*newest)->last_sign = Clock::now();
    return *newest;
}

void KeptResults::taking(KeptResult& result) {
    const Guard lock(mutex_);
    result.last_sign = Clock::now();
}

bool KeptResults::taken(const std::shared_ptr<KeptResult>& result) {
    const Guard lock(mutex_);
    if (const auto at = std::ranges::find(results_, result); at != results_.end()) {
        drop_locked(at, KeptResult::State::kTaken);
    }
    return result->senders_wait;
}

void KeptResults::put_back(const std::shared_ptr<KeptResult>& result) {
    const Guard lock(mutex_);
    if (result->state == KeptResult::State::kHandedOut) {
        result->state = KeptResult::State::kKept;
    }
}

void KeptResults::forget_old() {
    const Guard lock(mutex_);
    forget_old_locked();
}

void KeptResults::forget_old_locked() {
    const auto now = Clock::now();
    for (auto at = results_.begin(); at != results_.end();) {
        const auto next = std::next(at);
        if (may_go(**at) && now >= (*at)->until) {
            spdlog::warn("task {}: its result was kept, and nobody has taken it in time", (*at)->id());
            counters_->add(AgentCounter::k_drop_kept_expired);
            drop_locked(at, KeptResult::State::kDropped);
        }
        at = next;
    }
}

void KeptResults::clear() {
    const Guard lock(mutex_);
    while (!results_.empty()) {
        spdlog::warn("task {}: its result was kept, and is lost, because this agent stops",
                     results_.front()->id());
        drop_locked(results_.begin(), KeptResult::State::kDropped);
    }
}

bool KeptResults::make_room(std::optional<std::uint32_t> user) {
    const Guard lock(mutex_);
    const auto oldest = std::ranges::find_if(results_, [user](const auto& result) {
        return may_go(*result) && (!user || *user == result->task.user());
    });
    if (oldest == results_.end()) {
        return false;
    }
    spdlog::warn("task {}: its result, which nobody has taken, makes room for a task under way",
                 (*oldest)->id());
    counters_->add(AgentCounter::k_drop_kept_memory);
    drop_locked(oldest, KeptResult::State::kDropped);
    return true;
}

std::string KeptResults::list_locked(std::uint32_t user) const {
    constexpr std::size_t kShown = 8;
    std::string text;
    std::size_t shown = 0;
    for (auto at = results_.rbegin(); at != results_.rend() && shown <= kShown; ++at) {
        if (!may_take(**at, user)) {
            continue;
        }
        text += shown == kShown ? ", and older ones"
                                : (text.empty() ? "" : ", ") + (*at)->id() + " until " + (*at)->until_text;
        ++shown;
    }
    return text.empty() ? "none" : text;
}

std::vector<v1::AgentTask> KeptResults::describe() const {
    const Guard lock(mutex_);
    std::vector<v1::AgentTask> list;
    list.reserve(results_.size());
    for (const auto& result : results_) {
        v1::AgentTask& entry = list.emplace_back(result->task);
        entry.set_state("kept until " + result->until_text +
                        (result->state == KeptResult::State::kHandedOut ? ", being taken" : ", not taken"));
    }
    return list;
}

}  // namespace ask
