// SPDX-License-Identifier: Apache-2.0
//
// How many packets a tenant's tasks may bring: buckets whose packets cost an hour, so that no run of this
// test is slow enough for the next one, or nothing to speak of.
#include <bpf/bpf.h>
#include <doctest/doctest.h>

#include "tests/bpf/switch/harness.h"

using namespace ask;
using namespace ask::test;

namespace {

constexpr std::uint64_t kHour = 3600ULL * 1'000'000'000;

void fill(const Switch& sw, std::uint32_t number, const ask_bucket& bucket) {
    REQUIRE(bpf_map_update_elem(sw.map("buckets"), &number, &bucket, BPF_ANY) == 0);
}

std::uint64_t due(const Switch& sw, std::uint32_t number) {
    ask_bucket bucket{};
    REQUIRE(bpf_map_lookup_elem(sw.map("buckets"), &number, &bucket) == 0);
    return bucket.due;
}

Packet data(const Switch& sw, std::uint64_t seq, std::uint32_t flow = 0) {
    Packet packet = sw.packet(flow).seq(seq).put(0, 0, "k", 1);
    return packet;
}

}  // namespace

TEST_CASE("a packet too many is dropped as if it had never come, and later it is new") {
    for (const Way& way : kWays) {
        CAPTURE(to_string(way));
        Switch& sw = Switch::get(way);
        sw.add_default({.bucket = 1});
        fill(sw, 1, {.due = 0, .cost = kHour, .burst = 1, .pad = {}});
        sw.expect_ack("the first", data(sw, 1), ASK_CNT_ack_new);
        sw.expect_drop("one more within the hour", data(sw, 2), ASK_CNT_drop_rate);
        sw.expect_drop("one seen before is one more", data(sw, 1), ASK_CNT_drop_rate);
        Packet end = sw.packet().seq(3);
        end.type = ASK_FIN;
        sw.expect_drop("and so is the end", end, ASK_CNT_drop_rate);
        sw.expect_region(0, {{0, "k", 1}});
        fill(sw, 1, {.due = 0, .cost = 1, .burst = kHour, .pad = {}});
        sw.expect_ack("again, when there is room", data(sw, 2), ASK_CNT_ack_new);
        sw.expect_region(0, {{0, "k", 2}});
    }
}

TEST_CASE("as many as the burst has room for come at once, and idle time adds none") {
    Switch& sw = Switch::get({});
    sw.add_default({.bucket = 2});
    fill(sw, 2, {.due = 0, .cost = kHour, .burst = 2 * kHour + kHour / 2, .pad = {}});
    for (std::uint64_t seq = 1; seq <= 3; ++seq) {
        sw.expect_ack("within the burst", data(sw, seq), ASK_CNT_ack_new);
    }
    sw.expect_drop("past it", data(sw, 4), ASK_CNT_drop_rate);
}

TEST_CASE("who forges packets takes nothing out of a bucket, and each bucket is its own") {
    Switch& sw = Switch::get({});
    sw.add_default({.bucket = 1});
    sw.add_task(1, {.instance = 99, .bucket = 2});
    sw.add_flow(1, 0, 1);
    sw.add_task(2, {.instance = 100});
    sw.add_flow(2, 0, 2);
    const ask_bucket hourly{.due = 0, .cost = kHour, .burst = 1, .pad = {}};
    fill(sw, 1, hourly);
    fill(sw, 2, hourly);
    Packet forged = data(sw, 1);
    forged.check = 0;
    sw.expect_drop("forged", forged, ASK_CNT_bad_check);
    CHECK(due(sw, 1) == 0);
    sw.expect_ack("the first of one tenant", data(sw, 1), ASK_CNT_ack_new);
    sw.expect_drop("its second", data(sw, 2), ASK_CNT_drop_rate);
    CHECK(due(sw, 2) == 0);
    sw.expect_ack("the first of another", data(sw, 3, 1), ASK_CNT_ack_new);
    sw.expect_drop("its second", data(sw, 4, 1), ASK_CNT_drop_rate);
    for (std::uint64_t seq = 5; seq < 9; ++seq) {
        sw.expect_ack("one whose packets nobody counts", data(sw, seq, 2), ASK_CNT_ack_new);
    }
}
