// SPDX-License-Identifier: Apache-2.0
//
// Senders, the reference switch and a receiver joined by links that lose, double, delay and
// damage packets: whatever happens, the answer is that of a plain map.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/engine/receiver.h"
#include "lib/tuples/fetch_codec.h"
#include "lib/tuples/result_table.h"
#include "lib/tuples/table_sink.h"
#include "tests/support/combined.h"
#include "tests/support/lossy_network.h"
#include "tests/support/reference_switch.h"
#include "tests/support/tuple_channel.h"

namespace ask::test {
namespace {

using Tuples = std::vector<std::pair<std::string, std::int64_t>>;
using Answer = std::map<std::string, std::int64_t>;

constexpr Mark kSwitchMark{.switch_id = 7, .incarnation = 0xfeed};

struct Setup {
    std::uint64_t seed = 1;
    Faults faults;
    Geometry geometry;
    Op op = Op::kSum;
    bool with_switch = true;
    std::uint32_t aggregators = 64;
    ask_policy policy = ASK_POLICY_FIRST_COME;
    bool merge = true;
    std::uint32_t hold = 256;
    std::size_t back_keys = 0;  // that a back level has room for; 0: none, and no VAR
    std::uint32_t tasks = 1;    // one after another on the same channels
    std::vector<Tuples> streams;
};

Answer reference(const Setup& setup) {
    std::map<std::string, Wide> sums;
    for (const Tuples& stream : setup.streams) {
        for (const auto& [key, value] : stream) {
            const auto [at, fresh] = sums.try_emplace(key, value);
            if (!fresh) {
                at->second = apply(setup.op, at->second, value);
            }
        }
    }
    Answer answer;
    for (const auto& [key, value] : sums) {
        answer[key] = static_cast<std::int64_t>(value);
    }
    return answer;
}

// One task after another through all parts; every wait is a step of the scripted clock.
class Run {
 public:
    explicit Run(const Setup& setup)
        : setup_(setup),
          up_(setup.seed * 4 + 1, setup.faults),
          down_(setup.seed * 4 + 2, setup.faults),
          acks_up_(setup.seed * 4 + 3, setup.faults),
          acks_down_(setup.seed * 4 + 4, setup.faults),
          switch_(kSwitchMark) {
        for (std::size_t i = 0; i < setup.streams.size(); ++i) {
            const ChannelId id{.host = 0xc6120001U + static_cast<std::uint32_t>(i), .port = 49152};
            senders_.emplace_back(id, 100 + static_cast<std::uint32_t>(i), config());
        }
    }

    Answer task(std::uint64_t instance) {
        auto table = ResultTable::create(keep_memory(), setup_.op);
        REQUIRE(table.ok());
        std::vector<std::size_t> offered(senders_.size(), 0);
        std::vector<Tuples> streams = setup_.streams;
        if (setup_.merge) {
            for (Tuples& stream : streams) {
                stream = combined(stream, setup_.op, setup_.hold);
            }
        }
        for (std::size_t i = 0; i < senders_.size(); ++i) {
            join(i, instance, *table);
        }
        std::size_t fins = 0;
        while (!all_acknowledged()) {
            for (std::size_t i = 0; i < senders_.size(); ++i) {
                offer(senders_[i], streams[i], offered[i]);
                send_due(senders_[i]);
            }
            REQUIRE(step(fins));
        }
        CHECK(fins == senders_.size());
        for (test::TupleChannel& sender : senders_) {
            check_stats(sender.end());
        }
        if (setup_.with_switch) {
            merge_fetched(*table, instance);
        }
        receiver_.end_task(instance, false);
        return answer_of(*table);
    }

    [[nodiscard]] const Receiver& receiver() const { return receiver_; }
    [[nodiscard]] const ReferenceSwitch& reference_switch() const { return switch_; }

 private:
    // Keeps the blocks that the table hands over, to read them afterwards.
    class Kept final : public TableMemory {
     public:
        explicit Kept(Run& run) : run_(run), heap_(make_heap_memory()) {}
        HashSeed draw_seed() override { return heap_->draw_seed(); }
        Result<std::span<std::byte>> allocate_slots(std::size_t bytes) override {
            auto block = heap_->allocate_slots(bytes);
            run_.slots_ = block.ok() ? *block : std::span<std::byte>{};
            return block;
        }
        void release_old_slots() override { heap_->release_old_slots(); }
        Result<std::span<std::byte>> grow_keys(std::size_t bytes) override {
            auto block = heap_->grow_keys(bytes);
            run_.keys_ = block.ok() ? *block : std::span<std::byte>{};
            return block;
        }

     private:
        Run& run_;
        std::unique_ptr<TableMemory> heap_;
    };

    std::unique_ptr<TableMemory> keep_memory() {
        slots_ = {};
        keys_ = {};
        return std::make_unique<Kept>(*this);
    }

    [[nodiscard]] SenderConfig config() const {
        SenderConfig config;
        config.hold = setup_.hold;
        config.rto_initial = 2 * kMillisecond;
        config.rto_floor = 200 * kMicrosecond;
        config.rto_ceiling = 20 * kMillisecond;
        return config;
    }

    void join(std::size_t i, std::uint64_t instance, ResultTable& table) {
        test::TupleChannel& sender = senders_[i];
        FlowParams params;
        params.instance = instance;
        params.channel = sender.id();
        params.incarnation = sender.incarnation();
        params.secret = {setup_.seed, instance * 1000 + i};
        params.op = setup_.op;
        params.geometry = setup_.geometry;
        params.first_seq = sender.next_seq();
        params.mark = setup_.with_switch ? kSwitchMark : Mark{};
        params.whole_keys = setup_.with_switch && setup_.back_keys > 0;
        TableSink& sink = sinks_.emplace_back(setup_.geometry, setup_.op, table);
        REQUIRE(receiver_.join(params, &sink).ok());
        if (setup_.with_switch) {
            switch_.add_flow(params, setup_.aggregators, setup_.policy, setup_.back_keys);
        }
        REQUIRE(sender.begin(params, setup_.hold, now_).ok());
    }

    static void offer(test::TupleChannel& sender, const Tuples& stream, std::size_t& offered) {
        while (offered < stream.size() && sender.has_room()) {
            sender.offer(stream[offered].first, stream[offered].second);
            ++offered;
        }
        if (offered == stream.size()) {
            sender.finish();
        }
    }

    void send_due(test::TupleChannel& sender) {
        std::vector<std::byte> buffer(config().payload_limit);
        while (const std::size_t bytes = sender.next_packet(now_, buffer)) {
            up_.send(now_, {.payload = {buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(bytes)},
                            .ports = sender.ports()});
        }
    }

    [[nodiscard]] bool all_acknowledged() const {
        return std::all_of(senders_.begin(), senders_.end(),
                           [](const test::TupleChannel& sender) { return sender.fin_acked(); });
    }

    // Moves the clock to the next event and handles it. False: nothing could ever happen.
    bool step(std::size_t& fins) {
        Nanos next = std::min(
            {up_.next_arrival(), down_.next_arrival(), acks_up_.next_arrival(), acks_down_.next_arrival()});
        for (const test::TupleChannel& sender : senders_) {
            next = std::min(next, sender.deadline());
        }
        if (next == kNever || now_ > 1000 * kSecond) {
            return false;
        }
        now_ = std::max(now_, next);
        while (auto packet = up_.receive(now_)) {
            at_switch(std::move(*packet));
        }
        while (auto packet = down_.receive(now_)) {
            fins += at_receiver(*packet) ? 1U : 0U;
        }
        while (auto packet = acks_up_.receive(now_)) {
            acks_down_.send(now_, std::move(*packet));
        }
        while (auto packet = acks_down_.receive(now_)) {
            for (test::TupleChannel& sender : senders_) {
                sender.on_packet(now_, packet->payload, packet->ports);
            }
        }
        return true;
    }

    void at_switch(LossyLink::Packet packet) {
        if (!setup_.with_switch) {
            down_.send(now_, std::move(packet));
            return;
        }
        auto out = switch_.on_packet(packet.payload, packet.ports);
        if (out.way == ReferenceSwitch::Way::kToReceiver) {
            down_.send(now_, {.payload = std::move(out.payload), .ports = out.ports});
        } else if (out.way == ReferenceSwitch::Way::kToSender) {
            acks_down_.send(now_, {.payload = std::move(out.payload), .ports = out.ports});
        }
    }

    bool at_receiver(const LossyLink::Packet& packet) {
        std::vector<std::byte> ack(sizeof(ask_hdr));
        const RxVerdict verdict = receiver_.on_packet(packet.payload, packet.ports, false, ack);
        if (verdict.ack_bytes > 0) {
            acks_up_.send(now_, {.payload = std::move(ack),
                                 .ports = {.source = packet.ports.dest, .dest = packet.ports.source}});
        }
        return verdict.fin;
    }

    void merge_fetched(ResultTable& table, std::uint64_t instance) {
        REQUIRE(add_entries(table, switch_.fetch(instance)).ok());
    }

    Answer answer_of(ResultTable& table) {
        REQUIRE(table.finish().ok());
        const auto view = TableView::open(slots_, keys_);
        REQUIRE(view.ok());
        Answer answer;
        const auto read = view->each([&](std::string_view key, std::int64_t value) {
            CHECK(answer.emplace(std::string(key), value).second);
        });
        CHECK(read.ok());
        CHECK(answer.size() == view->size());
        return answer;
    }

    void check_stats(const SenderStats& stats) const {
        CHECK(stats.packer.tuples_in ==
              stats.packer.slots_filled + stats.packer.tuples_long + stats.packer.tuples_var);
        CHECK(stats.packets_sent == stats.packets_data + stats.packets_long + stats.packets_var + 1);
        CHECK((stats.packets_var > 0) == (setup_.with_switch && setup_.back_keys > 0));
        CHECK(stats.packets_sent == stats.packets_acked_by_switch + stats.packets_acked_by_receiver);
    }

    Setup setup_;
    Nanos now_ = 0;
    std::deque<test::TupleChannel> senders_;
    LossyLink up_;
    LossyLink down_;
    LossyLink acks_up_;
    LossyLink acks_down_;
    ReferenceSwitch switch_;
    Receiver receiver_;
    std::deque<TableSink> sinks_;
    std::span<std::byte> slots_;
    std::span<std::byte> keys_;
};

// A key of any form: short, medium, LONG, with zero bytes, empty.
std::string random_key(std::mt19937_64& random, std::uint32_t distinct) {
    constexpr std::size_t kLengths[] = {0, 1, 3, 4, 5, 8, 9, 16, 17, 60};
    std::mt19937_64 key_random(random() % distinct);
    std::string key(kLengths[key_random() % std::size(kLengths)], '\0');
    for (char& c : key) {
        // A zero byte now and then, anywhere.
        c = key_random() % 24 == 0 ? '\0' : static_cast<char>('a' + key_random() % 26);
    }
    return key;
}

Tuples random_stream(std::uint64_t seed, std::size_t count, std::uint32_t distinct) {
    std::mt19937_64 random(seed);
    Tuples stream;
    for (std::size_t i = 0; i < count; ++i) {
        std::int64_t value = static_cast<std::int64_t>(random() % 2001) - 1000;
        if (random() % 50 == 0) {
            value = random() % 2 == 0 ? 2147483647 : -2147483648LL;
        }
        if (random() % 100 == 0) {
            value = static_cast<std::int64_t>(random()) / 4096;
        }
        stream.emplace_back(random_key(random, distinct), value);
    }
    return stream;
}

constexpr Faults kCalm{};
constexpr Faults kRough{.loss = 0.05,
                        .duplicate = 0.05,
                        .damage = 0.02,
                        .least_delay = 5 * kMicrosecond,
                        .most_delay = 400 * kMicrosecond};
constexpr Faults kAwful{.loss = 0.3,
                        .duplicate = 0.3,
                        .damage = 0.05,
                        .least_delay = 1 * kMicrosecond,
                        .most_delay = 5 * kMillisecond};

void check_exact(const Setup& setup) {
    Run run(setup);
    const Answer expected = reference(setup);
    for (std::uint32_t task = 1; task <= setup.tasks; ++task) {
        CAPTURE(setup.seed);
        CAPTURE(task);
        CHECK(run.task(task) == expected);
    }
    CHECK((run.reference_switch().tuples_aggregated() > 0) == setup.with_switch);
    CHECK((run.reference_switch().tuples_whole() > 0) == (setup.back_keys > 0));
    CHECK(run.receiver().counter(ReceiverCounter::k_bad_mark) == 0);
    CHECK(run.receiver().counter(ReceiverCounter::k_bad_record) == 0);
    CHECK(run.receiver().counter(ReceiverCounter::k_bad_seq) == 0);
}

TEST_CASE("the answer is exact under loss, duplication, disorder and damage") {
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
        Setup setup;
        setup.seed = seed;
        setup.faults = seed % 3 == 0 ? kAwful : (seed % 3 == 1 ? kRough : kCalm);
        setup.with_switch = seed % 4 != 0;
        setup.merge = seed % 2 == 0;
        setup.hold = seed % 5 == 0 ? 8 : 256;
        setup.tasks = 2;
        for (std::uint64_t i = 0; i < 1 + seed % 3; ++i) {
            setup.streams.push_back(random_stream(seed * 100 + i, 4000, 700));
        }
        check_exact(setup);
    }
}

// Sums that come near 2^63, and leave 63 bits on their way.
Tuples with_wide_values(Tuples stream, Op op, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const int shift = op == Op::kSum ? 14 : 0;
    for (auto& [key, value] : stream) {
        if (random() % 3 == 0) {
            value = static_cast<std::int64_t>(random()) >> shift;
        }
    }
    if (op == Op::kSum) {
        stream.front().second = std::int64_t{1} << 62;
        stream.back() = {stream.front().first, (std::int64_t{1} << 61) + (std::int64_t{1} << 60)};
    }
    return stream;
}

TEST_CASE("whole keys that the switch has taken, in part or all, arrive exactly once") {
    std::uint64_t seed = 200;
    for (const char* text : {"16+8x2*4", "1*1", "0+16x4*2"}) {
        for (const Op op : {Op::kSum, Op::kMin, Op::kMax}) {
            for (const std::size_t back_keys : {std::size_t{1}, std::size_t{100}, std::size_t{10'000}}) {
                Setup setup;
                setup.seed = ++seed;
                setup.faults = seed % 2 == 0 ? kAwful : kRough;
                setup.geometry = parse_geometry(text, 1472).value();
                setup.op = op;
                setup.hold = seed % 3 == 0 ? 4 : 256;
                setup.merge = seed % 2 == 0;
                setup.back_keys = back_keys;
                setup.tasks = 2;
                setup.streams = {with_wide_values(random_stream(seed, 1500, 300), op, seed),
                                 random_stream(seed + 1000, 1500, 300)};
                check_exact(setup);
            }
        }
    }
}

TEST_CASE("every operator and geometry gives the exact answer") {
    std::uint64_t seed = 50;
    for (const char* text : {"16+8x2*4", "32*4", "0+16x4*2", "0+32x1*3", "1", "4+3x3*8"}) {
        for (const Op op : {Op::kSum, Op::kMin, Op::kMax}) {
            const auto geometry = parse_geometry(text, 1472);
            REQUIRE(geometry.ok());
            Setup setup;
            setup.seed = ++seed;
            setup.faults = kRough;
            setup.op = op;
            setup.geometry = *geometry;
            setup.streams = {random_stream(seed, 2000, 300), random_stream(seed + 1000, 2000, 300)};
            check_exact(setup);
        }
    }
}

TEST_CASE("tuples that take each other's places arrive exactly once, whoever's packet carries them") {
    std::uint64_t seed = 70;
    for (const char* text : {"16+8x2*4", "32*4", "0+16x4*2", "4+3x3*8"}) {
        for (const Op op : {Op::kSum, Op::kMin, Op::kMax}) {
            for (const Faults& faults : {kRough, kAwful}) {
                const auto geometry = parse_geometry(text, 1472);
                REQUIRE(geometry.ok());
                Setup setup;
                setup.seed = ++seed;
                setup.faults = faults;
                setup.op = op;
                setup.geometry = *geometry;
                setup.aggregators = 1;
                setup.policy = ASK_POLICY_REPLACE;
                setup.merge = false;
                setup.tasks = 2;
                setup.streams = {random_stream(seed, 2000, 300), random_stream(seed + 1000, 2000, 300),
                                 random_stream(seed + 2000, 2000, 300)};
                Run run(setup);
                const Answer expected = reference(setup);
                for (std::uint32_t task = 1; task <= setup.tasks; ++task) {
                    CAPTURE(setup.seed);
                    CHECK(run.task(task) == expected);
                }
                CHECK(run.reference_switch().tuples_evicted() > 20);
            }
        }
    }
}

TEST_CASE("keys longer than a packet arrive whole") {
    Setup setup;
    setup.seed = 90;
    setup.faults = kRough;
    setup.hold = 64;
    Tuples stream;
    for (int i = 0; i < 40; ++i) {
        stream.emplace_back(std::string(i % 2 == 0 ? 65535 : 4096, static_cast<char>('a' + i % 5)), i);
        stream.emplace_back("and", 1);
    }
    setup.streams = {stream, stream};
    check_exact(setup);
}

}  // namespace
}  // namespace ask::test
