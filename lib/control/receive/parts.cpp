// SPDX-License-Identifier: Apache-2.0
#include "lib/control/receive/parts.h"

#include <utility>

#include "lib/control/member/patience.h"

namespace ask {
namespace {

// A table that takes the longest key, and any packet, while it grows once.
constexpr std::size_t kLeastTable = std::size_t{384} << 10U;

std::string mib(std::size_t bytes) {
    return std::to_string((bytes + (std::size_t{1} << 20U) - 1) >> 20U) + " MiB";
}

}  // namespace

Result<std::unique_ptr<Parts>> Parts::create(Task task, WorkersPort& workers, TableStore& tables,
                                             SessionIo& io) {
    // A table each, and the part.
    const std::size_t shares = std::size_t{workers.size()} + 1;
    if (task.reserve / shares < kLeastTable) {
        return Error(Errc::kLimit, "a reserve of " + mib(task.reserve) + " is too little: the tables of " +
                                       std::to_string(workers.size()) +
                                       " workers and a part that is sent on need " +
                                       mib(shares * kLeastTable) + " (reserve_mib of ask-relayd)");
    }
    auto grant = tables.grant(task.user, task.reserve);
    ASK_TRY(grant, "a reserve of " + mib(task.reserve));
    const std::size_t most = task.reserve / shares;
    return std::unique_ptr<Parts>(new Parts(std::move(task), workers, tables, io, *std::move(grant), most));
}

Result<ResultTable> Parts::make_table() {
    auto table = ResultTable::create(tables_.make_memory(grant_, most_), task_.op);
    if (table && last_keys_ > 0) {
        // It is going to be full as well, and then need not grow to what the one before had.
        [[maybe_unused]] const auto room = table->reserve(last_keys_, 0);
    }
    return table;
}

void Parts::note_taking(std::string waits_for) {
    last_sign_ = Clock::now();
    waits_for_ = std::move(waits_for);
}

Result<> Parts::note_taken() {
    if (!sealed_) {
        return Error(Errc::kInput, "the application says that it has taken a part that it was not given");
    }
    sealed_ = nullptr;
    waits_for_.clear();
    return {};
}

std::string Parts::waits_for() const {
    const Guard lock(mutex_);
    if (!sealed_ || (full_.empty() && merged_ == nullptr)) {
        return "";
    }
    return waits_for_.empty() ? task_.host + " waits for its application to send a part on" : waits_for_;
}

Result<> Parts::go_on() {
    if (sealed_) {
        return Clock::now() - last_sign_ <= task_.deadline
                   ? Result<>()
                   : Error(Errc::kDeadline,
                           "the application has not sent on what it was given, nor said "
                           "that it is at it, for " +
                               seconds_text(task_.deadline));
    }
    if (!full_.empty()) {
        const ChannelId channel = full_.front();
        full_.erase(full_.begin());
        return exchange(channel);
    }
    return exchange_merged();
}

Result<> Parts::exchange(ChannelId channel) {
    auto fresh = make_table();
    ASK_PASS(fresh);
    auto full = workers_.exchange_table(task_.instance, channel, *std::move(fresh));
    ASK_PASS(full);
    return hand_over(*std::move(full));
}

Result<> Parts::exchange_merged() {
    Lock lock(mutex_);
    if (merged_ == nullptr) {
        return {};
    }
    auto fresh = make_table();
    ASK_PASS(fresh);
    std::swap(*merged_, *fresh);
    merged_ = nullptr;
    lock.unlock();
    changed_.notify_all();
    return hand_over(*std::move(fresh));
}

Result<> Parts::hand_over(ResultTable table) {
    table.finish_wide();
    v1::LocalReply reply;
    reply.mutable_part()->set_keys(table.size());
    last_keys_ = table.size();
    auto sealed = tables_.seal(std::move(table));
    ASK_PASS(sealed);
    reply.mutable_part()->set_bytes((*sealed)->bytes());
    reply.mutable_part()->set_table_bytes_most(bytes_most());
    sealed_ = *std::move(sealed);
    last_sign_ = Clock::now();
    return io_.reply(reply, sealed_.get());
}

Result<> Parts::make_room(ResultTable& table) {
    Lock lock(mutex_);
    merged_ = &table;
    io_.mailbox()->post(SessionEvent::Kind::kChanged);
    changed_.wait(lock, [this] { return merged_ == nullptr || ended_; });
    if (merged_ != nullptr) {
        merged_ = nullptr;
        return Error(Errc::kAborted, "the session ends");
    }
    return {};
}

void Parts::end() {
    {
        const Guard lock(mutex_);
        ended_ = true;
    }
    changed_.notify_all();
}

}  // namespace ask
