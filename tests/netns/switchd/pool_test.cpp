// SPDX-License-Identifier: Apache-2.0
//
// Tables of back levels that are kept for the next task, in the kernel: the same map, blank, and none of it
// left behind by a daemon that dies.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include <doctest/doctest.h>

#include "lib/bpf/map.h"
#include "lib/bpf/object.h"
#include "lib/tuples/back.h"
#include "tests/netns/switchd/daemon.h"
#include "tests/netns/switchd/one_flow.h"
#include "tests/support/patience.h"

namespace {

using ask::test::Daemon;
using ask::test::kInstance;
using ask::test::must;

constexpr std::uint64_t kKeys = 100'000;

ask::v1::OpenTaskRequest request() {
    ask::v1::OpenTaskRequest open = ask::test::task_request("words", kInstance);
    open.mutable_back()->add_keys(kKeys);
    return open;
}

std::uint64_t buckets() {
    return ask::back_for({kKeys})[ASK_BACK_8];
}

struct Table {
    std::uint32_t id = 0;
    ask::bpf::ArrayView<ask_back8> view;
};

// Of the task that is open.
Table table() {
    const auto fd = ask::bpf::open_pinned(std::string(ask::test::kPins) + "/tasks/by-name/@/words/back8");
    REQUIRE_MESSAGE(fd.ok(), fd.error().text());
    auto view = ask::bpf::ArrayView<ask_back8>::map(fd->get(), buckets());
    REQUIRE(view.ok());
    return {.id = ask::bpf::map_info(fd->get())->id, .view = *std::move(view)};
}

bool exists(std::uint32_t map) {
    const ask::UniqueFd fd(bpf_map_get_fd_by_id(map));
    return bool(fd);
}

// The kernel frees maps in the background.
bool goes(std::uint32_t map) {
    const auto give_up_at = std::chrono::steady_clock::now() + ask::test::patience(std::chrono::seconds(10));
    while (exists(map) && std::chrono::steady_clock::now() < give_up_at) {
        std::this_thread::yield();
    }
    return !exists(map);
}

// As if programs had filled it to its last bucket.
void fill(const Table& table) {
    for (ask_back8& bucket : table.view.span()) {
        std::ranges::fill(bucket.key, 0x6b6579);
        std::ranges::fill(bucket.value, ASK_BACK_WORD(7));
    }
}

bool is_blank(const Table& table) {
    const auto bytes = std::as_bytes(table.view.span());
    return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

}  // namespace

TEST_CASE("a back level's table becomes the next task's, blank to its last bucket") {
    Daemon daemon;
    std::set<std::uint32_t> maps;
    for (unsigned round = 0; round < 3; ++round) {
        ask::v1::OpenTaskReply opened;
        must(daemon.open_task(request(), &opened));
        CHECK(opened.back_bytes() == ask::back_bytes(ask::back_for({kKeys})));
        {
            const Table own = table();
            maps.insert(own.id);
            CHECK(is_blank(own));
            fill(own);
        }
        must(daemon.close_task(kInstance));
        const ask::v1::SwitchStatus status = daemon.status();
        CHECK(status.back_used_bytes() == 0);
        CHECK(status.back_kept_bytes() == opened.back_bytes());
    }
    CHECK(maps.size() == 1);
}

TEST_CASE("what is kept goes with its daemon, and a successor begins with none") {
    std::uint32_t map = 0;
    Daemon first;
    must(first.open_task(request()));
    map = table().id;
    must(first.close_task(kInstance));
    CHECK(first.status().back_kept_bytes() != 0);
    CHECK(exists(map));
    CHECK(first.end(SIGKILL) == 128 + SIGKILL);
    CHECK(goes(map));
    Daemon second;
    CHECK(second.status().back_kept_bytes() == 0);
    must(second.open_task(request()));
    CHECK(is_blank(table()));
}
