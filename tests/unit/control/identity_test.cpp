// SPDX-License-Identifier: Apache-2.0
//
// Before a commit: the flows that a switch reports are those that joined, and what was sent is there.
#include "lib/control/receive/identity.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/rpc/types.h"

using namespace ask;

namespace {

constexpr Mark kMark{.switch_id = 1, .incarnation = 5};

FlowAccount account(const std::string& sender, std::uint32_t host, std::uint64_t sent,
                    std::uint64_t received) {
    return {.sender = sender,
            .channel = {host, 49152},
            .incarnation = 3,
            .via = kMark,
            .nonce = 1000 + host,
            .sent = sent,
            .received = received};
}

v1::FetchFlow report(const FlowAccount& flow, std::uint64_t aggregated, std::uint64_t evicted = 0) {
    v1::FetchFlow reported;
    *reported.mutable_channel() = channel_to_proto(flow.channel);
    reported.set_incarnation(flow.incarnation);
    reported.set_nonce(flow.nonce);
    reported.mutable_stats()->set_tuples_switch(aggregated);
    reported.mutable_stats()->set_tuples_evicted(evicted);
    return reported;
}

void refused(const std::optional<Mismatch>& mismatch, const std::string& text, bool may_settle = false) {
    REQUIRE(mismatch);
    CHECK(mismatch->error.code() == Errc::kSwitchLost);
    CHECK_MESSAGE(mismatch->error.text().find(text) != std::string::npos, mismatch->error.text());
    CHECK(mismatch->may_settle == may_settle);
}

const FlowAccount kOne = account("h1", 1, 100, 30);
const FlowAccount kTwo = account("h2", 2, 50, 50);
const std::vector<FlowAccount> kBoth = {kOne, kTwo};

std::optional<Mismatch> compare(const std::vector<v1::FetchFlow>& reported, bool settled = true) {
    return compare_flows(kBoth, "switch s", reported, settled);
}

}  // namespace

TEST_CASE("what was sent is at the switch or here, flow by flow") {
    CHECK_FALSE(compare({report(kTwo, 0), report(kOne, 70)}));
    refused(compare({report(kTwo, 0), report(kOne, 69)}),
            "sender h1 has sent 100 tuples, but 69 are at switch s, "
            "and 30 came here",
            true);
    refused(compare({report(kTwo, 0), report(kOne, 71)}), "sender h1 has sent 100 tuples, but 71 are at");
    // The sum fits.
    refused(compare({report(kTwo, 1), report(kOne, 69)}), "sender h1", true);
}

TEST_CASE("what hotter keys took out of aggregators came here in other flows' packets") {
    // 8 of others came with its own 22.
    CHECK_FALSE(compare({report(kOne, 78, 8), report(kTwo, 0)}));
    refused(compare({report(kOne, 70, 8), report(kTwo, 0)}), "8 were evicted from there", true);
    refused(compare({report(kOne, 0, 1U << 31U), report(kTwo, 0)}), "sender h1", true);
}

TEST_CASE("a flow that is gone, or has joined anew, is named by its sender") {
    refused(compare({report(kOne, 70)}), "switch s: the flow of sender h2 is gone");
    refused(compare({}), "the flow of sender h1 is gone");
    auto anew = report(kTwo, 0);
    anew.set_nonce(7);
    refused(compare({report(kOne, 70), anew}), "the flow of sender h2 has joined anew");
    anew = report(kTwo, 0);
    anew.set_incarnation(4);
    refused(compare({report(kOne, 70), anew}), "the flow of sender h2 has joined anew");
}

TEST_CASE("a flow that has not joined is named by its channel, if anything came of it") {
    FlowAccount other = account("", 0xc6120309, 0, 0);
    CHECK_FALSE(compare({report(kOne, 70), report(kTwo, 0), report(other, 0)}));
    // Something may be on its way to be counted.
    refused(compare({report(kOne, 70), report(kTwo, 0), report(other, 0)}, false), "has not joined", true);
    refused(compare({report(kOne, 70), report(kTwo, 0), report(other, 1)}),
            "channel 198.18.3.9:49152, which has not joined, has sent tuples");
    auto passed_on = report(other, 0);
    passed_on.mutable_stats()->set_tuples_collision(1);
    refused(compare({report(kOne, 70), report(kTwo, 0), passed_on}), "has not joined");
    // Under the port of one that has.
    other.channel = {kOne.channel.host, 49153};
    refused(compare({report(kOne, 70), report(kTwo, 0), report(other, 1)}), "0.0.0.1:49153");
}

TEST_CASE("of a flow that has not ended, nothing is known but that it joined") {
    std::vector<FlowAccount> joined = kBoth;
    joined[1].sent.reset();
    const std::vector<v1::FetchFlow> reported = {report(kOne, 70), report(kTwo, 12345)};
    CHECK_FALSE(compare_flows(joined, "switch s", reported, true));
    refused(compare_flows(joined, "switch s", std::span(reported).first(1), true), "h2 is gone");
}

TEST_CASE("where no switch takes anything, all of it came here") {
    CHECK_FALSE(compare_flow(kTwo));
    const auto missing = compare_flow(kOne);
    REQUIRE(missing);
    CHECK(missing->error.code() == Errc::kAborted);
    CHECK(missing->error.text() == "sender h1 has sent 100 tuples, but 30 came here: run the task again");
    FlowAccount still = kOne;
    still.sent.reset();
    CHECK_FALSE(compare_flow(still));
}
