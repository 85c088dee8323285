// SPDX-License-Identifier: Apache-2.0
#include "lib/text/suggest.h"

#include <doctest/doctest.h>

using ask::closest_name;
using ask::edit_distance;
using ask::suggestion;

TEST_CASE("an edit is a letter more, less or other, or two that changed places") {
    CHECK(edit_distance("", "") == 0);
    CHECK(edit_distance("task", "task") == 0);
    CHECK(edit_distance("taks", "task") == 1);
    CHECK(edit_distance("tasks", "task") == 1);
    CHECK(edit_distance("task", "mask") == 1);
    CHECK(edit_distance("", "abc") == 3);
    CHECK(edit_distance("senders", "sedners") == 1);
    CHECK(edit_distance("kitten", "sitting") == 3);
}

TEST_CASE("the closest name, if one is close") {
    const std::vector<std::string> names{"task", "to", "count", "stats", "deadline", "merge-window"};
    CHECK(closest_name("taks", names) == "task");
    CHECK(closest_name("deadlin", names) == "deadline");
    CHECK(closest_name("merge_window", names) == "merge-window");
    CHECK(closest_name("frobnicate", names).empty());
    CHECK(closest_name("x", names).empty());
    CHECK(closest_name("", names).empty());
    CHECK(closest_name(std::string(65, 'a'), {std::string(65, 'a')}).empty());
    CHECK(closest_name("task", {}).empty());
}

TEST_CASE("a suggestion reads as the end of a message") {
    CHECK(suggestion("taks", {"task"}, "--") == ": did you mean --task?");
    CHECK(suggestion("nothing-like-it", {"task"}, "--").empty());
}
