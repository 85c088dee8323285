// SPDX-License-Identifier: Apache-2.0
//
// What the arenas of an agent's groups may take together, and of it those of one user, bytes; root has no
// limit of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "lib/base/result.h"

namespace ask {

// Thread-safe.
class ArenaBudget {
 public:
    // Paid for until it ends. The budget outlives it.
    class Share {
     public:
        Share(ArenaBudget& of, std::size_t bytes, std::uint32_t user) : of_(of), bytes_(bytes), user_(user) {}
        Share(const Share&) = delete;
        Share& operator=(const Share&) = delete;
        ~Share() { of_.release(bytes_, user_); }

     private:
        ArenaBudget& of_;
        const std::size_t bytes_;
        const std::uint32_t user_;
    };

    explicit ArenaBudget(std::size_t limit) : limit_(limit) {}
    // kLimit: names the limit, and whose it is.
    Result<std::unique_ptr<Share>> reserve(std::size_t bytes, std::uint32_t user);
    [[nodiscard]] std::size_t used() const;
    [[nodiscard]] std::size_t limit() const { return limit_; }
    [[nodiscard]] std::size_t limit_of(std::uint32_t user) const;

 private:
    void release(std::size_t bytes, std::uint32_t user);

    const std::size_t limit_;
    mutable std::mutex mutex_;
    std::size_t used_ = 0;
    std::map<std::uint32_t, std::size_t> users_;  // those that have any
};

}  // namespace ask
