// SPDX-License-Identifier: Apache-2.0
//
// A stream as one of its members knows it, and what follows for the window that the member is in. No clock,
// no I/O. Internal to lib/client.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/client/task.h"

namespace ask::v1 {
class StreamState;
}

namespace ask::client {

struct OpenStreamWindow {
    std::uint64_t number = 0;
    std::int64_t begins_ms = 0;  // unix time, by the receiver's clock
    std::string task_id{};
    std::uint64_t instance = 0;  // of its run; 0: it has none yet
};

struct LeftOutOf {
    std::uint64_t window = 0;
    std::string reason{};
};

struct StreamView {
    std::uint64_t nonce = 0;             // of where the receiver keeps windows; 0: nothing has been heard yet
    std::chrono::milliseconds every{0};  // a window
    TaskOp op = TaskOp::kSum;
    std::uint64_t committed = 0;
    std::uint64_t first = 0;                  // window of this member; 0: none yet
    std::uint64_t last = 0;                   // the same; 0: no end
    std::vector<OpenStreamWindow> windows{};  // that are open, in their order
    std::int64_t clock_ms = 0;                // the receiver's clock, less this host's
    bool ended = false;
    std::vector<LeftOutOf> left_out{};
    std::string trouble{};

    // It has ended before it was finished, and the trouble says why.
    [[nodiscard]] bool cut_short() const { return ended && !trouble.empty(); }
    [[nodiscard]] const OpenStreamWindow* find(std::uint64_t number) const;
    // The first one that is open behind `number`.
    [[nodiscard]] const OpenStreamWindow* next(std::uint64_t number) const;
};

// kInternal: an operator that does not exist.
Result<StreamView> view_from_proto(const v1::StreamState& state);

// How long until `window` begins, by the receiver's clock as it is known on this host. 0: it has begun.
[[nodiscard]] std::chrono::milliseconds until(const OpenStreamWindow& window, std::int64_t clock_ms,
                                              std::chrono::system_clock::time_point now);

}  // namespace ask::client
