// SPDX-License-Identifier: Apache-2.0
//
// The simulator could not find what these tests are about: its model of the agents had no mark check.
#include "lib/control/receive/mark_watch.h"

#include <doctest/doctest.h>

namespace ask {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kDeadline{10};
const MarkWatch::Time kStart{seconds(1000)};

TEST_CASE("a short reroute is no trouble once right packets come again") {
    MarkWatch watch;
    watch.note(kStart, 100, 0);
    watch.note(kStart + seconds(1), 100, 3);
    CHECK(watch.only_bad());
    watch.note(kStart + seconds(2), 105, 3);
    CHECK_FALSE(watch.only_bad());
    // Nothing comes for long: an idle input, not a wrong path.
    for (int i = 3; i < 60; ++i) {
        watch.note(kStart + seconds(i), 105, 3);
        CHECK_FALSE(watch.persists(kDeadline));
    }
}

TEST_CASE("a stray packet and then silence do not persist") {
    MarkWatch watch;
    watch.note(kStart, 8, 1);
    watch.note(kStart + seconds(1), 8, 2);
    for (int i = 2; i < 60; ++i) {
        watch.note(kStart + seconds(i), 8, 2);
        CHECK_FALSE(watch.persists(kDeadline));
    }
}

TEST_CASE("only wrong marks for a whole deadline do, and a right one begins anew") {
    MarkWatch watch;
    watch.note(kStart, 8, 0);
    for (int i = 1; i <= 10; ++i) {
        watch.note(kStart + seconds(i), 8, static_cast<std::uint64_t>(i));
        CHECK_FALSE(watch.persists(kDeadline));
    }
    MarkWatch saved = watch;
    saved.note(kStart + seconds(11), 9, 11);
    for (int i = 12; i <= 21; ++i) {
        saved.note(kStart + seconds(i), 9, static_cast<std::uint64_t>(i));
        CHECK_FALSE(saved.persists(kDeadline));
    }
    watch.note(kStart + seconds(11), 8, 11);
    CHECK(watch.persists(kDeadline));
}

TEST_CASE("packets that pass another of the task's switches are not said to go round the switch") {
    CHECK(strays_text(3, 0) == "its packets go round the switch (3 came without its mark)");
    CHECK(strays_text(0, 2) ==
          "its packets pass another of the task's switches (2 came with that one's mark)");
    CHECK(strays_text(3, 2) ==
          "its packets go round the switch (3 came without its mark), or pass another of the task's switches "
          "(2 came with that one's mark)");
}

}  // namespace
}  // namespace ask
