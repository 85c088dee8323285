// SPDX-License-Identifier: Apache-2.0
//
// Packets that came to one worker and belong to another, and packets between tasks of this host. A channel,
// sending or receiving, has exactly one owner, so that its state needs no lock.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "lib/net/frame.h"

namespace ask {

struct InboxPacket {
    std::vector<std::byte> payload;
    UdpAddresses addresses;  // as it came
    bool ecn_ce = false;
    bool local = false;  // from this host: answers stay in-process, only ports count
};

// Any worker pushes, the owner takes.
class PacketInbox {
 public:
    explicit PacketInbox(std::size_t limit) : limit_(limit) {}

    // false: full.
    [[nodiscard]] bool push(InboxPacket packet) {
        const std::lock_guard lock(mutex_);
        if (packets_.size() >= limit_) {
            return false;
        }
        packets_.push_back(std::move(packet));
        return true;
    }
    [[nodiscard]] std::size_t size() const {
        const std::lock_guard lock(mutex_);
        return packets_.size();
    }
    [[nodiscard]] std::deque<InboxPacket> take() {
        const std::lock_guard lock(mutex_);
        return std::exchange(packets_, {});
    }

 private:
    const std::size_t limit_;
    mutable std::mutex mutex_;
    std::deque<InboxPacket> packets_;
};

}  // namespace ask
