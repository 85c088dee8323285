// SPDX-License-Identifier: Apache-2.0
//
// The rules of windows (docs/design/windows.md, section 3), a case each.
#include "lib/control/receive/stream.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/control/send/clock_offset.h"
#include "lib/rpc/call_origin.h"

using namespace ask;

namespace {

constexpr std::uint64_t kFirst = 1'000'000;  // number of the window that the clock begins in
constexpr std::uint32_t kHostBase = 0xC6120002;

// A stream of windows of a second, and what its application, which does all at once, has been asked for.
struct Rig {
    explicit Rig(StreamTerms with = {}, std::vector<v1::StreamMember> known = {})
        : terms(std::move(with)), stream((terms.name = "web", terms.nonce = 5, terms), known, now()) {}

    StreamTerms terms;
    std::int64_t steady_ms = 0;
    std::int64_t wall_ms = static_cast<std::int64_t>(kFirst) * 1000 + 100;
    Stream stream;
    std::vector<v1::WindowDue> due;
    std::vector<v1::StreamMember> comes;
    bool notes = true;  // the directory has at once what comes
    std::vector<std::string> heard;
    std::optional<Error> failure;
    bool over = false;
    std::uint64_t instances = 0;

    [[nodiscard]] StreamNow now() const {
        return {Clock::time_point{} + std::chrono::hours(1) + milliseconds(steady_ms), wall_ms};
    }
    void pass(std::int64_t ms) {
        steady_ms += ms;
        wall_ms += ms;
        look();
    }
    void look() {
        auto news = stream.advance(now());
        due.insert(due.end(), news.due.begin(), news.due.end());
        for (const v1::StreamMember& member : news.comes) {
            comes.push_back(member);
            if (notes) {
                stream.note(member.member(), member.first(), member.last());
            }
        }
        heard.insert(heard.end(), news.said.begin(), news.said.end());
        if (news.failure) {
            failure = news.failure;
        }
        over = over || news.ended;
    }
    static Stream::Follow says(std::uint64_t member, std::vector<std::uint64_t> keeps = {}) {
        return {.member = member,
                .name = "h" + std::to_string(member),
                .owner = {"", kHostBase + static_cast<std::uint32_t>(member)},
                .keeps = std::move(keeps)};
    }
    Result<> follow(const Stream::Follow& said) {
        auto result = stream.follow(said, now());
        look();
        return result;
    }
    v1::FollowStreamReply state(std::uint64_t member) { return stream.state_for(says(member), now().steady); }
    // The number of the window that is to have a run, which gets one.
    std::uint64_t run() {
        REQUIRE_FALSE(due.empty());
        const std::uint64_t number = due.front().number();
        due.erase(due.begin());
        REQUIRE(stream.begin_run(number, ++instances, now().steady).ok());
        return number;
    }
    Result<> join(std::uint64_t window, std::uint64_t member) {
        const auto caller = caller_from_peer("ipv4:198.18.0." + std::to_string(2 + member) + ":40000");
        auto may = stream.may_join(window, member, caller);
        if (may) {
            stream.joined(window, member);
        }
        return may;
    }
    void end(std::uint64_t window, std::uint64_t member) {
        REQUIRE(join(window, member).ok());
        stream.ended(window, member);
    }
    void commit(std::uint64_t window) {
        REQUIRE(stream.may_end(window));
        stream.end_run(window);
        stream.commit(window, stream.runs().front(), now());
        look();
    }
};

StreamTerms waits_for(std::uint32_t senders) {
    StreamTerms terms;
    terms.senders = senders;
    return terms;
}

StreamTerms may_go_without(std::uint32_t senders) {
    StreamTerms terms = waits_for(senders);
    terms.allow_incomplete = true;
    return terms;
}

StreamTerms after(std::uint64_t committed, bool allow = false) {
    StreamTerms terms;
    terms.senders = 2;
    terms.committed = committed;
    terms.allow_incomplete = allow;
    return terms;
}

v1::StreamMember known(std::uint64_t member, std::uint64_t first, std::uint64_t last = 0, bool lost = false) {
    v1::StreamMember entry;
    entry.set_member(member);
    entry.set_name("h" + std::to_string(member));
    entry.set_first(first);
    entry.set_last(last);
    entry.set_lost(lost);
    return entry;
}

}  // namespace

TEST_CASE(
    "the first window waits for as many members as were asked for, and is the one that the clock is in") {
    Rig rig(waits_for(2));
    REQUIRE(rig.follow(Rig::says(1)).ok());
    CHECK(rig.due.empty());
    CHECK(rig.state(1).first() == 0);
    CHECK(rig.state(1).trouble().find("1 of 2") != std::string::npos);
    REQUIRE(rig.follow(Rig::says(2)).ok());
    REQUIRE(rig.due.size() == 1);
    CHECK(rig.due[0].number() == kFirst);
    CHECK(rig.due[0].task_id() == "web-w1000000");
    CHECK(rig.state(1).first() == kFirst);
    // And what begins within the next three seconds.
    REQUIRE(rig.state(1).windows_size() == 4);
    CHECK(rig.state(1).windows(0).instance() == 0);
    rig.run();
    CHECK(rig.state(2).windows(0).instance() == 1);
}

TEST_CASE("who goes before the first window is none of those that it waits for") {
    Rig rig(waits_for(2));
    REQUIRE(rig.follow(Rig::says(1)).ok());
    auto gone = Rig::says(1);
    gone.lost = true;
    REQUIRE(rig.follow(gone).ok());
    REQUIRE(rig.follow(Rig::says(2)).ok());
    CHECK(rig.due.empty());
    CHECK(rig.state(2).trouble().find("1 of 2") != std::string::npos);
    REQUIRE(rig.follow(Rig::says(3)).ok());
    CHECK(rig.state(2).first() == kFirst);
    rig.run();
    CHECK(rig.stream.expected(kFirst) == std::set<std::uint64_t>{2, 3});
}

TEST_CASE("who is not heard for long before the first window is none of those that it waits for") {
    Rig rig(waits_for(2));
    REQUIRE(rig.follow(Rig::says(1)).ok());
    rig.pass(10'000);
    REQUIRE(rig.follow(Rig::says(2)).ok());
    CHECK(rig.due.empty());
    REQUIRE(rig.follow(Rig::says(1)).ok());
    CHECK(rig.due.size() == 1);
}

TEST_CASE("R6: a newcomer hears of its place when the directory has it") {
    Rig rig(waits_for(1));
    rig.notes = false;
    REQUIRE(rig.follow(Rig::says(1)).ok());
    REQUIRE(rig.comes.size() == 1);
    CHECK(rig.comes[0].first() == kFirst);
    CHECK(rig.state(1).first() == 0);
    CHECK(rig.state(1).windows_size() == 0);
    CHECK(rig.stream.expected(kFirst).contains(1));
    rig.stream.note(1, kFirst, 0);
    CHECK(rig.state(1).first() == kFirst);
    CHECK(rig.state(1).windows_size() == 4);
}

TEST_CASE("R6: its first window is the first that is not over, and that waits for it") {
    Rig rig(waits_for(1));
    REQUIRE(rig.follow(Rig::says(1)).ok());
    const auto first = rig.run();
    rig.pass(500);
    REQUIRE(rig.follow(Rig::says(2)).ok());
    CHECK(rig.state(2).first() == first);
    rig.end(first, 1);
    CHECK_FALSE(rig.stream.may_end(first));
    rig.end(first, 2);
    CHECK(rig.stream.may_end(first));
    rig.stream.end_run(first);
    REQUIRE(rig.follow(Rig::says(3)).ok());
    CHECK(rig.state(3).first() == first + 1);
    CHECK_FALSE(rig.stream.expected(first).contains(3));
}

TEST_CASE("R7: a window ends when those before it are committed") {
    Rig rig(waits_for(1));
    REQUIRE(rig.follow(Rig::says(1)).ok());
    const auto first = rig.run();
    rig.pass(500);
    const auto second = rig.run();
    CHECK(second == first + 1);
    rig.end(second, 1);
    CHECK_FALSE(rig.stream.may_end(second));
    rig.end(first, 1);
    rig.stream.end_run(first);
    rig.stream.commit(first, 1, rig.now());
    CHECK(rig.stream.may_end(second));
}

TEST_CASE(
    "R10: a window is opened ahead of its begin, as many as eight while none is committed; two have a run") {
    Rig rig(waits_for(1));
    REQUIRE(rig.follow(Rig::says(1)).ok());
    const auto first = rig.run();
    CHECK(rig.state(1).windows_size() == 4);
    rig.pass(300);
    CHECK(rig.due.empty());
    rig.pass(200);
    CHECK(rig.state(1).windows_size() == 4);
    rig.run();
    for (int i = 0; i < 120; ++i) {
        rig.pass(100);
    }
    CHECK(rig.due.empty());
    REQUIRE(rig.state(1).windows_size() == 8);
    for (int i = 0; i < 8; ++i) {
        CHECK(rig.state(1).windows(i).number() == first + static_cast<std::uint64_t>(i));
        CHECK((rig.state(1).windows(i).instance() != 0) == (i < 2));
    }
    rig.end(first, 1);
    rig.stream.end_run(first);
    rig.stream.commit(first, 1, rig.now());
    rig.look();
    REQUIRE(rig.due.size() == 1);
    CHECK(rig.run() == first + 2);
    // What is behind is not made up for: the window before goes on until the next.
    REQUIRE(rig.state(1).windows_size() == 8);
    CHECK(rig.state(1).windows(7).number() == first + 13);
    CHECK(rig.stream.describe(rig.now().steady).late() == 1);
}

TEST_CASE("R5: a member joins a run once, and one that has failed begins again with all") {
    Rig rig(waits_for(2));
    REQUIRE(rig.follow(Rig::says(1)).ok());
    REQUIRE(rig.follow(Rig::says(2)).ok());
    const auto first = rig.run();
    REQUIRE(rig.join(first, 1).ok());
    CHECK(rig.join(first, 1).error().code() == Errc::kAborted);
    CHECK(rig.join(first, 9).error().code() == Errc::kAborted);
    rig.stream.ended(first, 1);
    rig.stream.fail_run(first, 1, rig.now().steady);
    rig.look();
    REQUIRE(rig.due.size() == 1);
    CHECK(rig.due[0].again());
    rig.run();
    CHECK_FALSE(rig.stream.may_end(first));
    rig.end(first, 1);
    rig.end(first, 2);
    rig.commit(first);
    CHECK(rig.stream.committed() == first);
    CHECK(rig.join(first, 1).error().code() == Errc::kAborted);
}

TEST_CASE("R5: a Join that failed half-way has joined nothing; another host is nobody's member") {
    Rig rig(waits_for(1));
    REQUIRE(rig.follow(Rig::says(1)).ok());
    const auto first = rig.run();
    REQUIRE(rig.join(first, 1).ok());
    rig.stream.not_joined(first, 1);
    CHECK(rig.join(first, 1).ok());
    const auto other = caller_from_peer("ipv4:198.18.0.77:40000");
    CHECK(rig.stream.may_join(first, 1, other).error().code() == Errc::kDenied);
    Stream::Follow thief = Rig::says(1);
    thief.owner.host = 77;
    CHECK(rig.follow(thief).error().code() == Errc::kDenied);
}

TEST_CASE("R5: whose session has gone in mid-run is known when it begins anew") {
    Rig rig(waits_for(2));
    REQUIRE(rig.follow(Rig::says(1)).ok());
    REQUIRE(rig.follow(Rig::says(2)).ok());
    const auto first = rig.run();
    REQUIRE(rig.join(first, 1).ok());
    rig.end(first, 2);
    Stream::Follow anew = Rig::says(1, {first});
    anew.anew = true;
    Stream::Follow other = Rig::says(2, {first});
    other.anew = true;
    REQUIRE(rig.follow(anew).ok());
    REQUIRE(rig.follow(other).ok());
    CHECK(rig.stream.has_gone(first, 1));
    CHECK_FALSE(rig.stream.has_gone(first, 2));
    rig.stream.fail_run(first, 1, rig.now().steady);
    rig.look();
    rig.run();
    CHECK_FALSE(rig.stream.has_gone(first, 1));
}

TEST_CASE("R4: a run at a time; the third failure waits, and what is committed is not run again") {
    Rig rig(waits_for(1));
    REQUIRE(rig.follow(Rig::says(1)).ok());
    const auto first = rig.run();
    CHECK(rig.stream.begin_run(first, 9, rig.now().steady).error().code() == Errc::kUnknown);
    for (int i = 0; i < 2; ++i) {
        rig.stream.fail_run(first, rig.instances, rig.now().steady);
        rig.look();
        rig.run();
    }
    rig.stream.fail_run(first, rig.instances, rig.now().steady);
    rig.look();
    CHECK(std::ranges::none_of(rig.due, [&](const auto& due) { return due.number() == first; }));
    // One that is told of too late changes nothing.
    rig.stream.fail_run(first, 1, rig.now().steady);
    CHECK(rig.stream.describe(rig.now().steady).failed_runs() == 3);
    rig.pass(1000);
    REQUIRE(std::ranges::any_of(rig.due, [&](const auto& due) { return due.number() == first; }));
    rig.stream.commit(first, 77, rig.now());
    CHECK(rig.stream.committed() == 0);
}

TEST_CASE(
    "R9: leaving ends membership behind the window that it is in, and is answered when that is on disk") {
    Rig rig(waits_for(2));
    REQUIRE(rig.follow(Rig::says(1)).ok());
    REQUIRE(rig.follow(Rig::says(2)).ok());
    const auto first = rig.run();
    rig.notes = false;
    Stream::Follow leaves = Rig::says(1, {first});
    leaves.leaves = true;
    REQUIRE(rig.follow(leaves).ok());
    CHECK(rig.state(1).last() == 0);
    CHECK(rig.stream.expected(first).contains(1));
    CHECK_FALSE(rig.stream.expected(first + 1).contains(1));
    REQUIRE(rig.comes.back().last() == first);
    rig.stream.note(1, first, first);
    CHECK(rig.state(1).last() == first);
    rig.end(first, 1);
    rig.end(first, 2);
    rig.commit(first);
    CHECK(rig.stream.describe(rig.now().steady).members_size() == 1);
    // It asks once more, and is nobody.
    CHECK(rig.stream.state_for(leaves, rig.now().steady).committed() == first);
    REQUIRE(rig.follow(leaves).ok());
    CHECK(rig.stream.describe(rig.now().steady).members_size() == 1);
}

TEST_CASE(
    "windows without a member end empty, in their turn, and are committed when the directory has them") {
    Rig rig;
    rig.look();
    CHECK(rig.due.empty());
    rig.pass(900);
    REQUIRE(rig.due.size() == 1);
    CHECK(rig.due[0].empty());
    CHECK(rig.due[0].number() == kFirst);
    CHECK(rig.due[0].ends_ms() == (kFirst + 1) * 1000);
    // Nobody becomes a member of it any more.
    REQUIRE(rig.follow(Rig::says(1)).ok());
    CHECK(rig.state(1).first() == kFirst + 1);
    CHECK(rig.stream.committed() == 0);
    rig.stream.commit_empty(kFirst, rig.now());
    CHECK(rig.stream.committed() == kFirst);
}

TEST_CASE(
    "R8: a receiver that begins again waits for those that its directory knows, and opens what they keep") {
    Rig rig(after(kFirst - 9), {known(1, 1), known(2, 1), known(3, 1, kFirst - 9)});
    REQUIRE(rig.follow(Rig::says(1, {kFirst - 8, kFirst - 6})).ok());
    CHECK(rig.due.empty());
    CHECK(rig.state(1).trouble().find("h2") != std::string::npos);
    // A newcomer is no substitute.
    REQUIRE(rig.follow(Rig::says(4)).ok());
    CHECK(rig.due.empty());
    REQUIRE(rig.follow(Rig::says(2, {kFirst - 8})).ok());
    REQUIRE(rig.due.size() == 2);
    CHECK(rig.due[0].number() == kFirst - 8);
    CHECK(rig.due[1].number() == kFirst - 6);
    CHECK(rig.state(4).first() == kFirst - 8);
    CHECK(rig.stream.expected(kFirst - 8).size() == 3);
}

TEST_CASE("R8: one that died is waited for, and then is the end, or named") {
    for (const bool allow : {false, true}) {
        CAPTURE(allow);
        Rig rig(after(kFirst - 9, allow), {known(1, 1), known(2, 1, 0, true)});
        REQUIRE(rig.follow(Rig::says(1, {kFirst - 8})).ok());
        if (!allow) {
            CHECK_FALSE(rig.failure);
            rig.pass(31000);
            REQUIRE(rig.failure);
            CHECK(rig.failure->code() == Errc::kSwitchLost);
            CHECK(rig.failure->text().find("h2") != std::string::npos);
            continue;
        }
        CHECK(rig.due.empty());
        rig.pass(31000);
        const auto first = rig.run();
        rig.end(first, 1);
        REQUIRE(rig.stream.may_end(first));
        REQUIRE(rig.stream.all_missing(first).size() == 1);
        CHECK(rig.stream.all_missing(first)[0].name == "h2");
    }
}

TEST_CASE("R3: what does not fit what the directory has is refused by name") {
    Rig rig(after(kFirst - 9), {known(1, 1)});
    Stream::Follow said = Rig::says(1);
    said.committed = kFirst - 8;
    const auto older = rig.follow(said);
    CHECK(older.error().code() == Errc::kUnsupported);
    CHECK(older.error().text().find("through " + std::to_string(kFirst - 8)) != std::string::npos);
    said.committed = 0;
    said.nonce = 6;
    CHECK(rig.follow(said).error().code() == Errc::kUnsupported);
    // Windows that it is no member of, that cannot be, or that are not in order.
    CHECK(rig.follow(Rig::says(7, {kFirst - 8})).error().code() == Errc::kUnsupported);
    CHECK(rig.follow(Rig::says(1, {kFirst + 5})).error().code() == Errc::kInput);
    CHECK(rig.follow(Rig::says(1, {kFirst - 7, kFirst - 8})).error().code() == Errc::kInput);
    CHECK(rig.follow(Rig::says(1, {kFirst - 8})).ok());
}

TEST_CASE("R11: who is left out is so of a window, is a member of what was open, and of none after that") {
    Rig rig(may_go_without(2));
    REQUIRE(rig.follow(Rig::says(1)).ok());
    REQUIRE(rig.follow(Rig::says(2)).ok());
    const auto first = rig.run();
    rig.pass(500);
    const auto second = rig.run();
    rig.end(first, 1);
    rig.pass(29000);
    REQUIRE(rig.follow(Rig::says(1, {first})).ok());
    CHECK_FALSE(rig.stream.may_end(first));
    rig.pass(2000);
    REQUIRE(rig.stream.may_end(first));
    CHECK_FALSE(rig.stream.missing(first, 2).empty());
    CHECK(rig.stream.missing(first, 1).empty());
    CHECK(rig.state(2).left_out_size() == 0);
    rig.commit(first);
    REQUIRE(rig.state(2).left_out_size() == 1);
    CHECK(rig.state(2).left_out(0).window() == first);
    CHECK(rig.stream.describe(rig.now().steady).incomplete() == 1);
    // The next that was open waits for no other deadline.
    rig.end(second, 1);
    rig.pass(500);
    CHECK(rig.stream.may_end(second));
    CHECK_FALSE(rig.stream.expected(second + 40).contains(2));
}

TEST_CASE("R11: who is heard again goes on in what it is a member of, or becomes one anew") {
    Rig rig(may_go_without(2));
    REQUIRE(rig.follow(Rig::says(1)).ok());
    REQUIRE(rig.follow(Rig::says(2)).ok());
    const auto first = rig.run();
    rig.pass(500);
    rig.run();
    rig.end(first, 1);
    rig.pass(31000);
    REQUIRE(rig.stream.may_end(first));
    CHECK(rig.comes.back().last() == first + 34);
    CHECK(rig.state(2).last() == 0);
    // Still open, and a member of it.
    REQUIRE(rig.follow(Rig::says(2, {first, first + 1})).ok());
    CHECK(rig.comes.back().last() == 0);
    CHECK(rig.stream.expected(first + 1).contains(2));
    CHECK_FALSE(rig.stream.expected(first).contains(2));
    CHECK(rig.state(2).windows_size() == 6);
}

TEST_CASE(
    "a member that is not heard of is named, where it may not be left out; one that has died is the end") {
    Rig rig(waits_for(2));
    REQUIRE(rig.follow(Rig::says(1)).ok());
    REQUIRE(rig.follow(Rig::says(2)).ok());
    const auto first = rig.run();
    rig.end(first, 1);
    rig.pass(31500);
    rig.look();
    CHECK_FALSE(rig.failure);
    CHECK(rig.state(1).trouble().find("waits for h2, not heard of for 30 s") != std::string::npos);
    CHECK_FALSE(rig.stream.may_end(first));
    Stream::Follow lost = Rig::says(2, {first});
    lost.lost = true;
    REQUIRE(rig.follow(lost).ok());
    REQUIRE(rig.failure);
    CHECK(rig.failure->code() == Errc::kSwitchLost);
    CHECK(rig.comes.back().lost());
}

TEST_CASE(
    "a run by a plan is for the members that it has: who comes is in the next window, who goes ends it") {
    Rig rig(waits_for(2));
    REQUIRE(rig.follow(Rig::says(1)).ok());
    REQUIRE(rig.follow(Rig::says(2)).ok());
    const auto first = rig.run();
    CHECK(rig.stream.hosts_of(first) ==
          std::map<std::uint32_t, std::uint32_t>{{kHostBase + 1, 1}, {kHostBase + 2, 1}});
    rig.stream.fix_members(first);
    REQUIRE(rig.follow(Rig::says(3)).ok());
    CHECK(rig.state(3).first() == first + 1);
    CHECK_FALSE(rig.stream.members_changed(first));
    // Whoever was told of a relay and begins anew has sent some of it there.
    rig.stream.joined(first, 1);
    Stream::Follow anew = Rig::says(1, {first});
    anew.anew = true;
    REQUIRE(rig.follow(anew).ok());
    CHECK(rig.stream.members_changed(first));
    rig.stream.fail_run(first, 1, rig.now().steady);
    rig.look();
    REQUIRE(rig.run() == first);
    CHECK_FALSE(rig.stream.members_changed(first));
    rig.stream.fix_members(first);
    CHECK_FALSE(rig.stream.members_changed(first));
    Stream::Follow leaves = Rig::says(2, {});
    leaves.leaves = true;
    REQUIRE(rig.follow(leaves).ok());
    CHECK(rig.stream.members_changed(first));
}

TEST_CASE("a member that died and is back in time is the same") {
    Rig rig(waits_for(1));
    REQUIRE(rig.follow(Rig::says(1)).ok());
    const auto first = rig.run();
    Stream::Follow lost = Rig::says(1, {first});
    lost.lost = true;
    REQUIRE(rig.follow(lost).ok());
    rig.pass(5000);
    REQUIRE(rig.follow(Rig::says(1, {first})).ok());
    CHECK_FALSE(rig.comes.back().lost());
    rig.end(first, 1);
    rig.commit(first);
    CHECK_FALSE(rig.failure);
}

TEST_CASE("finishing: what members have heard of is the last, they are told so, and it ends") {
    Rig rig(waits_for(1));
    REQUIRE(rig.follow(Rig::says(1)).ok());
    const auto first = rig.run();
    rig.stream.finish();
    rig.look();
    CHECK(rig.state(1).last() == first + 3);
    CHECK(rig.follow(Rig::says(2)).error().code() == Errc::kAborted);
    rig.end(first, 1);
    rig.commit(first);
    for (auto window = first + 1; window <= first + 3; ++window) {
        CHECK_FALSE(rig.over);
        rig.pass(1000);
        REQUIRE(rig.run() == window);
        rig.end(window, 1);
        rig.commit(window);
    }
    CHECK(rig.over);
    CHECK(rig.state(1).ended());
}

TEST_CASE("finishing: who leaves meanwhile goes on to the end that it was told of") {
    Rig rig(waits_for(1));
    REQUIRE(rig.follow(Rig::says(1)).ok());
    const auto first = rig.run();
    rig.stream.finish();
    rig.look();
    const auto last = rig.state(1).last();
    REQUIRE(last > first);
    Stream::Follow leaves = Rig::says(1, {first});
    leaves.leaves = true;
    REQUIRE(rig.follow(leaves).ok());
    rig.look();
    CHECK(rig.state(1).last() == last);
    // It has heard of the end before it left, and enters each window up to there.
    std::vector<std::uint64_t> keeps;
    for (auto window = first; window <= last; ++window) {
        keeps.push_back(window);
    }
    CHECK(rig.follow(Rig::says(1, keeps)).ok());
}

TEST_CASE("finishing anew: what members still keep is asked for, and nothing else") {
    StreamTerms terms = after(kFirst - 9);
    terms.finishing = true;
    Rig rig(terms, {known(1, 1)});
    rig.look();
    CHECK_FALSE(rig.over);
    REQUIRE(rig.follow(Rig::says(1, {kFirst - 8})).ok());
    const auto first = rig.run();
    CHECK(first == kFirst - 8);
    CHECK(rig.state(1).last() == first);
    rig.end(first, 1);
    rig.commit(first);
    CHECK(rig.over);
}

TEST_CASE("a window that lasts longer ends when the application has heard of the one behind it") {
    Rig rig(waits_for(2));
    REQUIRE(rig.follow(Rig::says(1)).ok());
    REQUIRE(rig.follow(Rig::says(2)).ok());
    // One of the two is away for so long that no more windows are opened.
    const std::uint64_t first = rig.run();
    for (int i = 0; i < 20; ++i) {
        rig.pass(500);
    }
    const std::uint64_t second = rig.run();
    const v1::FollowStreamReply state = rig.state(1);
    REQUIRE(state.windows_size() == static_cast<int>(Stream::kOpen));
    const std::uint64_t third = state.windows(2).number();
    for (const std::uint64_t window : {first, second}) {
        rig.end(window, 1);
        rig.end(window, 2);
    }
    CHECK(rig.stream.has_known_end(first));
    rig.stream.end_run(first);
    rig.stream.commit(first, rig.stream.runs().front(), rig.now());
    REQUIRE(rig.stream.may_end(second));
    CHECK_FALSE(rig.stream.has_known_end(second));
    rig.look();
    // That is on its way.
    CHECK(rig.due.back().number() == third);
    CHECK_FALSE(rig.stream.has_known_end(second));
    rig.look();
    CHECK(rig.stream.has_known_end(second));
}

TEST_CASE(
    "where numbers are skipped, the application hears when a window ends, though nobody is in the next") {
    Rig rig(after(kFirst - 9), {known(1, kFirst - 8)});
    auto says = Rig::says(1, {kFirst - 8});
    says.leaves = true;
    REQUIRE(rig.follow(says).ok());
    const std::uint64_t first = rig.run();
    REQUIRE(first == kFirst - 8);
    rig.end(first, 1);
    REQUIRE(rig.stream.may_end(first));
    CHECK_FALSE(rig.stream.has_known_end(first));
    rig.pass(1000);
    rig.look();
    REQUIRE_FALSE(rig.due.empty());
    CHECK(rig.due.front().number() > first + 1);
    CHECK(rig.stream.has_known_end(first));
}

TEST_CASE("a clock that is set back does not bring windows back, and one that is set forward skips some") {
    Rig rig(waits_for(1));
    REQUIRE(rig.follow(Rig::says(1)).ok());
    const auto first = rig.run();
    rig.wall_ms -= 3'600'000;
    rig.pass(500);
    const auto second = rig.run();
    CHECK(second == first + 1);
    rig.pass(500);
    rig.end(first, 1);
    rig.stream.end_run(first);
    rig.stream.commit(first, 1, rig.now());
    rig.pass(500);
    CHECK(rig.run() == first + 2);
    REQUIRE(rig.heard.size() == 1);
    CHECK(rig.heard[0].find("set back by 3600 s: windows go on ahead of it") != std::string::npos);
    rig.wall_ms += 2 * 3'600'000;
    rig.stream.ended(second, 1);
    rig.stream.end_run(second);
    rig.stream.commit(second, 2, rig.now());
    rig.pass(1000);
    for (auto window = first + 2; window <= first + 4; ++window) {
        rig.stream.ended(window, 1);
        rig.stream.end_run(window);
        rig.stream.commit(window, rig.stream.runs().front(), rig.now());
        rig.pass(1000);
    }
    const auto state = rig.state(1);
    REQUIRE(state.windows_size() > 0);
    CHECK(state.windows(state.windows_size() - 1).number() > first + 3000);
    REQUIRE(rig.heard.size() == 2);
    CHECK(rig.heard[1].find("set forward by 3600 s: 359") != std::string::npos);
    CHECK(rig.heard[1].find(" windows that it has passed over are skipped") != std::string::npos);
    CHECK(rig.stream.describe(rig.now().steady).late() == 0);
}

TEST_CASE("R3: a receiver that begins again opens all that members knew of before, and skips none of it") {
    Rig rig(after(kFirst - 3), {known(1, kFirst - 4), known(2, kFirst - 4)});
    Stream::Follow one = Rig::says(1, {kFirst - 2});
    one.knows = {kFirst - 2, kFirst - 1, kFirst};
    REQUIRE(rig.follow(one).ok());
    REQUIRE(rig.follow(Rig::says(2, {kFirst - 2})).ok());
    // It has gone on before it has heard of this receiver's windows.
    one.keeps = {kFirst - 2, kFirst - 1};
    REQUIRE(rig.follow(one).ok());
    const auto state = rig.state(1);
    REQUIRE(state.windows_size() > 3);
    for (int i = 0; i < 3; ++i) {
        CHECK(state.windows(i).number() == kFirst - 2 + static_cast<std::uint64_t>(i));
    }
    one.knows.assign(Stream::kMostKnown + 1, kFirst);
    CHECK(rig.follow(one).error().code() == Errc::kInput);
    one.knows = {kFirst + 100};
    CHECK(rig.follow(one).error().code() == Errc::kInput);
}

TEST_CASE("an application that does not open what it was asked for is asked again") {
    Rig rig(waits_for(1));
    REQUIRE(rig.follow(Rig::says(1)).ok());
    REQUIRE(rig.due.size() == 1);
    rig.pass(4000);
    rig.pass(1500);
    CHECK(std::ranges::count(rig.due, kFirst, &v1::WindowDue::number) == 2);
}

TEST_CASE("another host's clock is told by the tightest of what its answers say") {
    ClockOffset clock;
    clock.add(1000, 3000, 9000);
    CHECK(clock.ms() == 7000);
    CHECK(clock.error_ms() == 1000);
    clock.add(4000, 4010, 11005);
    CHECK(clock.ms() == 7000);
    CHECK(clock.error_ms() == 5);
    // Held back, and said at its end: no worse than before.
    clock.add(5000, 7000, 14001);
    CHECK(clock.error_ms() <= 5);
    // One of the two was set.
    clock.add(8000, 8010, 1005);
    CHECK(clock.ms() == -7000);
}
