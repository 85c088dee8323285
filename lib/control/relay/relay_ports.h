// SPDX-License-Identifier: Apache-2.0
//
// A relay's two sessions with its host's agent: the receive of what comes from below, and the send to the
// parent. Used by the thread of the task alone, but for cancel(). What is destroyed before its end tears its
// task down for everybody.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/tuples/tuple.h"
#include "lib/tuples/types.h"
#include "proto/relay.pb.h"

namespace ask {

// What the receive below has come to.
struct RelayProgress {
    std::uint32_t senders_joined = 0;
    std::uint32_t senders_finished = 0;
    std::uint64_t tuples_in = 0;
    bool cannot_repeat = false;          // one of those below cannot send everything once more
    std::uint64_t table_bytes_most = 0;  // that its tables have taken of the reserve at a time
};

// What the sessions say within their waits, about once a second.
struct RelayHooks {
    std::function<void(const RelayProgress& now)> on_below;
    // What the parent waits for, and takes nothing meanwhile, as it says; empty: nothing.
    std::function<void(const std::string& waits_for)> on_above;
};

// What the receive below has added up, or a part of that: whoever has it has it alone.
class RelayTable {
 public:
    RelayTable() = default;
    virtual ~RelayTable() = default;
    RelayTable(const RelayTable&) = delete;
    RelayTable& operator=(const RelayTable&) = delete;

    [[nodiscard]] virtual bool last() const = 0;  // nothing comes after it
    // That tables have taken of the reserve at a time, up to now.
    [[nodiscard]] virtual std::uint64_t bytes_most() const = 0;
    // What has come of the last one, and from whom.
    [[nodiscard]] virtual std::vector<v1::FlowsFrom> flows() const = 0;
    using Visit = std::function<void(std::string_view key, Wide value)>;
    [[nodiscard]] virtual Result<> each(const Visit& visit) const = 0;
};

class RelayBelow {
 public:
    RelayBelow() = default;
    virtual ~RelayBelow() = default;
    RelayBelow(const RelayBelow&) = delete;
    RelayBelow& operator=(const RelayBelow&) = delete;

    // Once those below may ask for the task: what it got, as the receiver is to hear it.
    virtual Result<v1::OpenRelayReply> open() = 0;
    // The next table, each once, and the last one when all have finished. Asking for another says that the
    // one before has been sent.
    virtual Result<std::unique_ptr<RelayTable>> next() = 0;
    // A sign of life while it has a table and sends it, and what that waits for, as those below are to hear
    // it. Never waits.
    virtual void taking(const std::string& waits_for) = 0;
    // The same while it waits for other things, and has no table. Never waits.
    virtual void alive() = 0;
    // After an error: relays that were lost, by the names of their switches.
    [[nodiscard]] virtual std::vector<std::string> lost_relays() const = 0;
    // Those below hear why. Nothing may be called after it.
    virtual void abandon(const Error& why) = 0;
    // Those below succeed now, and not before.
    virtual Result<> confirm() = 0;
};

class RelayAbove {
 public:
    RelayAbove() = default;
    virtual ~RelayAbove() = default;
    RelayAbove(const RelayAbove&) = delete;
    RelayAbove& operator=(const RelayAbove&) = delete;

    // Once the parent's task has been joined.
    virtual Result<> open() = 0;
    // Waits while there is no room.
    virtual Result<> send(std::span<const Tuple> tuples) = 0;
    // Learns whether the task has failed meanwhile. Does not wait.
    virtual Result<> flush() = 0;
    // From now on a switch that loses what it has ends the task for everybody.
    virtual Result<> cannot_repeat() = 0;
    // Once the parent's receiver has committed.
    virtual Result<> finish() = 0;
    // Those above hear why. Nothing may be called after it.
    virtual void abandon(const Error& why, const std::vector<std::string>& lost_relays) = 0;
};

class RelaySessions {
 public:
    RelaySessions() = default;
    virtual ~RelaySessions() = default;
    RelaySessions(const RelaySessions&) = delete;
    RelaySessions& operator=(const RelaySessions&) = delete;

    [[nodiscard]] virtual RelayBelow& below() = 0;
    [[nodiscard]] virtual RelayAbove& above() = 0;
    // Ends every wait of both with kAborted, from now on. From any thread.
    virtual void cancel() = 0;
    // Ends both. Whatever was neither confirmed nor finished fails for everybody. Returns once the agent has
    // given back what it had for them, or has been given its time to.
    virtual void close() = 0;
};

// Both of an order, neither of them open yet; tables below take no more than the reserve. Thread-safe.
using MakeRelaySessions = std::function<std::unique_ptr<RelaySessions>(
    const v1::OpenRelayRequest& order, std::uint64_t reserve_bytes, RelayHooks hooks)>;

}  // namespace ask
