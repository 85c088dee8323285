// SPDX-License-Identifier: Apache-2.0
#include "lib/control/member/task_totals.h"

#include <cstdint>

#include <doctest/doctest.h>

#include "lib/engine/ack_times.h"
#include "lib/tuples/sender.h"

using namespace ask;

TEST_CASE("totals are of each role, by how its tasks have ended") {
    TaskTotals totals;
    v1::FlowStats stats;
    stats.set_tuples_sent(10);
    stats.set_tuples_switch(7);
    totals.committed(TaskRole::kReceiver, 0.02, stats, 5, 400);
    totals.committed(TaskRole::kReceiver, 1e9, stats, 5, 400);
    totals.failed(TaskRole::kReceiver, Errc::kDeadline);
    totals.failed(TaskRole::kSender, Errc::kRunAgain);
    const TaskTotals::OfRole received = totals.of(TaskRole::kReceiver);
    CHECK(received.ended[0] == 2);
    CHECK(received.ended[static_cast<std::size_t>(Errc::kDeadline)] == 1);
    CHECK(received.stats.tuples_switch() == 14);
    CHECK(received.keys == 10);
    CHECK(received.bytes == 800);
    CHECK(received.seconds.counts()[1] == 1);      // above 0.01, up to 0.03
    CHECK(received.seconds.counts().back() == 1);  // above all
    CHECK(received.seconds.sum() == 1e9 + 0.02);
    const TaskTotals::OfRole sent = totals.of(TaskRole::kSender);
    CHECK(sent.ended[0] == 0);
    CHECK(sent.ended.back() == 1);
}

TEST_CASE("a value on a bound is below it") {
    static constexpr std::array<double, 2> kBounds = {1, 2};
    Histogram<2> histogram(kBounds);
    for (const double value : {0.5, 1.0, 1.5, 2.0, 2.5}) {
        histogram.add(value);
    }
    CHECK(histogram.counts()[0] == 2);
    CHECK(histogram.counts()[1] == 2);
    CHECK(histogram.counts()[2] == 1);
}

TEST_CASE("figures of a task that has committed, in words") {
    v1::Done done;
    done.mutable_stats()->set_tuples_in(1000);
    done.mutable_stats()->set_tuples_sent(400);
    done.mutable_stats()->set_tuples_switch(399);
    done.mutable_stats()->set_packets_sent(12);
    done.mutable_stats()->set_retransmissions(3);
    done.add_per_sender();
    done.set_result_keys(77);
    done.set_result_bytes(4096);
    done.set_seconds(0.1234);
    CHECK(figures_of(done) ==
          "1000 tuples of 1 senders, 77 keys in 4096 bytes, 0.123 s, 99.8 % of the tuples sent added at the "
          "switch, 12 packets, 3 sent again");
    CHECK(figures_of(v1::FlowStats(), 1) ==
          "0 tuples, 1.000 s, 0.0 % of the tuples sent added at the switch, 0 packets, 0 sent again");
}

TEST_CASE("ACK times of several channels add up") {
    AckTimes sum;
    AckTimes part;
    part.add(kMillisecond);
    part.add(3 * kMillisecond);
    sum.add(part);
    sum.add(part);
    CHECK(sum.sum() == 8 * kMillisecond);
    std::uint64_t count = 0;
    for (std::uint32_t i = 0; i < AckTimes::kBuckets; ++i) {
        count += sum.count(i);
    }
    CHECK(count == 4);
    part.clear();
    CHECK(part.sum() == 0);
}

TEST_CASE("nothing of what senders count is left out of a sum") {
    SenderStats part;
    part.packets_sent = 1;
    part.retransmissions = 2;
    part.acks_bad = 3;
    part.packer.tuples_in = 4;
    part.packer.bodies[5] = 6;
    part.tuples_merged = 7;
    SenderStats sum = part;
    add(sum, part);
    CHECK(sum.packets_sent == 2);
    CHECK(sum.retransmissions == 4);
    CHECK(sum.acks_bad == 6);
    CHECK(sum.packer.tuples_in == 8);
    CHECK(sum.packer.bodies[5] == 12);
    CHECK(sum.tuples_merged == 14);
}
