// SPDX-License-Identifier: Apache-2.0
//
// A group of a history: what its members agreed on, what each gives, and what has become of it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/values/terms.h"
#include "tests/sim/groups/ledger.h"
#include "tests/sim/groups/work.h"
#include "tests/sim/groups/world.h"

namespace ask::sim::groups {

// What is known of a chunk at its collector, for the bounds of what that sends.
struct Asked {
    std::uint64_t alone = 0;                              // members whose own values have come to it
    std::map<std::uint32_t, std::array<Nanos, 4>> needs;  // by member, the last ones sent
};

struct Group {
    Group(World& world, std::uint32_t as);

    std::uint32_t number;
    values::GroupTerms terms;
    std::vector<std::uint32_t> hosts;  // by rank
    std::vector<Work> works;
    Ledger ledger;
    bool through = false;  // the root's own values go out by its switch
    bool begun = false;
    bool over = false;
    std::optional<Error> failed;
    std::uint64_t dead = 0;   // members whose hosts died
    std::uint64_t ended = 0;  // members that are through, or failed
    std::map<std::pair<std::uint32_t, std::uint64_t>, Asked> asked;

    [[nodiscard]] std::uint32_t root_host() const { return hosts[terms.root]; }
    [[nodiscard]] std::string name() const { return "group " + std::to_string(number); }
    // A NEED leaves for this member: whether there were too many.
    [[nodiscard]] bool too_many_needs(std::uint32_t stream, std::uint64_t seq, std::uint32_t member,
                                      Nanos now);
};

}  // namespace ask::sim::groups
