// SPDX-License-Identifier: Apache-2.0
#include "lib/values/packet.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/bytes.h"

namespace ask::values {
namespace {

GroupTerms some_terms() {
    GroupTerms terms;
    terms.instance = 77;
    terms.secret = {1, 2};
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
        terms.seats.push_back(
            {.channel = {.host = 0xc6120001 + rank, .port = static_cast<std::uint16_t>(49200 + rank)},
             .incarnation = 7});
    }
    terms.root = 2;
    terms.blocks = 4;
    return terms;
}

struct Sealed {
    std::vector<std::byte> bytes;
    Address to{};
};

Sealed seal(Front front, std::uint32_t member, const GroupTerms& terms = some_terms()) {
    const Wire wire(terms);
    Sealed sealed{.bytes = std::vector<std::byte>(ASK_VALUES_FRONT + front.blocks * ASK_VALUES_BLOCK_BYTES,
                                                  std::byte{3})};
    const Outgoing out = wire.seal(sealed.bytes, front, member);
    REQUIRE(out.bytes == sealed.bytes.size());
    sealed.to = out.to;
    return sealed;
}

Refusal judge(const Sealed& sealed, const GroupTerms& terms = some_terms()) {
    const Wire wire(terms);
    Refusal why{};
    (void)wire.open(sealed.bytes, sealed.to.ports, why);
    return why;
}

Front value(std::uint32_t member = 1) {
    return {.type = ASK_VALUE, .blocks = 3, .seq = 9, .bits = std::uint64_t{1} << member, .shape = Shape(5)};
}

TEST_CASE("values packet: what is sealed opens as it was, and goes where its type says") {
    const Wire wire(some_terms());
    const Sealed sealed = seal(value(), 1);
    Refusal why{};
    const auto packet = wire.open(sealed.bytes, sealed.to.ports, why);
    REQUIRE(packet);
    CHECK(packet->member == 1);
    CHECK(packet->front.seq == 9);
    CHECK(packet->front.bits == 2);
    CHECK(packet->front.shape == Shape(5));
    CHECK(packet->body.size() == 192);
    CHECK(sealed.to.host == 0xc6120003);
    CHECK(sealed.to.from == 0xc6120002);
    CHECK(sealed.to.ports.source == 49201);
    CHECK(sealed.to.ports.dest == ASK_UDP_PORT);

    Front result = value();
    result.type = ASK_RESULT;
    result.stream = 7;
    result.bits = 7;
    const Sealed one = seal(result, 0);
    CHECK(judge(one) == Refusal::kNone);
    CHECK(one.to.host == 0xc6120001);
    CHECK(one.to.from == 0xc6120003);
    CHECK(one.to.ports.source == ASK_RESULT_PORT + 7);
    CHECK_FALSE(one.to.own);
    const Sealed own = seal(result, 2);
    CHECK(own.to.own);
    // One and the same for all but for the flag: copies need no other seal.
    CHECK(own.bytes == one.bytes);
    const Sealed all = seal(result, 3);
    CHECK(all.to.to_all);
    CHECK(all.to.host == 0xc6120003);
    CHECK(judge(all) == Refusal::kNone);

    const Sealed held = seal({.type = ASK_HELD, .seq = 9, .bits = 4}, 0);
    CHECK(judge(held) == Refusal::kNone);
    CHECK(held.bytes.size() == 64);
    CHECK(held.to.ports.dest == 49200);
    CHECK(held.to.host == 0xc6120001);
}

TEST_CASE("values packet: every bit counts") {
    const Sealed sealed = seal(value(), 1);
    for (std::size_t bit = 0; bit < sealed.bytes.size() * 8; ++bit) {
        Sealed other = sealed;
        other.bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
        REQUIRE(judge(other) != Refusal::kNone);
    }
    Sealed other = sealed;
    ++other.to.ports.source;
    CHECK(judge(other) == Refusal::kBadPorts);
    for (std::size_t size = 0; size < sealed.bytes.size(); ++size) {
        other = sealed;
        other.bytes.resize(size);
        REQUIRE(judge(other) == Refusal::kMalformed);
    }
    other = sealed;
    other.bytes.resize(sealed.bytes.size() + 8);
    CHECK(judge(other) == Refusal::kMalformed);
}

TEST_CASE("values packet: a member says nothing of others, and only what a group may say is opened") {
    Front front = value();
    std::uint32_t member = 1;
    Refusal expected = Refusal::kBadSet;
    SUBCASE("another's value") {
        member = 0;
    }
    SUBCASE("of several") {
        front.bits = 3;
    }
    SUBCASE("of nobody") {
        front.bits = 0;
    }
    SUBCASE("a switch's, of one that is none") {
        front.level = ASK_LEVEL_PARTIAL;
        front.bits = 8;
    }
    SUBCASE("a switch's") {
        front.level = ASK_LEVEL_PARTIAL;
        front.bits = 5;
        expected = Refusal::kNone;
    }
    SUBCASE("a level that is none") {
        front.level = ASK_LEVEL_RESULT;
    }
    SUBCASE("a result of some") {
        front.type = ASK_RESULT;
        front.bits = 3;
    }
    SUBCASE("to have some") {
        front.type = ASK_HAVE;
        front.bits = 3;
    }
    SUBCASE("to have all") {
        front.type = ASK_HAVE;
        front.bits = 7;
        expected = Refusal::kNone;
    }
    CHECK(judge(seal(front, member)) == expected);
}

TEST_CASE("values packet: beyond the group's limits or of another group") {
    Front front = value();
    GroupTerms sender = some_terms();
    Refusal expected = Refusal::kMalformed;
    SUBCASE("longer") {
        front.blocks = 5;
    }
    SUBCASE("no such stream") {
        front.stream = 1;
    }
    SUBCASE("no such operator") {
        front.op = ASK_VALUES_OPS;
    }
    SUBCASE("seq 0") {
        front.seq = 0;
    }
    SUBCASE("a flag that is a result's") {
        front.flags = ASK_F_GROUP;
    }
    SUBCASE("another instance") {
        ++sender.instance;
        expected = Refusal::kOtherGroup;
    }
    SUBCASE("another key") {
        sender.secret[0] = 9;
        expected = Refusal::kBadCheck;
    }
    SUBCASE("a former incarnation") {
        sender.seats[1].incarnation = 6;
        expected = Refusal::kUnknownMember;
    }
    SUBCASE("a stranger") {
        sender.seats[1].channel.host = 1;
        expected = Refusal::kUnknownMember;
    }
    CHECK(judge(seal(front, 1, sender)) == expected);
}

TEST_CASE("values terms: limits are named") {
    GroupTerms terms = some_terms();
    CHECK(check_terms(terms).ok());
    std::string limit;
    SUBCASE("members") {
        terms.seats.assign(65, {});
        limit = "65 members: 1 to 64";
    }
    SUBCASE("nobody") {
        terms.seats.clear();
        limit = "0 members";
    }
    SUBCASE("root") {
        terms.root = 3;
        limit = "3 as the root's rank: 0 to 2";
    }
    SUBCASE("window") {
        terms.window = 257;
        limit = "257 chunks of a window";
    }
    SUBCASE("streams") {
        terms.streams = 8;
        limit = "8 streams: 1 to 7";
    }
    SUBCASE("blocks") {
        terms.blocks = 54;
        limit = "54 blocks";
    }
    SUBCASE("twice") {
        terms.seats[2] = terms.seats[0];
        limit = "rank 0 has the channel of another";
    }
    const auto result = check_terms(terms);
    REQUIRE(result.ok() == limit.empty());
    if (!result.ok()) {
        CHECK(result.error().text().find(limit) != std::string::npos);
    }
}

TEST_CASE("values shape: what members must have in common") {
    const Operation one{.number = 7, .dtype = Dtype::kFloat32, .op = Operator::kSum, .count = 1000};
    const Shape shape(one, 3);
    CHECK(shape.text() == "allreduce of float32, sum");
    CHECK(describe(one) == "allreduce 7 of 1000 float32, sum");
    CHECK(shape == Shape(one, 3));
    Operation other = one;
    std::uint32_t members = 3;
    SUBCASE("number") {
        ++other.number;
    }
    SUBCASE("kind") {
        other.kind = Kind::kReduce;
    }
    SUBCASE("dtype") {
        other.dtype = Dtype::kInt32;
    }
    SUBCASE("operator") {
        other.op = Operator::kMax;
    }
    SUBCASE("width") {
        other.width = Width::kPair;
    }
    SUBCASE("root") {
        other.root = 1;
    }
    SUBCASE("count") {
        ++other.count;
    }
    SUBCASE("members") {
        ++members;
    }
    CHECK(Shape(other, members) != shape);
    CHECK(shape.of(Shape::Part::kRaw) != shape);
    CHECK(shape.of(Shape::Part::kRaw).raw());
    CHECK(shape.of(Shape::Part::kRaw).of(Shape::Part::kValues) == shape);
}

}  // namespace
}  // namespace ask::values
