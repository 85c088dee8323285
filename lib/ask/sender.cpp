// SPDX-License-Identifier: Apache-2.0
//
// ask.h's senders over lib/client.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "lib/abi/consts.h"
#include "lib/ask/ask.h"
#include "lib/ask/columns.h"
#include "lib/ask/handle.h"
#include "lib/ask/task.h"
#include "lib/client/send_session.h"
#include "lib/tuples/combiner.h"

struct ask_sender : ask::Handle {
    ask_sender(ask::client::SendSession opened, std::string id)
        : Handle("sender"),
          session(std::make_unique<ask::client::SendSession>(std::move(opened))),
          task(std::move(id)) {}

    std::unique_ptr<ask::client::SendSession> session;
    std::string task;
    std::optional<ask::Error> over;  // what every further call fails with
};

namespace {

using ask::Errc;
using ask::Error;
using ask::guarded;
using ask::Result;
using ask::Turn;
using ask::usage;

// More than a receiver asks for.
constexpr std::uint32_t kMostSendRuns = 4;

Result<ask::client::SendOptions> send_options_of(const ask_sender_options* from) {
    if (from == nullptr) {
        return usage("the options are NULL");
    }
    ASK_PASS(ask::check_struct_size(from->struct_size, sizeof(*from), "ASK_SENDER_OPTIONS_INIT"));
    if (from->task == nullptr || from->to == nullptr) {
        return usage(from->task == nullptr ? "the task has no name" : "the task has no host to send to");
    }
    if (from->merge_window < -1 || from->merge_window > std::int64_t{ask::Combiner::kMaxWindow}) {
        return Error(Errc::kLimit, "a merge_window of " + std::to_string(from->merge_window) +
                                       " tuples; the limit is " + std::to_string(ask::Combiner::kMaxWindow));
    }
    ask::client::SendOptions to;
    to.agent = ask::text_or_empty(from->agent);
    to.task = from->task;
    to.to = from->to;
    if (from->merge_window >= 0) {
        to.merge_window = static_cast<std::uint32_t>(from->merge_window);
    }
    to.deadline = ask::deadline_or_default(from->deadline_ms);
    if (from->sample != nullptr) {
        ASK_TRY(ask::check_columns(from->sample, false), "the sample");
        if (from->sample->rows > 0) {
            to.sample = ask::sample_columns(*from->sample, from->expected);
        }
    }
    to.can_repeat = from->can_repeat != 0;
    to.token = ask::text_or_empty(from->token);
    to.cancel_fd = from->cancel_fd;
    return to;
}

// Runs `body`, and remembers what it fails with: the task is over then.
template <typename Body>
Result<> with_session(ask_sender& sender, const Body& body) {
    if (sender.over) {
        return *sender.over;
    }
    Result<> done = body(*sender.session);
    if (!done) {
        sender.over = done.error();
    }
    return done;
}

Result<> push_checked(ask::client::SendSession& session, const ask_columns& columns) {
    return ask::each_batch(columns, 0, columns.rows,
                           [&session](std::span<const ask::Tuple> tuples) { return session.send(tuples); });
}

bool takes_values(const ask::client::SendSession& session) {
    return session.op() != ask::client::TaskOp::kCount;
}

// The whole of one run.
Result<ask::client::TaskStats> send_once(const ask::client::SendOptions& options,
                                         const ask_columns& columns) {
    auto session = ask::client::SendSession::open(options);
    ASK_PASS(session);
    if (auto checked = ask::check_columns(&columns, takes_values(*session)); !checked) {
        session->abandon(checked.error().text());
        return checked.error();
    }
    ASK_PASS(push_checked(*session, columns));
    return session->finish();
}

Result<> send_all(const ask_sender_options* from, const ask_columns* columns, ask_task_stats* stats) {
    ASK_PASS(ask::check_stats(stats));
    // Nobody else is to hear of what is wrong on its own.
    ASK_PASS(ask::check_columns(columns, false));
    if (from != nullptr && from->struct_size == sizeof(*from) && from->sample != nullptr) {
        return usage("ask_send() looks at its own columns: the sample must be NULL");
    }
    auto options = send_options_of(from);
    ASK_PASS(options);
    options->can_repeat = true;
    if (columns->rows > 0) {
        options->sample = ask::sample_columns(*columns, columns->rows);
    }
    for (std::uint32_t run = 1;; ++run) {
        auto sent = send_once(*options, *columns);
        if (sent) {
            ask::put_stats(stats, *sent, run, 1);
            return {};
        }
        if (sent.error().code() != Errc::kRunAgain || run == kMostSendRuns) {
            return std::move(sent).error();
        }
    }
}

Result<std::unique_ptr<ask_sender>> open_sender(const ask_sender_options* options) {
    auto checked = send_options_of(options);
    ASK_PASS(checked);
    auto session = ask::client::SendSession::open(*std::move(checked));
    ASK_PASS(session);
    auto made = std::make_unique<ask_sender>(*std::move(session), options->task);
    made->enlist(made->session->fds());
    return made;
}

}  // namespace

extern "C" {

int ask_sender_open(const ask_sender_options* options, ask_sender** sender) {
    return hand_out(sender, "the sender is NULL", [options] { return open_sender(options); });
}

int ask_sender_push(ask_sender* sender, const void* key, size_t key_bytes, int64_t value) {
    return call_with(sender, "the sender is NULL", [&](ask_sender& open) -> Result<> {
        if (key == nullptr && key_bytes != 0) {
            return usage("task " + open.task + ": the key is NULL");
        }
        if (key_bytes > ASK_MAX_KEY) {
            return Error(Errc::kLimit, "task " + open.task + ": a key of " + std::to_string(key_bytes) +
                                           " bytes; the limit is " + std::to_string(ASK_MAX_KEY));
        }
        const std::string_view bytes(key == nullptr ? "" : static_cast<const char*>(key), key_bytes);
        return with_session(open, [&](auto& session) { return session.send(bytes, value); });
    });
}

int ask_sender_push_columns(ask_sender* sender, const ask_columns* columns) {
    return call_with(sender, "the sender is NULL", [&](ask_sender& open) -> Result<> {
        ASK_TRY(ask::check_columns(columns, takes_values(*open.session)), "task " + open.task);
        return with_session(open, [&](auto& session) { return push_checked(session, *columns); });
    });
}

int ask_sender_flush(ask_sender* sender) {
    return call_with(sender, "the sender is NULL", [](ask_sender& open) {
        return with_session(open, [](auto& session) { return session.flush(); });
    });
}

int ask_sender_finish(ask_sender* sender, ask_task_stats* stats) {
    return call_with(sender, "the sender is NULL", [stats](ask_sender& open) -> Result<> {
        ASK_PASS(ask::check_stats(stats));
        if (open.over) {
            return *open.over;
        }
        const auto sent = open.session->finish();
        if (!sent) {
            open.over = sent.error();
            return *open.over;
        }
        ask::put_stats(stats, *sent, 1, 1);
        open.over = usage("task " + open.task + ": the sender has finished");
        return {};
    });
}

int ask_sender_abandon(ask_sender* sender, const char* reason) {
    return call_with(sender, "the sender is NULL", [reason](ask_sender& open) -> Result<> {
        if (reason == nullptr) {
            return usage("task " + open.task + ": the reason is NULL");
        }
        if (open.over) {
            return *open.over;
        }
        open.session->abandon(reason);
        open.over = Error(Errc::kAborted, "task " + open.task + ": the sender has given up: " + reason);
        return {};
    });
}

void ask_sender_close(ask_sender* sender) {
    if (sender == nullptr) {
        return;
    }
    sender->dismiss();
    if (sender->of_parent()) {
        // Its descriptors are closed, and its ring is not mapped here.
        [[maybe_unused]] const auto* const left = sender->session.release();
    }
    delete sender;
}

int ask_send(const ask_sender_options* options, const ask_columns* columns, ask_task_stats* stats) {
    return guarded([&] { return send_all(options, columns, stats); });
}

}  // extern "C"
