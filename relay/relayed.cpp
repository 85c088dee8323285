// SPDX-License-Identifier: Apache-2.0
#include "relay/relayed.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <spdlog/spdlog.h>

#include "lib/rpc/types.h"
#include "lib/text/clean.h"

namespace ask {
namespace {

// Tuples that are handed to the agent at once.
constexpr std::size_t kBatch = 256;

client::TaskOp task_op(v1::Operator op) {
    switch (op) {
        case v1::OPERATOR_MIN:
            return client::TaskOp::kMin;
        case v1::OPERATOR_MAX:
            return client::TaskOp::kMax;
        case v1::OPERATOR_COUNT:
            return client::TaskOp::kCount;
        default:
            return client::TaskOp::kSum;
    }
}

const char* name_of(int state) {
    constexpr const char* kNames[] = {"opening",   "receiving", "sending", "waiting for the parent",
                                      "committed", "failed"};
    return kNames[state];
}

}  // namespace

Relayed::Relayed(Order order) : order_(std::move(order)), thread_([this] { run(); }) {}

Relayed::~Relayed() {
    end(Error(Errc::kSwitchLost, "the relay is stopping"));
    thread_.join();
}

void Relayed::end(const Error& why) {
    {
        const std::lock_guard lock(mutex_);
        if (!end_) {
            end_ = why;
        }
    }
    cancel_.notify();
}

bool Relayed::ended() const {
    const std::lock_guard lock(mutex_);
    return state_ >= State::kCommitted;
}

void Relayed::set(State state) {
    {
        const std::lock_guard lock(mutex_);
        state_ = state;
    }
    changed_.notify_all();
}

std::optional<Result<v1::OpenRelayReply>> Relayed::await_open(Clock::time_point until) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_until(lock, until, [this] { return state_ != State::kOpening; })) {
        return std::nullopt;
    }
    if (state_ == State::kFailed) {
        return Result<v1::OpenRelayReply>(*error_);
    }
    return Result<v1::OpenRelayReply>(reply_);
}

v1::RelayedTask Relayed::describe() const {
    v1::RelayedTask task;
    task.set_task_id(clean_name(order_.request.task_id()));
    task.set_instance(order_.request.instance());
    task.set_receiver(clean_name(order_.request.receiver()));
    task.set_parent(clean_name(order_.request.parent()));
    task.set_senders(order_.request.senders());
    task.set_reserve_bytes(order_.reserve_bytes);
    task.set_age_seconds(std::chrono::duration<double>(Clock::now() - started_).count());
    const std::lock_guard lock(mutex_);
    task.set_state(name_of(static_cast<int>(state_)));
    task.set_senders_joined(progress_.senders_joined);
    task.set_senders_finished(progress_.senders_finished);
    task.set_tuples_in(progress_.stats.tuples_in);
    task.set_tuples_out(tuples_out_);
    task.set_parts(parts_);
    task.set_table_bytes_most(table_bytes_most_);
    task.set_aggregators(reply_.aggregators());
    task.set_error(error_ ? error_->text() : "");
    return task;
}

void Relayed::run() {
    auto result = run_steps();
    const std::string task = clean_name(order_.request.task_id());
    if (!result) {
        fail(result.error());
        spdlog::warn("task {}: {}", task, result.error().text());
    } else {
        const v1::RelayedTask now = describe();
        spdlog::info("task {}: committed, {} tuples sent on in {} parts, tables took {} KiB of {} at most", task,
                     now.tuples_out(), now.parts() + 1, now.table_bytes_most() >> 10U, now.reserve_bytes() >> 10U);
    }
    below_.reset();
    above_.reset();
}

// Everybody above and below hears why, and of what kind it is: whoever begins again has to know.
void Relayed::fail(const Error& error) {
    Error why = error;
    {
        const std::lock_guard lock(mutex_);
        if (end_) {
            why = *end_;
        }
        error_ = why;
    }
    if (below_) {
        below_->abandon(why);
    }
    if (above_) {
        above_->abandon(why, below_ ? below_->lost_relays() : std::vector<std::string>());
    }
    set(State::kFailed);
}

Result<> Relayed::run_steps() {
    ASK_PASS(open());
    set(State::kReceiving);
    auto result = receive();
    ASK_PASS(result);
    has_table_ = true;
    {
        const std::lock_guard lock(mutex_);
        table_bytes_most_ = result->report.table_bytes_most;
    }
    set(State::kSending);
    ASK_PASS(send_on(result->table));
    set(State::kWaiting);
    ASK_PASS(above_->finish());
    // It is in the parent's result, whatever those below come to hear.
    if (auto confirmed = below_->confirm(); !confirmed) {
        spdlog::warn("task {}: those below may report failure: {}", clean_name(order_.request.task_id()),
                     confirmed.error().text());
    }
    set(State::kCommitted);
    return {};
}

client::ReceiveOptions Relayed::receive_options() {
    const v1::OpenRelayRequest& request = order_.request;
    client::ReceiveOptions options;
    options.agent = order_.agent;
    options.task = request.own_task_id();
    options.senders = request.senders();
    options.op = task_op(request.op());
    options.deadline = std::chrono::milliseconds(request.deadline_ms());
    if (const auto geometry = geometry_fields(request.geometry()); geometry.ok()) {
        options.geometry = *geometry;
    }
    options.aggregators = request.aggregators();
    options.partial = true;
    options.reserve = order_.reserve_bytes;
    options.on_part = [this](const client::ResultMap& part) { return send_part(part); };
    options.token = request.own_token();
    options.cancel_fd = cancel_.fd();
    options.on_progress = [this](const client::TaskProgress& now) { note_below(now); };
    return options;
}

client::SendOptions Relayed::send_options() {
    const v1::OpenRelayRequest& request = order_.request;
    client::SendOptions options;
    options.agent = order_.agent;
    options.task = request.parent_task_id();
    options.to = request.parent();
    options.merge_window = 0;  // every key comes once
    options.deadline = std::chrono::milliseconds(request.deadline_ms());
    options.can_repeat = true;  // as long as all those below can
    options.partial = true;
    options.relay = request.name();
    options.token = request.parent_token();
    options.cancel_fd = cancel_.fd();
    options.on_progress = [this](const client::TaskProgress& now) { note_above(now); };
    return options;
}

Result<> Relayed::open() {
    auto below = client::ReceiveSession::open(receive_options());
    ASK_PASS(below);
    below_ = *std::move(below);
    auto above = client::SendSession::open(send_options());
    ASK_PASS(above);
    above_ = *std::move(above);
    const client::ReceiveInfo& info = below_->info();
    const std::lock_guard lock(mutex_);
    reply_.set_agent(info.agent);
    reply_.set_aggregators(info.aggregators);
    reply_.set_note(info.aggregators == 0 ? info.note : "");
    reply_.set_switch_address(info.switch_address);
    return {};
}

// About once a second while it receives: what goes on above is looked at as well.
void Relayed::note_below(const client::TaskProgress& progress) {
    {
        const std::lock_guard lock(mutex_);
        progress_ = progress;
        table_bytes_most_ = std::max(table_bytes_most_, progress.table_bytes_most);
    }
    if (!above_ || above_failed_) {
        return;
    }
    auto fine = above_->flush();
    if (fine && progress.cannot_repeat && !told_cannot_repeat_) {
        told_cannot_repeat_ = true;
        fine = above_->cannot_repeat();
    }
    if (!fine) {
        above_failed_ = fine.error();
        cancel_.notify();
    }
}

void Relayed::note_above(const client::TaskProgress& progress) {
    waits_for_ = progress.waits_for;
    show_taking();
}

// The agent takes a session that says nothing for one that hangs. Those below hear of the deepest one that is
// waited for.
void Relayed::show_taking() {
    if (has_table_) {
        below_->taking(waits_for_.empty() ? "relay " + clean_name(order_.request.name()) + " waits for " +
                                                clean_name(order_.request.parent())
                                          : waits_for_);
    }
}

Result<client::ReceiveResult> Relayed::receive() {
    auto result = below_->wait();
    if (!result && above_failed_) {
        return *above_failed_;
    }
    return result;
}

// Handed over once: what comes of it is in the parent's hands, or all of the task begins again.
Result<> Relayed::send_part(const client::ResultMap& part) {
    has_table_ = true;
    auto sent = send_on(part);
    if (sent) {
        sent = above_->flush();
    }
    if (!sent) {
        // Whatever kind it is of: it is not about the receive.
        above_failed_ = sent.error();
        return Error(Errc::kAborted, sent.error().text());
    }
    has_table_ = false;
    const std::lock_guard lock(mutex_);
    ++parts_;
    return {};
}

Result<> Relayed::send_on(const client::ResultMap& table) {
    Result<> fine;
    ASK_PASS(table.each_wide([&](std::string_view key, Wide value) {
        if (fine) {
            fine = send_pieces(key, value);
        }
    }));
    ASK_PASS(fine);
    return flush_batch();
}

// A sum that leaves int64 travels as several: only the receiver's word on the range counts.
Result<> Relayed::send_pieces(std::string_view key, Wide value) {
    constexpr Wide kMost = std::numeric_limits<std::int64_t>::max();
    constexpr Wide kLeast = std::numeric_limits<std::int64_t>::min();
    do {
        const Wide piece = std::clamp(value, kLeast, kMost);
        batch_.emplace_back(key, static_cast<std::int64_t>(piece));
        value -= piece;
        if (batch_.size() >= kBatch) {
            ASK_PASS(flush_batch());
        }
    } while (value != 0);
    return {};
}

Result<> Relayed::flush_batch() {
    ASK_PASS(above_->send(batch_));
    {
        const std::lock_guard lock(mutex_);
        tuples_out_ += batch_.size();
    }
    batch_.clear();
    show_taking();
    return {};
}

}  // namespace ask
