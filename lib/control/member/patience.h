// SPDX-License-Identifier: Apache-2.0
//
// How long sessions wait, and for what.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

#include "lib/abi/limits.h"
#include "lib/base/result.h"
#include "lib/base/runtime.h"

namespace ask {

using std::chrono::milliseconds;

// How often a session looks after itself.
inline constexpr milliseconds kSessionTick{500};

// Whoever was called is away or slow, and may be back.
[[nodiscard]] inline bool is_transient(const Error& error) {
    return error.code() == Errc::kUnavailable || error.code() == Errc::kDeadline;
}

// How long a copy of a task may take to come, or to be asked for again.
inline constexpr milliseconds kFetchWait{30000};

// "30 s".
[[nodiscard]] inline std::string seconds_text(milliseconds time) {
    return std::to_string(std::chrono::round<std::chrono::seconds>(time).count()) + " s";
}

[[nodiscard]] inline double seconds_since(Clock::time_point begun) {
    return std::chrono::duration<double>(Clock::now() - begun).count();
}

// Of a task: what the application asks for (0: the agent's own), from a second, in which agents hear of each
// other several times, to a day.
[[nodiscard]] inline Result<milliseconds> task_deadline(std::uint32_t asked_ms, unsigned own_seconds) {
    constexpr milliseconds kShortest{ASK_MIN_DEADLINE * 1000};
    constexpr milliseconds kLongest{ASK_MAX_DEADLINE * 1000};
    const milliseconds wanted = asked_ms == 0 ? milliseconds(own_seconds * 1000LL) : milliseconds(asked_ms);
    if (wanted < kShortest || wanted > kLongest) {
        return Error(Errc::kUsage,
                     "a deadline must be from 1 s to 86400 s, not " + std::to_string(wanted.count()) + " ms");
    }
    return wanted;
}

// How long one wait may take: no longer than is left until the end of what it is a part of. At least a
// millisecond, since what has no time left is noticed by whoever asks once more.
[[nodiscard]] inline milliseconds at_most(milliseconds longest, Clock::time_point end) {
    const auto left = std::chrono::ceil<milliseconds>(end - Clock::now());
    return std::clamp(left, milliseconds(1), longest);
}

}  // namespace ask
