// SPDX-License-Identifier: Apache-2.0
#include "lib/control/switch/quota.h"

#include <algorithm>

namespace ask {
namespace {

std::uint64_t limit_or_part(std::uint64_t limit, std::uint64_t all) {
    constexpr std::uint64_t kParts = 8;
    return limit == 0 ? all - all / kParts : limit;
}

}  // namespace

ask_bucket Buckets::bucket_of(std::uint64_t packets_a_second) {
    constexpr std::uint64_t kNsOfASecond = 1'000'000'000;
    return {.due = 0, .cost = kNsOfASecond / packets_a_second, .burst = kBurst, .pad = {}};
}

std::uint32_t Buckets::take(const std::string& holder) {
    auto at = std::ranges::find(holders_, holder, &Holder::name);
    if (at == holders_.end()) {
        at = std::ranges::find(holders_, std::string(), &Holder::name);
    }
    if (at == holders_.end()) {
        at = std::ranges::find(holders_, 0U, &Holder::tasks);
    }
    at->name = holder;
    ++at->tasks;
    return static_cast<std::uint32_t>(at - holders_.begin()) + 1;
}

void Buckets::give_back(std::uint32_t bucket) {
    --holders_[bucket - 1].tasks;
}

void Quotas::set_limits(const SwitchUse& limits) {
    limits_ = {.tasks = limit_or_part(limits.tasks, all_.tasks),
               .channels = limit_or_part(limits.channels, all_.channels),
               .flows = limit_or_part(limits.flows, all_.flows),
               .sram_bytes = limit_or_part(limits.sram_bytes, all_.sram_bytes),
               .back_bytes = limit_or_part(limits.back_bytes, all_.back_bytes)};
}

SwitchUse Quotas::use_of(const Owner& owner) const {
    const auto at = used_.find(holder_of(owner));
    return at == used_.end() ? SwitchUse{} : at->second;
}

void Quotas::take(const Owner& owner, const SwitchUse& use) {
    SwitchUse& now = used_[holder_of(owner)];
    now.tasks += use.tasks;
    now.channels += use.channels;
    now.flows += use.flows;
    now.sram_bytes += use.sram_bytes;
    now.back_bytes += use.back_bytes;
}

void Quotas::give_back(const Owner& owner, const SwitchUse& use) {
    const auto at = used_.find(holder_of(owner));
    if (at == used_.end()) {
        return;
    }
    SwitchUse& now = at->second;
    now.tasks -= use.tasks;
    now.channels -= use.channels;
    now.flows -= use.flows;
    now.sram_bytes -= use.sram_bytes;
    now.back_bytes -= use.back_bytes;
    if (now.tasks + now.channels + now.flows + now.sram_bytes + now.back_bytes == 0) {
        used_.erase(at);
    }
}

Result<> Quotas::check(const Owner& owner, const SwitchUse& more) const {
    const SwitchUse now = use_of(owner);
    const auto fits = [&](std::uint64_t used, std::uint64_t wanted, std::uint64_t limit, std::uint64_t all,
                          const char* what, const char* key) -> Result<> {
        // Who may have everything is refused by what there is.
        if (wanted == 0 || limit >= all || used + wanted <= limit) {
            return {};
        }
        return Error(Errc::kLimit, holder_of(owner) + " has " + std::to_string(used) + " of the " +
                                       std::to_string(limit) + " " + what +
                                       " that one tenant, or host without one, may have on this switch: "
                                       "give some back, or raise its " +
                                       key);
    };
    constexpr std::uint64_t kKib = 1024;
    ASK_PASS(fits(now.tasks, more.tasks, limits_.tasks, all_.tasks, "tasks", "quota_tasks"));
    ASK_PASS(
        fits(now.channels, more.channels, limits_.channels, all_.channels, "channels", "quota_channels"));
    ASK_PASS(fits(now.flows, more.flows, limits_.flows, all_.flows, "flows", "quota_flows"));
    // Of back levels everybody gets what he may have (back_left()).
    return fits(now.sram_bytes / kKib, (more.sram_bytes + kKib - 1) / kKib, limits_.sram_bytes / kKib,
                all_.sram_bytes / kKib, "KiB of SRAM", "quota_sram_kib");
}

std::uint64_t Quotas::sram_left(const Owner& owner) const {
    return limits_.sram_bytes - std::min(limits_.sram_bytes, use_of(owner).sram_bytes);
}

std::uint64_t Quotas::back_left(const Owner& owner) const {
    return limits_.back_bytes - std::min(limits_.back_bytes, use_of(owner).back_bytes);
}

}  // namespace ask
