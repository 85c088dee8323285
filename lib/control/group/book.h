// SPDX-License-Identifier: Apache-2.0
//
// The groups that this host has a member of, and how the last ones ended: for people to look at. Nothing is
// decided by it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "lib/base/runtime.h"
#include "lib/control/group/ports.h"
#include "lib/control/group/registry.h"
#include "lib/tuples/types.h"
#include "proto/agent.pb.h"

namespace ask {

// Thread-safe.
class GroupBook {
 public:
    struct Entry {
        v1::AgentGroup group;
        std::optional<ChannelId> channel;  // at whose worker it runs, while it does
        Clock::time_point opened;
        std::optional<Clock::time_point> switch_lost;
        std::optional<Clock::time_point> switch_opened;  // there again
        Clock::time_point ended;
    };

    // `limit`: of those that have ended.
    explicit GroupBook(std::size_t limit) : limit_(limit) {}

    std::uint64_t add(v1::AgentGroup group);
    void change(std::uint64_t number, const std::function<void(Entry&)>& how);
    void end(std::uint64_t number);
    // Ages and times are set.
    [[nodiscard]] std::vector<Entry> list() const;
    // The latest first.
    [[nodiscard]] std::vector<v1::AgentGroup> ended() const;
    // Groups that have failed since the agent started.
    [[nodiscard]] std::uint64_t failed() const;

 private:
    const std::size_t limit_;
    mutable Mutex mutex_;
    std::uint64_t last_ = 0;
    std::uint64_t failed_ = 0;
    std::map<std::uint64_t, Entry> entries_;
    std::deque<Entry> ended_;
};

// What its worker and, on the root's host, its registry know of a group.
void describe(const GroupState& state, v1::AgentGroup& group);
void describe(const std::vector<std::optional<GroupRegistry::Seat>>& seats, v1::AgentGroup& group);

}  // namespace ask
