// SPDX-License-Identifier: Apache-2.0
//
// A stream without an end, at its receiver: which windows are open, who is a member of which, and when each
// may end (docs/design/windows.md; its rules R1 to R11 are named where they are kept). It decides, and does
// nothing: what it wants done is in its News. Not thread-safe: the registry's mutex guards it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/runtime.h"
#include "lib/control/member/patience.h"
#include "lib/rpc/owner.h"
#include "proto/agent.pb.h"
#include "proto/local.pb.h"

namespace ask {

// A moment, by the clock that nobody sets and by the time of day.
struct StreamNow {
    Clock::time_point steady;
    std::int64_t wall_ms = 0;
};

struct StreamTerms {
    std::string name;
    milliseconds every{1000};
    v1::Operator op = v1::OPERATOR_SUM;
    std::uint32_t senders = 0;  // members to wait for before the first window
    milliseconds deadline{30000};
    bool allow_incomplete = false;
    std::uint64_t nonce = 0;      // the directory's
    std::uint64_t committed = 0;  // the last window there; 0: none
    std::uint64_t version = 1;    // to begin with: another one than a stream of that name has had
    bool finishing = false;       // no windows but those that members still keep
    // Ends the windows' task ids: a switch knows those of an agent that has died for a while. Empty: none
    // does.
    std::string opening{};
};

// The time of day as windows have it: goes on by the steady clock when the wall clock is set back, and
// follows that ahead, but only when a window is set.
class StreamTime {
 public:
    // By how much the wall clock was set since the last time.
    std::int64_t set(const StreamNow& now) {
        const std::int64_t step = is_set_ ? now.wall_ms - ms(now.steady) : 0;
        ms_ = is_set_ ? std::max(now.wall_ms, ms(now.steady)) : now.wall_ms;
        steady_ = now.steady;
        is_set_ = true;
        return step;
    }
    [[nodiscard]] std::int64_t ms(Clock::time_point when) const {
        return ms_ + std::chrono::floor<milliseconds>(when - steady_).count();
    }
    [[nodiscard]] Clock::time_point at(std::int64_t ms) const { return steady_ + milliseconds(ms - ms_); }

 private:
    bool is_set_ = false;
    std::int64_t ms_ = 0;
    Clock::time_point steady_{};
};

class Stream {
 public:
    static constexpr std::size_t kLongestName = 40;
    // Open at a time (R10): a member that is away holds the others back no sooner than by so many.
    static constexpr std::size_t kOpen = 8;
    // Of these, the oldest so many have a run, which takes memory at the switch and a channel at each member.
    static constexpr std::size_t kRuns = 2;
    // Not committed, that a member has heard of: from receivers that began again with other ones, too.
    static constexpr std::size_t kMostKnown = 2 * kOpen;

    Stream(StreamTerms terms, const std::vector<v1::StreamMember>& members, const StreamNow& now);

    // What is to be done, and when to ask again at the latest.
    struct News {
        std::vector<v1::WindowDue> due;
        std::vector<v1::StreamMember> comes;  // to be written to the directory
        bool ended = false;
        std::optional<Error> failure;   // it cannot go on
        std::string trouble;            // what it waits for; for people
        std::vector<std::string> said;  // what has happened; for them, too
        Clock::time_point next;
    };
    News advance(const StreamNow& now);

    // A member's word.
    struct Follow {
        std::uint64_t member = 0;
        std::string name;
        Owner owner;
        std::uint64_t nonce = 0;
        std::uint64_t committed = 0;
        std::vector<std::uint64_t> keeps;
        // It may go on to these before it hears more.
        std::vector<std::uint64_t> knows{};
        bool leaves = false;
        bool lost = false;
        bool anew =
            false;  // by a session that has just begun: those of its sends have gone with the one before
    };
    Result<> follow(const Follow& said, const StreamNow& now);
    // What it is told; nothing of a place that the directory does not have yet (R6, R9).
    [[nodiscard]] v1::FollowStreamReply state_for(const Follow& said, Clock::time_point now) const;
    // It still waits for its answer.
    void hear(std::uint64_t member, Clock::time_point now);
    // The directory has it.
    void note(std::uint64_t member, std::uint64_t first, std::uint64_t last);

    // Runs of a window: a task each, one at a time (R4).
    Result<> begin_run(std::uint64_t window, std::uint64_t instance, Clock::time_point now);
    void fail_run(std::uint64_t window, std::uint64_t instance, Clock::time_point now);
    // Nobody becomes a member of it any more.
    void end_run(std::uint64_t window);
    void commit(std::uint64_t window, std::uint64_t instance, const StreamNow& now);
    // An empty one, which the directory has.
    void commit_empty(std::uint64_t window, const StreamNow& now);

    // Its run goes by a plan, which is for the members that it has: nobody becomes one.
    void fix_members(std::uint64_t window);
    // Whether they are others meanwhile, or one of them begins anew: its run is of no use then.
    [[nodiscard]] bool members_changed(std::uint64_t window) const;
    // How many members are at each host.
    [[nodiscard]] std::map<std::uint32_t, std::uint32_t> hosts_of(std::uint64_t window) const;
    // R7.
    [[nodiscard]] bool is_oldest(std::uint64_t window) const;
    // Whether the application has been asked for what comes behind it, and so knows until when it lasts:
    // numbers may be skipped in between.
    [[nodiscard]] bool has_known_end(std::uint64_t window) const;
    // Members that a run of the window waits for.
    [[nodiscard]] std::set<std::uint64_t> expected(std::uint64_t window) const;
    // That it is that member of the window.
    [[nodiscard]] Result<> check_member(std::uint64_t window, std::uint64_t member,
                                        const Caller& caller) const;
    // R5, R7.
    [[nodiscard]] Result<> may_join(std::uint64_t window, std::uint64_t member, const Caller& caller) const;
    void joined(std::uint64_t window, std::uint64_t member);
    // Its Join has failed: it has sent nothing.
    void not_joined(std::uint64_t window, std::uint64_t member);
    void ended(std::uint64_t window, std::uint64_t member);
    // It has joined the run, has not ended, and is not there any more.
    [[nodiscard]] bool has_gone(std::uint64_t window, std::uint64_t member) const;
    // All that are waited for have ended, and so have all windows before it (R7).
    [[nodiscard]] bool may_end(std::uint64_t window) const;
    // Why the window goes without that member; empty: it does not.
    [[nodiscard]] std::string missing(std::uint64_t window, std::uint64_t member) const;
    struct Missing {
        std::uint64_t member = 0;
        std::string name;
        std::string reason;
    };
    [[nodiscard]] std::vector<Missing> all_missing(std::uint64_t window) const;
    [[nodiscard]] std::string name_of(std::uint64_t member) const;
    [[nodiscard]] std::set<std::uint64_t> members() const;

    // The windows that are open are the last.
    void finish();
    [[nodiscard]] bool is_over() const { return over_; }

    [[nodiscard]] const StreamTerms& terms() const { return terms_; }
    [[nodiscard]] std::uint64_t committed() const { return committed_; }
    // Raised by every change that a member may see.
    [[nodiscard]] std::uint64_t version() const { return version_; }
    // Instances of the windows that have one.
    [[nodiscard]] std::vector<std::uint64_t> runs() const;
    [[nodiscard]] std::string task_of(std::uint64_t window) const;
    [[nodiscard]] v1::AgentStream describe(Clock::time_point now) const;

 private:
    struct Place {
        std::uint64_t first = 0;
        std::uint64_t last = 0;
        bool lost = false;
        bool operator==(const Place&) const = default;
        [[nodiscard]] bool has(std::uint64_t window) const {
            return first != 0 && first <= window && (last == 0 || window <= last);
        }
    };
    struct Member {
        std::string name;
        Owner owner;              // host 0: nobody has spoken for it yet
        std::uint64_t first = 0;  // window; 0: it has no place yet
        std::uint64_t last = 0;   // 0: no end
        bool lost = false;        // it has ended without leaving
        // What is in the directory, and what is on its way there, each in its turn.
        Place noted;
        std::vector<Place> under_way;
        bool heard_once = false;  // since the stream was opened here
        bool leaves = false;
        std::vector<std::uint64_t> keeps;
        std::vector<std::uint64_t> knows;
        Clock::time_point heard{};
    };
    enum class Stage : std::uint8_t {
        kPlanned,
        kIdle,   // open, and has no run
        kAsked,  // for one
        kRunning,
        kOver,   // nobody joins it any more: what its run has is being fetched, or is to be taken
        kEmpty,  // it has ended without a member; the directory is to have it
    };
    struct Window {
        std::uint64_t number = 0;
        std::int64_t begins_ms = 0;
        Clock::time_point opens_at{};
        Stage stage = Stage::kPlanned;
        std::uint64_t instance = 0;
        std::set<std::uint64_t> joined;
        std::set<std::uint64_t> ended;
        std::set<std::uint64_t> gone;  // their sessions, before they had ended
        std::map<std::uint64_t, std::string> missing;
        std::optional<std::set<std::uint64_t>> fixed;  // members that its run is for
        bool was_asked = false;                        // for a run
        unsigned failures = 0;
        Clock::time_point retry_at{};
        Clock::time_point since{};  // its run, or that it was asked for
    };

    [[nodiscard]] const Window* find(std::uint64_t number) const;
    Window* find(std::uint64_t number);
    [[nodiscard]] std::int64_t every_ms() const { return terms_.every.count(); }
    void change() { ++version_; }
    [[nodiscard]] static Place place_of(const Member& member) {
        return {member.first, member.last, member.lost};
    }
    // What is there is what is wanted, and nothing else is on its way.
    [[nodiscard]] static bool is_noted(const Member& member) {
        return member.noted == place_of(member) && member.under_way.empty();
    }
    // Also if its directory is read at any moment.
    [[nodiscard]] static bool is_surely_member(const Member& member, std::uint64_t window) {
        return is_member(member, window) && member.noted.has(window) &&
               std::ranges::all_of(member.under_way, [&](const Place& place) { return place.has(window); });
    }
    [[nodiscard]] static bool is_member(const Member& member, std::uint64_t window) {
        return place_of(member).has(window);
    }
    // R3: what the member knows and keeps fits what is here.
    [[nodiscard]] Result<> check(const Follow& said, Clock::time_point now) const;
    [[nodiscard]] Result<> check_keeps(const Follow& said, const Member* known) const;
    Result<> admit(const Follow& said);
    void take_leave(Member& member, const Follow& said);
    void place(Member& member);
    void note_gone(std::uint64_t member);
    void drop_done();

    bool gather(const StreamNow& now, News& news);
    void set_first_windows(const StreamNow& now);
    void plan(std::uint64_t number, const StreamNow& now);
    void plan_next(const StreamNow& now);
    void plan_ahead(const StreamNow& now);
    // For how long before it begins a window is open.
    [[nodiscard]] milliseconds ahead() const;
    void note_clock(std::int64_t step_ms, std::uint64_t skipped);
    [[nodiscard]] Clock::time_point plans_next_at() const;
    void open_windows(Clock::time_point now);
    void ask_for_runs(Clock::time_point now, News& news);
    void end_empty(Clock::time_point now, News& news);
    // The oldest window is to end, and somebody has not ended it.
    void look_after(Clock::time_point now, News& news);
    void leave_out_unheard(std::uint64_t id);
    void leave_out(Window& window, std::uint64_t id, const std::string& reason);
    [[nodiscard]] Clock::time_point end_of_oldest() const;
    void take_away_oldest(const StreamNow& now);
    [[nodiscard]] std::uint64_t newest_open() const;
    [[nodiscard]] bool needs_run(const Window& window) const;
    void end_memberships();
    [[nodiscard]] std::string waits_for(const Window& window) const;
    [[nodiscard]] std::string context(std::uint64_t window) const;

    const StreamTerms terms_;
    StreamTime time_;
    const Clock::time_point opened_;
    std::uint64_t committed_;
    std::map<std::uint64_t, Member> members_;
    std::deque<Window> windows_;  // that are not committed, in their order
    // Of members that were left out, also when they are members no more: windows that are committed.
    std::map<std::uint64_t, std::vector<v1::LeftOut>> left_out_;
    bool is_fresh_;             // no window has been open before
    bool is_gathered_ = false;  // what is open is known
    bool finishing_;
    bool over_ = false;
    std::uint64_t version_;
    std::uint64_t newest_ = 0;  // window that was ever planned
    Clock::time_point oldest_since_{};
    Clock::time_point committed_at_{};
    std::string trouble_;
    std::vector<std::string> said_;
    bool is_ahead_ = false;  // of the wall clock, which was set back
    std::uint64_t whole_ = 0;
    std::uint64_t incomplete_ = 0;
    std::uint64_t empty_ = 0;
    std::uint64_t failed_runs_ = 0;
    std::uint64_t late_ = 0;
};

// "2026-11-28T05:30:00Z"
[[nodiscard]] std::string utc_text(std::int64_t unix_ms);

}  // namespace ask
