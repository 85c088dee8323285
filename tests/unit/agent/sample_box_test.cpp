// SPDX-License-Identifier: Apache-2.0
#include "lib/control/receive/sample_box.h"

#include <doctest/doctest.h>

using namespace ask;

namespace {

KeySample sample(std::uint64_t expected) {
    KeySampler sampler(public_seed(1));
    sampler.add("a", 1);
    sampler.add("b", 1);
    return sampler.finish(expected);
}

}  // namespace

TEST_CASE("a task waits for its senders' samples, not long for the others once there is one") {
    const auto now = Clock::now();
    SampleBox box;
    CHECK(box.due(2) == Clock::time_point::max());
    CHECK_FALSE(box.sum(2));
    box.add(1, nullptr, 0, 2, now);
    CHECK(box.due(2) == now + SampleBox::kGiveUp);
    CHECK_FALSE(box.sum(2));
    const KeySample told = sample(100);
    box.add(2, &told, 0, 3, now + milliseconds(5));
    CHECK(box.due(3) == now + milliseconds(5) + SampleBox::kGather);
    box.add(3, &told, 0, 3, now + milliseconds(9));
    CHECK(box.due(3) <= now + milliseconds(9));
    CHECK(box.sum(3)->tuples() == 4);
}

TEST_CASE("whoever asks without a sample has none: nobody waits for it") {
    const auto now = Clock::now();
    SampleBox box;
    box.add(1, nullptr, 0, 1, now);
    CHECK(box.due(1) == now);
    SampleBox two;
    two.add(1, nullptr, 0, 2, now);
    two.add(1, nullptr, 0, 2, now + milliseconds(1));
    CHECK(two.due(2) == now + SampleBox::kGiveUp);
    const KeySample told = sample(100);
    two.add(2, &told, 0, 2, now + milliseconds(2));
    CHECK(two.due(2) <= now + milliseconds(2));
}

TEST_CASE("a sender's sample counts once, and no more of them than the task has senders") {
    SampleBox box;
    const KeySample told = sample(100);
    for (const std::uint64_t sender : {1U, 1U, 2U, 3U, 4U}) {
        box.add(sender, &told, 0, 3, Clock::now());
    }
    REQUIRE(box.sum(3));
    CHECK(box.sum(3)->tuples() == 6);
    CHECK(box.sum(3)->expected == 300);
}

TEST_CASE("what some senders expect is taken for all of them") {
    SampleBox box;
    const KeySample told = sample(1000);
    box.add(7, &told, 0, 5, Clock::now());
    CHECK(box.sum(5)->expected == 5000);
    const KeySample most = sample(kMaxSampleCount);
    box.add(8, &most, 0, 5, Clock::now());
    CHECK(box.sum(5)->expected == kMaxSampleCount);
    CHECK(validate(*box.sum(5)).ok());
}

TEST_CASE("packets are as long as everybody can send, but nobody makes them tiny") {
    SampleBox box;
    CHECK(box.payload_limit() > 65535);
    box.add(1, nullptr, 0, 2, Clock::now());
    box.add(1, nullptr, 1472, 2, Clock::now());
    box.add(2, nullptr, 8972, 2, Clock::now());
    CHECK(box.payload_limit() == 1472);
    box.add(2, nullptr, 1, 2, Clock::now());
    CHECK(box.payload_limit() == 548);
}
