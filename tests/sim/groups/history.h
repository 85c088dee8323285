// SPDX-License-Identifier: Apache-2.0
//
// A history of groups from its beginning to its end.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/groups/control.h"
#include "tests/sim/groups/host.h"
#include "tests/sim/groups/switch.h"

namespace ask::sim::groups {

struct Verdict {
    Promise broken = Promise::kNone;
    std::string failure;  // "": all promises held
    std::uint64_t events = 0;
    std::uint64_t frames = 0;
    std::uint64_t whole = 0;    // groups whose members are all through
    std::uint64_t failed = 0;   // by name
    std::uint64_t results = 0;  // that a switch made
    std::uint64_t folds = 0;    // of a switch

    // What was done, for a sum of many.
    void add(const Verdict& other) {
        frames += other.frames;
        whole += other.whole;
        failed += other.failed;
        results += other.results;
        folds += other.folds;
    }
};

class History {
 public:
    History(const Plan& plan, std::uint64_t seed, bool traced);
    Verdict run();

 private:
    void begin();
    void disturb();
    void end_member(Group& group);
    void end_group(Group& group);
    void look();
    [[nodiscard]] bool all_over() const;
    [[nodiscard]] bool collector_lives(const Group& group) const;
    [[nodiscard]] std::string judge_slot(const ask_value_slot& slot);
    void judge_answers();

    World world_;
    Network network_;
    std::vector<std::unique_ptr<Switch>> switches_;
    std::vector<std::unique_ptr<Host>> hosts_;
    std::vector<std::unique_ptr<Group>> groups_;
    Control control_;
};

}  // namespace ask::sim::groups
