// SPDX-License-Identifier: Apache-2.0
//
// Results that were computed, and that the application which had asked for them did not take: they stay for a
// while, for `ask-recv --again`. Bounded in time, in number and, with all other tables, in memory.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/control/member/counters.h"
#include "lib/control/member/mailbox.h"
#include "lib/control/member/patience.h"
#include "lib/control/member/table_store.h"
#include "proto/agent.pb.h"
#include "proto/local.pb.h"

namespace ask {

// A task's result from when it is computed until it is taken. Constant, but for what is said to be guarded.
struct KeptResult {
    v1::AgentTask task;      // for status: as it was when the result was computed
    v1::ReceiveReady ready;  // what its application was told when the task was open
    v1::Done done;
    std::shared_ptr<const SealedTable> table;

    [[nodiscard]] const std::string& id() const { return task.id(); }

    // Guarded by the mutex of KeptResults, once it is kept.
    enum class State : std::uint8_t {
        kKept,
        kHandedOut,  // to an --again that has not taken it yet
        kTaken,
        kDropped
    };
    State state = State::kKept;
    bool senders_wait = true;          // else they have been told
    std::shared_ptr<Mailbox> mailbox;  // of their session, which hears by kChanged of a result that is gone
    Clock::time_point last_sign;       // of its being taken
    Clock::time_point until;           // when it goes
    std::string until_text;            // the same by the clock on the wall
};

// Thread-safe.
class KeptResults {
 public:
    static constexpr std::size_t kMost = 64;

    // 0 seconds: keeps nothing.
    KeptResults(std::chrono::seconds keep, AgentCounters* counters) : keep_(keep), counters_(counters) {}

    [[nodiscard]] std::chrono::seconds time() const { return keep_; }

    // The side of the session that computed it.
    void keep(const std::shared_ptr<KeptResult>& result);
    struct Look {
        KeptResult::State state;
        Clock::time_point last_sign;
    };
    [[nodiscard]] Look look(const KeptResult& result) const;
    // Its senders are about to be told that nobody has taken it: what it came to by then. From kKept and
    // kHandedOut there is no way back to success for them.
    [[nodiscard]] KeptResult::State stop_waiting(KeptResult& result);

    // The side of --again, of a user; root has all. kUnknown: nothing of that id, and what there is. kExists:
    // it is being taken.
    Result<std::shared_ptr<KeptResult>> hand_out(const std::string& id, std::uint32_t user);
    void taking(KeptResult& result);
    // It has been taken. Whether its senders still wait for that, and succeed.
    bool taken(const std::shared_ptr<KeptResult>& result);
    void put_back(const std::shared_ptr<KeptResult>& result);

    // Whatever its time is over goes; so do they all by clear(), which says so in the log.
    void forget_old();
    void clear();
    // For memory that a task needs now: the oldest one goes that nobody waits for, of the user if one is
    // named. False: there is none.
    bool make_room(std::optional<std::uint32_t> user = std::nullopt);
    [[nodiscard]] std::vector<v1::AgentTask> describe() const;

 private:
    using List = std::list<std::shared_ptr<KeptResult>>;
    [[nodiscard]] static bool may_take(const KeptResult& result, std::uint32_t user) {
        return user == 0 || user == result.task.user();
    }
    [[nodiscard]] static bool may_go(const KeptResult& result) {
        return result.state == KeptResult::State::kKept && !result.senders_wait;
    }
    // Its memory goes with the last that still uses it.
    void drop_locked(List::iterator at, KeptResult::State as);
    void forget_old_locked();
    [[nodiscard]] std::string list_locked(std::uint32_t user) const;

    const std::chrono::seconds keep_;
    AgentCounters* const counters_;
    mutable Mutex mutex_;
    List results_;  // oldest first
};

}  // namespace ask
