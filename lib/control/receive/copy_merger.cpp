// SPDX-License-Identifier: Apache-2.0
#include "lib/control/receive/copy_merger.h"

#include <system_error>
#include <utility>

#include "lib/control/member/session_io.h"
#include "lib/tuples/fetch_codec.h"

namespace ask {

CopyMerger::~CopyMerger() {
    {
        const Guard lock(mutex_);
        stop_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) {
        thread_.join();
    }
}

Result<> CopyMerger::expect(const BackSize& size) {
    ASK_PASS(drain());
    auto room = table_.expect(size.entries, size.key_bytes);
    if (room || make_room_) {
        return {};
    }
    fail(room.error());
    return room;
}

Result<std::uint64_t> CopyMerger::take(std::string piece) {
    const auto count = count_entries(piece);
    ASK_PASS(count);
    if (!std::exchange(any_, true) || !start_thread()) {
        merge(piece);
    } else {
        Lock lock(mutex_);
        changed_.wait(lock, [this] { return count_ < kMostWaiting || error_; });
        if (!error_) {
            waiting_[(first_ + count_++) % kMostWaiting] = std::move(piece);
            changed_.notify_all();
        }
    }
    const Guard lock(mutex_);
    if (error_) {
        return *error_;
    }
    entries_ += *count;
    return *count;
}

bool CopyMerger::start_thread() {
    try {
        if (!thread_.joinable()) {
            thread_ = Thread(&CopyMerger::merge_loop, this);
        }
        return true;
    } catch (const std::system_error&) {
        return false;
    }
}

void CopyMerger::merge(const std::string& piece) {
    auto merged = run_within_limits([&]() -> Result<> {
        ASK_PASS(add_entries(table_, piece, make_room_));
        return {};
    });
    if (!merged.ok()) {
        fail(std::move(merged).error());
    }
}

void CopyMerger::merge_loop() {
    Lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [this] { return stop_ || (count_ > 0 && !error_); });
        if (stop_) {
            return;
        }
        const std::string piece = std::move(waiting_[first_]);
        lock.unlock();
        merge(piece);
        lock.lock();
        first_ = (first_ + 1) % kMostWaiting;
        --count_;
        changed_.notify_all();
    }
}

void CopyMerger::fail(Error error) {
    const Guard lock(mutex_);
    error_ = std::move(error);
    changed_.notify_all();
}

Result<> CopyMerger::drain() {
    Lock lock(mutex_);
    changed_.wait(lock, [this] { return count_ == 0 || error_; });
    return error_ ? Result<>(*error_) : Result<>();
}

bool CopyMerger::broken() {
    const Guard lock(mutex_);
    return error_.has_value();
}

}  // namespace ask
