// SPDX-License-Identifier: Apache-2.0
//
// Which places tasks have at switches: a switch aggregates for so many tasks at a time, and its memory is
// counted where the topology says how much there is.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/base/runtime.h"
#include "lib/topology/fabric.h"

namespace ask::placing {

using Time = Clock::time_point;

// Whether a switch may be proposed, or why not.
enum class Verdict : std::uint8_t {
    kFree,
    kNoRelay,      // the topology names none beside it
    kUnavailable,  // says the topology
    kOff,          // an operator has switched it off
    kPaused,       // somebody reported that it refuses
    kFull,
    kNoMemory,
    kQuota,  // the asker has as many places there as one may
};
inline constexpr std::size_t kVerdicts = 8;
// As part of a sentence: "3 are full".
[[nodiscard]] const char* verdict_text(Verdict verdict);

// Who asks for a place, and for how much.
struct Asker {
    std::string holder;  // whose quota it is of
    std::uint32_t memory_mib = 0;
};

struct SwitchState {
    std::string name;
    std::uint32_t taken = 0;  // may exceed the capacity: tasks that run by plans of before
    std::uint64_t memory_taken_mib = 0;
    bool off = false;
    Time paused_until{};
    std::uint64_t refusals = 0;
    std::string last_refusal;
    std::map<std::string, std::uint32_t> by_holder;
    std::map<std::string, Time> heard;  // holders whose word does not pause it again until then
};

class Places {
 public:
    // `quota`: places of one holder at a switch; 0: seven eighths of its capacity. The fabric must outlive
    // it, or be followed by another.
    Places(const topology::Fabric& fabric, std::uint32_t quota);
    void set_quota(std::uint32_t quota) { quota_ = quota; }
    // Another topology. What is known of switches by their names stays, and nothing is taken any more.
    void follow(const topology::Fabric& fabric);

    [[nodiscard]] Verdict judge(placement::SwitchId id, const Asker& asker, Time now) const;
    // Places left; kPlenty where there is no limit.
    static constexpr std::uint32_t kPlenty = 1U << 20U;
    [[nodiscard]] std::uint32_t left(placement::SwitchId id) const;

    // Counts a place at each of these switches, though it were full: the task runs there. Not at those that
    // are no switches (any more), nor past the asker's quota, so that what somebody claims leaves others
    // some. Those that were counted.
    std::vector<std::string> take(const std::vector<std::string>& switches, const Asker& asker);
    void give_back(const std::vector<std::string>& taken, const Asker& asker);

    // False: there is no such switch.
    bool set_available(const std::string& name, bool available, bool* changed);
    // A task of the holder was refused there: nobody gets it for `pause`; by one holder's word that is at
    // most half of the time.
    void refused(const std::string& name, const std::string& holder, const std::string& reason, Time now,
                 Clock::duration pause);

    [[nodiscard]] const std::vector<SwitchState>& states() const { return states_; }

 private:
    [[nodiscard]] SwitchState* find(const std::string& name);
    [[nodiscard]] std::uint32_t quota_of(std::uint32_t capacity) const;
    [[nodiscard]] bool past_quota(placement::SwitchId id, const Asker& asker) const;

    const topology::Fabric* fabric_;
    std::uint32_t quota_;
    std::vector<SwitchState> states_;  // by SwitchId
};

}  // namespace ask::placing
