// SPDX-License-Identifier: Apache-2.0
//
// The tables of a receive with a reserve: one that is full is exchanged for a new one and handed to the
// application as a part, one at a time, while the others go on. Tables and part together never take more than
// the reserve.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/runtime.h"
#include "lib/control/member/session_io.h"
#include "lib/control/member/table_store.h"
#include "lib/control/member/workers_port.h"
#include "lib/engine/types.h"
#include "lib/tuples/result_table.h"

namespace ask {

// Its session's, but for make_room().
class Parts {
 public:
    struct Task {
        std::string host;  // for messages: whose application sends parts on
        std::uint64_t instance = 0;
        Op op = Op::kSum;
        std::uint32_t user = 0;
        std::size_t reserve = 0;  // bytes
        milliseconds deadline{0};
    };
    // All of them outlive it. kLimit: the reserve is too little, or cannot be had.
    static Result<std::unique_ptr<Parts>> create(Task task, WorkersPort& workers, TableStore& tables,
                                                 SessionIo& io);

    Result<ResultTable> make_table();
    // That table takes no more.
    void note_full(ChannelId channel) { full_.push_back(channel); }
    // The application sends the part on, and what that waits for.
    void note_taking(std::string waits_for);
    // It has sent it on. kInput: there is none.
    Result<> note_taken();
    // Hands the next part over, if there is one and the one before is taken. kDeadline: that is not, and the
    // application has said nothing for the task's deadline.
    Result<> go_on();
    [[nodiscard]] bool outstanding() const { return sealed_ != nullptr; }
    // What tables wait for that take nothing now; empty: none does.
    [[nodiscard]] std::string waits_for() const;
    // Of all tables and parts.
    [[nodiscard]] std::size_t bytes_most() const { return grant_->most(); }

    // With none outstanding: `table` is the next part.
    Result<> hand_over(ResultTable table);
    // For the thread that merges a copy: exchanges its table for a new one, which the session hands over.
    Result<> make_room(ResultTable& table);
    // The session ends: nobody hands anything over any more.
    void end();

 private:
    Parts(Task task, WorkersPort& workers, TableStore& tables, SessionIo& io,
          std::shared_ptr<TableGrant> grant, std::size_t most)
        : task_(std::move(task)),
          workers_(workers),
          tables_(tables),
          io_(io),
          grant_(std::move(grant)),
          most_(most) {}
    Result<> exchange(ChannelId channel);
    Result<> exchange_merged();

    const Task task_;
    WorkersPort& workers_;
    TableStore& tables_;
    SessionIo& io_;
    const std::shared_ptr<TableGrant> grant_;
    const std::size_t most_;       // of one table
    std::vector<ChannelId> full_;  // whose tables are to be exchanged, the first one first
    std::shared_ptr<const SealedTable> sealed_;
    std::uint64_t last_keys_ = 0;  // of the part before
    Clock::time_point last_sign_;  // of the application, that it is at the part
    std::string waits_for_;

    mutable Mutex mutex_;
    CondVar changed_;
    ResultTable* merged_ = nullptr;  // that make_room() waits for
    bool ended_ = false;
};

}  // namespace ask
