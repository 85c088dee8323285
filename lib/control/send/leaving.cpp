// SPDX-License-Identifier: Apache-2.0
//
// How a send ends: what it tells its application, the receiver and the switch.
#include <utility>

#include <spdlog/spdlog.h>

#include "lib/base/log_fields.h"
#include "lib/base/probe.h"
#include "lib/base/random.h"
#include "lib/control/member/convert.h"
#include "lib/control/member/patience.h"
#include "lib/control/send/sending.h"

namespace ask {
namespace {

constexpr milliseconds kGoodbyeWait{1000};
constexpr milliseconds kLastAckWait{2000};

}  // namespace

Result<> Sending::report_done() {
    v1::LocalReply reply;
    v1::Done& done = *reply.mutable_done();
    *done.mutable_stats() = outcome_->stats();
    done.set_seconds(std::chrono::duration<double>(Clock::now() - started_).count());
    // The result is committed, whether the application still listens or not.
    if (auto told = io_.reply(reply); !told) {
        spdlog::warn("task {}: its application did not take the result: {}", request_.task_id(),
                     told.error().text());
    }
    // The receiver has everything, so it acknowledges the FIN if only it hears it again.
    const auto until = Clock::now() + kLastAckWait;
    while (!fin_acked_ && Clock::now() < until) {
        for (const SessionEvent& event : io_.mailbox()->take()) {
            if (event.kind == SessionEvent::Kind::kFinAcked) {
                note_fin_acked();
            }
        }
        if (!fin_acked_) {
            io_.wait_mailbox(until);
        }
    }
    put_channel_back(fin_acked_);
    member_.totals.committed(TaskRole::kSender, done.seconds(), done.stats());
    ASK_PROBE(send_committed, request_.task_id().c_str(), offer_.instance(), done.stats().tuples_in(),
              done.stats().packets_sent(), done.stats().retransmissions());
    const LogAbout how = LogAbout::code(0);
    spdlog::log(log_level(), "task {}: sent to {} and committed: {}", request_.task_id(), peer_,
                figures_of(done.stats(), done.seconds()));
    return {};
}

void Sending::give_up(const Error& error) {
    member_.totals.failed(TaskRole::kSender, error.code());
    ASK_PROBE(send_failed, request_.task_id().c_str(), offer_.instance(), static_cast<int>(error.code()),
              error.text().c_str());
    {
        const LogAbout how = LogAbout::code(static_cast<int>(error.code()));
        spdlog::warn("task {}: send to {} failed: {}", clean_name(request_.task_id()),
                     peer_.empty() ? clean_name(request_.to()) : peer_, error.text());
    }
    io_.fail(error);
    if (renew_) {
        renew_->cancel();
    }
    if (joined_ && !outcome_) {
        leave(error);
    }
    if (told_ && (!joined_ || by_relay_)) {
        give_place_back(error);
    }
    member_.channels.withdraw(io_.mailbox());
    put_channel_back(!streaming_);
}

void Sending::leave(const Error& reason) {
    v1::LeaveRequest request;
    request.set_instance(offer_.instance());
    request.set_sender(sender_);
    request.set_reason(reason.text());
    if (request_.partial()) {
        // What an application that has gone or hangs had of others is lost, as in a switch.
        const bool is_lost = io_.application_gone() || io_.application_hangs() || io_.stopping();
        request.set_code(static_cast<std::int32_t>(is_lost ? Errc::kSwitchLost : reason.code()));
        request.mutable_lost_relays()->Add(io_.lost_relays().begin(), io_.lost_relays().end());
    }
    const auto left = receiver_->leave(request, kGoodbyeWait);
    if (!left.ok()) {
        // It finds out by our silence.
        spdlog::warn("task {}: {}", request_.task_id(), left.error().text());
    }
}

// The receiver knows of no sender that has not joined, but has counted it if its task has a placement.
void Sending::give_place_back(const Error& reason) {
    v1::LeaveRequest request;
    request.set_instance(*told_);
    request.set_sender(sender_);
    request.set_reason(reason.text());
    const auto left = member_.network.peer_at(root_.control, root_.name)->leave(request, kGoodbyeWait);
    if (!left.ok()) {
        spdlog::warn("task {}: {}", clean_name(request_.task_id()), left.error().text());
    }
}

Result<> Sending::unregister(CallCancel* cancel) {
    const auto client = member_.network.switch_at(lease_->switch_address);
    const std::uint32_t as = lease_->registered_as != 0 ? lease_->registered_as : lease_->incarnation;
    auto gone = client->unregister_channel(lease_->id, as, kGoodbyeWait, cancel);
    if (!gone) {
        spdlog::warn("channel {}: {}", lease_->id.port, gone.error().text());
        return gone;
    }
    lease_->forget_registration();
    return {};
}

// Packets of a task that was given up may still be under way: the channel goes on under a new incarnation.
void Sending::put_channel_back(bool clean) {
    if (!lease_) {
        return;
    }
    if (!clean) {
        const std::uint32_t incarnation = random_u32();
        const auto abandoned = member_.workers.abandon(lease_->id, incarnation);
        if (lease_->registered.switch_id != 0) {
            // Failing that, the next task registers the new incarnation in its place, or SwitchKeeper
            // unregisters this one.
            const auto gone = unregister();
            if (!gone.ok() && lease_->registered_as == 0) {
                lease_->registered_as = lease_->incarnation;
            }
        }
        if (abandoned.ok()) {
            lease_->incarnation = incarnation;
        }
    }
    member_.channels.release(std::move(*lease_));
    lease_.reset();
}

}  // namespace ask
