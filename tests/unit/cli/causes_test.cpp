// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/causes.h"

#include <doctest/doctest.h>

#include "lib/abi/consts.h"

namespace ask::cli {
namespace {

const TaskSetup kPaper{.longest_key = 8, .aggregators = 1024, .note = "", .planned = false};

// 1000 tuples, 200 of them merged; of the others the switch has what the receiver has not.
client::TaskStats stats_with(const client::ReceiverTuples& receiver) {
    client::TaskStats stats;
    stats.tuples_in = 1000;
    stats.tuples_merged = 200;
    stats.tuples_sent = 800;
    stats.tuples_receiver = receiver;
    stats.tuples_switch = 800 - receiver.total();
    return stats;
}

std::string said(const client::ReceiverTuples& receiver, const TaskSetup& setup = kPaper) {
    return receive_summary("hits", stats_with(receiver), setup);
}

bool says(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

TEST_CASE("a task's last line says how much the switch did") {
    CHECK(said({.long_key = 8}) ==
          "task hits: 1,000 tuples, 20.0 % merged by senders, 79.2 % added up on the switch, 0.8 % here");
    CHECK(
        send_summary("hits", stats_with({.long_key = 80})) ==
        "task hits: 1,000 tuples, 20.0 % merged here, 72.0 % added up on the switch, 8.0 % at the receiver");
    CHECK(receive_summary("hits", {}, kPaper) == "task hits: no tuples");
}

TEST_CASE("each cause has the change that would help") {
    CHECK(says(said({.collision = 300}), "another key held the aggregator: more --aggregators than 1024"));
    CHECK(says(said({.long_key = 300}),
               "key too long, empty or with a zero byte, or value outside int32: --geometry auto"));
    CHECK(says(said({.contention = 300}), "several CPUs of the switch were at one aggregator: ask-switchd"));
    CHECK(says(said({.no_region = 300}), "the switch was off their path: make the senders' routes"));
    const TaskSetup none{
        .longest_key = 8, .aggregators = 0, .note = "4 KiB are left: raise sram_kib", .planned = false};
    CHECK(says(said({.no_region = 800}, none),
               "no memory on it for this task: 4 KiB are left: raise sram_kib"));
}

TEST_CASE("what nothing would help, or hardly, gets no advice") {
    const std::string plain = "% here";
    CHECK(said({.overflow = 300}).ends_with(plain));
    const TaskSetup widest{
        .longest_key = ASK_MAX_M * ASK_KPART_BYTES, .aggregators = 1024, .note = "", .planned = false};
    CHECK(said({.long_key = 300}, widest).ends_with(plain));
    const TaskSetup planned{.longest_key = 8, .aggregators = 1024, .note = "", .planned = true};
    CHECK(said({.long_key = 300}, planned).ends_with(plain));
    CHECK(said({.collision = 39}).ends_with(plain));
    CHECK_FALSE(said({.collision = 40}).ends_with(plain));
}

TEST_CASE("the cause of most tuples is the one that is named") {
    CHECK(says(said({.collision = 200, .long_key = 201}), "--geometry auto"));
    CHECK(says(said({.collision = 201, .long_key = 200}), "--aggregators"));
    CHECK(says(said({.collision = 50, .overflow = 300}), "--aggregators"));
}

}  // namespace
}  // namespace ask::cli
