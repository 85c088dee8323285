// SPDX-License-Identifier: Apache-2.0
#include "agent/arena_budget.h"

#include <algorithm>
#include <string>

namespace ask {
namespace {

constexpr std::size_t kParts = 8;

}  // namespace

Result<std::unique_ptr<ArenaBudget::Share>> ArenaBudget::reserve(std::size_t bytes, std::uint32_t user) {
    const std::lock_guard lock(mutex_);
    const std::size_t of_user = limit_of(user);
    const auto at = users_.find(user);
    const std::size_t has = at == users_.end() ? 0 : at->second;
    const auto refusal = [bytes](const std::string& whose, std::size_t most, std::size_t used) {
        return Error(Errc::kLimit, "an arena of " + std::to_string(bytes) + " bytes: " + whose + " have " +
                                       std::to_string(used) + " of " + std::to_string(most) +
                                       " bytes already: raise arena_limit_mib, or ask for a smaller arena");
    };
    if (bytes > limit_ - std::min(limit_, used_)) {
        return refusal("this agent's groups", limit_, used_);
    }
    if (bytes > of_user - std::min(of_user, has)) {
        return refusal("groups of user " + std::to_string(user), of_user, has);
    }
    used_ += bytes;
    users_[user] += bytes;
    return std::make_unique<Share>(*this, bytes, user);
}

std::size_t ArenaBudget::limit_of(std::uint32_t user) const {
    return user == 0 ? limit_ : limit_ - limit_ / kParts;
}

std::size_t ArenaBudget::used() const {
    const std::lock_guard lock(mutex_);
    return used_;
}

void ArenaBudget::release(std::size_t bytes, std::uint32_t user) {
    const std::lock_guard lock(mutex_);
    used_ -= bytes;
    const auto at = users_.find(user);
    at->second -= bytes;
    if (at->second == 0) {
        users_.erase(at);
    }
}

}  // namespace ask
