// SPDX-License-Identifier: Apache-2.0
//
// What senders have told of their keys while their task's geometry is still to be chosen, and how long to
// wait for the others. Not thread-safe: a task's is guarded by the registry's mutex.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "lib/control/member/patience.h"
#include "lib/tuples/fit/key_sample.h"

namespace ask {

class SampleBox {
 public:
    // After the first sample, for those of the other senders.
    static constexpr milliseconds kGather{100};
    // After the first sender, for a sample of those that have not asked yet: its absence costs no more.
    static constexpr milliseconds kGiveUp{1000};

    // A sender has asked for the task, perhaps again. `payload_limit` 0: not said.
    void add(std::uint64_t sender, const KeySample* sample, std::uint32_t payload_limit,
             std::uint32_t senders, Clock::time_point now) {
        if (!first_asked_) {
            first_asked_ = now;
        }
        if (asked_.size() < senders && std::ranges::find(asked_, sender) == asked_.end()) {
            asked_.push_back(sender);
        }
        if (payload_limit != 0) {
            payload_limit_ = std::min(payload_limit_, std::max(payload_limit, kLeastPayload));
        }
        if (sample == nullptr || sampled_.size() >= senders ||
            std::ranges::find(sampled_, sender) != sampled_.end()) {
            return;
        }
        if (sampled_.empty()) {
            first_sampled_ = now;
        }
        sampled_.push_back(sender);
        add_sample(sum_, *sample);
    }

    // When to choose; time_point::max() while nobody has asked.
    [[nodiscard]] Clock::time_point due(std::uint32_t senders) const {
        if (!first_asked_) {
            return Clock::time_point::max();
        }
        // One that asks without a sample has none, and brings none later.
        if (asked_.size() >= senders) {
            return *first_asked_;
        }
        return sampled_.empty() ? *first_asked_ + kGiveUp : first_sampled_ + kGather;
    }

    // All samples as one, their expectation as that of all senders; nothing if there is none.
    [[nodiscard]] std::optional<KeySample> sum(std::uint32_t senders) const {
        if (sampled_.empty()) {
            return std::nullopt;
        }
        KeySample all = sum_;
        all.expected = std::min(all.expected / sampled_.size() * senders, kMaxSampleCount);
        return all;
    }
    // Longest payload that everybody who asked can send.
    [[nodiscard]] std::uint32_t payload_limit() const { return payload_limit_; }

 private:
    // Of the least MTU that IPv4 hosts must take, so that nobody can make packets tiny for everybody.
    static constexpr std::uint32_t kLeastPayload = 576 - 28;

    std::optional<Clock::time_point> first_asked_;
    Clock::time_point first_sampled_;
    std::vector<std::uint64_t> asked_;    // senders
    std::vector<std::uint64_t> sampled_;  // of them
    KeySample sum_;
    std::uint32_t payload_limit_ = std::numeric_limits<std::uint32_t>::max();
};

}  // namespace ask
