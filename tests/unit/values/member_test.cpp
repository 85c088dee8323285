// SPDX-License-Identifier: Apache-2.0
#include "lib/values/member.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

namespace ask::values {
namespace {

GroupTerms some_terms(std::uint32_t members = 2) {
    GroupTerms terms;
    terms.instance = 0x1122334455667788;
    terms.secret = {1, 2};
    for (std::uint32_t rank = 0; rank < members; ++rank) {
        terms.seats.push_back(
            {.channel = {.host = 0xc6120001 + rank, .port = 49200}, .incarnation = 7 + rank});
    }
    terms.window = 8;
    terms.blocks = 1;
    return terms;
}

// A packet that a member sent, as another end sees it.
struct Seen {
    Front front;
    std::vector<std::byte> body;
    Address to;
    [[nodiscard]] std::uint8_t flags() const { return front.flags; }
};

// Rank 1 of a group, and everybody else.
class Ends {
 public:
    explicit Ends(const GroupTerms& terms = some_terms(), const MemberConfig& config = {})
        : terms_(terms), wire_(terms), member(terms, 1, config) {}

    std::optional<Seen> send() {
        std::vector<std::byte> bytes(ASK_VALUES_FRONT + terms_.blocks * kBlock);
        const auto sent = member.next_packet(bytes, now);
        if (!sent) {
            return std::nullopt;
        }
        Refusal why{};
        const auto packet = wire_.open(std::span(bytes).first(sent->bytes), sent->to.ports, why);
        REQUIRE(packet);
        REQUIRE(packet->member == 1);
        return Seen{
            .front = packet->front, .body = {packet->body.begin(), packet->body.end()}, .to = sent->to};
    }
    // All that it sends by itself.
    std::vector<Seen> send_all() {
        std::vector<Seen> all;
        while (auto seen = send()) {
            all.push_back(*seen);
        }
        return all;
    }
    std::vector<std::uint64_t> seqs() {
        std::vector<std::uint64_t> all;
        for (const Seen& seen : send_all()) {
            all.push_back(seen.front.seq);
        }
        return all;
    }
    void give(Front front, std::span<const std::byte> body, std::uint32_t to) {
        std::vector<std::byte> bytes(ASK_VALUES_FRONT + body.size());
        std::ranges::copy(body, bytes.begin() + ASK_VALUES_FRONT);
        const Outgoing sealed = wire_.seal(bytes, front, to);
        Refusal why{};
        const auto packet = wire_.open(bytes, sealed.to.ports, why);
        REQUIRE(packet);
        member.on_packet(*packet, now);
    }
    void result(Front front, std::span<const std::byte> body, std::uint8_t flags = 0) {
        front.type = ASK_RESULT;
        front.flags = flags;
        front.bits = terms_.all();
        give(front, body, terms_.size());
    }
    void result(const Seen& of, std::uint8_t flags = 0) { result(of.front, of.body, flags); }
    void ask(std::uint8_t type, Front front, std::uint64_t bits = 1, std::uint32_t to = 1) {
        front.type = type;
        front.flags = 0;
        front.blocks = 0;
        front.bits = bits;
        front.level = ASK_LEVEL_MEMBER;
        give(front, {}, to);
    }

 private:
    GroupTerms terms_;
    Wire wire_;

 public:
    Member member;
    Nanos now = kSecond;
};

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
    return std::as_bytes(std::span(values));
}

// An allreduce of int64; 8 a chunk.
Operation sum_of(const std::vector<std::int64_t>& in, std::vector<std::int64_t>& out,
                 std::uint64_t number = 1) {
    return {.number = number,
            .dtype = Dtype::kInt64,
            .op = Operator::kSum,
            .count = in.size(),
            .in = bytes_of(in),
            .out = std::as_writable_bytes(std::span(out))};
}

Operation floats_of(const std::vector<float>& in, std::vector<float>& out) {
    return {.number = 1,
            .dtype = Dtype::kFloat32,
            .op = Operator::kSum,
            .count = in.size(),
            .in = bytes_of(in),
            .out = std::as_writable_bytes(std::span(out))};
}

std::vector<std::byte> exponents(std::int32_t largest, std::int32_t minus_smallest) {
    const Exponents agreed{.largest = largest, .minus_smallest = minus_smallest};
    std::vector<std::byte> body(kBlock);
    std::memcpy(body.data(), &agreed, sizeof(agreed));
    return body;
}

// So many chunks of values under way.
struct Running : Ends {
    explicit Running(std::size_t chunks, const GroupTerms& terms = some_terms(),
                     const MemberConfig& config = {})
        : Ends(terms, config), in(8 * chunks, 3), out(8 * chunks) {
        REQUIRE(member.submit(sum_of(in, out)).ok());
    }
    std::vector<std::int64_t> in;
    std::vector<std::int64_t> out;
};

TEST_CASE("values member: a chunk goes out once, and its result completes the operation") {
    Ends ends;
    const std::vector<std::int64_t> in{1, -2, 3};
    std::vector<std::int64_t> out(3);
    REQUIRE(ends.member.submit(sum_of(in, out)).ok());
    CHECK(ends.member.next_deadline(ends.now) == ends.now);
    const auto sent = ends.send();
    REQUIRE(sent);
    CHECK(sent->front.type == ASK_VALUE);
    CHECK(sent->front.bits == 2);
    CHECK(sent->front.seq == 1);
    CHECK(sent->flags() == 0);
    CHECK(sent->front.op == ASK_VALUES_ADD64);
    CHECK(sent->to.host == 0xc6120001);
    CHECK(std::memcmp(sent->body.data(), in.data(), 24) == 0);
    CHECK_FALSE(ends.send());
    CHECK(ends.member.next_deadline(ends.now) > ends.now);
    CHECK_FALSE(ends.member.next_completion());

    std::vector<std::int64_t> sum{10, 20, 30, 0, 0, 0, 0, 0};
    ends.result(sent->front, bytes_of(sum));
    const auto completion = ends.member.next_completion();
    REQUIRE(completion);
    CHECK(completion->number == 1);
    CHECK_FALSE(completion->error);
    CHECK(out == std::vector<std::int64_t>{10, 20, 30});
    CHECK(ends.member.idle());
    CHECK(ends.member.completed() == 1);
    CHECK(ends.member.next_deadline(ends.now) == kNever);
    ends.result(sent->front, bytes_of(sum));
    CHECK(ends.member.stats().results_again == 1);
}

TEST_CASE("values member: what has no answer is sent again for the switch, then past it, ever more rarely") {
    Running ends(1, some_terms(), {.rto_initial = 2 * kMillisecond, .rto_ceiling = 64 * kMillisecond});
    const auto first = ends.send();
    std::vector<Nanos> waits;
    std::vector<unsigned> flags;
    Nanos last = ends.now;
    for (int i = 0; i < 7; ++i) {
        const Nanos at = ends.member.next_deadline(ends.now);
        ends.now = at - 1;
        REQUIRE_FALSE(ends.send());
        ends.now = at;
        const auto again = ends.send();
        REQUIRE(again);
        CHECK(again->body == first->body);
        waits.push_back((at - last) / kMillisecond);
        flags.push_back(again->flags());
        last = at;
    }
    CHECK(waits == std::vector<Nanos>{2, 4, 8, 16, 32, 64, 64});
    CHECK(flags[0] == ASK_F_RESEND);
    CHECK(std::ranges::all_of(flags.begin() + 1, flags.end(),
                              [](unsigned f) { return f == (ASK_F_RESEND | ASK_F_ALONE); }));
}

TEST_CASE("values member: a repeat does not hide the timeout of what was sent behind it") {
    Running ends(2, some_terms(), {.initial_window = 2, .rto_initial = 2 * kMillisecond});
    const auto first = ends.send_all();
    ends.now += 2 * kMillisecond;
    REQUIRE(ends.seqs() == std::vector<std::uint64_t>{1});
    ends.result(first[1]);
    ends.now += 4 * kMillisecond;
    CHECK(ends.seqs() == std::vector<std::uint64_t>{1});
}

TEST_CASE("values member: who has not sent yet is waited for: of a window only the oldest asks, once") {
    Running ends(16, some_terms(), {.initial_window = 8, .rto_initial = 2 * kMillisecond});
    const auto sent = ends.send_all();
    REQUIRE(sent.size() == 8);
    ends.now += 2 * kMillisecond;
    REQUIRE(ends.seqs() == std::vector<std::uint64_t>{1});
    ends.ask(ASK_HELD, sent[0].front, 1);
    ends.now += 5 * kMillisecond;
    // Only what has room by now.
    for (const std::uint64_t seq : ends.seqs()) {
        CHECK(seq > 8);
    }
    // The slow one's values come in, one after another, slower than the timeout.
    for (const Seen& seen : sent) {
        ends.result(seen);
        ends.now += kMillisecond;
        for (const std::uint64_t seq : ends.seqs()) {
            CHECK(seq > 8);
        }
    }
    CHECK(ends.member.stats().resends == 1);
    CHECK(ends.member.stats().congested == 0);
}

TEST_CASE("values member: how long others take to send tells nothing of the way") {
    Running ends(24, some_terms(), {.initial_window = 8, .rto_initial = 2 * kMillisecond});
    for (const Nanos waited : {kMillisecond, 100 * kMillisecond}) {
        const auto sent = ends.send_all();
        REQUIRE(sent.size() == 8);
        ends.now += waited;
        for (const Seen& seen : sent) {
            ends.result(seen);
        }
    }
    REQUIRE(ends.seqs().size() == 8);
    CHECK(ends.member.next_deadline(ends.now) <= ends.now + 4 * kMillisecond);
}

TEST_CASE("values member: what results overtake is sent again after its timeout, all of it at once") {
    Running ends(8, some_terms(), {.initial_window = 8, .rto_initial = 2 * kMillisecond});
    const auto sent = ends.send_all();
    REQUIRE(sent.size() == 8);
    for (const std::size_t at : {0U, 2U, 3U, 5U}) {
        ends.result(sent[at]);
    }
    ends.now += 2 * kMillisecond;
    CHECK(ends.seqs() == std::vector<std::uint64_t>{2, 5});
    // Of 7 and 8 nobody knows.
    ends.result(sent[1]);
    ends.result(sent[4]);
    ends.now += kMillisecond;
    CHECK(ends.seqs() == std::vector<std::uint64_t>{7, 8});
}

TEST_CASE("values member: of a window that was lost twice as many are sent again each time") {
    Running ends(16, some_terms(), {.initial_window = 16, .rto_initial = 2 * kMillisecond});
    REQUIRE(ends.send_all().size() == 8);
    ends.now += 2 * kMillisecond;
    std::vector<std::vector<std::uint64_t>> rounds;
    while (rounds.size() < 4) {
        const auto again = ends.send_all();
        rounds.emplace_back();
        for (const Seen& seen : again) {
            rounds.back().push_back(seen.front.seq);
            ends.result(seen);
        }
    }
    // The window is half as large by then, and what was lost takes no room in it.
    const auto begin = [&rounds](std::size_t round, std::uint64_t first, std::size_t count) {
        REQUIRE(rounds[round].size() >= count);
        for (std::size_t i = 0; i < count; ++i) {
            CHECK(rounds[round][i] == first + i);
        }
    };
    begin(0, 1, 1);
    begin(1, 2, 2);
    begin(2, 4, 4);
    begin(3, 8, 1);
}

TEST_CASE("values member: a way longer than the first timeout is learnt, and no sign of loss") {
    constexpr std::size_t kChunks = 400;
    constexpr Nanos kRound = 41 * kMillisecond;
    Running ends(kChunks, some_terms(), {.initial_window = 8, .rto_initial = 2 * kMillisecond});
    // Nothing gets lost: whoever sees a VALUE or its repeat answers.
    std::deque<std::pair<Nanos, Seen>> answers;
    const Nanos begun = ends.now;
    while (!ends.member.next_completion()) {
        for (const Seen& sent : ends.send_all()) {
            answers.emplace_back(ends.now + kRound, sent);
        }
        ends.now = std::min(ends.member.next_deadline(ends.now), answers.front().first);
        while (!answers.empty() && answers.front().first <= ends.now) {
            ends.result(answers.front().second);
            answers.pop_front();
        }
    }
    // Fifty windows, and what the first few took to learn.
    CHECK((ends.now - begun) / kRound < 75);
    CHECK(ends.member.stats().resends < kChunks / 4);
    CHECK(ends.member.window(0) == 8);
}

TEST_CASE("values member: an operation that was refused has no chunks, and the next one follows it") {
    Running ends(1);
    const std::vector<float> floats(4);
    std::vector<float> no_bits(4);
    Operation refused = floats_of(floats, no_bits);
    refused.number = 2;
    refused.op = Operator::kXor;
    CHECK(ends.member.submit(refused).error().code() == Errc::kUnsupported);
    ends.member.skip(2);
    REQUIRE(ends.member.submit(sum_of(ends.in, ends.out, 3)).ok());
    for (const Seen& sent : ends.send_all()) {
        ends.result(sent);
    }
    CHECK(ends.member.next_completion()->number == 1);
    CHECK(ends.member.next_completion()->number == 3);
    CHECK(ends.member.completed() == 3);
}

TEST_CASE("values member: of what is held only the oldest asks on") {
    Running ends(3, some_terms(), {.initial_window = 8});
    const auto sent = ends.send_all();
    for (const Seen& seen : sent) {
        ends.ask(ASK_HELD, seen.front, 1);
    }
    const Nanos begun = ends.now;
    std::vector<Nanos> probed;
    while (probed.size() < 4) {
        ends.now = ends.member.next_deadline(ends.now);
        const auto probe = ends.send();
        REQUIRE(probe);
        CHECK(probe->front.seq == 1);
        CHECK(probe->flags() == (ASK_F_RESEND | ASK_F_ALONE));
        REQUIRE_FALSE(ends.send());
        probed.push_back((ends.now - begun) / kMillisecond);
    }
    CHECK(probed == std::vector<Nanos>{10, 30, 70, 110});
    CHECK(ends.member.stats().probes == 4);
    CHECK(ends.member.stats().resends == 0);
    const auto waiting = ends.member.waiting();
    REQUIRE(waiting);
    CHECK(waiting->operation == 1);
    CHECK(waiting->seq == 1);
    CHECK(waiting->missing == 1);
    CHECK(waiting->since == begun);
    // The next one is the oldest now, and has waited long enough.
    ends.result(sent[0]);
    CHECK(ends.seqs() == std::vector<std::uint64_t>{2});
}

namespace {

// Rank 1 with 64 chunks under way.
struct FullWindow {
    std::vector<std::int64_t> in = std::vector<std::int64_t>(std::size_t{64} * 8, 1);
    std::vector<std::int64_t> out = std::vector<std::int64_t>(in.size());
    Ends ends;
    std::vector<Seen> sent;

    FullWindow() : ends(terms(), {.initial_window = 64}) {
        REQUIRE(ends.member.submit(sum_of(in, out)).ok());
        sent = ends.send_all();
        REQUIRE(sent.size() == 64);
    }
    static GroupTerms terms() {
        GroupTerms terms = some_terms();
        terms.window = 64;
        return terms;
    }
    // Repeats in so long; each is answered with what `answer` does at once.
    template <typename Answer>
    std::size_t repeats_in(Nanos time, const Answer& answer) {
        std::size_t repeats = 0;
        for (const Nanos end = ends.now + time; ends.now < end; ends.now += 100 * kMicrosecond) {
            for (const Seen& seen : ends.send_all()) {
                ++repeats;
                answer(seen);
            }
        }
        return repeats;
    }
};

}  // namespace

TEST_CASE("values member: a member that is late costs the others a few repeats, not a window of them") {
    FullWindow all;
    const std::size_t repeats =
        all.repeats_in(100 * kMillisecond, [&](const Seen& seen) { all.ends.ask(ASK_HELD, seen.front, 1); });
    CHECK(repeats >= 2);  // one at least, and the oldest asks on
    CHECK(repeats <= 16);
    for (const Seen& seen : all.sent) {
        all.ends.result(seen);
    }
    CHECK(all.ends.member.next_completion());
}

TEST_CASE("values member: when a late member is there again, timeouts count from then") {
    FullWindow all;
    all.repeats_in(100 * kMillisecond, [&](const Seen& seen) { all.ends.ask(ASK_HELD, seen.front, 1); });
    all.ends.result(all.sent.front());
    // Those that were held ask on one by one, as each is the oldest; the rest have their whole timeout.
    CHECK(all.ends.send_all().size() <= 1);
    CHECK(all.ends.member.next_deadline(all.ends.now) > all.ends.now);
}

TEST_CASE("values member: a window that was lost is sent again whole, more at a time with every answer") {
    FullWindow all;
    const std::size_t repeats =
        all.repeats_in(100 * kMillisecond, [&](const Seen& seen) { all.ends.result(seen); });
    CHECK(repeats == 64);
    CHECK(all.ends.member.next_completion());
}

TEST_CASE("values member: what is held leaves room for others") {
    Running ends(2, some_terms(), {.initial_window = 1});
    const auto first = ends.send();
    REQUIRE_FALSE(ends.send());
    ends.ask(ASK_HELD, first->front);
    CHECK(ends.seqs() == std::vector<std::uint64_t>{2});
}

TEST_CASE("values member: no more than a window is under way") {
    Running ends(20, some_terms(), {.initial_window = 100});
    const auto sent = ends.send_all();
    REQUIRE(sent.size() == 8);
    ends.result(sent[3]);
    CHECK(ends.seqs().empty());
    ends.result(sent[0]);
    CHECK(ends.seqs() == std::vector<std::uint64_t>{9});
}

TEST_CASE("values member: who needs a chunk gets the result, or the value past the switch, or nothing") {
    Running ends(9, some_terms(), {.initial_window = 2});
    const auto sent = ends.send_all();
    REQUIRE(sent.size() == 2);
    std::vector<std::byte> sum(kBlock, std::byte{9});
    ends.result(sent[0].front, sum, ASK_F_ECE);

    ends.ask(ASK_NEED, sent[0].front, 2);
    ends.ask(ASK_NEED, sent[0].front, 2);
    const auto have = ends.send();
    REQUIRE(have);
    CHECK(have->front.type == ASK_HAVE);
    CHECK(have->front.bits == 3);
    CHECK(have->flags() == 0);
    CHECK(have->body == sum);
    CHECK(have->front.shape == sent[0].front.shape);
    CHECK(ends.member.stats().haves == 1);

    (void)ends.send_all();
    ends.ask(ASK_NEED, sent[1].front, 2);
    ends.ask(ASK_NEED, sent[1].front, 2);
    const auto value = ends.send();
    REQUIRE(value);
    CHECK(value->front.type == ASK_VALUE);
    CHECK(value->flags() == ASK_F_ALONE);
    CHECK(value->body == sent[1].body);
    CHECK_FALSE(ends.send());

    Front early = sent[1].front;
    early.seq = 9;
    ends.ask(ASK_NEED, early, 2);
    CHECK_FALSE(ends.send());
    CHECK(ends.member.stats().needs_early == 1);

    // Another member's.
    ends.ask(ASK_NEED, sent[1].front, 1, 0);
    CHECK_FALSE(ends.send());
    CHECK(ends.member.stats().misdirected == 1);
}

TEST_CASE("values member: who needs a chunk gets its value, not the result that lies in its place") {
    GroupTerms terms = some_terms();
    terms.window = 2;
    Running ends(9, terms, {.initial_window = 2});
    const auto sent = ends.send_all();
    REQUIRE(sent.size() == 2);
    ends.result(sent[0].front, std::vector<std::byte>(kBlock, std::byte{9}), 0);
    const auto next = ends.send_all();
    REQUIRE(next.size() == 1);
    REQUIRE(next[0].front.seq == sent[0].front.seq + terms.window);

    ends.ask(ASK_NEED, next[0].front, 2);
    const auto value = ends.send();
    REQUIRE(value);
    CHECK(value->front.type == ASK_VALUE);
    CHECK(value->front.seq == next[0].front.seq);
    CHECK(value->body == next[0].body);
}

TEST_CASE("values member: what is needed goes out though the window is full, and is no sign of loss") {
    Running ends(4, some_terms(), {.initial_window = 1});
    const auto first = ends.send();
    ends.ask(ASK_NEED, first->front, 2);
    REQUIRE(ends.send());
    const double window = ends.member.window(0);
    ends.result(*first);
    CHECK(ends.member.window(0) > window);
    CHECK(ends.member.stats().congested == 0);
}

TEST_CASE(
    "values member: results are kept for a window and no longer, and a former value is not read again") {
    Running ends(20, some_terms(), {.initial_window = 8});
    std::vector<Seen> sent;
    for (int i = 0; i < 9; ++i) {
        sent.push_back(*ends.send());
        ends.result(sent.back());
    }
    ends.ask(ASK_NEED, sent[1].front, 2);
    const auto have = ends.send();
    REQUIRE(have);
    CHECK(have->front.type == ASK_HAVE);
    ends.ask(ASK_NEED, sent[0].front, 2);
    const auto next = ends.send();
    REQUIRE(next);
    CHECK(next->front.seq == 10);
    CHECK(ends.member.stats().needs_late == 1);
}

TEST_CASE(
    "values member: a result's marks cut the window, once in a flight; so does a loss, if it is proved") {
    Running ends(30, some_terms(), {.initial_window = 8});
    auto sent = ends.send_all();
    REQUIRE(sent.size() == 8);
    ends.result(sent[0], ASK_F_ECE);
    ends.result(sent[1], ASK_F_ECE);
    CHECK(ends.member.window(0) == 4);
    CHECK(ends.member.stats().congested == 1);
    for (std::size_t i = 2; i < 8; ++i) {
        ends.result(sent[i]);
    }
    const double before = ends.member.window(0);
    sent = ends.send_all();
    ends.now += 64 * kMillisecond;
    const auto again = ends.send_all();
    REQUIRE(again.size() == 1);
    // A timeout alone proves nothing: others may be late.
    CHECK(ends.member.window(0) == before);
    SUBCASE("the repeat is answered") {
        ends.result(again[0]);
        CHECK(ends.member.window(0) < before);
    }
    SUBCASE("the first had found the slot taken") {
        ends.result(again[0], ASK_F_COLLIDED);
        CHECK(ends.member.window(0) > before);
    }
    SUBCASE("it is held") {
        ends.ask(ASK_HELD, again[0].front);
        ends.result(again[0]);
        CHECK(ends.member.window(0) == before);
    }
}

TEST_CASE("values member: in place, what is read stays until the operation is whole") {
    Ends ends;
    std::vector<std::int64_t> values(16, 5);
    Operation operation = sum_of(values, values);
    REQUIRE(ends.member.submit(operation).ok());
    const auto sent = ends.send_all();
    REQUIRE(sent.size() == 2);
    std::vector<std::byte> sum(kBlock, std::byte{1});
    ends.result(sent[0].front, sum);
    CHECK(values == std::vector<std::int64_t>(16, 5));
    ends.ask(ASK_NEED, sent[1].front, 2);
    CHECK(ends.send()->body == sent[1].body);
    ends.result(sent[1].front, sum);
    CHECK(values == std::vector<std::int64_t>(16, 0x0101010101010101));
    REQUIRE(ends.member.next_completion());
}

TEST_CASE("values member: floats wait for their exponents, and all scale alike") {
    Ends ends;
    const std::vector<float> in{0.75F, -0.5F, 0};
    std::vector<float> out(3);
    REQUIRE(ends.member.submit(floats_of(in, out)).ok());
    const auto first = ends.send_all();
    REQUIRE(first.size() == 1);
    CHECK(first[0].front.stream == kExponentStream);
    CHECK(first[0].front.op == ASK_VALUES_MAX32);
    Exponents own;
    std::memcpy(&own, first[0].body.data(), sizeof(own));
    CHECK(own.largest == 0);
    CHECK(own.minus_smallest == 0);
    // Another member has 4 and 1/8.
    ends.result(first[0].front, exponents(3, 2));
    const auto values = ends.send_all();
    REQUIRE(values.size() == 1);
    CHECK(values[0].front.stream == 0);
    std::int64_t lane = 0;
    std::memcpy(&lane, values[0].body.data(), sizeof(lane));
    CHECK(lane == std::int64_t{3} << 56);  // 0.75 of 2^(62 - 1 - 3)
    std::vector<std::byte> sum(kBlock);
    fold(ASK_VALUES_ADD64, sum, values[0].body);
    fold(ASK_VALUES_ADD64, sum, values[0].body);
    ends.result(values[0].front, sum);
    CHECK(out == std::vector<float>{1.5F, -1.0F, 0});
    CHECK(ends.member.next_completion());
}

TEST_CASE("values member: a chunk of which one member says so travels raw and past switches") {
    Ends ends;
    const std::vector<float> in{1, 2};
    std::vector<float> out(2);
    REQUIRE(ends.member.submit(floats_of(in, out)).ok());
    const auto first = ends.send();
    ends.result(first->front, exponents(Exponents::kRaw, 5));
    const auto raw = ends.send();
    REQUIRE(raw);
    CHECK(raw->flags() == ASK_F_ALONE);
    CHECK(raw->front.shape.raw());
    CHECK(raw->front.shape.dtype() == Dtype::kFloat32);
    CHECK(raw->front.shape.op() == Operator::kSum);
    CHECK(std::memcmp(raw->body.data(), in.data(), 8) == 0);
    // A result of the chunk's scaled form is not this chunk's.
    Front other = raw->front;
    other.shape = other.shape.of(Shape::Part::kValues);
    ends.result(other, raw->body);
    CHECK_FALSE(ends.member.next_completion());
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::vector<std::byte> sum(kBlock);
    std::memcpy(sum.data(), &nan, sizeof(nan));
    ends.result(raw->front, sum);
    CHECK(std::isnan(out[0]));
    CHECK(ends.member.next_completion());
    ends.ask(ASK_NEED, raw->front, 2);
    CHECK(ends.send()->front.shape.raw());
}

TEST_CASE("values member: a value that grew after its exponent was agreed ends the operation in an error") {
    Ends ends;
    std::vector<float> in{1, 1};
    std::vector<float> out(2, 42);
    REQUIRE(ends.member.submit(floats_of(in, out)).ok());
    const auto first = ends.send();
    ends.result(*first);
    in[1] = 1e9F;
    const auto value = ends.send();
    REQUIRE(value);
    CHECK(value->flags() == ASK_F_RANGE);
    ends.result(*value, ASK_F_RANGE);
    ends.ask(ASK_NEED, value->front, 2);
    CHECK(ends.send()->flags() == ASK_F_RANGE);  // part of the value, so of a HAVE, too
    const auto completion = ends.member.next_completion();
    REQUIRE(completion);
    REQUIRE(completion->error);
    CHECK(completion->error->text().find("allreduce 1") != std::string::npos);
}

TEST_CASE("values member: a result that is not this chunk's changes nothing") {
    Running ends(2, some_terms(), {.initial_window = 1});
    const auto sent = ends.send();
    Front other = sent->front;
    SUBCASE("another operation's") {
        other.shape = Shape(other.shape.word() ^ 1);
    }
    SUBCASE("another operator's") {
        other.op = ASK_VALUES_OR64;
    }
    SUBCASE("of a chunk that was not sent") {
        other.seq = 2;
    }
    SUBCASE("far ahead") {
        other.seq = 1000;
    }
    SUBCASE("of an idle stream") {
        other.stream = kExponentStream;
    }
    ends.result(other, sent->body);
    CHECK(ends.member.stats().results_bad == 1);
    CHECK(ends.member.stats().results == 0);
    ends.result(*sent);
    CHECK(ends.member.stats().results == 1);
}

TEST_CASE("values member: chunks go round the streams") {
    GroupTerms terms = some_terms();
    terms.streams = 3;
    Running ends(7, terms);
    std::array<unsigned, 3> count{};
    for (const Seen& seen : ends.send_all()) {
        REQUIRE(seen.front.stream < 3);
        CHECK(seen.front.seq == ++count[seen.front.stream]);
        std::vector<std::byte> sum(kBlock,
                                   static_cast<std::byte>((seen.front.seq - 1) * 3 + seen.front.stream));
        ends.result(seen.front, sum);
    }
    CHECK(count == std::array<unsigned, 3>{3, 2, 2});
    REQUIRE(ends.member.next_completion());
    for (std::size_t chunk = 0; chunk < 7; ++chunk) {
        CHECK(ends.out[8 * chunk] == 0x0101010101010101 * static_cast<std::int64_t>(chunk));
    }
}

TEST_CASE("values member: operations end in order, whatever comes first; an empty one takes its turn") {
    Ends ends;
    std::vector<std::int64_t> in(8, 1);
    std::vector<std::int64_t> none;
    std::array<std::vector<std::int64_t>, 3> out{
        std::vector<std::int64_t>(8), {}, std::vector<std::int64_t>(8)};
    REQUIRE(ends.member.submit(sum_of(in, out[0], 4)).ok());
    REQUIRE(ends.member.submit(sum_of(none, out[1], 5)).ok());
    REQUIRE_FALSE(ends.member.submit(sum_of(in, out[2], 7)).ok());
    REQUIRE(ends.member.submit(sum_of(in, out[2], 6)).ok());
    const auto sent = ends.send_all();
    REQUIRE(sent.size() == 2);
    CHECK(sent[0].front.shape != sent[1].front.shape);
    ends.result(sent[1]);
    CHECK_FALSE(ends.member.next_completion());
    ends.result(sent[0]);
    for (std::uint64_t number = 4; number <= 6; ++number) {
        CHECK(ends.member.next_completion()->number == number);
    }
}

TEST_CASE(
    "values member: barriers are empty, others add nothing to a broadcast, a reduce is its root's alone") {
    Ends ends;
    std::vector<std::int64_t> in(8, 1);
    std::vector<std::int64_t> out(8, 2);
    Operation operation = sum_of(in, out);
    SUBCASE("barrier") {
        REQUIRE(ends.member.submit({.number = 1, .kind = Kind::kBarrier}).ok());
        const auto sent = ends.send();
        CHECK(sent->front.blocks == 0);
        ends.result(*sent);
    }
    SUBCASE("broadcast from another") {
        operation.kind = Kind::kBroadcast;
        operation.op = Operator::kNone;
        operation.in = {};
        REQUIRE(ends.member.submit(operation).ok());
        const auto sent = ends.send();
        CHECK(sent->front.op == ASK_VALUES_OR64);
        CHECK(sent->body == std::vector<std::byte>(kBlock));
        ends.result(sent->front, bytes_of(in));
        CHECK(out == in);
    }
    SUBCASE("reduce to another") {
        operation.kind = Kind::kReduce;
        operation.out = {};
        REQUIRE(ends.member.submit(operation).ok());
        ends.result(*ends.send());
        CHECK(out == std::vector<std::int64_t>(8, 2));
    }
    CHECK(ends.member.next_completion());
}

TEST_CASE("values member: what cannot be run is refused by name") {
    Ends ends;
    std::vector<std::int64_t> in(8, 1);
    std::vector<std::int64_t> out(8);
    Operation operation = sum_of(in, out);
    const auto refused = [&](const char* text) {
        const auto result = ends.member.submit(operation);
        REQUIRE_FALSE(result.ok());
        CHECK(result.error().text().find(text) != std::string::npos);
    };
    SUBCASE("the count") {
        operation.count = 9;
        refused("memory");
    }
    SUBCASE("nowhere to write") {
        operation.out = {};
        refused("memory of 64 bytes");
    }
    SUBCASE("overlap") {
        operation.count = 7;
        operation.in = std::as_bytes(std::span(out)).first(56);
        operation.out = std::as_writable_bytes(std::span(out)).subspan(8);
        refused("overlap");
    }
    SUBCASE("width") {
        operation.width = Width::kPair;
        refused("a width is for sums of floats");
    }
    SUBCASE("bits of floats") {
        operation.dtype = Dtype::kFloat64;
        operation.op = Operator::kXor;
        refused("no bit operators");
    }
    SUBCASE("root") {
        operation.root = 2;
        refused("rank 2, and the group has 2 members");
    }
    CHECK(ends.member.idle());
}

TEST_CASE("values member: a group that fails ends all that is under way, and what comes later") {
    Running ends(3);
    REQUIRE(ends.send());
    ends.member.fail(Error(Errc::kAborted, "h2 left"));
    const auto completion = ends.member.next_completion();
    REQUIRE(completion);
    CHECK(completion->error->text() == "h2 left");
    CHECK_FALSE(ends.member.next_completion());
    CHECK_FALSE(ends.send());
    CHECK(ends.member.next_deadline(ends.now) == kNever);
    CHECK(ends.member.submit(sum_of(ends.in, ends.out, 2)).error().text() == "h2 left");
}

TEST_CASE("values member: what is held back ends once it may, and nothing else does") {
    Ends ends;
    const std::vector<std::int64_t> in(8, 3);
    std::vector<std::vector<std::int64_t>> out(3, std::vector<std::int64_t>(8));
    for (std::uint64_t number = 1; number <= 3; ++number) {
        REQUIRE(ends.member.submit(sum_of(in, out[number - 1], number)).ok());
    }
    CHECK(ends.member.submitted() == 3);
    const auto sent = ends.send_all();
    REQUIRE(sent.size() == 3);
    ends.result(sent[0]);
    CHECK(ends.member.completed() == 1);
    ends.member.hold_beyond(1);
    ends.result(sent[1]);
    ends.result(sent[2]);
    CHECK(ends.member.completed() == 1);
    CHECK(ends.member.next_completion()->number == 1);
    CHECK_FALSE(ends.member.next_completion());
    ends.member.hold_beyond(2);
    CHECK(ends.member.completed() == 2);
    const auto second = ends.member.next_completion();
    REQUIRE(second);
    CHECK(second->number == 2);
    CHECK_FALSE(second->error);
    ends.member.fail(Error(Errc::kAborted, "rank 0 has died"));
    const auto third = ends.member.next_completion();
    REQUIRE(third);
    CHECK(third->number == 3);
    CHECK(third->error);
}

}  // namespace
}  // namespace ask::values
