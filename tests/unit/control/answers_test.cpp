// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include <doctest/doctest.h>

#include "lib/base/runtime.h"
#include "lib/control/member/answer_watch.h"

using namespace ask;
using namespace std::chrono_literals;

namespace {

constexpr Clock::time_point kStart{1000s};

// Looks every so often until then: when it was found to hang; the last look if it was not.
Clock::time_point look_on(AnswerWatch& watch, Clock::time_point from, Clock::time_point until,
                          milliseconds every) {
    for (auto now = from; now <= until; now += every) {
        watch.look(now);
        if (watch.hangs()) {
            return now;
        }
    }
    return until;
}

}  // namespace

TEST_CASE("an application has half of a task's deadline to answer, and two seconds at least") {
    CHECK(AnswerWatch::patience_of(30s) == 15s);
    CHECK(AnswerWatch::patience_of(4s) == 2s);
    CHECK(AnswerWatch::patience_of(1s) == 2s);
}

TEST_CASE("who was asked and says nothing hangs, and who says anything does not") {
    AnswerWatch watch(3s);
    // It was not asked.
    look_on(watch, kStart, kStart + 1h, 500ms);
    CHECK_FALSE(watch.hangs());
    const auto asked = kStart + 2h;
    CHECK(watch.ask(asked));
    look_on(watch, asked, asked + 3s, 500ms);
    CHECK_FALSE(watch.hangs());
    // To be asked again is no new beginning.
    CHECK(watch.ask(asked + 3s));
    CHECK(look_on(watch, asked + 3s, asked + 1h, 500ms) == asked + 3500ms);
    watch.answered();
    CHECK_FALSE(watch.hangs());
    look_on(watch, asked + 4s, asked + 1h, 500ms);
    CHECK_FALSE(watch.hangs());
    // What was waited for the answer before counts no more.
    CHECK(watch.ask(asked + 1h));
    CHECK(look_on(watch, asked + 1h, asked + 2h, 500ms) == asked + 1h + 3500ms);
}

TEST_CASE("who has answered is not asked again at once") {
    AnswerWatch watch(3s);
    CHECK(watch.ask(kStart));
    watch.answered();
    CHECK_FALSE(watch.ask(kStart + 999ms));
    look_on(watch, kStart, kStart + 1h, 500ms);
    CHECK_FALSE(watch.hangs());
    CHECK(watch.ask(kStart + 1s));
}

TEST_CASE("time in which the agent was stopped is nobody's silence") {
    AnswerWatch watch(3s);
    watch.ask(kStart);
    watch.look(kStart + 500ms);
    // An hour later it looks again, and once it has looked the application has as long as before, but a
    // second.
    watch.look(kStart + 1h);
    CHECK_FALSE(watch.hangs());
    CHECK(look_on(watch, kStart + 1h, kStart + 2h, 500ms) == kStart + 1h + 2s);
}
