// SPDX-License-Identifier: Apache-2.0
//
// What the tasks of this agent came to that have ended, and what a log says of one: totals outlive tasks, and
// name none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "lib/base/histogram.h"
#include "lib/base/result.h"
#include "lib/base/runtime.h"
#include "proto/common.pb.h"
#include "proto/local.pb.h"

namespace ask {

enum class TaskRole : std::uint8_t { kReceiver, kSender };
inline constexpr std::array kTaskRoles = {TaskRole::kReceiver, TaskRole::kSender};
[[nodiscard]] const char* to_string(TaskRole role);

// 0: committed; else an Errc.
inline constexpr std::size_t kTaskCodes = static_cast<std::size_t>(Errc::kRunAgain) + 1;

// From its opening to its end, seconds.
inline constexpr std::array<double, 14> kTaskSeconds = {0.01, 0.03, 0.1, 0.3,  1,    3,     10,
                                                        30,   100,  300, 1000, 3000, 10000, 30000};

// Thread-safe.
class TaskTotals {
 public:
    struct OfRole {
        std::array<std::uint64_t, kTaskCodes> ended{};         // by code
        Histogram<kTaskSeconds.size()> seconds{kTaskSeconds};  // of those that committed
        v1::FlowStats stats;                                   // the same
        std::uint64_t keys = 0;
        std::uint64_t bytes = 0;  // of results
    };

    void committed(TaskRole role, double seconds, const v1::FlowStats& stats, std::uint64_t keys = 0,
                   std::uint64_t bytes = 0);
    void failed(TaskRole role, Errc code);
    [[nodiscard]] OfRole of(TaskRole role) const;

 private:
    mutable Mutex mutex_;
    std::array<OfRole, kTaskRoles.size()> roles_;
};

// In words, for the line of a task that has committed: tuples, keys, bytes, seconds, what share of the tuples
// switches added up, and what was sent again.
[[nodiscard]] std::string figures_of(const v1::Done& done);
// The same of one send, which knows nothing of keys.
[[nodiscard]] std::string figures_of(const v1::FlowStats& sent, double seconds);

}  // namespace ask
