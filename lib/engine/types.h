// SPDX-License-Identifier: Apache-2.0
//
// Vocabulary of both ends of a flow. They do no I/O, read no clock and start no thread: bytes and
// time go in, bytes and deadlines come out.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "lib/abi/consts.h"
#include "lib/abi/format.h"
#include "lib/abi/wire.h"
#include "lib/base/result.h"

namespace ask {

// Monotonic time in nanoseconds, whatever its zero.
using Nanos = std::int64_t;
inline constexpr Nanos kNever = std::numeric_limits<Nanos>::max();
inline constexpr Nanos kMicrosecond = 1'000;
inline constexpr Nanos kMillisecond = 1'000'000;
inline constexpr Nanos kSecond = 1'000'000'000;

// A channel's name on the wire: its host's number (lib/net/host_book.h) and its UDP port there.
struct ChannelId {
    std::uint32_t host = 0;
    std::uint16_t port = 0;
    auto operator<=>(const ChannelId&) const = default;
};

// The switch (and its incarnation) that aggregates a flow; switch_id 0 means none.
struct Mark {
    std::uint16_t switch_id = 0;
    std::uint32_t incarnation = 0;
    auto operator<=>(const Mark&) const = default;
};

// Of a task's other switches, those that a flow knows.
inline constexpr std::size_t kMaxOtherMarks = 8;

// A few marks, each once.
class MarkList {
 public:
    // False: no room. That of no switch is none.
    constexpr bool add(Mark mark) {
        if (mark.switch_id == 0 || has(mark)) {
            return true;
        }
        if (count_ == kMaxOtherMarks) {
            return false;
        }
        marks_[count_++] = mark;
        return true;
    }
    [[nodiscard]] constexpr bool has(Mark mark) const {
        for (std::size_t i = 0; i < count_; ++i) {
            if (marks_[i] == mark) {
                return true;
            }
        }
        return false;
    }

 private:
    std::array<Mark, kMaxOtherMarks> marks_{};
    std::size_t count_ = 0;
};

// 128-bit secret of a flow's check, expanded by ask_check_expand().
using CheckSecret = std::array<std::uint64_t, 2>;

// What the service says of a packet in its header: the same in all of a flow.
using Format = ask_format;
[[nodiscard]] inline bool same_format(Format a, Format b) {
    return std::memcmp(&a, &b, sizeof(a)) == 0;
}

// What both ends of a flow (a task instance on a channel) agreed on when it was joined, whatever it carries.
struct FlowTerms {
    std::uint64_t instance = 0;
    ChannelId channel;
    std::uint32_t incarnation = 0;
    CheckSecret secret{};
    Mark mark;  // that its DATA and VAR must have
    std::uint64_t first_seq = 1;
    bool whole_keys = false;  // VAR may be sent
    // Of the task's other switches: for the receiving end to tell what came through one of them from what
    // went round all. Nothing that the ends agree on.
    MarkList other_marks{};
};

// What of a flow's packets the service decides, at either end.
struct BodyTerms {
    Format format{};
    std::uint8_t rows = 0;  // most of a packet
};

struct ChannelIdHash {
    std::size_t operator()(const ChannelId& id) const {
        std::uint64_t x = (std::uint64_t{id.host} << 16) ^ id.port;
        x ^= x >> 33;
        x *= 0xff51afd7ed558ccdULL;
        x ^= x >> 33;
        return x;
    }
};

}  // namespace ask
