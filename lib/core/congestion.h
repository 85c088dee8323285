// SPDX-License-Identifier: Apache-2.0
//
// When a packet counts as lost, and how many may be under way.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lib/core/types.h"

namespace ask {

// Retransmission timeout after RFC 6298, with floor and ceiling; samples only from packets
// sent once (Karn).
class RetransmitTimer {
 public:
    RetransmitTimer(Nanos initial, Nanos floor, Nanos ceiling)
        : floor_(floor), ceiling_(std::max(floor, ceiling)), rto_(std::clamp(initial, floor_, ceiling_)) {}

    void sample(Nanos rtt) {
        rtt = std::max<Nanos>(rtt, 0);
        if (srtt_ < 0) {
            srtt_ = rtt;
            variation_ = rtt / 2;
        } else {
            const Nanos off = srtt_ > rtt ? srtt_ - rtt : rtt - srtt_;
            variation_ += (off - variation_) / 4;
            srtt_ += (rtt - srtt_) / 8;
        }
        rto_ = std::clamp(srtt_ + 4 * variation_, floor_, ceiling_);
    }
    // A timeout ran off: the next one is twice as long, until a sample comes.
    void back_off() { rto_ = std::min(ceiling_, rto_ > ceiling_ / 2 ? ceiling_ : 2 * rto_); }
    [[nodiscard]] Nanos timeout() const { return rto_; }
    [[nodiscard]] Nanos srtt() const { return std::max<Nanos>(srtt_, 0); }

 private:
    Nanos floor_;
    Nanos ceiling_;
    Nanos rto_;
    Nanos srtt_ = -1;  // none yet
    Nanos variation_ = 0;
};

// Congestion window in packets: slow start up to the first loss, then one packet more per
// round trip; halved by loss or ECN echo, once for all packets of a flight (AIMD, as ATP).
class CongestionWindow {
 public:
    CongestionWindow(std::uint32_t initial, std::uint32_t limit)
        : limit_(std::max(1U, limit)), window_(std::clamp(initial, 1U, limit_)), threshold_(limit_) {}

    void acked() {
        window_ += window_ < threshold_ ? 1.0 : 1.0 / window_;
        window_ = std::min<double>(window_, limit_);
    }
    // A packet was lost or met congestion. `sent_as`: its transmission's number (from 1),
    // `sent_last`: the number of the channel's latest one. Returns whether the window shrank:
    // not if the packet had left before the last shrinking.
    bool congested(std::uint64_t sent_as, std::uint64_t sent_last) {
        if (sent_as <= shrunk_at_) {
            return false;
        }
        shrunk_at_ = sent_last;
        window_ = std::max(1.0, window_ / 2);
        threshold_ = window_;
        return true;
    }
    [[nodiscard]] double packets() const { return window_; }
    [[nodiscard]] std::uint32_t whole() const { return static_cast<std::uint32_t>(window_); }

 private:
    std::uint32_t limit_;
    double window_;
    double threshold_;
    std::uint64_t shrunk_at_ = 0;
};

}  // namespace ask
