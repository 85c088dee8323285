// SPDX-License-Identifier: Apache-2.0
#include "lib/engine/receiver.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/bytes.h"
#include "lib/tuples/slot_codec.h"
#include "lib/tuples/table_sink.h"
#include "lib/tuples/whole_keys.h"

namespace ask {
namespace {

using Counter = ReceiverCounter;
constexpr ChannelId kChannel{.host = 0xc6120001, .port = 49200};
constexpr Ports kPorts{.source = kChannel.port, .dest = ASK_UDP_PORT};
constexpr Mark kMark{.switch_id = 3, .incarnation = 33};

FlowParams some_params(std::uint64_t instance = 5) {
    FlowParams params;
    params.instance = instance;
    params.channel = kChannel;
    params.incarnation = 77;
    params.secret = {instance, 12};
    params.mark = kMark;
    params.geometry = {.short_slots = 2, .groups = 1, .m = 2, .rows = 2};
    params.first_seq = 10;
    return params;
}

// Memory that can be told to have no more.
class StubbornMemory final : public TableMemory {
 public:
    HashSeed draw_seed() override { return heap->draw_seed(); }
    Result<std::span<std::byte>> allocate_slots(std::size_t bytes) override {
        return refuse ? Result<std::span<std::byte>>(Error(Errc::kLimit, "no")) : heap->allocate_slots(bytes);
    }
    void release_old_slots() override { heap->release_old_slots(); }
    Result<std::span<std::byte>> grow_keys(std::size_t bytes) override {
        return refuse ? Result<std::span<std::byte>>(Error(Errc::kLimit, "no")) : heap->grow_keys(bytes);
    }
    std::unique_ptr<TableMemory> heap = make_heap_memory();
    bool refuse = false;
};

void put(std::byte* slot, unsigned aas, std::string_view key, std::int32_t value) {
    std::array<char, kMaxSlotKey> padded{};
    std::copy(key.begin(), key.end(), padded.begin());
    encode_slot(slot, aas, padded.data(), key.size(), value);
}

struct Fixture {
    explicit Fixture(const FlowParams& p = some_params(), const Receiver::Limits& limits = {})
        : params(p), receiver(limits) {
        auto memory = std::make_unique<StubbornMemory>();
        stubborn = memory.get();
        table.emplace(ResultTable::create(std::move(memory), params.op).value());
        sink.emplace(params.geometry, params.op, *table);
        REQUIRE(receiver.join(params, &*sink).ok());
    }

    [[nodiscard]] Header header(std::uint8_t type, std::uint64_t seq) const {
        Header h;
        h.type = type;
        h.format = format_of(params.geometry, params.op);
        h.instance = params.instance;
        h.channel = params.channel;
        h.incarnation = params.incarnation;
        h.mark = ask_type_aggregates(type) != 0 ? params.mark : Mark{};
        h.seq = seq;
        return h;
    }
    [[nodiscard]] std::vector<std::byte> seal(Header h, std::span<const std::uint32_t> bitmaps,
                                              std::span<const std::byte> body) const {
        std::vector<std::byte> bytes(sizeof(ask_hdr) + std::size_t{4} * h.rows + body.size());
        const std::size_t head = write_header(bytes, h, bitmaps);
        std::copy(body.begin(), body.end(), bytes.begin() + static_cast<std::ptrdiff_t>(head));
        CheckKey(params.secret).seal(bytes, kPorts);
        return bytes;
    }
    // One row: a short key in slot 0 and a medium key in slot 2.
    [[nodiscard]] std::vector<std::byte> data(std::uint64_t seq, std::string_view a, std::int32_t x,
                                              std::string_view b, std::int32_t y) const {
        std::vector<std::byte> row(params.geometry.row_bytes());
        put(row.data(), 1, a, x);
        put(row.data() + 16, 2, b, y);
        Header h = header(ASK_DATA, seq);
        h.rows = 1;
        const std::uint32_t bitmap = 0b101;
        return seal(h, {&bitmap, 1}, row);
    }
    [[nodiscard]] std::vector<std::byte> fin(std::uint64_t seq, std::uint64_t items = 0) const {
        std::vector<std::byte> body(sizeof(ask_fin));
        store_be(body.data(), items);
        return seal(header(ASK_FIN, seq), {}, body);
    }
    [[nodiscard]] std::vector<std::byte> records(std::uint64_t seq,
                                                 const std::map<std::string, std::int64_t>& tuples) const {
        std::vector<std::byte> body(8);
        store_be(body.data(), static_cast<std::uint16_t>(tuples.size()));
        for (const auto& [key, value] : tuples) {
            const std::size_t at = body.size();
            body.resize(at + 10 + key.size());
            store_be(body.data() + at, static_cast<std::uint64_t>(value));
            store_be(body.data() + at + 8, static_cast<std::uint16_t>(key.size()));
            std::memcpy(body.data() + at + 10, key.data(), key.size());
        }
        body.resize((body.size() + 7) / 8 * 8);
        return seal(header(ASK_LONG, seq), {}, body);
    }
    using Whole = std::vector<std::pair<std::string, std::int64_t>>;
    // VAR with these records, the shortest keys first, of which those with a bit in `left` are there.
    [[nodiscard]] std::vector<std::byte> whole(std::uint64_t seq, const Whole& tuples,
                                               std::uint32_t left = ~std::uint32_t{0}) const {
        ask_var_hdr counts{};
        std::vector<std::byte> body(sizeof(counts));
        for (const auto& [key, value] : tuples) {
            const std::uint32_t group = ask_var_group(static_cast<std::uint32_t>(key.size()));
            const std::size_t at = body.size();
            body.resize(at + ask_var_record_bytes(group));
            write_record(body.data() + at, key, value);
            ++counts.count[group];
        }
        std::memcpy(body.data(), &counts, sizeof(counts));
        Header h = header(ASK_VAR, seq);
        h.rows = 1;
        left &= ask_var_full_row(ask_var_records(&counts), 0);
        return seal(h, {&left, 1}, body);
    }
    [[nodiscard]] bool has(std::string_view key) {
        table->settle();
        return table->contains(keyed_hash(table->seed(), key), key);
    }
    struct PieceOf {
        std::uint16_t piece;
        std::uint16_t pieces;
        std::uint16_t key_len;
        std::uint16_t offset;
        std::uint16_t size;
    };
    [[nodiscard]] std::vector<std::byte> piece(std::uint64_t seq, const PieceOf& p, const std::string& key,
                                               std::int64_t value = 9) const {
        std::vector<std::byte> body((22 + std::size_t{p.size} + 7) / 8 * 8);
        store_be(body.data(), std::uint16_t{1});
        store_be(body.data() + 2, p.piece);
        store_be(body.data() + 4, p.pieces);
        store_be(body.data() + 8, static_cast<std::uint64_t>(value));
        store_be(body.data() + 16, p.key_len);
        store_be(body.data() + 18, p.offset);
        store_be(body.data() + 20, p.size);
        std::memcpy(body.data() + 22, key.data() + p.offset, p.size);
        return seal(header(ASK_LONG, seq), {}, body);
    }

    // What becomes of a packet; checks that exactly one counter moved, and the ACK if any.
    Counter give(const std::vector<std::byte>& packet, Ports ports = kPorts, bool ecn = false) {
        const auto before = counters();
        std::vector<std::byte> ack(sizeof(ask_hdr));
        verdict = receiver.on_packet(packet, ports, ecn, ack);
        auto expected = before;
        ++expected[static_cast<std::size_t>(verdict.counter)];
        if (counters() != expected) {
            FAIL("not exactly one counter moved");
        }
        if (verdict.ack_bytes > 0) {
            const auto view = parse_packet(std::span(ack).first(verdict.ack_bytes));
            REQUIRE(view);
            CHECK(view->header.type == ASK_ACK);
            CHECK(view->header.mark == Mark{});
            CHECK((view->header.flags == ASK_F_ECE) == ecn);
            CHECK(view->header.seq == parse_packet(packet)->header.seq);
            CHECK(CheckKey(params.secret).verify(ack, {.source = ports.dest, .dest = ports.source}));
        }
        return verdict.counter;
    }
    [[nodiscard]] std::vector<std::uint64_t> counters() const {
        std::vector<std::uint64_t> all;
        for (std::size_t i = 0; i < static_cast<std::size_t>(Counter::kCount); ++i) {
            all.push_back(receiver.counter(static_cast<Counter>(i)));
        }
        return all;
    }
    [[nodiscard]] FlowRxStats stats() const { return receiver.flow_stats(params.instance, params.channel); }
    [[nodiscard]] bool acked() const { return verdict.ack_bytes > 0; }

    FlowParams params;
    StubbornMemory* stubborn = nullptr;
    std::optional<ResultTable> table;
    std::optional<TableSink> sink;
    Receiver receiver;
    RxVerdict verdict;
};

TEST_CASE("a packet counts once and is acknowledged each time") {
    Fixture f;
    const auto packet = f.data(10, "a", 1, "medium", -2);
    CHECK(f.give(packet) == Counter::k_accepted_data);
    CHECK(f.acked());
    CHECK(f.verdict.instance == 5);
    CHECK(f.give(packet) == Counter::k_duplicate);
    CHECK(f.acked());
    CHECK(f.give(f.data(11, "a", 1, "b", 1), kPorts, true) == Counter::k_accepted_data);
    CHECK(f.table->size() == 3);
    CHECK(f.stats().items_data == 4);
    CHECK(f.stats().packets_accepted == 2);
    CHECK(f.stats().packets_duplicate == 1);
}

TEST_CASE("gaps are normal, and what the window has left behind is stale") {
    Fixture f;
    CHECK(f.give(f.data(10, "a", 1, "b", 1)) == Counter::k_accepted_data);
    CHECK(f.give(f.data(1'000'010, "a", 1, "b", 1)) == Counter::k_accepted_data);
    CHECK(f.give(f.data(1'000'000, "a", 1, "b", 1)) == Counter::k_accepted_data);
    // Same places, a window or more earlier.
    CHECK(f.give(f.data(1'000'010 - ASK_WINDOW, "a", 1, "b", 1)) == Counter::k_stale);
    CHECK_FALSE(f.acked());
    CHECK(f.stats().items_data == 6);
}

TEST_CASE("rows that the switch cut are not looked for") {
    Fixture f;
    Header h = f.header(ASK_DATA, 10);
    h.rows = 2;
    std::vector<std::byte> row(f.params.geometry.row_bytes());
    put(row.data() + 8, 1, "x", 5);
    const std::uint32_t bitmaps[2] = {0b010, 0};
    CHECK(f.give(f.seal(h, bitmaps, row)) == Counter::k_accepted_data);
    CHECK(f.table->size() == 1);
}

TEST_CASE("every refusal has its counter, none is acknowledged, nothing changes") {
    Fixture f;
    const auto refused = [&](const std::vector<std::byte>& packet, Counter counter, Ports ports = kPorts) {
        CHECK(f.give(packet, ports) == counter);
        CHECK_FALSE(f.acked());
        CHECK(f.table->size() == 0);
    };
    const auto changed = [&](auto&& change) {
        Header h = f.header(ASK_DATA, 10);
        h.rows = 1;
        change(h);
        std::vector<std::byte> rows(h.rows * geometry_of(h.format).row_bytes());
        std::vector<std::uint32_t> bitmaps(h.rows, 1);
        for (std::size_t row = 0; row < h.rows; ++row) {
            put(rows.data() + row * geometry_of(h.format).row_bytes(), 1, "k", 1);
        }
        return f.seal(h, bitmaps, rows);
    };
    refused({}, Counter::k_malformed);
    refused(f.seal(f.header(ASK_ACK, 10), {}, {}), Counter::k_malformed);
    refused(changed([](Header& h) { h.instance = 6; }), Counter::k_unknown_flow);
    refused(changed([](Header& h) { h.channel.port += 1; }), Counter::k_unknown_flow);
    refused(changed([](Header& h) { h.incarnation = 78; }), Counter::k_unknown_flow);
    auto flipped = changed([](Header&) {});
    flipped.back() ^= std::byte{1};
    refused(flipped, Counter::k_bad_check);
    refused(changed([](Header&) {}), Counter::k_bad_check, {.source = 1, .dest = ASK_UDP_PORT});
    auto other_port = changed([](Header&) {});
    const Ports wrong{.source = kChannel.port + 1, .dest = ASK_UDP_PORT};
    CheckKey(f.params.secret).seal(other_port, wrong);
    refused(other_port, Counter::k_bad_ports, wrong);
    refused(changed([](Header& h) { h.mark = {}; }), Counter::k_bad_mark);
    refused(changed([](Header& h) { h.mark.incarnation += 1; }), Counter::k_bad_mark);
    CHECK(f.stats().packets_bad_mark == 2);
    CHECK(f.stats().packets_other_switch == 0);
    Header marked = f.header(ASK_FIN, 10);
    marked.mark = kMark;
    refused(f.seal(marked, {}, std::array<std::byte, sizeof(ask_fin)>{}), Counter::k_bad_mark);
    refused(changed([](Header& h) { h.format.op = ASK_OP_MIN; }), Counter::k_bad_geometry);
    refused(changed([](Header& h) { h.format.short_slots = 3; }), Counter::k_bad_geometry);
    refused(changed([](Header& h) { h.rows = 3; }), Counter::k_bad_geometry);
    refused(changed([](Header& h) { h.seq = 9; }), Counter::k_bad_seq);
    refused(changed([](Header& h) { h.seq = 0; }), Counter::k_bad_seq);
    CHECK(f.give(changed([](Header&) {})) == Counter::k_accepted_data);
}

TEST_CASE("a packet that another of the task's switches marked is refused by a name of its own") {
    constexpr Mark kOther{.switch_id = 4, .incarnation = 44};
    constexpr Mark kThird{.switch_id = 5, .incarnation = 55};
    FlowParams params = some_params();
    params.other_marks.add(kOther);
    params.other_marks.add(kThird);
    Fixture f(params);
    const auto marked = [&](Mark mark, std::uint8_t type = ASK_DATA) {
        Header h = f.header(type, 10);
        h.mark = mark;
        if (type != ASK_DATA) {
            return f.seal(h, {}, std::array<std::byte, sizeof(ask_fin)>{});
        }
        std::vector<std::byte> row(params.geometry.row_bytes());
        put(row.data(), 1, "good", 1);
        h.rows = 1;
        const std::uint32_t bitmap = 1;
        return f.seal(h, {&bitmap, 1}, row);
    };
    for (const Mark mark : {kOther, kThird}) {
        CHECK(f.give(marked(mark)) == Counter::k_other_switch);
        CHECK_FALSE(f.acked());
    }
    // Another life of the switch is none of the task's; and no switch marks a FIN.
    CHECK(f.give(marked({.switch_id = 4, .incarnation = 45})) == Counter::k_bad_mark);
    CHECK(f.give(marked({})) == Counter::k_bad_mark);
    CHECK(f.give(marked(kOther, ASK_FIN)) == Counter::k_bad_mark);
    CHECK(f.stats().packets_other_switch == 2);
    CHECK(f.stats().packets_bad_mark == 3);
    CHECK(f.receiver.counter(Counter::k_other_switch) == 2);
    CHECK(f.table->size() == 0);
    CHECK(f.give(f.data(10, "good", 1, "medium", 1)) == Counter::k_accepted_data);
}

TEST_CASE("a list of marks takes each once, none that is none, and as many as a task has switches") {
    MarkList marks;
    CHECK_FALSE(marks.has({}));
    CHECK(marks.add({}));
    CHECK_FALSE(marks.has({}));
    for (std::uint16_t id = 1; id <= kMaxOtherMarks; ++id) {
        CHECK(marks.add({.switch_id = id, .incarnation = 1}));
        CHECK(marks.add({.switch_id = id, .incarnation = 1}));
        CHECK(marks.has({.switch_id = id, .incarnation = 1}));
        CHECK_FALSE(marks.has({.switch_id = id, .incarnation = 2}));
    }
    CHECK_FALSE(marks.add({.switch_id = kMaxOtherMarks + 1, .incarnation = 1}));
    CHECK(marks.has({.switch_id = 1, .incarnation = 1}));
}

TEST_CASE("a slot that no sender writes spoils its whole packet") {
    Fixture f;
    auto packet = f.data(10, "good", 1, "medium", 1);
    packet[52 + 16 + 1] = std::byte{0};  // a gap in the medium key
    CheckKey(f.params.secret).seal(packet, kPorts);
    CHECK(f.give(packet) == Counter::k_bad_record);
    CHECK_FALSE(f.acked());
    CHECK(f.table->size() == 0);
    CHECK(f.give(f.data(10, "good", 1, "medium", 1)) == Counter::k_accepted_data);
}

FlowParams with_whole_keys() {
    FlowParams params = some_params();
    params.whole_keys = true;
    return params;
}

constexpr std::int64_t kMost63 = (std::int64_t{1} << 62) - 1;

TEST_CASE("of VAR what the switch left is taken, once") {
    Fixture f(with_whole_keys());
    const Fixture::Whole tuples{{"a", kMost63},
                                {"abcdefgh", -1},
                                {"nine bytes", 2},
                                {std::string(32, 'x'), 3},
                                {std::string(64, 'y'), -kMost63 - 1}};
    const auto packet = f.whole(10, tuples, 0b10110);
    CHECK(f.give(packet) == Counter::k_accepted_var);
    CHECK(f.acked());
    CHECK(f.verdict.items == 0);  // of DATA alone
    CHECK(f.give(packet) == Counter::k_duplicate);
    CHECK(f.acked());
    CHECK(f.table->size() == 3);
    CHECK_FALSE(f.has("a"));
    CHECK(f.has("abcdefgh"));
    CHECK(f.has("nine bytes"));
    CHECK_FALSE(f.has(std::string(32, 'x')));
    CHECK(f.has(std::string(64, 'y')));
    CHECK(f.give(f.whole(11, tuples)) == Counter::k_accepted_var);
    CHECK(f.table->size() == 5);
    CHECK(f.stats().items_var == 8);
    CHECK(f.stats().items() == 8);
    CHECK(f.stats().packets_accepted == 2);
}

TEST_CASE("VAR is refused where it was not agreed, and without the mark") {
    const Fixture::Whole tuples{{"a whole key", 1}};
    Fixture without;
    CHECK(without.give(without.whole(10, tuples)) == Counter::k_bad_type);
    CHECK_FALSE(without.acked());
    CHECK(without.table->size() == 0);
    FlowParams params = with_whole_keys();
    constexpr Mark kOther{.switch_id = 4, .incarnation = 44};
    params.other_marks.add(kOther);
    Fixture f(params);
    for (const Mark mark : {Mark{}, kOther}) {
        FlowParams elsewhere = params;
        elsewhere.mark = mark;
        const Fixture g(elsewhere);
        CHECK(f.give(g.whole(10, tuples)) ==
              (mark == kOther ? Counter::k_other_switch : Counter::k_bad_mark));
        CHECK_FALSE(f.acked());
    }
    CHECK(f.table->size() == 0);
    CHECK(f.give(f.whole(10, tuples)) == Counter::k_accepted_var);
    // Both ends agree on it.
    CHECK(f.receiver.join(some_params(), &*f.sink).error().code() == Errc::kExists);
}

TEST_CASE("a VAR record that no sender writes spoils its whole packet") {
    Fixture f(with_whole_keys());
    const auto good = f.whole(10, {{"short", 1}, {"nine bytes", 2}, {std::string(20, 'x'), 3}});
    constexpr std::size_t kBody = 48 + 4;
    const auto spoilt = [&](std::size_t offset, std::initializer_list<int> bytes) {
        auto packet = good;
        std::ranges::transform(bytes, packet.begin() + static_cast<std::ptrdiff_t>(kBody + offset),
                               [](int byte) { return static_cast<std::byte>(byte); });
        CheckKey(f.params.secret).seal(packet, kPorts);
        CHECK(f.give(packet) == Counter::k_bad_record);
        CHECK_FALSE(f.acked());
        CHECK(f.table->size() == 0);
    };
    spoilt(4, {1});  // reserved
    spoilt(7, {1});
    spoilt(8, {0x40});  // a value outside 63 bits
    spoilt(8, {0xbf});
    spoilt(8 + 8, {0});  // keys with a zero byte
    spoilt(8 + 8 + 2, {0});
    spoilt(8 + 8, {0, 0, 0, 0, 0, 0, 0, 1});  // a key of padding
    spoilt(8 + 8, {0, 0, 0, 0, 0, 0, 0, 0});
    spoilt(24 + 8 + 8, {0, 0});                    // padding that is no padding word
    spoilt(24 + 8 + 8, {0, 0, 0, 0, 0, 0, 0, 1});  // a key of another group
    spoilt(24 + 8 + 8 + 2, {0, 'x'});              // bytes behind the key
    spoilt(48 + 8 + 16 + 8, {0, 0, 0, 0, 0, 0, 0, 0});
    spoilt(48 + 8 + 16 + 8, {'x', 0, 0, 0, 0, 0, 0, 0});  // padding before it
    spoilt(48 + 8 + 16, {0, 0, 0, 0, 0, 0, 0, 1});        // a key of another group
    CHECK(f.give(good) == Counter::k_accepted_var);
    // What the switch has taken is its own affair.
    auto taken = f.whole(11, {{"short", 1}, {"nine bytes", 2}}, 0b10);
    taken[kBody + 8 + 8] = std::byte{0};
    CheckKey(f.params.secret).seal(taken, kPorts);
    CHECK(f.give(taken) == Counter::k_accepted_var);
}

TEST_CASE("LONG records carry any key and any int64") {
    Fixture f;
    const std::map<std::string, std::int64_t> tuples = {{"", std::numeric_limits<std::int64_t>::min()},
                                                        {std::string(1, '\0'), 1},
                                                        {std::string("a\0", 2), 2},
                                                        {"a", 3},
                                                        {std::string(2000, 'z'), -4}};
    const auto packet = f.records(10, tuples);
    CHECK(f.give(packet) == Counter::k_accepted_long);
    CHECK(f.give(packet) == Counter::k_duplicate);
    CHECK(f.table->size() == tuples.size());
    CHECK(f.stats().items_long == tuples.size());
}

TEST_CASE("LONG packets with one wrong byte in their structure change nothing") {
    Fixture f;
    const auto good = f.records(10, {{"key", 1}, {"other keys", 2}});
    const auto spoilt = [&](std::size_t offset, unsigned value) {
        auto packet = good;
        packet[48 + offset] = static_cast<std::byte>(value);
        CheckKey(f.params.secret).seal(packet, kPorts);
        CHECK(f.give(packet) == Counter::k_bad_record);
        CHECK_FALSE(f.acked());
        CHECK(f.table->size() == 0);
    };
    spoilt(1, 0);                     // no records
    spoilt(1, 1);                     // more bytes than records
    spoilt(1, 3);                     // more records than bytes
    spoilt(3, 1);                     // a piece number without pieces
    spoilt(7, 1);                     // reserved
    spoilt(16, 0xff);                 // a key past the end
    spoilt(good.size() - 48 - 1, 1);  // padding
    CHECK(f.give(good) == Counter::k_accepted_long);
}

TEST_CASE("pieces of a key arrive in any order and count as one tuple") {
    std::string key(65535, '\0');
    std::iota(key.begin(), key.end(), '\0');
    constexpr unsigned kUnit = 1400;
    constexpr unsigned kPieces = (65535 + kUnit - 1) / kUnit;
    std::vector<unsigned> order(kPieces);
    std::iota(order.begin(), order.end(), 0U);
    std::mt19937 random(3);
    std::shuffle(order.begin(), order.end(), random);
    Fixture f;
    for (const unsigned i : order) {
        CHECK(f.table->size() == 0);
        const auto size = static_cast<std::uint16_t>(std::min(kUnit, 65535 - i * kUnit));
        const auto packet = f.piece(20 + i,
                                    {.piece = static_cast<std::uint16_t>(i),
                                     .pieces = kPieces,
                                     .key_len = 65535,
                                     .offset = static_cast<std::uint16_t>(i * kUnit),
                                     .size = size},
                                    key);
        CHECK(f.give(packet) == Counter::k_accepted_long);
        CHECK(f.give(packet) == Counter::k_duplicate);
    }
    CHECK(f.table->size() == 1);
    CHECK(f.table->contains(0, "") == false);
    CHECK(f.stats().items_long == 1);
}

TEST_CASE("pieces that cannot belong to a key are refused") {
    const std::string key(100, 'k');
    const auto refused = [&](const Fixture::PieceOf& piece, std::uint64_t seq = 20) {
        Fixture f;
        CHECK(f.give(f.piece(seq, piece, key)) == Counter::k_bad_record);
        CHECK_FALSE(f.acked());
    };
    refused({.piece = 0, .pieces = 1, .key_len = 50, .offset = 0, .size = 50});
    refused({.piece = 2, .pieces = 2, .key_len = 100, .offset = 100, .size = 0});
    refused({.piece = 0, .pieces = 2, .key_len = 100, .offset = 1, .size = 50});
    refused({.piece = 0, .pieces = 2, .key_len = 100, .offset = 0, .size = 40});
    refused({.piece = 0, .pieces = 3, .key_len = 100, .offset = 0, .size = 50});
    refused({.piece = 1, .pieces = 2, .key_len = 100, .offset = 40, .size = 60});
    refused({.piece = 1, .pieces = 2, .key_len = 100, .offset = 50, .size = 49});
    refused({.piece = 2, .pieces = 3, .key_len = 100, .offset = 67, .size = 33});
    // Its first piece would have come before the task's first seq.
    refused({.piece = 1, .pieces = 2, .key_len = 100, .offset = 50, .size = 50}, 10);
    Fixture f;
    CHECK(f.give(f.piece(20, {.piece = 0, .pieces = 2, .key_len = 100, .offset = 0, .size = 50}, key)) ==
          Counter::k_accepted_long);
    CHECK(f.give(f.piece(21, {.piece = 1, .pieces = 2, .key_len = 99, .offset = 50, .size = 49}, key)) ==
          Counter::k_bad_record);
    CHECK(f.give(f.piece(21, {.piece = 1, .pieces = 2, .key_len = 100, .offset = 50, .size = 50}, key, 8)) ==
          Counter::k_bad_record);
    // A FIN while a piece is missing would lose its key.
    CHECK(f.give(f.fin(30)) == Counter::k_bad_record);
    CHECK(f.give(f.piece(21, {.piece = 1, .pieces = 2, .key_len = 100, .offset = 50, .size = 50}, key)) ==
          Counter::k_accepted_long);
    CHECK(f.give(f.fin(30)) == Counter::k_accepted_fin);
}

TEST_CASE("half-arrived keys are bounded") {
    Fixture f;
    const std::string key(65535, 'k');
    std::uint64_t accepted = 0;
    for (std::uint64_t i = 0; i < 200; ++i) {
        const auto counter = f.give(f.piece(
            20 + 100 * i, {.piece = 0, .pieces = 66, .key_len = 65535, .offset = 0, .size = 1000}, key));
        accepted += counter == Counter::k_accepted_long ? 1U : 0U;
    }
    CHECK(accepted == 15);
    CHECK(f.receiver.counter(Counter::k_bad_record) == 185);
}

TEST_CASE("a full table takes a packet whole or not at all") {
    Fixture f(with_whole_keys());
    // As many keys as the first block takes without growing, less one.
    for (int i = 0; i < 703; ++i) {
        REQUIRE(f.table->add("k" + std::to_string(i), 1).ok());
    }
    f.stubborn->refuse = true;
    const auto two_new = f.data(10, "new1", 1, "new key2", 1);
    CHECK(f.give(two_new) == Counter::k_table_full);
    CHECK_FALSE(f.acked());
    CHECK(f.table->size() == 703);
    CHECK(f.give(f.data(11, "k1", 1, "new key1", 1)) == Counter::k_accepted_data);
    CHECK(f.give(f.records(12, {{"k1", 1}, {"k2", 1}})) == Counter::k_accepted_long);
    CHECK(f.give(f.records(13, {{"k1", 1}, {"another", 1}})) == Counter::k_table_full);
    CHECK(f.give(f.whole(14, {{"k1", 1}, {"k2", 1}})) == Counter::k_accepted_var);
    CHECK(f.give(f.whole(15, {{"k1", 1}, {"a whole key", 1}})) == Counter::k_table_full);
    CHECK(f.table->size() == 704);
    const std::string key(100, 'p');
    CHECK(f.give(f.piece(20, {.piece = 0, .pieces = 2, .key_len = 100, .offset = 0, .size = 50}, key)) ==
          Counter::k_accepted_long);
    const auto last = f.piece(21, {.piece = 1, .pieces = 2, .key_len = 100, .offset = 50, .size = 50}, key);
    CHECK(f.give(last) == Counter::k_table_full);
    CHECK(f.table->size() == 704);
    f.stubborn->refuse = false;
    CHECK(f.give(two_new) == Counter::k_accepted_data);
    CHECK(f.give(last) == Counter::k_accepted_long);
    CHECK(f.table->size() == 707);
}

TEST_CASE("FIN closes the interval; what comes again is acknowledged and adds nothing") {
    Fixture f;
    CHECK(f.give(f.data(12, "a", 1, "b", 1)) == Counter::k_accepted_data);
    CHECK(f.give(f.fin(11)) == Counter::k_bad_seq);  // before a packet that was taken
    CHECK(f.give(f.fin(14, 0x0102030405060708)) == Counter::k_accepted_fin);
    CHECK(f.verdict.fin);
    CHECK(f.stats().fin);
    CHECK(f.stats().last_seq == 14);
    CHECK(f.stats().items_sent == 0x0102030405060708);
    CHECK(f.give(f.fin(14)) == Counter::k_duplicate);
    CHECK_FALSE(f.verdict.fin);
    CHECK(f.acked());
    CHECK(f.give(f.data(15, "a", 1, "b", 1)) == Counter::k_bad_seq);
    // Acknowledged by the switch, since the FIN left: it must not count again.
    CHECK(f.give(f.data(13, "a", 1, "b", 1)) == Counter::k_duplicate);
    CHECK(f.stats().items_data == 2);
    f.receiver.end_task(5, false);
    CHECK(f.give(f.fin(14)) == Counter::k_ended);
    CHECK(f.acked());
    CHECK(f.give(f.data(12, "a", 1, "b", 1)) == Counter::k_ended);
    CHECK(f.acked());
    CHECK(f.give(f.fin(15)) == Counter::k_bad_seq);
    f.receiver.end_task(5, true);
    CHECK(f.give(f.fin(14)) == Counter::k_unknown_flow);
    CHECK_FALSE(f.acked());
}

TEST_CASE("packets of a failed task, or of a flow without FIN, are not acknowledged any more") {
    for (const bool failed : {false, true}) {
        Fixture f;
        const auto packet = f.data(12, "a", 1, "b", 1);
        CHECK(f.give(packet) == Counter::k_accepted_data);
        f.receiver.end_task(5, failed);
        CHECK(f.give(packet) == Counter::k_unknown_flow);
        CHECK_FALSE(f.acked());
    }
}

TEST_CASE("joining again on the same terms is fine, on others it is not") {
    Fixture f;
    CHECK(f.receiver.join(f.params, &*f.sink).ok());
    FlowParams other = f.params;
    TableSink largest(other.geometry, Op::kMax, *f.table);
    CHECK(f.receiver.join(other, &largest).error().code() == Errc::kExists);
    other.mark.incarnation += 1;
    CHECK(f.receiver.join(other, &*f.sink).error().code() == Errc::kExists);
    // The channel serves one open flow.
    CHECK(f.receiver.join(some_params(6), &*f.sink).error().code() == Errc::kExists);
    CHECK(f.give(f.fin(14)) == Counter::k_accepted_fin);
    FlowParams next = some_params(6);
    next.first_seq = 15;
    CHECK(f.receiver.join(next, &*f.sink).ok());
    // What the channel's former task left behind still tells old from new.
    f.params = next;
    CHECK(f.give(f.data(14, "a", 1, "b", 1)) == Counter::k_bad_seq);
    CHECK(f.give(f.data(15, "a", 1, "b", 1)) == Counter::k_accepted_data);
    CHECK(f.receiver.join(some_params(7), nullptr).error().code() == Errc::kInternal);
}

TEST_CASE("another incarnation starts afresh and ends the former one's flow") {
    Fixture f;
    CHECK(f.give(f.data(500, "a", 1, "b", 1)) == Counter::k_accepted_data);
    const FlowParams old = f.params;
    FlowParams fresh = some_params(6);
    fresh.incarnation = 78;
    fresh.first_seq = 1;
    CHECK(f.receiver.join(fresh, &*f.sink).ok());
    const auto late = f.data(501, "a", 1, "b", 1);
    CHECK(f.give(late) == Counter::k_unknown_flow);
    // A late repetition of the old join revives nothing.
    CHECK(f.receiver.join(old, &*f.sink).ok());
    CHECK(f.give(late) == Counter::k_unknown_flow);
    f.params = fresh;
    CHECK(f.give(f.data(1, "a", 1, "b", 1)) == Counter::k_accepted_data);
    CHECK(f.give(f.data(500 % ASK_WINDOW, "a", 1, "b", 1)) == Counter::k_accepted_data);
}

TEST_CASE("flows, channels and memories of ended tasks are bounded") {
    Fixture f(some_params(), {.max_flows = 2, .max_channels = 2});
    FlowParams second = some_params(5);
    second.channel.port = 49201;
    CHECK(f.receiver.join(second, &*f.sink).ok());
    FlowParams third = second;
    third.channel.port = 49202;
    CHECK(f.receiver.join(third, &*f.sink).error().code() == Errc::kLimit);
    f.receiver.end_task(5, true);
    CHECK(f.receiver.join(third, &*f.sink).ok());
    f.receiver.end_task(5, true);
    // Ended well: the two latest are remembered.
    for (std::uint64_t instance = 20; instance < 25; ++instance) {
        f.params = some_params(instance);
        f.params.first_seq = instance;
        REQUIRE(f.receiver.join(f.params, &*f.sink).ok());
        CHECK(f.give(f.fin(instance)) == Counter::k_accepted_fin);
        f.receiver.end_task(instance, false);
    }
    for (std::uint64_t instance = 20; instance < 25; ++instance) {
        f.params = some_params(instance);
        CHECK(f.give(f.fin(instance)) == (instance < 23 ? Counter::k_unknown_flow : Counter::k_ended));
    }
}

TEST_CASE("damaged packets change nothing but counters") {
    Fixture f;
    const std::string key(100, 'k');
    const std::vector<std::vector<std::byte>> packets = {
        f.data(10, "a", 1, "medium", 1), f.records(11, {{"key", 1}, {"", 2}}),
        f.piece(12, {.piece = 0, .pieces = 2, .key_len = 100, .offset = 0, .size = 50}, key), f.fin(13)};
    std::mt19937_64 random(6);
    for (int round = 0; round < 15'000; ++round) {
        const auto& good = packets[random() % packets.size()];
        auto bad = good;
        for (std::uint64_t change = 0; change <= random() % 3; ++change) {
            bad[random() % bad.size()] ^= static_cast<std::byte>(1 + random() % 255);
        }
        bad.resize(random() % 4 == 0 ? random() % (2 * bad.size()) : bad.size());
        if (bad == good) {
            continue;
        }
        f.give(bad);
        if (f.acked()) {
            FAIL("a damaged packet was acknowledged");
        }
    }
    CHECK(f.table->size() == 0);
    CHECK(f.stats().packets_accepted == 0);
    for (const auto& packet : packets) {
        CHECK(f.give(packet) != Counter::k_duplicate);
    }
    // The piece's key is not whole, so the FIN has to wait.
    CHECK(f.table->size() == 4);
    CHECK_FALSE(f.stats().fin);
}

TEST_CASE("packets of a sender gone mad, sealed as they are, never break the receiver") {
    Fixture f(with_whole_keys());
    const CheckKey key(f.params.secret);
    const std::string text(100, 'k');
    const std::vector<std::vector<std::byte>> packets = {
        f.data(10, "a", 1, "medium", 1), f.records(11, {{"key", 1}, {"", 2}}),
        f.piece(12, {.piece = 0, .pieces = 2, .key_len = 100, .offset = 0, .size = 50}, text),
        f.whole(13, {{"a", 1}, {"nine bytes", 2}, {std::string(50, 'w'), 3}}), f.fin(1U << 30)};
    std::mt19937_64 random(7);
    for (int round = 0; round < 15'000; ++round) {
        auto packet = packets[random() % (packets.size() - (round < 14'000 ? 1 : 0))];
        for (std::uint64_t change = 0; change < random() % 4; ++change) {
            packet[32 + random() % (packet.size() - 32)] = static_cast<std::byte>(random() % 5);
        }
        store_be(packet.data() + 32, std::uint64_t{10} + random() % 5000);
        packet.resize(random() % 8 == 0 ? 48 + random() % 200 : packet.size());
        key.seal(packet, kPorts);
        f.give(packet);
    }
    CHECK(f.receiver.counter(Counter::k_accepted_data) > 100);
    CHECK(f.receiver.counter(Counter::k_accepted_long) > 100);
    CHECK(f.receiver.counter(Counter::k_accepted_var) > 100);
    CHECK(f.receiver.counter(Counter::k_bad_record) > 100);
    CHECK(f.receiver.counter(Counter::k_bad_check) == 0);
}

}  // namespace
}  // namespace ask
