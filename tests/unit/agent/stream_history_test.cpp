// SPDX-License-Identifier: Apache-2.0
//
// Streams of chance: members come, cut, leave, die and come back, runs fail, the receiver's application dies
// and a successor reads its directory, at any moment; against an oracle a window. No tuple is in two windows
// or twice in one (W1), a window that is committed is not run again (W3), a sender keeps as many windows as
// may be open at most (W4), whoever lets a window go finds all of it there or is named there, and once
// nothing dies any more all of it ends. ASK_HISTORIES says how many, ASK_HISTORY which one.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "lib/control/receive/stream.h"
#include "lib/rpc/call_origin.h"

using namespace ask;

namespace {

using Tuples = std::vector<int>;

constexpr milliseconds kDeadline{5000};

Caller at_host(std::uint32_t host) {
    return caller_from_peer("ipv4:198.18.7." + std::to_string(host & 0xffU) + ":40000");
}

struct Session {
    std::uint64_t instance = 0;
    std::size_t sent = 0;
    bool ended = false;
};

struct Sender {
    std::uint64_t id = 0;
    std::uint32_t host = 0;
    bool has_state = false;  // it comes back under its id, with what it kept
    bool dead = false;
    bool has_died = false;
    bool done = false;
    bool leaves = false;
    bool anew = true;
    Clock::time_point deaf_until{};
    std::uint64_t nonce = 0;
    std::uint64_t committed = 0;
    std::uint64_t in = 0;
    std::map<std::uint64_t, Tuples> spool;
    std::map<std::uint64_t, Session> sessions;
    v1::FollowStreamReply state;
    std::set<std::uint64_t> known;  // windows that were in any state
    Tuples given;
};

struct Run {
    std::uint64_t window = 0;
    std::uint64_t instance = 0;
    Tuples table;
    bool over = false;
};

// What is on the receiver's disk.
struct Directory {
    std::uint64_t committed = 0;
    std::map<std::uint64_t, Tuples> tables;
    std::map<std::uint64_t, std::set<std::uint64_t>> named;
    std::map<std::uint64_t, v1::StreamMember> members;
};

class StreamHistory {
 public:
    explicit StreamHistory(std::uint64_t seed) : random_(seed) {
        allow_ = chance(2);
        count_ = 1 + below(3);
        open();
        for (std::uint64_t i = 0; i < count_; ++i) {
            add_sender();
        }
    }
    // Whether it ended as it may.
    void run() {
        const std::uint64_t steps = 50 + below(400);
        for (std::uint64_t i = 0; i < steps && !failed_; ++i) {
            step();
        }
        calm_ = true;
        for (int i = 0; i < 3000 && !failed_ && !over_; ++i) {
            settle();
        }
        if (!failed_) {
            REQUIRE(over_);
            check_all();
        }
    }

 private:
    std::uint64_t below(std::uint64_t most) { return random_() % most; }
    bool chance(std::uint64_t one_in) { return below(one_in) == 0; }
    [[nodiscard]] StreamNow now() const { return {Clock::time_point{} + milliseconds(ms_), wall_ + ms_}; }

    void add_sender() {
        Sender sender;
        sender.id = ++ids_;
        sender.host = static_cast<std::uint32_t>(ids_);
        sender.has_state = chance(2);
        senders_.push_back(std::move(sender));
    }
    void open() {
        std::vector<v1::StreamMember> members;
        for (auto at = directory_.members.begin(); at != directory_.members.end();) {
            const v1::StreamMember& member = at->second;
            if (member.last() != 0 && member.last() <= directory_.committed) {
                at = directory_.members.erase(at);
            } else {
                members.push_back(member);
                ++at;
            }
        }
        stream_ = std::make_unique<Stream>(StreamTerms{.name = "s",
                                                       .every = milliseconds(1000),
                                                       .senders = static_cast<std::uint32_t>(count_),
                                                       .deadline = kDeadline,
                                                       .allow_incomplete = allow_,
                                                       .nonce = 5,
                                                       .committed = directory_.committed,
                                                       .version = random_() >> 1U,
                                                       .finishing = finishing_},
                                           members, now());
        runs_.clear();
        due_.clear();
        comes_.clear();
    }
    Run* run_of(std::uint64_t window) {
        const auto at = std::ranges::find(runs_, window, &Run::window);
        return at == runs_.end() ? nullptr : &*at;
    }
    void fail_run(std::uint64_t window) {
        if (const Run* const run = run_of(window); run != nullptr) {
            const std::uint64_t instance = run->instance;
            std::erase_if(runs_, [&](const Run& one) { return one.window == window; });
            stream_->fail_run(window, instance, now().steady);
        }
    }

    // The receiver's agent and application, a step each.
    void advance() {
        auto news = stream_->advance(now());
        due_.insert(due_.end(), news.due.begin(), news.due.end());
        comes_.insert(comes_.end(), news.comes.begin(), news.comes.end());
        over_ = over_ || news.ended;
        if (news.failure) {
            CHECK_FALSE(allow_);
            CHECK(std::ranges::any_of(senders_, &Sender::has_died));
            failed_ = true;
        }
        for (const Run& run : std::vector<Run>(runs_)) {
            for (const Sender& sender : senders_) {
                if (!run.over && stream_->has_gone(run.window, sender.id)) {
                    fail_run(run.window);
                }
            }
        }
        for (Run& run : runs_) {
            if (!run.over && stream_->may_end(run.window)) {
                run.over = true;
                stream_->end_run(run.window);
            }
        }
    }
    void note() {
        if (comes_.empty()) {
            return;
        }
        const v1::StreamMember member = comes_.front();
        comes_.pop_front();
        directory_.members[member.member()] = member;
        if (!chance(9) || calm_) {
            stream_->note(member.member(), member.first(), member.last());
        } else {
            open();  // killed in between
        }
    }
    void answer_due() {
        if (due_.empty()) {
            return;
        }
        const v1::WindowDue due = due_.front();
        due_.pop_front();
        if (due.number() <= directory_.committed) {
            return;  // asked for once more, and done meanwhile
        }
        if (due.empty()) {
            write(due.number(), {}, {});
            if (chance(9) && !calm_) {
                return open();
            }
            return stream_->commit_empty(due.number(), now());
        }
        if (run_of(due.number()) == nullptr && stream_->begin_run(due.number(), ++instances_, now().steady)) {
            runs_.push_back({.window = due.number(), .instance = instances_, .table = {}, .over = false});
        }
    }
    void write(std::uint64_t window, Tuples table, std::set<std::uint64_t> named) {
        REQUIRE(window > directory_.committed);
        for (const int tuple : table) {
            REQUIRE_MESSAGE(written_.insert(tuple).second, "tuple is there twice: ", tuple);
        }
        directory_.tables[window] = std::move(table);
        directory_.named[window] = std::move(named);
        directory_.committed = window;
    }
    void take_result() {
        const auto at = std::ranges::find(runs_, true, &Run::over);
        if (at == runs_.end()) {
            return;
        }
        std::set<std::uint64_t> named;
        for (const Stream::Missing& missing : stream_->all_missing(at->window)) {
            named.insert(missing.member);
        }
        const Run run = *at;
        write(run.window, run.table, std::move(named));
        if (chance(9) && !calm_) {
            return open();
        }
        std::erase_if(runs_, [&](const Run& one) { return one.window == run.window; });
        stream_->commit(run.window, run.instance, now());
    }

    // A member's.
    [[nodiscard]] bool hears(const Sender& sender) const {
        return !sender.dead && !sender.done && now().steady >= sender.deaf_until;
    }
    Stream::Follow says(const Sender& sender) const {
        Stream::Follow said{.member = sender.id,
                            .name = "h" + std::to_string(sender.id),
                            .owner = {"", (198U << 24U) | (18U << 16U) | (7U << 8U) | sender.host},
                            .nonce = sender.nonce,
                            .committed = sender.committed,
                            .keeps = {},
                            .knows = {},
                            .leaves = sender.leaves,
                            .lost = false,
                            .anew = sender.anew};
        for (const auto& [window, tuples] : sender.spool) {
            said.keeps.push_back(window);
        }
        said.knows.assign(sender.known.upper_bound(sender.committed), sender.known.end());
        return said;
    }
    void follow(Sender& sender) {
        if (!hears(sender)) {
            return;
        }
        const Stream::Follow said = says(sender);
        const auto fine = stream_->follow(said, now());
        if (!fine) {
            REQUIRE_MESSAGE(fine.error().code() == Errc::kAborted, fine.error().text());
            sender.done = sender.spool.empty();
            return;
        }
        if (!calm_ && chance(4)) {
            return;  // the answer gets lost, and it goes by what it has heard before
        }
        sender.anew = false;
        sender.state = stream_->state_for(said, now().steady);
        sender.nonce = sender.state.nonce();
        REQUIRE(sender.state.committed() >= sender.committed);
        sender.committed = sender.state.committed();
        let_go(sender);
        const std::uint64_t last = sender.state.last();
        const bool has_left = sender.leaves && last != 0 && sender.committed >= last;
        if (has_left || sender.state.ended()) {
            CHECK(sender.spool.empty());
            sender.done = true;
            return;
        }
        std::map<std::uint64_t, std::uint64_t> instances;
        for (const v1::OpenWindow& window : sender.state.windows()) {
            instances[window.number()] = window.instance();
            sender.known.insert(window.number());
            if (sender.in == 0 && !sender.leaves && window.number() > sender.committed) {
                sender.in = window.number();
                sender.spool[sender.in];
            }
        }
        std::erase_if(sender.sessions, [&](const auto& session) {
            return instances[session.first] != session.second.instance;
        });
    }
    void let_go(Sender& sender) {
        for (auto at = sender.spool.begin(); at != sender.spool.end() && at->first <= sender.committed;) {
            // One that nobody else kept, and whose sender came too late: it is named in the next.
            const auto there = directory_.tables.lower_bound(at->first);
            REQUIRE(there != directory_.tables.end());
            const Tuples table = there->first == at->first ? there->second : Tuples();
            const bool is_named = directory_.named[there->first].contains(sender.id);
            for (const int tuple : at->second) {
                REQUIRE_MESSAGE((is_named || std::ranges::find(table, tuple) != table.end()), "window ",
                                at->first, " has not what was let go of: ", tuple);
            }
            sender.sessions.erase(at->first);
            at = sender.spool.erase(at);
        }
        sender.in = sender.in <= sender.committed ? 0 : sender.in;
    }
    void give(Sender& sender) {
        if (sender.in != 0 && !sender.leaves && !sender.dead && !sender.done) {
            sender.spool[sender.in].push_back(++tuples_);
            sender.given.push_back(tuples_);
        }
    }
    void cut(Sender& sender) {
        if (sender.dead || sender.done || sender.in == 0 || sender.spool.size() >= Stream::kOpen) {
            return;
        }
        for (const v1::OpenWindow& window : sender.state.windows()) {
            const auto begins = static_cast<std::int64_t>(window.begins_ms());
            if (window.number() > sender.in && !sender.leaves &&
                begins <= wall_ + ms_ + static_cast<std::int64_t>(below(200)) - 100) {
                sender.in = window.number();
                sender.spool[sender.in];
                return;
            }
        }
    }
    [[nodiscard]] static bool may_end(const Sender& sender, std::uint64_t window) {
        const bool is_last = sender.state.last() != 0 && window >= sender.state.last();
        return window < sender.in || (window == sender.in && (sender.leaves || is_last));
    }
    void send(Sender& sender) {
        if (!hears(sender)) {
            return;
        }
        for (const v1::OpenWindow& open : sender.state.windows()) {
            const std::uint64_t window = open.number();
            Run* const run = run_of(window);
            if (!sender.spool.contains(window) || run == nullptr || run->instance != open.instance()) {
                continue;
            }
            if (!sender.sessions.contains(window)) {
                if (run->over || !stream_->may_join(window, sender.id, at_host(sender.host))) {
                    continue;
                }
                stream_->joined(window, sender.id);
                sender.sessions[window] = {.instance = run->instance, .sent = 0, .ended = false};
            }
            send_some(sender, *run);
        }
    }
    void send_some(Sender& sender, Run& run) {
        Session& session = sender.sessions[run.window];
        if (session.instance != run.instance || session.ended || run.over) {
            return;
        }
        const bool ends = may_end(sender, run.window) && chance(2);
        const Tuples& spool = sender.spool[run.window];
        const std::size_t to = ends ? spool.size() : session.sent + below(spool.size() - session.sent + 1);
        for (; session.sent < to; ++session.sent) {
            run.table.push_back(spool[session.sent]);
        }
        if (ends) {
            session.ended = true;
            stream_->ended(run.window, sender.id);
        }
    }

    // What befalls them.
    void lose_sessions(Sender& sender) {
        sender.sessions.clear();
        sender.anew = true;
    }
    // By its agent, if that still lives.
    void say_lost(const Sender& sender) {
        Stream::Follow said = says(sender);
        said.lost = true;
        said.anew = false;
        said.leaves = false;
        REQUIRE(stream_->follow(said, now()).ok());
    }
    void die(Sender& sender) {
        if (sender.dead || sender.done) {
            return;
        }
        if (chance(2)) {
            say_lost(sender);
        }
        lose_sessions(sender);
        sender.dead = sender.has_died = true;
    }
    void revive(Sender& sender) {
        if (sender.dead && sender.has_state) {
            sender.dead = false;
            sender.state.Clear();
            sender.known.clear();
        }
    }
    void befall() {
        Sender& sender = senders_[below(senders_.size())];
        switch (below(8)) {
            case 0:
                return open();
            case 1:
                return lose_sessions(sender);
            case 2:
                return chance(3) ? die(sender) : void();
            case 3:
            case 4:
                return revive(sender);
            case 5:
                return runs_.empty() || runs_.front().over ? void() : fail_run(runs_.front().window);
            case 6:
                sender.deaf_until = now().steady + milliseconds(below(12000));
                return;
            default:
                if (senders_.size() < 6) {
                    add_sender();
                }
        }
    }
    void step() {
        Sender& sender = senders_[below(senders_.size())];
        switch (below(12)) {
            case 0:
                ms_ += static_cast<std::int64_t>(below(700));
                return advance();
            case 1:
            case 2:
                return follow(sender);
            case 3:
                return give(sender);
            case 4:
                return cut(sender);
            case 5:
            case 6:
                return send(sender);
            case 7:
                return note();
            case 8:
                return answer_due();
            case 9:
                return take_result();
            case 10:
                advance();
                return chance(6) ? befall() : void();
            default:
                sender.leaves = sender.leaves || (chance(20) && sender.in != 0);
                return advance();
        }
    }
    // Nothing dies any more: whoever can comes back, all leave, and the stream is finished.
    void settle() {
        ms_ += 100;
        for (Sender& sender : senders_) {
            revive(sender);
            if (sender.dead) {
                say_lost(sender);
            }
            sender.deaf_until = {};
            follow(sender);
            cut(sender);
            send(sender);
            sender.leaves = sender.leaves || sender.in != 0;
        }
        advance();
        note();
        answer_due();
        take_result();
        const auto is_quiet = [](const Sender& sender) { return sender.done || sender.dead; };
        const bool waits = std::ranges::any_of(
            senders_, [&](const Sender& sender) { return !is_quiet(sender) && sender.in != 0; });
        if (!waits && ++quiet_ > 100) {
            finishing_ = true;
            stream_->finish();
        }
    }
    void check_all() {
        for (const Sender& sender : senders_) {
            const bool is_named = std::ranges::any_of(
                directory_.named, [&](const auto& window) { return window.second.contains(sender.id); });
            for (const int tuple : sender.given) {
                REQUIRE_MESSAGE((is_named || written_.contains(tuple)), "lost, and nobody says so: ", tuple);
            }
        }
    }

    std::mt19937_64 random_;
    bool allow_ = false;
    std::uint64_t count_ = 1;
    std::int64_t ms_ = 1;
    std::int64_t wall_ = 1'000'000'000;
    Directory directory_;
    std::unique_ptr<Stream> stream_;
    std::vector<Sender> senders_;
    std::vector<Run> runs_;
    std::deque<v1::WindowDue> due_;
    std::deque<v1::StreamMember> comes_;
    std::set<int> written_;
    std::uint64_t ids_ = 0;
    std::uint64_t instances_ = 0;
    int tuples_ = 0;
    int quiet_ = 0;
    bool calm_ = false;
    bool failed_ = false;  // by a loss that it may not go on without
    bool over_ = false;
    bool finishing_ = false;
};

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
    const char* const text = std::getenv(variable);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace

TEST_CASE("histories of streams: each tuple is in one window, or its sender is named") {
    const std::uint64_t one = number_from("ASK_HISTORY", 0);
    const std::uint64_t count = one != 0 ? 1 : number_from("ASK_HISTORIES", 2000);
    for (std::uint64_t i = 0; i < count; ++i) {
        const std::uint64_t seed = one != 0 ? one : i + 1;
        CAPTURE(seed);
        StreamHistory(seed).run();
    }
}
