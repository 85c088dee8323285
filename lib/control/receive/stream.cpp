// SPDX-License-Identifier: Apache-2.0
#include "lib/control/receive/stream.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <utility>

#include "lib/abi/limits.h"
#include "lib/abi/wire.h"

namespace ask {
namespace {

// A window is open for so long before it begins, and for no more windows than so many: its members know of
// it, and while the receiver is away they go on by the clock.
constexpr milliseconds kOpenAhead{4000};
constexpr unsigned kMostAhead = 3;
// It has a run for so long, so that members can be in that when it begins.
constexpr milliseconds kRunAhead{2000};
// An application that was asked for a run and has not opened it is asked again.
constexpr milliseconds kAskAgain{5000};
constexpr milliseconds kFirstRunRetry{1000};
constexpr std::size_t kMostUnderWay = 8;  // to the directory, of a member
constexpr std::size_t kMostLeftOut = 4;   // of a member
constexpr std::size_t kMostFormer = 256;  // members that were left out
constexpr milliseconds kStreamTick{500};
// A clock that is kept right is never that far off, ms.
constexpr std::int64_t kClockStep = 1000;
// A member without a place that has not asked for so long has gone. It is a member again when it asks.
constexpr milliseconds kGone{6000};

}  // namespace

std::string utc_text(std::int64_t unix_ms) {
    const std::time_t seconds = static_cast<std::time_t>(unix_ms / 1000);
    std::tm parts{};
    gmtime_r(&seconds, &parts);
    std::array<char, 32> text{};
    const std::size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
    return {text.data(), length};
}

Stream::Stream(StreamTerms terms, const std::vector<v1::StreamMember>& members, const StreamNow& now)
    : terms_(std::move(terms)),
      opened_(now.steady),
      committed_(terms_.committed),
      is_fresh_(terms_.committed == 0 && members.empty()),
      finishing_(terms_.finishing),
      version_(terms_.version),
      newest_(terms_.committed),
      oldest_since_(now.steady),
      committed_at_(now.steady) {
    time_.set(now);
    for (const v1::StreamMember& known : members) {
        if (known.last() != 0 && known.last() <= committed_) {
            continue;
        }
        Member& member = members_[known.member()];
        member.name = known.name();
        member.first = known.first();
        member.last = known.last();
        member.lost = known.lost();
        member.noted = place_of(member);
        member.heard = now.steady;
    }
}

const Stream::Window* Stream::find(std::uint64_t number) const {
    const auto at = std::ranges::find(windows_, number, &Window::number);
    return at == windows_.end() ? nullptr : &*at;
}

Stream::Window* Stream::find(std::uint64_t number) {
    return const_cast<Window*>(std::as_const(*this).find(number));
}

std::string Stream::task_of(std::uint64_t window) const {
    std::string id = terms_.name + "-w" + std::to_string(window);
    if (!terms_.opening.empty()) {
        id += "-" + terms_.opening;
    }
    return id;
}

std::string Stream::context(std::uint64_t window) const {
    return "stream " + terms_.name + ": window " + utc_text(static_cast<std::int64_t>(window) * every_ms());
}

std::string Stream::name_of(std::uint64_t member) const {
    const auto at = members_.find(member);
    return at == members_.end() ? "" : at->second.name;
}

std::set<std::uint64_t> Stream::members() const {
    std::set<std::uint64_t> all;
    for (const auto& [id, member] : members_) {
        all.insert(id);
    }
    return all;
}

// R3, and R8 of another directory: what the member has let go of must be there.
Result<> Stream::check(const Follow& said, Clock::time_point now) const {
    const std::string stream = "stream " + terms_.name;
    if (said.nonce != 0 && said.nonce != terms_.nonce) {
        return Error(Errc::kUnsupported, stream + ": its directory is another one than the one that " +
                                             said.name + " sends to: start ask-recv with that, or " +
                                             "ask-send anew");
    }
    if (said.committed > committed_) {
        return Error(Errc::kUnsupported, stream + ": the directory has windows through " +
                                             std::to_string(committed_) + ", " + said.name +
                                             " has let go of all through " + std::to_string(said.committed) +
                                             ": this is not the directory they were committed to");
    }
    // Of what begins next, it may know of all that is told ahead.
    const auto newest = static_cast<std::uint64_t>(time_.ms(now) / every_ms()) + 1 + kMostAhead;
    const auto can_be = [&](const std::vector<std::uint64_t>& windows, std::size_t most) {
        return windows.size() <= most && std::ranges::is_sorted(windows) &&
               (windows.empty() || windows.back() <= std::max(newest, newest_));
    };
    if (!can_be(said.keeps, kOpen + 1) || !can_be(said.knows, kMostKnown)) {
        return Error(Errc::kInput, stream + ": " + said.name + " names windows that cannot be");
    }
    return {};
}

Result<> Stream::check_keeps(const Follow& said, const Member* known) const {
    for (const std::uint64_t window : said.keeps) {
        if (window > committed_ && (known == nullptr || !is_member(*known, window))) {
            return Error(Errc::kUnsupported,
                         context(window) + ": " + said.name +
                             " keeps it, and is no member of it as the directory has it: start it anew");
        }
    }
    return {};
}

Result<> Stream::follow(const Follow& said, const StreamNow& now) {
    ASK_PASS(check(said, now.steady));
    auto at = members_.find(said.member);
    if (at == members_.end()) {
        if (said.leaves || said.lost || over_) {
            return {};
        }
        ASK_PASS(check_keeps(said, nullptr));
        ASK_PASS(admit(said));
        at = members_.find(said.member);
    } else {
        if (at->second.owner.host != 0 && !(at->second.owner == said.owner)) {
            return Error(Errc::kDenied, "stream " + terms_.name + ": that member is not at " + said.name);
        }
        ASK_PASS(check_keeps(said, &at->second));
    }
    // Nothing of it is in any window, nor will be.
    if (said.lost && at->second.first == 0) {
        members_.erase(at);
        change();
        return {};
    }
    Member& member = at->second;
    member.owner = said.owner;
    member.name = said.name;
    member.keeps = said.keeps;
    member.knows = said.knows;
    if (!said.lost) {
        member.heard = now.steady;
        if (!std::exchange(member.heard_once, true)) {
            change();
        }
    }
    if (member.lost != said.lost) {
        member.lost = said.lost;
        change();
    }
    if (said.lost || said.anew) {
        note_gone(said.member);
    }
    if (said.leaves && !member.leaves) {
        take_leave(member, said);
    }
    if (!said.lost) {
        place(member);
    }
    drop_done();
    return {};
}

Result<> Stream::admit(const Follow& said) {
    if (finishing_) {
        return Error(Errc::kAborted, "stream " + terms_.name + " is finishing: it takes no new members");
    }
    if (members_.size() >= ASK_MAX_SENDERS) {
        return Error(Errc::kLimit, "stream " + terms_.name + " has " + std::to_string(ASK_MAX_SENDERS) +
                                       " members already, which is as many as it may have");
    }
    members_[said.member];
    change();
    return {};
}

// R5: what it has sent there is not all, and it does not join again.
void Stream::note_gone(std::uint64_t member) {
    for (Window& window : windows_) {
        if (window.joined.contains(member) && !window.ended.contains(member)) {
            window.gone.insert(member);
            change();
        }
    }
}

// R9: behind the window that it is in, never in it. A stream that is finishing has told it of an end already,
// or is about to: it may have gone on to that.
void Stream::take_leave(Member& member, const Follow& said) {
    member.leaves = true;
    change();
    if (finishing_ && member.last != 0) {
        return;
    }
    const std::uint64_t in = said.keeps.empty() ? 0 : said.keeps.back();
    const std::uint64_t last = std::max({in, committed_, std::uint64_t{1}});
    if (member.last == 0 || member.last > last) {
        member.last = last;
    }
}

// R6: the first window that is not over. R11: who was left out, and is heard again while windows are open
// that it is a member of, goes on in these.
void Stream::place(Member& member) {
    if (member.leaves || finishing_ || (member.first != 0 && member.last == 0)) {
        return;
    }
    if (member.first != 0 && member.last > committed_) {
        member.last = 0;
        change();
        return;
    }
    for (const Window& window : windows_) {
        if (window.stage != Stage::kOver && window.stage != Stage::kEmpty && !window.fixed) {
            member.first = window.number;
            member.last = 0;
            change();
            return;
        }
    }
}

// Nothing is asked of whoever has left, once all of its windows are committed.
void Stream::drop_done() {
    std::erase_if(members_, [&](const auto& entry) {
        const Member& member = entry.second;
        return member.last != 0 && member.last <= committed_ &&
               (is_noted(member) || member.first == 0 || member.last < member.first);
    });
}

void Stream::hear(std::uint64_t id, Clock::time_point now) {
    if (const auto at = members_.find(id); at != members_.end() && !at->second.lost) {
        at->second.heard = now;
    }
}

void Stream::note(std::uint64_t id, std::uint64_t first, std::uint64_t last) {
    const auto at = members_.find(id);
    if (at == members_.end()) {
        return;
    }
    Member& member = at->second;
    const auto there = std::ranges::find_if(
        member.under_way, [&](const Place& place) { return place.first == first && place.last == last; });
    if (there == member.under_way.end()) {
        return;
    }
    member.noted = *there;
    member.under_way.erase(member.under_way.begin(), there + 1);
    change();
    drop_done();
}

v1::FollowStreamReply Stream::state_for(const Follow& said, Clock::time_point now) const {
    v1::FollowStreamReply reply;
    reply.set_wire_version(ASK_WIRE_VERSION);
    reply.set_nonce(terms_.nonce);
    reply.set_every_ms(static_cast<std::uint32_t>(every_ms()));
    reply.set_op(terms_.op);
    reply.set_committed(committed_);
    reply.set_now_ms(static_cast<std::uint64_t>(time_.ms(now)));
    reply.set_version(version_);
    reply.set_ended(over_);
    // One that has ended in trouble was cut short.
    reply.set_trouble(over_ ? "" : trouble_);
    const auto at = members_.find(said.member);
    if (at == members_.end()) {
        if (said.leaves) {
            reply.set_last(std::max(committed_, std::uint64_t{1}));
        }
    } else {
        const Member& member = at->second;
        reply.set_first(member.noted.first);
        // Of one that was left out and is here again the end is about to be taken back.
        reply.set_last(is_noted(member) && (member.leaves || finishing_) ? member.last : 0);
        for (const Window& window : windows_) {
            const bool is_told = is_surely_member(member, window.number);
            if (window.stage == Stage::kPlanned || !is_told || window.missing.contains(said.member)) {
                continue;
            }
            v1::OpenWindow& open = *reply.add_windows();
            open.set_number(window.number);
            open.set_begins_ms(static_cast<std::uint64_t>(window.begins_ms));
            open.set_task_id(task_of(window.number));
            open.set_instance(window.instance);
        }
    }
    if (const auto left = left_out_.find(said.member); left != left_out_.end()) {
        for (const v1::LeftOut& window : left->second) {
            if (window.window() <= committed_) {
                *reply.add_left_out() = window;
            }
        }
    }
    return reply;
}

// What members keep is known once all have spoken that the directory knows; how many are to come is waited
// for only by a stream that begins.
bool Stream::gather(const StreamNow& now, News& news) {
    const bool patient = now.steady - opened_ < terms_.deadline;
    std::erase_if(members_, [&now](const auto& entry) {
        return entry.second.first == 0 && now.steady - entry.second.heard >= kGone;
    });
    std::string silent;
    for (const auto& [id, member] : members_) {
        if (member.heard_once) {
            continue;
        }
        if (terms_.allow_incomplete && !patient) {
            continue;
        }
        if (member.lost && !patient) {
            news.failure =
                Error(Errc::kSwitchLost, "stream " + terms_.name + ": " + member.name +
                                             " has ended without leaving, and what it had is lost: "
                                             "start ask-send there with its --state, or go on "
                                             "without it (--allow-incomplete)");
            return false;
        }
        silent += (silent.empty() ? "" : ", ") + member.name;
    }
    const bool few = is_fresh_ && !finishing_ && members_.size() < terms_.senders;
    const std::string trouble = !silent.empty() ? "waiting for " + silent + ", of whom the directory knows"
                                : few ? "waiting for members: " + std::to_string(members_.size()) + " of " +
                                            std::to_string(terms_.senders) + " are there"
                                      : "";
    if (trouble != trouble_) {
        trouble_ = trouble;
        change();
    }
    return silent.empty() && !few;
}

void Stream::set_first_windows(const StreamNow& now) {
    is_gathered_ = true;
    oldest_since_ = now.steady;
    std::set<std::uint64_t> kept;
    // What it knows of it may have gone on to since it spoke.
    for (const auto& [id, member] : members_) {
        for (const auto& windows : {member.keeps, member.knows}) {
            kept.insert(std::ranges::upper_bound(windows, committed_), windows.end());
        }
    }
    time_.set(now);
    const auto covers = static_cast<std::uint64_t>(time_.ms(now.steady) / every_ms());
    // R8: whoever died is named in a window that it was a member of.
    for (const auto& [id, member] : members_) {
        if (!member.heard_once && member.last > committed_) {
            kept.insert(member.last);
        } else if (!member.heard_once && member.last == 0 && finishing_ && kept.empty()) {
            kept.insert(std::max({committed_ + 1, covers, member.first}));
        }
    }
    for (const std::uint64_t window : kept) {
        plan(window, now);
    }
    if (!finishing_ && kept.empty()) {
        plan(std::max(committed_ + 1, covers), now);
    }
    plan_ahead(now);
    for (auto& [id, member] : members_) {
        if (member.heard_once) {
            place(member);
        } else {
            leave_out_unheard(id);
        }
    }
    if (finishing_) {
        end_memberships();
    }
}

// What it keeps nobody knows: it is named in all that it may have been in, and that are open should it come
// late.
void Stream::leave_out_unheard(std::uint64_t id) {
    std::uint64_t last = 0;
    for (Window& window : windows_) {
        if (is_member(members_.at(id), window.number)) {
            window.missing[id] = "not heard of when the stream began again";
            last = window.number;
        }
    }
    if (Member& member = members_.at(id); last != 0) {
        member.last = last;
        change();
    }
}

void Stream::plan(std::uint64_t number, const StreamNow& now) {
    Window window;
    window.number = number;
    window.begins_ms = static_cast<std::int64_t>(number) * every_ms();
    const Clock::time_point begins = time_.at(window.begins_ms);
    window.opens_at = std::max(begins - ahead(), now.steady);
    window.retry_at = std::max(begins - std::min(terms_.every / 2, kRunAhead), now.steady);
    windows_.push_back(std::move(window));
    newest_ = number;
    change();
}

// The clock on the wall may have gone ahead: then numbers are skipped.
void Stream::plan_next(const StreamNow& now) {
    const std::int64_t step_ms = time_.set(now);
    const auto next = static_cast<std::uint64_t>(time_.ms(now.steady) / every_ms()) + 1;
    const std::uint64_t after = std::max(newest_, committed_) + 1;
    const std::uint64_t skipped = next - std::min(next, after);
    note_clock(step_ms, skipped);
    // The clock's doing is said, and no matter of who has not committed.
    if (skipped > 0 && step_ms <= kClockStep && !windows_.empty()) {
        ++late_;
    }
    plan(std::max(after, next), now);
}

void Stream::note_clock(std::int64_t step_ms, std::uint64_t skipped) {
    const std::string by = seconds_text(milliseconds(std::abs(step_ms)));
    if (step_ms > kClockStep) {
        said_.push_back("this host's clock was set forward by " + by +
                        (skipped > 0
                             ? ": " + std::to_string(skipped) + " windows that it has passed over are skipped"
                             : ": no window is skipped"));
    } else if (step_ms < -kClockStep && !is_ahead_) {
        said_.push_back("this host's clock was set back by " + by +
                        ": windows go on ahead of it until it has caught up");
    }
    is_ahead_ = step_ms < -kClockStep;
}

milliseconds Stream::ahead() const {
    return std::min(terms_.every * kMostAhead, kOpenAhead);
}

// The next one is planned as it is to open, or as the newest begins, whatever has become of those before
// (R10).
void Stream::plan_ahead(const StreamNow& now) {
    while (!finishing_ && windows_.size() < kOpen && plans_next_at() <= now.steady) {
        plan_next(now);
    }
}

// There are always two, the one that members are in and the one that they go on to.
Clock::time_point Stream::plans_next_at() const {
    const milliseconds early = std::max(ahead() - terms_.every, milliseconds(0));
    return windows_.size() < 2 ? Clock::time_point::min() : time_.at(windows_.back().begins_ms) - early;
}

void Stream::open_windows(Clock::time_point now) {
    for (std::size_t i = 0; i < std::min(windows_.size(), kOpen); ++i) {
        if (windows_[i].stage == Stage::kPlanned && now >= windows_[i].opens_at) {
            windows_[i].stage = Stage::kIdle;
            change();
        }
    }
}

void Stream::ask_for_runs(Clock::time_point now, News& news) {
    for (std::size_t i = 0; i < std::min(windows_.size(), kRuns); ++i) {
        Window& window = windows_[i];
        const bool is_due = window.stage == Stage::kIdle && now >= window.retry_at;
        const bool is_late = window.stage == Stage::kAsked && now - window.since >= kAskAgain;
        // Numbers before it were skipped: with it the application hears when the window before it ends.
        const bool tells_end = i > 0 && window.number > windows_[i - 1].number + 1 && !window.was_asked;
        if ((!is_due && !is_late) || (!needs_run(window) && !tells_end)) {
            continue;
        }
        window.stage = Stage::kAsked;
        window.since = now;
        v1::WindowDue& due = news.due.emplace_back();
        due.set_number(window.number);
        due.set_begins_ms(static_cast<std::uint64_t>(window.begins_ms));
        due.set_again(window.failures > 0);
        due.set_task_id(task_of(window.number));
        due.set_last(finishing_ && &window == &windows_.back());
    }
}

Clock::time_point Stream::end_of_oldest() const {
    if (windows_.size() > 1) {
        return std::max(time_.at(windows_[1].begins_ms), oldest_since_);
    }
    return finishing_ ? oldest_since_ : Clock::time_point::max();
}

void Stream::end_empty(Clock::time_point now, News& news) {
    if (windows_.empty()) {
        return;
    }
    Window& window = windows_.front();
    const bool is_open = window.stage == Stage::kIdle || window.stage == Stage::kAsked;
    if (!is_open || needs_run(window) || now < end_of_oldest()) {
        return;
    }
    window.stage = Stage::kEmpty;
    v1::WindowDue& due = news.due.emplace_back();
    due.set_number(window.number);
    due.set_begins_ms(static_cast<std::uint64_t>(window.begins_ms));
    due.set_empty(true);
    due.set_last(finishing_ && windows_.size() == 1);
    due.set_ends_ms(static_cast<std::uint64_t>(windows_.size() > 1 ? windows_[1].begins_ms
                                                                   : window.begins_ms + every_ms()));
}

// Who is missing is named by a run.
bool Stream::needs_run(const Window& window) const {
    return !window.missing.empty() || !expected(window.number).empty();
}

// Nobody, as far as is known here, of one whose run goes by a plan: relays hear of members.
std::string Stream::waits_for(const Window& window) const {
    std::string names;
    if (window.fixed) {
        return names;
    }
    for (const std::uint64_t id : expected(window.number)) {
        if (!window.ended.contains(id)) {
            names += (names.empty() ? "" : ", ") + name_of(id);
        }
    }
    return names;
}

void Stream::look_after(Clock::time_point now, News& news) {
    if (windows_.empty()) {
        return;
    }
    Window& window = windows_.front();
    std::string trouble;
    const auto overdue = std::max(end_of_oldest(), window.since);
    if (window.stage == Stage::kRunning && end_of_oldest() != Clock::time_point::max() && now >= overdue) {
        for (const std::uint64_t id : expected(window.number)) {
            const Member& member = members_.at(id);
            const bool is_silent = now - member.heard >= terms_.deadline;
            // By relays nobody hears who has ended.
            const bool is_in_time = window.fixed || now - overdue < terms_.deadline;
            if (window.ended.contains(id) || (!is_silent && is_in_time)) {
                continue;
            }
            const std::string why = is_silent ? "not heard of for " + seconds_text(terms_.deadline)
                                              : "which has not ended it for " + seconds_text(terms_.deadline);
            if (terms_.allow_incomplete) {
                leave_out(window, id, why);
            } else if (is_silent && member.lost) {
                news.failure =
                    Error(Errc::kSwitchLost, context(window.number) + ": " + member.name +
                                                 " has ended without leaving, and what it had is lost: start "
                                                 "ask-send there with its --state, or let it be left out "
                                                 "(--allow-incomplete)");
            } else {
                trouble = context(window.number) + " waits for " + member.name + ", " + why +
                          ": start ask-send there, or let it be left out (--allow-incomplete)";
            }
        }
    }
    if (trouble != trouble_) {
        trouble_ = trouble;
        change();
    }
}

// R11: it stays a member of what is open, and is one of nothing after that.
void Stream::leave_out(Window& window, std::uint64_t id, const std::string& reason) {
    Member& member = members_.at(id);
    window.missing[id] = reason;
    const std::uint64_t keeps = member.keeps.empty() ? 0 : member.keeps.back();
    const std::uint64_t last = std::max({newest_open(), window.number, keeps});
    if (member.last == 0 || member.last > last) {
        member.last = last;
    }
    if (left_out_.size() >= kMostFormer && !left_out_.contains(id)) {
        left_out_.erase(left_out_.begin());
    }
    auto& windows = left_out_[id];
    if (windows.size() >= kMostLeftOut) {
        windows.erase(windows.begin());
    }
    v1::LeftOut& entry = windows.emplace_back();
    entry.set_window(window.number);
    entry.set_reason(reason);
    change();
}

std::uint64_t Stream::newest_open() const {
    std::uint64_t newest = committed_;
    for (const Window& window : windows_) {
        newest = window.stage == Stage::kPlanned ? newest : window.number;
    }
    return newest;
}

Stream::News Stream::advance(const StreamNow& now) {
    News news;
    news.next = now.steady + kStreamTick;
    if (over_) {
        news.ended = true;
        return news;
    }
    // The news of the last time have been told by now.
    for (Window& window : windows_) {
        window.was_asked = window.was_asked || window.stage == Stage::kAsked;
    }
    if (!is_gathered_ && gather(now, news)) {
        set_first_windows(now);
    }
    if (is_gathered_) {
        plan_ahead(now);
        open_windows(now.steady);
        look_after(now.steady, news);
        ask_for_runs(now.steady, news);
        end_empty(now.steady, news);
        if (finishing_ && windows_.empty()) {
            over_ = true;
            change();
        }
        for (const Window& window : windows_) {
            const auto due = window.stage == Stage::kPlanned ? window.opens_at
                             : window.stage == Stage::kIdle  ? window.retry_at
                                                             : now.steady;
            news.next = due > now.steady ? std::min(news.next, due) : news.next;
        }
        for (const auto due : {end_of_oldest(), plans_next_at()}) {
            news.next = due > now.steady ? std::min(news.next, due) : news.next;
        }
    }
    for (auto& [id, member] : members_) {
        const Place& newest = member.under_way.empty() ? member.noted : member.under_way.back();
        if (member.first != 0 && newest != place_of(member) && member.under_way.size() < kMostUnderWay) {
            member.under_way.push_back(place_of(member));
            v1::StreamMember& comes = news.comes.emplace_back();
            comes.set_member(id);
            comes.set_name(member.name);
            comes.set_first(member.first);
            comes.set_last(member.last);
            comes.set_lost(member.lost);
        }
    }
    news.ended = over_;
    news.trouble = trouble_;
    news.said = std::exchange(said_, {});
    return news;
}

Result<> Stream::begin_run(std::uint64_t number, std::uint64_t instance, Clock::time_point now) {
    Window* const window = find(number);
    if (window == nullptr || (window->stage != Stage::kAsked && window->stage != Stage::kIdle)) {
        return Error(Errc::kUnknown, "stream " + terms_.name + ": window " + std::to_string(number) +
                                         " is not to be run now");
    }
    window->stage = Stage::kRunning;
    window->was_asked = true;
    window->instance = instance;
    window->since = now;
    window->joined.clear();
    window->ended.clear();
    window->gone.clear();
    window->fixed.reset();
    change();
    return {};
}

void Stream::fix_members(std::uint64_t number) {
    if (Window* const window = find(number); window != nullptr) {
        window->fixed = expected(number);
    }
}

bool Stream::members_changed(std::uint64_t number) const {
    const Window* const window = find(number);
    return window != nullptr && window->fixed &&
           (!window->gone.empty() || *window->fixed != expected(number));
}

std::map<std::uint32_t, std::uint32_t> Stream::hosts_of(std::uint64_t number) const {
    std::map<std::uint32_t, std::uint32_t> hosts;
    for (const std::uint64_t id : expected(number)) {
        ++hosts[members_.at(id).owner.host];
    }
    return hosts;
}

bool Stream::is_oldest(std::uint64_t number) const {
    return !windows_.empty() && windows_.front().number == number;
}

bool Stream::has_known_end(std::uint64_t number) const {
    const auto next = std::ranges::upper_bound(windows_, number, {}, &Window::number);
    if (next == windows_.end() || next->was_asked) {
        return true;
    }
    return next->number == number + 1 && (next->stage == Stage::kPlanned || !needs_run(*next));
}

// The first and the second time it begins again at once.
void Stream::fail_run(std::uint64_t number, std::uint64_t instance, Clock::time_point now) {
    Window* const window = find(number);
    if (window == nullptr || window->instance != instance) {
        return;
    }
    window->stage = Stage::kIdle;
    window->instance = 0;
    window->joined.clear();
    window->ended.clear();
    window->gone.clear();
    window->fixed.reset();
    ++window->failures;
    ++failed_runs_;
    if (window->failures > 2) {
        const unsigned doublings = std::min(window->failures - 3, 16U);
        const milliseconds longest = std::max(terms_.every, kFirstRunRetry);
        window->retry_at = now + std::min(kFirstRunRetry * (1U << doublings), longest);
    }
    change();
}

void Stream::end_run(std::uint64_t number) {
    if (Window* const window = find(number); window != nullptr && window->stage == Stage::kRunning) {
        window->stage = Stage::kOver;
    }
}

void Stream::commit(std::uint64_t number, std::uint64_t instance, const StreamNow& now) {
    if (windows_.empty() || windows_.front().number != number || windows_.front().instance != instance) {
        return;
    }
    ++(windows_.front().missing.empty() ? whole_ : incomplete_);
    take_away_oldest(now);
}

void Stream::commit_empty(std::uint64_t number, const StreamNow& now) {
    if (windows_.empty() || windows_.front().number != number || windows_.front().stage != Stage::kEmpty) {
        return;
    }
    ++empty_;
    take_away_oldest(now);
}

void Stream::take_away_oldest(const StreamNow& now) {
    committed_ = windows_.front().number;
    windows_.pop_front();
    oldest_since_ = committed_at_ = now.steady;
    plan_ahead(now);
    drop_done();
    change();
}

std::set<std::uint64_t> Stream::expected(std::uint64_t number) const {
    const Window* const window = find(number);
    std::set<std::uint64_t> all;
    for (const auto& [id, member] : members_) {
        if (is_member(member, number) && (window == nullptr || !window->missing.contains(id))) {
            all.insert(id);
        }
    }
    return all;
}

Result<> Stream::check_member(std::uint64_t number, std::uint64_t id, const Caller& caller) const {
    const auto at = members_.find(id);
    const Window* const window = find(number);
    if (window == nullptr || at == members_.end() || !expected(number).contains(id)) {
        return Error(Errc::kAborted, context(number) +
                                         " is not for that member: it is committed, or goes "
                                         "without it");
    }
    if (!owns(caller, at->second.owner)) {
        return Error(Errc::kDenied,
                     context(number) + ": member " + at->second.name + " is not at " + ask::describe(caller));
    }
    return {};
}

Result<> Stream::may_join(std::uint64_t number, std::uint64_t id, const Caller& caller) const {
    ASK_PASS(check_member(number, id, caller));
    return find(number)->joined.contains(id)
               ? Result<>(Error(Errc::kAborted,
                                context(number) + ": " + name_of(id) + " has joined this run already"))
               : Result<>();
}

void Stream::joined(std::uint64_t number, std::uint64_t member) {
    if (Window* const window = find(number); window != nullptr) {
        window->joined.insert(member);
    }
}

void Stream::not_joined(std::uint64_t number, std::uint64_t member) {
    if (Window* const window = find(number); window != nullptr) {
        window->joined.erase(member);
    }
}

void Stream::ended(std::uint64_t number, std::uint64_t member) {
    if (Window* const window = find(number); window != nullptr) {
        window->ended.insert(member);
    }
}

bool Stream::has_gone(std::uint64_t number, std::uint64_t member) const {
    const Window* const window = find(number);
    return window != nullptr && window->gone.contains(member);
}

std::vector<std::uint64_t> Stream::runs() const {
    std::vector<std::uint64_t> all;
    all.reserve(windows_.size());
    for (const Window& window : windows_) {
        if (window.instance != 0) {
            all.push_back(window.instance);
        }
    }
    return all;
}

bool Stream::may_end(std::uint64_t number) const {
    if (!is_oldest(number)) {
        return false;
    }
    const std::set<std::uint64_t> all = expected(number);
    return std::ranges::includes(windows_.front().ended, all);
}

std::string Stream::missing(std::uint64_t number, std::uint64_t member) const {
    const Window* const window = find(number);
    if (window == nullptr) {
        return "";
    }
    const auto at = window->missing.find(member);
    return at == window->missing.end() ? "" : at->second;
}

std::vector<Stream::Missing> Stream::all_missing(std::uint64_t number) const {
    std::vector<Missing> all;
    if (const Window* const window = find(number); window != nullptr) {
        all.reserve(window->missing.size());
        for (const auto& [member, reason] : window->missing) {
            all.push_back({member, name_of(member), reason});
        }
    }
    return all;
}

// Members hear by the end of their membership that they are to end these.
void Stream::finish() {
    if (std::exchange(finishing_, true)) {
        return;
    }
    while (!windows_.empty() && windows_.back().stage == Stage::kPlanned) {
        windows_.pop_back();
    }
    if (is_gathered_) {
        end_memberships();
    }
    change();
}

void Stream::end_memberships() {
    const std::uint64_t last =
        std::max(windows_.empty() ? committed_ : windows_.back().number, std::uint64_t{1});
    for (auto& [id, member] : members_) {
        if (member.last == 0 || member.last > last) {
            member.last = last;
            change();
        }
    }
    drop_done();
}

v1::AgentStream Stream::describe(Clock::time_point now) const {
    v1::AgentStream entry;
    const auto ago = [now](Clock::time_point when) {
        return std::chrono::duration<double>(now - when).count();
    };
    entry.set_name(terms_.name);
    entry.set_role("receiver");
    entry.set_every_ms(static_cast<std::uint32_t>(every_ms()));
    entry.set_state(over_          ? "ended"
                    : finishing_   ? "finishing"
                    : is_gathered_ ? "running"
                                   : "waiting for members");
    entry.set_committed(committed_);
    entry.set_committed_seconds_ago(ago(committed_at_));
    for (const Window& window : windows_) {
        if (window.stage == Stage::kPlanned) {
            continue;
        }
        v1::AgentWindow& open = *entry.add_windows();
        open.set_number(window.number);
        open.set_begins_ms(static_cast<std::uint64_t>(window.begins_ms));
        open.set_state(window.stage == Stage::kOver      ? "over"
                       : window.stage == Stage::kRunning ? "open"
                                                         : "due");
        open.set_joined(static_cast<std::uint32_t>(window.joined.size()));
        open.set_ended(static_cast<std::uint32_t>(window.ended.size()));
        open.set_members(static_cast<std::uint32_t>(expected(window.number).size()));
        open.set_waits_for(waits_for(window));
    }
    for (const auto& [id, known] : members_) {
        v1::AgentStreamMember& member = *entry.add_members();
        member.set_member(id);
        member.set_name(known.name);
        member.set_first(known.first);
        member.set_last(known.last);
        member.set_heard_seconds_ago(ago(known.heard));
        member.set_lost(known.lost);
    }
    entry.set_whole(whole_);
    entry.set_incomplete(incomplete_);
    entry.set_empty(empty_);
    entry.set_failed_runs(failed_runs_);
    entry.set_late(late_);
    entry.set_trouble(trouble_);
    return entry;
}

}  // namespace ask
