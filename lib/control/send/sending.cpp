// SPDX-License-Identifier: Apache-2.0
//
// The way of a send from step to step, and what its steps share.
#include "lib/control/send/sending.h"

#include <algorithm>
#include <utility>

#include "lib/base/random.h"
#include "lib/control/member/convert.h"
#include "lib/control/member/patience.h"
#include "lib/net/host_book.h"

namespace ask {
namespace {

constexpr milliseconds kRetryPause{200};

}  // namespace

Sending::Sending(Member& member, SessionIo& io, v1::OpenSend request)
    : member_(member),
      io_(io),
      request_(std::move(request)),
      sender_(random_u64()),
      can_repeat_(request_.can_repeat()) {}

void Sending::run() {
    describe("looking for the task");
    auto result = run_within_limits([this] { return run_steps(); });
    v1::AgentTask ended = description(result ? "committed" : "failed");
    if (!result) {
        ended.set_error(clean_text(result.error().text()));
        give_up(result.error());
    }
    member_.sends.remove(sender_);
    if (!result || !is_window()) {
        member_.history.add(std::move(ended));
    }
}

Result<> Sending::run_steps() {
    if (auto valid = check_task_id(request_.task_id()); !valid) {
        return valid;
    }
    const auto deadline = task_deadline(request_.deadline_ms(), member_.options.deadline_seconds);
    ASK_TRY(deadline, "task " + request_.task_id());
    deadline_ = *deadline;
    if (request_.answers_progress()) {
        io_.expect_answers(deadline_, answering_name(request_.partial()));
    }
    give_up_at_ = Clock::now() + deadline_;
    if (auto found = find_receiver(); !found) {
        return found;
    }
    if (auto joined = join_task(); !joined) {
        return joined;
    }
    if (auto committed = stream_to_commit(); !committed) {
        return committed;
    }
    return report_done();
}

Result<> Sending::find_receiver() {
    auto resolved =
        ask([&](CallCancel* /*cancel*/) { return member_.network.resolve(request_.to(), io_.user()); });
    ASK_PASS(resolved);
    auto& host = *resolved;
    ASK_PASS(host);
    root_.address = host->address;
    const std::string shown = format_host(root_.address);
    root_.name = request_.to() == shown ? shown : clean_name(request_.to()) + " (" + shown + ")";
    // By loopback it would not be this host that asks.
    const bool own = root_.address == member_.options.address || member_.network.is_own(root_.address);
    root_.control = control_address(own ? member_.options.address : root_.address, host->port);
    root_.token = request_.token();
    turn_to(root_);
    return {};
}

void Sending::turn_to(const Peer& peer) {
    peer_address_ = peer.address;
    peer_ = peer.name;
    peer_control_ = peer.control;
    token_ = peer.token;
    local_ = peer_address_ == member_.options.address || member_.network.is_own(peer_address_);
    renew_.reset();
    receiver_ = member_.network.peer_at(peer_control_, peer_);
    renew_ = receiver_->renewal(io_.mailbox());
}

Result<> Sending::listen(Clock::time_point until) {
    auto wake = io_.wait(until);
    if (!wake) {
        return std::move(wake).error();
    }
    if (wake->request) {
        return Error(Errc::kInput, "the application sent a request before the stream was ready");
    }
    return {};
}

void Sending::show_waiting() {
    v1::Progress progress;
    progress.set_state(trouble_);
    io_.progress(progress);
}

Result<> Sending::pause() {
    const auto until = std::min(Clock::now() + kRetryPause, give_up_at_);
    while (Clock::now() < until) {
        ASK_PASS(listen(until));
    }
    show_waiting();
    return {};
}

void Sending::describe(const std::string& state) {
    member_.sends.put(sender_,
                      {description(state), lease_ ? lease_->id.port : std::uint16_t{0}, io_.mailbox()});
}

v1::AgentTask Sending::description(const std::string& state) const {
    v1::AgentTask task;
    // It may be no valid one.
    task.set_id(clean_name(request_.task_id()));
    task.set_instance(offer_.instance());
    task.set_role("sender");
    task.set_user(io_.user());
    task.set_state(state);
    task.set_op(offer_.op());
    *task.mutable_geometry() = offer_.geometry();
    task.set_whole_keys(whole_keys_);
    task.set_max_rate(request_.max_rate());
    task.set_peer(peer_.empty() ? clean_name(request_.to()) : peer_);
    task.set_age_seconds(std::chrono::duration<double>(Clock::now() - started_).count());
    if (streaming_ || fin_acked_) {
        set_sender_part(*task.mutable_stats(), fin_acked_ ? final_stats_ : stream_state().stats,
                        member_.options.address);
    }
    return task;
}

}  // namespace ask
