// SPDX-License-Identifier: Apache-2.0
#include "bench/switch/lane.h"

#include <net/if.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>

namespace ask::bench {
namespace {

Result<> pin(unsigned cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (::sched_setaffinity(0, sizeof(one), &one) != 0) {
        return Error::from_errno(errno, "run on CPU " + std::to_string(cpu));
    }
    return {};
}

}  // namespace

Result<Lane> Lane::create(const Case& what, const CheckKey& key, unsigned index) {
    const std::string idle = "idle" + std::to_string(index);
    auto feeder = Feeder::create(::if_nametoindex("lo"), ::if_nametoindex(idle.c_str()));
    ASK_PASS(feeder);
    return Lane(what, key, index, std::move(*feeder));
}

void Lane::prepare(std::size_t packets) {
    frames_.clear();
    for (std::size_t i = 0; i < packets; ++i) {
        const auto frame = maker_.next();
        frame_bytes_ = frame.size();
        frames_.insert(frames_.end(), frame.begin(), frame.end());
    }
}

void Lane::fill(std::size_t first) {
    const std::size_t packets = frames_.size() / frame_bytes_;
    feeder_.clear();
    for (std::size_t i = first; i < std::min(first + Feeder::kBatch, packets); ++i) {
        feeder_.add(std::span(frames_).subspan(i * frame_bytes_, frame_bytes_));
    }
}

Result<double> Lane::run(Bed& bed, Subject subject) {
    using Clock = std::chrono::steady_clock;
    ASK_PASS(pin(index_));
    const auto program = bed.program(subject);
    ASK_PASS(program);
    ASK_PASS(feeder_.aim(*program));
    const std::size_t packets = frames_.size() / frame_bytes_;
    Clock::duration total{};
    for (std::size_t first = 0; first < packets; first += Feeder::kBatch) {
        if (load_ == Load::kBlank) {
            bed.blank();
        }
        fill(first);
        if (load_ == Load::kSeen) {
            ASK_PASS(feeder_.run());
            fill(first);
        }
        const auto started = Clock::now();
        ASK_PASS(feeder_.run());
        total += Clock::now() - started;
    }
    return std::chrono::duration<double, std::nano>(total).count() / static_cast<double>(packets);
}

}  // namespace ask::bench
