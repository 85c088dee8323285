// SPDX-License-Identifier: Apache-2.0
//
// One member's place in a group, through this host's agent: what libask (lib/ask/ask.h) wraps.
//
//     auto session = ask::client::GroupSession::open({.group = "train", .root = "h1", .rank = 0, .size = 4});
//     ...write values into session->arena()...
//     auto number = session->submit({.kind = GroupKind::kAllreduce, .type = GroupType::kInt64, ...});
//     auto done = session->wait(*number);
//
// Anything but close() - an error, the session's destruction, the end of the process - fails the group at all
// members, naming this one.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/client/group_ring.h"

namespace ask::client {

struct GroupOptions {
    std::string agent{};  // the agent's socket; empty: ASK_AGENT, else /run/ask/agent.sock
    std::string group{};  // id, the same at all members
    std::string root{};   // host whose agent collects: a name that the agent knows, or an address
    std::uint32_t rank = 0;
    std::uint32_t size = 0;
    // For all members to join; and for an operation without progress.
    std::chrono::milliseconds deadline{30'000};
    std::string token{};  // the same at all members; empty: none, members are of the root's tenant
    // For what operations read and write. The agent has a limit (group_arena_mib).
    std::size_t arena_bytes = std::size_t{64} << 20U;
    bool no_switch = false;  // goes through the collector alone; the root's word counts
    int cancel_fd = -1;      // a descriptor that ends every wait with kAborted once it is readable
    // Of survivors of a group that has failed: its instance, and how many of its operations have ended whole
    // here. Rank and size are those of that group. See GroupSession::shrink().
    std::uint64_t shrink_of = 0;
    std::uint64_t operations = 0;
};

// Not thread-safe.
class GroupSession {
 public:
    // Most operations that have not been waited for.
    static constexpr std::uint32_t kMaxOutstanding = kGroupOperations;

    // Returns once all members have joined. kUsage: what cannot be. kExists: the rank is taken. kDeadline:
    // not all have come, and the error names who is missing. kUnavailable, kDenied: as SendSession::open().
    static Result<GroupSession> open(GroupOptions options);
    GroupSession(GroupSession&&) noexcept;
    GroupSession& operator=(GroupSession&&) noexcept;
    ~GroupSession();

    // Shared with the agent, zeros at first; a fork's child does not have it.
    [[nodiscard]] std::span<std::byte> arena() const;
    [[nodiscard]] std::uint64_t instance() const;
    // Of survivors, in the order of their former ranks.
    [[nodiscard]] std::uint32_t rank() const;
    [[nodiscard]] std::uint32_t size() const;
    // For people: how results come, e.g. "through the switch", or why not.
    [[nodiscard]] const std::string& note() const;

    // Begins the next operation, and returns its number; `number` of the descriptor is ignored. Does not
    // wait. kLimit: kMaxOutstanding are under way, or the values are beyond the arena. kUsage: an offset that
    // is no multiple of kGroupAlignment, an output where the input is, or no such kind, type, operator or
    // root.
    Result<std::uint64_t> submit(GroupDescriptor descriptor);
    // What the operation came to; each is asked for once.
    Result<> wait(std::uint64_t number);
    // The same without waiting; false: it is under way.
    Result<bool> test(std::uint64_t number);
    // As test(), once it has ended or after the limit.
    Result<bool> wait_for(std::uint64_t number, std::chrono::microseconds limit);
    // The first failure, which is that of every later call.
    [[nodiscard]] const std::optional<Error>& error() const;
    // Every operation must have been waited for. Returns once this member may go: others can still get from
    // the agent what they miss.
    Result<> close();

    // A session of the same group's survivors, once this one has failed: every one of them calls it. Those
    // that have not come within the deadline are left out. The same operations have ended whole at all that
    // are in it. kUsage: the group has not failed. kAborted: it cannot shrink (its root has died), or goes on
    // without this member.
    Result<GroupSession> shrink();
    // A session of a group of `size` members: those of this one, which all call it and keep their ranks, and
    // others that open it by the same name with ranks from the old size on. Ends this one as close() does.
    Result<GroupSession> grow(std::uint32_t size);

    // All descriptors of the session: a fork's child closes them.
    [[nodiscard]] std::vector<int> fds() const;

 private:
    class Impl;
    explicit GroupSession(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace ask::client
