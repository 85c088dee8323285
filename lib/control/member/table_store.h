// SPDX-License-Identifier: Apache-2.0
//
// Memory of results, which applications get as it stands. Thread-safe.
#pragma once

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

class TableStore {
 public:
    TableStore() = default;
    virtual ~TableStore() = default;
    TableStore(const TableStore&) = delete;
    TableStore& operator=(const TableStore&) = delete;

    // For one table of a user's task. What it grows by is refused (kLimit) where all tables together would
    // take too much, or those of the user.
    [[nodiscard]] virtual std::unique_ptr<TableMemory> make_memory(std::uint32_t user) = 0;
    // kLimit: a table of so many keys can never be had for that user, whatever other tables give back.
    [[nodiscard]] virtual Result<> check_room(std::uint32_t user, std::uint64_t keys,
                                              std::uint64_t key_bytes) = 0;
    // Of a table with memory that was made here.
    virtual Result<std::shared_ptr<const SealedTable>> seal(ResultTable table) = 0;
};

}  // namespace ask
