// SPDX-License-Identifier: Apache-2.0
//
// Streams whose receiver is here, and their windows' runs. What decides that a window is over, and whose
// first window one is, is under one lock.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "lib/base/wall_clock.h"
#include "lib/control/member/convert.h"
#include "lib/control/receive/registry.h"

namespace ask {
namespace {

StreamNow stream_now() {
    return {Clock::now(), unix_ms()};
}

// Where it is proved to be.
Result<Owner> owner_of(const Caller& caller, std::uint32_t host) {
    if (host != 0 && acts_for(caller, host)) {
        return Owner{caller.tenant, host};
    }
    if (const auto from = host_of(caller)) {
        return Owner{caller.tenant, *from};
    }
    return Error(Errc::kDenied, "nothing says which host " + describe(caller) + " is");
}

// Of what a member behind a relay has ended only that relay hears: a run waits for relays, and for hosts that
// send here themselves.
void describe_relayed(const ReceiveTask& run, v1::AgentWindow& window) {
    std::uint32_t joined = 0;
    std::uint32_t ended = 0;
    std::set<std::string> relays;
    std::map<std::uint32_t, std::uint32_t> hosts;
    for (const TaskSender& sender : run.senders) {
        joined += sender.joined ? 1 : 0;
        if (!sender.joined || !sender.fin) {
            continue;
        }
        ++ended;
        if (sender.relay.empty()) {
            ++hosts[sender.flow.channel.host];
        } else {
            relays.insert(sender.relay);
        }
    }
    std::string waits_for;
    const auto add = [&waits_for](const std::string& name) {
        waits_for += (waits_for.empty() ? "" : ", ") + name;
    };
    for (const Placed::Relay& relay : run.placed->relays()) {
        if (!relay.parent && !relays.contains(relay.name)) {
            add("relay " + relay.name);
        }
    }
    for (const Placed::Host& host : run.placed->hosts()) {
        if (!host.entry && hosts[host.address] < host.sends) {
            add(host.name);
        }
    }
    window.set_joined(joined);
    window.set_ended(ended);
    window.set_members(run.senders_expected);
    window.set_waits_for(waits_for);
}

}  // namespace

bool TaskRegistry::all_finished_locked(const ReceiveTask& task) {
    const auto is_done = [](const TaskSender& sender) {
        return sender.joined && (sender.fin || sender.missing);
    };
    if (task.here && !task.here->stream.has_known_end(task.window)) {
        return false;
    }
    if (task.here && task.placed) {
        return task.here->stream.is_oldest(task.window) && !task.here->stream.members_changed(task.window) &&
               task.senders.size() == task.senders_expected && std::ranges::all_of(task.senders, is_done);
    }
    if (task.here) {
        return task.here->stream.may_end(task.window) && std::ranges::all_of(task.senders, is_done);
    }
    return (task.too_late || task.senders.size() == task.senders_expected) &&
           std::ranges::all_of(task.senders, is_done);
}

bool TaskRegistry::begin_fetching(ReceiveTask& task) {
    const Guard lock(mutex_);
    if (!all_finished_locked(task)) {
        return false;
    }
    task.phase = TaskPhase::kFetching;
    if (task.here) {
        task.here->stream.end_run(task.window);
    }
    return true;
}

void TaskRegistry::touch_locked(StreamHere& here) {
    if (here.told == here.stream.version()) {
        return;
    }
    here.told = here.stream.version();
    here.changed.notify_all();
    here.mailbox->post(SessionEvent::Kind::kChanged);
    for (const std::uint64_t instance : here.stream.runs()) {
        if (const auto run = find_locked(instance)) {
            run->mailbox->post(SessionEvent::Kind::kChanged);
        }
    }
}

Result<> TaskRegistry::open_stream(const std::shared_ptr<StreamHere>& here) {
    const std::string& name = here->stream.terms().name;
    {
        const Guard lock(mutex_);
        forget_old_locked();
        const auto at = streams_.find(name);
        if (at != streams_.end() && !at->second->closed) {
            return Error(Errc::kExists, "stream " + name +
                                            ": the name is in use on this host; choose another, or wait "
                                            "until that stream has ended");
        }
        streams_[name] = here;
    }
    changed_.notify_all();
    return {};
}

Stream::News TaskRegistry::advance(StreamHere& here) {
    const Guard lock(mutex_);
    auto news = here.stream.advance(stream_now());
    touch_locked(here);
    return news;
}

void TaskRegistry::note_member(StreamHere& here, const v1::MemberNoted& noted) {
    const Guard lock(mutex_);
    here.stream.note(noted.member(), noted.first(), noted.last());
    touch_locked(here);
}

void TaskRegistry::take_empty(StreamHere& here, std::uint64_t window) {
    const Guard lock(mutex_);
    here.stream.commit_empty(window, stream_now());
    touch_locked(here);
}

void TaskRegistry::finish(StreamHere& here) {
    const Guard lock(mutex_);
    here.stream.finish();
    touch_locked(here);
}

void TaskRegistry::close_stream(const std::shared_ptr<StreamHere>& here) {
    const Guard lock(mutex_);
    here->closed = true;
    here->forget_at = Clock::now() + options_.lease;
    const auto at = streams_.find(here->stream.terms().name);
    const bool is_told = here->stream.is_over() || !here->cancelled.empty();
    if (!is_told && at != streams_.end() && at->second == here) {
        streams_.erase(at);
    }
    for (const auto& [id, task] : live_) {
        if (task->here == here) {
            const Error error(Errc::kAborted, "its stream has ended, or its ask-recv has");
            task->mailbox->post(SessionEvent{SessionEvent::Kind::kStreamClosed, {}, error});
        }
    }
    here->changed.notify_all();
}

Result<> TaskRegistry::begin_run(ReceiveTask& task, const std::string& stream, std::uint64_t window) {
    const Guard lock(mutex_);
    const auto at = streams_.find(stream);
    if (at == streams_.end() || at->second->closed || at->second->user != task.user) {
        return Error(Errc::kUnknown, "no stream " + clean_name(stream) + " of this user is open here");
    }
    const std::shared_ptr<StreamHere>& here = at->second;
    if (here->stream.terms().op != task.op || task.id != here->stream.task_of(window)) {
        return Error(Errc::kUsage, "stream " + stream + ": a receive of another task or operator");
    }
    ASK_PASS(here->stream.begin_run(window, task.instance, Clock::now()));
    task.here = here;
    task.window = window;
    task.members = here->members;
    touch_locked(*here);
    return {};
}

void TaskRegistry::fail_run(ReceiveTask& task) {
    const Guard lock(mutex_);
    task.here->stream.fail_run(task.window, task.instance, Clock::now());
    touch_locked(*task.here);
}

bool TaskRegistry::place_window(ReceiveTask& task, Placed placed) {
    const Guard lock(mutex_);
    Stream& stream = task.here->stream;
    if (!placed.is_for(stream.hosts_of(task.window))) {
        return false;
    }
    stream.fix_members(task.window);
    task.senders_expected = placed.direct();
    task.placed = std::move(placed);
    return true;
}

std::shared_ptr<StreamHere> TaskRegistry::find_stream_locked(const Caller& caller, const std::string& name,
                                                             const std::string& token) {
    const auto at = streams_.find(name);
    const bool known = at != streams_.end() && may_know(at->second->members, caller, token);
    return known ? at->second : nullptr;
}

Result<v1::FollowStreamReply> TaskRegistry::follow_stream(const Caller& caller,
                                                          const v1::FollowStreamRequest& request) {
    ASK_TRY(check_wire_version(request.wire_version(), "your agent"), "stream " + clean_name(request.name()));
    const auto owner = owner_of(caller, request.host());
    ASK_PASS(owner);
    if (request.member() == 0) {
        return Error(Errc::kInput, "a member must not be 0");
    }
    const Stream::Follow said{.member = request.member(),
                              .name = proved_name(caller, request.member_name()),
                              .owner = *owner,
                              .nonce = request.nonce(),
                              .committed = request.committed(),
                              .keeps = {request.keeps().begin(), request.keeps().end()},
                              .knows = {request.knows().begin(), request.knows().end()},
                              .leaves = request.leaves(),
                              .lost = request.lost(),
                              .anew = request.version() == 0};
    const Error unknown(Errc::kUnknown,
                        "no stream " + clean_name(request.name()) + " on " + options_.host_name);
    const auto until = held_until(request.wait_ms());
    Lock lock(mutex_);
    const auto find = [&] {
        auto found = find_stream_locked(caller, request.name(), request.token());
        return found && found->is_for(request) ? found : nullptr;
    };
    const auto here = find();
    if (!here) {
        // Whoever has waited says anew what it keeps, which is more if it has cut meanwhile: a stream that is
        // opened again goes by that.
        hold_back(lock, changed_, until, [&] { return find() != nullptr; });
        return unknown;
    }
    if (!may_join(here->members, caller, request.token())) {
        return Error(Errc::kDenied, "stream " + request.name() + " on " + options_.host_name +
                                        " is not for " + ask::describe(caller) +
                                        ": its ask-recv has named other hosts (--from), or wants its token "
                                        "(ask-send --token-file)");
    }
    if (here->cancelled.empty()) {
        ASK_PASS(here->stream.follow(said, stream_now()));
        touch_locked(*here);
    }
    if (!said.lost && here->cancelled.empty()) {
        hold_back(lock, here->changed, until,
                  [&] { return here->closed || here->stream.version() != request.version(); });
        here->stream.hear(said.member, Clock::now());
    }
    auto reply = here->stream.state_for(said, Clock::now());
    if (!here->cancelled.empty()) {
        here->untold.erase(said.member);
        reply.set_ended(true);
        reply.set_trouble(here->cancelled);
    } else if (here->closed && !here->stream.is_over()) {
        return unknown;
    }
    return reply;
}

bool TaskRegistry::finish_stream(const Caller& caller, const std::string& name) {
    const Guard lock(mutex_);
    const auto at = streams_.find(name);
    if (at == streams_.end() || at->second->closed || !may_use(caller, at->second->user)) {
        return false;
    }
    at->second->stream.finish();
    touch_locked(*at->second);
    return true;
}

void TaskRegistry::describe_relayed_locked(const StreamHere& here, v1::AgentStream& entry) const {
    for (const auto& [id, run] : live_) {
        const auto window =
            std::ranges::find(*entry.mutable_windows(), run->window, &v1::AgentWindow::number);
        if (run->here.get() == &here && run->placed && window != entry.mutable_windows()->end()) {
            describe_relayed(*run, *window);
        }
    }
}

std::vector<v1::AgentStream> TaskRegistry::describe_streams() {
    const Guard lock(mutex_);
    std::vector<v1::AgentStream> all;
    for (const auto& [name, here] : streams_) {
        if (!here->closed) {
            v1::AgentStream& entry = all.emplace_back(here->stream.describe(Clock::now()));
            entry.set_user(here->user);
            describe_relayed_locked(*here, entry);
        }
    }
    return all;
}

}  // namespace ask
