// SPDX-License-Identifier: Apache-2.0
//
// What a sender of way tcp-combine does by itself: it counts its whole file, and sends each key and its count
// once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace ask::bench {

// A record: the key's length, the key, its count. Numbers are 7 bits a byte, the lowest first, the top bit
// set in all but the last byte.
struct Record {
    std::string_view key;
    std::uint64_t count = 0;
    std::size_t bytes = 0;  // of the record
};
void append_record(std::string_view key, std::uint64_t count, std::string& out);
// None: it is not all there. kInput: it is none.
Result<std::optional<Record>> first_record(std::string_view bytes);

// Lines of a key each, counted in the file as it lies in memory, written to `socket` as records in no order.
Result<> send_combined(const std::string& file, int socket);

}  // namespace ask::bench
