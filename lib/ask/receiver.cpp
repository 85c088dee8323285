// SPDX-License-Identifier: Apache-2.0
//
// ask.h's receivers over lib/client, and results as columns.
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/abi/limits.h"
#include "lib/ask/ask.h"
#include "lib/ask/handle.h"
#include "lib/ask/task.h"
#include "lib/client/means.h"
#include "lib/client/receive_session.h"

struct ask_receiver : ask::Handle {
    explicit ask_receiver(std::string id) : Handle("receiver"), task(std::move(id)) {}

    // Told of the session's descriptor, so it stands where it is.
    std::unique_ptr<ask::client::ReceiveSession> session;
    std::string task;
    ask::client::TaskOp op = ask::client::TaskOp::kSum;
    bool sorted = false;
    enum class State : std::uint8_t { kOpen, kTaken, kOver } state = State::kOpen;
};

struct ask_result {
    std::vector<std::int64_t> offsets{0};
    std::string keys;
    std::vector<std::int64_t> values;
    std::optional<std::vector<std::int64_t>> counts;  // of means
    ask_columns columns = ASK_COLUMNS_INIT;
    ask::client::TaskStats stats;
    std::uint32_t runs = 1;
    std::uint32_t senders = 0;
    std::vector<std::string> missing;
};

namespace {

using ask::Errc;
using ask::Error;
using ask::guarded;
using ask::Result;
using ask::Turn;
using ask::usage;
using ask::client::TaskOp;

constexpr std::uint32_t kReceiveFlags = ASK_RECEIVE_SORTED | ASK_RECEIVE_NO_SWITCH | ASK_RECEIVE_NO_BACK |
                                        ASK_RECEIVE_REQUIRE_REGION | ASK_RECEIVE_ALLOW_INCOMPLETE |
                                        ASK_RECEIVE_AGAIN;
static_assert(ASK_MAX_TASK_SENDERS == ASK_MAX_SENDERS);

Result<TaskOp> task_op_of(int op) {
    switch (op) {
        case ASK_SUM:
            return TaskOp::kSum;
        case ASK_COUNT:
            return TaskOp::kCount;
        case ASK_MIN:
            return TaskOp::kMin;
        case ASK_MAX:
            return TaskOp::kMax;
        case ASK_MEAN:
            return TaskOp::kMean;
        default:
            return usage("operator " + std::to_string(op) +
                         " is none of tuples: ASK_SUM, ASK_COUNT, ASK_MIN, ASK_MAX or ASK_MEAN");
    }
}

// "h1,h2".
std::vector<std::string> hosts_of(const char* list) {
    std::vector<std::string> hosts;
    std::string_view rest = list == nullptr ? std::string_view() : list;
    while (!rest.empty()) {
        const std::size_t comma = std::min(rest.find(','), rest.size());
        hosts.emplace_back(rest.substr(0, comma));
        rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    return hosts;
}

Result<> check_receiver_options(const ask_receiver_options* from) {
    if (from == nullptr) {
        return usage("the options are NULL");
    }
    ASK_PASS(ask::check_struct_size(from->struct_size, sizeof(*from), "ASK_RECEIVER_OPTIONS_INIT"));
    if (from->task == nullptr) {
        return usage("the task has no name");
    }
    const std::string task = "task " + std::string(from->task) + ": ";
    if ((from->flags & ~kReceiveFlags) != 0) {
        return usage(task + "no flag of a receiver is " + std::to_string(from->flags & ~kReceiveFlags));
    }
    if (from->senders > ASK_MAX_SENDERS) {
        return Error(Errc::kLimit, task + std::to_string(from->senders) + " senders; the limit is " +
                                       std::to_string(ASK_MAX_SENDERS));
    }
    if (from->op == ASK_MEAN && (from->flags & ASK_RECEIVE_ALLOW_INCOMPLETE) != 0) {
        return usage(task +
                     "of a sender that dies, a key's sum and its count may lack other tuples, so that "
                     "means are whole or an error: leave out ASK_RECEIVE_ALLOW_INCOMPLETE or ASK_MEAN");
    }
    return {};
}

Result<ask::client::ReceiveOptions> receive_options_of(const ask_receiver_options* from) {
    ASK_PASS(check_receiver_options(from));
    const auto op = task_op_of(from->op);
    ASK_TRY(op, "task " + std::string(from->task));
    const auto has = [from](std::uint32_t flag) { return (from->flags & flag) != 0; };
    ask::client::ReceiveOptions to;
    to.agent = ask::text_or_empty(from->agent);
    to.task = from->task;
    to.again = has(ASK_RECEIVE_AGAIN);
    to.senders = to.again ? 1 : from->senders;
    to.op = *op;
    to.deadline = ask::deadline_or_default(from->deadline_ms);
    to.aggregators = from->aggregators;
    to.no_switch = has(ASK_RECEIVE_NO_SWITCH);
    to.no_back = has(ASK_RECEIVE_NO_BACK);
    to.require_region = has(ASK_RECEIVE_REQUIRE_REGION);
    to.allow_incomplete = has(ASK_RECEIVE_ALLOW_INCOMPLETE);
    to.from = hosts_of(from->from);
    to.token = ask::text_or_empty(from->token);
    to.cancel_fd = from->cancel_fd;
    return to;
}

Result<std::unique_ptr<ask_receiver>> open_receiver(const ask_receiver_options* from) {
    auto options = receive_options_of(from);
    ASK_PASS(options);
    auto made = std::make_unique<ask_receiver>(from->task);
    made->sorted = (from->flags & ASK_RECEIVE_SORTED) != 0;
    made->op = options->op;
    // Another run has another.
    options->on_socket = [receiver = made.get()](int fd) {
        receiver->enlist(fd < 0 ? std::vector<int>() : std::vector<int>{fd});
    };
    auto session = ask::client::ReceiveSession::open(*std::move(options));
    if (!session) {
        made->dismiss();
        return std::move(session).error();
    }
    made->session = std::make_unique<ask::client::ReceiveSession>(*std::move(session));
    return made;
}

void add_row(ask_result& result, std::string_view key, std::int64_t value) {
    result.keys += key;
    result.offsets.push_back(static_cast<std::int64_t>(result.keys.size()));
    result.values.push_back(value);
}

// What follows copies the table, which takes its time: the agent hears meanwhile that somebody is at it.
constexpr std::size_t kSignEvery = 1U << 16U;

// Sums as values, and counts beside them; by the keys' bytes, since they have to be brought together anyway.
Result<> fill_means(ask_result& result, const ask::client::ResultMap& table,
                    ask::client::ReceiveSession& session) {
    const auto means = ask::client::Means::of(table, [&session] { session.taking(); });
    ASK_PASS(means);
    result.offsets.reserve(means->size() + 1);
    result.values.reserve(means->size());
    auto& counts = result.counts.emplace();
    counts.reserve(means->size() + 1);  // so that there is something to point at if there are none
    for (std::size_t i = 0; i < means->size(); ++i) {
        const ask::client::Mean mean = (*means)[i];
        add_row(result, mean.key, mean.sum);
        counts.push_back(mean.count);
        if (i % kSignEvery == 0) {
            session.taking();
        }
    }
    return {};
}

Result<> fill_values(ask_result& result, const ask::client::ResultMap& table, bool sorted,
                     ask::client::ReceiveSession& session) {
    result.offsets.reserve(table.size() + 1);
    result.values.reserve(table.size());
    const auto add = [&](std::string_view key, std::int64_t value) -> Result<> {
        add_row(result, key, value);
        if (result.values.size() % kSignEvery == 0) {
            session.taking();
        }
        return {};
    };
    if (sorted) {
        ASK_PASS(table.each_sorted(add, [&session] { session.taking(); }));
    } else {
        ASK_PASS(table.each(
            [&add](std::string_view key, std::int64_t value) { static_cast<void>(add(key, value)); }));
    }
    return {};
}

// Of one that was kept the agent says what it is.
Result<> fill(ask_result& result, const ask::client::ReceiveResult& received, ask_receiver& receiver) {
    ask::client::ReceiveSession& session = *receiver.session;
    ASK_PASS(received.report.op.value_or(receiver.op) == TaskOp::kMean
                 ? fill_means(result, received.table, session)
                 : fill_values(result, received.table, receiver.sorted, session));
    result.columns = {result.values.size(), ASK_INT64,          result.offsets.data(),
                      result.keys.data(),   result.keys.size(), result.values.data()};
    return {};
}

Result<std::unique_ptr<ask_result>> take_result(ask_receiver& receiver) {
    const std::string task = "task " + receiver.task + ": ";
    if (receiver.state != ask_receiver::State::kOpen) {
        return usage(task + (receiver.state == ask_receiver::State::kOver ? "it is over"
                                                                          : "its result has been taken"));
    }
    receiver.state = ask_receiver::State::kOver;
    auto received = receiver.session->wait();
    ASK_PASS(received);
    auto result = std::make_unique<ask_result>();
    ASK_PASS(fill(*result, *received, receiver));
    const ask::client::ReceiveReport& report = received->report;
    result->stats = report.stats;
    result->runs = report.runs;
    result->senders = static_cast<std::uint32_t>(report.senders.size());
    for (const auto& missing : report.missing) {
        result->missing.push_back(describe(missing));
    }
    receiver.state = ask_receiver::State::kTaken;
    return result;
}

Result<> confirm_result(ask_receiver& receiver) {
    if (receiver.state != ask_receiver::State::kTaken) {
        return usage("task " + receiver.task + ": there is no result to confirm");
    }
    receiver.state = ask_receiver::State::kOver;
    return receiver.session->confirm();
}

void close_receiver(ask_receiver* receiver) {
    receiver->dismiss();
    if (receiver->of_parent()) {
        // Its descriptor is closed.
        [[maybe_unused]] const auto* const left = receiver->session.release();
    }
    delete receiver;
}

Result<> receive_all(const ask_receiver_options* options, ask_result** result) {
    if (result == nullptr) {
        return usage("the result is NULL");
    }
    *result = nullptr;
    auto opened = open_receiver(options);
    ASK_PASS(opened);
    const std::unique_ptr<ask_receiver, void (*)(ask_receiver*)> receiver(opened->release(), &close_receiver);
    auto taken = take_result(*receiver);
    ASK_PASS(taken);
    *result = taken->release();
    return confirm_result(*receiver);
}

}  // namespace

extern "C" {

int ask_receiver_open(const ask_receiver_options* options, ask_receiver** receiver) {
    return hand_out(receiver, "the receiver is NULL", [options] { return open_receiver(options); });
}

int ask_receiver_wait(ask_receiver* receiver, ask_result** result) {
    return call_with(receiver, "the receiver is NULL", [result](ask_receiver& open) -> Result<> {
        if (result == nullptr) {
            return usage("the result is NULL");
        }
        auto taken = take_result(open);
        ASK_PASS(taken);
        *result = taken->release();
        return {};
    });
}

int ask_receiver_confirm(ask_receiver* receiver) {
    return call_with(receiver, "the receiver is NULL",
                     [](ask_receiver& open) { return confirm_result(open); });
}

void ask_receiver_close(ask_receiver* receiver) {
    if (receiver != nullptr) {
        close_receiver(receiver);
    }
}

int ask_receive(const ask_receiver_options* options, ask_result** result) {
    return guarded([&] { return receive_all(options, result); });
}

const ask_columns* ask_result_columns(const ask_result* result) {
    return result == nullptr ? nullptr : &result->columns;
}

const int64_t* ask_result_counts(const ask_result* result) {
    return result == nullptr || !result->counts ? nullptr : result->counts->data();
}

int ask_result_stats(const ask_result* result, ask_task_stats* stats) {
    return guarded([&]() -> Result<> {
        if (result == nullptr || stats == nullptr) {
            return usage(result == nullptr ? "the result is NULL" : "the statistics are NULL");
        }
        ASK_PASS(ask::check_stats(stats));
        ask::put_stats(stats, result->stats, result->runs, result->senders);
        return {};
    });
}

const char* ask_result_missing(const ask_result* result, size_t i) {
    return result == nullptr || i >= result->missing.size() ? nullptr : result->missing[i].c_str();
}

void ask_result_free(ask_result* result) {
    delete result;
}

}  // extern "C"
