// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/swap_policy.h"

#include <algorithm>

namespace ask {
namespace {

// Of saved and cost, per epoch: a task whose keys change their ways is noticed within a few epochs.
constexpr double kKeep = 0.75;

std::uint64_t limit(std::uint64_t start, std::uint64_t threshold) {
    return threshold == 0 ? std::numeric_limits<std::uint64_t>::max() : start + threshold;
}

}  // namespace

SwapPolicy::SwapPolicy(const SwapSettings& settings, std::uint64_t places, Nanos now)
    : settings_(settings), threshold_(std::max(places, kMinTuples)), started_(now) {}

SwapPolicy::Alarm SwapPolicy::alarm() const {
    Alarm alarm;
    if (settings_.adaptive()) {
        alarm.tuples = start_.tuples + (half_known_ ? threshold_ : threshold_ / 2);
        return alarm;
    }
    alarm.packets = limit(start_.packets, settings_.packets);
    alarm.tuples = limit(start_.tuples, settings_.tuples);
    if (settings_.interval != 0) {
        alarm.at = started_ + settings_.interval;
    }
    return alarm;
}

bool SwapPolicy::due(Nanos now, const SwapArrivals& arrivals) {
    const std::uint64_t missed = arrivals.tuples - start_.tuples;
    if (!half_known_ && missed >= threshold_ / 2) {
        half_ = arrivals;
        half_known_ = true;
    }
    const Alarm wanted = alarm();
    const bool due = settings_.adaptive() ? half_known_ && missed >= threshold_
                                          : arrivals.packets >= wanted.packets ||
                                                arrivals.tuples >= wanted.tuples || now >= wanted.at;
    if (due) {
        end_ = arrivals;
        started_ = now;
    }
    return due;
}

double SwapPolicy::tuples_sent(const SwapArrivals& from, const SwapArrivals& to) const {
    const double sent = static_cast<double>(to.span - from.span) * tuples_a_packet_;
    return std::max(sent, static_cast<double>(to.tuples - from.tuples));
}

double SwapPolicy::miss_rate(const SwapArrivals& from, const SwapArrivals& to) const {
    const double missed = static_cast<double>(to.tuples - from.tuples);
    return missed == 0 ? 0 : missed / tuples_sent(from, to);
}

void SwapPolicy::learn(std::uint64_t entries) {
    if (rate_before_ >= 0) {
        const double missed = static_cast<double>(end_.tuples - start_.tuples);
        saved_ = kKeep * saved_ + rate_before_ * tuples_sent(start_, end_) - missed;
        cost_ = kKeep * cost_ + static_cast<double>(cost_before_);
        factor_ = saved_ < cost_ ? std::min(factor_ * 2, kMaxFactor) : std::max(factor_ / 2, 1.0);
    }
    rate_before_ = miss_rate(half_known_ ? half_ : start_, end_);
    cost_before_ = entries;
}

void SwapPolicy::done(std::uint64_t entries, std::uint64_t aggregated) {
    if (end_.span > 0) {
        tuples_a_packet_ = static_cast<double>(aggregated + end_.tuples) / static_cast<double>(end_.span);
    }
    learn(entries);
    threshold_ = std::max(kMinTuples, static_cast<std::uint64_t>(factor_ * static_cast<double>(entries)));
    start_ = end_;
    half_known_ = false;
}

}  // namespace ask
