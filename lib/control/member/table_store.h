// SPDX-License-Identifier: Apache-2.0
//
// Memory of results, which applications get as it stands. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "lib/base/result.h"
#include "lib/control/member/application_port.h"
#include "lib/tuples/result_table.h"

namespace ask {

// A table that is no longer changed. The memory stays paid for until this goes.
class SealedTable : public Attachment {
 public:
    [[nodiscard]] virtual std::size_t bytes() const = 0;
};

// What all tables of one task may take together, bytes: taken from the store at once, and given back when the
// last of them has gone. Thread-safe.
class TableGrant {
 public:
    explicit TableGrant(std::size_t limit) : limit_(limit) {}
    virtual ~TableGrant() = default;
    TableGrant(const TableGrant&) = delete;
    TableGrant& operator=(const TableGrant&) = delete;

    [[nodiscard]] std::size_t limit() const { return limit_; }
    // The most that was taken at a time.
    [[nodiscard]] std::size_t most() const { return most_.load(std::memory_order_relaxed); }
    [[nodiscard]] bool take(std::size_t bytes) {
        std::size_t used = used_.load(std::memory_order_relaxed);
        do {
            if (bytes > limit_ - used) {
                return false;
            }
        } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
        std::size_t most = most_.load(std::memory_order_relaxed);
        while (most < used + bytes &&
               !most_.compare_exchange_weak(most, used + bytes, std::memory_order_relaxed)) {
        }
        return true;
    }
    void give(std::size_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }

 private:
    const std::size_t limit_;
    std::atomic<std::size_t> used_{0};
    std::atomic<std::size_t> most_{0};
};

class TableStore {
 public:
    TableStore() = default;
    virtual ~TableStore() = default;
    TableStore(const TableStore&) = delete;
    TableStore& operator=(const TableStore&) = delete;

    // For one table of a user's task. What it grows by is refused (kLimit) where all tables together would
    // take too much, or those of the user.
    [[nodiscard]] virtual std::unique_ptr<TableMemory> make_memory(std::uint32_t user) = 0;
    // kLimit: so much cannot be had now.
    virtual Result<std::shared_ptr<TableGrant>> grant(std::uint32_t user, std::size_t bytes) = 0;
    // For one table out of a grant that was made here, which takes no more than `most` of it.
    [[nodiscard]] virtual std::unique_ptr<TableMemory> make_memory(std::shared_ptr<TableGrant> grant,
                                                                   std::size_t most) = 0;
    // kLimit: a table of so many keys can never be had for that user, whatever other tables give back.
    [[nodiscard]] virtual Result<> check_room(std::uint32_t user, std::uint64_t keys,
                                              std::uint64_t key_bytes) = 0;
    // Of a table with memory that was made here.
    virtual Result<std::shared_ptr<const SealedTable>> seal(ResultTable table) = 0;
};

}  // namespace ask
