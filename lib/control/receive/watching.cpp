// SPDX-License-Identifier: Apache-2.0
//
// A receive while its senders send: who has come, who is silent, whose packets go astray.
#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>

#include "lib/control/member/convert.h"
#include "lib/control/member/patience.h"
#include "lib/control/receive/receiving.h"

namespace ask {
namespace {

constexpr milliseconds kWatchEvery{1000};

}  // namespace

// Until every sender's FIN is in.
Result<> Receiving::collect() {
    Clock::time_point next_tick = Clock::now();
    while (!member_.registry.begin_fetching(*task_)) {
        if (auto fine = open_wanted(); !fine) {
            return fine;
        }
        if (auto fine = check_senders(); !fine) {
            return fine;
        }
        if (Clock::now() >= next_tick) {
            next_tick = Clock::now() + kSessionTick;
            if (auto fine = watch_flows(); !fine) {
                return fine;
            }
            const TaskPhase phase =
                member_.registry.with(*task_, [](const ReceiveTask& task) { return task.phase; });
            show_progress(to_string(phase));
        }
        if (auto fine = wait_and_handle(next_tick); !fine) {
            return fine;
        }
    }
    return {};
}

Result<> Receiving::wait_and_handle(Clock::time_point until) {
    auto wake = io_.wait(until);
    if (!wake) {
        if (parts_) {
            parts_->end();
        }
        if (io_.application_gone()) {
            return Error(Errc::kAborted, "task " + task_->id + " was cancelled");
        }
        return std::move(wake).error().with_context("task " + task_->id);
    }
    auto fine = handle(*wake);
    if (fine && parts_) {
        fine = go_on_with_parts();
    }
    if (!fine && parts_) {
        parts_->end();
    }
    return fine;
}

Result<> Receiving::handle(const SessionIo::Wake& wake) {
    for (const SessionEvent& event : wake.events) {
        if (event.kind == SessionEvent::Kind::kFin) {
            note_fin(event.channel);
        }
        if (event.kind == SessionEvent::Kind::kPartFull && parts_) {
            parts_->note_full(event.channel);
        }
        if (event.kind == SessionEvent::Kind::kSwitchLost) {
            note_lost(event.mark);
        }
        if (event.error) {
            return Error(*event.error).with_context("task " + task_->id);
        }
    }
    if (wake.request && parts_ && (wake.request->has_taking() || wake.request->has_part_taken())) {
        return handle_part_request(*wake.request);
    }
    if (wake.request) {
        return Error(Errc::kInput, "the application sent a request that does not fit a receive under way");
    }
    return {};
}

void Receiving::note_fin(ChannelId channel) {
    member_.registry.with(*task_, [&](ReceiveTask& task) {
        for (TaskSender& sender : task.senders) {
            if (sender.flow.channel == channel) {
                sender.fin = true;
                if (task.here && sender.member != 0) {
                    task.here->stream.ended(task.window, sender.member);
                }
                spdlog::log(task.log_level(), "task {}: sender {} has finished", task.id, sender.name);
            }
        }
    });
}

// Nobody is waited for in silence.
Result<> Receiving::check_senders() {
    auto fine = member_.registry.with(*task_, [&](ReceiveTask& task) -> Result<> {
        if (task.here && task.here->stream.members_changed(task.window)) {
            return Error(Errc::kRunAgain, "its members are no longer those that it was placed for");
        }
        for (TaskSender& sender : task.senders) {
            if (task.here) {
                if (const auto there = check_member(task, sender); !there) {
                    return blame(sender, there.error());
                }
                continue;
            }
            auto alive = check_sender(task, sender);
            if (!alive && !request_.allow_incomplete()) {
                return blame(sender, alive.error());
            }
            if (!alive && !sender.fin && !sender.missing) {
                sender.missing = alive.error().text();
                spdlog::warn("task {}: goes on without sender {}, which {}", task.id, sender.name,
                             *sender.missing);
            }
        }
        return {};
    });
    ASK_PASS(fine);
    auto joined = member_.registry.with(*task_, [&](ReceiveTask& task) { return check_joined(task); });
    return joined ? joined : explain_missing(joined.error());
}

// A relay that has gone had others' tuples, as a switch that has lost what it had.
Error Receiving::blame(const TaskSender& sender, const Error& why) {
    const std::string text = (sender.relay.empty() ? "sender " + sender.name
                                                   : "relay " + sender.relay + ", " + sender.name + ",") +
                             " " + why.text();
    const bool gone =
        !sender.left || sender.left->code() == Errc::kSwitchLost || sender.left->code() == Errc::kRunAgain;
    if (sender.relay.empty() || !gone) {
        return {why.code(), text};
    }
    lost_relays_ = sender.lost_relays.empty() ? std::vector{sender.relay} : sender.lost_relays;
    return {Errc::kSwitchLost, text};
}

// Whoever could not join because a switch took nobody in is not to blame.
Error Receiving::explain_missing(const Error& missing) {
    for (const TaskSwitch& at : task_->switches) {
        auto away = probe_switch(at);
        if (!away) {
            return std::move(away).error();
        }
        if (*away) {
            return {missing.code(), missing.text() + ", and " + (*away)->text()};
        }
    }
    return missing;
}

Result<> Receiving::check_sender(const ReceiveTask& task, const TaskSender& sender) {
    if (sender.left) {
        return Error(sender.left->code(), "gave up: " + sender.left->text());
    }
    // Those that send to a relay turn here when it is silent for a deadline: the task is to be about to begin
    // again.
    const milliseconds patience = sender.relay.empty() ? task.deadline : task.deadline / 2;
    if (sender.joined && !sender.fin && Clock::now() - sender.last_heard > patience) {
        return Error(Errc::kDeadline, "has not been heard of for " + seconds_text(patience));
    }
    return {};
}

// Of a window: the stream says who is left out. Whoever has joined and is lost has all of the window once
// more, and so have the others.
Result<> Receiving::check_member(const ReceiveTask& task, TaskSender& sender) {
    if (const std::string why = task.here->stream.missing(task.window, sender.member); !why.empty()) {
        sender.missing = why;
        return {};
    }
    const Result<> alive = task.here->stream.has_gone(task.window, sender.member) && !sender.fin
                               ? Result<>(Error(Errc::kAborted, "has lost its session, and begins again"))
                               : check_sender(task, sender);
    return alive ? Result<>() : Error(Errc::kRunAgain, alive.error().text());
}

Result<> Receiving::check_joined(ReceiveTask& task) const {
    if (task.here) {
        return {};
    }
    std::string joined;
    std::uint32_t count = 0;
    for (const TaskSender& sender : task.senders) {
        if (sender.joined) {
            ++count;
            joined += (joined.empty() ? "" : ", ") + sender.name;
        }
    }
    if (task.too_late || count >= task.senders_expected || Clock::now() - task.opened <= task.deadline) {
        return {};
    }
    if (request_.allow_incomplete() && count > 0) {
        spdlog::warn("task {}: goes on without {} senders that never joined", task.id,
                     task.senders_expected - count);
        std::erase_if(task.senders, [](const TaskSender& sender) { return !sender.joined; });
        task.too_late = true;
        return {};
    }
    return Error(Errc::kDeadline, "task " + task.id + ": " + std::to_string(count) + " of " +
                                      std::to_string(task.senders_expected) + " senders joined within " +
                                      seconds_text(task.deadline) +
                                      (joined.empty() ? "" : ": only " + joined));
}

Result<> Receiving::watch_flows() {
    const auto now = Clock::now();
    if (now < next_watch_) {
        return {};
    }
    next_watch_ = now + std::min(kWatchEvery, task_->deadline / 4);
    const auto senders = member_.registry.with(*task_, [](const ReceiveTask& task) { return task.senders; });
    for (const TaskSender& sender : senders) {
        if (!sender.joined) {
            continue;
        }
        const FlowRxStats stats = flow_stats(sender.flow.channel);
        note_receiver_part(sender, stats);
        if (!sender.fin && !sender.missing) {
            ASK_PASS(check_marks(sender, stats));
        }
    }
    return check_unjoined();
}

// Members of a window that cannot register at its switch, because that is away, cannot join: they are not to
// blame.
Result<> Receiving::check_unjoined() {
    const bool any = member_.registry.with(*task_, [](const ReceiveTask& task) {
        if (!task.here || task.placed || Clock::now() - task.opened <= task.deadline) {
            return false;
        }
        const auto joined = std::ranges::count_if(task.senders, &TaskSender::joined);
        return static_cast<std::size_t>(joined) < task.here->stream.expected(task.window).size();
    });
    if (!any) {
        return {};
    }
    for (const TaskSwitch& at : task_->switches) {
        auto away = probe_switch(at);
        if (!away) {
            return std::move(away).error();
        }
        if (*away) {
            note_lost(at.mark);
            return Error(Errc::kSwitchLost, "members cannot join it: " + (*away)->text());
        }
    }
    return {};
}

void Receiving::note_receiver_part(const TaskSender& sender, const FlowRxStats& stats) {
    member_.registry.with(*task_, [&](ReceiveTask& task) {
        for (TaskSender& entry : task.senders) {
            if (entry.sender == sender.sender) {
                set_receiver_part(entry.stats, stats);
            }
        }
    });
}

// A flow of which only packets with a wrong mark come makes no progress. Until that has lasted for the
// deadline, its sender is told what is the matter.
Result<> Receiving::check_marks(const TaskSender& sender, const FlowRxStats& stats) {
    MarkWatch& watch = marks_[sender.sender];
    // What the switch acknowledges passed it, though nothing of it comes here.
    watch.note(Clock::now(), stats.packets_accepted + sender.stats.packets_acked_by_switch(),
               stats.packets_bad_mark + stats.packets_other_switch);
    const std::string strays = strays_text(stats.packets_bad_mark, stats.packets_other_switch);
    if (watch.persists(task_->deadline)) {
        return explain_strays(sender, strays);
    }
    member_.registry.set_trouble(*task_, sender.sender, watch.only_bad() ? strays : "");
    return {};
}

Error Receiving::explain_strays(const TaskSender& sender, const std::string& strays) {
    const std::string text = "sender " + sender.name + ": " + strays;
    const std::string advice = ": make its route to this host lead through ";
    const TaskSwitch* at = find_switch(task_->switches, sender.flow.mark);
    if (at == nullptr) {
        at = offered_switch(task_->switches);
    }
    if (at == nullptr) {
        return {Errc::kAborted, text + advice + "the switch"};
    }
    // One that aggregates goes on doing so while its daemon is away: here even its programs are.
    auto away = probe_switch(*at);
    if (!away) {
        return std::move(away).error();
    }
    if (*away) {
        note_lost(at->mark);
        return {Errc::kSwitchLost, text + ", and " + (*away)->text()};
    }
    return {Errc::kAborted, text + advice + at->client->name()};
}

}  // namespace ask
