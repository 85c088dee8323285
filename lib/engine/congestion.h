// SPDX-License-Identifier: Apache-2.0
//
// When a packet counts as lost, and how many may be under way.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lib/engine/types.h"

namespace ask {

// Retransmission timeout after RFC 6298, with floor and ceiling; samples only from packets sent once (Karn).
//
// RFC 6298 stays backed off until there is a sample. Where every second packet is lost hardly any is sent but
// once, so that a channel would end up at the ceiling for good. Here any ACK ends backing off, and five
// doublings are the most: at a window of one packet, that is little enough for any path. What Karn's rule
// guards against, a path that takes longer than the timeout, shows in second ACKs of one packet, and those
// raise the timeout until there is a sample.
class RetransmitTimer {
 public:
    RetransmitTimer(Nanos initial, Nanos floor, Nanos ceiling)
        : floor_(floor),
          ceiling_(std::max(floor, ceiling)),
          base_(std::clamp(initial, floor_, ceiling_)),
          rto_(base_) {}

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
        base_ = std::clamp(srtt_ + 4 * variation_, floor_, ceiling_);
        rto_ = base_;
    }
    // Something sent more than once is acknowledged.
    void progress() { rto_ = base_; }
    // It is acknowledged once more: it was sent again too early. Once in a timeout: what was under way with
    // it tells nothing new.
    void premature(Nanos now) {
        if (now >= learnt_at_ + base_) {
            learnt_at_ = now;
            base_ = std::min(ceiling_, 2 * base_);
            rto_ = std::max(rto_, base_);
        }
    }
    // A timeout ran off: the next one is twice as long, until an ACK comes.
    void back_off() { rto_ = std::min({ceiling_, kMostBackOff * base_, 2 * rto_}); }
    [[nodiscard]] Nanos timeout() const { return rto_; }
    [[nodiscard]] Nanos srtt() const { return std::max<Nanos>(srtt_, 0); }

 private:
    static constexpr Nanos kMostBackOff = 32;

    Nanos floor_;
    Nanos ceiling_;
    Nanos base_;           // without backing off
    Nanos learnt_at_ = 0;  // when it was last raised without a sample
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
        before_ = window_;
        threshold_before_ = threshold_;
        window_ = std::max(1.0, window_ / 2);
        threshold_ = window_;
        return true;
    }
    // What it was shrunk for last was no loss after all (Eifel, RFC 4015).
    void undo() {
        window_ = std::max(window_, before_);
        threshold_ = std::max(threshold_, threshold_before_);
    }
    [[nodiscard]] double packets() const { return window_; }
    [[nodiscard]] std::uint32_t whole() const { return static_cast<std::uint32_t>(window_); }

 private:
    std::uint32_t limit_;
    double window_;
    double threshold_;
    double before_ = 0;  // the last shrinking
    double threshold_before_ = 0;
    std::uint64_t shrunk_at_ = 0;
};

}  // namespace ask
