// SPDX-License-Identifier: Apache-2.0
#include "bench/hotkeys/stream.h"

#include <algorithm>
#include <cmath>

namespace ask::bench {
namespace {

std::vector<double> zipf() {
    std::vector<double> share(Stream::kKeys);
    double sum = 0;
    for (std::uint32_t key = 0; key < Stream::kKeys; ++key) {
        share[key] = 1.0 / (key + 1);
        sum += share[key];
    }
    for (double& each : share) {
        each /= sum;
    }
    return share;
}

}  // namespace

const char* to_string(Order order) {
    switch (order) {
        case Order::kUniform:
            return "uniform";
        case Order::kHotFirst:
            return "zipf-hot-first";
        case Order::kHotLast:
            return "zipf-hot-last";
        default:
            return "zipf-random";
    }
}

Stream::Stream(Order order, std::uint64_t tuples) : order_(order), size_(tuples) {
    if (order == Order::kHotFirst || order == Order::kHotLast) {
        plan_sorted(tuples);
    } else if (order == Order::kRandom) {
        plan_zipf();
    }
}

void Stream::plan_sorted(std::uint64_t tuples) {
    size_ = 0;
    for (const double share : zipf()) {
        planned_.push_back(std::max<std::uint64_t>(
            1, static_cast<std::uint64_t>(std::llround(share * static_cast<double>(tuples)))));
        size_ += planned_.back();
    }
    at_ = order_ == Order::kHotFirst ? 0 : kKeys - 1;
    left_ = planned_[at_];
}

void Stream::plan_zipf() {
    std::vector<double> share = zipf();
    alias_.resize(kKeys);
    keep_.assign(kKeys, 1);
    std::vector<std::uint32_t> small;
    std::vector<std::uint32_t> large;
    for (std::uint32_t key = 0; key < kKeys; ++key) {
        share[key] *= kKeys;
        (share[key] < 1 ? small : large).push_back(key);
    }
    while (!small.empty() && !large.empty()) {
        const std::uint32_t poor = small.back();
        const std::uint32_t rich = large.back();
        small.pop_back();
        keep_[poor] = share[poor];
        alias_[poor] = rich;
        share[rich] -= 1 - share[poor];
        if (share[rich] < 1) {
            large.pop_back();
            small.push_back(rich);
        }
    }
}

std::uint32_t Stream::draw() {
    constexpr std::uint32_t kLowBits = 48;
    const std::uint64_t bits = random_();
    const auto key = static_cast<std::uint32_t>(bits >> kLowBits);
    if (order_ == Order::kUniform) {
        return key;
    }
    const double fraction = static_cast<double>(bits & ((1ULL << kLowBits) - 1)) * 0x1p-48;
    return fraction < keep_[key] ? key : alias_[key];
}

std::uint32_t Stream::next() {
    std::uint32_t key = 0;
    if (planned_.empty()) {
        key = draw();
    } else {
        while (left_ == 0) {
            at_ += order_ == Order::kHotFirst ? 1U : ~0U;
            left_ = planned_[at_];
        }
        --left_;
        key = at_;
    }
    ++counts_[key];
    return key;
}

void Stream::write_key(std::uint32_t key, char (&out)[kKeyBytes]) {
    for (std::size_t i = 0; i < kKeyBytes; ++i) {
        out[i] = static_cast<char>('a' + (key >> (4 * i) & 15U));
    }
}

std::uint32_t Stream::read_key(const char* bytes) {
    std::uint32_t key = 0;
    for (std::size_t i = 0; i < kKeyBytes; ++i) {
        key |= static_cast<std::uint32_t>(bytes[i] - 'a') << (4 * i);
    }
    return key;
}

}  // namespace ask::bench
