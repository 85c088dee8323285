// SPDX-License-Identifier: Apache-2.0
#include "lib/control/group/levels.h"

#include <algorithm>
#include <bit>

namespace ask {
namespace {

// With one member behind it a switch would send on what it gets.
constexpr int kWorthAdding = 2;

std::uint64_t set_of(std::size_t rank) {
    return std::uint64_t{1} << rank;
}

std::uint64_t all_of(std::span<const LevelMember> members) {
    return members.size() == 64 ? ~std::uint64_t{0} : set_of(members.size()) - 1;
}

// Behind which switch each is, in the order of ranks. A mark that differs from the others' is of a former
// incarnation of that switch: whoever has it is registered nowhere.
std::vector<LevelSwitch> first_switches(std::span<const LevelMember> members, std::uint32_t root,
                                        std::vector<std::string>& without) {
    std::vector<LevelSwitch> found;
    for (std::size_t rank = 0; rank < members.size(); ++rank) {
        const LevelMember& member = members[rank];
        // Of the root's own switch, the root's counts.
        const bool of_root = member.first.switch_id == members[root].first.switch_id;
        const Mark mark = of_root ? members[root].first : member.first;
        auto at = std::ranges::find(found, mark.switch_id,
                                    [](const LevelSwitch& one) { return one.mark.switch_id; });
        if (member.first.switch_id == 0) {
            without.push_back(member.name + (member.address.empty()
                                                 ? " has no switch configured"
                                                 : " is not registered at switch " + member.address));
            continue;
        }
        if (at == found.end()) {
            found.push_back(
                {.mark = mark, .address = of_root ? members[root].address : member.address, .last = of_root});
            at = found.end() - 1;
        }
        if (member.first == at->mark) {
            at->behind |= set_of(rank);
        } else {
            without.push_back(member.name + " is not registered at switch " + at->address +
                              " any more, which has lost its channel");
        }
    }
    return found;
}

const SwitchTrouble* trouble_of(const LevelSwitch& at, const SwitchTroubles& troubles) {
    const auto found = troubles.find(at.mark.switch_id);
    return found == troubles.end() ? nullptr : &found->second;
}

// Takes those out that have refused, or that would have nothing to add.
void keep_usable(std::vector<LevelSwitch>& switches, std::span<const LevelMember> members,
                 const SwitchTroubles& troubles, std::vector<std::string>& without) {
    std::erase_if(switches, [&](const LevelSwitch& at) {
        const SwitchTrouble* const trouble = trouble_of(at, troubles);
        const bool has_work = at.last || std::popcount(at.behind) >= kWorthAdding;
        if (has_work && trouble != nullptr && !trouble->none.empty()) {
            without.push_back("switch " + at.address + " does not add for " + names_of(members, at.behind) +
                              ": " + trouble->none);
        }
        return !has_work || (trouble != nullptr && !trouble->none.empty());
    });
}

// Whose values the last switch waits for: of all that are registered there. Others' go past it to the
// collector.
std::uint64_t joined_at(const LevelSwitch& last, std::span<const LevelMember> members,
                        std::vector<std::string>& without) {
    std::uint64_t joined = last.behind;
    for (std::size_t rank = 0; rank < members.size(); ++rank) {
        const LevelMember& member = members[rank];
        if ((last.behind & set_of(rank)) != 0 || member.first.switch_id == last.mark.switch_id) {
            continue;
        }
        if (member.last == last.mark) {
            joined |= set_of(rank);
        } else {
            const std::string text = member.name + " is not registered at switch " + last.address;
            // Said of one that has this switch as its first, but not why.
            std::erase(without, text);
            without.push_back(text + (member.no_last.empty() ? "" : ": " + member.no_last));
        }
    }
    return joined;
}

// To whom the last one copies: results that not all get so are sent one by one.
void plan_copies(Levels& levels, LevelSwitch& last, const SwitchTroubles& troubles) {
    last.copies = last.want & ~last.below;
    for (const LevelSwitch& first : levels.switches) {
        const SwitchTrouble* const trouble = trouble_of(first, troubles);
        if (!first.last && trouble != nullptr && !trouble->no_copies.empty()) {
            levels.no_copies = "switch " + first.address + " copies nothing: " + trouble->no_copies;
        }
        if (!first.last) {
            last.racks.push_back(first.behind);
        }
    }
    if (!levels.no_copies.empty()) {
        last.copies = 0;
        last.racks.clear();
    }
}

}  // namespace

std::string names_of(std::span<const LevelMember> members, std::uint64_t set) {
    std::string names;
    for (std::size_t rank = 0; rank < members.size(); ++rank) {
        if ((set & set_of(rank)) != 0) {
            names += (names.empty() ? "" : ", ") + members[rank].name;
        }
    }
    return names;
}

Levels plan_levels(std::span<const LevelMember> members, std::uint32_t root, const SwitchTroubles& troubles) {
    Levels levels;
    levels.switches = first_switches(members, root, levels.without);
    keep_usable(levels.switches, members, troubles, levels.without);
    std::ranges::stable_partition(levels.switches, &LevelSwitch::last);
    for (LevelSwitch& at : levels.switches) {
        at.want = at.behind;
        at.copies = at.behind;
    }
    if (!levels.has_last()) {
        return levels;
    }
    LevelSwitch& last = levels.switches.front();
    last.want = joined_at(last, members, levels.without);
    for (const LevelSwitch& first : levels.switches) {
        // One of them that is not registered there has no part in what it adds, and so have partials of all.
        if (!first.last && (first.behind & ~last.want) != 0) {
            last.want &= ~first.behind;
        } else if (!first.last) {
            last.below |= first.behind;
        }
    }
    last.copies = 0;
    if (std::popcount(last.want) < kWorthAdding) {
        levels.switches.erase(levels.switches.begin());
    } else if (last.want == all_of(members)) {
        plan_copies(levels, last, troubles);
    }
    return levels;
}

}  // namespace ask
