// SPDX-License-Identifier: Apache-2.0
//
// The programs that take DATA: one for regions of any size, others for one size each.
#include <linux/bpf.h>

#include <csignal>
#include <map>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "lib/abi/consts.h"
#include "tests/netns/switchd/daemon.h"
#include "tests/netns/switchd/one_flow.h"
#include "tests/netns/switchd/packet.h"

namespace {

using ask::test::Daemon;
using ask::test::Entries;
using ask::test::fetched;
using ask::test::kInstance;
using ask::test::must;
using ask::test::must_run;
using ask::test::send_one;
using ask::test::task_request;

constexpr unsigned kSized = ASK_SERVICE_PROGRAMS - 1;

// Places of programs for one size that are pinned.
unsigned sized_programs() {
    const std::string paths = ask::test::pinned_paths();
    unsigned count = 0;
    for (std::size_t at = 0; (at = paths.find("/maps/regions_", at)) != std::string::npos; ++at) {
        ++count;
    }
    return count;
}

// How many open tasks have each program.
std::map<unsigned, unsigned> tasks_by_program() {
    std::map<unsigned, unsigned> tasks;
    const auto dump = nlohmann::json::parse(
        must_run(std::string(ASK_TEST_BPFTOOL) + " -j map dump pinned " + ask::test::kPins + "/maps/tasks"));
    for (const auto& entry : dump) {
        const auto& task = entry.at("formatted").at("value");
        if (task.at("instance").get<std::uint64_t>() != 0) {
            ++tasks[task.at("program").get<unsigned>()];
        }
    }
    return tasks;
}

void open(Daemon& daemon, std::uint64_t instance, std::uint32_t aggregators) {
    auto request = task_request("task" + std::to_string(instance), instance);
    request.set_aggregators(aggregators);
    ask::v1::OpenTaskReply reply;
    must(daemon.open_task(request, &reply));
    CHECK(reply.aggregators() == aggregators);
}

}  // namespace

TEST_CASE("tasks whose regions are of one size share a program, which stays for the next") {
    Daemon daemon;
    open(daemon, 1, 64);
    open(daemon, 2, 64);
    open(daemon, 3, 65);
    CHECK(sized_programs() == 2);
    CHECK((tasks_by_program() == std::map<unsigned, unsigned>{{1, 2}, {2, 1}}));
    for (const std::uint64_t instance : {1U, 2U, 3U}) {
        must(daemon.close_task(instance));
    }
    CHECK(sized_programs() == 2);
    open(daemon, 4, 65);
    CHECK((tasks_by_program() == std::map<unsigned, unsigned>{{2, 1}}));
    CHECK(sized_programs() == 2);
}

TEST_CASE("programs for the smallest regions are there from the start, once, and make way for others") {
    Daemon first("--memory shared --prepared-programs 2");
    CHECK(sized_programs() == 2);
    const std::string paths = ask::test::pinned_paths();
    CHECK(paths.find("/maps/regions_1_2048") != std::string::npos);
    CHECK(paths.find("/maps/regions_2_4096") != std::string::npos);
    CHECK(first.end(SIGKILL) == 128 + SIGKILL);
    Daemon second("--memory shared --prepared-programs 2");
    CHECK(sized_programs() == 2);
    CHECK(second.log().find("loaded a program") == std::string::npos);
    for (unsigned i = 1; i <= kSized; ++i) {
        open(second, i, i);
    }
    CHECK(!tasks_by_program().contains(0));
    CHECK(sized_programs() == kSized);
}

TEST_CASE("more sizes than programs: the others take the one for any size, and the answer is the same") {
    Daemon daemon;
    for (unsigned i = 1; i <= kSized; ++i) {
        open(daemon, i, i);
    }
    CHECK(sized_programs() == kSized);
    auto request = task_request("words", kInstance);
    request.set_aggregators(100);
    ask::test::open_and_join(daemon, request);
    CHECK(tasks_by_program().at(0) == 1);
    CHECK(send_one(1, "word", 5) == XDP_TX);
    CHECK(send_one(2, "word", 6) == XDP_TX);
    CHECK((fetched(daemon) == Entries{{"word", 11}}));
    must(daemon.close_task(kInstance));

    // The one that has been without tasks for longest gives way to a new size.
    must(daemon.close_task(3));
    must(daemon.close_task(2));
    open(daemon, 1000, 1000);
    CHECK(sized_programs() == kSized);
    const auto tasks = tasks_by_program();
    CHECK(!tasks.contains(0));
    CHECK(tasks.at(2) == 1);
    CHECK(!tasks.contains(3));
}

TEST_CASE("a successor adopts programs and their tasks, and undoes what is half made") {
    Daemon first;
    ask::test::open_and_join(first, task_request("words", kInstance));
    CHECK(send_one(1, "word", 5) == XDP_TX);
    CHECK(first.end(SIGKILL) == 128 + SIGKILL);
    const std::string half_made = std::string(ask::test::kPins) + "/maps/regions_7_77";
    must_run(std::string(ASK_TEST_BPFTOOL) + " map create " + half_made +
             " type array key 4 value 4 entries 1 name half_made");
    CHECK(sized_programs() == 2);
    Daemon second;
    CHECK(sized_programs() == 1);
    CHECK(send_one(2, "word", 6) == XDP_TX);
    CHECK((fetched(second) == Entries{{"word", 11}}));
    auto request = task_request("other", kInstance + 1);
    must(second.open_task(request));
    CHECK(tasks_by_program().at(1) == 2);
    CHECK(second.log().find("loaded a program") == std::string::npos);
}

TEST_CASE("a task whose program was taken away is closed by the successor, and its size gets a new one") {
    Daemon first;
    open(first, 1, 64);
    CHECK(first.end(SIGKILL) == 128 + SIGKILL);
    must_run(std::string(ASK_TEST_BPFTOOL) + " map delete pinned " + ask::test::kPins +
             "/maps/data_programs key 1 0 0 0");
    Daemon second;
    CHECK(second.status().tasks_size() == 0);
    CHECK(sized_programs() == 0);
    open(second, 1, 64);
    CHECK((tasks_by_program() == std::map<unsigned, unsigned>{{1, 1}}));
}
