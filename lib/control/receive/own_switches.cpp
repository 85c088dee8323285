// SPDX-License-Identifier: Apache-2.0
#include "lib/control/receive/own_switches.h"

#include <algorithm>
#include <utility>

#include "lib/abi/limits.h"
#include "lib/net/address.h"
#include "lib/text/clean.h"

namespace ask {

bool OwnSwitches::want(const std::string& address, Clock::time_point now) {
    if (address.empty() || entries_.contains(address) || entries_.size() >= ASK_MAX_SENDERS) {
        return false;
    }
    Entry& entry = entries_[address];
    entry.wanted_at = now;
    if (const auto valid = check_host_port(address); !valid.ok()) {
        entry.state = State::kNone;
        entry.why = clean_text("its switch has no valid address: " + valid.error().text());
    }
    return entry.state == State::kWanted;
}

void OwnSwitches::opened(const std::string& address, Mark mark) {
    Entry& entry = entries_[address];
    entry.state = State::kOpen;
    entry.mark = mark;
}

void OwnSwitches::refused(const std::string& address, std::string why) {
    Entry& entry = entries_[address];
    entry.state = State::kNone;
    entry.why = std::move(why);
}

const OwnSwitches::Entry* OwnSwitches::find(const std::string& address) const {
    const auto found = entries_.find(address);
    return found == entries_.end() ? nullptr : &found->second;
}

bool OwnSwitches::is_settled(const std::string& address) const {
    const Entry* const entry = find(address);
    const bool too_many = entry == nullptr && entries_.size() >= ASK_MAX_SENDERS;
    return address.empty() || too_many || (entry != nullptr && entry->state != State::kWanted);
}

std::string OwnSwitches::why_none(const std::string& address) const {
    if (address.empty()) {
        return "it has no switch configured";
    }
    const Entry* const entry = find(address);
    return entry != nullptr && entry->state == State::kNone
               ? entry->why
               : "it has not registered at its switch, " + clean_name(address);
}

std::optional<OwnSwitches::Wanted> OwnSwitches::next() const {
    const auto found = std::ranges::find_if(
        entries_, [](const auto& entry) { return entry.second.state == State::kWanted; });
    return found == entries_.end() ? std::nullopt
                                   : std::optional(Wanted{found->first, found->second.wanted_at});
}

std::vector<std::string> OwnSwitches::addresses_of(Mark mark) const {
    std::vector<std::string> addresses;
    for (const auto& [address, entry] : entries_) {
        if (entry.state == State::kOpen && entry.mark == mark) {
            addresses.push_back(address);
        }
    }
    return addresses;
}

std::optional<std::string> OwnSwitches::any() const {
    const auto found =
        std::ranges::find_if(entries_, [](const auto& entry) { return entry.second.state != State::kNone; });
    return found == entries_.end() ? std::nullopt : std::optional(found->first);
}

}  // namespace ask
