// SPDX-License-Identifier: Apache-2.0
//
// Tasks through the library, as a program uses it, against an agent of the test's: what it does with columns,
// and whatever may be wrong with them, with calls, with the agent.
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "lib/ask/ask.h"
#include "tests/unit/ask/task_agent.h"

namespace ask::test {
namespace {

ask_sender_options sender_options(const TaskAgent& agent) {
    ask_sender_options options = ASK_SENDER_OPTIONS_INIT;
    options.agent = agent.socket().c_str();
    options.task = "t";
    options.to = "h3";
    options.merge_window = 0;
    return options;
}

ask_receiver_options receiver_options(const TaskAgent& agent) {
    ask_receiver_options options = ASK_RECEIVER_OPTIONS_INIT;
    options.agent = agent.socket().c_str();
    options.task = "t";
    options.senders = 2;
    return options;
}

ask_sender* open_sender(const TaskAgent& agent) {
    const ask_sender_options options = sender_options(agent);
    ask_sender* sender = nullptr;
    REQUIRE(ask_sender_open(&options, &sender) == ASK_OK);
    return sender;
}

ask_receiver* open_receiver(const TaskAgent& agent, std::uint32_t flags = 0) {
    ask_receiver_options options = receiver_options(agent);
    options.flags = flags;
    ask_receiver* receiver = nullptr;
    REQUIRE(ask_receiver_open(&options, &receiver) == ASK_OK);
    return receiver;
}

// "fig", "fig", "", "a very long key of its own" as columns; the first offset is not 0.
template <typename Offset>
struct Columns {
    std::string keys = "??figfiga very long key of its own";
    std::vector<Offset> offsets{2, 5, 8, 8, 34};
    std::vector<std::int64_t> values{1, 2, 4, -5};

    [[nodiscard]] ask_columns all() const {
        return {values.size(),  sizeof(Offset) == 4 ? ASK_INT32 : ASK_INT64,
                offsets.data(), keys.data(),
                keys.size(),    values.data()};
    }
};

const TaskTuples kSums = {{"fig", 3}, {"", 4}, {"a very long key of its own", -5}};

// It failed so, and the text has this part.
void check_error(int is, int code, const std::string& part) {
    CHECK(is == code);
    CAPTURE(std::string(ask_error()));
    CHECK(std::string(ask_error()).find(part) != std::string::npos);
}

TEST_CASE_TEMPLATE("columns are sent as they lie", Offset, std::int32_t, std::int64_t) {
    const Columns<Offset> columns;
    const ask_columns all = columns.all();
    SUBCASE("at once") {
        TaskAgent agent(TaskAct::kTakes);
        const ask_sender_options options = sender_options(agent);
        ask_task_stats stats = ASK_TASK_STATS_INIT;
        CHECK(ask_send(&options, &all, &stats) == ASK_OK);
        CHECK(agent.taken() == kSums);
        CHECK(stats.tuples_in == 7);
        CHECK(stats.left_long == 7);
        CHECK(stats.tuples_receiver == 7);
        CHECK(stats.seconds == 0.5);
        CHECK(stats.runs == 1);
        CHECK(stats.senders == 1);
    }
    SUBCASE("in pieces, beside single ones") {
        TaskAgent agent(TaskAct::kTakes);
        ask_sender* sender = open_sender(agent);
        ask_columns part = all;
        part.rows = 1;
        CHECK(ask_sender_push_columns(sender, &part) == ASK_OK);
        CHECK(ask_sender_push(sender, "fig", 3, 2) == ASK_OK);
        CHECK(ask_sender_push(sender, nullptr, 0, 4) == ASK_OK);
        part.offsets = columns.offsets.data() + 3;
        part.values += 3;
        CHECK(ask_sender_push_columns(sender, &part) == ASK_OK);
        const ask_columns none = ASK_COLUMNS_INIT;
        CHECK(ask_sender_push_columns(sender, &none) == ASK_OK);
        CHECK(ask_sender_flush(sender) == ASK_OK);
        CHECK(ask_sender_finish(sender, nullptr) == ASK_OK);
        check_error(ask_sender_push(sender, "a", 1, 1), ASK_E_USAGE, "task t: the sender has finished");
        check_error(ask_sender_finish(sender, nullptr), ASK_E_USAGE, "has finished");
        ask_sender_close(sender);
        CHECK(agent.taken() == kSums);
    }
}

TEST_CASE("more than the ring holds, with keys of all lengths to the longest") {
    const std::string keys(2UL * ASK_MAX_KEY_BYTES + 1, 'k');
    std::vector<std::int64_t> offsets{0};
    std::vector<std::int64_t> values;
    TaskTuples expected;
    for (std::int64_t length = 0; length <= ASK_MAX_KEY_BYTES; length = length * 2 + 1) {
        offsets.push_back(offsets.back() + length);
        values.push_back(1);
        expected[keys.substr(0, static_cast<std::size_t>(length))] = 200;
    }
    TaskAgent agent(TaskAct::kTakes);
    ask_sender* sender = open_sender(agent);
    const ask_columns all = {values.size(), ASK_INT64,   offsets.data(),
                             keys.data(),   keys.size(), values.data()};
    for (int i = 0; i < 200; ++i) {
        REQUIRE(ask_sender_push_columns(sender, &all) == ASK_OK);
    }
    CHECK(ask_sender_finish(sender, nullptr) == ASK_OK);
    ask_sender_close(sender);
    CHECK(agent.taken() == expected);
}

TEST_CASE("a count has no values, and looks at none") {
    const Columns<std::int32_t> columns;
    ask_columns all = columns.all();
    TaskAgent agent(TaskAct::kTakes, {}, "count");
    ask_sender* sender = open_sender(agent);
    CHECK(ask_sender_push_columns(sender, &all) == ASK_OK);
    all.values = nullptr;
    CHECK(ask_sender_push_columns(sender, &all) == ASK_OK);
    CHECK(ask_sender_finish(sender, nullptr) == ASK_OK);
    ask_sender_close(sender);
    CHECK(agent.taken() == TaskTuples{{"fig", 4}, {"", 2}, {"a very long key of its own", 2}});
}

struct Wrong {
    const char* what;
    std::function<void(Columns<std::int32_t>&, ask_columns&)> spoil;
    int code;
    std::string text;
};

const std::vector<Wrong>& wrong_columns() {
    using C = Columns<std::int32_t>;
    static const std::vector<Wrong> kAll = {
        {"no offsets", [](C&, ask_columns& all) { all.offsets = nullptr; }, ASK_E_USAGE,
         "columns: the offsets are NULL"},
        {"no keys", [](C&, ask_columns& all) { all.keys = nullptr; }, ASK_E_USAGE, "the keys are NULL"},
        {"no values", [](C&, ask_columns& all) { all.values = nullptr; }, ASK_E_USAGE,
         "the values are NULL, and the task's operator is not ASK_COUNT"},
        {"a type", [](C&, ask_columns& all) { all.offset_type = ASK_FLOAT32; }, ASK_E_USAGE,
         "offsets of type 3: ASK_INT32 or ASK_INT64"},
        {"odd offsets",
         [](C& of, ask_columns& all) { all.offsets = reinterpret_cast<const char*>(of.offsets.data()) + 1; },
         ASK_E_USAGE, "do not lie at a multiple of their size"},
        {"they decrease", [](C& of, ask_columns&) { of.offsets[3] = 7; }, ASK_E_INPUT,
         "row 2: its offsets decrease, from 8 to 7"},
        {"they decrease below zero", [](C& of, ask_columns&) { of.offsets[2] = INT32_MIN; }, ASK_E_INPUT,
         "row 1: its offsets decrease, from 5 to -2147483648"},
        {"the first is negative", [](C& of, ask_columns&) { of.offsets[0] = -1; }, ASK_E_INPUT,
         "the first offset is -1"},
        {"the last passes the end", [](C& of, ask_columns&) { of.offsets[4] = 35; }, ASK_E_INPUT,
         "the last offset is 35, past the 34 bytes of keys"},
        {"too long a key", [](C& of, ask_columns&) { of.offsets[4] = 8 + 65536; }, ASK_E_LIMIT,
         "row 3: a key of 65536 bytes; the limit is 65535"},
        {"the largest offset", [](C& of, ask_columns&) { of.offsets[1] = INT32_MAX; }, ASK_E_LIMIT,
         "row 0: a key of 2147483645 bytes; the limit is 65535"},
        {"more rows than there can be", [](C&, ask_columns& all) { all.rows = SIZE_MAX; }, ASK_E_LIMIT,
         "18446744073709551615 rows are more than memory can hold"},
        {"rows whose bytes overflow", [](C&, ask_columns& all) { all.rows = SIZE_MAX / 4; }, ASK_E_LIMIT,
         "rows are more than memory can hold; the limit is 1152921504606846974"},
    };
    return kAll;
}

TEST_CASE("what is wrong with columns is said, none of them is sent, and the sender goes on") {
    TaskAgent agent(TaskAct::kTakes);
    ask_sender* sender = open_sender(agent);
    for (const Wrong& wrong : wrong_columns()) {
        CAPTURE(wrong.what);
        Columns<std::int32_t> columns;
        ask_columns all = columns.all();
        wrong.spoil(columns, all);
        check_error(ask_sender_push_columns(sender, &all), wrong.code, wrong.text);
        CHECK(std::string(ask_error()).starts_with("task t: "));
    }
    check_error(ask_sender_push_columns(sender, nullptr), ASK_E_USAGE, "the columns are NULL");
    check_error(ask_sender_push(sender, nullptr, 1, 1), ASK_E_USAGE, "task t: the key is NULL");
    const std::string longest(ASK_MAX_KEY_BYTES + 1, 'k');
    check_error(ask_sender_push(sender, longest.data(), longest.size(), 1), ASK_E_LIMIT,
                "task t: a key of 65536 bytes; the limit is 65535");
    CHECK(ask_sender_push(sender, "only", 4, 7) == ASK_OK);
    CHECK(ask_sender_finish(sender, nullptr) == ASK_OK);
    ask_sender_close(sender);
    CHECK(agent.taken() == TaskTuples{{"only", 7}});
}

TEST_CASE("wrong columns never reach an agent") {
    ask_sender_options options = ASK_SENDER_OPTIONS_INIT;
    options.agent = "/nonexistent/agent.sock";
    options.task = "t";
    options.to = "h3";
    for (const Wrong& wrong : wrong_columns()) {
        Columns<std::int32_t> columns;
        ask_columns all = columns.all();
        wrong.spoil(columns, all);
        if (all.values != nullptr) {
            check_error(ask_send(&options, &all, nullptr), wrong.code, wrong.text);
        }
    }
    check_error(ask_send(&options, nullptr, nullptr), ASK_E_USAGE, "the columns are NULL");
    // Whether they are needed is known once the task is.
    TaskAgent agent(TaskAct::kTakes);
    const ask_sender_options there = sender_options(agent);
    const Columns<std::int32_t> columns;
    ask_columns all = columns.all();
    all.values = nullptr;
    check_error(ask_send(&there, &all, nullptr), ASK_E_USAGE, "the values are NULL");
    CHECK(agent.taken().empty());
}

// What ask.h says of offsets, one rule after the other.
template <typename Offset>
bool is_valid(const std::vector<Offset>& offsets, std::int64_t key_bytes) {
    for (std::size_t row = 0; row + 1 < offsets.size(); ++row) {
        const std::int64_t from = offsets[row];
        const std::int64_t to = offsets[row + 1];
        if (to < from || to - from > ASK_MAX_KEY_BYTES) {
            return false;
        }
    }
    return offsets.front() >= 0 && offsets.back() <= key_bytes;
}

TEST_CASE_TEMPLATE("any offsets are either right or refused", Offset, std::int32_t, std::int64_t) {
    constexpr std::int64_t kKeyBytes = 200'000;
    const std::vector<char> keys(kKeyBytes);
    const std::vector<std::int64_t> values(8, 1);
    std::mt19937_64 random(7);
    const std::vector<std::int64_t> odd = {-1,
                                           0,
                                           1,
                                           65535,
                                           65536,
                                           131071,
                                           kKeyBytes,
                                           kKeyBytes + 1,
                                           std::numeric_limits<Offset>::max(),
                                           std::numeric_limits<Offset>::min()};
    ask_sender_options options = ASK_SENDER_OPTIONS_INIT;
    options.agent = "/nonexistent/agent.sock";
    options.task = "t";
    options.to = "h3";
    std::size_t valid = 0;
    for (int i = 0; i < 5000; ++i) {
        std::vector<Offset> offsets(1 + random() % 8);
        for (Offset& each : offsets) {
            each = static_cast<Offset>(random() % kKeyBytes);
        }
        if (random() % 4 != 0) {
            std::ranges::sort(offsets);
        }
        if (random() % 4 == 0) {
            offsets[random() % offsets.size()] = static_cast<Offset>(odd[random() % odd.size()]);
        }
        const ask_columns all = {offsets.size() - 1, sizeof(Offset) == 4 ? ASK_INT32 : ASK_INT64,
                                 offsets.data(),     keys.data(),
                                 keys.size(),        values.data()};
        const bool right = all.rows == 0 || is_valid(offsets, kKeyBytes);
        valid += right ? 1 : 0;
        const int code = ask_send(&options, &all, nullptr);
        CHECK((code == ASK_E_UNAVAILABLE) == right);
        CHECK((code == ASK_E_INPUT || code == ASK_E_LIMIT) == !right);
    }
    CHECK(valid > 500);
    CHECK(valid < 4500);
}

TEST_CASE("options that cannot be") {
    ask_sender* sender = nullptr;
    ask_receiver* receiver = nullptr;
    ask_sender_options send = ASK_SENDER_OPTIONS_INIT;
    ask_receiver_options receive = ASK_RECEIVER_OPTIONS_INIT;
    const auto open_send = [&] { return ask_sender_open(&send, &sender); };
    const auto open_receive = [&] { return ask_receiver_open(&receive, &receiver); };
    check_error(ask_sender_open(nullptr, &sender), ASK_E_USAGE, "the options are NULL");
    check_error(ask_sender_open(&send, nullptr), ASK_E_USAGE, "the sender is NULL");
    check_error(ask_receiver_open(nullptr, &receiver), ASK_E_USAGE, "the options are NULL");
    check_error(ask_receiver_open(&receive, nullptr), ASK_E_USAGE, "the receiver is NULL");
    check_error(open_send(), ASK_E_USAGE, "the task has no name");
    check_error(open_receive(), ASK_E_USAGE, "the task has no name");
    send.task = receive.task = "a/b";
    send.to = "h3";
    check_error(open_send(), ASK_E_USAGE, "a/b");
    check_error(open_receive(), ASK_E_USAGE, "a/b");
    send.task = receive.task = "t";
    check_error(open_receive(), ASK_E_USAGE, "task t: the number of senders must be at least 1");
    receive.senders = 4097;
    check_error(open_receive(), ASK_E_LIMIT, "task t: 4097 senders; the limit is 4096");
    receive.senders = 1;
    receive.op = ASK_PROD;
    check_error(open_receive(), ASK_E_USAGE, "task t: operator 2 is none of tuples");
    receive.op = ASK_MEAN;
    receive.flags = ASK_RECEIVE_ALLOW_INCOMPLETE;
    check_error(open_receive(), ASK_E_USAGE, "means are whole or an error");
    receive.op = ASK_COUNT;
    receive.flags = 64;
    check_error(open_receive(), ASK_E_USAGE, "task t: no flag of a receiver is 64");
    receive.flags = ASK_RECEIVE_NO_SWITCH | ASK_RECEIVE_REQUIRE_REGION;
    check_error(open_receive(), ASK_E_USAGE, "task t: a region is required and the switch is left out");
    send.to = nullptr;
    check_error(open_send(), ASK_E_USAGE, "no host to send to");
    send.to = "h3";
    send.merge_window = (1 << 20) + 1;
    check_error(open_send(), ASK_E_LIMIT, "1048577 tuples; the limit is 1048576");
    send.merge_window = -2;
    check_error(open_send(), ASK_E_LIMIT, "merge_window of -2");
    send.struct_size = 8;
    receive.struct_size = 0;
    check_error(open_send(), ASK_E_USAGE, "ASK_SENDER_OPTIONS_INIT");
    check_error(open_receive(), ASK_E_USAGE, "ASK_RECEIVER_OPTIONS_INIT");
    ask_task_stats stats = ASK_TASK_STATS_INIT;
    stats.struct_size = 1;
    const ask_columns none = ASK_COLUMNS_INIT;
    check_error(ask_send(&send, &none, &stats), ASK_E_USAGE, "ASK_TASK_STATS_INIT");
    CHECK(sender == nullptr);
    CHECK(receiver == nullptr);
}

TEST_CASE("nothing is done with nothing") {
    ask_result* result = nullptr;
    check_error(ask_sender_push(nullptr, "a", 1, 1), ASK_E_USAGE, "the sender is NULL");
    check_error(ask_sender_push_columns(nullptr, nullptr), ASK_E_USAGE, "the sender is NULL");
    check_error(ask_sender_flush(nullptr), ASK_E_USAGE, "the sender is NULL");
    check_error(ask_sender_finish(nullptr, nullptr), ASK_E_USAGE, "the sender is NULL");
    check_error(ask_sender_abandon(nullptr, "x"), ASK_E_USAGE, "the sender is NULL");
    check_error(ask_receiver_wait(nullptr, &result), ASK_E_USAGE, "the receiver is NULL");
    check_error(ask_receiver_confirm(nullptr), ASK_E_USAGE, "the receiver is NULL");
    check_error(ask_receive(nullptr, &result), ASK_E_USAGE, "the options are NULL");
    check_error(ask_receive(nullptr, nullptr), ASK_E_USAGE, "the result is NULL");
    check_error(ask_result_stats(nullptr, nullptr), ASK_E_USAGE, "the result is NULL");
    CHECK(ask_result_columns(nullptr) == nullptr);
    CHECK(ask_result_missing(nullptr, 0) == nullptr);
    ask_sender_close(nullptr);
    ask_receiver_close(nullptr);
    ask_result_free(nullptr);
    CHECK(std::string(ask_code_name(ASK_E_RUN_AGAIN)) == "run again");
    CHECK(std::string(ask_code_name(ASK_E_RUN_AGAIN + 1)) == "unknown code");
}

TEST_CASE("no agent, no task") {
    const ask_columns none = ASK_COLUMNS_INIT;
    ask_sender_options options = ASK_SENDER_OPTIONS_INIT;
    options.agent = "/nonexistent/agent.sock";
    options.task = "t";
    options.to = "h3";
    check_error(ask_send(&options, &none, nullptr), ASK_E_UNAVAILABLE,
                "no agent listens at /nonexistent/agent.sock: start ask-agentd");
    TaskAgent agent(TaskAct::kRefuses);
    options.agent = agent.socket().c_str();
    check_error(ask_send(&options, &none, nullptr), ASK_E_UNKNOWN, "no task t at h3");
}

// Until it fails, which it must.
int push_on(ask_sender* sender) {
    int code = ASK_OK;
    for (int i = 0; i < 10'000'000 && code == ASK_OK; ++i) {
        code = ask_sender_push(sender, "some key", 8, i);
    }
    return code;
}

void check_sender_over(TaskAct act, int code, const std::string& text) {
    const TaskAgent agent(act);
    ask_sender* sender = open_sender(agent);
    check_error(push_on(sender), code, text);
    // And so does all else from then on.
    const ask_columns none = ASK_COLUMNS_INIT;
    check_error(ask_sender_push(sender, "a", 1, 1), code, text);
    check_error(ask_sender_push_columns(sender, &none), code, text);
    check_error(ask_sender_flush(sender), code, text);
    check_error(ask_sender_abandon(sender, "x"), code, text);
    check_error(ask_sender_finish(sender, nullptr), code, text);
    ask_sender_close(sender);
}

TEST_CASE("what ends a task in the middle ends its sender for good") {
    SUBCASE("its agent dies") {
        check_sender_over(TaskAct::kDies, ASK_E_UNAVAILABLE, "went away");
    }
    SUBCASE("a deadline passes") {
        check_sender_over(TaskAct::kFails, ASK_E_DEADLINE, "only 1 of 2 senders joined within 1 s");
    }
}

TEST_CASE("what ends a task in the middle ends its receiver for good") {
    for (const bool agent_dies : {true, false}) {
        const TaskAgent agent(agent_dies ? TaskAct::kDies : TaskAct::kFails);
        ask_receiver* receiver = open_receiver(agent);
        ask_result* result = nullptr;
        check_error(ask_receiver_wait(receiver, &result), agent_dies ? ASK_E_UNAVAILABLE : ASK_E_DEADLINE,
                    agent_dies ? "task t: the agent at " : "only 1 of 2 senders");
        CHECK(result == nullptr);
        check_error(ask_receiver_wait(receiver, &result), ASK_E_USAGE, "task t: it is over");
        check_error(ask_receiver_confirm(receiver), ASK_E_USAGE, "there is no result to confirm");
        ask_receiver_close(receiver);
    }
}

TEST_CASE("cancel_fd ends every wait") {
    const int cancel = ::eventfd(1, EFD_CLOEXEC);
    const std::string text = "task t: cancelled: its cancel_fd is readable";
    SUBCASE("of opening") {
        const TaskAgent agent(TaskAct::kSilent);
        ask_sender_options options = sender_options(agent);
        options.cancel_fd = cancel;
        ask_sender* sender = nullptr;
        check_error(ask_sender_open(&options, &sender), ASK_E_ABORTED, text);
    }
    SUBCASE("of receiving at once") {
        const TaskAgent agent(TaskAct::kSilent);
        ask_receiver_options options = receiver_options(agent);
        options.cancel_fd = cancel;
        ask_result* result = nullptr;
        check_error(ask_receive(&options, &result), ASK_E_ABORTED, text);
        CHECK(result == nullptr);
    }
    SUBCASE("for room") {
        std::uint64_t count = 0;
        REQUIRE(::read(cancel, &count, sizeof(count)) == sizeof(count));
        const TaskAgent agent(TaskAct::kStays);
        ask_sender_options options = sender_options(agent);
        options.cancel_fd = cancel;
        ask_sender* sender = nullptr;
        REQUIRE(ask_sender_open(&options, &sender) == ASK_OK);
        std::thread later([cancel] {
            // Into the wait for room: nothing tells that it has begun. Who comes before it hears the same.
            ::usleep(20'000);
            REQUIRE(::eventfd_write(cancel, 1) == 0);
        });
        check_error(push_on(sender), ASK_E_ABORTED, text);
        later.join();
        ask_sender_close(sender);
    }
    ::close(cancel);
}

TEST_CASE("a sender that gives up is over") {
    TaskAgent agent(TaskAct::kTakes);
    ask_sender* sender = open_sender(agent);
    check_error(ask_sender_abandon(sender, nullptr), ASK_E_USAGE, "the reason is NULL");
    CHECK(ask_sender_abandon(sender, "its input is gone") == ASK_OK);
    check_error(ask_sender_push(sender, "a", 1, 1), ASK_E_ABORTED,
                "task t: the sender has given up: its input is gone");
    ask_sender_close(sender);
    CHECK(agent.taken().empty());
}

const TaskTuples kGiven = {{"", 1}, {"fig", INT64_MIN}, {"apple", INT64_MAX}, {std::string(300, 'z'), -1}};

TaskTuples tuples_of(const ask_columns& columns) {
    TaskTuples tuples;
    const auto* const offsets = static_cast<const std::int64_t*>(columns.offsets);
    for (std::size_t row = 0; row < columns.rows; ++row) {
        const std::string key(static_cast<const char*>(columns.keys) + offsets[row],
                              static_cast<std::size_t>(offsets[row + 1] - offsets[row]));
        CHECK(tuples.emplace(key, columns.values[row]).second);
    }
    return tuples;
}

void check_result(const ask_result* result) {
    const ask_columns& columns = *ask_result_columns(result);
    CHECK(columns.rows == kGiven.size());
    CHECK(columns.offset_type == ASK_INT64);
    CHECK(columns.key_bytes == 308);
    CHECK(tuples_of(columns) == kGiven);
    ask_task_stats stats = ASK_TASK_STATS_INIT;
    CHECK(ask_result_stats(result, &stats) == ASK_OK);
    CHECK(stats.tuples_in == 11);
    CHECK(stats.senders == 1);
    CHECK(stats.runs == 1);
    stats.struct_size = 4;
    check_error(ask_result_stats(result, &stats), ASK_E_USAGE, "ASK_TASK_STATS_INIT");
    CHECK(std::string(ask_result_missing(result, 0)) == "an unknown subset of h2's tuples: it died");
    CHECK(ask_result_missing(result, 1) == nullptr);
}

TEST_CASE("a result is columns, which outlive their receiver") {
    const TaskAgent agent(TaskAct::kGives, kGiven);
    ask_receiver* receiver = open_receiver(agent, ASK_RECEIVE_SORTED);
    check_error(ask_receiver_confirm(receiver), ASK_E_USAGE, "task t: there is no result to confirm");
    check_error(ask_receiver_wait(receiver, nullptr), ASK_E_USAGE, "the result is NULL");
    ask_result* result = nullptr;
    REQUIRE(ask_receiver_wait(receiver, &result) == ASK_OK);
    ask_result* another = nullptr;
    check_error(ask_receiver_wait(receiver, &another), ASK_E_USAGE, "task t: its result has been taken");
    CHECK(another == nullptr);
    CHECK(ask_receiver_confirm(receiver) == ASK_OK);
    check_error(ask_receiver_confirm(receiver), ASK_E_USAGE, "no result to confirm");
    ask_receiver_close(receiver);
    check_result(result);
    const ask_columns& columns = *ask_result_columns(result);
    CHECK(columns.values[1] == INT64_MAX);  // "", "apple", ...
    ask_result_free(result);
}

TEST_CASE("all of a receive at once") {
    const TaskAgent agent(TaskAct::kGives, kGiven);
    const ask_receiver_options options = receiver_options(agent);
    ask_result* result = nullptr;
    REQUIRE(ask_receive(&options, &result) == ASK_OK);
    check_result(result);
    ask_result_free(result);
}

TEST_CASE("a result whose senders could not be told is there, with the error") {
    const TaskAgent agent(TaskAct::kGivesUp, kGiven);
    const ask_receiver_options options = receiver_options(agent);
    ask_result* result = nullptr;
    check_error(ask_receive(&options, &result), ASK_E_NOT_TAKEN, "its result was not taken in time");
    REQUIRE(result != nullptr);
    check_result(result);
    ask_result_free(result);
}

std::vector<std::string> means_of(const ask_result* result) {
    const ask_columns& columns = *ask_result_columns(result);
    const std::int64_t* const counts = ask_result_counts(result);
    REQUIRE(counts != nullptr);
    std::vector<std::string> rows;
    rows.reserve(columns.rows);
    const auto* const offsets = static_cast<const std::int64_t*>(columns.offsets);
    for (std::size_t row = 0; row < columns.rows; ++row) {
        rows.push_back(std::string(static_cast<const char*>(columns.keys) + offsets[row],
                                   static_cast<std::size_t>(offsets[row + 1] - offsets[row])) +
                       " " + std::to_string(columns.values[row]) + "/" + std::to_string(counts[row]));
    }
    return rows;
}

TEST_CASE("a result of means is sums and counts, by key") {
    const TaskTuples given = {{"a", 10}, {"a#", 4}, {"a!", 9}, {"a!#", 3}, {"b#+", INT64_MIN}, {"b##", 2}};
    const auto receive = [](const TaskAgent& agent, int op, std::uint32_t flags) {
        ask_receiver_options options = receiver_options(agent);
        options.op = op;
        options.flags = flags;
        ask_result* result = nullptr;
        REQUIRE(ask_receive(&options, &result) == ASK_OK);
        return std::unique_ptr<ask_result, void (*)(ask_result*)>(result, &ask_result_free);
    };
    const std::vector<std::string> means = {"a 10/4", "a! 9/3", "b# -9223372036854775808/2"};
    {
        const TaskAgent agent(TaskAct::kGives, given);
        CHECK(means_of(receive(agent, ASK_MEAN, 0).get()) == means);
    }
    {
        // One that was kept is what its agent says that it is.
        const TaskAgent agent(TaskAct::kGives, given, "mean");
        CHECK(means_of(receive(agent, ASK_SUM, ASK_RECEIVE_AGAIN).get()) == means);
    }
    {
        const TaskAgent agent(TaskAct::kGives);
        CHECK(means_of(receive(agent, ASK_MEAN, 0).get()).empty());
    }
    {
        const TaskAgent agent(TaskAct::kGives, given);
        CHECK(ask_result_counts(receive(agent, ASK_SUM, 0).get()) == nullptr);
        CHECK(ask_result_counts(nullptr) == nullptr);
    }
    const TaskAgent agent(TaskAct::kGives, {{"a", 10}});
    ask_receiver_options options = receiver_options(agent);
    options.op = ASK_MEAN;
    ask_result* result = nullptr;
    check_error(ask_receive(&options, &result), ASK_E_INTERNAL, "key 'a' has a sum and no count");
    CHECK(result == nullptr);
}

TEST_CASE("a result of nothing") {
    const TaskAgent agent(TaskAct::kGives);
    const ask_receiver_options options = receiver_options(agent);
    ask_result* result = nullptr;
    REQUIRE(ask_receive(&options, &result) == ASK_OK);
    const ask_columns& columns = *ask_result_columns(result);
    CHECK(columns.rows == 0);
    CHECK(static_cast<const std::int64_t*>(columns.offsets)[0] == 0);
    ask_result_free(result);
}

TEST_CASE("a sender or receiver belongs to one thread at a time") {
    const TaskAgent agent(TaskAct::kStays);
    const int cancel = ::eventfd(0, EFD_CLOEXEC);
    ask_receiver_options options = receiver_options(agent);
    options.cancel_fd = cancel;
    ask_receiver* receiver = nullptr;
    REQUIRE(ask_receiver_open(&options, &receiver) == ASK_OK);
    std::atomic<bool> ended = false;
    std::thread waits([receiver, &ended] {
        ask_result* result = nullptr;
        int code = ASK_E_USAGE;
        // It too is turned away, if it comes while the other one is in its call.
        while (code == ASK_E_USAGE) {
            code = ask_receiver_wait(receiver, &result);
        }
        check_error(code, ASK_E_ABORTED, "cancelled");
        ended = true;
    });
    // Which of the two comes first is not known: before it, there is no result to confirm.
    std::string said;
    while (said.find("another thread is in a call with this receiver") == std::string::npos) {
        CHECK(ask_receiver_confirm(receiver) == ASK_E_USAGE);
        said = ask_error();
        REQUIRE(!ended);
    }
    REQUIRE(::eventfd_write(cancel, 1) == 0);
    waits.join();
    ask_receiver_close(receiver);
    ::close(cancel);
}

// In a fork's child, which lives until the parent's agent has seen its end.
template <typename Call, typename Close>
pid_t child_that(int hold[2], const Call& call, const Close& close) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        ::close(hold[1]);
        const int code = call();
        const bool named = std::string(ask_error()).find("not to a fork's child") != std::string::npos;
        close();
        char byte = 0;
        const bool held = ::read(hold[0], &byte, 1) == 0;
        ::_exit(code == ASK_E_USAGE && named && held ? 0 : 1);
    }
    return child;
}

void ends_well(pid_t child, int hold[2]) {
    ::close(hold[1]);
    ::close(hold[0]);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

TEST_CASE("a fork's child has nothing of a sender, and holds nothing open") {
    TaskAgent agent(TaskAct::kTakes);
    ask_sender* sender = open_sender(agent);
    CHECK(ask_sender_push(sender, "before", 6, 1) == ASK_OK);
    int hold[2];
    REQUIRE(::pipe(hold) == 0);
    const pid_t child = child_that(
        hold, [sender] { return ask_sender_push(sender, "child's", 7, 1); },
        [sender] { ask_sender_close(sender); });
    CHECK(ask_sender_push(sender, "after", 5, 2) == ASK_OK);
    CHECK(ask_sender_finish(sender, nullptr) == ASK_OK);
    ask_sender_close(sender);
    CHECK(agent.taken() == TaskTuples{{"before", 1}, {"after", 2}});
    ends_well(child, hold);
}

TEST_CASE("a fork's child has nothing of a receiver, and holds nothing open") {
    auto agent = std::make_unique<TaskAgent>(TaskAct::kGives, kGiven);
    ask_receiver* receiver = open_receiver(*agent);
    ask_result* result = nullptr;
    int hold[2];
    REQUIRE(::pipe(hold) == 0);
    const pid_t child = child_that(
        hold, [receiver, &result] { return ask_receiver_wait(receiver, &result); },
        [receiver] { ask_receiver_close(receiver); });
    REQUIRE(ask_receiver_wait(receiver, &result) == ASK_OK);
    CHECK(ask_receiver_confirm(receiver) == ASK_OK);
    ask_receiver_close(receiver);
    agent.reset();  // returns once it has seen the receiver go, while the child lives
    check_result(result);
    ask_result_free(result);
    ends_well(child, hold);
}

}  // namespace
}  // namespace ask::test
