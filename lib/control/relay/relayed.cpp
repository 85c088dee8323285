// SPDX-License-Identifier: Apache-2.0
#include "lib/control/relay/relayed.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include <spdlog/spdlog.h>

#include "lib/text/clean.h"

namespace ask {
namespace {

// Tuples that are handed to the agent at once.
constexpr std::size_t kBatch = 256;

// What is drawn for a task's parts says nothing to people.
std::string replaced(std::string text, const std::string& drawn, const std::string& name) {
    for (auto at = text.find(drawn); at != std::string::npos && drawn != name;
         at = text.find(drawn, at + name.size())) {
        text.replace(at, drawn.size(), name);
    }
    return text;
}

const char* name_of(int state) {
    constexpr const char* kNames[] = {"opening",   "receiving", "sending", "waiting for the parent",
                                      "committed", "failed"};
    return kNames[state];
}

}  // namespace

RelayTurn::Had RelayTurn::take(Clock::time_point until, const std::function<bool()>& wanted) {
    Lock lock(mutex_);
    bool is_wanted = true;
    const bool in_time = changed_.wait_until(lock, until, [&] {
        is_wanted = wanted();
        return !is_wanted || !taken_;
    });
    if (!is_wanted) {
        return Had::kNotWanted;
    }
    if (!in_time) {
        return Had::kLate;
    }
    taken_ = true;
    return Had::kYes;
}

void RelayTurn::give_back() {
    {
        const Guard lock(mutex_);
        taken_ = false;
    }
    changed_.notify_all();
}

// Behind whoever has asked whether he is wanted, and does not wait yet.
void RelayTurn::wake() {
    {
        const Guard lock(mutex_);
    }
    changed_.notify_all();
}

Relayed::Relayed(Order order, const MakeRelaySessions& make_sessions)
    : order_(std::move(order)),
      sessions_(make_sessions(order_.request, order_.reserve_bytes,
                              {.on_below = [this](const RelayProgress& now) { note_below(now); },
                               .on_above = [this](const std::string& waits_for) { note_above(waits_for); }})),
      thread_([this] { run(); }) {}

Relayed::~Relayed() {
    stop();
    thread_.join();
}

void Relayed::stop() {
    end(Error(Errc::kSwitchLost, "the relay is stopping"));
}

void Relayed::end(const Error& why) {
    {
        const Guard lock(mutex_);
        if (!end_) {
            end_ = why;
        }
    }
    sessions_->cancel();
    order_.turn->wake();
}

bool Relayed::ended() const {
    const Guard lock(mutex_);
    return ended_;
}

bool Relayed::is_wanted() const {
    const Guard lock(mutex_);
    return !end_;
}

void Relayed::set(State state) {
    {
        const Guard lock(mutex_);
        state_ = state;
    }
    changed_.notify_all();
}

std::optional<Result<v1::OpenRelayReply>> Relayed::await_open(Clock::time_point until) {
    Lock lock(mutex_);
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
    const Guard lock(mutex_);
    task.set_state(name_of(static_cast<int>(state_)));
    task.set_senders_joined(progress_.senders_joined);
    task.set_senders_finished(progress_.senders_finished);
    task.set_tuples_in(progress_.tuples_in);
    task.set_tuples_out(tuples_out_);
    task.set_parts(parts_);
    task.set_table_bytes_most(table_bytes_most_);
    task.set_waits_for(state_ < State::kCommitted ? waits_for_ : "");
    task.set_aggregators(reply_.aggregators());
    task.set_error(error_ ? error_->text() : "");
    task.mutable_flows()->Add(flows_.begin(), flows_.end());
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
        spdlog::info("task {}: committed, {} tuples sent on in {} parts, tables took {} KiB of {} at most",
                     task, now.tuples_out(), now.parts() + 1, now.table_bytes_most() >> 10U,
                     now.reserve_bytes() >> 10U);
    }
    sessions_->close();
    {
        const Guard lock(mutex_);
        ended_ = true;
    }
    if (has_turn_) {
        order_.turn->give_back();
    }
}

// An older run may be ending still: the agent has what was its own until it has ended.
Result<> Relayed::await_turn() {
    constexpr unsigned kPart = 3;  // as long as who ordered it waits for it to open
    const std::chrono::milliseconds most(order_.request.deadline_ms() / kPart);
    const auto had = order_.turn->take(Clock::now() + most, [this] { return is_wanted(); });
    has_turn_ = had == RelayTurn::Had::kYes;
    if (had == RelayTurn::Had::kLate) {
        return Error(Errc::kDeadline, "relay " + clean_name(order_.request.name()) +
                                          ": an older run of task " + clean_name(order_.request.task_id()) +
                                          " has not ended there within " + std::to_string(most.count()) +
                                          " ms: its agent or its switch hangs");
    }
    return has_turn_ ? Result<>() : Error(Errc::kAborted, "not wanted any more");
}

// Everybody above and below hears why, and of what kind it is: whoever begins again has to know.
void Relayed::fail(const Error& error) {
    Error why = error;
    {
        const Guard lock(mutex_);
        if (end_) {
            why = *end_;
        }
        why = for_people(why);
        error_ = why;
    }
    if (below_open_) {
        sessions_->below().abandon(why);
    }
    if (above_open_) {
        sessions_->above().abandon(why, sessions_->below().lost_relays());
    }
    set(State::kFailed);
}

Error Relayed::for_people(const Error& error) const {
    const v1::OpenRelayRequest& request = order_.request;
    const std::string task = clean_name(request.task_id());
    return {error.code(), replaced(replaced(error.text(), request.own_task_id(),
                                            task + " below relay " + clean_name(request.name())),
                                   request.parent_task_id(), task)};
}

Result<> Relayed::run_steps() {
    ASK_PASS(await_turn());
    ASK_PASS(open());
    set(State::kReceiving);
    ASK_PASS(pass_on());
    set(State::kWaiting);
    ASK_PASS(sessions_->above().finish());
    // It is in the parent's result, whatever those below come to hear.
    if (auto confirmed = sessions_->below().confirm(); !confirmed) {
        spdlog::warn("task {}: those below may report failure: {}", clean_name(order_.request.task_id()),
                     confirmed.error().text());
    }
    set(State::kCommitted);
    return {};
}

// Those below first: the reply names where they find it. Then the parent, which must be open by now.
Result<> Relayed::open() {
    auto reply = sessions_->below().open();
    ASK_PASS(reply);
    below_open_ = true;
    ASK_PASS(check_switch(*reply));
    ASK_PASS(sessions_->above().open());
    above_open_ = true;
    const Guard lock(mutex_);
    reply_ = *std::move(reply);
    return {};
}

// Tuples would be added up elsewhere than planned, if anywhere.
Result<> Relayed::check_switch(const v1::OpenRelayReply& reply) const {
    const std::string& planned = order_.request.switch_address();
    if (planned.empty() || planned == reply.switch_address()) {
        return {};
    }
    const std::string name = clean_name(order_.request.name());
    return Error(Errc::kInput,
                 "relay " + name + ": its agent's switch is " +
                     (reply.switch_address().empty() ? "none" : clean_name(reply.switch_address())) +
                     ", and the plan has " + name + " at " + clean_name(planned) +
                     ": the topology's `relay` is beside another switch, or its `control` is not what that "
                     "agent's `switch` says");
}

// Table by table, each once: what comes of it is in the parent's hands, or all of the task begins again.
Result<> Relayed::pass_on() {
    for (;;) {
        auto table = receive();
        ASK_PASS(table);
        const bool last = (*table)->last();
        note_table(**table);
        if (last) {
            set(State::kSending);
        }
        has_table_ = true;
        ASK_PASS(send_on(**table));
        if (last) {
            return {};
        }
        ASK_PASS(sessions_->above().flush());
        has_table_ = false;
    }
}

void Relayed::note_table(const RelayTable& table) {
    const Guard lock(mutex_);
    parts_ += table.last() ? 0U : 1U;
    table_bytes_most_ = std::max(table_bytes_most_, table.bytes_most());
    if (table.last()) {
        flows_ = table.flows();
    }
}

// About once a second while it receives: what goes on above is looked at as well.
void Relayed::note_below(const RelayProgress& progress) {
    {
        const Guard lock(mutex_);
        progress_ = progress;
        table_bytes_most_ = std::max(table_bytes_most_, progress.table_bytes_most);
    }
    if (!above_open_ || above_failed_) {
        return;
    }
    RelayAbove& above = sessions_->above();
    auto fine = above.flush();
    if (fine && progress.cannot_repeat && !told_cannot_repeat_) {
        told_cannot_repeat_ = true;
        fine = above.cannot_repeat();
    }
    if (!fine) {
        above_failed_ = fine.error();
        sessions_->cancel();
    }
}

void Relayed::note_above(const std::string& waits_for) {
    {
        const Guard lock(mutex_);
        waits_for_ = waits_for;
    }
    show_taking();
}

// The agent takes a session that says nothing for one that hangs. Those below hear of the deepest one that is
// waited for.
void Relayed::show_taking() {
    if (!has_table_) {
        sessions_->below().alive();
    } else {
        sessions_->below().taking(waits_for_.empty() ? "relay " + clean_name(order_.request.name()) +
                                                           " waits for " + clean_name(order_.request.parent())
                                                     : waits_for_);
    }
}

Result<std::unique_ptr<RelayTable>> Relayed::receive() {
    auto table = sessions_->below().next();
    if (!table && above_failed_) {
        return *above_failed_;
    }
    return table;
}

Result<> Relayed::send_on(const RelayTable& table) {
    Result<> fine;
    ASK_PASS(table.each([&](std::string_view key, Wide value) {
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
    ASK_PASS(sessions_->above().send(batch_));
    {
        const Guard lock(mutex_);
        tuples_out_ += batch_.size();
    }
    batch_.clear();
    show_taking();
    return {};
}

}  // namespace ask
