// SPDX-License-Identifier: Apache-2.0
//
// Lines of results to a file descriptor, in large writes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace ask::cli {

// Called whenever a descriptor has taken something; an error ends the writing.
using OnWritten = std::function<Result<>()>;

// Writes all of `bytes`, however many calls it takes.
Result<> write_all(int fd, std::string_view bytes, const OnWritten& on_written = {});

class LineWriter {
 public:
    // `scale`: values are printed divided by 10^scale, with just so many decimals.
    explicit LineWriter(int fd, unsigned scale = 0, OnWritten on_written = {});
    // Adds `key<TAB>value`, the key escaped. Fails when the descriptor cannot take what has gathered.
    Result<> line(std::string_view key, std::int64_t value);
    Result<> flush();

 private:
    int fd_;
    unsigned scale_;
    OnWritten on_written_;
    std::string buffer_;
};

}  // namespace ask::cli
