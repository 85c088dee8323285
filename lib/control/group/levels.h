// SPDX-License-Identifier: Apache-2.0
//
// Which switches add for a group, and what each of them waits for. Two levels: the last switch is the root's
// own, which what is left of all values comes to; first ones are those of other members, where there are two
// at least to be added up. Each adds what it can of those behind it, so none of them is needed: a group goes
// on without any, and with whichever there are.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "lib/tuples/types.h"

namespace ask {

// Of a member, by its agent.
struct LevelMember {
    std::string name;  // "h2 (198.18.2.2)"
    std::uint32_t host = 0;
    Mark first;             // switch that its channel is registered at; switch_id 0: none
    std::string address{};  // of that one
    Mark last;              // the root's, where it is registered as well, if another is its first
    std::string no_last{};  // why it is not
};

// What has become of a switch, by its id.
struct SwitchTrouble {
    std::string none;       // why it adds nothing; empty: it does
    std::string no_copies;  // why no copies of results are to be sent to it
};
using SwitchTroubles = std::map<std::uint32_t, SwitchTrouble>;

// A switch that is to have the group: sets of members are by rank.
struct LevelSwitch {
    Mark mark;
    std::string address;
    bool last = false;
    std::uint64_t behind = 0;  // members that it is the first switch of
    std::uint64_t want = 0;    // members whose values it waits for: their flows join it
    std::uint64_t below = 0;   // of these, those that another switch sends partials of
    // Whom it copies results to: members each, and the members behind another switch together.
    std::uint64_t copies = 0;
    std::vector<std::uint64_t> racks{};
    bool operator==(const LevelSwitch&) const = default;
};

struct Levels {
    std::vector<LevelSwitch> switches;  // the last one first, if there is one
    std::vector<std::string> without;   // who or what is left out, and why
    std::string no_copies;              // why none are made, of a last switch that waits for all

    [[nodiscard]] bool has_last() const { return !switches.empty() && switches.front().last; }
};

// `root`: its rank, in `members`, which are by rank.
[[nodiscard]] Levels plan_levels(std::span<const LevelMember> members, std::uint32_t root,
                                 const SwitchTroubles& troubles);

// "h2 (198.18.2.2), h3 (198.18.3.2)"
[[nodiscard]] std::string names_of(std::span<const LevelMember> members, std::uint64_t set);

}  // namespace ask
