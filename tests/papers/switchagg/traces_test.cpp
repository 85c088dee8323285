// SPDX-License-Identifier: Apache-2.0
//
// Where SwitchAgg is wrong: a trace of each, through its own rules (published.h) and through the code that
// ships (chain.h). What the paper leaves open is tried in each way that it could be meant.
#include <algorithm>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "bench/switchagg/paper.h"
#include "lib/control/receive/identity.h"
#include "lib/rpc/types.h"
#include "tests/papers/switchagg/chain.h"
#include "tests/papers/switchagg/published.h"

using namespace ask;
using namespace ask::test;

namespace {

constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();

// One pair a packet, so that a trace can name its packet; one aggregator, which the first key takes.
constexpr TaskSpec kOnePlace{.short_slots = 1, .groups = 0, .m = 0, .rows = 1, .aggregators = 1};

bool always(Chain::Link /*link*/, unsigned /*number*/) {
    return true;
}

// All but the first packet on this link.
Chain::Wire loses_first(Chain::Link link) {
    return [link](Chain::Link on, unsigned number) { return on != link || number > 1; };
}

// What a mapper does with a packet whose answer does not come.
enum class Again : std::uint8_t { kNever, kOnce };

// A mapper's packet of ("k", 1), its EoT, and a reducer. `arrives`: whether the first copy gets to the
// switch.
std::int64_t published_count(bool arrives, Again again) {
    PublishedSwitch sw(16, true, 1);
    PublishedReducer reducer;
    const PublishedPacket pairs{.pairs = {{"k", 1}}};
    if (arrives) {
        CHECK(sw.on_packet(pairs).empty());  // swallowed: nothing that a reducer could acknowledge
    }
    if (again == Again::kOnce) {
        CHECK(sw.on_packet(pairs).empty());
    }
    for (const PublishedPacket& out : sw.on_packet({.pairs = {}, .eot = true})) {
        reducer.on_packet(out);
    }
    const auto at = reducer.answer().find("k");
    return at == reducer.answer().end() ? 0 : at->second;
}

}  // namespace

TEST_CASE("S1: nobody says who acknowledges, so pairs that the switch swallows are counted twice or lost") {
    // The reducer acknowledges: it never saw the packet, so the mapper sends it again. The switch does, and
    // its answer is lost: the same. It has no memory of what it has seen.
    CHECK(published_count(true, Again::kOnce) == 2);
    // Nobody does: a packet that is lost stays so.
    CHECK(published_count(false, Again::kNever) == 0);

    for (const Chain::Link lost : {Chain::Link::kSwitchAck, Chain::Link::kToSwitch}) {
        Chain chain(kOnePlace, 1);
        chain.offer(0, "k", 1);
        chain.run(loses_first(lost));
        CHECK(chain.sent_again(0) == 1);
        CHECK(chain.answer() == Answer{{"k", 1}});
    }
}

TEST_CASE("S2: ends that are counted, not named: one that is lost, or comes twice") {
    // Two children. The first one's EoT comes twice, since its answer was lost: all is flushed before "b" is
    // there, whose packet is the tree's first after the last.
    PublishedSwitch sw(16, true, 2);
    PublishedReducer reducer;
    CHECK(sw.on_packet({.pairs = {{"a", 1}}}).empty());
    for (int i = 0; i < 2; ++i) {
        for (const PublishedPacket& out : sw.on_packet({.pairs = {}, .eot = true})) {
            reducer.on_packet(out);
            CHECK(out.eot);
        }
    }
    CHECK(sw.on_packet({.pairs = {{"b", 1}}, .eot = true}).empty());
    CHECK(reducer.answer() == Answer{{"a", 1}});
    // One EoT is lost: nothing is ever flushed, and nobody can say whose it was.
    PublishedSwitch waits(16, true, 2);
    CHECK(waits.on_packet({.pairs = {{"a", 1}}, .eot = true}).empty());
    CHECK(waits.on_packet({.pairs = {{"b", 1}}}).empty());

    // Here a FIN is its flow's. The first mapper's comes twice, since the answer to it was lost; then the
    // other's packets are lost, of each kind one.
    Chain chain(kOnePlace, 2);
    chain.offer(0, "a", 1);
    chain.offer(1, "a", 10);
    unsigned most = 0;
    chain.run([&](Chain::Link link, unsigned number) {
        if (link == Chain::Link::kToReceiver && number == 3) {  // the second mapper's FIN, for the first time
            CHECK(chain.ended() == 1);
            most = chain.ended();
            return false;
        }
        return link != Chain::Link::kReceiverAck || number > 1;
    });
    CHECK(most == 1);
    CHECK(chain.sent_again(0) + chain.sent_again(1) >= 2);
    CHECK(chain.ended() == 2);
    CHECK(chain.answer() == Answer{{"a", 11}});
}

TEST_CASE(
    "S3: an evicted pair leaves in a packet of the switch's, and is lost though its sender was answered") {
    // Even with a switch that acknowledges and knows what it has seen: "a" is in the table and answered.
    PublishedSwitch sw(1, false, 1);
    CHECK(sw.on_packet({.pairs = {{"a", 1}}}).empty());
    // "b" drives it out; that packet is lost, and nobody has it to send again: b's mapper was answered for
    // "b".
    CHECK(sw.on_packet({.pairs = {{"b", 1}}}).size() == 1);
    PublishedReducer reducer;
    for (const PublishedPacket& out : sw.on_packet({.pairs = {}, .eot = true})) {
        reducer.on_packet(out);
    }
    CHECK(reducer.answer() == Answer{{"b", 1}});

    // Here it leaves in the place of the pair that drove it out, in a packet that is answered by who takes
    // it, and sent again until then; the switch knows what that carried. "b" finds "a" hot, "c" does not.
    TaskSpec spec = kOnePlace;
    spec.policy = ASK_POLICY_REPLACE;
    for (const Chain::Link lost : {Chain::Link::kToReceiver, Chain::Link::kReceiverAck}) {
        for (const unsigned number : {1U, 2U}) {
            Chain chain(spec, 1);
            for (const char* key : {"a", "b", "c"}) {
                chain.offer(0, key, 1);
            }
            chain.run([lost, number](Chain::Link on, unsigned at) { return on != lost || at != number; });
            CHECK(NativeSwitch::stats().tuples_evicted == 1);
            CHECK(chain.sent_again(0) == 1);
            CHECK(chain.answer() == Answer{{"a", 1}, {"b", 1}, {"c", 1}});
        }
    }
    // With a back level nothing leaves.
    spec.back = {64, 64};
    Chain chain(spec, 1);
    for (const char* key : {"a", "b", "c"}) {
        chain.offer(0, key, 1);
    }
    chain.run(loses_first(Chain::Link::kSwitchAck));
    CHECK(chain.account(0).received == 0);
    CHECK(chain.answer() == Answer{{"a", 1}, {"b", 1}, {"c", 1}});
}

TEST_CASE("S4: the switch restarts with the pairs of mappers that are done") {
    PublishedSwitch sw(16, true, 2);
    PublishedReducer reducer;
    CHECK(sw.on_packet({.pairs = {{"a", 1}}, .eot = true}).empty());
    sw.restart(1);  // the controller knows that one is to come
    for (const PublishedPacket& out : sw.on_packet({.pairs = {{"b", 1}}, .eot = true})) {
        reducer.on_packet(out);
        CHECK(out.eot);  // the reducer takes it for the whole
    }
    CHECK(reducer.answer() == Answer{{"b", 1}});

    // Here the FIN says how many there were, and the receiver commits nothing less.
    Chain chain(kOnePlace, 1);
    chain.offer(0, "a", 1);
    chain.run(always);
    chain.restart_switch();
    const Chain::Account account = chain.account(0);
    CHECK(account.sent == 1);
    const FlowAccount flow{.sender = "h1",
                           .channel = chain.channel(0),
                           .incarnation = 7,
                           .via = {kMarkSwitch, kMarkIncarnation},
                           .nonce = 1,
                           .sent = account.sent,
                           .received = account.received};
    v1::FetchFlow report;
    *report.mutable_channel() = channel_to_proto(flow.channel);
    report.set_incarnation(flow.incarnation);
    report.set_nonce(flow.nonce);
    report.mutable_stats()->set_tuples_switch(account.aggregated);
    const auto mismatch = compare_flows(std::span(&flow, 1), "switch s", std::span(&report, 1), true);
    REQUIRE(mismatch);
    CHECK(mismatch->error.code() == Errc::kSwitchLost);  // begin again (papers_switchagg_restart)
}

TEST_CASE("S5: another tree is configured, and takes half of the memory of the first") {
    constexpr std::size_t kPlaces = 64;
    PublishedSwitch sw(kPlaces, false, 1);
    const auto left_by_turn = [&sw] {
        std::size_t left = 0;
        for (std::size_t key = 0; key < kPlaces; ++key) {
            for (const PublishedPacket& out : sw.on_packet({.pairs = {{"k" + std::to_string(key), 1}}})) {
                left += out.pairs.size();
            }
        }
        return left;
    };
    (void)left_by_turn();
    const std::size_t before = left_by_turn();
    const PublishedPacket moved = sw.share_with(2);
    (void)left_by_turn();
    // What had a place has none any more, and what comes fights for the rest.
    CHECK_FALSE(moved.pairs.empty());
    CHECK(left_by_turn() > before);
    // Here memory is a task's from its first packet to its last fetch: unit_control has both tasks at one
    // controller ("a second task gets what is left").
}

TEST_CASE("S6: padding with zeros makes two keys one") {
    const std::string ab("ab");
    const std::string ab0("ab\0", 3);
    PublishedSwitch sw(16, true, 1);
    const auto out = sw.on_packet({.pairs = {{ab, 1}, {ab0, 10}}, .eot = true});
    REQUIRE(out.size() == 1);
    REQUIRE(out[0].pairs.size() == 1);
    CHECK(out[0].pairs[0].second == 11);

    for (const BackBuckets& back : {BackBuckets{}, BackBuckets{64, 64}}) {
        TaskSpec spec;
        spec.back = back;
        Chain chain(spec, 1);
        chain.offer(0, ab, 1);
        chain.offer(0, ab0, 10);
        chain.run(always);
        CHECK(chain.answer() == Answer{{ab, 1}, {ab0, 10}});
    }
}

TEST_CASE("S7: sums of 32 bits wrap") {
    PublishedSwitch sw(16, true, 1);
    const auto out = sw.on_packet({.pairs = {{"k", kMost}, {"k", kMost}, {"k", 3}}, .eot = true});
    REQUIRE(out.size() == 1);
    CHECK(out[0].pairs == decltype(out[0].pairs){{std::string("k\0\0\0\0\0\0\0", 8), 1}});

    for (const BackBuckets& back : {BackBuckets{}, BackBuckets{64, 64}}) {
        TaskSpec spec = kOnePlace;
        spec.back = back;
        Chain chain(spec, 1);
        for (const std::int32_t value : {kMost, kMost, 3}) {
            chain.offer(0, "k", value);
        }
        chain.run(always);
        CHECK(chain.account(0).received == (back == BackBuckets{} ? 2 : 0));
        CHECK(chain.answer() == Answer{{"k", std::int64_t{kMost} * 2 + 3}});
    }
}

namespace {

constexpr unsigned kHopPlaces = 8;
constexpr unsigned kHopKeys = 64;
constexpr unsigned kTurns = 16;

// Every key once a turn.
Chain::Stream turns() {
    Chain::Stream pairs;
    for (unsigned turn = 0; turn < kTurns; ++turn) {
        for (unsigned key = 0; key < kHopKeys; ++key) {
            pairs.emplace_back("k" + std::to_string(10 + key), 1);
        }
    }
    return pairs;
}

// What a switch lets out of these: as they leave, then what it has kept.
Chain::Stream through_published(const Chain::Stream& pairs) {
    PublishedSwitch sw(kHopPlaces, false, 1);
    Chain::Stream out;
    const auto take = [&out](const std::vector<PublishedPacket>& packets) {
        for (const PublishedPacket& packet : packets) {
            for (const auto& [key, value] : packet.pairs) {
                out.emplace_back(key.substr(0, key.find('\0')), value);
            }
        }
    };
    for (const auto& [key, value] : pairs) {
        take(sw.on_packet({.pairs = {{key, static_cast<std::int32_t>(value)}}}));
    }
    take(sw.on_packet({.pairs = {}, .eot = true}));
    return out;
}

Chain::Stream through_shipped(const Chain::Stream& pairs) {
    TaskSpec spec = kOnePlace;
    spec.aggregators = kHopPlaces;
    Chain chain(spec, 1);
    for (const auto& [key, value] : pairs) {
        chain.offer(0, key, value);
    }
    chain.run(always);
    Chain::Stream out = chain.came();
    Answer kept = chain.answer();
    for (const auto& [key, value] : out) {
        kept[key] -= value;
    }
    std::ranges::copy_if(kept, std::back_inserter(out), [](const auto& entry) { return entry.second != 0; });
    return out;
}

Answer sums(const Chain::Stream& pairs) {
    Answer answer;
    for (const auto& [key, value] : pairs) {
        answer[key] += value;
    }
    return answer;
}

}  // namespace

TEST_CASE(
    "S8: Theorem 2.2, more hops do not help: with SwitchAgg's rule and one hash for all, and nothing else") {
    Chain::Stream published = turns();
    Chain::Stream shipped = turns();
    const Answer answer = sums(published);
    const std::size_t first = through_published(published).size();
    for (unsigned hop = 1; hop <= 3; ++hop) {
        published = through_published(published);
        CHECK(published.size() == first);
        CHECK(sums(published) == answer);
        // Who is there stays: each hop adds up eight keys more, of which one pair each goes on.
        shipped = through_shipped(shipped);
        CHECK(shipped.size() ==
              std::size_t{kTurns} * kHopKeys - std::size_t{hop} * kHopPlaces * (kTurns - 1));
        CHECK(sums(shipped) == answer);
    }
}

TEST_CASE("S9: Table 3's flush takes 156 ms at 200 MHz, not 78") {
    using namespace ask::bench;
    CHECK(paper::seconds(paper::kBackFlush) == doctest::Approx(0.15625));
    CHECK(paper::seconds(paper::kBackFlush) == doctest::Approx(2 * paper::kFlushAsTold).epsilon(0.01));
}
