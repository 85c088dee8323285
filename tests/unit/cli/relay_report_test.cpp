// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/relay_report.h"

#include <chrono>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/runtime.h"
#include "tools/cli/relay_questions.h"

using namespace ask;
using namespace ask::cli;

namespace {

std::vector<RelayAnswer> answers() {
    v1::RelayStatus busy;
    busy.set_name("r1");
    v1::RelayedTask& task = *busy.add_relays();
    task.set_task_id("hits");
    task.set_instance(0xff00000000000001U);
    task.set_receiver("198.18.5.2:4791");
    task.set_parent("198.18.129.2:4791");
    task.set_state("receiving");
    task.set_senders(1200);
    task.set_senders_joined(1100);
    task.set_senders_finished(7);
    task.set_parts(3);
    task.set_reserve_bytes(std::uint64_t{64} << 20U);
    task.set_table_bytes_most(std::uint64_t{3} << 19U);
    task.set_waits_for("relay s1 waits for h5");
    v1::RelayedTask& lost = *busy.add_relays();
    lost.set_task_id("lost");
    lost.set_state("failed");
    lost.set_error("2 of 3 senders joined within 8 s");
    return {{"s1", "198.18.129.2:4793", busy},
            {"s2", "198.18.130.2:4793", Error(Errc::kUnavailable, "the relay at 198.18.130.2:4793 is away")}};
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a relay's tasks are listed with who has joined, what they took, and what they wait for") {
    const std::string text = relay_tasks_text(answers());
    CHECK_MESSAGE(has(text, "s1     hits"), text);
    CHECK_MESSAGE(has(text, "1,100 of 1,200"), text);
    CHECK_MESSAGE(has(text, "1.5 MiB of 64.0 MiB"), text);
    CHECK_MESSAGE(has(text, "relay s1 waits for h5"), text);
    CHECK_MESSAGE(has(text, "2 of 3 senders joined within 8 s"), text);
    CHECK_MESSAGE(text.ends_with("the relay at 198.18.130.2:4793 is away\n"), text);
    CHECK(relay_tasks_text({}) == "no tasks\n");
}

TEST_CASE("a relay that was asked by its address alone is called as it calls itself") {
    std::vector<RelayAnswer> one = answers();
    one.front().name.clear();
    CHECK(has(relay_tasks_text(one), "r1     hits"));
}

TEST_CASE("relays' tasks as JSON have an error where one does not answer") {
    const Json all = relay_tasks_json(answers());
    REQUIRE(all.size() == 2);
    CHECK(all[0]["relay"] == "s1");
    CHECK(all[0]["tasks"][0]["instance"] == "0xff00000000000001");
    CHECK(all[0]["tasks"][0]["senders_joined"] == 1100);
    CHECK(all[0]["tasks"][0]["waits_for"] == "relay s1 waits for h5");
    CHECK(all[1]["error"] == "the relay at 198.18.130.2:4793 is away");
}

TEST_CASE("relays are asked all at once, and answer in their order") {
    constexpr std::size_t kRelays = 7;
    v1::ControllerStatus status;
    for (std::size_t i = 0; i < kRelays; ++i) {
        v1::ControllerSwitch& each = *status.add_switches();
        each.set_name("s" + std::to_string(i));
        each.set_relay(std::to_string(i));
    }
    status.add_switches()->set_name("without");
    Mutex mutex;
    CondVar changed;
    std::size_t asked = 0;
    // None answers before all have been asked.
    const auto all =
        ask_relays(relays_of(status), [&](const std::string& address) -> Result<v1::RelayStatus> {
            Lock lock(mutex);
            ++asked;
            changed.notify_all();
            if (!changed.wait_for(lock, std::chrono::seconds(60), [&] { return asked == kRelays; })) {
                return Error(Errc::kDeadline, "one after the other");
            }
            v1::RelayStatus answer;
            answer.set_name("r" + address);
            return answer;
        });
    REQUIRE(all.size() == kRelays);
    for (std::size_t i = 0; i < kRelays; ++i) {
        REQUIRE(all[i].status.ok());
        CHECK(all[i].status->name() == "r" + std::to_string(i));
        CHECK(all[i].name == "s" + std::to_string(i));
    }
    CHECK(ask_relays({}, {}).empty());
}
