// SPDX-License-Identifier: Apache-2.0
//
// Malformed lines of one send, of all its inputs together: so many are skipped, counted and the first of them
// shown.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "lib/base/result.h"

namespace ask {

class BadLines {
 public:
    static constexpr std::uint64_t kShown = 5;

    // `most` may be skipped; `show` gets the first few's errors.
    BadLines(std::uint64_t most, std::function<void(const std::string&)> show);
    // All inputs are read from their beginning, perhaps again: then the same lines are skipped, and count
    // once.
    void begin() { skipped_ = 0; }
    [[nodiscard]] std::uint64_t skipped() const { return skipped_; }
    // One more, with this error: that is the answer if it is one too many.
    Result<> skip(const Error& error);

 private:
    std::uint64_t most_;
    std::function<void(const std::string&)> show_;
    std::uint64_t skipped_ = 0;
    std::uint64_t shown_ = 0;  // of all runs
};

}  // namespace ask
