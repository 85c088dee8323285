// SPDX-License-Identifier: Apache-2.0
#include "lib/values/collector.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

namespace ask::values {
namespace {

using Sent = std::pair<unsigned, std::uint32_t>;  // type, and the rank it goes to

const Operation kSumOfInts{.number = 1, .dtype = Dtype::kInt64, .op = Operator::kSum, .count = 8};

GroupTerms some_terms(bool fan_out = false) {
    GroupTerms terms;
    terms.instance = 5;
    terms.secret = {1, 2};
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
        terms.seats.push_back({.channel = {.host = 0xc6120001 + rank, .port = 49200}, .incarnation = 1});
    }
    terms.window = 4;
    terms.blocks = 1;
    terms.fan_out = fan_out;
    return terms;
}

class Ends {
 public:
    explicit Ends(bool fan_out = false, const CollectorConfig& config = {})
        : wire_(some_terms(fan_out)), collector(some_terms(fan_out), config) {}

    // A partial of so many members, all of whose lanes are `values`.
    void give(std::uint64_t bits, std::int64_t values, std::uint8_t marks = 0, std::uint64_t seq = 1) {
        Front front = of(seq);
        front.flags = marks;
        front.bits = bits;
        front.level = (bits & (bits - 1)) == 0 ? ASK_LEVEL_MEMBER : ASK_LEVEL_PARTIAL;
        give(front, values);
    }
    void give(Front front, std::int64_t values) {
        const auto rank = static_cast<std::uint32_t>(front.bits == 7 ? 0 : std::countr_zero(front.bits));
        std::vector<std::byte> bytes(ASK_VALUES_FRONT + front.blocks * kBlock);
        for (std::size_t at = ASK_VALUES_FRONT; at < bytes.size(); at += 8) {
            std::memcpy(bytes.data() + at, &values, 8);
        }
        const Outgoing sealed = wire_.seal(bytes, front, front.type == ASK_RESULT ? 3 : rank);
        Refusal why{};
        const auto packet = wire_.open(bytes, sealed.to.ports, why);
        REQUIRE(packet);
        collector.on_packet(*packet, now);
    }
    Front of(std::uint64_t seq = 1) const {
        Front front;
        front.blocks = 1;
        front.seq = seq;
        front.shape = shape;
        return front;
    }
    // What it sends now; `lane` and `flags` become those of the last result, `missing` that of the last HELD.
    std::vector<Sent> send() {
        std::vector<Sent> all;
        std::vector<std::byte> bytes(ASK_VALUES_FRONT + kBlock);
        while (const auto sent = collector.next_packet(bytes, now)) {
            Refusal why{};
            const auto packet = wire_.open(std::span(bytes).first(sent->bytes), sent->to.ports, why);
            REQUIRE(packet);
            all.emplace_back(packet->front.type, sent->to.to_all ? 3 : sent->to.host - 0xc6120001);
            if (packet->front.type == ASK_RESULT) {
                std::memcpy(&lane, packet->body.data(), 8);
                flags = packet->front.flags;
            } else if (packet->front.type == ASK_HELD) {
                missing = packet->front.bits;
            }
        }
        return all;
    }

 private:
    Wire wire_;

 public:
    Collector collector;
    Shape shape{kSumOfInts, 3};
    Nanos now = kSecond;
    std::int64_t lane = 0;
    unsigned flags = 0;
    std::uint64_t missing = 0;
};

const std::vector<Sent> kToEach{{ASK_RESULT, 0}, {ASK_RESULT, 1}, {ASK_RESULT, 2}};

TEST_CASE(
    "values collector: sets apart are folded, one within is there already, one around takes its place") {
    Ends ends;
    SUBCASE("apart") {
        ends.give(1, 1);
        ends.give(2, 10);
        ends.give(4, 100);
    }
    SUBCASE("within") {
        ends.give(3, 11);
        ends.give(1, 1);
        ends.give(3, 11);
        ends.give(4, 100);
        CHECK(ends.collector.stats().within == 2);
    }
    SUBCASE("around") {
        ends.give(1, 1);
        ends.give(3, 11);
        ends.give(4, 100);
        CHECK(ends.collector.stats().replaced == 1);
    }
    SUBCASE("crossing") {
        ends.give(3, 11);
        ends.give(6, 110);
        CHECK(ends.collector.stats().crossing == 1);
        CHECK(ends.send().empty());
        ends.give(4, 100);
    }
    CHECK(ends.send() == kToEach);
    CHECK(ends.lane == 111);
    CHECK(ends.flags == 0);
    CHECK(ends.collector.stats().completed == 1);
}

TEST_CASE("values collector: a result goes to all by the switch, and to the root's own member besides") {
    Ends ends(true);
    ends.give(7, 5, ASK_F_RANGE | ASK_F_ECE);
    CHECK(ends.send() == std::vector<Sent>{{ASK_RESULT, 3}, {ASK_RESULT, 0}});
    CHECK(ends.flags == (ASK_F_RANGE | ASK_F_ECE));
    ends.give(2, 1);
    CHECK(ends.send().empty());
    ends.give(2, 1, ASK_F_RESEND);
    CHECK(ends.send() == std::vector<Sent>{{ASK_RESULT, 1}});
    CHECK(ends.lane == 5);
}

TEST_CASE(
    "values collector: who asks for what is not complete is held; past switches, the missing are asked, once "
    "in a while") {
    Ends ends;
    ends.give(1, 1, ASK_F_RESEND);
    CHECK(ends.send() == std::vector<Sent>{{ASK_HELD, 0}});
    CHECK(ends.missing == 6);
    const std::vector<Sent> round{{ASK_HELD, 0}, {ASK_NEED, 1}, {ASK_NEED, 2}};
    ends.give(1, 1, ASK_F_RESEND | ASK_F_ALONE);
    CHECK(ends.send() == round);
    ends.now += 10 * kMillisecond - 1;
    ends.give(1, 1, ASK_F_RESEND | ASK_F_ALONE);
    CHECK(ends.send() == std::vector<Sent>{{ASK_HELD, 0}});
    ends.now += 1;
    ends.give(1, 1, ASK_F_RESEND | ASK_F_ALONE);
    CHECK(ends.send() == round);
    // An answer to a NEED wants none.
    ends.give(2, 10, ASK_F_ALONE);
    CHECK(ends.send().empty());
}

TEST_CASE(
    "values collector: what met nobody on a switch asks for the others a moment later, if they have not "
    "come") {
    Ends ends;
    ends.give(1, 1, ASK_F_COLLIDED);
    CHECK(ends.send().empty());
    ends.give(2, 10, ASK_F_COLLIDED);
    CHECK(ends.collector.next_deadline(ends.now) == ends.now + 500 * kMicrosecond);
    ends.now += 500 * kMicrosecond;
    SUBCASE("not all came") {
        CHECK(ends.send() == std::vector<Sent>{{ASK_NEED, 2}});
        CHECK(ends.collector.next_deadline(ends.now) == kNever);
    }
    SUBCASE("all came") {
        ends.give(4, 100, ASK_F_COLLIDED);
        CHECK(ends.send() == kToEach);
        CHECK(ends.flags == ASK_F_COLLIDED);
    }
}

TEST_CASE("values collector: a member's copy of a result goes to who waits for it") {
    Ends ends;
    ends.give(2, 10, ASK_F_RESEND);
    (void)ends.send();
    Front have = ends.of();
    have.type = ASK_HAVE;
    have.flags = ASK_F_RANGE;
    have.bits = 7;
    ends.give(have, 111);
    CHECK(ends.send() == std::vector<Sent>{{ASK_RESULT, 1}});
    CHECK(ends.lane == 111);
    CHECK(ends.flags == ASK_F_RANGE);
}

TEST_CASE("values collector: results that a switch made are kept, until a chunk two windows on") {
    Ends ends;
    Front result = ends.of();
    result.type = ASK_RESULT;
    result.bits = 7;
    ends.give(result, 42);
    CHECK(ends.send().empty());
    ends.give(4, 1, ASK_F_RESEND | ASK_F_ALONE);
    CHECK(ends.send() == std::vector<Sent>{{ASK_RESULT, 2}});
    CHECK(ends.lane == 42);
    ends.give(1, 1, 0, 9);
    ends.give(4, 1, ASK_F_RESEND | ASK_F_ALONE);
    CHECK(ends.send().empty());
    CHECK(ends.collector.stats().late == 1);
    // However far: what was between may all have been lost.
    ends.give(1, 1, ASK_F_RESEND, 1009);
    CHECK(ends.send() == std::vector<Sent>{{ASK_HELD, 0}});
}

TEST_CASE("values collector: raw values are folded in the order of ranks, whatever order they come in") {
    Operation operation = kSumOfInts;
    operation.dtype = Dtype::kFloat64;
    const std::vector<double> values{1e16, 1, -1e16};  // in another order this is another sum
    std::vector<std::uint32_t> order{0, 1, 2};
    do {
        Ends ends;
        ends.shape = Shape(operation, 3).of(Shape::Part::kRaw);
        for (const std::uint32_t rank : order) {
            ends.give(std::uint64_t{1} << rank, std::bit_cast<std::int64_t>(values[rank]), ASK_F_ALONE);
            ends.give(std::uint64_t{1} << rank, std::bit_cast<std::int64_t>(values[rank]), ASK_F_ALONE);
        }
        CHECK(ends.send() == kToEach);
        CHECK(std::bit_cast<double>(ends.lane) == (values[0] + values[1]) + values[2]);
        CHECK(ends.collector.stats().completed_raw == 1);
    } while (std::ranges::next_permutation(order).found);
}

TEST_CASE("values collector: raw values ahead of their turn have so much room; whose turn it is needs none") {
    Ends ends(false, {.raw_bytes = kBlock});
    ends.shape = ends.shape.of(Shape::Part::kRaw);
    ends.give(4, 100, ASK_F_ALONE);
    ends.give(2, 10, ASK_F_ALONE);
    CHECK(ends.collector.stats().raw_full == 1);
    ends.give(1, 1, ASK_F_ALONE);
    CHECK(ends.send().empty());
    ends.give(2, 10, ASK_F_ALONE);
    CHECK(ends.send() == kToEach);
    CHECK(ends.lane == 111);
    ends.give(6, 1, ASK_F_ALONE, 2);
    CHECK(ends.collector.stats().raw_bad == 1);
}

TEST_CASE("values collector: members that do different things are named, and the group is over") {
    Ends ends;
    ends.give(1, 1);
    Front other = ends.of();
    other.bits = 2;
    std::string text = "rank 0 runs allreduce of int64, sum, and rank 1 runs ";
    SUBCASE("operator") {
        Operation operation = kSumOfInts;
        operation.op = Operator::kMin;
        other.shape = Shape(operation, 3);
        text += "allreduce of int64, min";
    }
    SUBCASE("count") {
        Operation operation = kSumOfInts;
        operation.count = 7;
        other.shape = Shape(operation, 3);
        text += "allreduce of int64, sum of another length";
    }
    SUBCASE("blocks") {
        other.blocks = 0;
        text += "allreduce of int64, sum of another length";
    }
    ends.give(other, 1);
    REQUIRE(ends.collector.failure());
    CHECK(ends.collector.failure()->text().find(text) != std::string::npos);
    CHECK(ends.collector.stats().mismatched == 1);
    ends.give(6, 1);
    CHECK(ends.send().empty());
}

TEST_CASE("values collector: short of memory, it marks its results; a full queue is counted") {
    Ends ends(false, {.max_outputs = 2});
    ends.collector.set_congested(true);
    ends.give(7, 1);
    CHECK(ends.collector.stats().outputs_full == 1);
    CHECK(ends.send() == std::vector<Sent>{{ASK_RESULT, 0}, {ASK_RESULT, 1}});
    CHECK(ends.flags == ASK_F_ECE);
}

TEST_CASE(
    "values collector: of a chunk that lacks a dead member all others are asked, since one may have its "
    "result") {
    Ends ends;
    ends.give(1, 1);
    ends.give(2, 10, ASK_F_RESEND | ASK_F_ALONE);
    CHECK(ends.send() == std::vector<Sent>{{ASK_HELD, 1}, {ASK_NEED, 2}});
    ends.collector.set_dead(4);
    ends.now += 20 * kMillisecond;
    ends.give(2, 10, ASK_F_RESEND | ASK_F_ALONE);
    CHECK(ends.send() == std::vector<Sent>{{ASK_HELD, 1}, {ASK_NEED, 0}, {ASK_NEED, 1}});
    Front have = ends.of();
    have.type = ASK_HAVE;
    have.bits = 7;
    ends.give(have, 111);
    CHECK(ends.send() == std::vector<Sent>{{ASK_RESULT, 1}});
    CHECK(ends.lane == 111);
}

}  // namespace
}  // namespace ask::values
