// SPDX-License-Identifier: Apache-2.0
//
// The places of a channel's sliding window, and lists of them.
#pragma once

#include <array>
#include <cstdint>

#include "lib/engine/types.h"

namespace ask {

// A place of the window: one packet, kept sealed until it is acknowledged.
struct Place {
    enum class State : std::uint8_t { kFree, kSent, kLost };
    State state = State::kFree;
    std::uint8_t type = 0;
    bool repeated = false;  // sent more than once: its ACK is no RTT sample (Karn)
    std::uint32_t bytes = 0;
    std::uint32_t next = 0;
    std::uint32_t prev = 0;
    std::uint64_t seq = 0;
    std::uint64_t sent_as = 0;  // number of its last transmission
    Nanos first_sent_at = 0;
    Nanos sent_at = 0;
    Nanos timeout = 0;  // in force when it was sent
};

// Places in the order they were put in; linked through Place::next and prev.
class PlaceList {
 public:
    static constexpr std::uint32_t kNone = ASK_WINDOW;
    using Places = std::array<Place, ASK_WINDOW>;

    void push(Places& places, std::uint32_t at) {
        places[at].next = kNone;
        places[at].prev = tail_;
        (tail_ == kNone ? head_ : places[tail_].next) = at;
        tail_ = at;
        ++count_;
    }
    void remove(Places& places, std::uint32_t at) {
        const Place& place = places[at];
        (place.prev == kNone ? head_ : places[place.prev].next) = place.next;
        (place.next == kNone ? tail_ : places[place.next].prev) = place.prev;
        --count_;
    }
    [[nodiscard]] bool empty() const { return head_ == kNone; }
    [[nodiscard]] std::uint32_t front() const { return head_; }
    [[nodiscard]] std::uint32_t count() const { return count_; }

 private:
    std::uint32_t head_ = kNone;
    std::uint32_t tail_ = kNone;
    std::uint32_t count_ = 0;
};

}  // namespace ask
