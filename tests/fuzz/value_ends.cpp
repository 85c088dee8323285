// SPDX-License-Identifier: Apache-2.0
//
// A member and the collector of a group that anybody sends packets to: sealed ones of any header whose
// payload is the fold of the set that they name, some damaged after that, and any bytes. What is not proved
// is refused; what a collector gives is the fold of all; an operation's result is the sum; and whatever came,
// an operation ends whose members go on, unless somebody who has the key said that the stream is far ahead,
// or does another operation.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "lib/values/collector.h"
#include "lib/values/member.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/made_values.h"

namespace ask::fuzz {
namespace {

using namespace values;
using Bytes = std::vector<std::byte>;

constexpr std::uint32_t kMembers = 4;
constexpr std::uint32_t kOwn = 1;  // the member that is the code; the collector is rank 0's
constexpr std::uint32_t kWindow = 4;
constexpr std::uint64_t kAll = (1U << kMembers) - 1;
constexpr std::size_t kWords = ASK_VALUES_BLOCK_WORDS;
constexpr std::size_t kRoom = ASK_VALUES_FRONT + std::size_t{ASK_VALUES_MAX_BLOCKS} * kBlock;
constexpr std::size_t kMostSteps = 400;
constexpr std::size_t kMostRounds = 4000;
constexpr std::size_t kBurst = 1000;  // packets of one end without a packet or a moment in between
constexpr std::uint64_t kMostOperations = 8;

Bytes fold_of(const Front& front) {
    const auto words = test::fold_of_members(
        front.op, front.blocks, front.bits & kAll, [&front](unsigned member, std::size_t word) {
            return test::made_word(front.seq * 0x9e3779b97f4a7c15, {std::uint64_t{member}, word});
        });
    const auto bytes = std::as_bytes(std::span(words));
    return {bytes.begin(), bytes.end()};
}

GroupTerms terms_of(Input& input) {
    GroupTerms terms;
    terms.instance = 0x0102030405060708;
    terms.secret = {5, 6};
    for (std::uint32_t rank = 0; rank < kMembers; ++rank) {
        terms.seats.push_back(
            {.channel = {.host = 0xC6120101 + rank, .port = ASK_CHANNEL_PORT_BASE}, .incarnation = 7});
    }
    terms.window = kWindow;
    terms.blocks = 1;
    terms.fan_out = input.flag();
    return terms;
}

struct Sent {
    Bytes payload;
    Ports ports;
};

class World {
 public:
    explicit World(Input& input)
        : wire_(terms_of(input)), member_(wire_.terms(), kOwn), collector_(wire_.terms()) {
        begin(1);
    }

    void step(Input& input) {
        switch (input.below(8)) {
            case 0:
                begin(1 + input.below(6));
                break;
            case 1:
                now_ += Nanos{input.take<std::uint16_t>()} * kMicrosecond;
                break;
            case 2:
                send(member_, to_collector_);
                break;
            case 3:
                send(collector_, to_member_);
                break;
            case 4:
                take(to_collector_, input);
                break;
            case 5:
                take(to_member_, input);
                break;
            case 6:
                hostile(input, true);
                break;
            default:
                hostile(input, false);
                break;
        }
        complete();
    }

    // From here on nothing is lost, and the others answer at once.
    void end() {
        std::size_t rounds = 0;
        for (; !member_.idle() && !spoiled_ && !collector_.failure() && rounds < kMostRounds; ++rounds) {
            send(member_, to_collector_);
            deliver(to_collector_);
            send(collector_, to_member_);
            deliver(to_member_);
            complete();
            const Nanos next = std::min(member_.next_deadline(now_), collector_.next_deadline(now_));
            require(member_.idle() || next != kNever || !to_collector_.empty() || !to_member_.empty(),
                    "who waits has something to do");
            now_ = std::max(now_ + 1, std::min(next, now_ + kSecond));
        }
        require(rounds < kMostRounds, "an operation ends whose members go on");
    }

 private:
    struct Run {
        Operation operation;
        Bytes in;
        Bytes out;
        Bytes expected;
    };

    void begin(std::uint64_t chunks) {
        if (runs_.size() >= kMostOperations) {
            return;
        }
        Run& run = runs_.emplace_back();
        run.operation = {
            .number = runs_.size(), .dtype = Dtype::kInt64, .op = Operator::kSum, .count = chunks * kWords};
        for (std::uint64_t chunk = 0; chunk < chunks; ++chunk, ++end_) {
            Front front{.blocks = 1, .seq = end_, .bits = std::uint64_t{1} << kOwn};
            const Bytes own = fold_of(front);
            front.bits = kAll;
            const Bytes all = fold_of(front);
            run.in.insert(run.in.end(), own.begin(), own.end());
            run.expected.insert(run.expected.end(), all.begin(), all.end());
        }
        run.out.resize(run.in.size());
        run.operation.in = run.in;
        run.operation.out = run.out;
        shape_ = Shape(run.operation, kMembers);
        shapes_.resize(end_, shape_);
        require(member_.submit(run.operation).ok(), "an operation begins");
    }

    template <typename End>
    void send(End& end, std::deque<Sent>& to) {
        for (std::size_t count = 0;; ++count) {
            require(count < kBurst, "an end says only so much at once");
            Bytes payload(kRoom);
            const auto outgoing = end.next_packet(payload, now_);
            if (!outgoing) {
                return;
            }
            payload.resize(outgoing->bytes);
            Refusal why{};
            const auto packet = wire_.open(payload, outgoing->to.ports, why);
            require(packet.has_value(), "what an end sends opens");
            check_sent(*packet);
            reached_ = packet->front.type == ASK_VALUE ? std::max(reached_, packet->front.seq) : reached_;
            to.push_back({std::move(payload), outgoing->to.ports});
        }
    }

    void check_sent(const Packet& packet) const {
        const Front& front = packet.front;
        if (front.type == ASK_NEED || front.type == ASK_HELD) {
            require(front.bits != 0 && (front.bits & ~kAll) == 0, "who is missing is named");
            return;
        }
        require(front.type != ASK_VALUE || front.bits == std::uint64_t{1} << kOwn,
                "a member sends its own value");
        // Of other operations raw values fold by rules of their own.
        if (!front.shape.raw()) {
            require(std::ranges::equal(packet.body, fold_of(front)),
                    "what an end sends is the fold of its set");
        }
    }

    void take(std::deque<Sent>& from, Input& input) {
        if (from.empty()) {
            return;
        }
        const Sent sent = std::move(from.front());
        from.pop_front();
        if (input.below(4) != 0) {
            arrive(sent);
        }
    }

    void deliver(std::deque<Sent>& from) {
        for (; !from.empty(); from.pop_front()) {
            arrive(from.front());
        }
    }

    // At whomever it is for; the other members are here.
    void arrive(const Sent& sent) {
        Refusal why{};
        const auto packet = wire_.open(sent.payload, sent.ports, why);
        require(packet.has_value(), "what was sent opens");
        const Front& front = packet->front;
        if (front.type == ASK_VALUE || front.type == ASK_HAVE) {
            collector_.on_packet(*packet, now_);
            for (std::uint32_t rank = 0; rank < kMembers && packet->member == kOwn; ++rank) {
                if (rank != kOwn && (front.flags & ASK_F_RESEND) == 0) {
                    answer(rank, front.seq, 0);
                }
            }
        } else if (packet->member == kOwn || front.type == ASK_RESULT) {
            if (front.type == ASK_RESULT) {
                collector_.on_packet(*packet, now_);
            }
            member_.on_packet(*packet, now_);
        } else if (front.type == ASK_NEED) {
            answer(packet->member, front.seq, ASK_F_ALONE);
        }
    }

    // What another member sends of a chunk that it has reached.
    void answer(std::uint32_t rank, std::uint64_t seq, std::uint8_t flags) {
        if (seq == 0 || seq > reached_) {
            return;
        }
        Front front{
            .type = ASK_VALUE, .flags = flags, .blocks = 1, .seq = seq, .bits = std::uint64_t{1} << rank};
        front.shape = shapes_[seq];
        const Sent sent = seal(front, rank);
        Refusal why{};
        const auto packet = wire_.open(sent.payload, sent.ports, why);
        require(packet.has_value(), "a member's value opens");
        collector_.on_packet(*packet, now_);
    }

    [[nodiscard]] Sent seal(const Front& front, std::uint32_t rank) const {
        Bytes payload(kRoom);
        const Bytes body = fold_of(front);
        std::ranges::copy(body, payload.begin() + ASK_VALUES_FRONT);
        const Outgoing outgoing = wire_.seal(payload, front, rank);
        payload.resize(outgoing.bytes);
        return {std::move(payload), outgoing.to.ports};
    }

    [[nodiscard]] Front draw_front(Input& input) const {
        constexpr std::array<std::uint8_t, 5> kTypes{ASK_VALUE, ASK_RESULT, ASK_NEED, ASK_HELD, ASK_HAVE};
        Front front{.type = kTypes[input.below(kTypes.size())], .blocks = 1};
        front.seq = 1 + input.below(static_cast<unsigned>(end_));
        front.bits = front.type == ASK_RESULT || front.type == ASK_HAVE ? kAll : 1 + input.below(kAll);
        front.shape = shapes_[std::min<std::uint64_t>(front.seq, shapes_.size() - 1)];
        front.level =
            front.type == ASK_VALUE && std::popcount(front.bits) > 1 ? ASK_LEVEL_PARTIAL : ASK_LEVEL_MEMBER;
        front.flags = static_cast<std::uint8_t>(input.below(32) & ASK_F_OF_VALUE);
        if (front.type == ASK_NEED || front.type == ASK_HELD) {
            front.blocks = 0;
            front.flags &= ASK_F_ECE;
        } else if (front.type == ASK_RESULT) {
            front.flags &= ASK_F_FOLDED;
        }
        if (input.below(8) == 0) {
            change(input, front);
        }
        return front;
    }

    static void change(Input& input, Front& front) {
        const auto small = input.take<std::uint8_t>();
        switch (input.below(8)) {
            case 0:
                front.shape = Shape(front.shape.word() ^ std::uint32_t{small} << (small & 31U));
                break;
            case 1:
                front.blocks = std::min<std::uint8_t>(small, ASK_VALUES_MAX_BLOCKS);
                break;
            case 2:
                front.op = small;
                break;
            case 3:
                front.stream = small;
                break;
            case 4:
                front.level = small;
                break;
            case 5:
                front.flags = small;
                break;
            case 6:
                front.seq = std::uint64_t{small} << (small & 63U);
                break;
            default:
                front.bits = small;
                break;
        }
    }

    // By somebody who has the key, or, damaged, by somebody who has not.
    void hostile(Input& input, bool sealed) {
        const Front front = draw_front(input);
        const std::uint32_t member = std::popcount(front.bits) == 1 && (front.bits & kAll) != 0
                                         ? static_cast<std::uint32_t>(std::countr_zero(front.bits))
                                         : input.below(kMembers);
        const bool asks = front.type == ASK_NEED || front.type == ASK_HELD;
        Sent sent = seal(front, asks && input.flag() ? kOwn : member);
        const Bytes whole = sent.payload;
        if (!sealed) {
            damage(input, sent);
        }
        Refusal why{};
        const auto packet = wire_.open(sent.payload, sent.ports, why);
        require(packet.has_value() == (why == Refusal::kNone), "a refusal has a reason");
        require(sealed || !packet || sent.payload == whole, "what is not proved is refused");
        if (packet) {
            note(packet->front);
            arrive(sent);
        }
    }

    static void damage(Input& input, Sent& sent) {
        for (unsigned left = 1 + input.below(3); left > 0; --left) {
            sent.payload[input.take<std::uint16_t>() % sent.payload.size()] ^=
                std::byte{input.take<std::uint8_t>()};
        }
        if (input.below(4) == 0) {
            sent.payload.resize(input.take<std::uint16_t>() % (kRoom + 64));
        }
    }

    // Who has the key may say that all are far ahead, and that a value was out of range.
    void note(const Front& front) {
        const bool up = front.type != ASK_NEED && front.type != ASK_HELD;
        spoiled_ = spoiled_ || (up && front.seq >= whole_ + 2 * std::uint64_t{kWindow});
        ranged_ = ranged_ || (front.flags & ASK_F_RANGE) != 0;
    }

    void complete() {
        while (const auto done = member_.next_completion()) {
            require(done->number == ++completed_, "operations are complete in their order");
            const Run& run = runs_[completed_ - 1];
            require(!done->error || ranged_, "an operation fails only if a value was out of range");
            require(done->error || run.out == run.expected, "a result is the sum");
            whole_ += run.operation.count / kWords;
        }
    }

    Wire wire_;
    Member member_;
    Collector collector_;
    Nanos now_ = kSecond;
    std::deque<Run> runs_;
    std::vector<Shape> shapes_{Shape{}};  // by seq
    Shape shape_;
    std::uint64_t end_ = 1;      // behind the last seq of all operations
    std::uint64_t whole_ = 1;    // behind the last of those that are complete
    std::uint64_t reached_ = 0;  // the last seq that the member has sent
    std::uint64_t completed_ = 0;
    std::deque<Sent> to_collector_;
    std::deque<Sent> to_member_;
    bool spoiled_ = false;
    bool ranged_ = false;
};

}  // namespace
}  // namespace ask::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace ask::fuzz;
    Input input(data, size);
    World world(input);
    for (std::size_t i = 0; i < kMostSteps && !input.empty(); ++i) {
        world.step(input);
    }
    world.end();
    return 0;
}
